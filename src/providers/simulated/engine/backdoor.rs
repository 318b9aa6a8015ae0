//! Changes behind our back: what an operator, another tool or a fault of the cloud does to objects directly.
//!
//! They pass no rule, no fault and no log of calls, because nobody called.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::super::call::CloudError;
use super::super::objects::{Body, CloudObject, ExternalNetworkEntry, NewObject, ObjectId, ObjectState, SubnetRoute};
use super::rules::World;
use crate::model::ids::{FlavorId, ImageId};
use crate::model::load_balancer_topology::BalancerChange;
use crate::model::security_group::EffectiveRule;
use crate::model::server::PowerState;
use crate::providers::image_schema::ImageEntry;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "change", rename_all = "kebab-case", rename_all_fields = "camelCase")]
pub enum BackdoorChange {
    /// Removes an object with everything inside it, whatever uses it.
    Delete {
        id: ObjectId,
    },
    /// Makes an object that nobody asked for.
    Insert {
        object: NewObject,
    },
    Rename {
        id: ObjectId,
        name: String,
    },
    SetState {
        id: ObjectId,
        state: ObjectState,
    },
    /// Replaces a subnet's name servers and routes.
    SetSubnet {
        id: ObjectId,
        dns_nameservers: Vec<Ipv4Addr>,
        routes: Vec<SubnetRoute>,
    },
    DropInterface {
        router: ObjectId,
        subnet: ObjectId,
    },
    DropGateway {
        router: ObjectId,
    },
    SetPower {
        server: ObjectId,
        power: PowerState,
    },
    SetImage {
        server: ObjectId,
        image: ImageId,
    },
    SetFlavor {
        server: ObjectId,
        flavor: FlavorId,
    },
    SetPortGroups {
        port: ObjectId,
        security_groups: BTreeSet<ObjectId>,
    },
    DropRule {
        group: ObjectId,
        rule: EffectiveRule,
    },
    /// Pulls a volume from whoever has it.
    DropAttachment {
        volume: ObjectId,
    },
    /// Changes a part of a load balancer, which is not busy with it.
    Configure {
        balancer: ObjectId,
        configured: BalancerChange,
    },
    SetExternalNetworks {
        networks: Vec<ExternalNetworkEntry>,
    },
    /// Puts an image into the catalogue, with whatever properties.
    OfferImage {
        image: ImageEntry,
    },
    /// Lets what is stuck go on: one object, or all.
    Release {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        id: Option<ObjectId>,
    },
}

impl World {
    pub fn change_directly(&mut self, now: Timestamp, change: &BackdoorChange) -> Result<(), CloudError> {
        match change {
            BackdoorChange::Delete { id } => {
                let kind = self.by_id(id)?.kind();
                self.remove_with_parts(now, kind, id);
            }
            BackdoorChange::Insert { object } => {
                self.insert(now, object, ObjectState::Active)?;
            }
            BackdoorChange::Rename { id, name } => self.alter(now, id, |object| object.name.clone_from(name))?,
            BackdoorChange::SetState { id, state } => self.alter(now, id, |object| object.state = *state)?,
            BackdoorChange::SetSubnet { id, dns_nameservers, routes } => self.alter(now, id, |object| {
                if let Body::Subnet { options, .. } = &mut object.body {
                    options.dns_nameservers.clone_from(dns_nameservers);
                    options.routes.clone_from(routes);
                }
            })?,
            BackdoorChange::DropInterface { router, subnet } => {
                self.by_id(router)?;
                self.take_from(now, router, subnet);
            }
            BackdoorChange::DropGateway { router } => self.alter(now, router, |object| {
                if let Body::Router { external_network, .. } = &mut object.body {
                    *external_network = None;
                }
            })?,
            BackdoorChange::SetPower { server, power } => self.alter(now, server, |object| {
                if let Body::Server(server) = &mut object.body {
                    server.life.power = *power;
                }
            })?,
            BackdoorChange::SetImage { server, image } => self.alter(now, server, |object| {
                if let Body::Server(server) = &mut object.body {
                    server.image = *image;
                }
            })?,
            BackdoorChange::SetFlavor { server, flavor } => self.alter(now, server, |object| {
                if let Body::Server(server) = &mut object.body {
                    server.flavor = *flavor;
                }
            })?,
            BackdoorChange::SetPortGroups { port, security_groups } => self.alter(now, port, |object| {
                if let Body::Port { options, .. } = &mut object.body {
                    options.security_groups.clone_from(security_groups);
                }
            })?,
            BackdoorChange::DropRule { group, rule } => {
                self.remove_rule(now, group, rule)?;
            }
            BackdoorChange::DropAttachment { volume } => self.alter(now, volume, super::volumes::bereave)?,
            BackdoorChange::Configure { balancer, configured } => self.reconfigure(now, balancer, configured)?,
            BackdoorChange::SetExternalNetworks { networks } => self.external_networks.clone_from(networks),
            BackdoorChange::OfferImage { image } => self.offered_images.push(image.clone()),
            BackdoorChange::Release { id } => {
                for waiting in self.table.waiting() {
                    if id.as_ref().is_none_or(|id| *id == waiting) {
                        self.finish(now, &waiting);
                    }
                }
            }
        }
        Ok(())
    }

    pub fn by_id(&self, id: &ObjectId) -> Result<&CloudObject, CloudError> {
        self.table.by_id(id).ok_or(CloudError::NotFound)
    }

    pub fn alter(
        &mut self,
        now: Timestamp,
        id: &ObjectId,
        change: impl FnOnce(&mut CloudObject),
    ) -> Result<(), CloudError> {
        let mut object = self.by_id(id)?.clone();
        change(&mut object);
        self.table.put(now, object);
        Ok(())
    }
}
