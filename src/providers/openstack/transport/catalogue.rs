//! Where the services are: chosen from the catalogue by region and interface (B46), with the version pinned.
//!
//! The catalogue names a service's address with its version, without it, or with a project behind it, as whoever
//! installed the cloud liked. What is asked for is always the version that our endpoint types were made for: an address
//! that is a version off answers 404, which would look as if everything were gone.

use std::collections::BTreeMap;

use openstack_sdk_core::types::ServiceType;
use reqwest::Url;
use serde::Deserialize;

use crate::model::openstack::Interface;

/// Which of the catalogue's addresses are ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selection {
    pub region: Option<String>,
    pub interface: Interface,
}

#[derive(Clone, Debug, Deserialize)]
pub struct CatalogueEntry {
    #[serde(rename = "type")]
    pub service: String,
    #[serde(default)]
    pub endpoints: Vec<CatalogueEndpoint>,
}

#[derive(Clone, Debug, Deserialize)]
pub struct CatalogueEndpoint {
    pub interface: String,
    pub region_id: Option<String>,
    pub region: Option<String>,
    pub url: String,
}

/// A service that we speak to: its canonical name, those that older catalogues have, the version in its addresses, and
/// the microversion that we want where it has those.
struct Known {
    name: &'static str,
    aliases: &'static [&'static str],
    version: Option<&'static str>,
    microversion: Option<(u8, u8)>,
}

const KNOWN: [Known; 8] = [
    Known { name: "identity", aliases: &[], version: Some("v3"), microversion: None },
    Known { name: "compute", aliases: &[], version: Some("v2.1"), microversion: Some((2, 90)) },
    Known { name: "network", aliases: &[], version: Some("v2.0"), microversion: None },
    Known { name: "image", aliases: &[], version: Some("v2"), microversion: None },
    Known { name: "load-balancer", aliases: &[], version: Some("v2"), microversion: None },
    // 3.70 lets a volume's type be known by name and id; older is good enough.
    Known {
        name: "block-storage",
        aliases: &["volumev3", "volume", "block-store"],
        version: Some("v3"),
        microversion: Some((3, 70)),
    },
    Known { name: "placement", aliases: &[], version: None, microversion: Some((1, 22)) },
    Known { name: "baremetal", aliases: &[], version: Some("v1"), microversion: Some((1, 11)) },
];

/// The canonical name of a service, if we speak to it.
#[must_use]
pub fn canonical(word: &str) -> Option<&'static str> {
    KNOWN.iter().find(|known| known.name == word || known.aliases.contains(&word)).map(|known| known.name)
}

#[must_use]
pub fn name_of(service: &ServiceType) -> Option<&'static str> {
    canonical(&service.to_string())
}

/// The microversion that we want of a service, if it has those.
#[must_use]
pub fn wanted_microversion(name: &str) -> Option<(u8, u8)> {
    KNOWN.iter().find(|known| known.name == name).and_then(|known| known.microversion)
}

/// The address of every service that the catalogue has for us.
#[must_use]
pub fn endpoints(catalogue: &[CatalogueEntry], selection: &Selection) -> BTreeMap<&'static str, Url> {
    let mut found = BTreeMap::new();
    for known in &KNOWN {
        // The canonical name before the others, in their order: a catalogue may have the same service under several.
        let names = std::iter::once(&known.name).chain(known.aliases);
        let entries = names.flat_map(|name| catalogue.iter().filter(move |entry| entry.service == **name));
        let mut urls = entries.flat_map(|entry| &entry.endpoints).filter(|endpoint| is_ours(endpoint, selection));
        if let Some(url) = urls.find_map(|endpoint| pinned(&endpoint.url, known.version)) {
            found.insert(known.name, url);
        }
    }
    found
}

fn is_ours(endpoint: &CatalogueEndpoint, selection: &Selection) -> bool {
    let region = endpoint.region_id.as_ref().or(endpoint.region.as_ref());
    endpoint.interface == selection.interface.word()
        && selection.region.as_ref().is_none_or(|wanted| region == Some(wanted))
}

/// The address up to and with the version, whatever stood behind it.
pub(super) fn pinned(url: &str, version: Option<&str>) -> Option<Url> {
    let mut url = Url::parse(url).ok().filter(|url| matches!(url.scheme(), "http" | "https"))?;
    url.set_query(None);
    let segments = url.path_segments()?.filter(|segment| !segment.is_empty()).map(str::to_owned).collect::<Vec<_>>();
    let before = segments.iter().take_while(|segment| version.is_none() || !is_version(segment)).cloned();
    let path = before.chain(version.map(str::to_owned)).chain([String::new()]).collect::<Vec<_>>();
    url.set_path(&path.join("/"));
    Some(url)
}

fn is_version(segment: &str) -> bool {
    let number = segment.strip_prefix('v').unwrap_or_default();
    !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
}

/// What a service's version document says: the range that it takes.
#[derive(Debug, Deserialize)]
pub(super) struct VersionDocument {
    version: Option<VersionLine>,
    #[serde(default)]
    versions: Vec<VersionLine>,
}

#[derive(Debug, Deserialize)]
struct VersionLine {
    #[serde(default)]
    id: String,
    #[serde(alias = "version")]
    max_version: Option<String>,
    min_version: Option<String>,
}

/// The lowest and the highest microversion that a service takes.
pub type VersionRange = ((u8, u8), (u8, u8));

impl VersionDocument {
    fn line(&self, major: u8) -> Option<&VersionLine> {
        let of_major = |line: &&VersionLine| line.id.starts_with(&format!("v{major}"));
        self.version.iter().chain(&self.versions).find(of_major)
    }

    /// What the service calls this version of itself.
    pub(super) fn id(&self, major: u8) -> Option<String> {
        self.line(major).map(|line| line.id.clone())
    }

    pub(super) fn range(&self, major: u8) -> Option<VersionRange> {
        let line = self.line(major)?;
        Some((parse(line.min_version.as_deref()?)?, parse(line.max_version.as_deref()?)?))
    }

    /// The microversion to speak: the one that we want, or the highest that there is if that is older.
    pub(super) fn negotiated(&self, major: u8, wanted: (u8, u8)) -> Option<(u8, u8)> {
        let (min, max) = self.range(major)?;
        (min <= wanted || min <= max).then(|| wanted.min(max).max(min))
    }
}

fn parse(text: &str) -> Option<(u8, u8)> {
    let (major, minor) = text.split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn catalogue() -> Vec<CatalogueEntry> {
        let entry = |service: &str, lines: &[(&str, &str, &str)]| CatalogueEntry {
            service: service.to_owned(),
            endpoints: lines
                .iter()
                .map(|(region, interface, url)| CatalogueEndpoint {
                    interface: (*interface).to_owned(),
                    region_id: Some((*region).to_owned()),
                    region: None,
                    url: (*url).to_owned(),
                })
                .collect(),
        };
        vec![
            entry(
                "compute",
                &[
                    ("one", "public", "https://one.example/compute/v2.1"),
                    ("two", "internal", "https://inside.example:8774/v2.1/abc"),
                    ("two", "public", "https://two.example/compute"),
                ],
            ),
            entry("volumev3", &[("two", "public", "https://two.example:8776/v3/0123456789abcdef")]),
            entry("placement", &[("two", "public", "https://two.example/placement")]),
            entry("object-store", &[("two", "public", "https://two.example/swift/v1")]),
        ]
    }

    fn selected(region: Option<&str>, interface: Interface) -> BTreeMap<&'static str, String> {
        let selection = Selection { region: region.map(str::to_owned), interface };
        endpoints(&catalogue(), &selection).into_iter().map(|(name, url)| (name, url.to_string())).collect()
    }

    #[test]
    fn b46_the_endpoint_is_that_of_the_region_and_the_interface() {
        assert_eq!(selected(Some("one"), Interface::Public)["compute"], "https://one.example/compute/v2.1/");
        let two = selected(Some("two"), Interface::Public);
        assert_eq!(two["compute"], "https://two.example/compute/v2.1/");
        assert_eq!(two["block-storage"], "https://two.example:8776/v3/");
        assert_eq!(two["placement"], "https://two.example/placement/");
        assert_eq!(two.len(), 3);
        assert_eq!(selected(Some("two"), Interface::Internal)["compute"], "https://inside.example:8774/v2.1/");
        assert_eq!(selected(Some("three"), Interface::Public), BTreeMap::new());
        assert_eq!(selected(None, Interface::Public)["compute"], "https://one.example/compute/v2.1/");
    }

    #[test]
    fn the_microversion_is_the_one_that_we_want_or_the_newest_that_there_is() {
        let document = |min: &str, max: &str| {
            let text = serde_json::json!({ "version": { "id": "v2.1", "min_version": min, "version": max } });
            serde_json::from_value::<VersionDocument>(text).expect("a document")
        };
        assert_eq!(document("2.1", "2.104").negotiated(2, (2, 90)), Some((2, 90)));
        assert_eq!(document("2.1", "2.79").negotiated(2, (2, 90)), Some((2, 79)));
        assert_eq!(document("2.95", "2.104").negotiated(2, (2, 90)), Some((2, 95)));
        assert_eq!(document("", "").negotiated(2, (2, 90)), None);
        let several = serde_json::json!({ "versions": [
            { "id": "v2.0", "min_version": "", "version": "" },
            { "id": "v3.0", "min_version": "3.0", "version": "3.71" },
        ]});
        let several = serde_json::from_value::<VersionDocument>(several).expect("a document");
        assert_eq!(several.negotiated(3, (3, 70)), Some((3, 70)));
    }
}
