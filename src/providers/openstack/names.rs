//! What objects are called, and how they carry whose they are.
//!
//! Names are those of the service before us, to the letter, so that what it made is found and adopted. A name says which
//! resource an object is for, but not which of its lives: that is written beside it, into a description or a tag, as
//! `incarnation=<uuid>`. An object without that was made by the service before us, or by hand, and is adopted; one with
//! another incarnation is another resource's, and is left alone.

use uuid::Uuid;

use crate::model::ids::{
    IdentityId, Incarnation, Key, Kind, LoadBalancerId, NetworkId, OrganizationId, ProjectId, SecurityGroupId, ServerId,
};

/// The key pair that servers without a certificate authority accept; each principal's user has one of this name.
pub const KEY_PAIR: &str = "unikorn-openstack-provider";

/// The same, where the users of all principals are one.
#[must_use]
pub fn shared_key_pair(id: IdentityId) -> String {
    format!("{KEY_PAIR}-{id}")
}

pub const NETWORK_DESCRIPTION: &str = "unikorn managed provider network";
pub const RULE_DESCRIPTION: &str = "unikorn managed security group rule";
pub const CREDENTIAL_DESCRIPTION: &str = "IaaS lifecycle management";

pub const PRINCIPAL_PREFIX: &str = "unikorn-identity-";
pub const NETWORK_PREFIX: &str = "network-";
pub const SECURITY_GROUP_PREFIX: &str = "securitygroup-";
pub const SERVER_PORT_PREFIX: &str = "server-";
pub const LOAD_BALANCER_PREFIX: &str = "lb-";

/// Of the project, the user, the application credential and the server group of a principal.
#[must_use]
pub fn principal(id: IdentityId) -> String {
    format!("{PRINCIPAL_PREFIX}{id}")
}

/// Of a network, its subnet and its router.
#[must_use]
pub fn network(id: NetworkId) -> String {
    format!("{NETWORK_PREFIX}{id}")
}

#[must_use]
pub fn security_group(id: SecurityGroupId) -> String {
    format!("{SECURITY_GROUP_PREFIX}{id}")
}

/// Of a server's port. The server itself has the name that its user gave it.
#[must_use]
pub fn server_port(id: ServerId) -> String {
    format!("{SERVER_PORT_PREFIX}{id}")
}

#[must_use]
pub fn load_balancer(id: LoadBalancerId) -> String {
    format!("{LOAD_BALANCER_PREFIX}{id}")
}

/// Of what belongs to a listener: `listener`, `pool` or `monitor`.
#[must_use]
pub fn of_listener(id: LoadBalancerId, listener: &str, part: &str) -> String {
    format!("{LOAD_BALANCER_PREFIX}{id}-{listener}-{part}")
}

/// The resource that a name is for.
#[must_use]
pub fn id_in(name: &str, prefix: &str) -> Option<Uuid> {
    name.strip_prefix(prefix).and_then(|rest| crate::model::ids::parse_uuid(rest).ok())
}

/// What takes away, by hand, what is named after a resource; `domain` is where principals are made. Servers and volumes
/// have names that their users gave them.
#[must_use]
pub fn removal(key: Key, domain: Option<&str>) -> Option<String> {
    let (id, domain) = (key.id, domain.unwrap_or("<domain>"));
    Some(match key.kind {
        Kind::Identity => {
            let name = format!("{PRINCIPAL_PREFIX}{id}");
            format!("openstack user delete --domain {domain} {name}; openstack project delete --domain {domain} {name}")
        }
        Kind::Network => {
            let name = format!("{NETWORK_PREFIX}{id}");
            format!(
                "openstack router remove subnet {name} {name}; openstack router delete {name}; \
                 openstack network delete {name}"
            )
        }
        Kind::SecurityGroup => format!("openstack security group delete {SECURITY_GROUP_PREFIX}{id}"),
        Kind::LoadBalancer => format!("openstack loadbalancer delete --cascade {LOAD_BALANCER_PREFIX}{id}"),
        Kind::Image => format!("openstack image delete {id}"),
        _ => return None,
    })
}

/// Whose a project is, for people who look into the cloud.
#[must_use]
pub fn project_tags(organization: OrganizationId, project: ProjectId) -> [String; 2] {
    [format!("organization={organization}"), format!("project={project}")]
}

const MARK: &str = "incarnation=";

/// As a tag, or as a whole description.
#[must_use]
pub fn mark(incarnation: Incarnation) -> String {
    format!("{MARK}{incarnation}")
}

/// A description for people, with the mark behind it.
#[must_use]
pub fn described(text: &str, incarnation: Incarnation) -> String {
    format!("{text} ({})", mark(incarnation))
}

/// The incarnation that a description or a tag says.
#[must_use]
pub fn incarnation_in(text: &str) -> Option<Incarnation> {
    let (_, rest) = text.split_once(MARK)?;
    crate::model::ids::parse_uuid(rest.get(..36)?).ok().map(Incarnation)
}

/// Whose an object of the right name is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    Ours,
    /// Nobody has said; it is to be marked.
    Unmarked,
    /// Another life's.
    Another,
}

impl Claim {
    #[must_use]
    pub fn of(marked: Option<Incarnation>, ours: Incarnation) -> Self {
        match marked {
            None => Self::Unmarked,
            Some(marked) if marked == ours => Self::Ours,
            Some(_) => Self::Another,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_service_before_and_say_what_they_are_for() {
        let id = Uuid::from_u128(7);
        assert_eq!(principal(IdentityId(id)), format!("unikorn-identity-{id}"));
        assert_eq!(network(NetworkId(id)), format!("network-{id}"));
        assert_eq!(security_group(SecurityGroupId(id)), format!("securitygroup-{id}"));
        assert_eq!(server_port(ServerId(id)), format!("server-{id}"));
        assert_eq!(of_listener(LoadBalancerId(id), "web", "pool"), format!("lb-{id}-web-pool"));
        assert_eq!(id_in(&network(NetworkId(id)), NETWORK_PREFIX), Some(id));
        assert_eq!(id_in("network-mine", NETWORK_PREFIX), None);
        assert_eq!(id_in("public", NETWORK_PREFIX), None);
    }

    #[test]
    fn what_takes_something_away_names_it() {
        let id = Uuid::from_u128(7);
        let command = |kind, domain| removal(Key::new(kind, id), domain).unwrap_or_default();
        let group = format!("openstack security group delete {}", security_group(SecurityGroupId(id)));
        assert_eq!(command(Kind::SecurityGroup, None), group);
        let principal = principal(IdentityId(id));
        assert!(
            command(Kind::Identity, Some("d")).ends_with(&format!("openstack project delete --domain d {principal}"))
        );
        assert_eq!(command(Kind::Server, None), "", "its name is its user's");
    }

    #[test]
    fn an_incarnation_is_read_where_it_was_written() {
        let ours = Incarnation(Uuid::from_u128(1));
        let other = Incarnation(Uuid::from_u128(2));
        assert_eq!(incarnation_in(&described(NETWORK_DESCRIPTION, ours)), Some(ours));
        assert_eq!(incarnation_in(&mark(ours)), Some(ours));
        assert_eq!(incarnation_in(NETWORK_DESCRIPTION), None);
        assert_eq!(incarnation_in("incarnation=mine"), None);
        assert_eq!(Claim::of(None, ours), Claim::Unmarked);
        assert_eq!(Claim::of(Some(other), ours), Claim::Another);
    }
}
