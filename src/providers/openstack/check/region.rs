//! A region as the configuration file takes it, to be pasted.

use super::facts::Facts;
use super::report::isolation;
use crate::model::ids::RegionId;
use crate::model::metadata::{NAME_LEN_MAX, is_name};
use crate::model::openstack::{Interface, Isolation, OpenstackIdentitySettings};

/// What a region is called whose cloud has a name that no region can have.
const NAME_DEFAULT: &str = "openstack";

/// The text. What is as usual is left out; what somebody has to decide is there as a comment.
#[must_use]
pub fn written(facts: &Facts, id: RegionId) -> String {
    let mut lines = vec!["[[regions]]".to_owned(), setting("id", &id.to_string()), setting("name", &name(facts))];
    lines.push("[regions.openstack]".to_owned());
    lines.extend(facts.region.as_ref().map(|region| setting("regionName", region)));
    lines.extend((facts.interface != Interface::default()).then(|| setting("interface", facts.interface.word())));
    let (file, cloud) = (text(&facts.entry.file), text(&facts.entry.cloud));
    lines.push(format!("credentials = {{ cloudsYaml = {{ file = {file}, cloud = {cloud} }} }}"));
    lines.extend(kept_apart(facts));
    lines.extend(network(facts));
    lines.extend(compute(facts));
    lines.extend(block_storage(facts));
    lines.push(String::new());
    lines.join("\n")
}

fn setting(key: &str, value: &str) -> String {
    format!("{key} = {}", text(value))
}

/// Quoted, whatever is in it.
fn text(value: &str) -> String {
    toml::Value::String(value.to_owned()).to_string()
}

fn texts<'a>(values: impl Iterator<Item = &'a str>) -> String {
    format!("[{}]", values.map(text).collect::<Vec<_>>().join(", "))
}

/// After the cloud, as far as a region can be called that.
fn name(facts: &Facts) -> String {
    let allowed = |letter: char| if letter.is_ascii_alphanumeric() || "-_.".contains(letter) { letter } else { '-' };
    let name = facts.entry.cloud.chars().map(allowed).take(NAME_LEN_MAX).collect::<String>();
    let name = name.trim_matches(['-', '_', '.']).to_owned();
    if is_name(&name) { name } else { NAME_DEFAULT.to_owned() }
}

fn kept_apart(facts: &Facts) -> Vec<String> {
    if isolation(facts) == Isolation::Project {
        let remark = "# weaker: all tenants lie in one project, and nothing but names keeps them apart";
        return vec![format!("{}  {remark}", setting("isolation", Isolation::Project.word()))];
    }
    let mut lines = vec!["[regions.openstack.identity]".to_owned()];
    let domain = facts.manager.yes().filter(|_| !facts.names_domain);
    lines.extend(domain.map(|manager| setting("domain", &manager.place)));
    let roles = OpenstackIdentitySettings::default().cluster_roles;
    let known = roles.iter().filter(|role| facts.trial.grants.contains_key(*role));
    lines.push(format!("clusterRoles = {}", texts(known.map(String::as_str))));
    lines
}

fn network(facts: &Facts) -> Vec<String> {
    let mut lines = vec!["[regions.openstack.network]".to_owned()];
    let networks = facts.offers.external_networks.yes().map(Vec::as_slice).unwrap_or_default();
    let ids = texts(networks.iter().map(|(id, _)| id.0.as_str()));
    let names = networks.iter().map(|(_, name)| name.as_str()).collect::<Vec<_>>().join(", ");
    lines.push(format!("externalNetworks = {{ ids = {ids} }}  # {}; the first one leads outside", one_line(&names)));
    if facts.sights.vlans.is_yes() {
        let vlans = "{ physicalNetwork = \"physnet1\", vlanSegments = [{ start = 100, end = 199 }] }";
        lines.push(format!("# providerNetworks = {vlans}  # for networks of VLANs that Regent chooses"));
    }
    lines
}

fn compute(facts: &Facts) -> Vec<String> {
    if !facts.sights.hosts.is_yes() {
        return Vec::new();
    }
    vec!["[regions.openstack.compute]".to_owned(), "placementPreflight = { enabled = true }".to_owned()]
}

fn block_storage(facts: &Facts) -> Vec<String> {
    let types = facts.offers.volume_types.yes().map(Vec::as_slice).unwrap_or_default();
    let is_known = |(id, _): &&(String, String)| crate::model::ids::parse_uuid(id).is_ok();
    let types = types.iter().filter(is_known).collect::<Vec<_>>();
    if types.is_empty() {
        return Vec::new();
    }
    let names = types.iter().map(|(_, name)| name.as_str()).collect::<Vec<_>>().join(", ");
    let ids = texts(types.iter().map(|(id, _)| id.as_str()));
    let header = "[regions.openstack.blockStorage.volumeClasses]".to_owned();
    vec![header, format!("ids = {ids}  # {}", one_line(&names))]
}

/// As a comment, which ends with its line.
fn one_line(words: &str) -> String {
    words.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect()
}
