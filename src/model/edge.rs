//! The edges of the lifecycle graph, as they are stored.
//!
//! ```text
//!   owner       child ──▶ parent   delete goes parent → child; the child blocks its parent
//!   reference   holder ──▶ target  delete does not travel; the holder blocks the target
//!   gate        waiter ──▶ target  neither; the waiter acts once the target is available
//! ```
//!
//! An owner edge is the `owner` of a record's metadata; a gate follows from a kind's specification. A reference
//! is a row of its own, because its holder may live in another service.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::ids::{Key, Kind, parse_uuid};

/// Who blocks a target's deletion: a resource of ours, or one of another service known only by its wire name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Holder {
    Resource(Key),
    External(ExternalHolder),
}

/// `<plural>.<group>/<uuid>` of a service that is not us.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ExternalHolder {
    plural_group: String,
    id: Uuid,
}

/// The text is not `<plural>.<group>/<uuid>`.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("a reference is written <plural>.<group>/<id>, with lower-case DNS labels and a UUID")]
pub struct MalformedReference;

impl fmt::Display for Holder {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Resource(key) => write!(formatter, "{}/{}", key.kind.plural_group(), key.id),
            Self::External(external) => write!(formatter, "{}/{}", external.plural_group, external.id),
        }
    }
}

impl FromStr for Holder {
    type Err = MalformedReference;

    fn from_str(text: &str) -> Result<Self, MalformedReference> {
        let (plural_group, id) = text.split_once('/').ok_or(MalformedReference)?;
        let id = parse_uuid(id).map_err(|_| MalformedReference)?;
        let plural_group = present_name(plural_group);
        if let Some(kind) = Kind::ALL.into_iter().find(|kind| kind.plural_group() == plural_group) {
            return Ok(Self::Resource(Key::new(kind, id)));
        }
        // A DNS name of at least plural and a two-label group, so that it cannot be taken for a finalizer of ours.
        let labels = plural_group.split('.').collect::<Vec<_>>();
        if labels.len() < 3 || plural_group.len() > 253 || !labels.into_iter().all(is_dns_label) {
            return Err(MalformedReference);
        }
        Ok(Self::External(ExternalHolder { plural_group, id }))
    }
}

/// What a kind is called now, from what it may have been called: who takes a reference under one name gives it back
/// under the other.
fn present_name(plural_group: &str) -> String {
    match plural_group.split_once('.') {
        Some((plural, "unikorn-cloud.org")) => format!("{plural}.kubernetes.unikorn-cloud.org"),
        Some(("instances", group @ "compute.unikorn-cloud.org")) => format!("computeinstances.{group}"),
        _ => plural_group.to_owned(),
    }
}

fn is_dns_label(label: &str) -> bool {
    let inner = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=63).contains(&label.len()) && label.bytes().all(inner) && !label.starts_with('-') && !label.ends_with('-')
}

impl Serialize for Holder {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Holder {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reference_reads_back_from_its_wire_form() {
        let id = Uuid::from_u128(9);
        let ours = Holder::Resource(Key::new(Kind::Network, id));
        assert_eq!(ours.to_string().parse::<Holder>(), Ok(ours));
        let theirs: Holder = format!("computeinstances.compute.example.org/{id}").parse().expect("well formed");
        assert_eq!(theirs.to_string().parse::<Holder>(), Ok(theirs));
    }

    #[test]
    fn b41_a_holder_is_the_same_under_its_former_name() {
        let id = Uuid::from_u128(9);
        for (former, present) in [
            ("instances.compute.unikorn-cloud.org", "computeinstances.compute.unikorn-cloud.org"),
            ("kubernetesclusters.unikorn-cloud.org", "kubernetesclusters.kubernetes.unikorn-cloud.org"),
        ] {
            let read = |plural_group: &str| format!("{plural_group}/{id}").parse::<Holder>().expect("well formed");
            assert_eq!(read(former), read(present));
            assert_eq!(read(former).to_string(), format!("{present}/{id}"));
        }
    }

    #[test]
    fn b41_a_reference_cannot_be_an_arbitrary_string() {
        let id = Uuid::from_u128(9);
        for bad in ["unikorn", "foregroundDeletion", "a/b", "/", ""] {
            assert_eq!(bad.parse::<Holder>(), Err(MalformedReference), "{bad}");
        }
        for bad in [format!("unikorn/{id}"), format!("A.b.c/{id}"), format!("a..c/{id}"), format!("a.b.c/{id}/x")] {
            assert_eq!(bad.parse::<Holder>(), Err(MalformedReference), "{bad}");
        }
    }
}
