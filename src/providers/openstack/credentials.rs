//! The service account's credentials: read where the region says, and again when they change there.
//!
//! Nothing of them is stored. A file that has changed and makes no sense is reported, and what was read before goes on
//! being used: half a rotation should not take the region away.

use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use yaml_rust2::{Yaml, YamlLoader};

use super::transport::{CallError, Login, Proof, Reference, Scope, Secret};
use crate::model::ids::ProviderProjectId;
use crate::model::openstack::{CloudsYaml, CredentialSource, Interface, Isolation};

/// How often it is looked whether the files have changed: soon enough for a rotation, and no stat for each call.
const CHECKED_EVERY: Duration = Duration::from_secs(1);

/// The keys of a file, a folder or, with a prefix, of variables.
const KEYS: [&str; 4] = ["domain-id", "user-id", "password", "project-id"];

/// What lets us in, and what a `clouds.yaml` says beside it.
#[derive(Clone, Debug)]
pub struct Credentials {
    pub proof: Proof,
    /// The domain in which principals are made, if it is said.
    pub domain: Option<Reference>,
    /// The project from which the cloud's offers are looked at, if it is said. An application credential knows its own.
    pub project: Option<Reference>,
    pub endpoint: Option<String>,
    pub region_name: Option<String>,
    pub interface: Option<Interface>,
    pub ca_file: Option<PathBuf>,
}

/// Why there are no credentials. Names what is missing and where, and never what was there.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoCredentials {
    #[error("{} cannot be read", .0.display())]
    Unreadable(PathBuf),
    #[error("{} makes no sense", .0.display())]
    Malformed(PathBuf),
    #[error("{0} is missing")]
    Missing(String),
    #[error("the cloud {0} is not in the clouds.yaml")]
    NoSuchCloud(String),
    #[error(
        "an application credential is bound to one project, and cannot make others: a password is needed, or the \
         weaker isolation = \"project\""
    )]
    Bound,
}

impl From<NoCredentials> for CallError {
    fn from(error: NoCredentials) -> Self {
        Self::Credentials(error.to_string())
    }
}

impl Credentials {
    /// To the domain that principals are made in.
    pub fn to_domain(&self, configured: Option<&str>) -> Result<Login, NoCredentials> {
        if matches!(self.proof, Proof::ApplicationCredential { .. }) {
            return Err(NoCredentials::Bound);
        }
        let domain = configured.map(|id| Reference::Id(id.to_owned())).or_else(|| self.domain.clone());
        let domain = domain.ok_or_else(|| NoCredentials::Missing("the domain".to_owned()))?;
        Ok(Login { proof: self.proof.clone(), scope: Scope::Domain(domain) })
    }

    /// To the account's own project.
    pub fn to_own_project(&self) -> Result<Login, NoCredentials> {
        let scope = match (&self.proof, &self.project) {
            (Proof::ApplicationCredential { .. }, _) => Scope::OfCredential,
            (_, Some(project)) => Scope::Project(project.clone()),
            (_, None) => return Err(NoCredentials::Missing("the project".to_owned())),
        };
        Ok(Login { proof: self.proof.clone(), scope })
    }

    /// To the project of a principal. Where all of them share one, an application credential is in it already; anywhere
    /// else it would look for things where they are not.
    pub fn to_project(&self, project: &ProviderProjectId, isolation: Isolation) -> Result<Login, NoCredentials> {
        let scope = match (&self.proof, isolation) {
            (Proof::ApplicationCredential { .. }, Isolation::Project) => Scope::OfCredential,
            (Proof::ApplicationCredential { .. }, Isolation::Principal) => return Err(NoCredentials::Bound),
            (Proof::Password { .. }, _) => Scope::project(project),
        };
        Ok(Login { proof: self.proof.clone(), scope })
    }
}

/// Where credentials come from, and what was read there last.
pub struct Keyring {
    source: CredentialSource,
    held: Mutex<Held>,
}

#[derive(Default)]
struct Held {
    checked: Option<Instant>,
    stamps: Vec<Stamp>,
    credentials: Option<Arc<Credentials>>,
}

/// Changes whenever a file does, also when another takes its place.
pub(super) type Stamp = Option<(i64, i64, u64, u64)>;

impl Keyring {
    #[must_use]
    pub fn new(source: CredentialSource) -> Self {
        Self { source, held: Mutex::default() }
    }

    /// The credentials as they are now.
    pub fn current(&self) -> Result<Arc<Credentials>, CallError> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        let is_fresh = held.checked.is_some_and(|checked| checked.elapsed() < CHECKED_EVERY);
        if let Some(credentials) = held.credentials.as_ref().filter(|_| is_fresh) {
            return Ok(Arc::clone(credentials));
        }
        let stamps = self.source.stamps();
        held.checked = Some(Instant::now());
        if let Some(credentials) = held.credentials.as_ref().filter(|_| held.stamps == stamps) {
            return Ok(Arc::clone(credentials));
        }
        match self.source.read() {
            Ok(credentials) => {
                if held.credentials.is_some() {
                    tracing::info!("the credentials of a region have changed and were read again");
                }
                let credentials = Arc::new(credentials);
                held.stamps = stamps;
                held.credentials = Some(Arc::clone(&credentials));
                Ok(credentials)
            }
            Err(error) => {
                held.stamps = stamps;
                tracing::warn!(%error, "the credentials of a region cannot be read");
                held.credentials.clone().ok_or_else(|| CallError::Credentials(error.to_string()))
            }
        }
    }
}

impl CredentialSource {
    fn files(&self) -> Vec<PathBuf> {
        match self {
            Self::File(path) => {
                let path = PathBuf::from(path);
                let inside = KEYS.iter().map(|key| path.join(key)).collect::<Vec<_>>();
                if path.is_dir() { inside } else { vec![path] }
            }
            Self::Environment(_) => Vec::new(),
            Self::CloudsYaml(entry) => vec![PathBuf::from(&entry.file)],
        }
    }

    fn stamps(&self) -> Vec<Stamp> {
        self.files().iter().map(|path| stamp(path)).collect()
    }

    fn read(&self) -> Result<Credentials, NoCredentials> {
        match self {
            Self::File(path) if Path::new(path).is_dir() => {
                let path = Path::new(path);
                plain(|key| std::fs::read_to_string(path.join(key)).ok().map(|text| text.trim_end().to_owned()), "")
            }
            Self::File(path) => {
                let path = PathBuf::from(path);
                let text = std::fs::read_to_string(&path).map_err(|_| NoCredentials::Unreadable(path.clone()))?;
                let table: BTreeMap<String, String> =
                    toml::from_str(&text).map_err(|_| NoCredentials::Malformed(path.clone()))?;
                plain(|key| table.get(key).cloned(), "")
            }
            Self::Environment(prefix) => plain(|key| std::env::var(variable(prefix, key)).ok(), prefix),
            Self::CloudsYaml(entry) => {
                let path = PathBuf::from(&entry.file);
                let text = std::fs::read_to_string(&path).map_err(|_| NoCredentials::Unreadable(path.clone()))?;
                of_clouds_yaml(&text, entry)
            }
        }
    }
}

fn variable(prefix: &str, key: &str) -> String {
    format!("{prefix}{}", key.to_uppercase().replace('-', "_"))
}

pub(super) fn stamp(path: &Path) -> Stamp {
    let metadata = std::fs::metadata(path).ok()?;
    Some((metadata.mtime(), metadata.mtime_nsec(), metadata.len(), metadata.ino()))
}

fn plain(value: impl Fn(&str) -> Option<String>, prefix: &str) -> Result<Credentials, NoCredentials> {
    let shown = |key: &str| if prefix.is_empty() { key.to_owned() } else { variable(prefix, key) };
    let needed =
        |key: &str| value(key).filter(|text| !text.is_empty()).ok_or_else(|| NoCredentials::Missing(shown(key)));
    let (user, password) = (Reference::Id(needed(KEYS[1])?), Secret::new(needed(KEYS[2])?));
    Ok(Credentials {
        proof: Proof::Password { user, password },
        domain: value(KEYS[0]).filter(|text| !text.is_empty()).map(Reference::Id),
        project: Some(Reference::Id(needed(KEYS[3])?)),
        endpoint: None,
        region_name: None,
        interface: None,
        ca_file: None,
    })
}

fn of_clouds_yaml(text: &str, entry: &CloudsYaml) -> Result<Credentials, NoCredentials> {
    let malformed = || NoCredentials::Malformed(PathBuf::from(&entry.file));
    let documents = YamlLoader::load_from_str(text).map_err(|_| malformed())?;
    let cloud = &documents.first().ok_or_else(malformed)?["clouds"][entry.cloud.as_str()];
    if cloud.is_badvalue() {
        return Err(NoCredentials::NoSuchCloud(entry.cloud.clone()));
    }
    let auth = &cloud["auth"];
    let missing = |what: &str| NoCredentials::Missing(format!("auth.{what} of the cloud {}", entry.cloud));
    let domain_of = |kind: &str| named(auth, &format!("{kind}_domain_")).or_else(|| named(auth, "domain_"));
    let in_domain = |id: &str, name: &str, kind: &str| {
        let by_id = word(&auth[id]).map(Reference::Id);
        let by_name = || Some(Reference::NameIn(word(&auth[name])?, Box::new(domain_of(kind)?)));
        by_id.or_else(by_name)
    };
    let proof = if let Some(id) = word(&auth["application_credential_id"]) {
        let secret = word(&auth["application_credential_secret"]);
        let secret = Secret::new(secret.ok_or_else(|| missing("application_credential_secret"))?);
        Proof::ApplicationCredential { id, secret }
    } else {
        let user = in_domain("user_id", "username", "user").ok_or_else(|| missing("user_id"))?;
        Proof::Password { user, password: Secret::new(word(&auth["password"]).ok_or_else(|| missing("password"))?) }
    };
    Ok(Credentials {
        proof,
        // Principals are made in the domain that the entry names; failing that, in the user's own.
        domain: named(auth, "domain_").or_else(|| domain_of("user")),
        project: in_domain("project_id", "project_name", "project"),
        endpoint: Some(word(&auth["auth_url"]).ok_or_else(|| missing("auth_url"))?),
        region_name: word(&cloud["region_name"]),
        interface: word(&cloud["interface"]).and_then(|text| interface(&text)),
        ca_file: word(&cloud["cacert"]).map(PathBuf::from),
    })
}

/// `domain_id` or `domain_name`, and such.
fn named(auth: &Yaml, prefix: &str) -> Option<Reference> {
    let by_id = word(&auth[format!("{prefix}id").as_str()]).map(Reference::Id);
    by_id.or_else(|| word(&auth[format!("{prefix}name").as_str()]).map(Reference::Name))
}

/// A scalar, however YAML took it: an id of digits alone is read as a number.
fn word(value: &Yaml) -> Option<String> {
    match value {
        Yaml::String(text) | Yaml::Real(text) => Some(text.clone()),
        Yaml::Integer(number) => Some(number.to_string()),
        _ => None,
    }
}

fn interface(text: &str) -> Option<Interface> {
    match text.trim_end_matches("URL") {
        "public" => Some(Interface::Public),
        "internal" => Some(Interface::Internal),
        "admin" => Some(Interface::Admin),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "domain-id = \"d\"\nuser-id = \"u\"\npassword = \"hunter2\"\nproject-id = \"p\"\n";

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("regent-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        folder
    }

    fn password(credentials: &Credentials) -> &str {
        match &credentials.proof {
            Proof::Password { password, .. } => password.reveal(),
            Proof::ApplicationCredential { .. } => panic!("not a password"),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_has_changed_is_read_again_and_what_makes_no_sense_is_not_used() {
        let path = folder("credentials").join("account.toml");
        std::fs::write(&path, GOOD).expect("written");
        let keyring = Keyring::new(CredentialSource::File(path.to_string_lossy().into_owned()));
        assert_eq!(password(&keyring.current().expect("read")), "hunter2");
        for (text, expected) in
            [(GOOD.replace("hunter2", "hunter-three"), "hunter-three"), ("?".to_owned(), "hunter-three")]
        {
            std::fs::write(&path, text).expect("written");
            tokio::time::advance(CHECKED_EVERY * 2).await;
            assert_eq!(password(&keyring.current().expect("held")), expected);
        }
    }

    #[test]
    fn a_folder_has_a_file_for_each_key() {
        let folder = folder("folder");
        for (key, value) in KEYS.iter().zip(["d", "u", "hunter2\n", "p"]) {
            std::fs::write(folder.join(key), value).expect("written");
        }
        let source = CredentialSource::File(folder.to_string_lossy().into_owned());
        assert_eq!(password(&source.read().expect("read")), "hunter2");
        std::fs::remove_file(folder.join("user-id")).expect("removed");
        assert_eq!(source.read().expect_err("missing"), NoCredentials::Missing("user-id".to_owned()));
    }

    #[test]
    fn a_clouds_yaml_says_where_the_cloud_is_too() {
        let text = "
clouds:
  north:
    region_name: RegionOne
    interface: internal
    cacert: /etc/ca.pem
    auth:
      auth_url: https://keystone.example/v3
      username: regent
      user_domain_name: managed
      password: hunter2
      project_id: 0123
  bound:
    auth: { auth_url: x, application_credential_id: c, application_credential_secret: s }
";
        let entry = |cloud: &str| CloudsYaml { file: "f".to_owned(), cloud: cloud.to_owned() };
        let read = of_clouds_yaml(text, &entry("north")).expect("good");
        let managed = Reference::Name("managed".to_owned());
        let regent = Reference::NameIn("regent".to_owned(), Box::new(managed.clone()));
        assert!(matches!(&read.proof, Proof::Password { user, .. } if *user == regent));
        assert_eq!(read.domain, Some(managed));
        assert_eq!(read.region_name.as_deref(), Some("RegionOne"));
        assert_eq!(read.interface, Some(Interface::Internal));
        assert!(!format!("{read:?}").contains("hunter2"));
        let bound = of_clouds_yaml(text, &entry("bound")).expect("good for one project");
        assert_eq!(bound.to_domain(Some("d")).expect_err("bound"), NoCredentials::Bound);
        assert_eq!(bound.to_own_project().expect("its own").scope, Scope::OfCredential);
        let elsewhere = ProviderProjectId("p".to_owned());
        assert_eq!(bound.to_project(&elsewhere, Isolation::Principal).expect_err("bound"), NoCredentials::Bound);
        assert!(bound.to_project(&elsewhere, Isolation::Project).is_ok());
        let gone = of_clouds_yaml(text, &entry("south")).expect_err("gone");
        assert_eq!(gone, NoCredentials::NoSuchCloud("south".to_owned()));
    }
}
