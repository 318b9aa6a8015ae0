//! How somebody on the host gets a token while the server has the store locked.
//!
//! `regent token new` leaves the *hash* of a token that it has made in `token-requests/`; the server, which looks
//! there at its start and every second, puts it into the store and removes the file. The command waits for that.
//! Whoever can write into the folder could as well read the store and its key, so nothing is given away; and there
//! is one path whether or not the server runs. The alternatives are argued in `docs/decisions`.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::files;
use crate::model::ambient::Ambient;
use crate::model::ids::{Incarnation, TokenId, parse_uuid};
use crate::model::metadata::{Metadata, Placement};
use crate::model::record::Record;
use crate::model::token::{BearerToken, BoundTo, Token, TokenSpec};
use crate::store::{Batch, Precondition, Refusal, Store, StoreError, Write};

const DIRECTORY: &str = "token-requests";
const SUFFIX: &str = "json";
const OTHERS: u32 = 0o077;

/// Whoever waits for a token waits this long at most; looking into an empty directory costs microseconds.
const LOOK_PERIOD: Duration = Duration::from_secs(1);

/// How many requests one look takes: a person makes one. The rest are taken by the next look.
const TAKEN_AT_ONCE_MAX: usize = 64;

/// Leaves a request for `token`; the path vanishes when a server has taken it.
pub fn leave(directory: &Path, token: &BearerToken, spec: &TokenSpec) -> std::io::Result<PathBuf> {
    let requests = directory.join(DIRECTORY);
    files::ensure_directory(&requests)?;
    let path = requests.join(format!("{}.{SUFFIX}", token.id));
    files::replace_private(&path, &serde_json::to_vec(spec)?)?;
    Ok(path)
}

/// Waits until a server has taken the request; tells whether one has, within `patience`.
pub async fn taken(path: &Path, patience: Duration) -> bool {
    let gone = async {
        while path.exists() {
            tokio::time::sleep(LOOK_PERIOD / 10).await;
        }
    };
    tokio::time::timeout(patience, gone).await.is_ok()
}

/// Looks for requests until told to stop.
pub async fn watch(directory: PathBuf, store: std::sync::Arc<dyn Store>, ambient: Ambient, stop: CancellationToken) {
    let mut looks = tokio::time::interval(LOOK_PERIOD);
    looks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            biased;
            () = stop.cancelled() => return,
            _ = looks.tick() => take_all(&directory, store.as_ref(), &ambient).await,
        }
    }
}

/// Takes what is there now. A request that cannot be taken because the store is away stays for the next look.
pub async fn take_all(directory: &Path, store: &dyn Store, ambient: &Ambient) {
    let Ok(entries) = std::fs::read_dir(directory.join(DIRECTORY)) else { return };
    let mut paths =
        entries.filter_map(|entry| Some(entry.ok()?.path())).filter(|path| is_request(path)).collect::<Vec<_>>();
    paths.sort();
    for path in paths.into_iter().take(TAKEN_AT_ONCE_MAX) {
        match take(&path, store, ambient).await {
            Ok(id) => tracing::info!(token = %id, "a token was made from the command line"),
            Err(TakeError::Store(error)) => {
                tracing::warn!(%error, "a token request has to wait");
                continue;
            }
            Err(error) => tracing::error!(%error, path = %path.display(), "a token request was refused and removed"),
        }
        if let Err(error) = std::fs::remove_file(&path) {
            tracing::error!(%error, path = %path.display(), "a token request could not be removed");
        }
    }
}

fn is_request(path: &Path) -> bool {
    let hidden = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with('.'));
    !hidden && path.extension().is_some_and(|extension| extension == SUFFIX)
}

#[derive(Debug, thiserror::Error)]
enum TakeError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("it cannot be read: {0}")]
    File(#[from] std::io::Error),
    #[error("it is not a private file of the folder's owner")]
    Exposed,
    #[error("its name or its content is malformed")]
    Malformed,
    #[error("the organization has no such user")]
    NoSuchUser,
}

async fn take(path: &Path, store: &dyn Store, ambient: &Ambient) -> Result<TokenId, TakeError> {
    let about = std::fs::symlink_metadata(path)?;
    let folder = path.parent().map(std::fs::symlink_metadata).transpose()?;
    let same_owner = folder.is_some_and(|folder| folder.uid() == about.uid());
    if !about.is_file() || about.mode() & OTHERS != 0 || !same_owner {
        return Err(TakeError::Exposed);
    }
    let id = path.file_stem().and_then(|stem| parse_uuid(&stem.to_string_lossy()).ok()).ok_or(TakeError::Malformed)?;
    let bytes = files::read_if_present(path)?.ok_or(TakeError::Malformed)?;
    let spec: TokenSpec = serde_json::from_slice(&bytes).map_err(|_| TakeError::Malformed)?;
    let owner = match spec.bound_to {
        BoundTo::Role(_) => None,
        BoundTo::User(user) => Some(user.key()),
        // Its tokens are made by rotation, which knows how to end the last one.
        BoundTo::ServiceAccount(_) => return Err(TakeError::Malformed),
    };
    let organization = match owner {
        Some(owner) => store.get(owner).await?.ok_or(TakeError::NoSuchUser)?.metadata.placement.organization,
        None => None,
    };
    let placement = Placement { organization, ..Placement::default() };
    let new = Metadata::new(Incarnation(ambient.uuid()), &spec.subject, placement, super::CREATOR, ambient.now());
    let record = Record::new::<Token>(id, Metadata { owner, ..new }, &spec);
    let batch = Batch::of(vec![Write::Insert(Box::new(record))]);
    let batch = match owner {
        Some(owner) => batch.provided(Precondition::Live(owner)),
        None => batch,
    };
    match store.commit(batch).await {
        // Taken by an earlier look that died before it removed the file.
        Ok(_) | Err(StoreError::Refused(Refusal::Exists(_))) => Ok(TokenId(id)),
        Err(StoreError::Refused(_)) => Err(TakeError::NoSuchUser),
        Err(error) => Err(error.into()),
    }
}
