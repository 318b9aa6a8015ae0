//! Regions as they come and go: each gets its provider, its pool and its monitor, and loses only those.
//!
//! A region whose cloud cannot be reached, or whose settings make no sense, is a region without a provider: its
//! resources wait, and nobody else notices.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use super::branch::BranchMessage;
use super::inspection::SimulatedAdmin;
use super::tree::Tree;
use crate::actors::Environment;
use crate::actors::monitor::MonitorService;
use crate::graph::Service;
use crate::model::ids::RegionId;
use crate::model::record::Record;
use crate::model::region::{Region, RegionSpec};
use crate::providers::Provider;

/// What a region runs on.
pub struct Equipment {
    pub provider: Arc<dyn Provider>,
    /// What has to be kept running for it, beside the monitor.
    pub services: Vec<Arc<dyn Service>>,
}

/// Makes a region's equipment from its settings. Makes no call to the cloud.
pub trait CloudFactory: Send + Sync {
    fn equip(&self, region: RegionId, spec: &RegionSpec) -> Result<Equipment, String>;

    /// The operator's side of a simulated region.
    fn simulated(&self, _region: RegionId) -> Option<Arc<dyn SimulatedAdmin>> {
        None
    }
}

/// The regions of this process.
pub struct Regions {
    environment: Arc<Environment>,
    tree: Tree,
    factory: Arc<dyn CloudFactory>,
    /// The settings that each region runs on now.
    running: Mutex<BTreeMap<RegionId, RegionSpec>>,
}

impl Regions {
    pub(super) fn new(environment: Arc<Environment>, tree: Tree, factory: Arc<dyn CloudFactory>) -> Self {
        Self { environment, tree, factory, running: Mutex::new(BTreeMap::new()) }
    }

    /// The regions that are equipped now, in order.
    #[must_use]
    pub fn running(&self) -> Vec<RegionId> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner).keys().copied().collect()
    }

    #[must_use]
    pub fn simulated(&self, region: RegionId) -> Option<Arc<dyn SimulatedAdmin>> {
        self.factory.simulated(region)
    }

    /// Brings the region to what its record says: equipped, re-equipped when its settings changed, or stripped.
    pub fn refresh(&self, record: &Record) {
        let id = RegionId(record.key.id);
        let spec = match record.open::<Region>() {
            Ok(region) => region.spec,
            Err(error) => {
                tracing::error!(region = %id, %error, "a region's record is unreadable; its resources wait");
                return;
            }
        };
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if spec.withdrawn {
            running.remove(&id);
            self.environment.clouds.remove(id);
            let _ = self.tree.root().cast(BranchMessage::StripRegion { region: id.key() });
            return;
        }
        if running.get(&id).is_some_and(|now| now.provider == spec.provider) {
            return;
        }
        match self.factory.equip(id, &spec) {
            Err(reason) => {
                tracing::error!(region = %id, reason, "a region cannot be used; its resources wait");
            }
            Ok(equipment) => {
                self.environment.clouds.insert(equipment.provider);
                let mut services = equipment.services;
                services.push(Arc::new(MonitorService::new(Arc::clone(&self.environment), id)));
                let _ = self.tree.root().cast(BranchMessage::EquipRegion { region: id.key(), services });
                running.insert(id, spec);
            }
        }
    }
}
