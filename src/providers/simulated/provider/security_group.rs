//! Making and unmaking a security group: the group, then its rules, one by one.
//!
//! What is missing is added before what is too much is removed: a group that is being changed lets through at least
//! what it lets through before and after.

use std::collections::BTreeSet;

use super::super::call::{Call, Criteria};
use super::super::objects::{Body, CloudObject, Marks, NewObject, ObjectId, ObjectKind, ObjectState};
use super::fingerprint::Fingerprint;
use super::session::{Session, at_most_one};
use super::tags;
use crate::model::ids::{ProviderSecurityGroupId, SecurityGroupId};
use crate::model::security_group::{EffectiveRule, SecurityGroupDetail};
use crate::providers::{Deletion, Observed, ProviderError, ProviderResult, SecurityGroupFact, SecurityGroupRequest};

const fn marks(request: &SecurityGroupRequest) -> Marks {
    Marks { id: request.id.0, incarnation: request.incarnation }
}

fn known(request: &SecurityGroupRequest) -> Option<ObjectId> {
    request.detail.group.as_ref().map(|id| ObjectId(id.0.clone()))
}

impl Session<'_> {
    pub async fn converge_security_group(
        &self,
        request: &SecurityGroupRequest,
    ) -> ProviderResult<Observed<SecurityGroupFact>> {
        let known = known(request);
        let seen = self.find_own(ObjectKind::SecurityGroup, marks(request), known.as_ref()).await?;
        let found = match at_most_one(seen.fact, "security group")? {
            // A failed beginning, which nobody can have used.
            Some(group) if group.state == ObjectState::Error && known.as_ref() != Some(&group.id) => {
                self.discard(&group).await?;
                None
            }
            found => found,
        };
        let mut group = match found {
            Some(group) => group,
            None => self.create_security_group(request).await?,
        };
        match group.state {
            ObjectState::Building => return Err(ProviderError::Conflict("it is still being built".to_owned())),
            ObjectState::Deleting => return Err(ProviderError::Conflict("it is being removed".to_owned())),
            ObjectState::Active | ObjectState::Error => {}
        }
        let wanted = request.spec.effective_rules();
        for rule in wanted.difference(&rules(&group)) {
            group = self.change(Call::AddRule { group: group.id.clone(), rule: *rule }).await?;
        }
        for rule in rules(&group).difference(&wanted) {
            self.take_away(Call::RemoveRule { group: group.id.clone(), rule: *rule }).await?;
            if let Body::SecurityGroup { rules, .. } = &mut group.body {
                rules.remove(rule);
            }
        }
        Ok(Observed { sequence: seen.sequence, fact: fact(&group) })
    }

    async fn create_security_group(&self, request: &SecurityGroupRequest) -> ProviderResult<CloudObject> {
        let project = self.project_of(request.identity).await?;
        let object = NewObject {
            name: format!("security-group-{}", request.id),
            marks: Some(marks(request)),
            tags: tags(request.organization, request.project),
            body: Body::SecurityGroup { project, rules: BTreeSet::new() },
        };
        self.change(Call::Create { object }).await
    }

    /// The cloud's groups of ours, all of them: a port with some of its groups would let through what it should not.
    pub async fn security_groups(&self, ids: &[SecurityGroupId]) -> ProviderResult<BTreeSet<ObjectId>> {
        let mut groups = BTreeSet::new();
        for id in ids {
            let found = self.find(ObjectKind::SecurityGroup, Criteria::marked(id.0)).await?.fact;
            let group = at_most_one(found, "security group")?;
            let missing = || ProviderError::Conflict("a security group is not there".to_owned());
            groups.insert(group.ok_or_else(missing)?.id);
        }
        Ok(groups)
    }

    /// Takes away every group of this incarnation, doubles included.
    pub async fn delete_security_group(&self, request: &SecurityGroupRequest) -> ProviderResult<Deletion> {
        let look = async |known| self.find_own(ObjectKind::SecurityGroup, marks(request), known).await;
        let known = known(request);
        let seen = look(known.as_ref()).await?.fact;
        let Some(first) = seen.first().map(|group| group.id.clone()) else { return Ok(Deletion::Absent) };
        self.take_all_away(removals(&seen)).await?;
        let left = look(known.as_ref().or(Some(&first))).await?.fact;
        Ok(if left.is_empty() { Deletion::Absent } else { Deletion::Underway })
    }
}

/// What the cloud is removing already is not asked for again.
pub(super) fn removals<'a>(objects: impl IntoIterator<Item = &'a CloudObject>) -> Vec<Call> {
    let left = objects.into_iter().filter(|object| object.state != ObjectState::Deleting);
    left.map(|object| Call::Delete { kind: object.kind(), id: object.id.clone() }).collect()
}

fn rules(group: &CloudObject) -> BTreeSet<EffectiveRule> {
    match &group.body {
        Body::SecurityGroup { rules, .. } => rules.clone(),
        _ => BTreeSet::new(),
    }
}

pub(super) fn fact(group: &CloudObject) -> SecurityGroupFact {
    let detail = SecurityGroupDetail {
        group: Some(ProviderSecurityGroupId(group.id.0.clone())),
        fingerprint: Some(fingerprint(group)),
    };
    let trouble = match group.state {
        ObjectState::Active => None,
        ObjectState::Building => Some("the security group is still being built"),
        ObjectState::Error => Some("the security group is in an error state"),
        ObjectState::Deleting => Some("the security group is being removed"),
    };
    SecurityGroupFact { detail, trouble: trouble.map(str::to_owned) }
}

fn fingerprint(group: &CloudObject) -> u64 {
    let mut digest = Fingerprint::new();
    digest.head(group);
    if let Body::SecurityGroup { rules, .. } = &group.body {
        for rule in rules {
            let (first, last) = rule.ports.unwrap_or_default();
            digest.number(rule.direction as u64);
            digest.number(rule.ethertype as u64);
            digest.number(rule.protocol as u64);
            digest.number(rule.ports.is_some());
            digest.number(first);
            digest.number(last);
            digest.number(u32::from(rule.prefix.network()));
            digest.number(rule.prefix.prefix_len());
        }
    }
    digest.value()
}
