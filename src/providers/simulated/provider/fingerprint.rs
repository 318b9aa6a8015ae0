//! What of every simulated object goes into a digest of it.

use super::super::objects::{CloudObject, ObjectState};
pub(super) use crate::providers::fingerprint::Fingerprint;

impl Fingerprint {
    /// What every object has that can change.
    pub(super) fn head(&mut self, object: &CloudObject) {
        self.text(&object.id.0);
        self.number(match object.state {
            ObjectState::Building => 1_u8,
            ObjectState::Active => 2,
            ObjectState::Error => 3,
            ObjectState::Deleting => 4,
        });
        self.number(object.tags.len() as u64);
        for (name, value) in &object.tags {
            self.text(name);
            self.text(value);
        }
    }
}
