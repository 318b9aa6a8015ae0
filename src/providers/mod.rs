//! What clouds can do: one trait, converge-style and idempotent, with typed errors.
//!
//! `converge_*` finds what is there by what identifies it, makes what is missing and changes what differs;
//! `delete_*` is done only when the cloud has *said* that the object is absent. Both may be repeated at any time,
//! after any crash. Between a provider and its cloud stands the region's pool ([`pool`]), which every single call
//! goes through: it bounds, orders, times and records them.

pub mod call;
pub mod file_storage;
mod fingerprint;
pub mod image_probe;
pub mod image_schema;
#[cfg(feature = "openstack")]
pub mod openstack;
pub mod pool;
pub mod simulated;
pub mod ssh_key_pair;
pub mod types;
pub mod volume;

use std::net::Ipv4Addr;
use std::time::Duration;

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::model::identity::IdentityDetail;
use crate::model::ids::{
    FlavorId, IdentityId, ImageId, Incarnation, Key, Kind, LoadBalancerId, NetworkId, OrganizationId, ProjectId,
    ProviderFloatingIpId, ProviderLoadBalancerId, ProviderPortId, RegionId, SecurityGroupId, ServerId,
};
use crate::model::image::{ImageDetail, ImageSpec, ImageStatus};
use crate::model::load_balancer::{LoadBalancerDetail, LoadBalancerSpec};
use crate::model::metadata::Tag;
use crate::model::network::{NetworkDetail, NetworkSpec, VlanId};
use crate::model::record::{CorruptRecord, Document, Resource};
use crate::model::sealed::SealError;
use crate::model::security_group::{SecurityGroupDetail, SecurityGroupSpec};
use crate::model::server::{Server, ServerDetail, ServerSighting, ServerSpec};
use crate::store::{Refusal, StoreError};
use file_storage::FileStorageProvisioner;
use types::{ExternalNetwork, Flavor, Image, VolumeClass};
pub use volume::{VolumeFact, VolumeRequest};

/// What one pass hands to a provider beside the request: whose work it is, when to stop, where to note progress.
pub struct CallContext<'a> {
    /// Whose turn it is: calls are shared fairly between organizations.
    pub tenant: OrganizationId,
    /// Cancels reads and waits at once. A mutating call is awaited to its deadline all the same.
    pub cancelled: CancellationToken,
    pub ledger: &'a dyn Ledger,
}

/// Where a provider notes what it has done, before it does the next thing. Every write is durable when it returns.
#[async_trait]
pub trait Ledger: Send + Sync {
    /// Writes down what is known of the resource that this pass is about: a secret must be on record before it is
    /// relied on, and the id of a part before the next part is built on it.
    async fn note(&self, detail: Document) -> Result<(), StoreError>;
    /// Takes a VLAN for the network that this pass is about, or returns the one it has.
    async fn claim_vlan(&self, ranges: &[(u16, u16)]) -> Result<VlanId, StoreError>;
    /// Seals a secret for the record.
    fn seal(&self, secret: &str) -> Result<crate::model::sealed::Sealed<String>, SealError>;
}

/// The ledger of those who only look: a provider that tries to note something is told that it cannot.
pub struct NothingToNote;

#[async_trait]
impl Ledger for NothingToNote {
    async fn note(&self, _detail: Document) -> Result<(), StoreError> {
        Err(StoreError::Unavailable("a look has no record".to_owned()))
    }
    async fn claim_vlan(&self, _ranges: &[(u16, u16)]) -> Result<VlanId, StoreError> {
        Err(StoreError::Unavailable("a look has no record".to_owned()))
    }
    fn seal(&self, _secret: &str) -> Result<crate::model::sealed::Sealed<String>, SealError> {
        Err(SealError)
    }
}

/// A principal to make or to unmake.
#[derive(Clone, Debug, PartialEq)]
pub struct IdentityRequest {
    pub id: IdentityId,
    pub incarnation: Incarnation,
    pub organization: OrganizationId,
    pub project: ProjectId,
    /// How often an operator has reset it: with each, what it may do is set again.
    pub resets: u64,
    /// What is on record of it.
    pub detail: IdentityDetail,
}

/// A network to make or to unmake.
#[derive(Clone, Debug, PartialEq)]
pub struct NetworkRequest {
    pub id: NetworkId,
    pub incarnation: Incarnation,
    pub identity: IdentityId,
    pub organization: OrganizationId,
    pub project: ProjectId,
    pub spec: NetworkSpec,
    /// What is on record of it: what a list that lags behind does not show is asked for by its id.
    pub detail: NetworkDetail,
}

/// A security group to make or to unmake.
#[derive(Clone, Debug, PartialEq)]
pub struct SecurityGroupRequest {
    pub id: SecurityGroupId,
    pub incarnation: Incarnation,
    pub identity: IdentityId,
    pub organization: OrganizationId,
    pub project: ProjectId,
    pub spec: SecurityGroupSpec,
    pub detail: SecurityGroupDetail,
}

/// A load balancer to make, to change or to unmake, or a part of one.
#[derive(Clone, Debug, PartialEq)]
pub struct LoadBalancerRequest {
    pub id: LoadBalancerId,
    pub incarnation: Incarnation,
    pub identity: IdentityId,
    pub network: NetworkId,
    pub organization: OrganizationId,
    pub project: ProjectId,
    pub spec: LoadBalancerSpec,
    pub detail: LoadBalancerDetail,
}

/// A server to make, to change or to unmake.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerRequest {
    pub id: ServerId,
    pub incarnation: Incarnation,
    /// The generation that the specification is of; a convergence says that this is what it reached.
    pub generation: u64,
    pub identity: IdentityId,
    pub network: NetworkId,
    pub organization: OrganizationId,
    pub project: ProjectId,
    pub name: String,
    pub tags: Vec<Tag>,
    pub spec: ServerSpec,
    /// What the guest is started with: the user's data, merged with what SSH access needs.
    pub user_data: Option<UserDataBytes>,
    /// May a machine be made, or is one that is gone only to be missed?
    pub may_create: bool,
    pub detail: ServerDetail,
}

impl ServerRequest {
    /// What is on record of a server. Whoever only looks needs no user data.
    pub fn of(server: &Resource<Server>, user_data: Option<UserDataBytes>) -> Result<Self, CorruptRecord> {
        let place = server.place()?;
        Ok(Self {
            id: ServerId(server.key.id),
            incarnation: server.metadata.incarnation,
            generation: server.metadata.generation,
            identity: server.identity()?,
            network: server.network()?,
            organization: place.organization,
            project: place.project,
            name: server.metadata.name.clone(),
            tags: server.metadata.tags.clone().unwrap_or_default(),
            spec: server.spec.clone(),
            user_data,
            may_create: !server.spec.only_reports_loss(&server.detail),
            detail: server.detail.clone(),
        })
    }
}

/// An image to make or to unmake.
#[derive(Clone, Debug, PartialEq)]
pub struct ImageRequest {
    pub id: ImageId,
    pub incarnation: Incarnation,
    pub organization: OrganizationId,
    pub name: String,
    pub spec: ImageSpec,
    /// The server whose disk is saved, where the image is made from one.
    pub server: Option<Box<ServerRequest>>,
    pub detail: ImageDetail,
}

/// What a guest is started with. Never printed: it often holds secrets.
#[derive(Clone, PartialEq, Eq)]
pub struct UserDataBytes(pub Vec<u8>);

impl std::fmt::Debug for UserDataBytes {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "UserDataBytes({} bytes)", self.0.len())
    }
}

/// A verb of power.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PowerAction {
    Start,
    Stop,
    SoftReboot,
    HardReboot,
}

/// The order in which reads of a region were begun. A fact read earlier never replaces one read later.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
pub struct Sequence(pub u64);

/// A fact about one object, and when it was asked for.
#[derive(Clone, Debug, PartialEq)]
pub struct Observed<T> {
    pub sequence: Sequence,
    pub fact: T,
}

/// What is there after a convergence, or what a read saw.
#[derive(Clone, Debug, PartialEq)]
pub struct NetworkFact {
    pub detail: NetworkDetail,
    /// The object differs from what was asked for, or is unwell, in these user-safe words.
    pub trouble: Option<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct SecurityGroupFact {
    pub detail: SecurityGroupDetail,
    pub trouble: Option<String>,
}

/// What is there of a load balancer and its virtual address.
#[derive(Clone, Debug, PartialEq)]
pub struct LoadBalancerFact {
    pub balancer: ProviderLoadBalancerId,
    pub port: ProviderPortId,
    pub vip_address: Option<Ipv4Addr>,
    /// The cloud has finished building it.
    pub built: bool,
    /// The cloud is busy with a change, and there may be more to be done after it.
    pub unfinished: bool,
    pub trouble: Option<String>,
    pub fingerprint: u64,
    pub address: AddressSighting,
}

/// What was seen of a load balancer's public address, by a look that need not have been at it.
#[derive(Clone, Debug, PartialEq)]
pub enum AddressSighting {
    NotLookedAt,
    Absent,
    Present(PublicAddress),
}

/// An address through which something is reached from outside.
#[derive(Clone, Debug, PartialEq)]
pub struct PublicAddress {
    pub id: ProviderFloatingIpId,
    pub address: Ipv4Addr,
    pub fingerprint: u64,
}

/// What is there of a server, its port and its addresses.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerFact {
    /// `None`: there is no server, although there may be a port for it.
    pub server: Option<ServerSighting>,
    pub port: Option<ProviderPortId>,
    pub private_ip: Option<Ipv4Addr>,
    pub mac_address: Option<String>,
    pub floating_ip: Option<(ProviderFloatingIpId, Ipv4Addr)>,
    /// The generation that a convergence reached; `None` of a mere look.
    pub converged: Option<u64>,
    /// Of what a convergence sets right: changes when and only when some of it does.
    pub configuration: u64,
    /// Of everything.
    pub fingerprint: u64,
}

/// What is there of an image.
#[derive(Clone, Debug, PartialEq)]
pub struct ImageFact {
    pub status: ImageStatus,
    pub size_gib: u32,
    pub trouble: Option<String>,
    /// Of everything.
    pub fingerprint: u64,
}

/// One line of a bulk list.
#[derive(Clone, Debug, PartialEq)]
pub struct Listed {
    pub key: Key,
    pub incarnation: Incarnation,
    /// Of everything that was seen; an actor that has the same on record has no news.
    pub fingerprint: u64,
    /// `sequence` is that of the page.
    pub fact: call::Fact,
}

/// A page of a bulk list.
#[derive(Clone, Debug)]
pub struct Listing<T> {
    pub items: Vec<T>,
    /// Ask again with this to go on; `None` at the end.
    pub next: Option<String>,
    /// Those of the ones asked for that it says nothing of: they may be there although they are not in it. Everything else
    /// that is on no page is absent.
    pub unsure: Vec<Uuid>,
}

impl<T> Listing<T> {
    /// Nobody was asked, as there is nobody to ask.
    #[must_use]
    pub fn nothing() -> Observed<Self> {
        let fact = Self { items: Vec::new(), next: None, unsure: Vec::new() };
        Observed { sequence: Sequence::default(), fact }
    }
}

/// How far a deletion has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deletion {
    /// The cloud has confirmed that nothing of it is left.
    Absent,
    /// Accepted by the cloud, not finished.
    Underway,
}

/// What went wrong, in terms that decide what happens next.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProviderError {
    #[error("not found")]
    NotFound,
    #[error("conflict: {0}")]
    Conflict(String),
    #[error("throttled")]
    Throttled { retry_after: Option<Duration> },
    #[error("the cloud's own quota is used up")]
    Quota,
    #[error("the cloud refused our credentials")]
    Unauthorized,
    /// Down, timed out, or the breaker is open. A mutating call may or may not have happened.
    #[error("unavailable: {0}")]
    Unavailable(String),
    /// The cloud will not do this however often it is asked.
    #[error("rejected: {0}")]
    Rejected(String),
    /// What was found contradicts itself: more than one object where there can be one.
    #[error("inconsistent: {0}")]
    Inconsistent(String),
    #[error("{0} is not supported by this provider")]
    Unsupported(&'static str),
    /// The principal that scopes the object is not in the cloud: it has to be made again first.
    #[error("the principal is missing")]
    PrincipalMissing,
    /// The pass was told to stop.
    #[error("cancelled")]
    Cancelled,
    #[error(transparent)]
    Ledger(#[from] LedgerError),
}

/// Progress could not be noted, so nothing further was done.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("progress could not be recorded: {0}")]
pub struct LedgerError(String);

impl From<StoreError> for ProviderError {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Refused(Refusal::Exhausted(_)) => Self::Quota,
            error => Self::Ledger(LedgerError(error.to_string())),
        }
    }
}

impl From<SealError> for ProviderError {
    fn from(error: SealError) -> Self {
        Self::Ledger(LedgerError(error.to_string()))
    }
}

pub type ProviderResult<T> = Result<T, ProviderError>;

/// What a region's cloud can do. A method that a provider does not have answers `Unsupported`.
///
/// # Guarantees an implementation gives
/// - It creates only on a *definite* not-found, never on an error, and adopts what a lost answer left behind.
/// - It finds objects by the id and incarnation written into them, and stops when it finds more than one.
/// - Every call it makes goes through the region's pool.
#[async_trait]
pub trait Provider: Send + Sync {
    fn region(&self) -> RegionId;

    async fn flavors(&self, _context: &CallContext<'_>) -> ProviderResult<Vec<Flavor>> {
        Err(ProviderError::Unsupported("flavors"))
    }
    async fn volume_classes(&self, _context: &CallContext<'_>) -> ProviderResult<Vec<VolumeClass>> {
        Err(ProviderError::Unsupported("volume classes"))
    }
    async fn images(&self, _context: &CallContext<'_>) -> ProviderResult<Vec<Image>> {
        Err(ProviderError::Unsupported("images"))
    }
    async fn external_networks(&self, context: &CallContext<'_>) -> ProviderResult<Vec<ExternalNetwork>>;

    async fn converge_identity(
        &self,
        context: &CallContext<'_>,
        request: &IdentityRequest,
    ) -> ProviderResult<Observed<IdentityDetail>>;
    async fn delete_identity(&self, context: &CallContext<'_>, request: &IdentityRequest) -> ProviderResult<Deletion>;

    async fn converge_network(
        &self,
        context: &CallContext<'_>,
        request: &NetworkRequest,
    ) -> ProviderResult<Observed<NetworkFact>>;
    async fn delete_network(&self, context: &CallContext<'_>, request: &NetworkRequest) -> ProviderResult<Deletion>;

    async fn converge_security_group(
        &self,
        _context: &CallContext<'_>,
        _request: &SecurityGroupRequest,
    ) -> ProviderResult<Observed<SecurityGroupFact>> {
        Err(ProviderError::Unsupported("security groups"))
    }
    async fn delete_security_group(
        &self,
        _context: &CallContext<'_>,
        _request: &SecurityGroupRequest,
    ) -> ProviderResult<Deletion> {
        Err(ProviderError::Unsupported("security groups"))
    }

    /// The virtual address and the balancer on it, made with its listeners. Those of one that is there are left alone.
    async fn converge_load_balancer(
        &self,
        _context: &CallContext<'_>,
        _request: &LoadBalancerRequest,
    ) -> ProviderResult<Observed<LoadBalancerFact>> {
        Err(ProviderError::Unsupported("load balancers"))
    }
    /// The balancer with everything in it, confirmed absent; then its virtual address. Waits for one that is busy.
    async fn delete_load_balancer(
        &self,
        _context: &CallContext<'_>,
        _request: &LoadBalancerRequest,
    ) -> ProviderResult<Deletion> {
        Err(ProviderError::Unsupported("load balancers"))
    }
    /// One change of listeners, pools, members and monitors towards what is wanted, and none of a balancer that is busy.
    async fn converge_listeners(
        &self,
        _context: &CallContext<'_>,
        _request: &LoadBalancerRequest,
    ) -> ProviderResult<Observed<LoadBalancerFact>> {
        Err(ProviderError::Unsupported("load balancers"))
    }
    /// A public address for the virtual one.
    async fn converge_public_address(
        &self,
        _context: &CallContext<'_>,
        _request: &LoadBalancerRequest,
    ) -> ProviderResult<Observed<PublicAddress>> {
        Err(ProviderError::Unsupported("load balancers"))
    }
    async fn release_public_address(
        &self,
        _context: &CallContext<'_>,
        _request: &LoadBalancerRequest,
    ) -> ProviderResult<Observed<Deletion>> {
        Err(ProviderError::Unsupported("load balancers"))
    }

    /// The port, the public address and the server. Never rebuilds or resizes a server and never takes one away.
    async fn converge_server(
        &self,
        _context: &CallContext<'_>,
        _request: &ServerRequest,
    ) -> ProviderResult<Observed<ServerFact>> {
        Err(ProviderError::Unsupported("servers"))
    }
    /// The server first, confirmed absent; then its public address and its port (B6).
    async fn delete_server(&self, _context: &CallContext<'_>, _request: &ServerRequest) -> ProviderResult<Deletion> {
        Err(ProviderError::Unsupported("servers"))
    }
    /// The same for a server that has never started. `Conflict` when the cloud shows one that has, or that is well.
    async fn discard_server(&self, _context: &CallContext<'_>, _request: &ServerRequest) -> ProviderResult<Deletion> {
        Err(ProviderError::Unsupported("servers"))
    }
    /// Orders the root disk to be replaced. `Conflict` when the cloud is busy with the server.
    async fn rebuild_server(
        &self,
        _context: &CallContext<'_>,
        _request: &ServerRequest,
        _image: ImageId,
    ) -> ProviderResult<()> {
        Err(ProviderError::Unsupported("servers"))
    }
    /// Can it give a server another flavor in place?
    fn resizes(&self) -> bool {
        false
    }
    /// Orders the server to be given another flavor. `Conflict` when the cloud is busy with it, or waits for a
    /// confirmation; `Rejected` when it will not have that flavor.
    async fn resize_server(
        &self,
        _context: &CallContext<'_>,
        _request: &ServerRequest,
        _flavor: FlavorId,
    ) -> ProviderResult<()> {
        Err(ProviderError::Unsupported("resizes"))
    }
    /// Takes away the machine of a server, and nothing else of it, so that it is made again with this flavor; `Conflict`
    /// when what is there is not the machine on record, or has the flavor already.
    async fn retire_server(
        &self,
        _context: &CallContext<'_>,
        _request: &ServerRequest,
        _flavor: FlavorId,
    ) -> ProviderResult<Deletion> {
        Err(ProviderError::Unsupported("servers"))
    }
    /// Orders a server to be kept as it was resized. `Conflict` when nothing waits for that.
    async fn confirm_resize(&self, _context: &CallContext<'_>, _request: &ServerRequest) -> ProviderResult<()> {
        Err(ProviderError::Unsupported("resizes"))
    }
    /// `NotFound` when there is no server, `Conflict` when its state does not allow it.
    async fn power_server(
        &self,
        _context: &CallContext<'_>,
        _request: &ServerRequest,
        _action: PowerAction,
    ) -> ProviderResult<()> {
        Err(ProviderError::Unsupported("servers"))
    }
    /// The address of a new console session. It lets in whoever has it.
    async fn console_session(&self, _context: &CallContext<'_>, _request: &ServerRequest) -> ProviderResult<String> {
        Err(ProviderError::Unsupported("consoles"))
    }
    /// The last `lines` of what the console showed, or all that the cloud keeps.
    async fn console_output(
        &self,
        _context: &CallContext<'_>,
        _request: &ServerRequest,
        _lines: Option<u32>,
    ) -> ProviderResult<String> {
        Err(ProviderError::Unsupported("consoles"))
    }

    /// Does it, or its cloud, fetch what is imported? Then the address is visited before it is accepted.
    fn fetches_images(&self) -> bool {
        true
    }
    /// The image under the id that we chose, for its organization alone (B18). What was ready once is not made again:
    /// `NotFound` when it is gone, or when the server that it is to be made from is.
    async fn converge_image(
        &self,
        _context: &CallContext<'_>,
        _request: &ImageRequest,
    ) -> ProviderResult<Observed<ImageFact>> {
        Err(ProviderError::Unsupported("images"))
    }
    async fn delete_image(&self, _context: &CallContext<'_>, _request: &ImageRequest) -> ProviderResult<Deletion> {
        Err(ProviderError::Unsupported("images"))
    }

    /// The volume, as large as asked for. Never attaches or detaches one, and never makes one again that was whole.
    async fn converge_volume(
        &self,
        _context: &CallContext<'_>,
        _request: &VolumeRequest,
    ) -> ProviderResult<Observed<VolumeFact>> {
        Err(ProviderError::Unsupported("volumes"))
    }
    /// Orders the volume to be attached. `Conflict` when somebody has it, or the server cannot take it now.
    async fn attach_volume(
        &self,
        _context: &CallContext<'_>,
        _request: &VolumeRequest,
        _server: ServerId,
    ) -> ProviderResult<()> {
        Err(ProviderError::Unsupported("volumes"))
    }
    /// Orders the volume to be taken from whoever has it.
    async fn detach_volume(&self, _context: &CallContext<'_>, _request: &VolumeRequest) -> ProviderResult<()> {
        Err(ProviderError::Unsupported("volumes"))
    }
    /// Takes it from whoever has it; once that is confirmed, takes it away.
    async fn delete_volume(&self, _context: &CallContext<'_>, _request: &VolumeRequest) -> ProviderResult<Deletion> {
        Err(ProviderError::Unsupported("volumes"))
    }

    /// The storage system that the region's files come from.
    fn file_storage(&self) -> Option<&dyn FileStorageProvisioner> {
        None
    }

    /// The command with which an operator takes away, by hand, what this cloud holds of a resource.
    fn removal(&self, _key: Key) -> Option<String> {
        None
    }

    /// Everything of a kind that is ours, or `only` those asked for, a page at a time; never a read for each object. Each is
    /// told with the fingerprint that a convergence tells as long as nothing has changed.
    async fn list(
        &self,
        _context: &CallContext<'_>,
        _kind: Kind,
        _only: Option<&[Uuid]>,
        _after: Option<&str>,
    ) -> ProviderResult<Observed<Listing<Listed>>> {
        Err(ProviderError::Unsupported("lists"))
    }
}
