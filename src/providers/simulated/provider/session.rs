//! One pass's way to the cloud: through the region's pool, in our caller's name, with typed answers.

use std::sync::Arc;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use super::super::api::CloudApi;
use super::super::call::{Answer, Call, CallRequest, Caller, CloudError, Criteria};
use super::super::objects::{CloudObject, ExternalNetworkEntry, Marks, ObjectId, ObjectKind, ObjectState};
use crate::model::ids::IdentityId;
use crate::providers::image_schema::ImageEntry;
use crate::providers::pool::{Operation, Pool, Service};
use crate::providers::types::{Flavor, VolumeClass};
use crate::providers::{CallContext, Observed, ProviderError, ProviderResult, Sequence};
use crate::sabotage::{self, Defect};

/// What stands between a pass and the cloud.
pub(super) enum Gate {
    Pool(Pool),
    /// Straight through, counting: for tests of what is asked rather than of how it queues.
    #[cfg(test)]
    Open(std::sync::atomic::AtomicU64),
}

type Making = BoxFuture<'static, ProviderResult<Answer>>;

impl Gate {
    async fn read(
        &self,
        context: &CallContext<'_>,
        operation: Operation,
        making: Making,
    ) -> ProviderResult<Observed<Answer>> {
        match self {
            Self::Pool(pool) => pool.read(context, operation, move || making).await,
            #[cfg(test)]
            Self::Open(count) => pass(count, making).await,
        }
    }

    async fn read_alone(
        &self,
        context: &CallContext<'_>,
        operation: Operation,
        making: Making,
    ) -> ProviderResult<Observed<Answer>> {
        match self {
            Self::Pool(pool) => pool.read_alone(context, operation, move || making).await,
            #[cfg(test)]
            Self::Open(count) => pass(count, making).await,
        }
    }

    async fn mutate(
        &self,
        context: &CallContext<'_>,
        operation: Operation,
        making: Making,
    ) -> ProviderResult<Observed<Answer>> {
        match self {
            Self::Pool(pool) => pool.mutate(context, operation, move || making).await,
            #[cfg(test)]
            Self::Open(count) => pass(count, making).await,
        }
    }
}

#[cfg(test)]
async fn pass(count: &std::sync::atomic::AtomicU64, making: Making) -> ProviderResult<Observed<Answer>> {
    let sequence = Sequence(1 + count.fetch_add(1, std::sync::atomic::Ordering::Relaxed));
    making.await.map(|fact| Observed { sequence, fact })
}

/// The calls of one pass.
pub(super) struct Session<'a> {
    pub gate: &'a Gate,
    pub api: &'a Arc<dyn CloudApi>,
    pub caller: &'a Caller,
    pub context: &'a CallContext<'a>,
}

impl Session<'_> {
    fn making(&self, call: &Call) -> (Operation, Making) {
        let operation = Operation { service: service(call), name: call.operation(), subject: call.subject() };
        let request =
            CallRequest { caller: self.caller.clone(), tenant: Some(self.context.tenant), call: call.clone() };
        let api = Arc::clone(self.api);
        (operation, async move { api.call(request).await.map_err(ProviderError::from) }.boxed())
    }

    pub async fn read(&self, call: Call) -> ProviderResult<Observed<Answer>> {
        let (operation, making) = self.making(&call);
        self.gate.read(self.context, operation, making).await
    }

    /// Reads a long answer, which only the monitor asks for.
    pub async fn read_alone(&self, call: Call) -> ProviderResult<Observed<Answer>> {
        let (operation, making) = self.making(&call);
        self.gate.read_alone(self.context, operation, making).await
    }

    async fn mutate(&self, call: Call) -> ProviderResult<Answer> {
        let (operation, making) = self.making(&call);
        self.gate.mutate(self.context, operation, making).await.map(|observed| observed.fact)
    }

    /// Everything of a kind that fits. An error is an error: only an answer can say that there is nothing (B1).
    pub async fn find(&self, kind: ObjectKind, criteria: Criteria) -> ProviderResult<Observed<Vec<CloudObject>>> {
        let answer = match self.read(Call::Find { kind, criteria }).await {
            Err(error) if sabotage::is_on(Defect::CreateOnAnyLookupError) && error != ProviderError::Cancelled => {
                return Ok(Observed { sequence: Sequence::default(), fact: Vec::new() });
            }
            other => other?,
        };
        match answer.fact {
            Answer::Objects { objects } => Ok(Observed { sequence: answer.sequence, fact: objects }),
            _ => Err(unexpected()),
        }
    }

    /// The objects made for one incarnation, and those on record that the search did not show: a search may lag
    /// behind, a look at an id does not. An object of another incarnation is another resource's: neither adopted nor
    /// touched.
    pub async fn find_own(
        &self,
        kind: ObjectKind,
        marks: Marks,
        known: Option<&ObjectId>,
    ) -> ProviderResult<Observed<Vec<CloudObject>>> {
        let mut found = self.find(kind, Criteria::marked(marks.id)).await?;
        found.fact.retain(|object| object.marks == Some(marks));
        if let Some(known) = known {
            self.add_known(kind, known, marks, &mut found.fact).await?;
        }
        if found.fact.len() > 1 {
            found.fact = self.still_there(found.fact).await?;
        }
        Ok(found)
    }

    /// Before more than one is believed, each is looked at by its id: the search may have shown one that is gone.
    async fn still_there(&self, found: Vec<CloudObject>) -> ProviderResult<Vec<CloudObject>> {
        let mut there = Vec::new();
        for object in found {
            there.extend(self.get(object.kind(), &object.id).await?);
        }
        Ok(there)
    }

    pub async fn add_known(
        &self,
        kind: ObjectKind,
        known: &ObjectId,
        marks: Marks,
        found: &mut Vec<CloudObject>,
    ) -> ProviderResult<()> {
        if found.iter().all(|object| object.id != *known) {
            let there = self.get(kind, known).await?;
            // A record can be of another cloud than this one, as after a restore: the id alone proves nothing.
            found.extend(there.filter(|object| object.marks == Some(marks)));
        }
        Ok(())
    }

    pub async fn get(&self, kind: ObjectKind, id: &ObjectId) -> ProviderResult<Option<CloudObject>> {
        Ok(self.look_at(kind, id).await?.map(|seen| seen.fact))
    }

    pub async fn look_at(&self, kind: ObjectKind, id: &ObjectId) -> ProviderResult<Option<Observed<CloudObject>>> {
        match self.read(Call::Get { kind, id: id.clone() }).await {
            Ok(Observed { fact: Answer::Object { object }, sequence }) => {
                Ok(Some(Observed { sequence, fact: *object }))
            }
            Ok(_) => Err(unexpected()),
            Err(ProviderError::NotFound) => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub async fn external_networks(&self) -> ProviderResult<Vec<ExternalNetworkEntry>> {
        match self.read(Call::ListExternalNetworks).await?.fact {
            Answer::ExternalNetworks { networks } => Ok(networks),
            _ => Err(unexpected()),
        }
    }

    pub async fn flavors(&self) -> ProviderResult<Vec<Flavor>> {
        match self.read(Call::ListFlavors).await?.fact {
            Answer::Flavors { flavors } => Ok(flavors),
            _ => Err(unexpected()),
        }
    }

    pub async fn images(&self) -> ProviderResult<Vec<ImageEntry>> {
        match self.read(Call::ListImages).await?.fact {
            Answer::Images { images } => Ok(images),
            _ => Err(unexpected()),
        }
    }

    pub async fn volume_classes(&self) -> ProviderResult<Vec<VolumeClass>> {
        match self.read(Call::ListVolumeClasses).await?.fact {
            Answer::VolumeClasses { classes } => Ok(classes),
            _ => Err(unexpected()),
        }
    }

    /// The project of the principal that something belongs to. One that has failed may be taken away: nothing is built
    /// in it.
    pub async fn project_of(&self, identity: IdentityId) -> ProviderResult<ObjectId> {
        let found = self.find(ObjectKind::Project, Criteria::marked(identity.0)).await?.fact;
        let project = at_most_one(found, "project")?.filter(|project| project.state == ObjectState::Active);
        project.map(|project| project.id).ok_or(ProviderError::PrincipalMissing)
    }

    /// The external network that routers and floating addresses lead to: the first that the cloud has (B14).
    pub async fn way_out(&self) -> ProviderResult<ObjectId> {
        let external = self.external_networks().await?.into_iter().next();
        external
            .map(|network| network.id)
            .ok_or_else(|| ProviderError::Rejected("the region has no external network".to_owned()))
    }

    /// Looks at a console, or begins a session with one.
    pub async fn console(&self, call: Call) -> ProviderResult<String> {
        let answer = if call.is_mutating() { self.mutate(call).await? } else { self.read(call).await?.fact };
        match answer {
            Answer::Console { address: text } | Answer::Shown { text } => Ok(text.0),
            _ => Err(unexpected()),
        }
    }

    /// Gives an order that takes its time.
    pub async fn order(&self, call: Call) -> ProviderResult<()> {
        self.mutate(call).await.map(|_| ())
    }

    /// Makes a change whose answer is the object.
    pub async fn change(&self, call: Call) -> ProviderResult<CloudObject> {
        match self.mutate(call).await? {
            Answer::Object { object } => Ok(*object),
            _ => Err(unexpected()),
        }
    }

    /// Issues a credential: the object and its secret.
    pub async fn issue(&self, call: Call) -> ProviderResult<(CloudObject, String)> {
        match self.mutate(call).await? {
            Answer::Issued { credential, secret } => Ok((*credential, secret.0)),
            _ => Err(unexpected()),
        }
    }

    pub async fn attach(&self, router: ObjectId, subnet: ObjectId) -> ProviderResult<()> {
        self.order(Call::AttachInterface { router, subnet }).await
    }

    /// Takes something away; that it is gone already is as good.
    pub async fn take_away(&self, call: Call) -> ProviderResult<()> {
        match self.mutate(call).await {
            Ok(_) | Err(ProviderError::NotFound) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Takes a failed beginning away, and sees that it is gone: what is still being removed would be doubled by what
    /// takes its place.
    pub async fn discard(&self, object: &CloudObject) -> ProviderResult<()> {
        let (kind, id) = (object.kind(), object.id.clone());
        self.take_away(Call::Delete { kind, id: id.clone() }).await?;
        match self.get(kind, &id).await? {
            None => Ok(()),
            Some(_) => Err(ProviderError::Conflict("a failed beginning is being removed".to_owned())),
        }
    }

    /// Takes several things away, each independently of what became of the others, and reports the first failure.
    /// A cloud that does not answer at all is not asked again for each of them.
    pub async fn take_all_away(&self, calls: Vec<Call>) -> ProviderResult<()> {
        let mut first = Ok(());
        for call in calls {
            match self.take_away(call).await {
                Ok(()) => {}
                Err(error @ (ProviderError::Conflict(_) | ProviderError::Rejected(_))) => first = first.and(Err(error)),
                Err(error) => return Err(error),
            }
        }
        first
    }
}

const fn service(call: &Call) -> Service {
    let kind = match call {
        Call::Find { kind, .. }
        | Call::Get { kind, .. }
        | Call::List { kind, .. }
        | Call::Update { kind, .. }
        | Call::Delete { kind, .. } => *kind,
        Call::Create { object } => object.body.kind(),
        Call::ListExternalNetworks | Call::AttachInterface { .. } | Call::DetachInterface { .. } => ObjectKind::Router,
        Call::AddRule { .. } | Call::RemoveRule { .. } => ObjectKind::SecurityGroup,
        Call::Configure { .. } => ObjectKind::LoadBalancer,
        Call::ListFlavors | Call::Act { .. } | Call::OpenConsole { .. } | Call::ReadConsole { .. } => {
            ObjectKind::Server
        }
        Call::ListVolumeClasses | Call::AttachVolume { .. } | Call::DetachVolume { .. } => ObjectKind::Volume,
        Call::ListImages => return Service::Image,
        Call::ListShareClasses => ObjectKind::Share,
    };
    match kind {
        ObjectKind::Project | ObjectKind::User | ObjectKind::Credential => Service::Identity,
        ObjectKind::Network
        | ObjectKind::Subnet
        | ObjectKind::Router
        | ObjectKind::SecurityGroup
        | ObjectKind::Port
        | ObjectKind::FloatingIp => Service::Network,
        ObjectKind::KeyPair | ObjectKind::Server => Service::Compute,
        ObjectKind::Volume => Service::BlockStorage,
        ObjectKind::LoadBalancer => Service::LoadBalancer,
        ObjectKind::Image => Service::Image,
        ObjectKind::Share | ObjectKind::ShareAttachment => Service::FileStorage,
    }
}

/// The cloud speaks another language than we do: different versions, or somebody else's server.
pub(super) fn unexpected() -> ProviderError {
    ProviderError::Unavailable("the cloud answered something else than was asked".to_owned())
}

impl From<CloudError> for ProviderError {
    fn from(error: CloudError) -> Self {
        match error {
            CloudError::NotFound => Self::NotFound,
            CloudError::Conflict { reason } => Self::Conflict(reason),
            CloudError::Throttled { retry_after_ms } => {
                Self::Throttled { retry_after: retry_after_ms.map(std::time::Duration::from_millis) }
            }
            CloudError::Quota => Self::Quota,
            CloudError::Unauthorized => Self::Unauthorized,
            CloudError::Unavailable => Self::Unavailable("no answer".to_owned()),
            CloudError::TimedOut => Self::Unavailable("timed out".to_owned()),
            CloudError::Rejected { reason } => Self::Rejected(reason),
            // Whoever took over does the work now. Retrying is harmless, and right if the epoch is renewed.
            CloudError::Fenced { newest_epoch } => Self::Conflict(format!("epoch {newest_epoch} has taken over")),
        }
    }
}

/// The only one, none, or a contradiction.
pub(super) fn at_most_one(mut objects: Vec<CloudObject>, what: &'static str) -> ProviderResult<Option<CloudObject>> {
    if objects.len() > 1 {
        return Err(ProviderError::Inconsistent(format!("{} {what}s where there can be one", objects.len())));
    }
    Ok(objects.pop())
}
