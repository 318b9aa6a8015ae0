//! What can go wrong on order: which calls, how, how often.
//!
//! Faults are data, so that a test, a seeded history and an operator's `POST` order them in the same words. They are
//! tried in the order they were given: delays add up, and the first other effect that fits is the one that happens.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::super::call::{Call, CallRequest, CloudError, ServerAction};
use super::super::objects::ObjectKind;
use crate::model::ids::OrganizationId;

/// How many faults can be in force. Every call tries each of them, and no scenario needs more than a few.
pub const FAULTS_MAX: usize = 1000;

/// Which calls a fault is for: everything given must fit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CallPattern {
    /// Words of operations; one that ends in `*` stands for all that begin so. Empty: all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub operations: Vec<String>,
    /// The cloud's id of an object, or ours that it is marked with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub object: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<OrganizationId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mutating: Option<bool>,
}

impl CallPattern {
    #[must_use]
    pub fn operation(word: &str) -> Self {
        Self { operations: vec![word.to_owned()], ..Self::default() }
    }

    /// `object_marked` is our id of the object that the call names, where the cloud knows it.
    fn matches(&self, request: &CallRequest, object_marked: Option<&str>) -> bool {
        let word = request.call.operation();
        let named = self.operations.is_empty()
            || self.operations.iter().any(|wanted| match wanted.strip_suffix('*') {
                Some(beginning) => word.starts_with(beginning),
                None => word == wanted,
            });
        let about = |wanted: &String| {
            let subject = request.call.subject();
            subject.split('/').any(|part| part == wanted) || object_marked == Some(wanted.as_str())
        };
        named
            && self.object.as_ref().is_none_or(about)
            && self.tenant.is_none_or(|tenant| request.tenant == Some(tenant))
            && self.mutating.is_none_or(|mutating| request.call.is_mutating() == mutating)
    }
}

/// How a create goes half wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PartialForm {
    /// The object is there and never finishes by itself.
    Unfinished,
    /// The object is there, in its error state.
    Errored,
    /// The object is there and active, without its options: no VLAN, no pool, no name servers, no gateway, no groups,
    /// no tags.
    Incomplete,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", rename_all_fields = "camelCase")]
pub enum Effect {
    /// Nothing is done.
    Error { error: CloudError },
    /// Nothing is done; after a while the cloud's front gives up.
    TimeOut { after_ms: u64 },
    /// Nothing is done, and no answer comes before the caller's deadline.
    Hang,
    /// It is done, and then the connection breaks, at once or after a while.
    LostAnswer {
        #[serde(default)]
        after_ms: u64,
    },
    /// A create leaves something behind and says that it failed.
    PartialCreate { form: PartialForm },
    /// A find or a list answers with what was so some time ago.
    Stale { age_ms: u64 },
    /// Done properly, later.
    Slow { delay_ms: u64 },
    /// Nothing is done: too many requests.
    Throttle {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        retry_after_ms: Option<u64>,
    },
    /// A create is accepted and stays `building`, for a while or until it is released.
    StuckCreate {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        for_ms: Option<u64>,
    },
    /// A server or a load balancer is accepted and goes to its error state instead of starting; a volume, instead of
    /// becoming usable.
    FailedBoot,
    /// An image is accepted and goes to its error state instead of becoming ready.
    FailedImport,
    /// A rebuild is accepted and ends in the error state.
    FailedRebuild,
    /// A resize is accepted and ends in the error state.
    FailedResize,
    /// A delete is accepted and stays `deleting`, for a while or until it is released.
    StuckDelete {
        #[serde(default, skip_serializing_if = "Option::is_none")]
        for_ms: Option<u64>,
    },
}

impl Effect {
    /// A fault is not used up by a call that it cannot happen to.
    fn can_happen_to(&self, call: &Call) -> bool {
        match self {
            Self::PartialCreate { .. } | Self::StuckCreate { .. } => matches!(call, Call::Create { .. }),
            Self::FailedBoot => {
                let starts = [ObjectKind::Server, ObjectKind::LoadBalancer, ObjectKind::Volume, ObjectKind::Share];
                matches!(call, Call::Create { object } if starts.contains(&object.body.kind()))
            }
            Self::FailedImport => {
                matches!(call, Call::Create { object } if object.body.kind() == ObjectKind::Image)
            }
            Self::FailedRebuild => matches!(call, Call::Act { action: ServerAction::Rebuild { .. }, .. }),
            Self::FailedResize => matches!(call, Call::Act { action: ServerAction::Resize { .. }, .. }),
            Self::StuckDelete { .. } => matches!(call, Call::Delete { .. }),
            Self::Stale { .. } => matches!(call, Call::Find { .. } | Call::List { .. }),
            Self::LostAnswer { .. } => call.is_mutating(),
            Self::Error { .. } | Self::TimeOut { .. } | Self::Hang | Self::Slow { .. } | Self::Throttle { .. } => true,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Fault {
    #[serde(default)]
    pub matching: CallPattern,
    pub effect: Effect,
    /// How many calls it happens to; absent: all, until the faults are cleared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub times: Option<u32>,
    /// The chance that it happens to a call that fits; absent: it is certain.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probability: Option<f64>,
}

impl Fault {
    #[must_use]
    pub fn once(operation: &str, effect: Effect) -> Self {
        Self { times: Some(1), ..Self::always(operation, effect) }
    }

    #[must_use]
    pub fn always(operation: &str, effect: Effect) -> Self {
        Self { matching: CallPattern::operation(operation), effect, times: None, probability: None }
    }
}

/// What is to happen to one call.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Fate {
    pub delay: Duration,
    pub effect: Option<Effect>,
}

/// The faults in force, and the chance that they are drawn with: apart from the one that ids are drawn with, so that
/// a fault that never happens changes nothing.
pub struct FaultBook {
    faults: Vec<Fault>,
    random: fastrand::Rng,
    changed: bool,
}

impl FaultBook {
    pub fn new(random: fastrand::Rng) -> Self {
        Self { faults: Vec::new(), random, changed: false }
    }

    pub fn list(&self) -> &[Fault] {
        &self.faults
    }

    pub fn add(&mut self, faults: Vec<Fault>) -> Result<(), CloudError> {
        if self.faults.len() + faults.len() > FAULTS_MAX {
            return Err(CloudError::rejected("too many faults are in force"));
        }
        if faults.iter().any(|fault| fault.probability.is_some_and(|chance| !(0.0..=1.0).contains(&chance))) {
            return Err(CloudError::rejected("a probability lies between 0 and 1"));
        }
        self.faults.extend(faults);
        self.changed = true;
        Ok(())
    }

    pub fn clear(&mut self) {
        self.faults.clear();
        self.changed = true;
    }

    /// Draws what happens to a call, and uses up the faults that do.
    pub fn draw(&mut self, request: &CallRequest, object_marked: Option<&str>) -> Fate {
        let mut fate = Fate::default();
        for fault in &mut self.faults {
            let fits = fault.effect.can_happen_to(&request.call) && fault.matching.matches(request, object_marked);
            if !fits || fault.probability.is_some_and(|chance| self.random.f64() >= chance) {
                continue;
            }
            if let Some(times) = &mut fault.times {
                if *times == 0 {
                    continue;
                }
                *times -= 1;
                self.changed = true;
            }
            if let Effect::Slow { delay_ms } = fault.effect {
                fate.delay += Duration::from_millis(delay_ms);
            } else {
                fate.effect = Some(fault.effect.clone());
                break;
            }
        }
        if self.changed {
            self.faults.retain(|fault| fault.times != Some(0));
        }
        fate
    }

    /// The faults, if they are not as they were when this was last asked.
    pub fn take_changed(&mut self) -> Option<Vec<Fault>> {
        std::mem::take(&mut self.changed).then(|| self.faults.clone())
    }
}
