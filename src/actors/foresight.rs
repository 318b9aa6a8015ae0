//! What a resource's actor would do first, told without doing it: the very decision that the actor would take.
//!
//! Only the first: what comes after it depends on what the cloud answers.

use std::collections::BTreeMap;

use jiff::Timestamp;

use super::Options;
use super::decision::{Child, Decision, Effect, Order, View};
use super::kind;
use super::pass::{gate, members};
use crate::graph::outcome::Outcome;
use crate::model::cluster::{Cluster, ClusterSpec};
use crate::model::edge::Holder;
use crate::model::ids::Kind;
use crate::model::instance::Instance;
use crate::model::record::{CorruptRecord, Record};
use crate::model::server::Server;
use crate::store::{Store, StoreError};

/// In words for its user; empty when nothing would be done.
pub async fn next_effects(store: &dyn Store, record: &Record, now: Timestamp) -> Result<Vec<String>, StoreError> {
    let Some(entry) = kind::entry(record.key.kind) else { return Ok(Vec::new()) };
    let (mut references, mut children) = (Vec::new(), Vec::new());
    let (mut gates, mut dependencies) = (BTreeMap::new(), BTreeMap::new());
    if record.metadata.is_deleting() {
        references = store.references(record.key).await?;
        let bridged = references.iter().filter_map(|holder| match holder {
            Holder::Resource(key) if (entry.is_bridge_to)(key.kind) => Some(*key),
            Holder::Resource(_) | Holder::External(_) => None,
        });
        // A bound of its own is not needed: what a pass would read is read here.
        for key in store.children(record.key).await?.into_iter().chain(bridged) {
            let deleting = store.get(key).await?.is_none_or(|child| child.metadata.is_deleting());
            children.push(Child { key, deleting });
        }
    }
    if !record.metadata.is_deleting() || entry.follows {
        for target in (entry.gates)(record)? {
            let found = store.get(target).await?;
            gates.insert(target, gate(found.as_deref()));
            dependencies.extend(found.map(|record| (target, record)));
        }
    }
    let members = members(store, entry, record.key).await?;
    let view = View {
        record,
        detail: &record.detail,
        references: &references,
        children: &children,
        gates: &gates,
        dependencies: &dependencies,
        members: &members,
        operations: &[],
        results: &BTreeMap::new(),
        sighting: None,
        is_unobserved: false,
        now,
        creation_tries_max: Options::default().creation_tries_max,
    };
    Ok(match (entry.decide)(&view)? {
        Decision::Run(effects) => effects.iter().map(word).collect(),
        Decision::Conclude(outcome) | Decision::Follow { outcome, .. } => conclusion(outcome).into_iter().collect(),
    })
}

/// What a change of a record would lose, in words for its user.
pub fn losses(before: &Record, after: &Record) -> Result<Vec<String>, CorruptRecord> {
    match after.key.kind {
        _ if after.metadata.is_deleting() && !before.metadata.is_deleting() => {
            Ok(vec![format!("the {} and everything in it", after.key.kind.noun())])
        }
        Kind::Instance => {
            let (before, after) = (before.open::<Instance>()?.spec, after.open::<Instance>()?.spec);
            Ok(after.machine.losses(&before.machine).into_iter().map(str::to_owned).collect())
        }
        Kind::Server => {
            let is_other = before.open::<Server>()?.spec.image != after.open::<Server>()?.spec.image;
            let lost = "the root disk is replaced by the image: what is on it is lost".to_owned();
            Ok(if is_other { vec![lost] } else { Vec::new() })
        }
        Kind::Cluster => cluster_losses(&before.open::<Cluster>()?.spec, &after.open::<Cluster>()?.spec),
        _ => Ok(Vec::new()),
    }
}

#[expect(clippy::unnecessary_wraps, reason = "reads as what it stands beside")]
fn cluster_losses(before: &ClusterSpec, after: &ClusterSpec) -> Result<Vec<String>, CorruptRecord> {
    let mut losses = Vec::new();
    for pool in &before.pools {
        let kept = after.pools.iter().find(|kept| kept.name == pool.name);
        let fewer = pool.replicas.saturating_sub(kept.map_or(0, |kept| kept.replicas));
        if fewer > 0 {
            losses.push(format!("pool {}: {fewer} instances, and what is on their disks", pool.name));
        }
        let changed = kept.map(|kept| kept.machine.losses(&pool.machine)).unwrap_or_default();
        losses.extend(changed.into_iter().map(|loss| format!("pool {}: of each instance, {loss}", pool.name)));
    }
    Ok(losses)
}

fn word(effect: &Effect) -> String {
    match effect {
        // The name of a call is a word or a pair of a word and an id, and says nothing of what is called with.
        Effect::Call(call) => match serde_json::to_value(call.name()) {
            Ok(serde_json::Value::String(name)) => format!("ask the cloud to {}", name.replace('-', " ")),
            Ok(_) | Err(_) => "ask the cloud to carry out a verb".to_owned(),
        },
        Effect::Cascade(keys) => format!("delete {} resources that go with it", keys.len()),
        Effect::Note { .. } => "write down what is known of it".to_owned(),
        Effect::Operate { .. } => "go on with a verb".to_owned(),
        Effect::Govern(order) => match order {
            Order::Make(made) => format!("make {} resources that do its work", made.len()),
            Order::Change { key, .. } => format!("change the {} that does its work", key.kind.noun()),
            Order::Delete(keys) => format!("delete {} resources that do its work", keys.len()),
        },
        Effect::Charge(_) => "bring what is charged for it to what it has".to_owned(),
        Effect::Finish => "give back what it holds and remove it".to_owned(),
    }
}

fn conclusion(outcome: Outcome) -> Option<String> {
    match outcome {
        Outcome::Done => None,
        Outcome::Paused => Some("nothing, as long as it is paused".to_owned()),
        Outcome::Watching { message, .. }
        | Outcome::Yield { message, .. }
        | Outcome::Retry { message, .. }
        | Outcome::UserActionRequired { message, .. }
        | Outcome::Terminal { message, .. } => Some(format!("wait: {message}")),
    }
}
