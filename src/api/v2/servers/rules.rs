//! What must hold of a server beyond its form. Pure: what is asked for and what the region offers go in.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::api::error::ApiError;
use crate::model::cloud_init;
use crate::model::ids::{ImageId, OrganizationId};
use crate::model::server::{Networking, ServerSpec, SshInjection, UserData};
use crate::providers::types::{Flavor, Image, ImageStatus, Virtualization};

const GIB: u64 = 1 << 30;

/// Is it clear how people get in, and possible?
pub fn ssh_access(spec: &ServerSpec) -> Result<(), ApiError> {
    let has_authority = spec.ssh_certificate_authority.is_some();
    match spec.resolved_ssh_injection() {
        SshInjection::Ca if !has_authority => {
            Err(ApiError::unprocessable("spec.sshInjection ca needs spec.sshCertificateAuthorityId"))
        }
        SshInjection::IdentityKeypair | SshInjection::None if has_authority => {
            Err(ApiError::unprocessable("spec.sshCertificateAuthorityId needs spec.sshInjection ca"))
        }
        SshInjection::IdentityKeypair if spec.infrastructure.is_some() => {
            Err(ApiError::unprocessable("spec.infrastructureRef needs spec.sshInjection ca or none"))
        }
        _ => Ok(()),
    }
}

/// Can a guest be started with it? `ca_public_key` is that of the authority, if there is one.
pub fn user_data(data: Option<&UserData>, ca_public_key: Option<&str>) -> Result<(), ApiError> {
    let Some(data) = data else { return Ok(()) };
    let bytes = STANDARD.decode(&data.0).map_err(|_| ApiError::invalid("spec.userData must be base64"))?;
    cloud_init::validate(&bytes, ca_public_key).map_err(|error| ApiError::unprocessable(format!("spec.{error}")))
}

/// Naming one group twice says nothing, and is a mistake (B44).
pub fn security_groups(networking: Option<&Networking>, field: &str) -> Result<(), ApiError> {
    let groups = networking.and_then(|networking| networking.security_groups.as_deref()).unwrap_or_default();
    let is_repeated = |number: usize| groups[..number].contains(&groups[number]);
    if (0..groups.len()).any(is_repeated) {
        return Err(ApiError::unprocessable(format!("{field} must be different")));
    }
    Ok(())
}

/// The image, if it is there for this organization and can be booted from.
pub fn image(images: &[Image], id: ImageId, organization: OrganizationId) -> Result<&Image, ApiError> {
    let image = images.iter().find(|image| image.id == id).ok_or_else(ApiError::not_found)?;
    if image.organization.is_some_and(|owner| owner != organization) {
        return Err(ApiError::not_found());
    }
    if image.status != ImageStatus::Ready {
        return Err(ApiError::unprocessable("spec.imageId names an image that is not ready"));
    }
    Ok(image)
}

/// Can this flavor boot this image?
pub fn fit(flavor: &Flavor, image: &Image) -> Result<(), ApiError> {
    let mismatch = if flavor.architecture != image.architecture {
        "the flavor and the image are of different architectures"
    } else if flavor.disk_bytes < u64::from(image.size_gib) * GIB {
        "the flavor's disk is smaller than the image"
    } else if image.virtualization == Virtualization::Baremetal && !flavor.baremetal {
        "the image is for dedicated machines, and the flavor is not"
    } else if image.virtualization == Virtualization::Virtualized && flavor.baremetal {
        "the image is for virtual machines, and the flavor is not"
    } else {
        return Ok(());
    };
    Err(ApiError::unprocessable(mismatch))
}

pub fn pinning(flavor: &Flavor, spec: &ServerSpec) -> Result<(), ApiError> {
    if flavor.pinned_only && spec.infrastructure.is_none() {
        return Err(ApiError::unprocessable("the flavor needs spec.infrastructureRef"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use jiff::Timestamp;
    use uuid::Uuid;

    use super::*;
    use crate::api::error::Failure;
    use crate::model::ids::{FlavorId, SecurityGroupId, SshCertificateAuthorityId};
    use crate::providers::types::{Architecture, OperatingSystem};

    fn sample_flavor() -> Flavor {
        Flavor {
            id: FlavorId(Uuid::from_u128(1)),
            name: "small".to_owned(),
            architecture: Architecture::X86_64,
            cpus: 1,
            cpu_family: None,
            memory_bytes: GIB,
            disk_bytes: 20 * GIB,
            gpu: None,
            baremetal: false,
            pinned_only: false,
        }
    }

    fn sample_image() -> Image {
        Image {
            id: ImageId(Uuid::from_u128(2)),
            name: "linux".to_owned(),
            tags: BTreeMap::new(),
            organization: None,
            created: Timestamp::UNIX_EPOCH,
            modified: Timestamp::UNIX_EPOCH,
            architecture: Architecture::X86_64,
            size_gib: 20,
            virtualization: Virtualization::Any,
            gpu: None,
            os: OperatingSystem {
                kernel: "linux".to_owned(),
                family: "debian".to_owned(),
                distro: "ubuntu".to_owned(),
                variant: None,
                codename: None,
                version: "24.04".to_owned(),
            },
            packages: BTreeMap::new(),
            status: ImageStatus::Ready,
            identity: None,
        }
    }

    fn spec(authority: bool, ssh_injection: Option<SshInjection>, pinned: bool) -> ServerSpec {
        ServerSpec {
            flavor: FlavorId(Uuid::from_u128(1)),
            image: ImageId(Uuid::from_u128(2)),
            networking: None,
            user_data: None,
            ssh_certificate_authority: authority.then_some(SshCertificateAuthorityId(Uuid::from_u128(3))),
            ssh_injection,
            infrastructure: pinned.then(|| "host-1".to_owned()),
            own_images: Vec::new(),
            governed: None,
        }
    }

    #[test]
    fn every_way_in_is_clear_or_refused() {
        use SshInjection::{Ca, IdentityKeypair, None as Nothing};
        let table = [
            (false, None, false, true),
            (true, None, false, true),
            (true, Some(Ca), false, true),
            (false, Some(Ca), false, false),
            (true, Some(IdentityKeypair), false, false),
            (true, Some(Nothing), false, false),
            (false, Some(IdentityKeypair), false, true),
            (false, Some(Nothing), false, true),
            (false, None, true, false),
            (false, Some(IdentityKeypair), true, false),
            (false, Some(Nothing), true, true),
            (true, None, true, true),
        ];
        for (authority, injection, pinned, good) in table {
            let answer = ssh_access(&spec(authority, injection, pinned));
            assert_eq!(answer.is_ok(), good, "{authority} {injection:?} {pinned}");
        }
    }

    #[test]
    fn an_image_must_be_there_for_the_organization_and_be_ready() {
        let (ours, theirs) = (OrganizationId(Uuid::from_u128(4)), OrganizationId(Uuid::from_u128(5)));
        let failure = |changed: Image| image(&[changed], ImageId(Uuid::from_u128(2)), ours).map(|_| ());
        assert!(failure(sample_image()).is_ok());
        assert!(failure(Image { organization: Some(ours), ..sample_image() }).is_ok());
        let foreign = failure(Image { organization: Some(theirs), ..sample_image() }).expect_err("foreign");
        let unknown = failure(Image { id: ImageId(Uuid::from_u128(9)), ..sample_image() }).expect_err("unknown");
        assert_eq!((foreign.failure, &foreign.description), (Failure::NotFound, &unknown.description));
        let young = failure(Image { status: ImageStatus::Creating, ..sample_image() }).expect_err("not ready");
        assert_eq!(young.failure, Failure::Unprocessable);
    }

    #[test]
    fn a_flavor_boots_what_fits_it() {
        use Virtualization::{Any, Baremetal, Virtualized};
        let good = |flavor: &Flavor, image: Image| fit(flavor, &image).is_ok();
        let (small, metal) = (sample_flavor(), Flavor { baremetal: true, ..sample_flavor() });
        assert!(good(&small, sample_image()));
        assert!(!good(&small, Image { size_gib: 21, ..sample_image() }));
        assert!(!good(&small, Image { architecture: Architecture::Aarch64, ..sample_image() }));
        for (virtualization, on_small, on_metal) in
            [(Any, true, true), (Virtualized, true, false), (Baremetal, false, true)]
        {
            let image = Image { virtualization, ..sample_image() };
            assert_eq!((good(&small, image.clone()), good(&metal, image)), (on_small, on_metal), "{virtualization:?}");
        }
        let pinned = Flavor { pinned_only: true, ..small };
        assert!(pinning(&pinned, &spec(false, None, false)).is_err());
        assert!(pinning(&pinned, &spec(false, None, true)).is_ok());
    }

    #[test]
    fn b44_one_group_named_twice_is_refused() {
        let groups = |numbers: &[u128]| {
            let groups = numbers.iter().map(|number| SecurityGroupId(Uuid::from_u128(*number))).collect();
            security_groups(Some(&Networking { security_groups: Some(groups), ..Networking::default() }), "groups")
        };
        assert!(groups(&[1, 2, 3]).is_ok() && security_groups(None, "groups").is_ok());
        assert_eq!(groups(&[1, 2, 1]).expect_err("repeated").failure, Failure::Unprocessable);
    }
}
