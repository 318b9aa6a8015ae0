//! What the tests of this folder share: a world with a virtual clock, a ledger in memory, and a way to die on order.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use tokio::sync::Notify;
use uuid::Uuid;

use super::call::{Answer, Call, CallRequest, Caller, CloudError};
use super::engine::SimulatedCloud;
use super::in_process::{InProcess, Kept};
use super::objects::{Body, CloudObject, Marks, NewObject, ObjectId};
use crate::model::ambient::{Ambient, Clock, Interrupt};
use crate::model::identity::IdentityDetail;
use crate::model::ids::{Incarnation, Kind};
use crate::model::load_balancer::LoadBalancerDetail;
use crate::model::network::VlanId;
use crate::model::record::Document;
use crate::model::sealed::{EnvelopeKey, SealError, Sealed};
use crate::model::server::ServerDetail;
use crate::providers::Ledger;
use crate::store::{Refusal, StoreError};

/// Goes with the runtime's clock, which a paused test moves by itself.
pub struct VirtualClock(tokio::time::Instant);

impl Clock for VirtualClock {
    fn now(&self) -> Timestamp {
        let start = Timestamp::from_second(1_800_000_000).expect("a time");
        start.checked_add(self.0.elapsed()).expect("a time")
    }
}

/// One for each world: two of them would not agree on the time.
pub fn ambient() -> Ambient {
    Ambient::seeded(Arc::new(VirtualClock(tokio::time::Instant::now())), 1)
}

/// Ends the process at the given point, counted from one.
pub struct Cut {
    at: u64,
    passed: AtomicU64,
    died: Notify,
}

impl Cut {
    pub fn at(at: u64) -> Arc<Self> {
        Arc::new(Self { at, passed: AtomicU64::new(0), died: Notify::new() })
    }

    pub fn never() -> Arc<Self> {
        Self::at(u64::MAX)
    }

    pub const fn passed(&self) -> &AtomicU64 {
        &self.passed
    }

    /// What the work came to, or nothing if the process died in it.
    pub async fn run<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            () = self.died.notified() => None,
            result = work => Some(result),
        }
    }
}

#[async_trait]
impl Interrupt for Cut {
    async fn point(&self, _name: &str) {
        if 1 + self.passed.fetch_add(1, Ordering::Relaxed) == self.at {
            self.died.notify_one();
            std::future::pending::<()>().await;
        }
    }
}

/// A ledger that outlives the processes that write to it. Its writes are points to die at, too.
pub struct MemoryLedger {
    /// The kind of resource that the pass is about.
    pub about: Kind,
    pub interrupt: Arc<Cut>,
    pub written: Arc<Mutex<Written>>,
}

#[derive(Default)]
pub struct Written {
    pub identity: IdentityDetail,
    pub server: ServerDetail,
    pub balancer: LoadBalancerDetail,
    pub notes: u64,
    pub vlans: BTreeMap<Uuid, u16>,
    pub network: Uuid,
    pub is_broken: bool,
}

const KEY: [u8; 32] = [7; 32];

pub fn unseal(sealed: &Sealed<String>) -> String {
    EnvelopeKey::from_bytes(&KEY).expect("a key").open(sealed).expect("opens")
}

#[async_trait]
impl Ledger for MemoryLedger {
    async fn note(&self, detail: Document) -> Result<(), StoreError> {
        self.interrupt.point("ledger:before").await;
        {
            let mut written = self.written.lock().expect("lock");
            if written.is_broken {
                return Err(StoreError::Unavailable("the disk is full".to_owned()));
            }
            match self.about {
                Kind::Identity => written.identity = detail.read().expect("a principal's"),
                Kind::Server => written.server = detail.read().expect("a server's"),
                Kind::LoadBalancer => written.balancer = detail.read().expect("a balancer's"),
                other => panic!("a {other} has nothing to note"),
            }
            written.notes += 1;
        }
        self.interrupt.point("ledger:after").await;
        Ok(())
    }

    async fn claim_vlan(&self, ranges: &[(u16, u16)]) -> Result<VlanId, StoreError> {
        self.interrupt.point("ledger:before").await;
        let claimed = {
            let mut written = self.written.lock().expect("lock");
            let network = written.network;
            let taken: BTreeSet<u16> = written.vlans.values().copied().collect();
            let free = ranges.iter().flat_map(|(start, end)| *start..=*end).find(|number| !taken.contains(number));
            match (written.vlans.get(&network), free) {
                (Some(number), _) => Ok(VlanId(*number)),
                (None, Some(number)) => {
                    written.vlans.insert(network, number);
                    Ok(VlanId(number))
                }
                (None, None) => Err(StoreError::Refused(Refusal::Exhausted("vlan".to_owned()))),
            }
        };
        self.interrupt.point("ledger:after").await;
        claimed
    }

    fn seal(&self, secret: &str) -> Result<Sealed<String>, SealError> {
        EnvelopeKey::from_bytes(&KEY)?.seal(&secret.to_owned())
    }
}

/// A path of its own under the system's folder for such things, removed at the end.
pub struct TemporaryFile(std::path::PathBuf);

impl TemporaryFile {
    pub fn new(word: &str) -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let (process, count) = (std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(format!("regent-simulated-{process}-{count}-{word}"));
        // A process of the same number may have left one.
        let _ = std::fs::remove_file(&path);
        Self(path)
    }

    pub fn path(&self) -> &std::path::Path {
        &self.0
    }
}

impl Drop for TemporaryFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

pub fn cloud() -> Arc<Mutex<Kept>> {
    Kept::in_memory(SimulatedCloud::new(1))
}

pub fn face(kept: &Arc<Mutex<Kept>>, ambient: &Ambient, interrupt: Arc<Cut>) -> InProcess {
    InProcess::new(Arc::clone(kept), ambient.clone(), interrupt, Duration::ZERO)
}

pub fn caller(epoch: u64) -> Caller {
    Caller { name: "test".to_owned(), epoch }
}

pub fn request(call: Call) -> CallRequest {
    CallRequest { caller: caller(1), tenant: None, call }
}

pub fn marks(id: u128) -> Marks {
    Marks { id: Uuid::from_u128(id), incarnation: Incarnation(Uuid::from_u128(1)) }
}

pub fn new_object(id: u128, body: Body) -> Call {
    let object = NewObject { name: format!("object-{id}"), marks: Some(marks(id)), tags: BTreeMap::new(), body };
    Call::Create { object }
}

pub fn object(answer: Result<Answer, CloudError>) -> CloudObject {
    match answer.expect("an answer") {
        Answer::Object { object } => *object,
        Answer::Issued { credential, .. } => *credential,
        other => panic!("not an object: {other:?}"),
    }
}

pub fn objects(answer: Result<Answer, CloudError>) -> Vec<CloudObject> {
    match answer.expect("an answer") {
        Answer::Objects { objects } => objects,
        Answer::Page { rows, .. } => rows.into_iter().map(|row| row.object).collect(),
        other => panic!("not objects: {other:?}"),
    }
}

pub fn subnet_body(network: &ObjectId) -> Body {
    let options = super::objects::SubnetOptions {
        gateway: "10.0.0.1".parse().expect("address"),
        pool: None,
        dns_nameservers: vec!["8.8.8.8".parse().expect("address")],
        routes: vec![],
    };
    Body::Subnet { network: network.clone(), cidr: "10.0.0.0/24".parse().expect("cidr"), options }
}

pub fn router_body(project: &ObjectId) -> Body {
    let external = ObjectId("55555555-5555-4555-8555-555555555555".to_owned());
    Body::Router { project: project.clone(), external_network: Some(external), interfaces: BTreeSet::new() }
}
