//! The way to a simulated cloud in another process.
//!
//! What the network does to a call becomes what it would be on a real cloud: no connection is `Unavailable`, no answer
//! in time is `TimedOut`, and in both cases nobody knows whether a change has happened.

use async_trait::async_trait;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::api::{CloudApi, SimulatedHandle};
use super::call::{Answer, CALL_DEADLINE, CallRequest, CloudError};
use super::engine::backdoor::BackdoorChange;
use super::engine::books::{Counters, Creations, Inventory, LoggedCall};
use super::engine::faults::Fault;
use super::server::CallResponse;

/// A way to a cloud that `regent simulated-cloud` serves.
#[derive(Clone, Debug)]
pub struct Remote {
    client: reqwest::Client,
    base_url: String,
}

impl Remote {
    /// `base_url` is what the server printed, `http://127.0.0.1:1234`.
    pub fn new(base_url: &str) -> Result<Self, CloudError> {
        let client = reqwest::Client::builder()
            .timeout(CALL_DEADLINE)
            .no_proxy()
            .build()
            .map_err(|error| CloudError::rejected(format!("no client can be made: {error}")))?;
        Ok(Self { client, base_url: base_url.trim_end_matches('/').to_owned() })
    }

    fn url(&self, path: &str) -> String {
        format!("{}{path}", self.base_url)
    }

    async fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T, CloudError> {
        read(self.client.get(self.url(path))).await
    }

    async fn post<B: Serialize + Sync, T: DeserializeOwned>(&self, path: &str, body: &B) -> Result<T, CloudError> {
        read(self.client.post(self.url(path)).json(body)).await
    }
}

async fn read<T: DeserializeOwned>(request: reqwest::RequestBuilder) -> Result<T, CloudError> {
    let response = request.send().await.map_err(|error| broken(&error))?;
    if response.status().is_success() {
        return response.json().await.map_err(|error| broken(&error));
    }
    // Anything but one of our own errors means that it is not our server, or one that is half down.
    Err(response.json().await.unwrap_or(CloudError::Unavailable))
}

fn broken(error: &reqwest::Error) -> CloudError {
    if error.is_timeout() && !error.is_connect() { CloudError::TimedOut } else { CloudError::Unavailable }
}

#[async_trait]
impl CloudApi for Remote {
    async fn call(&self, request: CallRequest) -> Result<Answer, CloudError> {
        self.post::<_, CallResponse>("/call", &request).await?.into()
    }
}

#[async_trait]
impl SimulatedHandle for Remote {
    async fn inventory(&self) -> Result<Inventory, CloudError> {
        self.get("/inventory").await
    }

    async fn calls(&self, after: u64) -> Result<Vec<LoggedCall>, CloudError> {
        self.get(&format!("/calls?after={after}")).await
    }

    async fn creations(&self) -> Result<Creations, CloudError> {
        self.get("/creations").await
    }

    async fn counters(&self) -> Result<Counters, CloudError> {
        self.get("/counters").await
    }

    async fn faults(&self) -> Result<Vec<Fault>, CloudError> {
        self.get("/faults").await
    }

    async fn add_faults(&self, faults: Vec<Fault>) -> Result<(), CloudError> {
        self.post("/faults", &faults).await
    }

    async fn clear_faults(&self) -> Result<(), CloudError> {
        read(self.client.delete(self.url("/faults"))).await
    }

    async fn change_directly(&self, change: BackdoorChange) -> Result<(), CloudError> {
        self.post("/backdoor", &change).await
    }
}
