//! What must hold of a machine, whoever wants one: an instance, or a pool of a cluster.
//!
//! A new one is checked whole; of one that is there only what changes is (B21), so that a machine whose flavor or image
//! is no longer offered can still be given other groups. The contract has no 404 for what a body names: what is not
//! there, and what is not there for the caller, is a part of the request that does not hold.

use crate::api::Api;
use crate::api::access::permitted;
use crate::api::error::{ApiError, Failure};
use crate::api::v2::servers::{GroupHome, bootable, find_flavor, rules, trusted_key, usable_groups};
use crate::identity::Caller;
use crate::identity::acl::{Endpoint, Operation, Scope};
use crate::model::ids::{FlavorId, NetworkId, SecurityGroupId, ServerId, SshCertificateAuthorityId};
use crate::model::instance::{FlavorChange, FlavorChangePolicy, ImageChangePolicy, MachineSpec, Policy};
use crate::model::record::Place;
use crate::model::server::Server;
use crate::model::ssh_certificate_authority::SshCertificateAuthority;
use crate::providers::types::{Flavor, Image};

/// What is not there is a part of the request that does not hold.
pub fn missing(rule: &'static str) -> impl Fn(ApiError) -> ApiError {
    move |error| match error.failure {
        Failure::NotFound => ApiError::unprocessable(rule),
        _ => error,
    }
}

const NO_GROUP: &str = "spec.networking.securityGroups must be security groups of the network";
const NO_IMAGE: &str = "spec.imageId names no image that can be used";
const NO_FLAVOR: &str = "spec.flavorId names no flavor that is offered";
const NO_AUTHORITY: &str = "spec.sshCertificateAuthorityId names no authority of the project";

/// Who wants a machine, and where.
#[derive(Clone, Copy)]
pub struct Wanting<'a> {
    pub api: &'a Api,
    pub caller: &'a Caller,
    pub place: Place,
    pub network: NetworkId,
}

fn groups(machine: &MachineSpec) -> &[SecurityGroupId] {
    let networking = machine.networking.as_ref();
    networking.and_then(|networking| networking.security_groups.as_deref()).unwrap_or_default()
}

/// What the machine of a server may still be on, whatever was asked for since: what it was made or last resized with,
/// what it is being given, and what it is about to be.
pub async fn flavors_of(api: &Api, server: ServerId) -> Result<Vec<FlavorId>, ApiError> {
    let Some(record) = api.store.get(server.key()).await? else { return Ok(Vec::new()) };
    let server = record.open::<Server>()?;
    let target = server.detail.resize.map(|resize| resize.target);
    Ok(server.detail.flavor.into_iter().chain(target).chain([server.spec.flavor]).collect())
}

impl Wanting<'_> {
    /// A machine that may be, with what follows from what the region offers.
    pub async fn created(&self, wanted: MachineSpec) -> Result<MachineSpec, ApiError> {
        rules::security_groups(wanted.networking.as_ref(), "spec.networking.securityGroups")?;
        let key = match wanted.ssh_certificate_authority {
            Some(authority) => Some(self.trusted(authority).await?),
            None => None,
        };
        rules::user_data(wanted.user_data.as_ref(), key.as_deref())?;
        self.usable(groups(&wanted)).await?;
        let (image, is_own_image) = self.image(&wanted).await?;
        let flavor = self.flavor(&wanted).await?;
        rules::fit(&flavor, &image)?;
        Ok(MachineSpec { is_own_image, gpus: gpus(&flavor), ..wanted })
    }

    /// The same of a machine that is there: what changes is checked, and how it is brought about is settled. It may
    /// still be on the flavors that are named, beside the one that was last asked for.
    pub async fn changed(
        &self,
        wanted: MachineSpec,
        (before, flavors): (&MachineSpec, &[FlavorId]),
        policy: Policy,
    ) -> Result<MachineSpec, ApiError> {
        let mut wanted = MachineSpec {
            is_own_image: before.is_own_image,
            gpus: before.gpus,
            flavor_change: before.flavor_change,
            ..wanted
        };
        self.reconnected(&wanted, before).await?;
        let mut image = None;
        if wanted.image != before.image {
            if policy.image_change == Some(ImageChangePolicy::Forbid) {
                return Err(ApiError::unprocessable("spec.policy.imageChange forbids another image"));
            }
            let (found, is_own_image) = self.image(&wanted).await?;
            wanted.is_own_image = is_own_image;
            image = Some(found);
        }
        if wanted.flavor != before.flavor {
            let flavor = self.flavor(&wanted).await?;
            wanted.flavor_change = self.way(&flavor, (before, flavors), policy).await?;
            wanted.gpus = gpus(&flavor);
            self.fits(&flavor, image.as_ref(), &wanted).await?;
        } else if let Some(image) = &image {
            // A flavor that is no longer offered goes on serving those who have it.
            if let Some(flavor) = find_flavor(self.api, self.place, wanted.flavor).await? {
                rules::fit(&flavor, image)?;
            }
        }
        Ok(wanted)
    }

    /// What a machine is connected with, and started with, as far as that is new.
    async fn reconnected(&self, wanted: &MachineSpec, before: &MachineSpec) -> Result<(), ApiError> {
        if wanted.networking != before.networking {
            rules::security_groups(wanted.networking.as_ref(), "spec.networking.securityGroups")?;
        }
        let known = groups(before);
        let added = groups(wanted).iter().copied().filter(|group| !known.contains(group)).collect::<Vec<_>>();
        self.usable(&added).await?;
        if wanted.user_data != before.user_data {
            let key = match wanted.ssh_certificate_authority {
                Some(authority) => self.api.store.get(authority.key()).await?,
                None => None,
            };
            let key = key.map(|record| record.open::<SshCertificateAuthority>()).transpose()?;
            let key = key.map(|authority| authority.spec.public_key);
            rules::user_data(wanted.user_data.as_ref(), key.as_deref())?;
        }
        Ok(())
    }

    /// How the machine would get the flavor, if its policy allows that.
    async fn way(
        &self,
        flavor: &Flavor,
        (before, flavors): (&MachineSpec, &[FlavorId]),
        policy: Policy,
    ) -> Result<FlavorChange, ApiError> {
        if policy.flavor_change == Some(FlavorChangePolicy::Forbid) {
            return Err(ApiError::unprocessable("spec.policy.flavorChange forbids another flavor"));
        }
        let mut can_follow = !flavor.baremetal;
        for old in flavors.iter().chain([&before.flavor]) {
            let old = find_flavor(self.api, self.place, *old).await?;
            can_follow &= old.is_none_or(|old| !old.baremetal && old.disk_bytes <= flavor.disk_bytes);
        }
        if can_follow && self.api.catalogue.resizes(self.place.region) {
            return Ok(FlavorChange::Resize);
        }
        if policy.flavor_change == Some(FlavorChangePolicy::Resize) {
            let rule = "spec.policy.flavorChange allows a resize alone, and this change cannot be made by one";
            return Err(ApiError::unprocessable(rule));
        }
        Ok(FlavorChange::Replace)
    }

    /// Does another flavor go with the image? With one that is no longer offered nobody can tell; its cloud will.
    async fn fits(&self, flavor: &Flavor, image: Option<&Image>, wanted: &MachineSpec) -> Result<(), ApiError> {
        match image {
            Some(image) => rules::fit(flavor, image),
            None => match bootable(self.api, self.place, wanted.image).await {
                Ok((image, _)) => rules::fit(flavor, &image),
                Err(error) if matches!(error.failure, Failure::NotFound | Failure::Unprocessable) => Ok(()),
                Err(error) => Err(error),
            },
        }
    }

    async fn trusted(&self, authority: SshCertificateAuthorityId) -> Result<String, ApiError> {
        trusted_key(self.api, self.caller, authority, self.place).await.map_err(missing(NO_AUTHORITY))
    }

    async fn usable(&self, groups: &[SecurityGroupId]) -> Result<(), ApiError> {
        let home = GroupHome::Network(self.network);
        usable_groups(self.api, self.caller, groups, home).await.map_err(missing(NO_GROUP))
    }

    fn may_see(&self, endpoint: Endpoint) -> Result<(), ApiError> {
        permitted(self.caller, endpoint, Operation::Read, Scope::Organization(self.place.organization))
    }

    /// The image, and whether it is the organization's own.
    async fn image(&self, wanted: &MachineSpec) -> Result<(Image, bool), ApiError> {
        self.may_see(Endpoint::Images)?;
        bootable(self.api, self.place, wanted.image).await.map_err(missing(NO_IMAGE))
    }

    /// One that is offered, and that needs no host to be named.
    async fn flavor(&self, wanted: &MachineSpec) -> Result<Flavor, ApiError> {
        self.may_see(Endpoint::Flavors)?;
        let flavor = find_flavor(self.api, self.place, wanted.flavor).await?;
        let flavor = flavor.ok_or_else(|| ApiError::unprocessable(NO_FLAVOR))?;
        if flavor.pinned_only {
            return Err(ApiError::unprocessable("spec.flavorId names a flavor that is placed by operators alone"));
        }
        Ok(flavor)
    }
}

fn gpus(flavor: &Flavor) -> u32 {
    flavor.gpu.as_ref().map_or(0, |gpu| gpu.physical_count)
}
