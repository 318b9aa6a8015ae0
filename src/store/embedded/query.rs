//! Lists: a filter as SQL.
//!
//! SQL narrows, [`Filter::matches`] decides. So a condition may be left out of the SQL when it would make the
//! statement unwieldy, and the answer is right all the same.

use std::sync::Arc;

use rusqlite::types::Value;
use rusqlite::{Connection, params_from_iter};
use uuid::Uuid;

use crate::model::ids::{Key, Kind};
use crate::model::record::{CorruptRecord, Record};
use crate::store::{Filter, PAGE_MAX, Page};

use super::rows::{self, RECORD_COLUMNS};

/// How many alternatives of one field go into the SQL. A caller with more is better served by a scan that tests
/// them than by a statement of thousands of parameters.
const ALTERNATIVES_MAX: usize = 128;

/// A statement and its parameters, grown together.
struct Query {
    sql: String,
    parameters: Vec<Value>,
}

impl Query {
    fn of(filter: &Filter) -> Self {
        let sql = format!("SELECT {RECORD_COLUMNS} FROM record WHERE kind = ?");
        let mut query = Self { sql, parameters: vec![Value::Text(filter.kind.word().to_owned())] };
        query.within("organization", filter.organizations.iter().flatten().map(|id| id.0).collect());
        query.within("project", filter.projects.iter().flatten().map(|id| id.0).collect());
        query.within("region", filter.regions.iter().flatten().map(|id| id.0).collect());
        query.within("network", filter.networks.iter().flatten().map(|id| id.0).collect());
        query.within("identity", filter.identity.iter().map(|id| id.0).collect());
        if let Some(owner) = filter.owner {
            query.within("owner_id", vec![owner.id]);
            query.is("owner_kind", owner.kind.word());
        }
        if let Some(name) = &filter.name {
            query.is("name", name);
        }
        query
    }

    fn is(&mut self, column: &str, text: &str) {
        self.sql.extend([" AND ", column, " = ?"]);
        self.parameters.push(Value::Text(text.to_owned()));
    }

    fn within(&mut self, column: &str, alternatives: Vec<Uuid>) {
        if alternatives.is_empty() || alternatives.len() > ALTERNATIVES_MAX {
            return;
        }
        let marks = vec!["?"; alternatives.len()].join(", ");
        self.sql.extend([" AND ", column, " IN (", &marks, ")"]);
        self.parameters.extend(alternatives.into_iter().map(blob));
    }

    fn page(mut self, after: Option<Uuid>, limit: usize) -> Self {
        if let Some(after) = after {
            self.sql.push_str(" AND id > ?");
            self.parameters.push(blob(after));
        }
        self.sql.push_str(" ORDER BY id LIMIT ?");
        self.parameters.push(Value::Integer(i64::try_from(limit).unwrap_or(i64::MAX)));
        self
    }
}

fn blob(id: Uuid) -> Value {
    Value::Blob(id.as_bytes().to_vec())
}

/// One page of what matches, unreadable records left out.
pub(super) fn list(connection: &Connection, filter: &Filter, page: Page) -> Result<Vec<Arc<Record>>, rusqlite::Error> {
    if asks_for_nothing(filter) {
        return Ok(Vec::new());
    }
    let limit = page.limit.min(PAGE_MAX);
    let mut found = Vec::new();
    let mut after = page.after;
    while found.len() < limit {
        let chunk = chunk(connection, Query::of(filter).page(after, limit))?;
        let exhausted = chunk.len() < limit;
        after = chunk.last().map(|(key, _)| key.id).or(after);
        let readable = chunk.into_iter().filter_map(|(_, record)| record.ok());
        found.extend(readable.filter(|record| filter.matches(record)));
        if exhausted {
            break;
        }
    }
    found.truncate(limit);
    Ok(found)
}

/// An empty set of alternatives matches no record; no need to scan for it.
fn asks_for_nothing(filter: &Filter) -> bool {
    filter.organizations.as_ref().is_some_and(Vec::is_empty)
        || filter.projects.as_ref().is_some_and(Vec::is_empty)
        || filter.regions.as_ref().is_some_and(Vec::is_empty)
        || filter.networks.as_ref().is_some_and(Vec::is_empty)
}

/// Every record that cannot be read. Reads everything: for an operator's question, not for a timer.
pub(super) fn unreadable(connection: &Connection) -> Result<Vec<CorruptRecord>, rusqlite::Error> {
    let mut corrupt = Vec::new();
    for kind in Kind::ALL {
        let mut after = None;
        loop {
            let chunk = chunk(connection, Query::of(&Filter::of(kind)).page(after, PAGE_MAX))?;
            let Some((last, _)) = chunk.last() else { break };
            after = Some(last.id);
            corrupt.extend(chunk.into_iter().filter_map(|(_, record)| record.err()));
        }
    }
    Ok(corrupt)
}

type Keyed = (Key, Result<Arc<Record>, CorruptRecord>);

fn chunk(connection: &Connection, query: Query) -> Result<Vec<Keyed>, rusqlite::Error> {
    let mut statement = connection.prepare_cached(&query.sql)?;
    let keyed = statement
        .query_map(params_from_iter(query.parameters), |row| Ok((rows::key(row, 0, 1)?, rows::record(row)?)))?;
    keyed.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ids::{OrganizationId, ProjectId, RegionId};
    use crate::store::embedded::schema;

    /// How SQLite would read the second page of a list.
    fn plan(filter: &Filter) -> String {
        let connection = Connection::open_in_memory().expect("opens");
        for migration in schema::MIGRATIONS {
            connection.execute_batch(migration).expect("migrated");
        }
        let query = Query::of(filter).page(Some(Uuid::nil()), 10);
        let mut statement = connection.prepare(&format!("EXPLAIN QUERY PLAN {}", query.sql)).expect("valid");
        let steps = statement.query_map(params_from_iter(query.parameters), |row| row.get::<_, String>(3));
        steps.expect("explained").collect::<Result<Vec<_>, _>>().expect("text").join("; ")
    }

    #[test]
    fn a_page_of_a_scope_is_read_from_its_index_in_order() {
        let all = Filter::of(Kind::Network);
        let id = Uuid::nil();
        let organization = Filter { organizations: Some(vec![OrganizationId(id)]), ..all.clone() };
        let project = Filter { projects: Some(vec![ProjectId(id)]), name: Some("a".to_owned()), ..all.clone() };
        let owner = Filter { owner: Some(Key::new(Kind::Identity, id)), ..all.clone() };
        let region = Filter { regions: Some(vec![RegionId(id)]), ..all.clone() };
        for (filter, index) in [
            (organization, "record_by_organization"),
            (project, "record_by_project"),
            (owner, "record_by_owner"),
            (region, "record_by_key"),
            (all, "record_by_key"),
        ] {
            let plan = plan(&filter);
            assert!(plan.contains(index) && !plan.contains("TEMP B-TREE"), "{filter:?}: {plan}");
        }
    }
}
