//! What the tests of servers, volumes, load balancers and images stand on: a principal and a network of its own.

use std::sync::Mutex;
use std::time::Duration;

use async_trait::async_trait;
use regent::model::ids::{FlavorId, ImageId, NetworkId, SecurityGroupId, ServerId};
use regent::model::network::{NetworkDetail, VlanId};
use regent::model::record::Document;
use regent::model::sealed::{SealError, Sealed};
use regent::model::security_group::SecurityGroupDetail;
use regent::model::server::{ServerDetail, ServerSighting, ServerSpec};
use regent::providers::{
    CallContext, Deletion, Ledger, NetworkRequest, Provider, ProviderError, ProviderResult, ServerFact, ServerRequest,
};
use regent::store::StoreError;
use tokio_util::sync::CancellationToken;

use super::cloud::Admin;
use super::{World, random};

/// How often a cloud at work is looked at before it is given up on, and how long is waited between two looks.
const LOOKS_MAX: usize = 200;
const PAUSE: Duration = Duration::from_millis(300);

/// A ledger that keeps what it is told.
#[derive(Default)]
pub struct Pages(pub Mutex<Vec<Document>>);

#[async_trait]
impl Ledger for Pages {
    async fn note(&self, detail: Document) -> Result<(), StoreError> {
        self.0.lock().expect("lock").push(detail);
        Ok(())
    }
    async fn claim_vlan(&self, _: &[(u16, u16)]) -> Result<VlanId, StoreError> {
        Err(StoreError::Unavailable("nobody asks".to_owned()))
    }
    fn seal(&self, _: &str) -> Result<Sealed<String>, SealError> {
        Err(SealError)
    }
}

/// A principal with a network, on which everything is made.
pub struct Place {
    pub world: World,
    pub network: NetworkRequest,
    pub pages: Pages,
}

impl Place {
    pub async fn new() -> Self {
        Self::on(World::new().await).await
    }

    pub async fn on(world: World) -> Self {
        world.principal().await;
        let network = world.network_request(NetworkId(random()), NetworkDetail::default());
        let notes = world.notes();
        world.provider.converge_network(&world.context(&notes), &network).await.expect("a network");
        Self { world, network, pages: Pages::default() }
    }

    pub async fn admin(&self) -> Admin {
        self.world.facts.admin().await
    }

    pub fn context(&self) -> CallContext<'_> {
        CallContext { tenant: self.world.organization, cancelled: CancellationToken::new(), ledger: &self.pages }
    }

    pub fn project(&self) -> String {
        self.world.records.identity(self.world.identity).project.expect("a project").0
    }

    pub async fn end(self) {
        let deleted = self.world.provider.delete_network(&self.context(), &self.network).await;
        assert_eq!(deleted, Ok(Deletion::Absent));
        self.world.no_principal().await;
    }

    pub fn flavor(&self, name: &str) -> FlavorId {
        self.world.facts.within("flavors", name).parse().expect("a flavor's id")
    }

    pub fn image(&self, name: &str) -> ImageId {
        self.world.facts.within("images", name).parse().expect("an image's id")
    }

    pub async fn group(&self) -> SecurityGroupId {
        let request = self.world.group_request(SecurityGroupId(random()), SecurityGroupDetail::default());
        let made = self.world.provider.converge_security_group(&self.context(), &request).await;
        made.expect("a security group");
        request.id
    }

    pub async fn no_group(&self, id: SecurityGroupId) {
        let request = self.world.group_request(id, SecurityGroupDetail::default());
        let deleted = self.world.provider.delete_security_group(&self.context(), &request).await;
        assert_eq!(deleted, Ok(Deletion::Absent));
    }

    pub fn server_request(&self, name: &str) -> ServerRequest {
        ServerRequest {
            id: ServerId::named(self.network.id, name),
            incarnation: self.world.incarnation,
            generation: 7,
            identity: self.world.identity,
            network: self.network.id,
            organization: self.world.organization,
            project: self.world.project,
            name: name.to_owned(),
            tags: Vec::new(),
            spec: ServerSpec {
                flavor: self.flavor("m1.tiny"),
                image: self.image("tiny"),
                networking: None,
                user_data: None,
                ssh_certificate_authority: None,
                ssh_injection: None,
                infrastructure: None,
                own_images: Vec::new(),
                governed: None,
            },
            user_data: None,
            may_create: true,
            detail: ServerDetail::default(),
        }
    }

    pub async fn converge(&self, request: &ServerRequest) -> ProviderResult<ServerFact> {
        self.world.provider.converge_server(&self.context(), request).await.map(|seen| seen.fact)
    }

    /// Looks until the server is so.
    pub async fn until(&self, request: &ServerRequest, is_so: impl Fn(&ServerSighting) -> bool) -> ServerFact {
        for _ in 0..LOOKS_MAX {
            match self.converge(request).await {
                Ok(fact) if fact.server.as_ref().is_some_and(&is_so) => return fact,
                Ok(_) | Err(ProviderError::Conflict(_)) => tokio::time::sleep(PAUSE).await,
                Err(error) => panic!("{error}"),
            }
        }
        panic!("the server does not become what is waited for: {:?}", self.converge(request).await)
    }

    /// A server that runs, with what an actor would have on record of it.
    pub async fn server(&self, request: &mut ServerRequest) -> ServerFact {
        let fact = self.until(request, |seen| seen.launched.is_some() && !seen.is_busy()).await;
        request.detail.server = fact.server.as_ref().map(|server| server.id.clone());
        request.detail.port.clone_from(&fact.port);
        request.detail.floating_ip = fact.floating_ip.as_ref().map(|(id, _)| id.clone());
        fact
    }

    pub async fn no_server(&self, request: &ServerRequest) {
        self.gone(async || self.world.provider.delete_server(&self.context(), request).await).await;
    }

    /// Asks again until it is confirmed that nothing is left.
    pub async fn gone(&self, delete: impl AsyncFn() -> ProviderResult<Deletion>) {
        for _ in 0..LOOKS_MAX {
            match delete().await {
                Ok(Deletion::Absent) => return,
                Ok(Deletion::Underway) | Err(ProviderError::Conflict(_)) => tokio::time::sleep(PAUSE).await,
                Err(error) => panic!("{error}"),
            }
        }
        panic!("it does not go");
    }

    /// Asks again until the answer is good.
    pub async fn eventually<T>(&self, what: &str, look: impl AsyncFn() -> Option<T>) -> T {
        for _ in 0..LOOKS_MAX {
            if let Some(seen) = look().await {
                return seen;
            }
            tokio::time::sleep(PAUSE).await;
        }
        panic!("{what} does not come")
    }

    /// The names of the changes that were made since so many calls.
    pub fn changes_since(&self, calls: usize) -> Vec<&'static str> {
        self.world.changes_since(calls).into_iter().map(|call| call.operation).collect()
    }
}
