//! What every store must do, written once and run over each of them.
//!
//! A behaviour is an `async fn(Rig)`; `conform!` makes a test of it for each store. Stores differ in nothing that
//! these can see, except that a saga that was refused may tell its readers what the records are now.

mod changes;
mod claims;
mod ledger;
mod lists;
mod property;
mod records;
mod references;
mod refusals;
mod remembered;
pub(super) mod rig;

/// One test per behaviour and store.
macro_rules! conform {
    ($($behaviour:ident),* $(,)?) => {
        mod memory_atomic {
            $(#[tokio::test]
            async fn $behaviour() {
                super::$behaviour(crate::store::conformance::rig::Rig::memory_atomic()).await;
            })*
        }
        mod memory_saga {
            $(#[tokio::test]
            async fn $behaviour() {
                super::$behaviour(crate::store::conformance::rig::Rig::memory_saga()).await;
            })*
        }
        mod embedded {
            $(#[tokio::test]
            async fn $behaviour() {
                super::$behaviour(crate::store::conformance::rig::Rig::embedded()).await;
            })*
        }
    };
}
use conform;
