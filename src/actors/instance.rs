//! An instance's life: that of its server, told by its server.
//!
//! ```text
//!   ──▶ server made, in the same commit ──▶ follows it: phase, addresses, health ──▶ Done, when the server is
//!           ▲                                    │ asked for something else ──▶ the server's intent is changed
//!           └── counted, made again ◀── no server ◀──┘
//!   deleting ──▶ server asked to go ──▶ server gone ──▶ references, quota given back ──▶ gone
//! ```
//!
//! It never speaks to a cloud. All it does is to say what its server is to be, and to repeat what its server says.

use super::decision::{Decision, Effect, Made, Order, View, still_held, waiting};
use super::kind::{Behaviour, Health};
use super::server::activity;
use crate::graph::outcome::Outcome;
use crate::model::condition::{Condition, Reason, Statement, Truth};
use crate::model::ids::{InstanceId, Key, ServerId};
use crate::model::instance::{Check, Instance, InstanceDetail, Recovery, server_record, server_tags, server_uses};
use crate::model::metadata::Metadata;
use crate::model::record::{CorruptRecord, Document, Resource};
use crate::model::server::Server;

impl Behaviour for Instance {
    const FOLLOWS: bool = true;

    fn gates(resource: &Resource<Self>) -> Vec<Key> {
        vec![resource.spec.server.key()]
    }

    /// The same as its server: what that one needs must not go while it is made again.
    fn references(resource: &Resource<Self>) -> Option<Vec<Key>> {
        Some(server_uses(&resource.metadata, &resource.spec))
    }

    fn decide(resource: &Resource<Self>, view: &View<'_>) -> Result<Decision, CorruptRecord> {
        let following = Following { resource, view, server: server(resource, view)? };
        Ok(if resource.metadata.is_deleting() {
            following.end()
        } else if resource.metadata.paused {
            Decision::Conclude(Outcome::Paused)
        } else {
            following.next()
        })
    }

    fn active(detail: &InstanceDetail) -> Option<Statement> {
        Some(activity(detail.phase))
    }
}

/// What stands under the id of its server.
enum Found {
    Nothing,
    Own(Box<Resource<Server>>),
    /// Somebody else's, who took the name while there was none.
    Foreign,
}

fn server(resource: &Resource<Instance>, view: &View<'_>) -> Result<Found, CorruptRecord> {
    let Some(record) = view.dependencies.get(&resource.spec.server.key()) else { return Ok(Found::Nothing) };
    let server = record.open::<Server>()?;
    let is_own = server.spec.governed.is_some_and(|governed| governed.instance.key() == resource.key);
    Ok(if is_own { Found::Own(Box::new(server)) } else { Found::Foreign })
}

struct Following<'a> {
    resource: &'a Resource<Instance>,
    view: &'a View<'a>,
    server: Found,
}

impl Following<'_> {
    const fn id(&self) -> InstanceId {
        InstanceId(self.resource.key.id)
    }

    const fn server_id(&self) -> ServerId {
        self.resource.spec.server
    }

    fn end(&self) -> Decision {
        if let Some(decision) = still_held(self.view) {
            return decision;
        }
        match &self.server {
            Found::Own(server) if server.metadata.is_deleting() => {
                waiting("waiting for its server to go".to_owned(), vec![server.key])
            }
            Found::Own(server) => Decision::Run(vec![Effect::Govern(Order::Delete(vec![server.key]))]),
            Found::Nothing | Found::Foreign => Decision::Run(vec![Effect::Finish]),
        }
    }

    fn next(&self) -> Decision {
        match &self.server {
            Found::Nothing => self.without_server(),
            Found::Foreign => self.lacking(Outcome::Retry {
                message: "another server has taken its name on the network; trying again".to_owned(),
                after: None,
            }),
            Found::Own(server) if server.metadata.is_deleting() => {
                self.lacking(self.wait(Reason::Provisioning, "waiting for its server to go"))
            }
            Found::Own(server) => self.changed(server).unwrap_or_else(|| self.follow(server)),
        }
    }

    fn wait(&self, reason: Reason, message: &str) -> Outcome {
        let waits_for = vec![self.server_id().key()];
        Outcome::Yield { reason, message: message.to_owned(), waits_for, on_cloud: false }
    }

    /// Shown as what it is: nothing does its work now.
    fn lacking(&self, outcome: Outcome) -> Decision {
        let detail = InstanceDetail { checks: vec![Check::WithoutServer], ..self.resource.detail.clone() };
        let healthy = Health::Degraded(Check::WithoutServer.message().to_owned()).statement();
        Decision::Follow { detail: Document::of(&detail), healthy, outcome }
    }

    /// Somebody took its server away. It is counted before another is made: each has a life of its own, and the same
    /// one when the answer to its making was lost.
    fn without_server(&self) -> Decision {
        if self.resource.spec.recovery() == Recovery::Report {
            return self.lacking(Outcome::UserActionRequired {
                reason: Reason::Errored,
                message: "the server of the instance is gone; ask for something else, or delete the instance"
                    .to_owned(),
            });
        }
        let remade = self.resource.detail.remade + 1;
        let detail = InstanceDetail { remade, checks: vec![Check::WithoutServer], ..self.resource.detail.clone() };
        let statement = Statement::new(Truth::False, Reason::Provisioning, "its server is made again");
        let (metadata, spec) = (&self.resource.metadata, &self.resource.spec);
        let record = server_record(self.id(), metadata, spec, remade);
        Decision::Run(vec![
            Effect::Note { detail: Document::of(&detail), statement: Some(statement) },
            Effect::Govern(Order::Make(vec![Made { record, uses: server_uses(metadata, spec) }])),
        ])
    }

    /// What its server is to be, if that is something else than it says of itself.
    fn changed(&self, server: &Resource<Server>) -> Option<Decision> {
        let (metadata, spec) = (&self.resource.metadata, &self.resource.spec);
        let wanted = spec.server_spec(self.id(), Some(server));
        let tags = Some(server_tags(self.id(), metadata));
        let is_news = wanted != server.spec || tags != server.metadata.tags;
        if !is_news && metadata.description == server.metadata.description {
            return None;
        }
        let before = server.spec.security_groups();
        let is_used = |key: &Key| before.iter().any(|group| group.key() == *key);
        let uses = server_uses(metadata, spec).into_iter().filter(|key| !is_used(key)).collect();
        let changed = Metadata {
            tags,
            description: metadata.description.clone(),
            modifier: metadata.modifier.clone(),
            modified: metadata.modified,
            generation: server.metadata.generation + u64::from(is_news),
            ..server.metadata.clone()
        };
        let order = Order::Change {
            key: server.key,
            expected: server.revision,
            metadata: Box::new(changed),
            spec: Document::of(&wanted),
            uses,
        };
        let mut effects = vec![Effect::Govern(order)];
        if self.is_spoken_of() {
            // Nobody asked the instance for this: somebody else changed its server.
            let detail = InstanceDetail { checks: vec![Check::ServerDiffers], ..self.resource.detail.clone() };
            let statement = Statement::new(Truth::False, Reason::Provisioning, Check::ServerDiffers.message());
            effects.insert(0, Effect::Note { detail: Document::of(&detail), statement: Some(statement) });
        }
        Some(Decision::Run(effects))
    }

    /// Was what is asked for now once reached?
    fn is_spoken_of(&self) -> bool {
        let generation = self.resource.metadata.generation;
        let reached = |said: &Condition| said.status == Truth::True && said.observed_generation == generation;
        self.resource.conditions.available.as_ref().is_some_and(reached)
    }

    fn follow(&self, server: &Resource<Server>) -> Decision {
        let mut detail = self.resource.detail.following(&server.detail);
        if server.detail.contradicts_power() {
            detail.checks.push(Check::PowerContradicts);
        }
        if self.view.is_unobserved {
            detail.checks.push(Check::Unobserved);
        }
        let said = server.conditions.healthy.as_ref();
        let said = said.map(|said| Statement::new(said.status, said.reason, said.message.clone()));
        let healthy =
            said.unwrap_or_else(|| Health::Unknown("nothing is known of its server yet".to_owned()).statement());
        let healthy = match detail.checks.first() {
            Some(Check::Unobserved) if healthy.status == Truth::True => {
                Health::Unknown(Check::Unobserved.message().to_owned()).statement()
            }
            Some(check) if healthy.status == Truth::True => Health::Degraded(check.message().to_owned()).statement(),
            _ => healthy,
        };
        let outcome = self.outcome(server);
        if outcome == Outcome::Done && self.pays_for_more() {
            // What was held for what is gone is given back; then that is written down, or it would be done for ever.
            let settled = self.resource.metadata.generation;
            let note = Document::of(&InstanceDetail { settled, ..self.resource.detail.clone() });
            let charge = Effect::Charge(self.resource.spec.machine.cost());
            return Decision::Run(vec![charge, Effect::Note { detail: note, statement: None }]);
        }
        Decision::Follow { detail: Document::of(&detail), healthy, outcome }
    }

    /// Is more charged than is asked for? One of a cluster pays for nothing.
    fn pays_for_more(&self) -> bool {
        let (metadata, spec) = (&self.resource.metadata, &self.resource.spec);
        let is_settled = self.resource.detail.settled == metadata.generation;
        metadata.charged && !is_settled && spec.charged != spec.machine.cost()
    }

    /// Where its server stands is where it stands.
    fn outcome(&self, server: &Resource<Server>) -> Outcome {
        let generation = server.metadata.generation;
        match &server.conditions.available {
            None => self.wait(Reason::Provisioning, "its server is about to be made"),
            Some(said) if said.observed_generation < generation => {
                self.wait(Reason::Provisioning, "its server is about to be changed")
            }
            Some(said) if said.status == Truth::True => Outcome::Done,
            Some(said) => self.wait(said.reason, &said.message),
        }
    }
}
