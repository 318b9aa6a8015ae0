//! What a client asks about a change beside the change itself, read from its headers and its query.

use axum::extract::Request;
use axum::http::{HeaderMap, Uri, header};

use crate::api::error::ApiError;
use crate::api::etag::EntityTag;
use crate::api::extract::{Ambiguous, single};

pub const IDEMPOTENCY_KEY: &str = "idempotency-key";
pub const DRY_RUN: &str = "dryRun";

/// As long as the keys that clients make: a UUID, or a name of theirs with one in it.
const KEY_LEN_MAX: usize = 255;

/// More tags than a client that read a resource can have.
const TAGS_MAX: usize = 16;

/// At least one of them is set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wishes {
    pub key: Option<String>,
    pub expected: Option<Expected>,
    pub dry_run: bool,
}

/// What `If-Match` says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expected {
    /// Whatever it is, as long as it is there.
    Anything,
    OneOf(Vec<String>),
}

impl Expected {
    /// Does the resource have a tag that is expected? A weak one never matches, as the standard has it.
    pub fn allows(&self, tag: &EntityTag) -> bool {
        match self {
            Self::Anything => true,
            Self::OneOf(tags) => tags.iter().any(|expected| expected == tag.text()),
        }
    }
}

impl Wishes {
    /// `None` for a request that asks for nothing of this kind.
    pub fn of(request: &Request) -> Result<Option<Self>, ApiError> {
        let wishes = Self {
            key: key(request.headers())?,
            expected: expected(request.headers())?,
            dry_run: dry_run(request.uri())?,
        };
        let is_plain = wishes.key.is_none() && wishes.expected.is_none() && !asks(request.uri());
        Ok(if is_plain { None } else { Some(wishes) })
    }
}

fn key(headers: &HeaderMap) -> Result<Option<String>, ApiError> {
    let is_good =
        |key: &&str| (1..=KEY_LEN_MAX).contains(&key.len()) && key.bytes().all(|byte| byte.is_ascii_graphic());
    match single(headers, IDEMPOTENCY_KEY) {
        Ok(None) => Ok(None),
        Ok(Some(key)) if is_good(&key) => Ok(Some(key.to_owned())),
        Ok(Some(_)) | Err(Ambiguous) => {
            Err(ApiError::invalid("the header Idempotency-Key must be one value of 1 to 255 visible ASCII characters"))
        }
    }
}

fn expected(headers: &HeaderMap) -> Result<Option<Expected>, ApiError> {
    let malformed = || ApiError::invalid("the header If-Match must be * or up to 16 quoted entity tags");
    let text = match single(headers, header::IF_MATCH.as_str()) {
        Ok(None) => return Ok(None),
        Ok(Some(text)) => text.trim(),
        Err(Ambiguous) => return Err(malformed()),
    };
    if text == "*" {
        return Ok(Some(Expected::Anything));
    }
    let tags = text.split(',').map(|tag| tag.trim().to_owned()).collect::<Vec<_>>();
    let is_tag = |tag: &String| {
        let opaque = tag.strip_prefix("W/").unwrap_or(tag);
        opaque.len() >= 2 && opaque.starts_with('"') && opaque.ends_with('"')
    };
    if tags.len() <= TAGS_MAX && tags.iter().all(is_tag) { Ok(Some(Expected::OneOf(tags))) } else { Err(malformed()) }
}

fn pairs(uri: &Uri) -> impl Iterator<Item = &str> {
    uri.query().unwrap_or_default().split('&').filter(|pair| !pair.is_empty())
}

fn name(pair: &str) -> &str {
    pair.split_once('=').map_or(pair, |(name, _)| name)
}

/// Whoever means a dry run must not get a real one for a slip: every way to write the name is taken for it.
fn is_dry_run(pair: &str) -> bool {
    name(pair).replace(['-', '_'], "").eq_ignore_ascii_case(DRY_RUN)
}

fn asks(uri: &Uri) -> bool {
    pairs(uri).any(is_dry_run)
}

fn dry_run(uri: &Uri) -> Result<bool, ApiError> {
    let mut asked = pairs(uri).filter(|pair| is_dry_run(pair));
    match (asked.next(), asked.next()) {
        (None, _) | (Some("dryRun=false"), None) => Ok(false),
        (Some("dryRun=true"), None) => Ok(true),
        _ => Err(ApiError::invalid("invalid path/query element: dryRun must be given once, as true or false")),
    }
}

/// The same address for the handler, which knows nothing of dry runs.
pub fn without_dry_run(uri: &Uri) -> Uri {
    let query = pairs(uri).filter(|pair| !is_dry_run(pair)).collect::<Vec<_>>().join("&");
    let mut parts = uri.clone().into_parts();
    let path = if query.is_empty() { uri.path().to_owned() } else { format!("{}?{query}", uri.path()) };
    parts.path_and_query = path.parse().ok();
    // Made of parts of a valid address; should that ever fail, the handler refuses what it does not know.
    Uri::from_parts(parts).unwrap_or_else(|_| uri.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::Body;

    fn wishes(uri: &str, headers: &[(&str, &str)]) -> Result<Option<Wishes>, ApiError> {
        let mut request = Request::builder().uri(uri);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        Wishes::of(&request.body(Body::empty()).expect("a request"))
    }

    #[test]
    fn a_plain_request_asks_for_nothing() {
        assert_eq!(wishes("/a?b=c", &[]).expect("good"), None);
    }

    #[test]
    fn a_dry_run_is_never_taken_for_a_real_one() {
        let is_dry = |uri: &str| wishes(uri, &[]).map(|wishes| wishes.map(|wishes| wishes.dry_run));
        assert_eq!(is_dry("/a?dryRun=true").expect("good"), Some(true));
        assert_eq!(is_dry("/a?b=1&dryRun=false").expect("good"), Some(false));
        for slip in ["dryrun=true", "dry_run=true", "dry-run=1", "dryRun", "dryRun=yes", "dryRun=true&dryRun=false"] {
            assert!(is_dry(&format!("/a?{slip}")).is_err(), "{slip}");
        }
    }

    #[test]
    fn the_handler_does_not_see_that_it_is_a_dry_run() {
        let stripped = |uri: &str| without_dry_run(&uri.parse().expect("an address")).to_string();
        assert_eq!(stripped("/a?x=1&dryRun=true&y=2"), "/a?x=1&y=2");
        assert_eq!(stripped("/a?dryRun=true"), "/a");
    }

    #[test]
    fn a_key_is_one_short_plain_word() {
        let key = |value: &str| wishes("/", &[(IDEMPOTENCY_KEY, value)]);
        assert_eq!(key("k-1").expect("good").and_then(|wishes| wishes.key), Some("k-1".to_owned()));
        assert!(key(&"x".repeat(KEY_LEN_MAX)).is_ok());
        for bad in ["", "a b", &"x".repeat(KEY_LEN_MAX + 1)] {
            assert!(key(bad).is_err(), "{bad}");
        }
        assert!(wishes("/", &[(IDEMPOTENCY_KEY, "a"), (IDEMPOTENCY_KEY, "b")]).is_err());
    }

    #[test]
    fn if_match_is_a_list_of_quoted_tags_or_anything() {
        let expected = |value: &str| wishes("/", &[("if-match", value)]).map(|wishes| wishes.and_then(|w| w.expected));
        assert_eq!(expected("*").expect("good"), Some(Expected::Anything));
        let two = Expected::OneOf(vec!["\"a\"".to_owned(), "W/\"b\"".to_owned()]);
        assert_eq!(expected("\"a\", W/\"b\"").expect("good"), Some(two));
        for bad in ["", "a", "\"a", "\"a\",", "\""] {
            assert!(expected(bad).is_err(), "{bad}");
        }
    }
}
