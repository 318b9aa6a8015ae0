//! A region's way to its cloud, made when it is first used and again when what it was made of changes.
//!
//! Nothing is dialled and no file is read when a region is equipped: one whose files are missing is a region whose calls
//! fail, and it works as soon as they are there.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use super::credentials::{Credentials, Keyring, Stamp, stamp};
use super::principals::Principal;
use super::transport::{CallError, Client, Cloud, Login, Scope, Selection};
use crate::model::ids::ProviderProjectId;
use crate::model::openstack::{Interface, OpenstackSettings};

/// In whose name a call is made, and where.
#[derive(Clone, Debug)]
pub enum Acting {
    /// The service account, in the domain that principals are made in: projects, users and roles.
    Manager,
    /// The service account, in its own project: what the cloud offers to everybody.
    Observer,
    /// The service account, in the project of a principal: networks, quotas, and whatever tenants may not do.
    Steward(ProviderProjectId),
    /// A principal, in its project: what a tenant may do.
    Principal(Arc<Principal>),
    /// A principal's user with a password that is known for one pass.
    User(Arc<Login>),
}

impl Acting {
    /// A word for it, for telling reads apart: what one may see another may not.
    #[must_use]
    pub fn place(&self) -> String {
        match self {
            Self::Manager => "domain".to_owned(),
            Self::Observer => "own".to_owned(),
            Self::Steward(project) => project.0.clone(),
            Self::Principal(principal) => format!("{} as principal", principal.project.0),
            Self::User(login) => format!("{:?} as user", login.scope),
        }
    }

    /// Is it a project that may have vanished, so that a refused log-in says so?
    #[must_use]
    pub const fn is_of_principal(&self) -> bool {
        matches!(self, Self::Steward(_) | Self::Principal(_))
    }
}

/// What the credentials say beside who the account is.
pub struct Said {
    pub names_domain: bool,
    pub region: Option<String>,
    pub interface: Interface,
}

pub struct Connection {
    settings: OpenstackSettings,
    keyring: Keyring,
    made: Mutex<Option<(Making, Arc<Cloud>)>>,
}

/// What a way is made of.
#[derive(Clone, PartialEq, Eq)]
struct Making {
    endpoint: String,
    selection: Selection,
    authority: Option<(PathBuf, Stamp)>,
}

impl Connection {
    #[must_use]
    pub fn new(settings: OpenstackSettings) -> Self {
        let keyring = Keyring::new(settings.credentials.clone());
        Self { settings, keyring, made: Mutex::default() }
    }

    /// A client that acts so.
    pub fn client(&self, acting: &Acting) -> Result<Client, CallError> {
        let credentials = self.keyring.current()?;
        let cloud = self.cloud(&credentials)?;
        let login = match acting {
            Acting::Manager => credentials.to_domain(self.settings.identity.domain.as_deref())?,
            Acting::Observer => credentials.to_own_project()?,
            Acting::Steward(project) => credentials.to_project(project, self.settings.isolation)?,
            Acting::Principal(principal) => match principal.login() {
                Some(login) => login,
                None => credentials.to_project(&principal.project, self.settings.isolation)?,
            },
            Acting::User(login) => login.as_ref().clone(),
        };
        Ok(Client::new(cloud, login))
    }

    /// A client for what needs no log-in.
    pub fn nowhere(&self) -> Result<Client, CallError> {
        let credentials = self.keyring.current()?;
        let login = Login { proof: credentials.proof.clone(), scope: Scope::OfCredential };
        Ok(Client::new(self.cloud(&credentials)?, login))
    }

    /// What the credentials say, once they can be read.
    pub fn said(&self) -> Result<Said, CallError> {
        let credentials = self.keyring.current()?;
        let Selection { region, interface } = self.making(&credentials)?.selection;
        Ok(Said { names_domain: credentials.domain.is_some(), region, interface })
    }

    /// The settings come first, then what a `clouds.yaml` says.
    fn making(&self, credentials: &Credentials) -> Result<Making, CallError> {
        let endpoint = self.settings.endpoint.clone().or_else(|| credentials.endpoint.clone());
        let endpoint = endpoint.ok_or_else(|| CallError::Credentials("no endpoint is known".to_owned()))?;
        let region = self.settings.region_name.clone().or_else(|| credentials.region_name.clone());
        let interface = self.settings.interface.or(credentials.interface).unwrap_or_default();
        let file = self.settings.ca_file.as_ref().map(PathBuf::from).or_else(|| credentials.ca_file.clone());
        let authority = file.map(|path| (path.clone(), stamp(&path)));
        Ok(Making { endpoint, selection: Selection { region, interface }, authority })
    }

    fn cloud(&self, credentials: &Credentials) -> Result<Arc<Cloud>, CallError> {
        let making = self.making(credentials)?;
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, cloud)) = made.as_ref().filter(|(of, _)| *of == making) {
            return Ok(Arc::clone(cloud));
        }
        let unreadable = |path: &PathBuf| CallError::Credentials(format!("{} cannot be read", path.display()));
        let authority = making.authority.as_ref().map(|(path, _)| std::fs::read(path).map_err(|_| unreadable(path)));
        let authority = authority.transpose()?;
        let cloud = Cloud::new(&making.endpoint, making.selection.clone(), authority.as_deref())
            .map_err(|error| CallError::Credentials(error.to_string()))?;
        let cloud = Arc::new(cloud);
        *made = Some((making, Arc::clone(&cloud)));
        Ok(cloud)
    }
}
