//! What each region offers, kept for a short while.
//!
//! A server is checked against its flavor and its image before it is accepted. Asking the cloud each time would make a
//! burst of creations a burst of lists; a catalogue changes a few times a week. So an answer is kept for half a minute.
//! After that it still serves for a while, at once, and one fetch behind it brings the next: what a cloud offered minutes
//! ago is a better ground for a decision than none, and a slow cloud makes nobody wait (B37).

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use dashmap::DashMap;
use tokio::time::Instant;

use super::CloudReads;
use super::error::ApiError;
use crate::actors::tasks;
use crate::model::ids::RegionId;
use crate::model::image_url::ImageUrl;
use crate::providers::file_storage::FileStorageClass;
use crate::providers::image_probe::{ProbeError, Probed};
use crate::providers::types::{ExternalNetwork, Flavor, Image, VolumeClass};
use crate::providers::{ProviderError, ProviderResult, ServerRequest};

/// How long an answer serves without asking again. Longer, and an operator's change seems not to have happened.
pub const FRESH: Duration = Duration::from_secs(30);

/// The same, for whoever misses something in the last answer: it may be new. One list a second is all that asking for
/// things that do not exist can cost a cloud.
pub const JUST_NOW: Duration = Duration::from_secs(1);

/// How long an answer serves while the next is fetched, or its cloud does not answer.
const STALE_MAX: Duration = Duration::from_mins(10);

/// What every region offers. One entry for each region that exists: callers look the region up before they ask.
#[derive(Clone)]
pub struct Catalogue {
    clouds: Arc<dyn CloudReads>,
    shelves: Arc<DashMap<RegionId, Arc<Shelf>>>,
}

#[derive(Default)]
struct Shelf {
    flavors: Arc<Kept<Vec<Flavor>>>,
    images: Arc<Kept<Vec<Image>>>,
    volume_classes: Arc<Kept<Vec<VolumeClass>>>,
    file_storage_classes: Arc<Kept<Vec<FileStorageClass>>>,
}

/// One list. Whoever holds the flight fetches it; a fetch whose asker went away is given up and left to the next.
struct Kept<T> {
    known: Mutex<Known<T>>,
    flight: Arc<tokio::sync::Mutex<()>>,
}

/// The last answer, when it was asked for, and what went wrong since.
struct Known<T> {
    answer: Option<(Instant, Arc<T>)>,
    failure: Option<(Instant, ProviderError)>,
}

impl<T> Default for Kept<T> {
    fn default() -> Self {
        Self { known: Mutex::new(Known { answer: None, failure: None }), flight: Arc::default() }
    }
}

impl<T> Known<T> {
    fn younger_than(&self, age_max: Duration) -> Option<Arc<T>> {
        let answer = self.answer.as_ref().filter(|(at, _)| at.elapsed() < age_max);
        answer.map(|(_, value)| Arc::clone(value))
    }

    /// What serves without asking: a young answer, or after a failure of just now whatever is left. Those who waited
    /// for a fetch that failed must not each repeat it.
    fn settled(&self, age_max: Duration) -> Option<ProviderResult<Arc<T>>> {
        let failure = self.failure.as_ref().filter(|(at, _)| at.elapsed() < JUST_NOW);
        let left = || failure.map(|(_, error)| self.younger_than(STALE_MAX).ok_or_else(|| error.clone()));
        self.younger_than(age_max).map(Ok).or_else(left)
    }

    fn learn(&mut self, asked: Instant, outcome: ProviderResult<T>) -> ProviderResult<Arc<T>> {
        match outcome {
            Ok(value) => {
                let value = Arc::new(value);
                *self = Self { answer: Some((asked, Arc::clone(&value))), failure: None };
                Ok(value)
            }
            Err(error) => {
                self.failure = Some((Instant::now(), error.clone()));
                if is_final(&error) {
                    self.answer = None;
                }
                let left = self.younger_than(STALE_MAX).ok_or_else(|| error.clone());
                if left.is_ok() {
                    tracing::warn!(%error, "a catalogue could not be read; the last one serves");
                }
                left
            }
        }
    }
}

impl<T: Send + Sync + 'static> Kept<T> {
    /// An answer younger than `age_max`, if the cloud gives one. Whoever is content with a fresh one gets a stale one
    /// at once while a new one is fetched behind them; only who misses something waits.
    async fn get(
        self: &Arc<Self>,
        age_max: Duration,
        fetch: impl Future<Output = ProviderResult<T>> + Send + 'static,
    ) -> ProviderResult<Arc<T>> {
        if let Some(settled) = self.known().settled(age_max) {
            return settled;
        }
        let stale = self.known().younger_than(STALE_MAX).filter(|_| age_max >= FRESH);
        let Some(stale) = stale else {
            let _flight = self.flight.lock().await;
            return self.fetched(age_max, fetch).await;
        };
        if let Ok(flight) = Arc::clone(&self.flight).try_lock_owned() {
            let kept = Arc::clone(self);
            tasks::spawn("a catalogue is read again", async move {
                let _flight = flight;
                // What went wrong is logged, and remembered for a moment.
                let _ = kept.fetched(age_max, fetch).await;
            });
        }
        Ok(stale)
    }

    /// Must be called with the flight held. Somebody may have fetched it in the meantime.
    async fn fetched(
        &self,
        age_max: Duration,
        fetch: impl Future<Output = ProviderResult<T>>,
    ) -> ProviderResult<Arc<T>> {
        if let Some(settled) = self.known().settled(age_max) {
            return settled;
        }
        let asked = Instant::now();
        let outcome = fetch.await;
        self.known().learn(asked, outcome)
    }

    fn known(&self) -> MutexGuard<'_, Known<T>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The cloud is not there at all, or has no such thing: an old answer would be a lie.
const fn is_final(error: &ProviderError) -> bool {
    matches!(error, ProviderError::NotFound | ProviderError::Unsupported(_))
}

impl Catalogue {
    #[must_use]
    pub fn of(clouds: Arc<dyn CloudReads>) -> Self {
        Self { clouds, shelves: Arc::default() }
    }

    pub async fn flavors(&self, region: RegionId, age_max: Duration) -> Result<Arc<Vec<Flavor>>, ApiError> {
        let clouds = Arc::clone(&self.clouds);
        let fetch = async move { clouds.flavors(region).await };
        let fetched = self.shelf(region).flavors.get(age_max, fetch).await;
        fetched.map_err(|error| refused(&error))
    }

    pub async fn images(&self, region: RegionId, age_max: Duration) -> Result<Arc<Vec<Image>>, ApiError> {
        let clouds = Arc::clone(&self.clouds);
        let fetch = async move { clouds.images(region).await };
        let fetched = self.shelf(region).images.get(age_max, fetch).await;
        fetched.map_err(|error| refused(&error))
    }

    /// Can servers of the region get another flavor in place? Asked of the provider, which knows without its cloud.
    #[must_use]
    pub fn resizes(&self, region: RegionId) -> bool {
        self.clouds.resizes(region)
    }

    /// What there is to import, as far as the region wants to know before it takes it.
    pub async fn probe_image(&self, region: RegionId, url: &ImageUrl) -> Result<Probed, ApiError> {
        self.clouds.probe_image(region, url).await.map_err(|error| match error {
            ProbeError::Region => ApiError::not_found(),
            ProbeError::Busy => ApiError::unavailable(),
            error => ApiError::unprocessable(format!("spec.uri {error}")),
        })
    }

    pub async fn volume_classes(&self, region: RegionId, age_max: Duration) -> Result<Arc<Vec<VolumeClass>>, ApiError> {
        let clouds = Arc::clone(&self.clouds);
        let fetch = async move { clouds.volume_classes(region).await };
        let fetched = self.shelf(region).volume_classes.get(age_max, fetch).await;
        fetched.map_err(|error| refused(&error))
    }

    pub async fn file_storage_classes(
        &self,
        region: RegionId,
        age_max: Duration,
    ) -> Result<Arc<Vec<FileStorageClass>>, ApiError> {
        let clouds = Arc::clone(&self.clouds);
        let fetch = async move { clouds.file_storage_classes(region).await };
        let fetched = self.shelf(region).file_storage_classes.get(age_max, fetch).await;
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

    type Calls = Arc<AtomicUsize>;

    async fn asked(
        kept: &Arc<Kept<usize>>,
        calls: &Calls,
        age_max: Duration,
        answer: ProviderResult<()>,
    ) -> ProviderResult<usize> {
        let calls = Arc::clone(calls);
        let fetch = async move {
            let call = calls.fetch_add(1, Ordering::SeqCst);
            tokio::time::sleep(Duration::from_millis(10)).await;
            answer.map(|()| call)
        };
        kept.get(age_max, fetch).await.map(|value| *value)
    }

    fn away() -> ProviderResult<()> {
        Err(ProviderError::Unavailable("away".to_owned()))
    }

    fn fixture() -> (Arc<Kept<usize>>, Calls) {
        (Arc::default(), Arc::default())
    }

    #[tokio::test(start_paused = true)]
    async fn many_who_ask_at_once_cost_one_call_and_those_after_them_none() {
        let (kept, calls) = fixture();
        let all = futures_util::future::join_all((0..20).map(|_| asked(&kept, &calls, FRESH, Ok(())))).await;
        assert!(all.iter().all(|answer| *answer == Ok(0)), "{all:?}");
        tokio::time::advance(FRESH).await;
        let began = Instant::now();
        let all = futures_util::future::join_all((0..20).map(|_| asked(&kept, &calls, FRESH, Ok(())))).await;
        assert!(all.iter().all(|answer| *answer == Ok(0)), "{all:?}");
        assert_eq!(began.elapsed(), Duration::ZERO, "nobody waits for the next one");
        tokio::time::sleep(JUST_NOW).await;
        assert_eq!(asked(&kept, &calls, FRESH, Ok(())).await, Ok(1));
        assert_eq!(calls.load(Ordering::SeqCst), 2);
        assert_eq!(asked(&kept, &calls, JUST_NOW, Ok(())).await, Ok(2), "who misses something waits");
    }

    #[tokio::test(start_paused = true)]
    async fn while_the_cloud_is_away_the_last_answer_serves_for_a_while() {
        let (kept, calls) = fixture();
        assert!(asked(&kept, &calls, FRESH, away()).await.is_err(), "there is nothing to serve");
        tokio::time::advance(JUST_NOW).await;
        assert_eq!(asked(&kept, &calls, FRESH, Ok(())).await, Ok(1));
        tokio::time::advance(FRESH).await;
        assert_eq!(asked(&kept, &calls, JUST_NOW, away()).await, Ok(1));
        tokio::time::advance(STALE_MAX).await;
        assert!(asked(&kept, &calls, FRESH, away()).await.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_gone_is_not_served_again() {
        let (kept, calls) = fixture();
        assert_eq!(asked(&kept, &calls, FRESH, Ok(())).await, Ok(0));
        tokio::time::advance(FRESH).await;
        let gone = Err(ProviderError::NotFound);
        assert_eq!(asked(&kept, &calls, JUST_NOW, Err(ProviderError::NotFound)).await, gone);
        assert_eq!(asked(&kept, &calls, FRESH, Ok(())).await, gone);
    }

    #[tokio::test(start_paused = true)]
    async fn those_who_waited_for_a_failure_do_not_repeat_it() {
        let (kept, calls) = fixture();
        let all = futures_util::future::join_all((0..20).map(|_| asked(&kept, &calls, FRESH, away()))).await;
        assert!(all.iter().all(Result::is_err), "{all:?}");
        assert_eq!(calls.load(Ordering::SeqCst), 1);
        tokio::time::advance(JUST_NOW).await;
        assert_eq!(asked(&kept, &calls, FRESH, Ok(())).await, Ok(1));
    }
}
