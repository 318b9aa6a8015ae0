//! Lists in pieces and in an order, for those who ask for it: `limit`, `cursor` and `sort`.
//!
//! In order of id a page is read from the store's index. In any other order the store is read through, a page at a time,
//! and only the `limit` best of what lies after the cursor are held: a page costs time in proportion to the list, never
//! memory. A cursor names the last resource that was shown and not a number, so that what comes and goes in between
//! neither repeats nor hides anything else.

use std::collections::BTreeMap;
use std::str::FromStr;
use std::sync::Arc;

use axum::Json;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::Api;
use super::error::ApiError;
use super::extract::QueryElements;
use super::opaque;
use crate::model::record::Record;
use crate::store::{Filter, PAGE_MAX, Page, Store, StoreError};

/// What any list that can be paged understands besides its filters.
pub const PARAMETERS: [&str; 3] = ["limit", "cursor", "sort"];

/// The most that one page holds: as much as one read of the store.
pub const LIMIT_MAX: usize = PAGE_MAX;

const PURPOSE: &str = "cursor";

/// How a list is ordered. Written as its word, with `-` before it for the other way round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Sort {
    field: Field,
    is_descending: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Field {
    Id,
    Name,
    CreationTime,
}

impl FromStr for Sort {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let (is_descending, word) = text.strip_prefix('-').map_or((false, text), |word| (true, word));
        let field = match word {
            "id" => Field::Id,
            "name" => Field::Name,
            "creationTime" => Field::CreationTime,
            _ => return Err(()),
        };
        Ok(Self { field, is_descending })
    }
}

/// Where a resource stands in an order. The id settles what is equal, so that no two stand in one place.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct Mark(Value, Uuid);

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
enum Value {
    Nothing,
    Name(String),
    Time(Timestamp),
}

impl Sort {
    const BY_ID: Self = Self { field: Field::Id, is_descending: false };

    fn mark(self, record: &Record) -> Mark {
        let value = match self.field {
            Field::Id => Value::Nothing,
            Field::Name => Value::Name(record.metadata.name.clone()),
            Field::CreationTime => Value::Time(record.metadata.created),
        };
        Mark(value, record.key.id)
    }

    fn is_after(self, mark: &Mark, other: &Mark) -> bool {
        if self.is_descending { mark < other } else { mark > other }
    }
}

/// What a cursor says: how the list goes on, and which list it is of.
#[derive(Serialize, Deserialize)]
struct Cursor {
    sort: Sort,
    after: Mark,
    of: Vec<(String, String)>,
}

/// One piece of a list.
#[derive(Debug)]
pub struct Paging {
    sort: Sort,
    limit: usize,
    after: Option<Mark>,
}

impl Paging {
    /// `None` when nothing of it was asked for: the list is then complete, in order of id.
    pub fn of(api: &Api, query: &QueryElements) -> Result<Option<Self>, ApiError> {
        if PARAMETERS.iter().all(|name| query.texts(name).next().is_none()) {
            return Ok(None);
        }
        let invalid = |text: &'static str| ApiError::invalid(text);
        let limit = query.value::<usize>("limit").ok().map(|limit| limit.unwrap_or(LIMIT_MAX));
        let limit = limit.filter(|limit| (1..=LIMIT_MAX).contains(limit));
        let limit = limit.ok_or_else(|| invalid("invalid path/query element: limit must be 1 to 1000"))?;
        let sort = query.texts("sort").map(str::parse::<Sort>).collect::<Result<Vec<_>, _>>();
        let sort = match sort.as_deref() {
            Ok([]) => None,
            Ok([sort]) => Some(*sort),
            Ok(_) | Err(()) => {
                let text =
                    "invalid path/query element: sort must be name, creationTime or id, with - before it to descend";
                return Err(invalid(text));
            }
        };
        let not_ours = || invalid("invalid path/query element: the cursor is not one of this list");
        let cursor = match query.value::<String>("cursor")? {
            None => None,
            Some(text) => Some(opaque::opened::<Cursor>(&*api.secrets, PURPOSE, &text).ok_or_else(not_ours)?),
        };
        let Some(cursor) = cursor else {
            return Ok(Some(Self { sort: sort.unwrap_or(Sort::BY_ID), limit, after: None }));
        };
        if cursor.of != filters(query) || sort.is_some_and(|sort| sort != cursor.sort) {
            return Err(not_ours());
        }
        Ok(Some(Self { sort: cursor.sort, limit, after: Some(cursor.after) }))
    }

    /// The page, and the address of the next one if there is more.
    pub async fn answer<T: Serialize>(
        &self,
        api: &Api,
        filter: &Filter,
        query: &QueryElements,
        wanted: impl Fn(&Record) -> bool,
        show: impl Fn(&Record) -> Option<T>,
    ) -> Result<Response, ApiError> {
        // One more than is shown says whether there is more.
        let mut found = if self.sort == Sort::BY_ID {
            self.in_order(&*api.store, filter, &wanted).await?
        } else {
            self.best(&*api.store, filter, &wanted).await?
        };
        let has_more = found.len() > self.limit;
        found.truncate(self.limit);
        let items = found.iter().filter_map(|record| show(record)).collect::<Vec<_>>();
        let mut response = Json(items).into_response();
        if let Some(last) = found.last().filter(|_| has_more) {
            let cursor = Cursor { sort: self.sort, after: self.sort.mark(last), of: filters(query) };
            let cursor = opaque::sealed(&*api.secrets, PURPOSE, &cursor)?;
            let link = format!("<{}>; rel=\"next\"", query.address_with("cursor", &cursor));
            let link = HeaderValue::from_str(&link).map_err(|error| ApiError::internal(&error))?;
            response.headers_mut().insert(header::LINK, link);
        }
        Ok(response)
    }

    async fn in_order(
        &self,
        store: &dyn Store,
        filter: &Filter,
        wanted: impl Fn(&Record) -> bool,
    ) -> Result<Vec<Arc<Record>>, StoreError> {
        let mut found = Vec::new();
        let mut page = Page { after: self.after.as_ref().map(|Mark(_, id)| *id), limit: self.limit + 1 };
        while found.len() <= self.limit {
            let records = store.list(filter, page).await?;
            let Some(last) = records.last() else { break };
            page.after = Some(last.key.id);
            found.extend(records.into_iter().filter(|record| wanted(record)));
        }
        Ok(found)
    }

    /// The first of what lies after the cursor, of everything there is.
    async fn best(
        &self,
        store: &dyn Store,
        filter: &Filter,
        wanted: impl Fn(&Record) -> bool,
    ) -> Result<Vec<Arc<Record>>, StoreError> {
        let mut best = BTreeMap::new();
        let mut page = Page::FIRST;
        loop {
            let records = store.list(filter, page).await?;
            let Some(last) = records.last() else { break };
            page = Page::after(last.key.id);
            for record in records {
                let mark = self.sort.mark(&record);
                if self.after.as_ref().is_some_and(|after| !self.sort.is_after(&mark, after)) || !wanted(&record) {
                    continue;
                }
                best.insert(mark, record);
                if best.len() > self.limit + 1 {
                    if self.sort.is_descending {
                        best.pop_first()
                    } else {
                        best.pop_last()
                    };
                }
            }
        }
        let ascending = best.into_values();
        Ok(if self.sort.is_descending { ascending.rev().collect() } else { ascending.collect() })
    }
}

/// Which list it is: everything that was asked for but the way through it.
fn filters(query: &QueryElements) -> Vec<(String, String)> {
    let mut filters =
        query.pairs().filter(|(name, _)| !PARAMETERS.contains(&name.as_str())).cloned().collect::<Vec<_>>();
    filters.sort();
    filters
}
