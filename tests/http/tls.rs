//! TLS, and certificates that are renewed under a running server. The keys beside this file protect nothing.

use std::path::Path;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use regent::api::listen::Incoming;
use regent::api::router;
use regent::api::tls::{TlsError, TlsFiles};
use reqwest::StatusCode;
use reqwest::tls::TlsInfo;
use tokio::io::AsyncReadExt;

use super::{Folder, World};

const FIRST: [&str; 2] = [include_str!("certificates/first.pem"), include_str!("certificates/first.key.pem")];
const SECOND: [&str; 2] = [include_str!("certificates/second.pem"), include_str!("certificates/second.key.pem")];

fn install(folder: &Path, [certificate, key]: [&str; 2]) {
    std::fs::write(folder.join("cert.pem"), certificate).expect("writes");
    std::fs::write(folder.join("key.pem"), key).expect("writes");
}

fn load(folder: &Path) -> Result<TlsFiles, TlsError> {
    TlsFiles::load(&folder.join("cert.pem"), &folder.join("key.pem"))
}

fn der(pem: &str) -> Vec<u8> {
    let lines = pem.lines().filter(|line| !line.starts_with("-----")).collect::<String>();
    STANDARD.decode(lines).expect("base64")
}

#[expect(clippy::disallowed_methods, reason = "ends with the test's runtime")]
async fn serve(world: &World, tls: &Arc<TlsFiles>) -> std::net::SocketAddr {
    let tcp = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = tcp.local_addr().expect("an address");
    let (listener, router) = (Incoming::new(tcp, Some(Arc::clone(tls))), router(&world.api));
    tokio::spawn(async move { axum::serve(listener, router).await });
    address
}

/// The certificate that a new connection is shown.
async fn shown(address: std::net::SocketAddr) -> Vec<u8> {
    let client = reqwest::Client::builder().tls_info(true).danger_accept_invalid_certs(true).build().expect("a client");
    let response = client.get(format!("https://{address}/healthz")).send().await.expect("an answer");
    assert_eq!(response.status(), StatusCode::OK);
    let info = response.extensions().get::<TlsInfo>().expect("a certificate");
    info.peer_certificate().expect("a certificate").to_vec()
}

#[tokio::test]
async fn a_renewed_certificate_is_shown_and_a_broken_one_is_not() {
    let (world, folder) = (World::start().await, Folder::new());
    install(&folder.0, FIRST);
    let tls = Arc::new(load(&folder.0).expect("loads"));
    let address = serve(&world, &tls).await;
    assert_eq!(shown(address).await, der(FIRST[0]));
    install(&folder.0, [SECOND[0], FIRST[1]]);
    tls.reload();
    assert_eq!(shown(address).await, der(FIRST[0]), "a certificate without its key is not used");
    install(&folder.0, SECOND);
    tls.reload();
    assert_eq!(shown(address).await, der(SECOND[0]));
    std::fs::remove_file(folder.0.join("cert.pem")).expect("removes");
    tls.reload();
    assert_eq!(shown(address).await, der(SECOND[0]));
}

#[tokio::test(start_paused = true)]
async fn a_changed_file_is_noticed_within_a_second_without_being_told() {
    let folder = Folder::new();
    install(&folder.0, FIRST);
    let tls = load(&folder.0).expect("loads");
    let before = tls.current();
    install(&folder.0, SECOND);
    assert!(Arc::ptr_eq(&before, &tls.current()), "files are not looked at with every connection");
    tokio::time::advance(std::time::Duration::from_secs(1)).await;
    assert!(!Arc::ptr_eq(&before, &tls.current()));
}

#[tokio::test]
async fn a_client_that_stalls_in_its_handshake_delays_nobody() {
    let (world, folder) = (World::start().await, Folder::new());
    install(&folder.0, FIRST);
    let tls = Arc::new(load(&folder.0).expect("loads"));
    let address = serve(&world, &tls).await;
    let mut silent = Vec::new();
    for _ in 0..20 {
        silent.push(tokio::net::TcpStream::connect(address).await.expect("connects"));
    }
    assert_eq!(shown(address).await, der(FIRST[0]));
}

#[tokio::test]
async fn a_plain_request_to_a_tls_listener_is_cut_off() {
    use tokio::io::AsyncWriteExt;
    let (world, folder) = (World::start().await, Folder::new());
    install(&folder.0, FIRST);
    let tls = Arc::new(load(&folder.0).expect("loads"));
    let address = serve(&world, &tls).await;
    let mut plain = tokio::net::TcpStream::connect(address).await.expect("connects");
    plain.write_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n").await.expect("writes");
    let mut answer = Vec::new();
    plain.read_to_end(&mut answer).await.expect("reads");
    assert!(!answer.starts_with(b"HTTP"), "{answer:?}");
}

#[test]
fn files_that_cannot_be_used_are_named() {
    let folder = Folder::new();
    let text = |result: Result<TlsFiles, TlsError>| result.err().expect("an error").to_string();
    assert!(text(load(&folder.0)).contains("cert.pem"));
    install(&folder.0, [FIRST[0], "not a key"]);
    assert!(text(load(&folder.0)).contains("key.pem"));
    install(&folder.0, ["not a certificate", FIRST[1]]);
    assert!(text(load(&folder.0)).contains("cert.pem"));
    install(&folder.0, [FIRST[0], SECOND[1]]);
    assert!(text(load(&folder.0)).contains("together"));
}
