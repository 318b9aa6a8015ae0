//! A cluster's life: as many instances of each pool as asked for, on the terms asked for.
//!
//! ```text
//!   ──▶ counted, made ──▶ waits until all are ready ──▶ what is charged is what is there ──▶ Done
//!   asked for something else ──▶ some go, some are changed, no more away at a time than may be ──▶ as above
//!   deleting ──▶ its instances are marked ──▶ gone, all of them ──▶ references, quota given back ──▶ gone
//! ```
//!
//! It only speaks of its instances; each of them speaks of its server. A network that was made for it alone follows it.

use super::decision::{Decision, Effect, Made, Order, Step, View, decide};
use super::kind::{Behaviour, Health};
use crate::graph::outcome::Outcome;
use crate::model::cluster::{Cluster, ClusterDetail, MachineDetail, Member, Plan, PoolDetail, member};
use crate::model::condition::{Reason, Statement, Truth};
use crate::model::ids::{Key, Kind, NetworkId};
use crate::model::instance::{Instance, InstanceSpec, server_record, server_uses};
use crate::model::metadata::{ApiVersion, Metadata};
use crate::model::record::{CorruptRecord, Document, Record, Resource};

/// How many instances one commit makes. Fewer would cost a large pool many syncs; more would hold up every other
/// writer of the group, and lose more when one name is taken.
const MADE_AT_ONCE_MAX: usize = 16;

impl Behaviour for Cluster {
    const GOVERNS: Option<Kind> = Some(Kind::Instance);

    fn references(resource: &Resource<Self>) -> Option<Vec<Key>> {
        let network = resource.metadata.placement.network.map(NetworkId::key);
        Some(network.into_iter().chain(resource.spec.uses()).collect())
    }

    /// The network that was made with it, with all that lies in it: groups, and the principal behind it.
    fn followed_by(resource: &Resource<Self>) -> Option<Key> {
        resource.metadata.placement.network.filter(|_| resource.spec.own_network).map(NetworkId::key)
    }

    fn decide(resource: &Resource<Self>, view: &View<'_>) -> Result<Decision, CorruptRecord> {
        if resource.metadata.is_deleting() || resource.metadata.paused {
            return Ok(decide(&Step::Serial(Vec::new()), view));
        }
        let instances = view.members.iter().map(|record| record.open::<Instance>()).collect::<Result<Vec<_>, _>>()?;
        Ok(Keeping { resource, view, instances: &instances }.next())
    }
}

/// Keeps the pools at their number, from a view.
struct Keeping<'a> {
    resource: &'a Resource<Cluster>,
    view: &'a View<'a>,
    instances: &'a [Resource<Instance>],
}

impl Keeping<'_> {
    fn next(&self) -> Decision {
        let members = self.instances.iter().map(Member::of).collect::<Vec<_>>();
        let spec = &self.resource.spec;
        let plan = spec.plan(&members);
        let effects = self.effects(&plan);
        if !effects.is_empty() {
            return Decision::Run(effects);
        }
        let detail = ClusterDetail { pools: self.standing(&members), ..self.resource.detail.clone() };
        if plan.unsettled > 0 {
            return self.follow(&detail, self.wait(&detail));
        }
        let generation = self.resource.metadata.generation;
        if self.resource.detail.settled != generation {
            // What was held for what is gone is given back; then that is written down, or it would be done for ever.
            let detail = ClusterDetail { settled: generation, ..detail };
            let note = Effect::Note { detail: Document::of(&detail), statement: None };
            return Decision::Run(vec![Effect::Charge(spec.cost()), note]);
        }
        self.follow(&detail, Outcome::Done)
    }

    /// How the pools stand. The first version also shows who is in them, and whoever lists clusters must not have to
    /// look for the instances of each.
    fn standing(&self, members: &[Member<'_>]) -> Vec<PoolDetail> {
        let mut pools = self.resource.spec.standing(members);
        if self.resource.metadata.api_version == ApiVersion::V1 {
            for pool in &mut pools {
                let is_there = |instance: &&Resource<Instance>| {
                    instance.spec.pool.as_ref() == Some(&pool.name) && !instance.metadata.is_deleting()
                };
                pool.machines = self.instances.iter().filter(is_there).map(MachineDetail::of).collect();
            }
        }
        pools
    }

    fn effects(&self, plan: &Plan) -> Vec<Effect> {
        let mut effects = Vec::new();
        if !plan.delete.is_empty() {
            let keys = plan.delete.iter().map(|id| id.key()).collect();
            effects.push(Effect::Govern(Order::Delete(keys)));
        }
        effects.extend(plan.change.iter().filter_map(|(id, place)| {
            let instance = self.instances.iter().find(|instance| instance.key == id.key())?;
            Some(Effect::Govern(self.change(instance, *place)))
        }));
        effects.extend(self.creations(&plan.make));
        effects
    }

    /// Counted first: a number that was counted and not made is only skipped.
    fn creations(&self, places: &[usize]) -> Vec<Effect> {
        let places = &places[..places.len().min(MADE_AT_ONCE_MAX)];
        if places.is_empty() {
            return Vec::new();
        }
        let first = self.resource.detail.made + 1;
        let made = self.resource.detail.made + places.len() as u64;
        let detail = ClusterDetail { made, ..self.resource.detail.clone() };
        let mut records = Vec::new();
        for (number, place) in (first..).zip(places) {
            let pool = &self.resource.spec.pools[*place];
            let (id, metadata, spec) = member(self.resource, pool, number, self.view.now);
            let uses = server_uses(&metadata, &spec);
            // The server first: it is what may be refused, because its name is taken.
            records.push(Made { record: server_record(id, &metadata, &spec, 0), uses: uses.clone() });
            records.push(Made { record: Record::new::<Instance>(id.0, metadata, &spec), uses });
        }
        let statement = Statement::new(Truth::False, Reason::Provisioning, "instances are being made");
        let note = Effect::Note { detail: Document::of(&detail), statement: Some(statement) };
        vec![note, Effect::Govern(Order::Make(records))]
    }

    /// Brings one instance to the terms of its pool.
    fn change(&self, instance: &Resource<Instance>, place: usize) -> Order {
        let machine = self.resource.spec.pools[place].machine.clone();
        let before = instance.spec.machine.uses();
        let uses = machine.uses().into_iter().filter(|key| !before.contains(key)).collect();
        let spec = InstanceSpec { machine, ..instance.spec.clone() };
        let metadata = Metadata {
            modifier: self.resource.metadata.modifier.clone(),
            modified: Some(self.view.now),
            generation: instance.metadata.generation + 1,
            ..instance.metadata.clone()
        };
        Order::Change {
            key: instance.key,
            expected: instance.revision,
            metadata: Box::new(metadata),
            spec: Document::of(&spec),
            uses,
        }
    }

    fn follow(&self, detail: &ClusterDetail, outcome: Outcome) -> Decision {
        let is_unwell = |instance: &&Resource<Instance>| {
            let healthy = instance.conditions.healthy.as_ref();
            healthy.is_some_and(|healthy| healthy.status == Truth::False)
        };
        let unwell = self.instances.iter().filter(is_unwell).count();
        let all = self.instances.len();
        let healthy = Health::unless((unwell > 0).then(|| format!("{unwell} of {all} instances are not well")));
        Decision::Follow { detail: Document::of(detail), healthy: healthy.statement(), outcome }
    }

    /// For instances that are on their way; one that has failed is named.
    fn wait(&self, detail: &ClusterDetail) -> Outcome {
        let sum = |part: fn(&PoolDetail) -> u32| detail.pools.iter().map(part).sum::<u32>();
        let wanted = self.resource.spec.pools.iter().map(|pool| pool.replicas).sum::<u32>();
        let mut failed = self.instances.iter().filter(|instance| instance.conditions.has_failed());
        let (reason, message) = match failed.next() {
            Some(instance) => {
                (Reason::Errored, format!("instance \"{}\" ({}) has failed", instance.metadata.name, instance.key.id))
            }
            None => (Reason::Provisioning, format!("{} of {wanted} instances are ready", sum(|pool| pool.ready))),
        };
        let is_awaited = |instance: &&Resource<Instance>| !Member::of(instance).is_ready;
        let waits_for = self.instances.iter().filter(is_awaited).map(|instance| instance.key).collect();
        Outcome::Yield { reason, message, waits_for, on_cloud: false }
    }
}
