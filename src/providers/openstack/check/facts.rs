//! What was found out of a cloud. No secret is among it.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::ids::ProviderExternalNetworkId;
use crate::model::openstack::{CloudsYaml, Interface};
use crate::providers::openstack::transport::VersionRange;
use crate::providers::{ProviderError, ProviderResult};

/// What became of a question.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Answer<T = ()> {
    /// Something that it needs was not there.
    #[default]
    NotAsked,
    Yes(T),
    /// The cloud does not let us.
    Refused,
    /// In the cloud's words.
    Failed(String),
}

impl<T> Answer<T> {
    pub const fn yes(&self) -> Option<&T> {
        match self {
            Self::Yes(value) => Some(value),
            Self::NotAsked | Self::Refused | Self::Failed(_) => None,
        }
    }

    pub const fn is_yes(&self) -> bool {
        self.yes().is_some()
    }

    /// Why it is not a yes.
    pub fn reason(&self) -> String {
        match self {
            Self::NotAsked => "could not be asked".to_owned(),
            Self::Yes(_) => String::new(),
            Self::Refused => "refused".to_owned(),
            Self::Failed(words) => words.clone(),
        }
    }
}

impl<T> From<ProviderResult<T>> for Answer<T> {
    fn from(result: ProviderResult<T>) -> Self {
        match result {
            Ok(value) => Self::Yes(value),
            Err(ProviderError::Unauthorized | ProviderError::PrincipalMissing) => Self::Refused,
            Err(error) => Self::Failed(error.to_string()),
        }
    }
}

#[derive(Clone, Debug)]
pub struct Facts {
    pub entry: CloudsYaml,
    /// Which of the catalogue's addresses the entry asks for.
    pub region: Option<String>,
    pub interface: Interface,
    /// Does the entry say in which domain principals are made?
    pub names_domain: bool,
    /// Its version.
    pub keystone: Answer<String>,
    /// In its own project.
    pub account: Answer<Standing>,
    /// In the domain.
    pub manager: Answer<Standing>,
    pub services: BTreeMap<&'static str, ServiceFact>,
    /// Those that the cloud knows, by name.
    pub roles: Answer<BTreeSet<String>>,
    pub trial: Trial,
    pub sights: Sights,
    pub offers: Offers,
}

/// Who the account is somewhere.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    pub user: String,
    /// The id of the project or the domain.
    pub place: String,
    /// The domain that the user lies in.
    pub home: Option<String>,
    pub roles: Vec<String>,
}

impl Standing {
    pub fn is(&self, role: &str) -> bool {
        self.roles.iter().any(|name| name == role)
    }
}

#[derive(Clone, Debug, Default)]
pub struct ServiceFact {
    /// It has an address in the region, on the interface.
    pub is_here: bool,
    /// Where else it has one, as `region interface`.
    pub elsewhere: BTreeSet<String>,
    pub versions: Answer<VersionRange>,
}

/// What a project and a user that were made for it have shown.
#[derive(Clone, Debug, Default)]
pub struct Trial {
    pub project: Answer,
    pub user: Answer,
    /// By the role that was given.
    pub grants: BTreeMap<String, Answer>,
    /// Was the account let into the project?
    pub entry: Answer,
    /// By the service whose quotas were lifted.
    pub quotas: BTreeMap<&'static str, Answer>,
    /// The commands that take away what could not be taken away.
    pub left: Vec<String>,
}

/// What the account may see, and do, from its own project.
#[derive(Clone, Debug, Default)]
pub struct Sights {
    pub servers: Answer,
    pub networks: Answer,
    pub load_balancers: Answer,
    pub hosts: Answer,
    /// Networks of VLANs that we choose.
    pub vlans: Answer,
}

#[derive(Clone, Debug, Default)]
pub struct Offers {
    pub external_networks: Answer<Vec<(ProviderExternalNetworkId, String)>>,
    /// Id and name.
    pub volume_types: Answer<Vec<(String, String)>>,
    pub flavors: Answer<usize>,
    pub images: Answer<usize>,
}
