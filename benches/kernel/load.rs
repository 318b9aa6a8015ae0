//! Clients that cost as little as a client can: bytes written to a socket, the answer's length read from it.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use regent::model::ids::RegionId;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::JoinSet;

use super::Sample;
use super::plane::Plane;

/// One connection that is kept open.
pub struct Client {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Client {
    pub async fn connect(plane: &Plane) -> Self {
        let stream = TcpStream::connect(plane.address).await.unwrap();
        stream.set_nodelay(true).unwrap();
        Self { stream, buffer: Vec::with_capacity(16 * 1024) }
    }

    /// Sends a request and returns its answer's body. Anything but a 201 or a 202 ends the measurement.
    pub async fn send(&mut self, request: &[u8]) -> Vec<u8> {
        self.stream.write_all(request).await.unwrap();
        self.buffer.clear();
        loop {
            assert!(self.stream.read_buf(&mut self.buffer).await.unwrap() > 0, "the server hung up");
            let Some(end) = self.buffer.windows(4).position(|window| window == b"\r\n\r\n") else { continue };
            let head = String::from_utf8_lossy(&self.buffer[..end]).to_lowercase();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
            let length: usize = length.trim().parse().unwrap();
            if self.buffer.len() >= end + 4 + length {
                let body = self.buffer[end + 4..].to_vec();
                let accepted = head.starts_with("http/1.1 201") || head.starts_with("http/1.1 202");
                assert!(accepted, "{head}\n{}", String::from_utf8_lossy(&body));
                return body;
            }
        }
    }
}

/// What a load came to.
pub struct Outcome {
    pub latencies: Sample,
    pub elapsed: Duration,
}

impl Outcome {
    pub fn per_second(&self) -> f64 {
        self.latencies.count() as f64 / self.elapsed.as_secs_f64()
    }
}

/// `clients` that each send the next create as soon as the last was answered, until `total` are done.
pub async fn closed_loop(plane: &Arc<Plane>, region: RegionId, clients: usize, total: usize) -> Outcome {
    let next = Arc::new(AtomicUsize::new(0));
    let mut tasks = JoinSet::new();
    let began = Instant::now();
    for _ in 0..clients {
        let (plane, next) = (Arc::clone(plane), Arc::clone(&next));
        tasks.spawn(async move {
            let mut client = Client::connect(&plane).await;
            let mut latencies = Vec::new();
            loop {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= total {
                    return latencies;
                }
                let request = plane.create_request(&format!("c{number}"), region);
                let sent = Instant::now();
                client.send(&request).await;
                latencies.push(sent.elapsed());
            }
        });
    }
    let latencies = tasks.join_all().await.concat();
    Outcome { latencies: Sample::of(latencies), elapsed: began.elapsed() }
}

/// Networks created at fixed times.
pub async fn open_loop(plane: &Arc<Plane>, region: RegionId, per_second: u32, total: u32) -> Outcome {
    open_loop_of(plane, per_second, total, move |plane, number| plane.create_request(&format!("o{number}"), region))
        .await
}

/// Requests sent at fixed times, whether or not earlier ones were answered; latency counts from the planned time.
pub async fn open_loop_of(
    plane: &Arc<Plane>,
    per_second: u32,
    total: u32,
    request: impl Fn(&Plane, u32) -> Vec<u8> + Send + Sync + 'static,
) -> Outcome {
    const CONNECTIONS: u32 = 32;
    let mut tasks = JoinSet::new();
    let request = Arc::new(request);
    let began = tokio::time::Instant::now() + Duration::from_millis(50);
    for lane in 0..CONNECTIONS {
        let (plane, request) = (Arc::clone(plane), Arc::clone(&request));
        tasks.spawn(async move {
            let mut client = Client::connect(&plane).await;
            let mut latencies = Vec::new();
            for number in (lane..total).step_by(CONNECTIONS as usize) {
                let planned = began + Duration::from_secs(1) * number / per_second;
                tokio::time::sleep_until(planned).await;
                client.send(&request(&plane, number)).await;
                latencies.push(planned.elapsed());
            }
            latencies
        });
    }
    let latencies = tasks.join_all().await.concat();
    Outcome { latencies: Sample::of(latencies), elapsed: began.elapsed() }
}
