//! `regent orphans`: what clouds hold of ours that no record owns, asked of a running server.

use std::path::Path;
use std::time::Duration;

use super::{CommandError, Done};
use crate::bootstrap::{self, BootstrapFile, files};
use crate::command_line::OrphansArguments;
use crate::supervision::inspection::{ORPHANS_PAGE_MAX, OrphanView};

/// How long the server may take to answer: it answers from memory.
const ANSWER_DURATION_MAX: Duration = Duration::from_secs(10);

/// How many pages are asked for. More than this nobody reads.
const PAGES_MAX: usize = 20;

pub async fn orphans(arguments: &OrphansArguments) -> Result<Done, CommandError> {
    let (url, token) = match (arguments.admin_url.clone(), arguments.token.clone()) {
        (Some(url), Some(token)) => (url, token),
        (url, token) => {
            let server = server(&arguments.data.data_dir)?;
            (url.unwrap_or(server.admin_url), token.unwrap_or(server.token))
        }
    };
    let http = reqwest::Client::builder().timeout(ANSWER_DURATION_MAX).build()?;
    let mut found: Vec<OrphanView> = Vec::new();
    for _ in 0..PAGES_MAX {
        let mut query = Vec::new();
        query.extend(arguments.region.map(|region| ("region", region.to_string())));
        query.extend(found.last().map(|last| ("after", format!("{}/{}/{}", last.region, last.kind, last.id))));
        let address = address(&url, &query)?;
        let answer = http.get(address).bearer_auth(&token).send().await?.error_for_status()?;
        let page: Vec<OrphanView> = answer.json().await?;
        let is_last = page.len() < ORPHANS_PAGE_MAX;
        found.extend(page);
        if is_last {
            break;
        }
    }
    let answer = found.iter().map(line).collect::<Vec<_>>().join("\n");
    Ok(Done { answer, remark: remark(found.len()) })
}

fn address(url: &str, query: &[(&str, String)]) -> Result<reqwest::Url, CommandError> {
    let base = format!("{}/admin/v1/orphans", url.trim_end_matches('/'));
    let mut address = reqwest::Url::parse(&base).map_err(|_| CommandError::Address(base))?;
    for (name, value) in query {
        address.query_pairs_mut().append_pair(name, value);
    }
    Ok(address)
}

/// Where the server on this folder is reached, and with what.
fn server(directory: &Path) -> Result<BootstrapFile, CommandError> {
    let path = bootstrap::path(directory);
    let bytes = files::read_if_present(&path).map_err(|source| CommandError::File { path: path.clone(), source })?;
    let bytes = bytes.ok_or_else(|| CommandError::NoFolder(directory.to_owned()))?;
    let broken = |error: serde_json::Error| CommandError::File { path: path.clone(), source: error.into() };
    serde_json::from_slice(&bytes).map_err(broken)
}

fn line(orphan: &OrphanView) -> String {
    let OrphanView { region, kind, id, why, since, .. } = orphan;
    let line = format!("{kind}/{id}  in region {region}  {why}  since {since:.0}");
    match &orphan.removal {
        Some(command) => format!("{line}\n    {command}"),
        None => line,
    }
}

fn remark(count: usize) -> String {
    match count {
        0 => "nothing that two looks in a row found to be nobody's; the server looks every minute".to_owned(),
        count => format!("{count} objects that no record owns; look before you remove one: another server may own it"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::ids::{Kind, RegionId};
    use uuid::Uuid;

    #[test]
    fn a_line_says_what_it_is_and_what_takes_it_away() {
        let mut orphan = OrphanView {
            region: RegionId(Uuid::from_u128(1)),
            kind: Kind::Network,
            id: Uuid::from_u128(2),
            incarnation: Uuid::from_u128(3),
            why: "no-record".to_owned(),
            since: jiff::Timestamp::UNIX_EPOCH,
            removal: None,
        };
        assert_eq!(
            line(&orphan),
            "network/00000000-0000-0000-0000-000000000002  in region 00000000-0000-0000-0000-000000000001  no-record  \
             since 1970-01-01T00:00:00Z"
        );
        orphan.removal = Some("openstack network delete x".to_owned());
        assert!(line(&orphan).ends_with("Z\n    openstack network delete x"));
    }

    #[test]
    fn the_page_after_the_last_is_asked_for_where_the_server_is() {
        let query = [("region", "r".to_owned()), ("after", "r/network/n".to_owned())];
        let address = address("http://127.0.0.1:8081/", &query).expect("good");
        assert_eq!(address.as_str(), "http://127.0.0.1:8081/admin/v1/orphans?region=r&after=r%2Fnetwork%2Fn");
    }
}
