//! The cloud as a process of its own: `regent simulated-cloud`.
//!
//! For tests that kill the control plane, or run several of it: the cloud has to outlive them and to be the only one.
//! The front door is `POST /call`; everything else is the machine room. It listens on the loopback by default and
//! asks nobody who they are: it holds nothing that exists.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::{Deserialize, Serialize};
use tokio::net::TcpListener;

use super::api::{CloudApi, SimulatedHandle};
use super::call::{Answer, CallRequest, CloudError};
use super::engine::backdoor::BackdoorChange;
use super::engine::faults::Fault;
use super::engine::settings::EngineSettings;
use super::in_process::{InProcess, Kept};
use crate::model::ambient::{Ambient, Uninterrupted};

/// How large a request may be. A fault list of the greatest allowed length fits; nothing else comes near.
const BODY_BYTES_MAX: usize = 1024 * 1024;

/// What came of a call, on the wire.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CallResponse {
    Answer(Answer),
    Error(CloudError),
}

impl From<Result<Answer, CloudError>> for CallResponse {
    fn from(result: Result<Answer, CloudError>) -> Self {
        match result {
            Ok(answer) => Self::Answer(answer),
            Err(error) => Self::Error(error),
        }
    }
}

impl From<CallResponse> for Result<Answer, CloudError> {
    fn from(response: CallResponse) -> Self {
        match response {
            CallResponse::Answer(answer) => Ok(answer),
            CallResponse::Error(error) => Err(error),
        }
    }
}

/// How a cloud of its own process behaves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServerSettings {
    /// Ids are drawn from it when the file is new; a file that exists goes on with its own.
    pub seed: u64,
    /// How long every call takes.
    pub call_delay: Duration,
    pub engine: EngineSettings,
}

/// Opens the file, listens, says where on one line of the standard output (the base URL is its last word), and serves
/// until the process is told to end.
pub async fn run(listen: SocketAddr, file: &Path, settings: ServerSettings) -> io::Result<()> {
    let cloud = open(file, settings)?;
    let listener = TcpListener::bind(listen).await?;
    let address = listener.local_addr()?;
    write_line(&format!("simulated cloud listening on http://{address}"))?;
    serve(listener, cloud, termination()).await
}

fn write_line(line: &str) -> io::Result<()> {
    use io::Write;
    let mut output = io::stdout().lock();
    writeln!(output, "{line}")?;
    output.flush()
}

/// Ends at an interrupt or a termination signal. A signal that cannot be listened for never comes.
async fn termination() {
    use tokio::signal::unix::{SignalKind, signal};
    match signal(SignalKind::terminate()) {
        Ok(mut terminate) => {
            tokio::select! {
                biased;
                _ = terminate.recv() => {}
                _ = tokio::signal::ctrl_c() => {}
            }
        }
        Err(error) => {
            tracing::warn!(%error, "termination signals cannot be listened for");
            std::future::pending::<()>().await;
        }
    }
}

/// A cloud that is kept in a file.
pub fn open(file: &Path, settings: ServerSettings) -> io::Result<Arc<InProcess>> {
    let ambient = Ambient::system();
    let kept = Kept::in_file(file, settings.seed, ambient.now())?;
    let face = InProcess::new(kept, ambient, Arc::new(Uninterrupted), settings.call_delay);
    face.configure(settings.engine);
    Ok(Arc::new(face))
}

/// Serves a cloud until `stop` ends. Calls that hang do not hold the end up: whoever waits for one hears of it by
/// the broken connection, as from a cloud that goes down.
pub async fn serve(
    listener: TcpListener,
    cloud: Arc<InProcess>,
    stop: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    let serving = axum::serve(listener, router(cloud)).into_future();
    tokio::select! {
        biased;
        () = stop => Ok(()),
        result = serving => result,
    }
}

fn router(cloud: Arc<InProcess>) -> Router {
    Router::new()
        .route("/call", post(call))
        .route("/inventory", get(inventory))
        .route("/calls", get(calls))
        .route("/creations", get(creations))
        .route("/counters", get(counters))
        .route("/faults", get(faults).post(add_faults).delete(clear_faults))
        .route("/backdoor", post(backdoor))
        .route("/healthz", get(async || "ok"))
        .layer(axum::extract::DefaultBodyLimit::max(BODY_BYTES_MAX))
        .with_state(cloud)
}

type Cloud = State<Arc<InProcess>>;

/// Where in the log to go on.
#[derive(Debug, Deserialize)]
struct After {
    #[serde(default)]
    after: u64,
}

async fn call(State(cloud): Cloud, Json(request): Json<CallRequest>) -> Json<CallResponse> {
    Json(cloud.call(request).await.into())
}

async fn inventory(State(cloud): Cloud) -> Response {
    answer(cloud.inventory().await)
}

async fn calls(State(cloud): Cloud, Query(After { after }): Query<After>) -> Response {
    answer(cloud.calls(after).await)
}

async fn creations(State(cloud): Cloud) -> Response {
    answer(cloud.creations().await)
}

async fn counters(State(cloud): Cloud) -> Response {
    answer(cloud.counters().await)
}

async fn faults(State(cloud): Cloud) -> Response {
    answer(cloud.faults().await)
}

async fn add_faults(State(cloud): Cloud, Json(faults): Json<Vec<Fault>>) -> Response {
    answer(cloud.add_faults(faults).await)
}

async fn clear_faults(State(cloud): Cloud) -> Response {
    answer(cloud.clear_faults().await)
}

async fn backdoor(State(cloud): Cloud, Json(change): Json<BackdoorChange>) -> Response {
    answer(cloud.change_directly(change).await)
}

/// The machine room speaks plain HTTP: it is people and test scripts who read it.
fn answer<T: Serialize>(result: Result<T, CloudError>) -> Response {
    match result {
        Ok(value) => Json(value).into_response(),
        Err(error) => {
            let status = match &error {
                CloudError::NotFound => StatusCode::NOT_FOUND,
                CloudError::Conflict { .. } => StatusCode::CONFLICT,
                CloudError::Rejected { .. } => StatusCode::BAD_REQUEST,
                _ => StatusCode::SERVICE_UNAVAILABLE,
            };
            (status, Json(error)).into_response()
        }
    }
}
