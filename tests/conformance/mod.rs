//! What every provider keeps to, whatever its cloud: one suite, tried on the simulated cloud and on a real OpenStack.
//!
//! Of each kind: nothing is listed before it is made; what is made is told with a fingerprint; whoever has lost the record
//! finds the same again and is told the same; a list, of everything or of a few, shows it once, with that fingerprint; a
//! deletion is confirmed, may be repeated, and is seen in the lists.

mod simulated;

use std::time::Duration;

use regent::model::ids::{
    FlavorId, IdentityId, ImageId, Incarnation, Key, Kind, LoadBalancerId, NetworkId, OrganizationId, ProjectId,
    SecurityGroupId, ServerId, VolumeClassId, VolumeId,
};
use regent::model::load_balancer::{
    BalancedProtocol, Listener, ListenerName, LoadBalancerDetail, LoadBalancerSpec, Member, Pool, joint_fingerprint,
};
use regent::model::network::{NetworkDetail, NetworkSpec, Prefix};
use regent::model::security_group::{Direction, Protocol, Rule, SecurityGroupDetail, SecurityGroupSpec};
use regent::model::server::{ServerDetail, ServerSpec, SshInjection};
use regent::model::volume::{CloudVolumeState, VolumeDetail, VolumeSpec};
use regent::providers::{
    CallContext, Deletion, Ledger, LoadBalancerRequest, NetworkRequest, Provider, ProviderError, ProviderResult,
    SecurityGroupRequest, ServerRequest, VolumeRequest,
};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

/// How often a cloud at work is looked at before it is given up on, and how long is waited between two looks.
const LOOKS_MAX: usize = 300;
const PAUSE: Duration = Duration::from_millis(200);

/// A provider, and a principal with a network on its cloud.
pub struct Subject<'a> {
    pub provider: &'a dyn Provider,
    pub ledger: &'a dyn Ledger,
    pub organization: OrganizationId,
    pub project: ProjectId,
    pub identity: IdentityId,
    pub incarnation: Incarnation,
    pub network: NetworkId,
    pub flavor: FlavorId,
    pub image: ImageId,
    pub class: VolumeClassId,
}

/// Something to be made, and what is on record of it.
enum Thing {
    Network(NetworkRequest),
    Group(SecurityGroupRequest),
    Server(Box<ServerRequest>),
    Volume(VolumeRequest),
    Balancer(LoadBalancerRequest),
}

fn random() -> Uuid {
    uuid::Builder::from_random_bytes(fastrand::u128(..).to_be_bytes()).into_uuid()
}

/// What every kind is made with.
macro_rules! request {
    ($request:ident of $subject:ident { $($field:ident: $value:expr),* $(,)? }) => {
        $request {
            incarnation: $subject.incarnation,
            identity: $subject.identity,
            organization: $subject.organization,
            project: $subject.project,
            $($field: $value,)*
        }
    };
}

impl Thing {
    fn all(of: &Subject<'_>) -> [Self; 5] {
        let prefix = |text| Prefix::parse(text).expect("a prefix");
        let spec = NetworkSpec {
            prefix: prefix("10.20.0.0/24"),
            reservations: None,
            dns_nameservers: vec![[9, 9, 9, 9].into()],
            routes: None,
        };
        let detail = NetworkDetail::default();
        let network = request!(NetworkRequest of of { id: NetworkId(random()), spec: spec, detail: detail });
        let (direction, protocol) = (Direction::Ingress, Protocol::Tcp);
        let rule = Rule { direction, protocol, port: Some(22), port_max: None, prefix: Some(prefix("10.0.0.0/8")) };
        let (id, detail) = (SecurityGroupId(random()), SecurityGroupDetail::default());
        let spec = SecurityGroupSpec { rules: vec![rule] };
        let group = request!(SecurityGroupRequest of of { id: id, spec: spec, detail: detail });
        let spec = VolumeSpec { class: of.class, size_gib: 1, server: None };
        let (id, detail) = (VolumeId(random()), VolumeDetail::default());
        let volume = request!(VolumeRequest of of { id: id, generation: 1, spec: spec, detail: detail });
        [
            Self::Network(network),
            Self::Group(group),
            Self::Server(Box::new(server(of))),
            Self::Volume(volume),
            Self::Balancer(balancer(of)),
        ]
    }

    fn key(&self) -> Key {
        match self {
            Self::Network(request) => request.id.key(),
            Self::Group(request) => request.id.key(),
            Self::Server(request) => request.id.key(),
            Self::Volume(request) => request.id.key(),
            Self::Balancer(request) => request.id.key(),
        }
    }

    /// The record is lost.
    fn forget(&mut self) {
        match self {
            Self::Network(request) => request.detail = NetworkDetail::default(),
            Self::Group(request) => request.detail = SecurityGroupDetail::default(),
            Self::Server(request) => request.detail = ServerDetail::default(),
            Self::Volume(request) => request.detail = VolumeDetail::default(),
            Self::Balancer(request) => request.detail = LoadBalancerDetail::default(),
        }
    }

    /// What it looks like once it is whole; nothing while the cloud is busy.
    async fn converge(&mut self, of: &Subject<'_>) -> ProviderResult<Option<u64>> {
        let (provider, context) = (of.provider, of.context());
        match self {
            Self::Network(request) => {
                request.detail = provider.converge_network(&context, request).await?.fact.detail;
                Ok(request.detail.fingerprint)
            }
            Self::Group(request) => {
                request.detail = provider.converge_security_group(&context, request).await?.fact.detail;
                Ok(request.detail.fingerprint)
            }
            Self::Server(request) => {
                let fact = provider.converge_server(&context, request).await?.fact;
                request.detail.port = fact.port;
                let server = fact.server.filter(|server| server.launched.is_some() && !server.is_busy());
                request.detail.server = server.map(|server| server.id).or_else(|| request.detail.server.take());
                Ok(Some(fact.fingerprint).filter(|_| request.detail.server.is_some()))
            }
            Self::Volume(request) => {
                let fact = provider.converge_volume(&context, request).await?.fact;
                let whole = fact.volume.filter(|volume| volume.state == CloudVolumeState::Ready);
                request.detail.volume = whole.map(|volume| volume.id);
                Ok(Some(fact.fingerprint).filter(|_| request.detail.volume.is_some()))
            }
            Self::Balancer(request) => {
                let made = provider.converge_load_balancer(&context, request).await?.fact;
                request.detail.balancer = Some(made.balancer);
                request.detail.port = Some(made.port);
                let fact = provider.converge_listeners(&context, request).await?.fact;
                Ok(Some(joint_fingerprint(fact.fingerprint, None)).filter(|_| fact.built && !fact.unfinished))
            }
        }
    }

    async fn delete(&self, of: &Subject<'_>) -> ProviderResult<Deletion> {
        let (provider, context) = (of.provider, of.context());
        match self {
            Self::Network(request) => provider.delete_network(&context, request).await,
            Self::Group(request) => provider.delete_security_group(&context, request).await,
            Self::Server(request) => provider.delete_server(&context, request).await,
            Self::Volume(request) => provider.delete_volume(&context, request).await,
            Self::Balancer(request) => provider.delete_load_balancer(&context, request).await,
        }
    }
}

fn server(of: &Subject<'_>) -> ServerRequest {
    let spec = ServerSpec {
        flavor: of.flavor,
        image: of.image,
        networking: None,
        user_data: None,
        ssh_certificate_authority: None,
        ssh_injection: Some(SshInjection::None),
        infrastructure: None,
        own_images: Vec::new(),
        governed: None,
    };
    request!(ServerRequest of of {
        id: ServerId::named(of.network, "conforming"),
        generation: 1,
        network: of.network,
        name: "conforming".to_owned(),
        tags: Vec::new(),
        spec: spec,
        user_data: None,
        may_create: true,
        detail: ServerDetail::default(),
    })
}

fn balancer(of: &Subject<'_>) -> LoadBalancerRequest {
    let members = vec![Member { address: [192, 168, 0, 200].into(), port: 8080 }];
    let listener = Listener {
        name: ListenerName::try_from("web".to_owned()).expect("a name"),
        protocol: BalancedProtocol::Tcp,
        port: 80,
        allowed_cidrs: None,
        idle_timeout_seconds: None,
        pool: Pool { proxy_protocol_v2: None, members, health_check: None },
    };
    request!(LoadBalancerRequest of of {
        id: LoadBalancerId(random()),
        network: of.network,
        spec: LoadBalancerSpec { vip_address: None, public_ip: None, listeners: vec![listener] },
        detail: LoadBalancerDetail::default(),
    })
}

impl Subject<'_> {
    fn context(&self) -> CallContext<'_> {
        CallContext { tenant: self.organization, cancelled: CancellationToken::new(), ledger: self.ledger }
    }

    async fn settled(&self, thing: &mut Thing) -> u64 {
        for _ in 0..LOOKS_MAX {
            match thing.converge(self).await {
                Ok(Some(fingerprint)) => return fingerprint,
                Ok(None) | Err(ProviderError::Conflict(_)) => tokio::time::sleep(PAUSE).await,
                Err(error) => panic!("{}: {error}", thing.key()),
            }
        }
        panic!("{} does not settle", thing.key())
    }

    async fn gone(&self, thing: &Thing) {
        for _ in 0..LOOKS_MAX {
            match thing.delete(self).await {
                Ok(Deletion::Absent) => return,
                Ok(Deletion::Underway) | Err(ProviderError::Conflict(_)) => tokio::time::sleep(PAUSE).await,
                Err(error) => panic!("{}: {error}", thing.key()),
            }
        }
        panic!("{} does not go", thing.key())
    }

    /// What is listed of it: by a look at everything and by one at it and somebody who is not there.
    async fn listed(&self, key: Key) -> Option<u64> {
        let everything = self.look(key, None).await;
        let few = self.look(key, Some(&[key.id, random()])).await;
        assert_eq!(everything, few, "{key} is the same in every list");
        few
    }

    async fn look(&self, key: Key, only: Option<&[Uuid]>) -> Option<u64> {
        let (mut found, mut after) = (None, None::<String>);
        loop {
            let page =
                self.provider.list(&self.context(), key.kind, only, after.as_deref()).await.expect("a page").fact;
            assert!(!page.unsure.contains(&key.id), "{key}: it is there or it is not");
            for listed in page.items {
                assert!(only.is_none_or(|only| only.contains(&listed.key.id)), "{key}: only those that were asked for");
                if listed.key == key {
                    assert_eq!(listed.incarnation, self.incarnation);
                    assert_eq!(found.replace(listed.fingerprint), None, "{key} is listed once");
                }
            }
            after = page.next;
            if after.is_none() {
                return found;
            }
        }
    }

    async fn keeps_its_word(&self, mut thing: Thing) {
        let key = thing.key();
        assert_eq!(self.listed(key).await, None, "{key} is not there yet");
        let told = self.settled(&mut thing).await;
        thing.forget();
        assert_eq!(self.settled(&mut thing).await, told, "{key} is found without a record");
        assert_eq!(self.listed(key).await, Some(told), "{key} is listed as it was told");
        self.gone(&thing).await;
        assert_eq!(self.listed(key).await, None, "{key} is gone");
        assert_eq!(thing.delete(self).await, Ok(Deletion::Absent), "{key} is still gone");
    }

    /// The whole suite.
    pub async fn conforms(&self) {
        for thing in Thing::all(self) {
            self.keeps_its_word(thing).await;
        }
        let unknown = self.provider.list(&self.context(), Kind::Project, None, None).await.err();
        assert!(matches!(unknown, Some(ProviderError::Unsupported(_))), "no cloud has projects of ours");
    }
}
