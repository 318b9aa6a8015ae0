//! The first start, and what a crash leaves of it.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use jiff::Timestamp;
use regent::bootstrap::envelope_key::{EnvelopeKeyError, load_or_create};
use regent::bootstrap::{BootstrapFile, Outcome, Urls, bootstrap, random_secret, token_requests};
use regent::identity::acl::{Endpoint, Operation, Scope};
use regent::identity::embedded::EmbeddedIdentity;
use regent::identity::speaking::SpeakingFor;
use regent::identity::{Account, IdentityService};
use regent::model::ambient::{Ambient, Clock};
use regent::model::ids::{Incarnation, ServiceAccountId, TokenId, UserId};
use regent::model::metadata::{Metadata, Placement};
use regent::model::quota::QuotaKind;
use regent::model::record::Record;
use regent::model::token::{BearerToken, BoundTo, Role, Token};
use regent::store::{Batch, Store, Write};

use super::{Folder, memory_store};

fn urls(port: u16) -> Urls {
    Urls { api: format!("http://127.0.0.1:{port}"), admin: format!("http://127.0.0.1:{}", port + 1) }
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).expect("a file").permissions().mode() & 0o777
}

fn on_disk(folder: &Folder) -> BootstrapFile {
    serde_json::from_slice(&std::fs::read(folder.0.join("bootstrap.json")).expect("a file")).expect("json")
}

async fn issued(store: &dyn Store, ambient: &Ambient, folder: &Folder) -> BootstrapFile {
    match bootstrap(store, ambient, &folder.0, &urls(1000)).await.expect("bootstraps") {
        Outcome::Issued(file) => file,
        Outcome::Unchanged => panic!("nothing was issued"),
    }
}

async fn admits(store: &Arc<dyn Store>, ambient: &Ambient, bearer: &str) -> bool {
    EmbeddedIdentity::new(Arc::clone(store), ambient.clone())
        .authenticate(bearer, &SpeakingFor::default())
        .await
        .is_ok()
}

#[tokio::test]
async fn a_first_start_leaves_a_working_token_in_a_private_file() {
    let (ambient, folder) = (Ambient::system(), Folder::new());
    let store = memory_store(&ambient);
    let file = issued(store.as_ref(), &ambient, &folder).await;
    assert_eq!(on_disk(&folder), file);
    assert_eq!(mode(&folder.0.join("bootstrap.json")), 0o600);
    assert!(admits(&store, &ambient, &file.token).await);
    let usage = store.usage(file.organization_id).await.expect("reads");
    let networks = usage.iter().find(|usage| usage.kind == QuotaKind::Networks).expect("a quota");
    assert_eq!((networks.used.total(), networks.limit), (0, 100_000));
}

#[tokio::test]
async fn a_first_start_leaves_a_users_token_too_which_may_use_the_project_and_no_more() {
    let (ambient, folder) = (Ambient::system(), Folder::new());
    let store = memory_store(&ambient);
    let file = issued(store.as_ref(), &ambient, &folder).await;
    let identity = EmbeddedIdentity::new(Arc::clone(&store), ambient.clone());
    let bearer = file.user_token.expect("a user's token");
    let caller = identity.authenticate(&bearer, &SpeakingFor::default()).await.expect("admitted");
    assert_eq!((caller.subject.as_str(), caller.account()), ("user", Account::Member(file.organization_id)));
    let project = Scope::Project(file.organization_id, file.project_id);
    assert!(caller.allows(Endpoint::NetworksV2, Operation::Create, project));
    assert!(!caller.allows(Endpoint::Projects, Operation::Create, Scope::Organization(file.organization_id)));
    assert!(!caller.allows(Endpoint::Admin, Operation::Read, Scope::Global));
    for usage in store.usage(file.organization_id).await.expect("reads") {
        assert!(usage.limit > usage.kind.default_limit() * 100, "ample: {usage:?}");
    }
}

#[tokio::test]
async fn a_second_start_changes_nothing_but_the_addresses() {
    let (ambient, folder) = (Ambient::system(), Folder::new());
    let store = memory_store(&ambient);
    let file = issued(store.as_ref(), &ambient, &folder).await;
    let position = *store.latest().borrow();
    let again = bootstrap(store.as_ref(), &ambient, &folder.0, &urls(2000)).await.expect("bootstraps");
    assert_eq!(again, Outcome::Unchanged);
    assert_eq!(*store.latest().borrow(), position, "nothing was committed");
    assert_eq!(on_disk(&folder).token, file.token);
    assert_eq!(on_disk(&folder).api_url, "http://127.0.0.1:2000");
}

#[tokio::test]
async fn a_token_that_was_lost_between_commit_and_file_is_replaced() {
    let (ambient, folder) = (Ambient::system(), Folder::new());
    let store = memory_store(&ambient);
    let lost = issued(store.as_ref(), &ambient, &folder).await;
    std::fs::remove_file(folder.0.join("bootstrap.json")).expect("removes");
    let file = issued(store.as_ref(), &ambient, &folder).await;
    assert_eq!((file.organization_id, file.project_id), (lost.organization_id, lost.project_id));
    assert_eq!(file.region_id, lost.region_id);
    assert!(admits(&store, &ambient, &file.token).await);
    assert!(!admits(&store, &ambient, &lost.token).await, "tokens that nobody holds do not pile up");
    assert!(admits(&store, &ambient, &file.user_token.expect("a user's")).await);
    assert!(!admits(&store, &ambient, &lost.user_token.expect("a user's")).await);
}

#[test]
fn an_envelope_key_is_made_once_and_refused_when_others_may_read_it() {
    let folder = Folder::new();
    let path = folder.0.join("envelope.key");
    let sealed = load_or_create(&folder.0).expect("a key").seal(&"secret".to_owned()).expect("seals");
    assert_eq!(mode(&path), 0o600);
    let opened = load_or_create(&folder.0).expect("the same key").open(&sealed).expect("opens");
    assert_eq!(opened, "secret");
    for exposed in [0o640, 0o604] {
        std::fs::set_permissions(&path, PermissionsExt::from_mode(exposed)).expect("chmod");
        assert!(matches!(load_or_create(&folder.0), Err(EnvelopeKeyError::Exposed { .. })), "{exposed:o}");
    }
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).expect("chmod");
    std::fs::write(&path, b"short").expect("writes");
    assert!(matches!(load_or_create(&folder.0), Err(EnvelopeKeyError::Malformed { .. })));
}

fn new_token(ambient: &Ambient) -> BearerToken {
    BearerToken::new(TokenId(ambient.uuid()), &random_secret().expect("random"))
}

#[tokio::test]
async fn a_token_made_on_the_host_works_once_the_server_has_taken_it() {
    let (ambient, folder) = (Ambient::system(), Folder::new());
    let store = memory_store(&ambient);
    let token = new_token(&ambient);
    let spec = token.spec("operator", Role::PlatformAdministrator, None);
    let path = token_requests::leave(&folder.0, &token, &spec).expect("leaves");
    assert_eq!(mode(&path), 0o600);
    assert!(
        !std::fs::read_to_string(&path).expect("reads").contains(token.reveal().rsplit('_').next().expect("a part"))
    );
    assert!(!admits(&store, &ambient, &token.reveal()).await);
    token_requests::take_all(&folder.0, store.as_ref(), &ambient).await;
    assert!(token_requests::taken(&path, Duration::ZERO).await);
    assert!(admits(&store, &ambient, &token.reveal()).await);
    // As after a crash between the commit and the removal of the file.
    token_requests::leave(&folder.0, &token, &spec).expect("leaves");
    token_requests::take_all(&folder.0, store.as_ref(), &ambient).await;
    assert!(!path.exists());
}

#[tokio::test]
async fn a_token_request_that_others_could_have_written_is_refused() {
    let (ambient, folder) = (Ambient::system(), Folder::new());
    let store = memory_store(&ambient);
    let token = new_token(&ambient);
    let spec = token.spec("operator", Role::PlatformAdministrator, None);
    let path = token_requests::leave(&folder.0, &token, &spec).expect("leaves");
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o666)).expect("chmod");
    token_requests::take_all(&folder.0, store.as_ref(), &ambient).await;
    assert!(!path.exists(), "it is not tried for ever");
    assert!(!admits(&store, &ambient, &token.reveal()).await);
}

#[tokio::test]
async fn a_token_can_be_made_on_the_host_for_a_user_who_is_there_and_goes_with_them() {
    let (ambient, folder) = (Ambient::system(), Folder::new());
    let store = memory_store(&ambient);
    let file = issued(store.as_ref(), &ambient, &folder).await;
    let user = |subject| UserId::of(file.organization_id, subject);
    let request = async |bound_to: BoundTo| {
        let token = new_token(&ambient);
        let path = token_requests::leave(&folder.0, &token, &token.spec("user", bound_to, None)).expect("leaves");
        token_requests::take_all(&folder.0, store.as_ref(), &ambient).await;
        assert!(!path.exists(), "it is not tried for ever");
        token
    };
    let good = request(user("user").into()).await;
    assert!(admits(&store, &ambient, &good.reveal()).await);
    let record = store.get(good.id.key()).await.expect("reads").expect("it is there");
    assert_eq!(record.metadata.owner, Some(user("user").key()));
    assert!(!admits(&store, &ambient, &request(user("nobody").into()).await.reveal()).await);
    let account = ServiceAccountId(ambient.uuid());
    assert!(!admits(&store, &ambient, &request(account.into()).await.reveal()).await);
}

struct HandClock(Mutex<Timestamp>);

impl Clock for HandClock {
    fn now(&self) -> Timestamp {
        *self.0.lock().expect("not poisoned")
    }
}

#[tokio::test]
async fn a_remembered_token_does_not_outlive_its_expiry_nor_its_revocation_for_long() {
    let clock = Arc::new(HandClock(Mutex::new(Timestamp::UNIX_EPOCH)));
    let ambient = Ambient::seeded(Arc::clone(&clock) as _, 1);
    let store = memory_store(&ambient);
    let at =
        |seconds: u64| *clock.0.lock().expect("not poisoned") = Timestamp::UNIX_EPOCH + Duration::from_secs(seconds);
    let insert = async |expires: Option<Timestamp>| {
        let token = new_token(&ambient);
        let spec = token.spec("x", Role::PlatformAdministrator, expires);
        let incarnation = Incarnation(ambient.uuid());
        let metadata = Metadata::new(incarnation, "x", Placement::default(), "test", ambient.now());
        let record = Record::new::<Token>(token.id.0, metadata, &spec);
        store.commit(Batch::of(vec![Write::Insert(Box::new(record))])).await.expect("commits");
        (token, incarnation)
    };
    let identity = EmbeddedIdentity::new(Arc::clone(&store), ambient.clone());
    let (expiring, _) = insert(Some(Timestamp::UNIX_EPOCH + Duration::from_secs(5))).await;
    let (revoked, incarnation) = insert(None).await;
    let admits =
        async |token: &BearerToken| identity.authenticate(&token.reveal(), &SpeakingFor::default()).await.is_ok();
    assert!(admits(&expiring).await && admits(&revoked).await);
    let removal = Write::Remove { key: revoked.id.key(), incarnation };
    store.commit(Batch::of(vec![removal])).await.expect("commits");
    at(4);
    assert!(admits(&expiring).await);
    assert!(admits(&revoked).await, "remembered: this is what the bound on memory is for");
    at(5);
    assert!(!admits(&expiring).await);
    at(60);
    assert!(!admits(&revoked).await);
}
