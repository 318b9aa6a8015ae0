//! Every refusal, each at the end of a batch that has already touched everything: nothing of it remains.

use super::conform;
use super::rig::{Rig, charge, claim, identity, insert, insert_owned, intent, limit, mark_deleted, network};
use super::rig::{refer, release, remove, status};
use crate::model::edge::Holder;
use crate::store::{Refusal, Write};

conform!(a_refused_batch_leaves_nothing_behind);

type IsExpected = fn(&Refusal) -> bool;

/// One of each write, on things that exist and things that do not.
fn everything() -> Vec<Write> {
    vec![
        insert(network(10)),
        insert_owned(network(11), network(10)),
        intent(network(1), 1, r#"{"wanted":2}"#),
        status(network(1), "changed"),
        status(network(10), "made"),
        refer(network(10), network(1)),
        refer(network(1), network(10)),
        Write::RemoveReference { target: network(2), holder: Holder::Resource(network(1)) },
        Write::ReleaseReferences { holder: network(3) },
        limit(50),
        charge(network(1), 4),
        charge(network(10), 7),
        release(network(2)),
        claim(network(10), &[(1, 9)]),
        Write::ReleaseClaims { holder: network(2) },
        mark_deleted(network(1)),
        remove(network(4)),
    ]
}

async fn a_refused_batch_leaves_nothing_behind(rig: Rig) {
    rig.commit((1..=5).map(|number| insert(network(number))).collect()).await;
    rig.commit(vec![insert(identity(1)), insert_owned(identity(2), identity(1)), status(network(1), "made")]).await;
    rig.commit(vec![refer(network(2), network(1)), refer(network(2), network(3)), refer(network(5), network(3))]).await;
    rig.commit(vec![charge(network(1), 1), charge(network(2), 2), claim(network(2), &[(1, 9)])]).await;
    rig.commit(vec![claim(network(3), &[(4000, 4000)]), mark_deleted(network(3))]).await;
    rig.commit(vec![refer(network(5), network(6))]).await;
    let before = rig.snapshot().await;

    let endings: [(Write, IsExpected); 8] = [
        (insert(network(5)), |refusal| matches!(refusal, Refusal::Exists(_))),
        (refer(network(99), network(1)), |refusal| matches!(refusal, Refusal::Missing(_))),
        (refer(network(3), network(1)), |refusal| matches!(refusal, Refusal::Deleting(_))),
        (intent(network(5), 9, "{}"), |refusal| matches!(refusal, Refusal::Conflict(_))),
        (remove(network(5)), |refusal| matches!(refusal, Refusal::InUse { .. })),
        (remove(identity(1)), |refusal| matches!(refusal, Refusal::HasChildren(_))),
        (charge(network(12), 99), |refusal| matches!(refusal, Refusal::QuotaExceeded { .. })),
        (claim(network(12), &[(4000, 4000)]), |refusal| matches!(refusal, Refusal::Exhausted(_))),
    ];
    for (ending, is_expected) in endings {
        let mut writes = everything();
        writes.push(ending);
        let refused = rig.refused(writes).await;
        assert!(is_expected(&refused), "{refused:?}");
        assert_eq!(rig.snapshot().await, before, "after {refused}");
    }
    // The same without the ending is accepted, so that it was the ending that was refused.
    rig.commit(everything()).await;
    assert_ne!(rig.snapshot().await, before);
}
