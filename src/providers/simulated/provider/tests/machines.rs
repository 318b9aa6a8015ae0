//! A network with a security group and a server on it: what the tests of servers share.

use std::time::Duration;

use super::super::super::catalogue::{FLAVOR_STANDARD, IMAGE_UBUNTU};
use super::super::super::engine::settings::EngineSettings;
use super::super::super::objects::CloudObject;
use super::*;
use crate::model::ids::{FlavorId, ImageId, SecurityGroupId, ServerId};
use crate::model::metadata::Tag;
use crate::model::security_group::{Direction, Protocol, Rule, SecurityGroupDetail, SecurityGroupSpec};
use crate::model::server::{
    AddressPair, CloudServerStatus, MacAddress, Networking, ServerSighting, ServerSpec, ServerTask,
};
use crate::providers::{
    PowerAction, SecurityGroupFact, SecurityGroupRequest, ServerFact, ServerRequest, UserDataBytes,
};

pub const GROUP: u128 = 30;
pub const SERVER: u128 = 40;

/// A rig whose principal and network are made; group and server are what is tested.
pub struct Machines {
    pub rig: Rig,
    pub group: SecurityGroupSpec,
    pub group_recorded: Mutex<SecurityGroupDetail>,
    pub spec: ServerSpec,
    pub tags: Vec<Tag>,
}

pub fn rule(port: u16) -> Rule {
    Rule { direction: Direction::Ingress, protocol: Protocol::Tcp, port: Some(port), port_max: None, prefix: None }
}

pub fn spec() -> ServerSpec {
    ServerSpec {
        flavor: FLAVOR_STANDARD,
        image: IMAGE_UBUNTU,
        networking: Some(Networking {
            security_groups: Some(vec![SecurityGroupId(Uuid::from_u128(GROUP))]),
            public_ip: Some(true),
            allowed_source_addresses: Some(vec![Prefix::parse("10.9.0.0/24").expect("a prefix")]),
            allowed_address_pairs: Some(vec![AddressPair {
                cidr: Prefix::parse("10.8.0.0/24").expect("a prefix"),
                mac_address: Some(MacAddress::parse("FA:16:3E:00:00:01").expect("an address")),
            }]),
        }),
        user_data: None,
        ssh_certificate_authority: None,
        ssh_injection: None,
        infrastructure: None,
        own_images: Vec::new(),
        governed: None,
    }
}

impl AsMut<Rig> for Machines {
    fn as_mut(&mut self) -> &mut Rig {
        &mut self.rig
    }
}

impl Machines {
    /// The network is there, nothing else.
    pub async fn new() -> Self {
        Self::on(Rig::made().await)
    }

    pub fn on(rig: Rig) -> Self {
        let tags = vec![Tag { name: "compute.example.org/instance-id".to_owned(), value: "i".to_owned() }];
        let group = SecurityGroupSpec { rules: vec![rule(22), rule(80)] };
        Self { rig, group, group_recorded: Mutex::default(), spec: spec(), tags }
    }

    pub async fn made() -> Self {
        let machines = Self::new().await;
        machines.make().await;
        machines
    }

    pub async fn running() -> Self {
        let machines = Self::made().await;
        machines.booted().await;
        machines
    }

    pub fn configure(&self, settings: EngineSettings) {
        self.rig.kept.lock().expect("lock").cloud.configure(settings);
    }

    pub fn group_request(&self) -> SecurityGroupRequest {
        let NetworkRequest { incarnation, identity, organization, project, .. } = self.rig.network();
        SecurityGroupRequest {
            id: SecurityGroupId(Uuid::from_u128(GROUP)),
            incarnation,
            identity,
            organization,
            project,
            spec: self.group.clone(),
            detail: self.group_recorded.lock().expect("lock").clone(),
        }
    }

    pub fn server_request(&self, id: u128) -> ServerRequest {
        let NetworkRequest { id: network, incarnation, identity, organization, project, .. } = self.rig.network();
        ServerRequest {
            id: ServerId(Uuid::from_u128(id)),
            incarnation,
            generation: 7,
            identity,
            network,
            organization,
            project,
            name: "web".to_owned(),
            tags: self.tags.clone(),
            spec: self.spec.clone(),
            user_data: Some(UserDataBytes(b"#cloud-config\npassword: hunter2\n".to_vec())),
            may_create: true,
            detail: self.rig.written.lock().expect("lock").server.clone(),
        }
    }

    pub fn request(&self) -> ServerRequest {
        self.server_request(SERVER)
    }

    pub async fn converge_group(&self) -> Option<ProviderResult<SecurityGroupFact>> {
        let request = self.group_request();
        let work = async |provider: &SimulatedProvider, context: &CallContext<'_>| {
            provider.converge_security_group(context, &request).await
        };
        let result = self.rig.run_about(Kind::SecurityGroup, work).await?;
        if let Ok(observed) = &result {
            *self.group_recorded.lock().expect("lock") = observed.fact.detail.clone();
        }
        Some(result.map(|observed| observed.fact))
    }

    pub async fn delete_group(&self) -> Option<ProviderResult<Deletion>> {
        let request = self.group_request();
        self.rig.run(async |provider, context| provider.delete_security_group(context, &request).await).await
    }

    pub async fn converge(&self, request: &ServerRequest) -> Option<ProviderResult<ServerFact>> {
        let work = async |provider: &SimulatedProvider, context: &CallContext<'_>| {
            provider.converge_server(context, request).await
        };
        self.rig.run_about(Kind::Server, work).await.map(|result| result.map(|observed| observed.fact))
    }

    /// Puts on record what an actor would.
    pub async fn converge_server(&self) -> Option<ProviderResult<ServerFact>> {
        let result = self.converge(&self.request()).await?;
        if let Ok(fact) = &result {
            let mut written = self.rig.written.lock().expect("lock");
            written.server.server = fact.server.as_ref().map(|server| server.id.clone());
            written.server.port.clone_from(&fact.port);
            written.server.floating_ip = fact.floating_ip.as_ref().map(|(id, _)| id.clone());
        }
        Some(result)
    }

    pub async fn delete_server(&self) -> Option<ProviderResult<Deletion>> {
        let request = self.request();
        self.rig.run(async |provider, context| provider.delete_server(context, &request).await).await
    }

    /// Both, in one go, without trouble.
    pub async fn make(&self) -> ServerFact {
        self.converge_group().await.expect("alive").expect("converged");
        self.converge_server().await.expect("alive").expect("converged")
    }

    /// One try of both, as actors make it: a server that failed is taken away, for the next try to make another.
    pub async fn attempt(&self) -> bool {
        if self.converge_group().await.expect("alive").is_err() {
            return false;
        }
        match self.converge_server().await.expect("alive") {
            Ok(ServerFact { server: Some(server), .. }) if server.status == CloudServerStatus::Error => {
                // What comes of it is seen when it is looked at again.
                let _ = self.delete_server().await;
                false
            }
            Ok(fact) => fact.server.is_some_and(|server| !server.is_busy()),
            Err(_) => false,
        }
    }

    /// Again until it is so, with a pause in between.
    pub async fn make_persistently(&self) {
        retry(async || self.attempt().await).await;
    }

    pub async fn unmake_server_persistently(&self) {
        retry(async || self.delete_server().await.expect("alive") == Ok(Deletion::Absent)).await;
    }

    pub async fn unmake_persistently(&self) {
        self.unmake_server_persistently().await;
        retry(async || self.delete_group().await.expect("alive") == Ok(Deletion::Absent)).await;
    }

    /// Looks again until the cloud is no longer busy with the server.
    pub async fn booted(&self) -> ServerFact {
        let mut last = None;
        retry(async || {
            let fact = self.converge_server().await.expect("alive").expect("converged");
            let busy = fact.server.as_ref().is_none_or(ServerSighting::is_busy);
            last = Some(fact);
            !busy
        })
        .await;
        last.expect("seen")
    }

    pub async fn act(&self, action: PowerAction) -> ProviderResult<()> {
        let request = self.request();
        let done = self.rig.run(async |provider, context| provider.power_server(context, &request, action).await);
        done.await.expect("alive")
    }

    pub async fn rebuild(&self, image: ImageId) -> Option<ProviderResult<()>> {
        let request = self.request();
        self.rig.run(async |provider, context| provider.rebuild_server(context, &request, image).await).await
    }

    pub async fn resize(&self, flavor: FlavorId) -> Option<ProviderResult<()>> {
        let request = self.request();
        self.rig.run(async |provider, context| provider.resize_server(context, &request, flavor).await).await
    }

    pub async fn confirm_resize(&self) -> Option<ProviderResult<()>> {
        let request = self.request();
        self.rig.run(async |provider, context| provider.confirm_resize(context, &request).await).await
    }

    pub async fn server(&self) -> CloudObject {
        self.rig.inventory().await.servers.first().expect("a server").clone()
    }

    pub async fn task(&self) -> Option<ServerTask> {
        self.server().await.server().expect("a server").life.task
    }

    /// One of each, as asked for, and never two of anything.
    pub async fn assert_exactly_what_was_asked_for(&self, said: &str) {
        let inventory = self.rig.inventory().await;
        let lists = [&inventory.security_groups, &inventory.ports, &inventory.floating_ips, &inventory.servers];
        for list in lists {
            assert_eq!(list.len(), 1, "{said}: {list:?}");
        }
        let server = inventory.servers[0].server().expect("a server");
        assert_eq!(server.port, inventory.ports[0].id, "{said}");
        assert_eq!(server.key_name, Some(inventory.key_pairs[0].name.clone()), "{said}");
        let Body::Port { options, .. } = &inventory.ports[0].body else { panic!("not a port") };
        assert_eq!(options.security_groups.iter().collect::<Vec<_>>(), [&inventory.security_groups[0].id], "{said}");
        let allowed = options.allowed_addresses.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(allowed, ["10.8.0.0/24 fa:16:3e:00:00:01", "10.9.0.0/24"], "{said}");
        let Body::SecurityGroup { rules, .. } = &inventory.security_groups[0].body else { panic!("not a group") };
        assert_eq!(*rules, self.group.effective_rules(), "{said}");
        self.rig.assert_no_doubles(said).await;
    }

    /// Nothing of the group and the server is left; the network is.
    pub async fn assert_nothing_left(&self, said: &str) {
        let inventory = self.rig.inventory().await;
        let lists = [&inventory.security_groups, &inventory.ports, &inventory.floating_ips, &inventory.servers];
        assert!(lists.iter().all(|list| list.is_empty()), "{said}: {lists:?}");
        assert_eq!(inventory.networks.len(), 1, "{said}");
    }
}

pub async fn pass(time: Duration) {
    tokio::time::advance(time).await;
}
