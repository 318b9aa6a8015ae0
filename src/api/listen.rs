//! Connections: how many, for how long, and with which certificate.
//!
//! A listener that [`axum::serve`] can use, plain or TLS. Handshakes run beside each other, so that one client that
//! stalls in its own delays nobody; their number and their time are bounded. So is the number of connections, and a
//! connection on which nothing moves is closed: otherwise a few idle clients could hold every place.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::serve::Listener;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio::time::{Instant, Sleep};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::tls::TlsFiles;

/// How many connections one listener holds. Each costs a file and some tens of kilobytes; the usual limit of files
/// of a process is a small multiple of this.
pub const CONNECTIONS_MAX: usize = 4096;

/// How many handshakes run at once. They cost a signature each, so more would only make all of them slower.
pub const HANDSHAKES_MAX: usize = 128;

/// How long a client may take for its handshake: several round trips on a bad line.
pub const HANDSHAKE_DURATION_MAX: Duration = Duration::from_secs(10);

/// How long nothing may move on a connection. Longer than any request may take to be answered, so that only an idle
/// or a stuck peer is cut off.
pub const IDLE_DURATION_MAX: Duration = Duration::from_mins(2);

/// After an error of accepting, usually too many open files: trying again at once would only spin.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Takes connections on one address.
pub struct Incoming {
    tcp: TcpListener,
    tls: Option<Arc<TlsFiles>>,
    places: Arc<Semaphore>,
    handshakes: JoinSet<Option<(Connection, SocketAddr)>>,
}

impl Incoming {
    #[must_use]
    pub fn new(tcp: TcpListener, tls: Option<Arc<TlsFiles>>) -> Self {
        Self { tcp, tls, places: Arc::new(Semaphore::new(CONNECTIONS_MAX)), handshakes: JoinSet::new() }
    }
}

impl Listener for Incoming {
    type Io = Connection;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Connection, SocketAddr) {
        loop {
            let accepted = tokio::select! {
                biased;
                Some(shaken) = self.handshakes.join_next(), if !self.handshakes.is_empty() => {
                    match shaken {
                        Ok(Some(connection)) => return connection,
                        // A handshake that failed or panicked is its client's loss alone.
                        Ok(None) | Err(_) => continue,
                    }
                }
                accepted = place_and_accept(&self.places, &self.tcp), if self.handshakes.len() < HANDSHAKES_MAX => accepted,
            };
            match (accepted, &self.tls) {
                (Ok((stream, address, place)), None) => {
                    return (Connection::new(Transport::Plain(stream), place), address);
                }
                (Ok((stream, address, place)), Some(tls)) => {
                    let acceptor = TlsAcceptor::from(tls.current());
                    self.handshakes.spawn(shake(acceptor, stream, address, place));
                }
                (Err(error), _) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.tcp.local_addr()
    }
}

/// A place first: without one, clients wait in the kernel's queue rather than in our memory.
async fn place_and_accept(
    places: &Arc<Semaphore>,
    tcp: &TcpListener,
) -> io::Result<(TcpStream, SocketAddr, OwnedSemaphorePermit)> {
    let place = Arc::clone(places).acquire_owned().await.map_err(io::Error::other)?;
    let (stream, address) = tcp.accept().await?;
    // Small answers must not wait for the next one; a failure costs only speed.
    let _ = stream.set_nodelay(true);
    Ok((stream, address, place))
}

async fn shake(
    acceptor: TlsAcceptor,
    stream: TcpStream,
    address: SocketAddr,
    place: OwnedSemaphorePermit,
) -> Option<(Connection, SocketAddr)> {
    match tokio::time::timeout(HANDSHAKE_DURATION_MAX, acceptor.accept(stream)).await {
        Ok(Ok(stream)) => Some((Connection::new(Transport::Tls(Box::new(stream)), place), address)),
        Ok(Err(error)) => {
            tracing::debug!(%error, "a handshake failed");
            None
        }
        Err(_) => {
            tracing::debug!("a handshake took too long");
            None
        }
    }
}

enum Transport {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

/// One connection, with its place among the others and the time at which it is given up.
pub struct Connection {
    transport: Transport,
    idle: Pin<Box<Sleep>>,
    _place: OwnedSemaphorePermit,
}

impl Connection {
    fn new(transport: Transport, place: OwnedSemaphorePermit) -> Self {
        Self { transport, idle: Box::pin(tokio::time::sleep(IDLE_DURATION_MAX)), _place: place }
    }

    /// Passes an outcome on; one that is not there yet is an error once nothing has moved for too long.
    fn timed<T>(&mut self, context: &mut Context<'_>, outcome: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        if outcome.is_ready() {
            self.idle.as_mut().reset(Instant::now() + IDLE_DURATION_MAX);
            return outcome;
        }
        ready!(self.idle.as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let outcome = match &mut self.transport {
            Transport::Plain(stream) => Pin::new(stream).poll_read(context, buffer),
            Transport::Tls(stream) => Pin::new(stream).poll_read(context, buffer),
        };
        self.timed(context, outcome)
    }
}

impl AsyncWrite for Connection {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let outcome = match &mut self.transport {
            Transport::Plain(stream) => Pin::new(stream).poll_write(context, bytes),
            Transport::Tls(stream) => Pin::new(stream).poll_write(context, bytes),
        };
        self.timed(context, outcome)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.transport {
            Transport::Plain(stream) => Pin::new(stream).poll_flush(context),
            Transport::Tls(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let outcome = match &mut self.transport {
            Transport::Plain(stream) => Pin::new(stream).poll_shutdown(context),
            Transport::Tls(stream) => Pin::new(stream).poll_shutdown(context),
        };
        self.timed(context, outcome)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let outcome = match &mut self.transport {
            Transport::Plain(stream) => Pin::new(stream).poll_write_vectored(context, slices),
            Transport::Tls(stream) => Pin::new(stream).poll_write_vectored(context, slices),
        };
        self.timed(context, outcome)
    }

    fn is_write_vectored(&self) -> bool {
        match &self.transport {
            Transport::Plain(stream) => stream.is_write_vectored(),
            Transport::Tls(stream) => stream.is_write_vectored(),
        }
    }
}
