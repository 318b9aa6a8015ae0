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
    let holder = text.parse().map_err(|error| ApiError::invalid(format!("invalid path/query element: {error}")))?;
    if matches!(holder, Holder::Resource(_)) {
        // What our own resources refer to follows from what they are; a client could only contradict it.
        return Err(ApiError::invalid(
            "invalid path/query element: this kind's references are kept by the service itself",
        ));
    }
    Ok(holder)
}

/// Takes a reference, unless the target is going or has as many as it may have.
pub async fn add(api: &Api, target: Key, holder: Holder) -> Result<(), ApiError> {
    if api.store.references(target).await?.len() >= REFERENCES_MAX {
        return Err(ApiError::forbidden(format!("the {} has as many references as it may have", target.kind)));
    }
    let batch = Batch::of(vec![Write::AddReference { target, holder }]);
    api.store.commit(batch.provided(Precondition::Live(target))).await?;
    Ok(())
}

pub async fn remove(api: &Api, target: Key, holder: Holder) -> Result<(), ApiError> {
    api.store.commit(Batch::of(vec![Write::RemoveReference { target, holder }])).await?;
    Ok(())
}
