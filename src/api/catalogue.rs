//! What each region offers, kept for a short while.
//!
//! A server is checked against its flavor and its image before it is accepted. Asking the cloud each time would make a
//! burst of creations a burst of lists; a catalogue changes a few times a week. So an answer is kept for half a minute,
//! and those who ask while it is being fetched wait for that one fetch. When the cloud is away the last answer still
//! serves for a while: what it offered minutes ago is a better ground for a decision than none (B37).

use std::sync::Arc;
use std::time::Duration;

use dashmap::DashMap;
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::CloudReads;
use super::error::ApiError;
use crate::model::ids::RegionId;
use crate::providers::types::{ExternalNetwork, Flavor, Image};
use crate::providers::{ProviderError, ProviderResult, ServerRequest};

/// How long an answer serves without asking again. Longer, and an operator's change seems not to have happened.
pub const FRESH: Duration = Duration::from_secs(30);

/// The same, for whoever misses something in the last answer: it may be new. One list a second is all that asking for
/// things that do not exist can cost a cloud.
pub const JUST_NOW: Duration = Duration::from_secs(1);

/// How long an answer serves while its cloud does not answer.
const STALE_MAX: Duration = Duration::from_mins(10);

/// What every region offers. One entry for each region that exists: callers look the region up before they ask.
pub struct Catalogue {
    clouds: Arc<dyn CloudReads>,
    shelves: DashMap<RegionId, Arc<Shelf>>,
}

#[derive(Default)]
struct Shelf {
    flavors: Kept<Vec<Flavor>>,
    images: Kept<Vec<Image>>,
}

/// The last answer, and when it was asked for. Locked while it is fetched, so that there is one fetch at a time; a
/// fetch whose asker went away is given up and left to the next.
struct Kept<T>(Mutex<Option<(Instant, Arc<T>)>>);

impl<T> Default for Kept<T> {
    fn default() -> Self {
        Self(Mutex::new(None))
    }
}

impl<T> Kept<T> {
    async fn get(&self, age_max: Duration, fetch: impl Future<Output = ProviderResult<T>>) -> ProviderResult<Arc<T>> {
        let mut kept = self.0.lock().await;
        let now = Instant::now();
        let within = |age_max: Duration| move |(at, _): &&(Instant, Arc<T>)| now.duration_since(*at) < age_max;
        if let Some((_, value)) = kept.as_ref().filter(within(age_max)) {
            return Ok(Arc::clone(value));
        }
        match fetch.await {
            Ok(value) => {
                let value = Arc::new(value);
                *kept = Some((now, Arc::clone(&value)));
                Ok(value)
            }
            Err(error) => match kept.as_ref().filter(within(STALE_MAX)) {
                Some((_, value)) if !is_final(&error) => {
                    tracing::warn!(%error, "a catalogue could not be read; the last one serves");
                    Ok(Arc::clone(value))
                }
                _ => Err(error),
            },
        }
    }
}

/// The cloud is not there at all, or has no such thing: an old answer would be a lie.
const fn is_final(error: &ProviderError) -> bool {
    matches!(error, ProviderError::NotFound | ProviderError::Unsupported(_))
}

impl Catalogue {
    #[must_use]
    pub fn of(clouds: Arc<dyn CloudReads>) -> Self {
        Self { clouds, shelves: DashMap::new() }
    }

    pub async fn flavors(&self, region: RegionId, age_max: Duration) -> Result<Arc<Vec<Flavor>>, ApiError> {
        let fetched = self.shelf(region).flavors.get(age_max, self.clouds.flavors(region)).await;
        fetched.map_err(|error| refused(&error))
    }

    pub async fn images(&self, region: RegionId, age_max: Duration) -> Result<Arc<Vec<Image>>, ApiError> {
        let fetched = self.shelf(region).images.get(age_max, self.clouds.images(region)).await;
        fetched.map_err(|error| refused(&error))
    }

    pub async fn external_networks(&self, region: RegionId) -> Result<Vec<ExternalNetwork>, ApiError> {
        self.clouds.external_networks(region).await.map_err(|error| refused(&error))
    }

    pub async fn console_output(
        &self,
        region: RegionId,
        server: &ServerRequest,
        lines: Option<u32>,
    ) -> Result<String, ApiError> {
        self.clouds.console_output(region, server, lines).await.map_err(|error| refused(&error))
    }

    fn shelf(&self, region: RegionId) -> Arc<Shelf> {
        Arc::clone(&self.shelves.entry(region).or_default())
    }
}

/// What a cloud said stays in the log.
fn refused(error: &ProviderError) -> ApiError {
    tracing::warn!(%error, "a cloud could not be read");
    if is_final(error) { ApiError::not_found() } else { ApiError::unavailable() }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    async fn asked(kept: &Kept<usize>, calls: &AtomicUsize, answer: ProviderResult<()>) -> ProviderResult<usize> {
        let fetch = async {
            let call = calls.fetch_add(1, Ordering::SeqCst);
            tokio::time::sleep(Duration::from_millis(10)).await;
            answer.map(|()| call)
        };
        kept.get(FRESH, fetch).await.map(|value| *value)
    }

    fn away() -> ProviderResult<()> {
        Err(ProviderError::Unavailable("away".to_owned()))
    }

    #[tokio::test(start_paused = true)]
    async fn many_who_ask_at_once_cost_one_call_and_those_after_them_none() {
        let (kept, calls) = (Kept::default(), AtomicUsize::new(0));
        let all = futures_util::future::join_all((0..20).map(|_| asked(&kept, &calls, Ok(())))).await;
        assert!(all.iter().all(|answer| *answer == Ok(0)), "{all:?}");
        tokio::time::advance(FRESH).await;
        assert_eq!(asked(&kept, &calls, Ok(())).await, Ok(1));
        assert_eq!(calls.load(Ordering::SeqCst), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn while_the_cloud_is_away_the_last_answer_serves_for_a_while() {
        let (kept, calls) = (Kept::default(), AtomicUsize::new(0));
        assert!(asked(&kept, &calls, away()).await.is_err(), "there is nothing to serve");
        assert_eq!(asked(&kept, &calls, Ok(())).await, Ok(1));
        tokio::time::advance(FRESH).await;
        assert_eq!(asked(&kept, &calls, away()).await, Ok(1));
        assert_eq!(asked(&kept, &calls, Err(ProviderError::NotFound)).await, Err(ProviderError::NotFound));
        tokio::time::advance(STALE_MAX).await;
        assert!(asked(&kept, &calls, away()).await.is_err());
    }
}
