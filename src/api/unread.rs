//! Request bodies that nobody read.
//!
//! A request that is refused early (no such path, no such method, no token) leaves its body on the connection. The
//! connection would then be closed without a word, and a client that has just got its answer loses its *next* request,
//! which it may not dare to repeat. So what nobody read is read here and thrown away, within bounds; beyond them the
//! answer says that the connection ends with it.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, BodyDataStream, Bytes, HttpBody};
use axum::extract::Request;
use axum::http::{HeaderValue, Version, header};
use axum::middleware::Next;
use axum::response::Response;
use futures_util::stream::{Fuse, Stream, StreamExt};

/// How much is thrown away. Whoever sends more than sixteen times what is ever read is not listening anyway.
const DISCARDED_LEN_MAX: usize = 16 * super::extract::BODY_LEN_MAX;

/// How long that may take: its sender waits for the answer meanwhile.
const DISCARD_DURATION_MAX: Duration = Duration::from_secs(5);

/// A layer around everything that may answer.
pub async fn discard(request: Request, next: Next) -> Response {
    // The streams of HTTP/2 end one by one.
    if request.body().is_end_stream() || request.version() > Version::HTTP_11 {
        return next.run(request).await;
    }
    let (parts, body) = request.into_parts();
    let lent = Lent(Arc::new(Mutex::new(body.into_data_stream().fuse())));
    let mut response = next.run(Request::from_parts(parts, Body::from_stream(lent.clone()))).await;
    let is_read = tokio::time::timeout(DISCARD_DURATION_MAX, read_away(lent)).await;
    if !is_read.unwrap_or(false) {
        response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
    }
    response
}

/// Was it read to its end?
async fn read_away(mut body: Lent) -> bool {
    let mut seen = 0_usize;
    while let Some(bytes) = body.next().await {
        seen = seen.saturating_add(bytes.map_or(0, |bytes| bytes.len()));
        if seen > DISCARDED_LEN_MAX {
            return false;
        }
    }
    true
}

/// A body that is still there when its reader has lost interest.
#[derive(Clone)]
struct Lent(Arc<Mutex<Fuse<BodyDataStream>>>);

impl Stream for Lent {
    type Item = Result<Bytes, axum::Error>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).poll_next_unpin(context)
    }
}
