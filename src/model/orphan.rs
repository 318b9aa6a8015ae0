//! Objects of a cloud that carry our marks and that no record owns.
//!
//! They are left by a store that was restored from a backup, by a principal that was taken away by hand, or by another
//! process that uses the same cloud. They are shown to operators and never taken away: what nobody knows may be somebody's.
//!
//! ```text
//!   seen, and no record has its id, or its record is of another life ──▶ stray ──seen so again──▶ orphan
//! ```
//!
//! One look alone proves nothing: while it goes on, what it has seen already is deleted, and its record with it.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::Serialize;

use super::ids::{Incarnation, Key, Kind};

/// What is on record under the id that an object carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recorded {
    Nothing,
    As(Incarnation),
    /// There is something, and it cannot be read.
    Unreadable,
}

/// Why nobody owns an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Why {
    NoRecord,
    /// Its record was made later, under the same id.
    AnotherLife,
}

impl Why {
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::NoRecord => "no-record",
            Self::AnotherLife => "another-life",
        }
    }
}

/// An object that one look found to be nobody's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Stray {
    pub key: Key,
    pub incarnation: Incarnation,
    pub why: Why,
}

impl Stray {
    /// Is an object nobody's?
    #[must_use]
    pub fn of(key: Key, incarnation: Incarnation, recorded: Recorded) -> Option<Self> {
        let why = match recorded {
            Recorded::Nothing => Why::NoRecord,
            Recorded::As(ours) if ours != incarnation => Why::AnotherLife,
            Recorded::As(_) | Recorded::Unreadable => return None,
        };
        Some(Self { key, incarnation, why })
    }
}

/// An object that nobody owns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Orphan {
    pub stray: Stray,
    /// When it was first seen to be nobody's, in this life of the process.
    pub since: Timestamp,
}

/// What the last look at everything of each kind found, and since when that has been so.
#[derive(Clone, Debug, Default)]
pub struct Strays(BTreeMap<Kind, BTreeMap<Stray, Timestamp>>);

impl Strays {
    /// Takes what a look at everything of a kind found; tells which of it the look before found, too.
    pub fn confirm(&mut self, kind: Kind, found: BTreeSet<Stray>, now: Timestamp) -> Vec<Orphan> {
        let before = self.0.remove(&kind).unwrap_or_default();
        let since = found.iter().map(|stray| (*stray, before.get(stray).copied().unwrap_or(now)));
        self.0.insert(kind, since.collect());
        let again = found.into_iter().filter_map(|stray| Some(Orphan { stray, since: *before.get(&stray)? }));
        again.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    const LIFE: Incarnation = Incarnation(Uuid::from_u128(1));
    const LATER: Incarnation = Incarnation(Uuid::from_u128(2));

    fn key(number: u128) -> Key {
        Key::new(Kind::Network, Uuid::from_u128(number))
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("in range")
    }

    #[test]
    fn what_has_no_record_or_one_of_another_life_is_nobodys() {
        let why = |recorded| Stray::of(key(1), LIFE, recorded).map(|stray| stray.why);
        assert_eq!(why(Recorded::Nothing), Some(Why::NoRecord));
        assert_eq!(why(Recorded::As(LATER)), Some(Why::AnotherLife));
        assert_eq!(why(Recorded::As(LIFE)), None);
        assert_eq!(why(Recorded::Unreadable), None, "somebody's, although we cannot say whose");
    }

    #[test]
    fn an_orphan_is_what_two_looks_in_a_row_found() {
        let found = |numbers: &[u128]| {
            let stray = |number: &u128| Stray::of(key(*number), LIFE, Recorded::Nothing).expect("a stray");
            numbers.iter().map(stray).collect::<BTreeSet<_>>()
        };
        let ids = |orphans: Vec<Orphan>| {
            let shown = |orphan: Orphan| (orphan.stray.key.id.as_u128(), orphan.since.as_second());
            orphans.into_iter().map(shown).collect::<Vec<_>>()
        };
        let mut strays = Strays::default();
        assert_eq!(ids(strays.confirm(Kind::Network, found(&[1, 2]), at(1))), []);
        assert_eq!(ids(strays.confirm(Kind::Server, found(&[]), at(1))), [], "kinds are told apart");
        assert_eq!(ids(strays.confirm(Kind::Network, found(&[2, 3]), at(2))), [(2, 1)]);
        assert_eq!(ids(strays.confirm(Kind::Network, found(&[2, 3]), at(3))), [(2, 1), (3, 2)]);
        assert_eq!(ids(strays.confirm(Kind::Network, found(&[]), at(4))), []);
        assert_eq!(ids(strays.confirm(Kind::Network, found(&[2]), at(5))), [], "gone in between");
    }
}
