//! `regent serve`: puts the parts together, in order, and takes them down again.
//!
//! ```text
//!   listeners → folder → store → envelope key → regions → first start → supervision → requests
//! ```
//!
//! Requests are taken last, when there is something to take them; they are refused first when it ends, so that what
//! was accepted is handed over to actors that still run.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::actors::{Environment, Options};
use crate::api::catalogue::Catalogue;
use crate::api::cors::{CorsPolicy, InvalidOrigin};
use crate::api::events::Events;
use crate::api::listen::Incoming;
use crate::api::rate::{TenantRate, TenantRates};
use crate::api::tls::{TlsError, TlsFiles};
use crate::api::{Api, ApiSettings, CloudReads, Secrets, admin, router};
use crate::bootstrap::envelope_key::{EnvelopeKeyError, load_or_create};
use crate::bootstrap::{BootstrapError, Outcome, Urls, bootstrap, files, next_steps, token_requests};
use crate::command_line::ServeArguments;
use crate::config::regions::{RegionsError, apply};
use crate::config::{Configuration, ConfigurationError};
use crate::identity::IdentityService;
use crate::identity::embedded::EmbeddedIdentity;
use crate::model::ambient::Ambient;
use crate::model::ids::{OrganizationId, RegionId};
use crate::model::image_url::ImageUrl;
use crate::model::sealed::{SealError, Sealed};
use crate::providers::file_storage::{FileStorageClass, provisioner};
use crate::providers::image_probe::{ImageProbe, ProbeError, Probed};
use crate::providers::types::{ExternalNetwork, Flavor, Image, VolumeClass};
use crate::providers::{CallContext, NothingToNote, Provider, ProviderError, ProviderResult, ServerRequest};
use crate::store::Store;
use crate::store::embedded::EmbeddedStore;
use crate::supervision::clouds::Clouds;
use crate::supervision::{STOP_PATIENCE, StartError, Supervision};

/// How long answers that are being sent may take to finish when the server ends. With the time that supervision
/// takes this stays within the half minute that orchestrators commonly give.
const DRAIN_DURATION_MAX: Duration = Duration::from_secs(8);

/// How often the recorder of metrics tidies up; between two tidyings it keeps every single duration.
const METRICS_UPKEEP_PERIOD: Duration = Duration::from_secs(5);

const EPOCH_FILE: &str = "epoch";
const CLOUDS_FOLDER: &str = "simulated-clouds";

#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    #[error("{} cannot be used", .path.display())]
    Folder { path: PathBuf, source: std::io::Error },
    #[error("{} does not hold a number", .0.display())]
    Epoch(PathBuf),
    #[error(transparent)]
    Store(#[from] crate::store::embedded::OpenError),
    #[error(transparent)]
    EnvelopeKey(#[from] EnvelopeKeyError),
    #[error(transparent)]
    Configuration(#[from] ConfigurationError),
    #[error(transparent)]
    Regions(#[from] RegionsError),
    #[error(transparent)]
    Tls(#[from] TlsError),
    #[error(transparent)]
    Origin(#[from] InvalidOrigin),
    #[error(
        "{0} can be reached from other machines, and without TLS tokens would cross the network in the clear: \
         give --tls-cert and --tls-key, or --insecure-listen if something in front of it does TLS"
    )]
    Insecure(SocketAddr),
    #[error("{address} cannot be listened on")]
    Listen { address: SocketAddr, source: std::io::Error },
    #[error(transparent)]
    Bootstrap(#[from] BootstrapError),
    #[error(transparent)]
    Supervision(#[from] StartError),
    #[error("signals cannot be received")]
    Signals(#[source] std::io::Error),
    #[error("a listener failed")]
    Listener(#[source] std::io::Error),
}

/// Runs until the process is told to end.
pub async fn serve(arguments: ServeArguments) -> Result<(), ServeError> {
    let metrics = install_metrics();
    // The cheapest mistakes first: a bad file or address should not leave a new folder behind.
    let configuration = arguments.config.as_deref().map(Configuration::read).transpose()?;
    let listeners = Listeners::bind(&arguments).await?;
    let foundation = Foundation::lay(&arguments, configuration.as_ref()).await?;
    let urls = listeners.urls()?;
    let ambient = foundation.ambient.clone();
    let issued = bootstrap(foundation.store.as_ref(), &ambient, &arguments.data_dir, &urls).await?;
    let (environment, store) = (Arc::clone(&foundation.environment), Arc::clone(&foundation.store));
    let clouds = Clouds::in_folder(ambient.clone(), foundation.epoch, arguments.data_dir.join(CLOUDS_FOLDER))
        .with_records(Arc::clone(&store), Arc::clone(&environment.envelope));
    let supervision = Supervision::start(Arc::clone(&environment), Arc::new(clouds)).await?;
    let settings = ApiSettings {
        cors: CorsPolicy::new(&arguments.cors_allow_origin, arguments.cors_max_age_s)?,
        cache_max_age_s: arguments.cache_max_age_s,
        image_size_limit_gib: arguments.image_size_limit_gib,
        v1: arguments.v1,
        v1_identity_secrets: arguments.v1_identity_secrets,
    };
    let identity = Arc::new(EmbeddedIdentity::new(Arc::clone(&store), ambient.clone()));
    let rate = TenantRate { per_second: arguments.tenant_rate, burst: arguments.tenant_burst };
    let api = equipped(&environment, identity, settings, TenantRates::new(rate));
    let admin = admin::router(&api, Arc::new(supervision.inspector()), metrics.clone());
    let stop = CancellationToken::new();
    let mut tasks = JoinSet::new();
    let tls = listeners.tls.clone();
    tasks.spawn(answer(listeners.api, router(&api), stop.clone()));
    tasks.spawn(answer(listeners.admin, admin, stop.clone()));
    tasks.spawn(housekeeping(arguments.data_dir.clone(), store, ambient, metrics, stop.clone()));
    announce(&issued, &urls, &arguments.data_dir);
    let ended = until_told(&mut tasks, &arguments, &foundation, tls.as_deref()).await;
    tracing::info!("stopping");
    stop.cancel();
    // Streams have no end of their own, and would be waited for.
    api.events.close();
    drain(tasks).await;
    supervision.stop(STOP_PATIENCE).await;
    ended
}

/// What stands before anything runs.
struct Foundation {
    store: Arc<dyn Store>,
    environment: Arc<Environment>,
    ambient: Ambient,
    epoch: u64,
}

impl Foundation {
    async fn lay(arguments: &ServeArguments, configuration: Option<&Configuration>) -> Result<Self, ServeError> {
        let directory = arguments.data_dir.as_path();
        files::ensure_directory(directory)
            .map_err(|source| ServeError::Folder { path: directory.to_owned(), source })?;
        let ambient = Ambient::system();
        let store: Arc<dyn Store> = Arc::new(EmbeddedStore::open(directory, ambient.clone())?);
        let envelope = load_or_create(directory)?;
        let epoch = next_epoch(directory, ambient.now())?;
        if let Some(configuration) = configuration {
            apply(store.as_ref(), &ambient, configuration).await?;
        }
        token_requests::take_all(directory, store.as_ref(), &ambient).await;
        let options = Options { creation_tries_max: arguments.provider_create_max_attempts, ..Options::default() };
        let environment = Environment::new(Arc::clone(&store), ambient.clone(), envelope, options);
        Ok(Self { store, environment, ambient, epoch })
    }
}

/// Grows with every start on this folder: a cloud that has heard a later one refuses what an earlier process still
/// sends. Seconds of the clock, so that a restored folder does not begin anew, but always more than the last time,
/// should the clock go back. The folder's lock is held, so nobody else counts.
fn next_epoch(directory: &Path, now: Timestamp) -> Result<u64, ServeError> {
    let path = directory.join(EPOCH_FILE);
    let at = |source| ServeError::Folder { path: path.clone(), source };
    let last = match files::read_if_present(&path).map_err(at)? {
        None => 0,
        Some(bytes) => {
            let text = String::from_utf8(bytes).unwrap_or_default();
            text.trim().parse::<u64>().map_err(|_| ServeError::Epoch(path.clone()))?
        }
    };
    let next = (last + 1).max(u64::try_from(now.as_second()).unwrap_or_default());
    files::replace_private(&path, format!("{next}\n").as_bytes()).map_err(at)?;
    Ok(next)
}

struct Listeners {
    api: Incoming,
    admin: Incoming,
    tls: Option<Arc<TlsFiles>>,
}

impl Listeners {
    async fn bind(arguments: &ServeArguments) -> Result<Self, ServeError> {
        let tls = match (&arguments.tls_cert, &arguments.tls_key) {
            (Some(certificate), Some(key)) => Some(Arc::new(TlsFiles::load(certificate, key)?)),
            _ => None,
        };
        let bind = async |address: SocketAddr| {
            if tls.is_none() && !address.ip().is_loopback() && !arguments.insecure_listen {
                return Err(ServeError::Insecure(address));
            }
            let tcp = TcpListener::bind(address).await.map_err(|source| ServeError::Listen { address, source })?;
            Ok(Incoming::new(tcp, tls.clone()))
        };
        let (api, admin) = (bind(arguments.listen).await?, bind(arguments.admin_listen).await?);
        Ok(Self { api, admin, tls })
    }

    fn urls(&self) -> Result<Urls, ServeError> {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        let url = |listener: &Incoming| {
            let mut address = axum::serve::Listener::local_addr(listener).map_err(ServeError::Listener)?;
            // Everywhere includes here, and here is where the file is read.
            if address.ip().is_unspecified() {
                let loopback: std::net::IpAddr = match address {
                    SocketAddr::V4(_) => std::net::Ipv4Addr::LOCALHOST.into(),
                    SocketAddr::V6(_) => std::net::Ipv6Addr::LOCALHOST.into(),
                };
                address.set_ip(loopback);
            }
            Ok::<_, ServeError>(format!("{scheme}://{address}"))
        };
        Ok(Urls { api: url(&self.api)?, admin: url(&self.admin)? })
    }
}

async fn answer(listener: Incoming, router: axum::Router, stop: CancellationToken) -> Result<(), ServeError> {
    let serving = axum::serve(listener, router).with_graceful_shutdown(stop.cancelled_owned());
    serving.await.map_err(ServeError::Listener)
}

/// Small things that have to be done from time to time.
async fn housekeeping(
    directory: PathBuf,
    store: Arc<dyn Store>,
    ambient: Ambient,
    metrics: Option<PrometheusHandle>,
    stop: CancellationToken,
) -> Result<(), ServeError> {
    let tidying = async {
        let mut tidyings = tokio::time::interval(METRICS_UPKEEP_PERIOD);
        loop {
            tidyings.tick().await;
            if let Some(metrics) = &metrics {
                metrics.run_upkeep();
            }
        }
    };
    tokio::select! {
        biased;
        () = token_requests::watch(directory, store, ambient, stop) => Ok(()),
        () = tidying => Ok(()),
    }
}

/// Waits for the end, and re-reads what may be re-read when it is asked to.
async fn until_told(
    tasks: &mut JoinSet<Result<(), ServeError>>,
    arguments: &ServeArguments,
    foundation: &Foundation,
    tls: Option<&TlsFiles>,
) -> Result<(), ServeError> {
    let mut terminate = signal(SignalKind::terminate()).map_err(ServeError::Signals)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(ServeError::Signals)?;
    let mut hangup = signal(SignalKind::hangup()).map_err(ServeError::Signals)?;
    loop {
        tokio::select! {
            biased;
            _ = terminate.recv() => return Ok(()),
            _ = interrupt.recv() => return Ok(()),
            _ = hangup.recv() => reload(arguments, foundation, tls).await,
            Some(ended) = tasks.join_next() => {
                return ended.unwrap_or_else(|panic| Err(ServeError::Listener(std::io::Error::other(panic))));
            }
        }
    }
}

/// A configuration that is bad, or cannot be applied, changes nothing.
async fn reload(arguments: &ServeArguments, foundation: &Foundation, tls: Option<&TlsFiles>) {
    if let Some(tls) = tls {
        tls.reload();
    }
    let Some(path) = arguments.config.as_deref() else { return };
    let applied = match Configuration::read(path) {
        Ok(configuration) => {
            apply(foundation.store.as_ref(), &foundation.ambient, &configuration).await.map_err(ServeError::from)
        }
        Err(error) => Err(error.into()),
    };
    match applied {
        Ok(()) => tracing::info!(path = %path.display(), "the configuration was read again"),
        Err(error) => {
            tracing::error!(error = &error as &dyn std::error::Error, "the configuration stays as it was");
        }
    }
}

async fn drain(mut tasks: JoinSet<Result<(), ServeError>>) {
    let all = async { while tasks.join_next().await.is_some() {} };
    if tokio::time::timeout(DRAIN_DURATION_MAX, all).await.is_err() {
        tracing::warn!("answers that were not taken in time are cut off");
        tasks.shutdown().await;
    }
}

fn announce(issued: &Outcome, urls: &Urls, directory: &Path) {
    use std::io::Write;
    let text = match issued {
        Outcome::Issued(file) => next_steps(file, directory),
        Outcome::Unchanged => String::new(),
    };
    // Whoever closed our output does not want to read it; the log says where we listen.
    let _ = std::io::stdout().lock().write_all(text.as_bytes());
    tracing::info!(api = %urls.api, admin = %urls.admin, "listening");
}

/// One recorder serves the whole process; where there is one already, as in a test, it is left alone.
fn install_metrics() -> Option<PrometheusHandle> {
    let recorder = PrometheusBuilder::new().build_recorder();
    let handle = recorder.handle();
    metrics::set_global_recorder(recorder).ok().map(|()| handle)
}

/// The API of the process that has this environment.
#[must_use]
pub fn equipped(
    environment: &Arc<Environment>,
    identity: Arc<dyn IdentityService>,
    settings: ApiSettings,
    rates: TenantRates,
) -> Arc<Api> {
    let probe = ImageProbe::new(settings.image_size_limit_gib);
    let equipment = Arc::new(Equipment(Arc::clone(environment), probe));
    Arc::new(Api {
        store: Arc::clone(&environment.store),
        identity,
        catalogue: Catalogue::of(Arc::clone(&equipment) as _),
        secrets: equipment,
        completions: environment.graph.completions().clone(),
        ambient: environment.ambient.clone(),
        settings,
        rates,
        events: Events::default(),
    })
}

/// What the API asks of the process that it belongs to: the clouds that are equipped now, the envelope key, and a look
/// at what is to be imported.
struct Equipment(Arc<Environment>, ImageProbe);

impl Equipment {
    fn cloud(&self, region: RegionId) -> ProviderResult<Arc<dyn Provider>> {
        self.0.clouds.get(region).ok_or(ProviderError::NotFound)
    }

    fn context(&self, tenant: OrganizationId) -> CallContext<'static> {
        CallContext { tenant, cancelled: self.0.stopping.child_token(), ledger: &NothingToNote }
    }
}

/// What a cloud offers is the same for every tenant, and so is the queue: nobody's in particular.
const NOBODY: OrganizationId = OrganizationId(uuid::Uuid::nil());

#[async_trait]
impl CloudReads for Equipment {
    async fn external_networks(&self, region: RegionId) -> ProviderResult<Vec<ExternalNetwork>> {
        self.cloud(region)?.external_networks(&self.context(NOBODY)).await
    }

    async fn flavors(&self, region: RegionId) -> ProviderResult<Vec<Flavor>> {
        self.cloud(region)?.flavors(&self.context(NOBODY)).await
    }

    async fn images(&self, region: RegionId) -> ProviderResult<Vec<Image>> {
        self.cloud(region)?.images(&self.context(NOBODY)).await
    }

    fn resizes(&self, region: RegionId) -> bool {
        self.cloud(region).is_ok_and(|cloud| cloud.resizes())
    }

    async fn probe_image(&self, region: RegionId, url: &ImageUrl) -> Result<Probed, ProbeError> {
        let cloud = self.cloud(region).map_err(|_| ProbeError::Region)?;
        if cloud.fetches_images() { self.1.probe(url).await } else { Ok(Probed::default()) }
    }

    async fn volume_classes(&self, region: RegionId) -> ProviderResult<Vec<VolumeClass>> {
        self.cloud(region)?.volume_classes(&self.context(NOBODY)).await
    }

    async fn file_storage_classes(&self, region: RegionId) -> ProviderResult<Vec<FileStorageClass>> {
        let cloud = self.cloud(region)?;
        provisioner(cloud.as_ref())?.classes(&self.context(NOBODY)).await
    }

    async fn console_output(
        &self,
        region: RegionId,
        server: &ServerRequest,
        lines: Option<u32>,
    ) -> ProviderResult<String> {
        self.cloud(region)?.console_output(&self.context(server.organization), server, lines).await
    }
}

impl Secrets for Equipment {
    fn open(&self, sealed: &Sealed<String>) -> Result<String, SealError> {
        self.0.envelope.open(sealed)
    }

    fn seal(&self, text: &str) -> Result<Sealed<String>, SealError> {
        Secrets::seal(&*self.0.envelope, text)
    }
}
