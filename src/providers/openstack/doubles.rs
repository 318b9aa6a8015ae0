//! What becomes of several where there can be one.
//!
//! A process that is killed takes the answer with it, but not the order: its successor looks before the cloud has carried
//! that out, finds nothing, and orders again. No name is unique in Neutron, Nova, Cinder or Octavia, so there are two
//! then. Both carry our mark, and say that they are of the same life of the same resource: the one that is used stays, or
//! else the one on record, or else the first, and the others go. What carries no mark is not ours to remove: then an
//! operator must look.

use crate::model::ids::Incarnation;
use crate::providers::{ProviderError, ProviderResult};

/// Something of which each life of a resource has one.
pub(super) trait Marked {
    const WORD: &'static str;
    fn id(&self) -> &str;
    fn incarnation(&self) -> Option<Incarnation>;
}

/// The one that stays, and those that go.
#[derive(Debug)]
pub(super) struct Chosen<T> {
    pub first: Option<T>,
    pub doubles: Vec<T>,
}

/// Chooses among all that are of one life.
pub(super) fn choose<T: Marked>(
    mut objects: Vec<T>,
    known: Option<&str>,
    is_used: impl Fn(&T) -> bool,
) -> ProviderResult<Chosen<T>> {
    objects.sort_by_cached_key(|object| {
        (!is_used(object), known != Some(object.id()), object.incarnation().is_none(), object.id().to_owned())
    });
    let count = objects.len();
    let mut objects = objects.into_iter();
    let chosen = Chosen { first: objects.next(), doubles: objects.collect() };
    if chosen.doubles.iter().any(|double| double.incarnation().is_none() || is_used(double)) {
        return Err(ProviderError::Inconsistent(format!("{count} {}s where there can be one", T::WORD)));
    }
    Ok(chosen)
}

/// What a pass ends with that has taken a double away: the next one looks again.
pub(super) fn taken_away(resource: &dyn std::fmt::Display) -> ProviderError {
    tracing::warn!(%resource, "a double was taken away");
    ProviderError::Conflict("a double was taken away".to_owned())
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[derive(Debug, PartialEq)]
    struct Thing(&'static str, bool);

    impl Marked for Thing {
        const WORD: &'static str = "thing";
        fn id(&self) -> &str {
            self.0
        }
        fn incarnation(&self) -> Option<Incarnation> {
            self.1.then_some(Incarnation(Uuid::from_u128(1)))
        }
    }

    fn chosen(things: Vec<Thing>, known: Option<&str>, used: &[&str]) -> Option<(String, usize)> {
        let chosen = choose(things, known, |thing| used.contains(&thing.0)).ok()?;
        Some((chosen.first.map_or_else(String::new, |first| first.0.to_owned()), chosen.doubles.len()))
    }

    #[test]
    fn the_used_one_stays_or_that_on_record_or_the_first() {
        let three = || vec![Thing("c", true), Thing("b", true), Thing("a", true)];
        assert_eq!(chosen(vec![], None, &[]), Some((String::new(), 0)));
        assert_eq!(chosen(three(), None, &[]), Some(("a".to_owned(), 2)));
        assert_eq!(chosen(three(), Some("b"), &[]), Some(("b".to_owned(), 2)));
        assert_eq!(chosen(three(), Some("b"), &["c"]), Some(("c".to_owned(), 2)));
    }

    #[test]
    fn what_is_not_marked_or_is_used_too_is_not_taken_away() {
        assert_eq!(chosen(vec![Thing("a", true), Thing("b", false)], None, &[]), None);
        assert_eq!(chosen(vec![Thing("a", false), Thing("b", true)], None, &[]), None);
        assert_eq!(chosen(vec![Thing("a", true), Thing("b", true)], None, &["a", "b"]), None);
        assert_eq!(chosen(vec![Thing("a", true), Thing("b", false)], None, &["b"]), Some(("b".to_owned(), 1)));
        assert_eq!(chosen(vec![Thing("a", false)], None, &[]), Some(("a".to_owned(), 0)));
    }
}
