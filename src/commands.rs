//! The commands that are over as soon as they are done.

mod orphans;
mod region_check;

use std::path::PathBuf;
use std::time::Duration;

use crate::bootstrap::envelope_key::{self, EnvelopeKeyError};
use crate::bootstrap::{files, token_requests};
use crate::command_line::{BackupArguments, NewTokenArguments, RestoreArguments};
use crate::identity::secret::{NoRandomness, random_secret};
use crate::model::ambient::Ambient;
use crate::model::ids::{TokenId, UserId};
use crate::model::member::is_subject;
use crate::model::token::{BearerToken, BoundTo};
use crate::store::embedded::{BackupError, backup_folder, restore as restore_folder};

pub use orphans::orphans;
pub use region_check::{Checked, region_check};

/// A server looks every second; one that has not looked by then is not running.
const SERVER_PATIENCE: Duration = Duration::from_secs(5);

#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    #[error("{} is no data folder: start a server on it first, or name another with --data-dir", .0.display())]
    NoFolder(PathBuf),
    #[error("a subject is 1 to 254 visible ASCII characters")]
    Subject,
    #[error("{} cannot be read or written", .path.display())]
    File { path: PathBuf, source: std::io::Error },
    #[error("{} exists already", .0.display())]
    Exists(PathBuf),
    #[error(transparent)]
    Secret(#[from] NoRandomness),
    #[error(transparent)]
    Backup(#[from] BackupError),
    #[error(transparent)]
    EnvelopeKey(#[from] EnvelopeKeyError),
    #[error("{0} is no address")]
    Address(String),
    #[error("the server did not answer as it should")]
    Server(#[from] reqwest::Error),
    #[error("no clouds.yaml is where one is looked for: name it with --clouds-file")]
    NoCloudsFile,
    #[error("this binary was built without the feature `{0}`: build it with `cargo build --release --features {0}`")]
    NotBuiltIn(&'static str),
    #[cfg(feature = "openstack")]
    #[error(transparent)]
    NotAsked(#[from] crate::providers::openstack::check::NotAsked),
}

/// What to print: the answer, and a remark for people.
pub struct Done {
    pub answer: String,
    pub remark: String,
}

pub async fn new_token(arguments: &NewTokenArguments) -> Result<Done, CommandError> {
    let directory = &arguments.data.data_dir;
    if !directory.is_dir() {
        return Err(CommandError::NoFolder(directory.clone()));
    }
    let (subject, bound_to) = holder(arguments);
    if !is_subject(&subject) {
        return Err(CommandError::Subject);
    }
    let ambient = Ambient::system();
    let expires = arguments.days.map(|days| ambient.now() + Duration::from_hours(24) * days);
    let token = BearerToken::new(TokenId(ambient.uuid()), &random_secret()?);
    let spec = token.spec(&subject, bound_to, expires);
    let path = token_requests::leave(directory, &token, &spec)
        .map_err(|source| CommandError::File { path: directory.clone(), source })?;
    let remark = if token_requests::taken(&path, SERVER_PATIENCE).await {
        match bound_to {
            BoundTo::User(_) => "the server has taken it; unless its log says that there is no such user, it works now",
            _ => "the server knows it now",
        }
    } else {
        "no server is running on this folder; the token will be good once one is started"
    };
    Ok(Done { answer: token.reveal(), remark: remark.to_owned() })
}

/// Who is named by the token, and whose rights it has.
fn holder(arguments: &NewTokenArguments) -> (String, BoundTo) {
    match (&arguments.user, arguments.organization, arguments.service) {
        (Some(user), Some(organization), _) => (user.clone(), UserId::of(organization, user).into()),
        (_, _, Some(service)) => {
            let named = arguments.subject.clone();
            (named.unwrap_or_else(|| service.role().word().to_owned()), service.role().into())
        }
        _ => {
            let named = arguments.subject.clone();
            (named.unwrap_or_else(|| "operator".to_owned()), arguments.role.role().into())
        }
    }
}

pub fn backup(arguments: &BackupArguments) -> Result<Done, CommandError> {
    if let Some(taken) = arguments.key_to.as_ref().filter(|to| to.exists()) {
        return Err(CommandError::Exists(taken.clone()));
    }
    backup_folder(&arguments.data.data_dir, &arguments.to)?;
    let mut remark = "it does not hold the envelope key, which opens its secrets; see --key-to".to_owned();
    if let Some(to) = &arguments.key_to {
        let key = envelope_key::path(&arguments.data.data_dir);
        copy_private(&key, to)?;
        remark = format!("the envelope key is in {}; keep the two apart", to.display());
    }
    Ok(Done { answer: arguments.to.display().to_string(), remark })
}

pub fn restore(arguments: &RestoreArguments) -> Result<Done, CommandError> {
    let directory = &arguments.data.data_dir;
    let at = |source| CommandError::File { path: directory.clone(), source };
    // Before the store makes it, so that it is its owner's alone.
    files::ensure_directory(directory).map_err(at)?;
    restore_folder(&arguments.from, directory)?;
    let mut remark = "without its envelope key, secrets in it will be issued anew; see --key-from".to_owned();
    if let Some(from) = &arguments.key_from {
        copy_private(from, &envelope_key::path(directory))?;
        envelope_key::load_or_create(directory)?;
        "with its envelope key".clone_into(&mut remark);
    }
    Ok(Done { answer: directory.display().to_string(), remark })
}

fn copy_private(from: &std::path::Path, to: &std::path::Path) -> Result<(), CommandError> {
    let at = |path: &std::path::Path| {
        let path = path.to_owned();
        move |source| CommandError::File { path, source }
    };
    if to.exists() {
        return Err(CommandError::Exists(to.to_owned()));
    }
    let missing = || std::io::Error::from(std::io::ErrorKind::NotFound);
    let bytes = files::read_if_present(from).and_then(|bytes| bytes.ok_or_else(missing)).map_err(at(from))?;
    files::replace_private(to, &bytes).map_err(at(to))
}
