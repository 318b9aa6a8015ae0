//! `regent region check`: can this cloud be a region?

use std::path::{Path, PathBuf};

use super::CommandError;
use crate::command_line::RegionCheckArguments;

/// What to print, and whether the cloud can be one.
pub struct Checked {
    /// The report, for people.
    pub remark: String,
    /// The region, to be pasted; nothing if there can be none.
    pub answer: Option<String>,
}

#[cfg(feature = "openstack")]
pub async fn region_check(arguments: &RegionCheckArguments) -> Result<Checked, CommandError> {
    use crate::model::ambient::Ambient;
    use crate::model::openstack::CloudsYaml;
    use crate::providers::openstack::check::check;

    let file = clouds_file(arguments, |name| std::env::var_os(name).map(PathBuf::from), Path::is_file)?;
    // A server that is started elsewhere is to find it, too.
    let file = std::path::absolute(&file).map_err(|source| CommandError::File { path: file.clone(), source })?;
    let entry = CloudsYaml { file: file.display().to_string(), cloud: arguments.cloud.clone() };
    let outcome = check(entry, Ambient::system()).await?;
    let mut lines = outcome.lines.iter().map(ToString::to_string).collect::<Vec<_>>();
    lines.push(verdict(outcome.region.is_some()).to_owned());
    Ok(Checked { remark: lines.join("\n"), answer: outcome.region })
}

#[cfg(not(feature = "openstack"))]
pub async fn region_check(arguments: &RegionCheckArguments) -> Result<Checked, CommandError> {
    // That there is a file is as well to know.
    clouds_file(arguments, |name| std::env::var_os(name).map(PathBuf::from), Path::is_file)?;
    Err(CommandError::NotBuiltIn("openstack"))
}

#[cfg(feature = "openstack")]
const fn verdict(is_usable: bool) -> &'static str {
    if is_usable {
        "the cloud can be a region; what follows goes into the file of --config:"
    } else {
        "the cloud cannot be a region: see what is missing"
    }
}

/// The file that is named, or the first there is of those that everybody looks for.
fn clouds_file(
    arguments: &RegionCheckArguments,
    variable: impl Fn(&str) -> Option<PathBuf>,
    exists: impl Fn(&Path) -> bool,
) -> Result<PathBuf, CommandError> {
    if let Some(named) = arguments.clouds_file.clone().or_else(|| variable("OS_CLIENT_CONFIG_FILE")) {
        return Ok(named);
    }
    let home = variable("HOME").map(|home| home.join(".config/openstack/clouds.yaml"));
    let places = [Some(PathBuf::from("clouds.yaml")), home, Some(PathBuf::from("/etc/openstack/clouds.yaml"))];
    places.into_iter().flatten().find(|place| exists(place)).ok_or(CommandError::NoCloudsFile)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_the_one_that_is_named_or_the_first_of_the_usual_ones() {
        let found = |named: Option<&str>, variables: &[(&str, &str)], there: &[&str]| {
            let arguments = RegionCheckArguments { cloud: "north".to_owned(), clouds_file: named.map(PathBuf::from) };
            let variable =
                |name: &str| variables.iter().find(|(other, _)| *other == name).map(|(_, value)| PathBuf::from(value));
            clouds_file(&arguments, variable, |path| there.contains(&path.to_str().expect("text"))).ok()
        };
        let home = ("HOME", "/home/x");
        let all = ["clouds.yaml", "/home/x/.config/openstack/clouds.yaml", "/etc/openstack/clouds.yaml"];
        assert_eq!(found(Some("mine"), &[("OS_CLIENT_CONFIG_FILE", "other"), home], &all), Some("mine".into()));
        assert_eq!(found(None, &[("OS_CLIENT_CONFIG_FILE", "other"), home], &all), Some("other".into()));
        for place in 0..all.len() {
            assert_eq!(found(None, &[home], &all[place..]), Some(all[place].into()));
        }
        assert_eq!(found(None, &[home], &[]), None);
    }
}
