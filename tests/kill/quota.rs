//! A quota across a kill: what the counter says is what is there, and what is accepted is never more than allowed.

use std::collections::BTreeSet;

use regent::model::ambient::Ambient;
use regent::model::ids::Kind;
use regent::model::quota::{Amount, QuotaKind};
use regent::store::embedded::EmbeddedStore;
use regent::store::{Filter, Pages, Store};
use reqwest::{Client, StatusCode};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use super::rig::{Life, Rig};

const LIMIT: usize = 100;

/// After so many accepted ones the server is killed: amid the others.
const KILL_AFTER: usize = 30;

fn body(life: &Life, rig: &Rig) -> Value {
    json!({
        "metadata": {"name": "many"},
        "spec": {
            "organizationId": life.start.organization_id, "projectId": life.start.project_id,
            "regionId": rig.clouds[1].region, "prefix": "10.0.0.0/22", "dnsNameservers": [],
        },
    })
}

/// The id of an accepted network; `None` when it was refused; an error when nobody knows.
async fn create(client: Client, url: String, token: String, body: Value) -> Result<Option<String>, reqwest::Error> {
    let answer = client.post(url).bearer_auth(token).json(&body).send().await?;
    let status = answer.status();
    let answer: Value = answer.json().await?;
    match status {
        StatusCode::CREATED => Ok(Some(answer["metadata"]["id"].as_str().expect("an id").to_owned())),
        StatusCode::FORBIDDEN => Ok(None),
        other => panic!("{other}: {answer}"),
    }
}

fn start_creating(count: usize, life: &Life, rig: &Rig) -> JoinSet<Result<Option<String>, reqwest::Error>> {
    let client = Client::builder().no_proxy().build().expect("a client");
    let url = format!("{}/api/v2/networks", life.start.api_url);
    let token = life.start.user_token.clone().expect("a user");
    let mut creates = JoinSet::new();
    for _ in 0..count {
        creates.spawn(create(client.clone(), url.clone(), token.clone(), body(life, rig)));
    }
    creates
}

async fn try_it() -> Result<(), String> {
    let mut rig = Rig::open(7).await?;
    let life = rig.start().await?;
    let quotas = format!("{}/api/v1/organizations/{}/quotas", life.start.api_url, life.start.organization_id);
    let limit = json!({"quotas": [{"kind": "networks", "quantity": LIMIT}]});
    let client = Client::builder().no_proxy().build().expect("a client");
    let set = client.put(quotas).bearer_auth(&life.start.token).json(&limit).send().await;
    assert_eq!(set.map_err(|error| error.to_string())?.status(), StatusCode::OK);
    let mut accepted = BTreeSet::new();
    let mut doubts = 0;
    let mut creates = start_creating(2 * LIMIT, &life, &rig);
    while let Some(answer) = creates.join_next().await {
        match answer.expect("no panic") {
            Ok(id) => accepted.extend(id),
            Err(_) => doubts += 1,
        }
        if accepted.len() == KILL_AFTER {
            rig.kill().await?;
            break;
        }
    }
    while let Some(answer) = creates.join_next().await {
        match answer.expect("no panic") {
            Ok(id) => accepted.extend(id),
            Err(_) => doubts += 1,
        }
    }
    let life = rig.start().await?;
    let mut creates = start_creating(2 * LIMIT, &life, &rig);
    while let Some(answer) = creates.join_next().await {
        accepted.extend(answer.expect("no panic").map_err(|error| error.to_string())?);
    }
    rig.stop().await?;
    let store = EmbeddedStore::open(&rig.data(), Ambient::system()).map_err(|error| error.to_string())?;
    let mut stored = BTreeSet::new();
    let mut pages = Pages::of(&store, Filter::of(Kind::Network));
    while let Some(records) = pages.next().await.map_err(|error| error.to_string())? {
        stored.extend(records.iter().map(|record| record.key.id.to_string()));
    }
    assert!(accepted.is_subset(&stored), "what was accepted is there");
    assert_eq!(stored.len(), LIMIT, "{} were accepted and {doubts} left in doubt", accepted.len());
    let usage = store.usage(life.start.organization_id).await.map_err(|error| error.to_string())?;
    let networks = usage.iter().find(|usage| usage.kind == QuotaKind::Networks).expect("every kind");
    assert_eq!(networks.used, Amount::of(LIMIT as u64), "the counter says what is there");
    let ledger = store.allocations().await.map_err(|error| error.to_string())?;
    let charged = ledger.iter().map(|charge| charge.holder.id.to_string()).collect::<BTreeSet<_>>();
    assert_eq!(charged, stored, "one charge for each");
    Ok(())
}

#[tokio::test]
async fn a_quota_is_used_to_the_last_and_never_beyond_although_the_server_is_killed() {
    try_it().await.unwrap_or_else(|text| panic!("{text}"));
}
