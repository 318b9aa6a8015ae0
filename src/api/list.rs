//! Lists: complete, in order of id, and never in memory as a whole.
//!
//! The store is read a page at a time, as fast as the client takes the answer. The first page is read before the
//! answer begins, so that a store which is away is a 503; should it go away later, the connection is cut and the
//! client sees a body that does not parse rather than a list that is silently short.

use std::sync::Arc;

use axum::body::Body;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use serde::Serialize;

use crate::model::record::Record;
use crate::store::{Filter, PAGE_MAX, Page, Store, StoreError};

use super::error::ApiError;

/// Streams what `show` makes of each record that matches; `None` leaves one out.
pub async fn streamed<F, T>(store: Arc<dyn Store>, filter: Filter, show: F) -> Result<Response, ApiError>
where
    F: Fn(&Record) -> Option<T> + Send + Sync + 'static,
    T: Serialize + 'static,
{
    let first = store.list(&filter, Page::FIRST).await?;
    let listing = Listing { store, filter, show, next: Next::Ready(first), text: b"[".to_vec(), written: false };
    let body = Body::from_stream(stream::try_unfold(listing, Listing::advance));
    Ok(([(header::CONTENT_TYPE, "application/json")], body).into_response())
}

/// An empty list, for a question whose answer needs no reading.
#[must_use]
pub fn empty() -> Response {
    axum::Json(Vec::<()>::new()).into_response()
}

struct Listing<F> {
    store: Arc<dyn Store>,
    filter: Filter,
    show: F,
    next: Next,
    text: Vec<u8>,
    written: bool,
}

enum Next {
    /// A page that has been read. Exits: `Read` when it was full, else `Done`.
    Ready(Vec<Arc<Record>>),
    /// Exits: `Ready`.
    Read(Page),
    Done,
}

impl<F, T> Listing<F>
where
    F: Fn(&Record) -> Option<T>,
    T: Serialize,
{
    /// The text of one page, and the rest.
    async fn advance(mut self) -> Result<Option<(Vec<u8>, Self)>, StoreError> {
        let records = match std::mem::replace(&mut self.next, Next::Done) {
            Next::Done => return Ok(None),
            Next::Ready(records) => records,
            Next::Read(page) => self.store.list(&self.filter, page).await?,
        };
        for item in records.iter().filter_map(|record| (self.show)(record)) {
            if std::mem::replace(&mut self.written, true) {
                self.text.push(b',');
            }
            let written = serde_json::to_writer(&mut self.text, &item);
            written.map_err(|error| StoreError::Unavailable(error.to_string()))?;
        }
        match records.last() {
            Some(last) if records.len() >= PAGE_MAX => self.next = Next::Read(Page::after(last.key.id)),
            _ => self.text.push(b']'),
        }
        let text = std::mem::take(&mut self.text);
        Ok(Some((text, self)))
    }
}
