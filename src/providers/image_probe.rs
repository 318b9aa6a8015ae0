//! A look at what is to be imported, before it is: is it there, how large is it, and is it a disk (B17)?
//!
//! ```text
//!   address ─▶ resolved, every answer checked ─▶ connected to one of those and to nothing else ─▶ first 1 KiB
//!                 ▲                                                     └── redirected, three times at most ──┐
//!                 └───────────────────────────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! A name may lead anywhere, and elsewhere a moment later. So it is resolved here, once, and the connection is made to
//! what was checked. Nothing of an answer reaches the user but which rule it broke: the probe is no window into a network.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::redirect::Policy;
use reqwest::{Client, Response, StatusCode, header};
use tokio::sync::Semaphore;

use crate::model::image_url::{AddressRule, ImageUrl, InvalidImageUrl, is_public};

/// The largest image that is taken, unless an operator says otherwise.
pub const SIZE_LIMIT_GIB_DEFAULT: u32 = 30;

/// Stores of objects redirect once or twice; whoever sends a reader further sends it in circles.
const REDIRECTIONS_MAX: usize = 3;

/// Somebody waits for the answer, and the request has thirty seconds in all.
const CONNECT_TIME_MAX: Duration = Duration::from_secs(5);
const TOTAL_TIME_MAX: Duration = Duration::from_secs(15);

/// Both partition tables show themselves in here: a boot sector, and the sector after it.
const HEAD_LEN: usize = 1024;

/// How many looks there are at once. Each holds a connection to somewhere that a user chose, for as long as that likes to
/// take; more of them would let one tenant make this process a flood.
const LOOKS_MAX: usize = 32;

/// A name with more addresses than this is not a server's.
const ADDRESSES_MAX: usize = 64;

const GIB: u64 = 1 << 30;

/// What there is to import.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Probed {
    /// `None` where nobody looked.
    pub size_gib: Option<u32>,
}

/// Why it is not imported, in words that follow the name of the field.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProbeError {
    /// The region is not there, or has no cloud.
    #[error("names a region that is not there")]
    Region,
    /// As many are being looked at as there may be.
    #[error("cannot be looked at now")]
    Busy,
    #[error("{0}")]
    Url(#[from] InvalidImageUrl),
    #[error("could not be fetched")]
    Unreachable,
    #[error("leads through too many redirections")]
    Redirections,
    #[error("must be answered with its size")]
    Unsized,
    #[error("is larger than the limit of {0} GiB")]
    TooLarge(u32),
    #[error("must be a raw disk with an MBR or a GPT; this is {0}")]
    Format(&'static str),
}

/// Says which addresses a name has.
pub type Lookup = Arc<dyn Fn(String, u16) -> BoxFuture<'static, io::Result<Vec<SocketAddr>>> + Send + Sync>;

/// Looks at images to import.
#[derive(Clone)]
pub struct ImageProbe {
    lookup: Lookup,
    is_allowed: AddressRule,
    size_limit_gib: u32,
    places: Arc<Semaphore>,
}

/// Answers every name with what has been checked, so that nothing else is connected to.
struct Checked(Vec<SocketAddr>);

impl Resolve for Checked {
    fn resolve(&self, _name: Name) -> Resolving {
        let addresses: Addrs = Box::new(self.0.clone().into_iter());
        std::future::ready(Ok(addresses)).boxed()
    }
}

impl ImageProbe {
    /// Visits the public internet.
    #[must_use]
    pub fn new(size_limit_gib: u32) -> Self {
        let lookup: Lookup = Arc::new(|host, port| {
            async move { Ok(tokio::net::lookup_host((host, port)).await?.take(ADDRESSES_MAX).collect()) }.boxed()
        });
        Self { lookup, is_allowed: is_public, size_limit_gib, places: Arc::new(Semaphore::new(LOOKS_MAX)) }
    }

    pub async fn probe(&self, url: &ImageUrl) -> Result<Probed, ProbeError> {
        let _place = self.places.try_acquire().map_err(|_| ProbeError::Busy)?;
        let visit = tokio::time::timeout(TOTAL_TIME_MAX, self.visit(url.clone()));
        visit.await.unwrap_or(Err(ProbeError::Unreachable))
    }

    async fn visit(&self, mut url: ImageUrl) -> Result<Probed, ProbeError> {
        for _ in 0..=REDIRECTIONS_MAX {
            let response = self.fetch(&url).await?;
            match response.status() {
                StatusCode::OK | StatusCode::PARTIAL_CONTENT => return self.judge(response).await,
                status if status.is_redirection() => {
                    let location = response.headers().get(header::LOCATION).and_then(|value| value.to_str().ok());
                    url = url.redirected(location.ok_or(ProbeError::Unreachable)?, self.is_allowed)?;
                }
                _ => return Err(ProbeError::Unreachable),
            }
        }
        Err(ProbeError::Redirections)
    }

    async fn fetch(&self, url: &ImageUrl) -> Result<Response, ProbeError> {
        let addresses = match url.literal() {
            Some(address) => vec![SocketAddr::new(address, url.port())],
            None => (self.lookup)(url.host().to_owned(), url.port()).await.map_err(|_| ProbeError::Unreachable)?,
        };
        if addresses.is_empty() {
            return Err(ProbeError::Unreachable);
        }
        // One that leads inside among others that do not is one that somebody put there.
        if !addresses.iter().all(|address| (self.is_allowed)(address.ip())) {
            return Err(InvalidImageUrl::Address.into());
        }
        let client = Client::builder()
            .redirect(Policy::none())
            .no_proxy()
            .connect_timeout(CONNECT_TIME_MAX)
            .timeout(TOTAL_TIME_MAX)
            .dns_resolver(Arc::new(Checked(addresses)))
            .build()
            .map_err(|_| ProbeError::Unreachable)?;
        let request = client
            .get(url.as_url().clone())
            .header(header::RANGE, format!("bytes=0-{}", HEAD_LEN - 1))
            .header(header::ACCEPT_ENCODING, "identity");
        request.send().await.map_err(|_| ProbeError::Unreachable)
    }

    async fn judge(&self, mut response: Response) -> Result<Probed, ProbeError> {
        let bytes = total_len(&response).ok_or(ProbeError::Unsized)?;
        if bytes > u64::from(self.size_limit_gib) * GIB {
            return Err(ProbeError::TooLarge(self.size_limit_gib));
        }
        let mut head = Vec::new();
        while head.len() < HEAD_LEN {
            let Some(chunk) = response.chunk().await.map_err(|_| ProbeError::Unreachable)? else { break };
            head.extend_from_slice(&chunk[..chunk.len().min(HEAD_LEN)]);
        }
        head.truncate(HEAD_LEN);
        recognised(&head).map_err(ProbeError::Format)?;
        Ok(Probed { size_gib: u32::try_from(bytes.div_ceil(GIB)).ok() })
    }
}

/// How long the whole is, of which a part or all is sent.
fn total_len(response: &Response) -> Option<u64> {
    let text = |name| response.headers().get(name).and_then(|value| value.to_str().ok());
    if response.status() == StatusCode::PARTIAL_CONTENT {
        return text(header::CONTENT_RANGE)?.rsplit_once('/')?.1.parse().ok();
    }
    text(header::CONTENT_LENGTH)?.parse().ok()
}

/// What a file begins with that is not a disk, and what people call it.
const OTHERS: [(&[u8], &str); 12] = [
    (b"QFI\xfb", "qcow2; convert it first"),
    (b"\x1f\x8b", "compressed with gzip; unpack it first"),
    (b"\xfd7zXZ\0", "compressed with xz; unpack it first"),
    (b"\x28\xb5\x2f\xfd", "compressed with zstd; unpack it first"),
    (b"BZh", "compressed with bzip2; unpack it first"),
    (b"PK\x03\x04", "a zip archive; unpack it first"),
    (b"7z\xbc\xaf", "a 7z archive; unpack it first"),
    (b"KDMV", "vmdk; convert it first"),
    (b"vhdxfile", "vhdx; convert it first"),
    (b"conectix", "vhd; convert it first"),
    (b"<<< ", "vdi; convert it first"),
    (b"<!", "a web page"),
];

/// Is this the beginning of a raw disk? If not, what is it?
fn recognised(head: &[u8]) -> Result<(), &'static str> {
    if let Some((_, what)) = OTHERS.iter().find(|(beginning, _)| head.starts_with(beginning)) {
        return Err(what);
    }
    let has_mbr = head.get(510..512) == Some(&[0x55, 0xaa]);
    let has_gpt = head.get(512..520) == Some(b"EFI PART");
    if has_mbr || has_gpt { Ok(()) } else { Err("not one") }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::net::{IpAddr, Ipv4Addr};

    use axum::Router;
    use axum::extract::{Path, State};
    use axum::http::HeaderMap;
    use axum::response::IntoResponse;
    use axum::routing::get;

    use super::*;

    const HOME: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);

    fn only_home(address: IpAddr) -> bool {
        address == HOME
    }

    fn disk(gpt: bool) -> Vec<u8> {
        let mut disk = vec![0; 4096];
        if gpt {
            disk[512..520].copy_from_slice(b"EFI PART");
        } else {
            disk[510..512].copy_from_slice(&[0x55, 0xaa]);
        }
        disk
    }

    type Files = Arc<BTreeMap<String, (Vec<u8>, u64)>>;

    /// Serves parts of files whose whole it only claims to have.
    async fn part(
        State(files): State<Files>,
        Path(name): Path<String>,
        headers: HeaderMap,
    ) -> axum::response::Response {
        if let Some(times) = name.strip_prefix("around-").and_then(|times| times.parse::<u32>().ok()) {
            let next = if times == 0 { "/mbr".to_owned() } else { format!("/around-{}", times - 1) };
            return (StatusCode::FOUND, [(header::LOCATION, next)]).into_response();
        }
        if let Some(elsewhere) = name.strip_prefix("to-") {
            return (StatusCode::FOUND, [(header::LOCATION, format!("http://{elsewhere}/"))]).into_response();
        }
        let Some((bytes, total)) = files.get(&name) else { return StatusCode::NOT_FOUND.into_response() };
        if name == "whole" {
            return bytes.clone().into_response();
        }
        assert_eq!(headers[header::RANGE], "bytes=0-1023");
        let range = if *total == 0 { "bytes 0-1023/*".to_owned() } else { format!("bytes 0-1023/{total}") };
        let sent = bytes[..bytes.len().min(1024)].to_vec();
        (StatusCode::PARTIAL_CONTENT, [(header::CONTENT_RANGE, range)], sent).into_response()
    }

    #[expect(clippy::disallowed_methods, reason = "ends with the test's runtime")]
    async fn served() -> u16 {
        let gzip = [&[0x1f, 0x8b][..], &vec![0; 2000]].concat();
        let files = BTreeMap::from([
            ("mbr".to_owned(), (disk(false), 5 * GIB)),
            ("gpt".to_owned(), (disk(true), GIB + 1)),
            ("whole".to_owned(), (disk(false), 0)),
            ("unsized".to_owned(), (disk(false), 0)),
            ("huge".to_owned(), (disk(false), 30 * GIB + 1)),
            ("largest".to_owned(), (disk(false), 30 * GIB)),
            ("gzip".to_owned(), (gzip, GIB)),
            ("qcow2".to_owned(), (b"QFI\xfb and so on".to_vec(), GIB)),
            ("zeros".to_owned(), (vec![0; 2000], GIB)),
            ("short".to_owned(), (vec![0x55, 0xaa], 2)),
        ]);
        let router = Router::new().route("/{name}", get(part)).with_state(Arc::new(files));
        let listener = tokio::net::TcpListener::bind((HOME, 0)).await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        tokio::spawn(async move { axum::serve(listener, router).await });
        port
    }

    fn probe_of(names: &[(&str, &[&str])]) -> ImageProbe {
        let names = names.iter().map(|(name, addresses)| {
            (
                (*name).to_owned(),
                addresses.iter().map(|text| text.parse::<IpAddr>().expect("an address")).collect::<Vec<_>>(),
            )
        });
        let names = names.collect::<BTreeMap<_, _>>();
        let lookup: Lookup = Arc::new(move |host, port| {
            let known = names.get(&host).cloned();
            let found = known.ok_or_else(|| io::Error::other("no such name"));
            std::future::ready(found.map(|all| all.into_iter().map(|ip| SocketAddr::new(ip, port)).collect())).boxed()
        });
        let places = Arc::new(Semaphore::new(1));
        ImageProbe { lookup, is_allowed: only_home, size_limit_gib: SIZE_LIMIT_GIB_DEFAULT, places }
    }

    async fn probed(probe: &ImageProbe, url: &str) -> Result<Probed, ProbeError> {
        probe.probe(&ImageUrl::parse(url, only_home).expect("a good address")).await
    }

    #[tokio::test]
    async fn b17_a_raw_disk_is_recognised_by_either_table_and_measured() {
        let (port, probe) = (served().await, probe_of(&[]));
        for (file, size_gib) in [("mbr", 5), ("gpt", 2), ("whole", 1), ("largest", 30), ("around-2", 5)] {
            let answer = probed(&probe, &format!("http://127.0.0.1:{port}/{file}")).await;
            assert_eq!(answer, Ok(Probed { size_gib: Some(size_gib) }), "{file}");
        }
    }

    #[tokio::test]
    async fn b17_what_is_no_disk_or_too_large_is_refused_by_name() {
        let (port, probe) = (served().await, probe_of(&[]));
        for (file, refusal) in [
            ("huge", ProbeError::TooLarge(30)),
            ("unsized", ProbeError::Unsized),
            ("gzip", ProbeError::Format("compressed with gzip; unpack it first")),
            ("qcow2", ProbeError::Format("qcow2; convert it first")),
            ("zeros", ProbeError::Format("not one")),
            ("short", ProbeError::Format("not one")),
            ("missing", ProbeError::Unreachable),
            ("around-3", ProbeError::Redirections),
        ] {
            assert_eq!(probed(&probe, &format!("http://127.0.0.1:{port}/{file}")).await, Err(refusal), "{file}");
        }
    }

    #[tokio::test]
    async fn b17_only_what_was_checked_is_connected_to() {
        let port = served().await;
        let probe = probe_of(&[
            ("images.example.org", &["127.0.0.1"]),
            ("mixed.example.org", &["127.0.0.1", "169.254.169.254"]),
            ("inside.example.org", &["10.0.0.1"]),
            ("empty.example.org", &[]),
        ]);
        let inside = Err(ProbeError::Url(InvalidImageUrl::Address));
        let url = |host: &str, file: &str| format!("http://{host}:{port}/{file}");
        assert!(probed(&probe, &url("images.example.org", "mbr")).await.is_ok());
        assert_eq!(probed(&probe, &url("mixed.example.org", "mbr")).await, inside);
        assert_eq!(probed(&probe, &url("inside.example.org", "mbr")).await, inside);
        assert_eq!(probed(&probe, &url("empty.example.org", "mbr")).await, Err(ProbeError::Unreachable));
        assert_eq!(probed(&probe, &url("unknown.example.org", "mbr")).await, Err(ProbeError::Unreachable));
        for elsewhere in ["to-169.254.169.254", "to-inside.example.org", "to-localhost", "to-10.0.0.1"] {
            assert_eq!(probed(&probe, &url("images.example.org", elsewhere)).await, inside, "{elsewhere}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn b17_a_server_that_says_nothing_is_given_up_on() {
        let listener = tokio::net::TcpListener::bind((HOME, 0)).await.expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let (probe, url) = (probe_of(&[]), format!("http://127.0.0.1:{port}/mbr"));
        let (answer, another) = tokio::join!(biased; probed(&probe, &url), probed(&probe, &url));
        assert_eq!(answer, Err(ProbeError::Unreachable));
        assert_eq!(another, Err(ProbeError::Busy), "there is one place here, and it was taken");
        assert_eq!(probe.places.available_permits(), 1, "and is free again");
    }
}
