//! Making and unmaking a volume, and giving it to a server.
//!
//! A volume that was whole once is never made a second time: an empty one in its place would hide that what it held is
//! gone. It is taken away only when the cloud has said that nobody has it any more.

use openstack_sdk_block_storage::v3::volume::{delete as delete_volume, get as get_volume};
use openstack_sdk_compute::v2::server::volume_attachment::delete as detach;
use openstack_sdk_core::types::ServiceType;
use serde::Deserialize;
use serde_json::json;

use super::asking::Ask;
use super::connection::Acting;
use super::doubles::{choose, taken_away};
use super::session::{Removals, Session, at_most_one, on};
use super::volume_plan::{self as planning, VolumeBody, VolumeStep};
use crate::model::ids::ServerId;
use crate::providers::fingerprint::Fingerprint;
use crate::providers::pool::Service;
use crate::providers::{Deletion, Observed, ProviderError, ProviderResult, VolumeFact, VolumeRequest};

/// What Nova says that a server has.
#[derive(Clone, Deserialize)]
struct HeldBody {
    #[serde(rename = "volumeId")]
    volume_id: String,
}

impl Session<'_> {
    pub async fn converge_volume(&self, request: &VolumeRequest) -> ProviderResult<Observed<VolumeFact>> {
        let acting = self.principal_of(request.identity).await?;
        let seen = self.look_at_volume(&acting, request).await?;
        let observed = |fact| Ok(Observed { sequence: seen.sequence, fact });
        let known = request.detail.volume.as_ref().map(|id| id.0.as_str());
        let volumes = choose(seen.fact, known, |volume| !volume.attachments.is_empty())?;
        if !volumes.doubles.is_empty() {
            self.take_volumes_away(&acting, &volumes.doubles).await?;
            return Err(taken_away(&request.id));
        }
        let mut volume = match volumes.first {
            Some(volume) => volume,
            None if request.detail.was_whole => {
                let (converged, fingerprint) = (Some(request.generation), Fingerprint::new().value());
                return observed(VolumeFact { volume: None, converged, fingerprint });
            }
            None => self.create_volume(&acting, request).await?,
        };
        // Each leaves nothing of its kind to do: marked first, then enlarged.
        for _ in 0..2 {
            let Some(step) = planning::next(&volume, request) else { break };
            self.take_volume_step(&acting, &volume, step, request).await?;
            let gone = || ProviderError::Conflict("the volume has just gone".to_owned());
            volume = self.volume(&acting, &volume.id).await?.ok_or_else(gone)?;
        }
        let server = self.holder(&acting, &volume, request.spec.server).await?;
        // What is still with another server has not followed.
        let is_held = volume.is_promised() || !volume.attachments.is_empty();
        let is_as_claimed = !is_held || (server.is_some() && server == request.spec.server);
        observed(volume.fact(server, is_as_claimed.then_some(request.generation)))
    }

    async fn look_at_volume(
        &self,
        acting: &Acting,
        request: &VolumeRequest,
    ) -> ProviderResult<Observed<Vec<VolumeBody>>> {
        let name = planning::name(request.id);
        let ask = Ask::get(ServiceType::BlockStorage, "volumes/detail".to_owned()).with("name", name.clone());
        let operation = on(Service::BlockStorage, "find-volumes", name);
        let mut found: Observed<Vec<VolumeBody>> = self.read(acting, operation, ask.within("volumes").build()).await?;
        found.fact.retain(|volume| volume.is_of(request.id, request.incarnation));
        let known = request.detail.volume.as_ref().map(|id| id.0.as_str());
        if let Some(known) = known.filter(|known| found.fact.iter().all(|volume| volume.id != *known)) {
            // A record can be of another cloud than this one, as after a restore: the id alone proves nothing.
            let is_ours = |volume: &VolumeBody| volume.is_of(request.id, request.incarnation);
            found.fact.extend(self.volume(acting, known).await?.filter(is_ours));
        }
        if request.detail.was_whole {
            // What looks like a double of a volume that somebody has written to is a copy, as a backup that an operator has
            // restored: Cinder gives it the name and the marks of the first. It is not ours to remove.
            found.fact.retain(|volume| known == Some(volume.id.as_str()));
        }
        Ok(found)
    }

    async fn volume(&self, acting: &Acting, id: &str) -> ProviderResult<Option<VolumeBody>> {
        let endpoint = get_volume::Request::builder().id(id.to_owned()).build();
        let seen: Option<Observed<VolumeBody>> =
            self.look(acting, on(Service::BlockStorage, "get-volume", id), endpoint).await?;
        Ok(seen.map(|seen| seen.fact))
    }

    async fn create_volume(&self, acting: &Acting, request: &VolumeRequest) -> ProviderResult<VolumeBody> {
        let body = planning::new_volume(request);
        let ask = Ask::post(ServiceType::BlockStorage, "volumes".to_owned(), body).within("volume");
        self.change(acting, on(Service::BlockStorage, "create-volume", request.id), ask.build()).await
    }

    async fn take_volume_step(
        &self,
        acting: &Acting,
        volume: &VolumeBody,
        step: VolumeStep,
        request: &VolumeRequest,
    ) -> ProviderResult<()> {
        let path = format!("volumes/{}", volume.id);
        let (name, ask) = match step {
            VolumeStep::UpdateMetadata(metadata) => {
                let body = json!({"metadata": metadata});
                ("set-volume-metadata", Ask::post(ServiceType::BlockStorage, format!("{path}/metadata"), body))
            }
            VolumeStep::Grow => {
                let body = json!({"os-extend": {"new_size": request.spec.size_gib}});
                ("extend-volume", Ask::post(ServiceType::BlockStorage, format!("{path}/action"), body))
            }
        };
        self.order(acting, on(Service::BlockStorage, name, &volume.id), ask.build()).await
    }

    /// Our server that has it, or is getting it.
    async fn holder(
        &self,
        acting: &Acting,
        volume: &VolumeBody,
        claimed: Option<ServerId>,
    ) -> ProviderResult<Option<ServerId>> {
        if let Some(attachment) = volume.attachments.first() {
            return Ok(self.server(acting, &attachment.server_id).await?.and_then(|server| server.of()));
        }
        let Some(claimed) = claimed.filter(|_| volume.is_promised()) else { return Ok(None) };
        let Some(server) = self.machine_of(acting, claimed).await? else { return Ok(None) };
        let path = format!("servers/{server}/os-volume_attachments");
        let ask = Ask::get(ServiceType::Compute, path).within("volumeAttachments");
        let operation = on(Service::Compute, "list-attachments", server);
        let held: Option<Observed<Vec<HeldBody>>> = self.look(acting, operation, ask.build()).await?;
        let is_held = held.is_some_and(|held| held.fact.iter().any(|held| held.volume_id == volume.id));
        Ok(is_held.then_some(claimed))
    }

    /// The machine of a server that only its id is known of: by its port, which says who has it.
    async fn machine_of(&self, acting: &Acting, server: ServerId) -> ProviderResult<Option<String>> {
        let ports = self.ports_of_server(acting, server).await?;
        let machine = at_most_one(ports, "port")?.map(|port| port.device_id).filter(|id| !id.is_empty());
        let Some(machine) = machine else { return Ok(None) };
        let found = self.server(acting, &machine).await?.filter(|found| found.of() == Some(server));
        Ok(found.map(|found| found.id))
    }

    /// The volume that an order is about.
    async fn own_volume(&self, acting: &Acting, request: &VolumeRequest) -> ProviderResult<VolumeBody> {
        at_most_one(self.look_at_volume(acting, request).await?.fact, "volume")?.ok_or(ProviderError::NotFound)
    }

    pub async fn attach_volume(&self, request: &VolumeRequest, server: ServerId) -> ProviderResult<()> {
        let acting = self.principal_of(request.identity).await?;
        let volume = self.own_volume(&acting, request).await?;
        let conflict = |said: &str| ProviderError::Conflict(said.to_owned());
        if volume.status != "available" {
            return Err(conflict("the volume cannot be attached now"));
        }
        let machine = self.machine_of(&acting, server).await?.ok_or_else(|| conflict("the server is not there"))?;
        let body = json!({"volumeAttachment": {"volumeId": volume.id}});
        let ask = Ask::post(ServiceType::Compute, format!("servers/{machine}/os-volume_attachments"), body);
        match self.order(&acting, on(Service::Compute, "attach-volume", &volume.id), ask.build()).await {
            // Nova's word for a volume that is in the wrong state; what it will be in later is another matter.
            Err(ProviderError::Rejected(said)) => Err(ProviderError::Conflict(said)),
            ordered => ordered,
        }
    }

    pub async fn detach_volume(&self, request: &VolumeRequest) -> ProviderResult<()> {
        let acting = self.principal_of(request.identity).await?;
        let volume = self.own_volume(&acting, request).await?;
        self.detach(&acting, &volume).await
    }

    async fn detach(&self, acting: &Acting, volume: &VolumeBody) -> ProviderResult<()> {
        let mut removals = Removals::default();
        for attachment in &volume.attachments {
            let (server, id) = (attachment.server_id.clone(), volume.id.clone());
            let operation = on(Service::Compute, "detach-volume", format!("{id} from {server}"));
            let endpoint = detach::Request::builder().server_id(server).id(id).build();
            removals.add(self.take_away(acting, operation, endpoint).await)?;
        }
        removals.end()
    }

    /// Takes away every volume of this incarnation, doubles included, once nobody has one of them.
    pub async fn delete_volume(&self, request: &VolumeRequest) -> ProviderResult<Deletion> {
        let Some(acting) = self.remover(request.identity, request.detail.volume.is_some()).await? else {
            return Ok(Deletion::Absent);
        };
        let seen = self.look_at_volume(&acting, request).await?.fact;
        if seen.is_empty() {
            return Ok(Deletion::Absent);
        }
        self.take_volumes_away(&acting, &seen).await?;
        let left = self.look_at_volume(&acting, request).await?.fact;
        Ok(if left.is_empty() { Deletion::Absent } else { Deletion::Underway })
    }

    async fn take_volumes_away(&self, acting: &Acting, volumes: &[VolumeBody]) -> ProviderResult<()> {
        let mut removals = Removals::default();
        for volume in volumes {
            if !volume.attachments.is_empty() && volume.is_idle() {
                removals.add(self.detach(acting, volume).await)?;
            } else if volume.can_be_deleted() {
                let endpoint = delete_volume::Request::builder().id(volume.id.clone()).build();
                let operation = on(Service::BlockStorage, "delete-volume", &volume.id);
                removals.add(self.take_away(acting, operation, endpoint).await)?;
            }
        }
        removals.end()
    }
}
