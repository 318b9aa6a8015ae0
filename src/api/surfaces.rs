//! The kinds that have a collection of their own under `/api/v2`, for what is the same for all of them: the stream of
//! changes, and what can be asked about one resource. A new kind is one line in [`SURFACES`].

use serde_json::Value;

use super::compute::clusters::wire::ClusterRead;
use super::compute::instances::wire::InstanceRead;
use super::resources::Surface;
use super::v2::file_storage::wire::FileStorageRead;
use super::v2::images::wire::ImageRead;
use super::v2::load_balancers::wire::LoadBalancerRead;
use super::v2::networks::wire::NetworkRead;
use super::v2::security_groups::wire::SecurityGroupRead;
use super::v2::servers::wire::ServerRead;
use super::v2::ssh_certificate_authorities::wire::SshCertificateAuthorityRead;
use super::v2::volumes::wire::VolumeRead;
use crate::identity::acl::Endpoint;
use crate::model::ids::Kind;
use crate::model::metadata::ApiVersion;
use crate::model::record::{CorruptRecord, Record, ResourceKind};

/// A kind as clients read it, without its types.
pub struct KindSurface {
    pub kind: Kind,
    pub endpoint: Endpoint,
    pub version: ApiVersion,
    /// Where it is, after `/api/v2/`.
    pub collection: &'static str,
    /// What its id is called in paths.
    pub id: &'static str,
    /// What it is listed under in the document.
    pub title: &'static str,
    pub show: fn(&Record) -> Result<Value, CorruptRecord>,
}

impl KindSurface {
    const fn of<R: Surface>(collection: &'static str, id: &'static str, title: &'static str) -> Self {
        Self {
            kind: R::Kind::KIND,
            endpoint: R::ENDPOINT,
            version: R::VERSION,
            collection,
            id,
            title,
            show: |record| Ok(serde_json::to_value(R::of(record)?).unwrap_or_default()),
        }
    }
}

pub static SURFACES: &[KindSurface] = &[
    KindSurface::of::<NetworkRead>("networks", "networkID", "Networks"),
    KindSurface::of::<SecurityGroupRead>("securitygroups", "securityGroupID", "Security groups"),
    KindSurface::of::<LoadBalancerRead>("loadbalancers", "loadBalancerID", "Load balancers"),
    KindSurface::of::<SshCertificateAuthorityRead>(
        "sshcertificateauthorities",
        "sshCertificateAuthorityID",
        "SSH certificate authorities",
    ),
    KindSurface::of::<ServerRead>("servers", "serverID", "Servers"),
    KindSurface::of::<VolumeRead>("volumes", "volumeID", "Volumes"),
    KindSurface::of::<FileStorageRead>("filestorage", "filestorageID", "File storage"),
    KindSurface::of::<ImageRead>("images", "imageID", "Images"),
    KindSurface::of::<InstanceRead>("instances", "instanceID", "Instances"),
    KindSurface::of::<ClusterRead>("clusters", "clusterID", "Clusters"),
];

/// How a kind is shown; `None` for kinds that users do not read here.
#[must_use]
pub fn surface_of(kind: Kind) -> Option<&'static KindSurface> {
    SURFACES.iter().find(|surface| surface.kind == kind)
}

/// Those with a list of their own. Images are listed by region.
pub fn listed() -> impl Iterator<Item = &'static KindSurface> {
    SURFACES.iter().filter(|surface| surface.kind != Kind::Image)
}
