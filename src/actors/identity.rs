//! A principal's life.
//!
//! ```text
//!   ──▶ project, user, credential made ──▶ Done
//!   deleting ──▶ credential, user, project confirmed absent ──▶ gone
//! ```
//!
//! A hidden principal is marked for deletion by the removal of its network, in the same commit.

use super::decision::Step;
use super::kind::{Behaviour, Health};
use crate::model::identity::{Identity, IdentityDetail};
use crate::model::ids::IdentityId;
use crate::model::record::{CorruptRecord, Resource};
use crate::providers::IdentityRequest;
use crate::providers::call::{Fact, ProviderCall};

impl Behaviour for Identity {
    fn step(resource: &Resource<Self>) -> Result<Step, CorruptRecord> {
        let request = request(resource)?;
        Ok(Step::Provider {
            make: Box::new(ProviderCall::ConvergeIdentity(request.clone())),
            unmake: Box::new(ProviderCall::DeleteIdentity(request)),
        })
    }

    fn absorb(detail: &mut IdentityDetail, fact: &Fact) -> Health {
        if let Fact::Identity(seen) = fact {
            detail.clone_from(&seen.fact);
        }
        Health::Healthy
    }

    fn is_realised(detail: &IdentityDetail) -> bool {
        detail.project.is_some()
    }
}

fn request(resource: &Resource<Identity>) -> Result<IdentityRequest, CorruptRecord> {
    let place = resource.place()?;
    Ok(IdentityRequest {
        id: IdentityId(resource.key.id),
        incarnation: resource.metadata.incarnation,
        organization: place.organization,
        project: place.project,
        resets: resource.metadata.resets,
        detail: resource.detail.clone(),
    })
}
