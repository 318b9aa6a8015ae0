//! The configuration file: which regions there are.
//!
//! ```toml
//! [[regions]]
//! id = "11111111-1111-4111-8111-111111111111"
//! name = "north"
//! description = "the first one"                                       # optional
//! organizations = ["22222222-2222-4222-8222-222222222222"]            # optional: private to these
//! tags = { tier = "gold" }                                            # optional
//! [regions.simulated]                                                 # or [regions.openstack], [regions.kubernetes]
//! providerNetworks = { physicalNetwork = "physnet1", vlanSegments = [{ start = 100, end = 199 }] }
//! ```
//!
//! A mistake is reported with its line and its rule, and nothing of the file is used: half a configuration would
//! withdraw the other half's regions.

pub mod regions;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use toml::Spanned;

use crate::model::ids::{OrganizationId, RegionId};
use crate::model::metadata::{DESCRIPTION_LEN_MAX, NAME_LEN_MAX, Tag, is_name};
use crate::model::region::{
    KubernetesSettings, OpenstackSettings, ProviderNetworks, ProviderSettings, RegionSpec, SimulatedSettings,
};

/// Each region has supervisors, a pool and a monitor of its own; this is beyond what one process should run, and far
/// beyond what is written by hand.
pub const REGIONS_MAX: usize = 256;

/// A region as the file says it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfiguredRegion {
    pub id: RegionId,
    pub name: String,
    pub description: Option<String>,
    pub tags: Option<Vec<Tag>>,
    pub spec: RegionSpec,
}

/// A whole file, found to be good.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Configuration {
    pub regions: Vec<ConfiguredRegion>,
}

#[derive(Debug, thiserror::Error)]
pub enum ConfigurationError {
    #[error("the configuration file {} cannot be read", .path.display())]
    Unreadable { path: PathBuf, source: std::io::Error },
    #[error("{}:{line}: {reason}", .path.display())]
    Invalid { path: PathBuf, line: usize, reason: String },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    regions: Vec<Spanned<Entry>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Entry {
    id: Spanned<String>,
    name: Spanned<String>,
    description: Option<Spanned<String>>,
    organizations: Option<Vec<Spanned<String>>>,
    tags: Option<BTreeMap<String, String>>,
    simulated: Option<Spanned<SimulatedSettings>>,
    openstack: Option<Spanned<OpenstackSettings>>,
    kubernetes: Option<Spanned<KubernetesSettings>>,
}

/// What is wrong, and at which byte.
struct Fault {
    at: usize,
    reason: String,
}

impl Fault {
    fn new<T>(place: &Spanned<T>, reason: impl Into<String>) -> Self {
        Self { at: place.span().start, reason: reason.into() }
    }
}

impl Configuration {
    pub fn read(path: &Path) -> Result<Self, ConfigurationError> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| ConfigurationError::Unreadable { path: path.to_owned(), source })?;
        Self::parse(&text, path)
    }

    pub fn parse(text: &str, path: &Path) -> Result<Self, ConfigurationError> {
        let invalid = |fault: Fault| ConfigurationError::Invalid {
            path: path.to_owned(),
            line: 1 + text.get(..fault.at).unwrap_or(text).matches('\n').count(),
            reason: fault.reason,
        };
        let file: File = toml::from_str(text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            invalid(Fault { at, reason: error.message().to_owned() })
        })?;
        let regions = accept_regions(file.regions).map_err(invalid)?;
        Ok(Self { regions })
    }
}

fn accept_regions(entries: Vec<Spanned<Entry>>) -> Result<Vec<ConfiguredRegion>, Fault> {
    if let Some(beyond) = entries.get(REGIONS_MAX) {
        return Err(Fault::new(beyond, format!("there can be at most {REGIONS_MAX} regions")));
    }
    let (mut ids, mut names) = (BTreeSet::new(), BTreeSet::new());
    let mut regions = Vec::new();
    for entry in entries {
        let (id_place, name_place) = (entry.get_ref().id.span().start, entry.get_ref().name.span().start);
        let region = accept_region(entry)?;
        if !ids.insert(region.id) {
            return Err(Fault { at: id_place, reason: "another region has this id".to_owned() });
        }
        if !names.insert(region.name.clone()) {
            return Err(Fault { at: name_place, reason: "another region has this name".to_owned() });
        }
        regions.push(region);
    }
    Ok(regions)
}

fn accept_region(entry: Spanned<Entry>) -> Result<ConfiguredRegion, Fault> {
    let at = entry.span().start;
    let entry = entry.into_inner();
    let id = entry.id.get_ref().parse().map_err(|_| Fault::new(&entry.id, "a region's id must be a UUID"))?;
    if !is_name(entry.name.get_ref()) {
        let rule =
            format!("a name is 1 to {NAME_LEN_MAX} letters, digits, '-', '_' or '.', with no punctuation at its ends");
        return Err(Fault::new(&entry.name, rule));
    }
    if let Some(description) = entry.description.as_ref().filter(|text| text.get_ref().len() > DESCRIPTION_LEN_MAX) {
        return Err(Fault::new(description, format!("a description has at most {DESCRIPTION_LEN_MAX} bytes")));
    }
    let organizations = entry.organizations.map(accept_organizations).transpose()?;
    let provider = accept_provider(entry.simulated, entry.openstack, entry.kubernetes, at)?;
    let tags = entry.tags.map(|tags| tags.into_iter().map(|(name, value)| Tag { name, value }).collect());
    Ok(ConfiguredRegion {
        id,
        name: entry.name.into_inner(),
        description: entry.description.map(Spanned::into_inner),
        tags,
        spec: RegionSpec { provider, organizations, withdrawn: false },
    })
}

fn accept_organizations(texts: Vec<Spanned<String>>) -> Result<Vec<OrganizationId>, Fault> {
    let rule = "an organization is named by its id, a UUID";
    texts.into_iter().map(|text| text.get_ref().parse().map_err(|_| Fault::new(&text, rule))).collect()
}

fn accept_provider(
    simulated: Option<Spanned<SimulatedSettings>>,
    openstack: Option<Spanned<OpenstackSettings>>,
    kubernetes: Option<Spanned<KubernetesSettings>>,
    at: usize,
) -> Result<ProviderSettings, Fault> {
    match (simulated, openstack, kubernetes) {
        (Some(settings), None, None) => {
            accept_networks(settings.get_ref().provider_networks.as_ref(), &settings)?;
            Ok(ProviderSettings::Simulated(settings.into_inner()))
        }
        (None, Some(settings), None) => {
            needs_feature(&settings, "openstack", cfg!(feature = "openstack"))?;
            accept_networks(settings.get_ref().network.provider_networks.as_ref(), &settings)?;
            settings.get_ref().validate().map_err(|invalid| Fault::new(&settings, invalid.to_string()))?;
            Ok(ProviderSettings::Openstack(Box::new(settings.into_inner())))
        }
        (None, None, Some(settings)) => {
            needs_feature(&settings, "kubernetes", cfg!(feature = "kubernetes"))?;
            Ok(ProviderSettings::Kubernetes(settings.into_inner()))
        }
        _ => Err(Fault {
            at,
            reason: "a region has exactly one of [regions.simulated], [regions.openstack], [regions.kubernetes]"
                .to_owned(),
        }),
    }
}

fn accept_networks<T>(networks: Option<&ProviderNetworks>, place: &Spanned<T>) -> Result<(), Fault> {
    match networks.map(ProviderNetworks::validate) {
        Some(Err(invalid)) => Err(Fault::new(place, invalid.to_string())),
        _ => Ok(()),
    }
}

fn needs_feature<T>(place: &Spanned<T>, name: &str, present: bool) -> Result<(), Fault> {
    if present {
        return Ok(());
    }
    Err(Fault::new(
        place,
        format!("this binary was built without the feature `{name}`; build it with --features {name}"),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"
[[regions]]
id = "11111111-1111-4111-8111-111111111111"
name = "north"
description = "first"
organizations = ["22222222-2222-4222-8222-222222222222"]
tags = { tier = "gold" }
[regions.simulated]
callDelayMs = 5
providerNetworks = { physicalNetwork = "physnet1", vlanSegments = [{ start = 100, end = 199 }] }

[[regions]]
id = "33333333-3333-4333-8333-333333333333"
name = "south"
[regions.simulated]
"#;

    fn parse(text: &str) -> Result<Configuration, String> {
        Configuration::parse(text, Path::new("regent.toml")).map_err(|error| error.to_string())
    }

    #[test]
    fn a_good_file_says_everything_of_its_regions() {
        let configuration = parse(GOOD).expect("good");
        let [north, south] = configuration.regions.as_slice() else { panic!("{configuration:?}") };
        assert_eq!(north.description.as_deref(), Some("first"));
        assert!(north.spec.has_physical_networks() && !south.spec.has_physical_networks());
        assert_eq!(north.spec.organizations.as_ref().map(Vec::len), Some(1));
        assert_eq!(south.tags, None);
        assert_eq!(parse("").expect("an empty file is good").regions, []);
    }

    #[test]
    fn a_mistake_is_reported_with_its_line_and_its_rule() {
        let faults = [
            ("11111111-1111-4111-8111-111111111111", "no-uuid", "regent.toml:3:", "UUID"),
            ("name = \"north\"", "name = \"no/rth\"", "regent.toml:4:", "a name is"),
            ("22222222-2222-4222-8222-222222222222", "x", "regent.toml:6:", "organization"),
            ("start = 100", "start = 300", "regent.toml:", "VLAN"),
            ("callDelayMs", "callDelay", "regent.toml:9:", "unknown field"),
            (
                "33333333-3333-4333-8333-333333333333",
                "11111111-1111-4111-8111-111111111111",
                "regent.toml:13:",
                "this id",
            ),
            ("\"south\"", "\"north\"", "regent.toml:14:", "this name"),
            ("name = \"south\"", "", "regent.toml:12:", "missing field"),
            ("name = \"south\"", "name = ", "regent.toml:14:", ""),
        ];
        for (old, new, line, rule) in faults {
            let text = GOOD.replacen(old, new, 1);
            assert_ne!(text, GOOD, "{old} is in the sample");
            let error = parse(&text).expect_err(old);
            assert!(error.starts_with(line) && error.contains(rule), "{old} → {new}: {error}");
        }
    }

    #[test]
    fn a_region_has_one_provider() {
        let twice = format!("{GOOD}\n[regions.kubernetes]\nkubeconfigFile = \"x\"\n");
        assert!(parse(&twice).expect_err("two").contains("exactly one"));
        let none = GOOD.rsplit_once("[regions.simulated]").expect("in the sample").0;
        assert!(parse(none).expect_err("none").contains("exactly one"));
    }

    #[cfg(not(feature = "openstack"))]
    #[test]
    fn a_provider_that_was_not_built_in_is_refused_by_name() {
        let text = GOOD.rsplit_once("[regions.simulated]").expect("in the sample").0;
        let text = format!("{text}[regions.openstack]\nendpoint = \"https://x\"\ncredentials = {{ file = \"f\" }}\n");
        let error = parse(&text).expect_err("not built in");
        assert!(error.contains("feature `openstack`"), "{error}");
    }
}
