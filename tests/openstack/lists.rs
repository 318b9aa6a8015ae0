//! Lists: what is told of an object when nothing has changed, when somebody has changed it, and when it is gone.

use std::collections::BTreeSet;

use regent::model::ids::Kind;
use regent::model::load_balancer::joint_fingerprint;
use regent::model::server::{CloudServerStatus, Networking};
use regent::providers::call::Fact;
use regent::providers::pool::CallRecord;
use regent::providers::{Deletion, Listed, Listing, Provider, ProviderResult, PublicAddress};
use serde_json::json;
use uuid::Uuid;

use super::cloud::Facts;
use super::machines::Place;
use super::volumes::{is_held, is_ready};
use super::{Ids, World, random};

impl World {
    /// A whole look, as a monitor looks.
    async fn look(&self, kind: Kind, only: Option<&[Uuid]>) -> ProviderResult<Listing<Listed>> {
        let notes = self.notes();
        let context = self.context(&notes);
        let mut whole = Listing { items: Vec::new(), next: None, unsure: Vec::new() };
        loop {
            let page = self.provider.list(&context, kind, only, whole.next.as_deref()).await?.fact;
            whole.items.extend(page.items);
            whole.unsure.extend(page.unsure);
            whole.next = page.next;
            if whole.next.is_none() {
                return Ok(whole);
            }
        }
    }

    /// What is told of one object by a look at everything and by one at it alone, which say the same.
    async fn listed(&self, kind: Kind, id: Uuid) -> Option<Listed> {
        let (everything, alone) = (self.look(kind, None).await, self.look(kind, Some(&[id])).await);
        let (everything, alone) = (everything.expect("a look"), alone.expect("a look"));
        assert!(alone.unsure.is_empty() && alone.items.len() <= 1, "{alone:?}");
        let found = |listing: Listing<Listed>| listing.items.into_iter().find(|item| item.key.id == id);
        let (everything, alone) = (found(everything), found(alone));
        assert_eq!(everything.as_ref().map(|item| item.fingerprint), alone.as_ref().map(|item| item.fingerprint));
        if let Some(listed) = &alone {
            assert_eq!(listed.incarnation, self.incarnation);
        }
        alone
    }

    async fn fingerprint(&self, kind: Kind, id: Uuid) -> Option<u64> {
        self.listed(kind, id).await.map(|listed| listed.fingerprint)
    }

    /// The reads that were made for lists since so many calls.
    fn lists_since(&self, calls: usize) -> Vec<CallRecord> {
        let is_list = |call: &CallRecord| call.operation.starts_with("list-") || call.operation == "see-everything";
        self.pool.recent().into_iter().skip(calls).filter(is_list).collect()
    }

    /// The same, of an operator who does not let the service account see everything: it is at home in a project where it
    /// may do what it may do everywhere.
    async fn without_sight(&self, project: &str) -> Self {
        let ids = Ids {
            organization: self.organization,
            project: self.project,
            identity: self.identity,
            incarnation: self.incarnation,
        };
        let own = self.facts.text("projectId").to_owned();
        Self::on(self.records.clone(), ids, |settings| {
            let path = Facts::credentials_file(settings);
            let text = std::fs::read_to_string(&path).expect("credentials");
            std::fs::write(path, text.replace(&own, project)).expect("written");
        })
        .await
    }
}

fn operations(calls: &[CallRecord]) -> Vec<&'static str> {
    calls.iter().map(|call| call.operation).collect()
}

#[tokio::test]
async fn b26_a_server_is_listed_as_it_was_told_until_it_changes_and_missed_when_it_is_gone() {
    let place = Place::new().await;
    let (world, admin) = (&place.world, place.admin().await);
    let mut request = place.server_request("listed");
    request.spec.networking = Some(Networking { public_ip: Some(true), ..Networking::default() });
    let made = place.server(&mut request).await;
    let (id, machine) = (request.id.0, made.server.clone().expect("a server").id.0);
    let listed = world.listed(Kind::Server, id).await.expect("listed");
    assert_eq!(listed.fingerprint, made.fingerprint);
    let Fact::Server(seen) = listed.fact else { panic!("a server's fact") };
    assert_eq!((seen.fact.configuration, seen.fact.converged), (made.configuration, None));
    assert_eq!((&seen.fact.port, &seen.fact.floating_ip), (&made.port, &made.floating_ip));
    assert_eq!((&seen.fact.server, seen.fact.private_ip), (&made.server, made.private_ip));

    // What the server stands on, and the server itself.
    let port = format!("ports/{}", made.port.clone().expect("a port").0);
    let pairs = json!({"port": {"allowed_address_pairs": [{"ip_address": "10.1.0.0/16"}]}});
    assert_eq!(admin.call("PUT", "network", &port, Some(pairs)).await.0, 200);
    assert_ne!(world.fingerprint(Kind::Server, id).await, Some(made.fingerprint), "a change of the port counts");
    assert_eq!(place.converge(&request).await.expect("set right").fingerprint, made.fingerprint);
    assert_eq!(world.fingerprint(Kind::Server, id).await, Some(made.fingerprint));
    let address = format!("floatingips/{}", made.floating_ip.clone().expect("an address").0.0);
    assert_eq!(admin.call("DELETE", "network", &address, None).await.0, 204);
    assert_ne!(world.fingerprint(Kind::Server, id).await, Some(made.fingerprint), "an address that goes counts");
    let stop = json!({"os-stop": null});
    let action = format!("servers/{machine}/action");
    assert_eq!(admin.call("POST", "compute", &action, Some(stop)).await.0, 202);
    place
        .eventually("a server that has stopped", async || match world.listed(Kind::Server, id).await?.fact {
            Fact::Server(seen) => seen.fact.server.filter(|seen| seen.status == CloudServerStatus::Stopped),
            _ => None,
        })
        .await;
    assert_eq!(admin.call("DELETE", "compute", &format!("servers/{machine}"), None).await.0, 204);
    let is_gone = async || world.listed(Kind::Server, id).await.is_none().then_some(());
    place.eventually("a server that is gone", is_gone).await;
    place.no_server(&request).await;
    place.end().await;
}

#[tokio::test]
async fn of_many_servers_those_that_changed_are_told_and_nothing_is_said_of_the_others() {
    let place = Place::new().await;
    let (world, admin) = (&place.world, place.admin().await);
    let mut request = place.server_request("one of many");
    let made = place.server(&mut request).await;
    let (id, machine) = (request.id.0, made.server.clone().expect("a server").id.0);
    let strangers = (0..150).map(|_| random()).collect::<Vec<_>>();
    let many = strangers.iter().copied().chain([id]).collect::<Vec<_>>();
    let look = async || world.look(Kind::Server, Some(&many)).await.expect("a look");

    // Nobody has looked yet, so everything is looked at: who is not there is not there.
    let first = look().await;
    assert_eq!(first.items.iter().map(|item| item.fingerprint).collect::<Vec<_>>(), [made.fingerprint]);
    assert!(first.unsure.is_empty());

    // As many as can be asked for by name are, and are found or are not there.
    let few = strangers[..99].iter().copied().chain([id]).collect::<Vec<_>>();
    let among_few = world.look(Kind::Server, Some(&few)).await.expect("a look");
    assert!(among_few.items.len() == 1 && among_few.unsure.is_empty(), "{among_few:?}");

    let calls = world.calls();
    let unchanged = look().await;
    assert!(unchanged.items.is_empty() && unchanged.unsure.len() == many.len(), "{unchanged:?}");
    assert_eq!(operations(&world.lists_since(calls)), ["list-changed-servers"]);

    let stop = json!({"os-stop": null});
    assert_eq!(admin.call("POST", "compute", &format!("servers/{machine}/action"), Some(stop)).await.0, 202);
    let told = async || look().await.items.pop();
    let told = place.eventually("what has changed", told).await;
    assert!(told.key.id == id && told.fingerprint != made.fingerprint);
    assert_eq!(admin.call("DELETE", "compute", &format!("servers/{machine}"), None).await.0, 204);
    let absent = async || {
        let seen = look().await;
        assert!(strangers.iter().all(|stranger| seen.unsure.contains(stranger)), "nothing is known of them");
        (!seen.unsure.contains(&id) && seen.items.is_empty()).then_some(())
    };
    place.eventually("word of its end", absent).await;
    place.no_server(&request).await;
    place.end().await;
}

#[tokio::test]
async fn b26_a_volume_is_listed_as_it_was_told_until_it_changes_and_missed_when_it_is_gone() {
    let place = Place::new().await;
    let (world, admin) = (&place.world, place.admin().await);
    let (mut request, other) = (place.volume_request(), place.volume_request());
    let made = place.volume(&request, is_ready).await;
    place.volume(&other, is_ready).await;
    // One that a server has says more of itself, and says it to everybody.
    let mut server = place.server_request("holder");
    place.server(&mut server).await;
    request.spec.server = Some(server.id);
    world.provider.attach_volume(&place.context(), &request, server.id).await.expect("ordered");
    let held = place.volume(&request, is_held).await;
    assert_ne!(held.fingerprint, made.fingerprint);
    assert_eq!(world.fingerprint(Kind::Volume, request.id.0).await, Some(held.fingerprint));
    request.spec.server = None;
    world.provider.detach_volume(&place.context(), &request).await.expect("ordered");
    place.volume(&request, is_ready).await;
    place.no_server(&server).await;

    assert_eq!(world.fingerprint(Kind::Volume, request.id.0).await, Some(made.fingerprint));
    let both = world.look(Kind::Volume, Some(&[request.id.0, other.id.0])).await.expect("a look");
    assert_eq!(both.items.len(), 2);
    let volume = made.volume.expect("a volume").id.0;
    let path = format!("volumes/{volume}");
    let grow = json!({"os-extend": {"new_size": 3}});
    let (status, said) = admin.call("POST", "block-storage", &format!("{path}/action"), Some(grow)).await;
    assert_eq!(status, 202, "{said}");
    let is_larger = async || match world.listed(Kind::Volume, request.id.0).await?.fact {
        Fact::Volume(seen) => seen.fact.volume.filter(|volume| volume.size_gib == 3 && is_ready(volume)),
        _ => None,
    };
    place.eventually("a larger volume", is_larger).await;
    assert_eq!(admin.call("DELETE", "block-storage", &path, None).await.0, 202);
    let is_gone = async || world.listed(Kind::Volume, request.id.0).await.is_none().then_some(());
    place.eventually("a volume that is gone", is_gone).await;
    place.gone(async || world.provider.delete_volume(&place.context(), &other).await).await;
    place.end().await;
}

#[tokio::test]
async fn b26_a_load_balancer_is_listed_with_its_public_address_and_goes_with_all_that_is_in_it() {
    let place = Place::new().await;
    let (world, admin) = (&place.world, place.admin().await);
    let (mut request, mut other) = (place.balancer_request(), place.balancer_request());
    place.balancer(&mut other).await;
    let made = place.balancer(&mut request).await;
    let id = request.id.0;
    let joint = |address: Option<&PublicAddress>| {
        Some(joint_fingerprint(made.fingerprint, address.map(|address| address.fingerprint)))
    };
    assert_eq!(world.fingerprint(Kind::LoadBalancer, id).await, joint(None));
    let both = world.look(Kind::LoadBalancer, Some(&[id, other.id.0])).await.expect("a look");
    assert_eq!(both.items.iter().map(|item| item.key.id).collect::<BTreeSet<_>>(), BTreeSet::from([id, other.id.0]));

    let public = world.provider.converge_public_address(&place.context(), &request).await.expect("an address").fact;
    request.detail.floating_ip = Some(public.id.clone());
    assert_eq!(world.fingerprint(Kind::LoadBalancer, id).await, joint(Some(&public)));
    let external = world.facts.text("externalNetworkId");
    let path = format!("floatingips/{}", public.id.0);
    let (status, seen) = admin.call("GET", "network", &path, None).await;
    assert_eq!((status, seen["floatingip"]["floating_network_id"].as_str()), (200, Some(external)));
    assert_eq!(seen["floatingip"]["port_id"], made.port.0, "it leads to the virtual address");

    // Somebody takes the address away, then a listener.
    assert_eq!(admin.call("DELETE", "network", &path, None).await.0, 204);
    assert_eq!(world.fingerprint(Kind::LoadBalancer, id).await, joint(None));
    let lost = world.provider.converge_public_address(&place.context(), &request).await.expect("another").fact;
    assert_ne!(lost.id, public.id, "it is made again");
    request.detail.floating_ip = Some(lost.id.clone());
    let listeners = admin.list("load-balancer", "v2.0/lbaas/listeners", "listeners").await;
    let listener = listeners.iter().find(|part| part["loadbalancers"][0]["id"] == made.balancer.0).expect("a listener");
    let listener = format!("v2.0/lbaas/listeners/{}", super::cloud::id(listener));
    assert_eq!(admin.call("DELETE", "load-balancer", &listener, None).await.0, 204);
    assert_ne!(world.fingerprint(Kind::LoadBalancer, id).await, joint(Some(&lost)), "a listener that goes counts");

    // The actor's way down: the address, the balancer with all that is in it, the virtual address.
    place
        .gone(async || world.provider.release_public_address(&place.context(), &request).await.map(|seen| seen.fact))
        .await;
    place.gone(async || world.provider.delete_load_balancer(&place.context(), &request).await).await;
    assert_eq!(world.fingerprint(Kind::LoadBalancer, id).await, None);
    // And somebody else's: the cloud takes all of it at once.
    let cascade = format!("v2.0/lbaas/loadbalancers/{}?cascade=true", other.detail.balancer.clone().expect("one").0);
    assert_eq!(admin.call("DELETE", "load-balancer", &cascade, None).await.0, 204);
    let is_gone = async || world.listed(Kind::LoadBalancer, other.id.0).await.is_none().then_some(());
    place.eventually("a balancer that is gone", is_gone).await;
    place.gone(async || world.provider.delete_load_balancer(&place.context(), &other).await).await;
    place.end().await;
}

#[tokio::test]
async fn b26_an_image_is_listed_as_it_was_told_and_missed_when_it_is_gone() {
    let place = Place::new().await;
    let (world, admin) = (&place.world, place.admin().await);
    let request = place.import_request(&format!("{}/disk", super::images::store().await));
    let made = place.settled(&request).await;
    assert_eq!(world.fingerprint(Kind::Image, request.id.0).await, Some(made.fingerprint));
    let mut server = place.server_request("saved");
    place.server(&mut server).await;
    let saved = place.saved_request(&server);
    let of_saved = place.settled(&saved).await.fingerprint;
    assert_eq!(
        world.fingerprint(Kind::Image, saved.id.0).await,
        Some(of_saved),
        "that of a server's disk is found, too"
    );
    let path = format!("v2/images/{}", request.id);
    assert_eq!(admin.call("DELETE", "image", &path, None).await.0, 204);
    assert_eq!(world.fingerprint(Kind::Image, request.id.0).await, None);
    place.no_image(&saved).await;
    place.no_server(&server).await;
    place.end().await;
}

/// Each kind that is looked at in bulk, and the lists that it is made of.
const LISTS: [(Kind, &[&str]); 6] = [
    (Kind::Network, &["list-networks", "list-routers", "list-subnets"]),
    (Kind::SecurityGroup, &["list-security-groups"]),
    (Kind::LoadBalancer, &["list-balancers", "list-floating-ips"]),
    (Kind::Server, &["list-floating-ips", "list-ports", "list-servers"]),
    (Kind::Volume, &["list-volumes"]),
    (Kind::Image, &["list-own-images"]),
];

#[tokio::test]
async fn a_look_at_everything_takes_a_call_for_each_thousand_where_everything_is_shown() {
    let place = Place::new().await;
    let world = &place.world;
    for (kind, lists) in LISTS.into_iter().filter(|(kind, _)| *kind != Kind::Volume) {
        // What may be seen, and the names of flavors, is found out once.
        world.look(kind, None).await.expect("a look");
        let calls = world.calls();
        world.look(kind, None).await.expect("a look");
        let mut made = operations(&world.lists_since(calls));
        made.sort_unstable();
        assert_eq!(made, lists, "{kind}");
        let calls = world.calls();
        world.look(kind, Some(&[random(), random()])).await.expect("a look");
        let made = world.lists_since(calls).len();
        assert!(made <= lists.len(), "{kind}: {made} calls for two");
    }
    place.end().await;
}

fn assert_each_project_once(calls: &[CallRecord], list: &str) {
    let of_list = calls.iter().filter(|call| call.operation == list).collect::<Vec<_>>();
    let places = of_list.iter().map(|call| &call.subject).collect::<BTreeSet<_>>();
    assert_eq!(of_list.len(), places.len(), "{list} is read once at each place");
    assert!(places.iter().all(|place| !place.ends_with("in own")), "{list}: {places:?}");
}

#[tokio::test]
async fn where_not_everything_is_shown_each_project_is_asked_once_for_each_list() {
    let place = Place::new().await;
    let blind = place.world.without_sight(&place.project()).await;
    let mut server = place.server_request("seen");
    server.spec.networking = Some(Networking { public_ip: Some(true), ..Networking::default() });
    let told = place.server(&mut server).await.fingerprint;
    let mut balancer = place.balancer_request();
    let of_balancer = place.balancer(&mut balancer).await.fingerprint;
    for (kind, lists) in LISTS.into_iter().filter(|(kind, _)| *kind != Kind::Image) {
        // Others make and unmake principals meanwhile: a look that failed is tried again, as a monitor does.
        let calls = blind.calls();
        let mut seen = blind.look(kind, None).await;
        let first = blind.lists_since(calls);
        if seen.is_err() {
            seen = blind.look(kind, None).await;
        } else {
            for list in lists {
                assert_each_project_once(&first, list);
            }
        }
        let seen = seen.expect("a look");
        let found = |id: Uuid| seen.items.iter().find(|item| item.key.id == id).map(|item| item.fingerprint);
        match kind {
            Kind::Server => assert_eq!(found(server.id.0), Some(told)),
            Kind::LoadBalancer => assert_eq!(found(balancer.id.0), Some(joint_fingerprint(of_balancer, None))),
            Kind::Network => assert!(found(place.network.id.0).is_some()),
            _ => {}
        }
        // A few are looked for where they can be.
        let calls = blind.calls();
        blind.look(kind, Some(&[place.network.id.0, server.id.0, balancer.id.0])).await.expect("a look");
        assert_eq!(blind.lists_since(calls).len(), lists.len(), "{kind}");
    }
    assert_eq!(blind.fingerprint(Kind::Server, server.id.0).await, Some(told));
    let provider = &place.world.provider;
    place.gone(async || provider.delete_load_balancer(&place.context(), &balancer).await).await;
    place.no_server(&server).await;
    assert_eq!(provider.delete_server(&place.context(), &server).await, Ok(Deletion::Absent));
    place.end().await;
}
