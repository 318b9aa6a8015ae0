//! What lies between Regent and the cloud: a proxy for each service that passes on what it is asked, or does not.
//!
//! It is found in the way a cloud's own proxies are: the addresses in Keystone's catalogue are its. It also writes down what
//! was asked, which tells what Regent did from what it found done.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderName, Method, Response, StatusCode, header};
use futures_util::stream;

use crate::http::serve;
use crate::openstack::cloud::Admin;

/// As the catalogue has them.
pub const SERVICES: [&str; 7] =
    ["identity", "compute", "network", "image", "block-storage", "load-balancer", "placement"];

/// Whom it throttles, or does not answer: one in so many, whoever that is.
const ONE_IN: usize = 3;

/// The most that is passed on.
const BODY_LEN_MAX: usize = 64 << 20;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mood {
    #[default]
    Fair,
    /// Nothing comes through, and nothing comes back.
    Away,
    /// Whatever it is asked, it cannot now.
    Unable,
    /// Some have to come again later.
    Throttling,
    /// Some changes happen, and nobody is told.
    Mute,
}

/// All proxies, as one.
pub struct Weather {
    http: reqwest::Client,
    moods: Mutex<BTreeMap<&'static str, Mood>>,
    /// Where a service is, and where its proxy is.
    ways: Mutex<Vec<(String, String)>>,
    asked: Mutex<Vec<(Method, String)>>,
    tokens: Mutex<BTreeSet<String>>,
}

impl Weather {
    pub async fn over(admin: &Admin) -> Arc<Self> {
        let weather = Arc::new(Self {
            http: reqwest::Client::new(),
            moods: Mutex::default(),
            ways: Mutex::default(),
            asked: Mutex::default(),
            tokens: Mutex::default(),
        });
        for service in SERVICES {
            let origin = reqwest::Url::parse(&admin.url(service, "")).expect("a url").origin().ascii_serialization();
            let state = (Arc::clone(&weather), service, origin.clone());
            let address = serve(axum::Router::new().fallback(pass_on).with_state(state)).await;
            weather.ways.lock().expect("lock").push((origin, format!("http://{address}")));
        }
        weather
    }

    /// Where Regent finds Keystone.
    pub fn keystone(&self) -> String {
        format!("{}/v3", self.ways.lock().expect("lock")[0].1)
    }

    pub fn becomes(&self, service: &'static str, mood: Mood) {
        self.moods.lock().expect("lock").insert(service, mood);
    }

    pub fn becomes_everywhere(&self, mood: Mood) {
        for service in SERVICES {
            self.becomes(service, mood);
        }
    }

    /// Every token that anybody came with.
    pub fn tokens(&self) -> BTreeSet<String> {
        std::mem::take(&mut self.tokens.lock().expect("lock"))
    }

    /// What was asked to be made, as paths without ids.
    pub fn created(&self) -> Vec<String> {
        let asked = self.asked.lock().expect("lock");
        asked.iter().filter(|(method, _)| method == Method::POST).map(|(_, path)| path.clone()).collect()
    }

    /// With the proxies' addresses instead of the services'.
    fn rewritten(&self, text: &str) -> String {
        let ways = self.ways.lock().expect("lock");
        ways.iter().fold(text.to_owned(), |text, (origin, proxy)| text.replace(origin.as_str(), proxy))
    }

    fn mood(&self, service: &str) -> Mood {
        let mood = self.moods.lock().expect("lock").get(service).copied().unwrap_or_default();
        let is_one = fastrand::usize(..ONE_IN) == 0;
        match mood {
            Mood::Throttling | Mood::Mute if !is_one => Mood::Fair,
            mood => mood,
        }
    }
}

/// An answer that breaks off before its end.
fn nothing() -> Response<Body> {
    let broken = stream::once(async { Err::<Vec<u8>, _>(std::io::Error::other("the line is dead")) });
    Response::new(Body::from_stream(broken))
}

fn refusal(status: StatusCode) -> Response<Body> {
    let answer = Response::builder().status(status).header(header::RETRY_AFTER, "1");
    answer.body(Body::from("no")).expect("an answer")
}

async fn pass_on(
    State((weather, service, origin)): State<(Arc<Weather>, &'static str, String)>,
    request: Request,
) -> Response<Body> {
    let mood = weather.mood(service);
    match mood {
        Mood::Away => return nothing(),
        Mood::Unable => return refusal(StatusCode::SERVICE_UNAVAILABLE),
        Mood::Throttling => return refusal(StatusCode::TOO_MANY_REQUESTS),
        Mood::Fair | Mood::Mute => {}
    }
    let (head, body) = request.into_parts();
    let is_change = !matches!(head.method, Method::GET | Method::HEAD);
    if is_change {
        weather.asked.lock().expect("lock").push((head.method.clone(), head.uri.path().to_owned()));
    }
    if let Some(token) = head.headers.get("x-auth-token").and_then(|token| token.to_str().ok()) {
        weather.tokens.lock().expect("lock").insert(token.to_owned());
    }
    let body = axum::body::to_bytes(body, BODY_LEN_MAX).await.expect("a body");
    let path = head.uri.path_and_query().map_or("", |path| path.as_str());
    let mut onward = weather.http.request(head.method, format!("{origin}{path}")).body(body);
    for (name, value) in head.headers.iter().filter(|(name, _)| is_passed_on(name)) {
        onward = onward.header(name, value);
    }
    let Ok(answer) = onward.send().await else { return nothing() };
    let mut back = Response::builder().status(answer.status());
    for (name, value) in answer.headers().iter().filter(|(name, _)| is_passed_on(name)) {
        back = back.header(name, value);
    }
    let Ok(text) = answer.text().await else { return nothing() };
    if is_change && mood == Mood::Mute {
        return nothing();
    }
    back.body(Body::from(weather.rewritten(&text))).expect("an answer")
}

/// Those of a connection are for its two ends only.
fn is_passed_on(name: &HeaderName) -> bool {
    ![header::HOST, header::CONTENT_LENGTH, header::TRANSFER_ENCODING, header::CONNECTION].contains(name)
}
