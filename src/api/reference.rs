//! References that others take on what is ours, so that it is not deleted under them.

use super::Api;
use super::error::ApiError;
use super::extract::PathElements;
use crate::model::edge::Holder;
use crate::model::ids::Key;
use crate::store::{Batch, Precondition, Write};

/// How many others may refer to one resource. Each is a row that a refused deletion reads; more than this is a client
/// that forgets to take its references back.
const REFERENCES_MAX: usize = 1024;

/// `<plural>.<group>/<id>`, whether its slash was escaped or made a path element of its own.
pub fn holder_of(path: &PathElements) -> Result<Holder, ApiError> {
    let reference = path.text("reference")?;
    let text = path.text("id").map_or_else(|_| reference.to_owned(), |id| format!("{reference}/{id}"));
    text.parse().map_err(|error| ApiError::invalid(format!("invalid path/query element: {error}")))
}

/// What our own resources refer to follows from what they are; a client could only contradict it.
async fn refuse_own(api: &Api, holder: &Holder) -> Result<(), ApiError> {
    let Holder::Resource(key) = holder else { return Ok(()) };
    if key.kind.may_be_elsewhere() && api.store.get(*key).await?.is_none() {
        return Ok(());
    }
    Err(ApiError::invalid("invalid path/query element: this kind's references are kept by the service itself"))
}

/// Takes a reference, unless the target is going or has as many as it may have. Taking one again takes no room.
pub async fn add(api: &Api, target: Key, holder: Holder) -> Result<(), ApiError> {
    refuse_own(api, &holder).await?;
    let known = api.store.references(target).await?;
    // What is ours is bounded by what there is of it.
    let others = known.iter().filter(|holder| match holder {
        Holder::External(_) => true,
        Holder::Resource(key) => key.kind.may_be_elsewhere(),
    });
    if others.count() >= REFERENCES_MAX && !known.contains(&holder) {
        return Err(ApiError::forbidden(format!("the {} has as many references as it may have", target.kind)));
    }
    let batch = Batch::of(vec![Write::AddReference { target, holder }]);
    api.store.commit(batch.provided(Precondition::Live(target))).await?;
    Ok(())
}

pub async fn remove(api: &Api, target: Key, holder: Holder) -> Result<(), ApiError> {
    refuse_own(api, &holder).await?;
    api.store.commit(Batch::of(vec![Write::RemoveReference { target, holder }])).await?;
    Ok(())
}
