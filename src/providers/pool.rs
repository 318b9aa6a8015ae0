//! The region's pool: every call to the cloud passes here.

use futures_util::future::BoxFuture;

use super::{CallContext, Observed, ProviderResult};

/// Which service of the cloud a call goes to. Each has its own budget of concurrent calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Service {
    Identity,
    Network,
    Compute,
    Image,
    LoadBalancer,
    BlockStorage,
}

/// What a call does, for the record and for joining identical reads.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Operation {
    pub service: Service,
    pub name: &'static str,
    /// The object it is about, as the cloud or we name it.
    pub subject: String,
}

/// The way to a region's cloud.
#[derive(Clone)]
pub struct Pool {}

impl Pool {
    /// Reads: joins an identical read of the same tenant that is under way, and stops at once when cancelled.
    pub async fn read<T, F>(
        &self,
        _context: &CallContext<'_>,
        _operation: Operation,
        _make: F,
    ) -> ProviderResult<Observed<T>>
    where
        T: Clone + Send + Sync + 'static,
        F: FnOnce() -> BoxFuture<'static, ProviderResult<T>> + Send,
    {
        todo!()
    }

    /// Changes: gives up its place in the queue when cancelled, but once begun is awaited to its deadline.
    pub async fn mutate<T, F>(
        &self,
        _context: &CallContext<'_>,
        _operation: Operation,
        _make: F,
    ) -> ProviderResult<Observed<T>>
    where
        T: Send + 'static,
        F: FnOnce() -> BoxFuture<'static, ProviderResult<T>> + Send,
    {
        todo!()
    }
}
