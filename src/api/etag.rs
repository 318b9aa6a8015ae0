//! Which state of a resource was read: the entity tag.
//!
//! It follows from the intent alone (who the resource is, and how often what is asked of it was written), not from its
//! status. So a client that reads, thinks and writes is not refused because the cloud has meanwhile made progress; and
//! for the same reason a tag says nothing of whether a read would answer the same, and no read is answered with 304.

use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};

use crate::model::record::Record;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntityTag(String);

impl EntityTag {
    /// Ids can be used again, and revisions then begin anew: the incarnation tells the resources apart.
    #[must_use]
    pub fn of(record: &Record) -> Self {
        Self(format!("\"{}-{}\"", record.metadata.incarnation.0.simple(), record.revision.0))
    }

    #[must_use]
    pub fn text(&self) -> &str {
        &self.0
    }
}

/// An answer that shows one resource.
pub struct Tagged<B>(pub EntityTag, pub B);

impl<B: IntoResponse> IntoResponse for Tagged<B> {
    fn into_response(self) -> Response {
        let mut response = self.1.into_response();
        if let Ok(tag) = HeaderValue::from_str(self.0.text()) {
            response.headers_mut().insert(header::ETAG, tag);
        }
        response
    }
}
