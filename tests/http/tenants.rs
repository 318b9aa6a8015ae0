//! A tenant with somebody for every role, put straight into the store.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use regent::identity::catalogue::ROLES;
use regent::identity::secret::random_secret;
use regent::model::allocation::{Allocation, AllocationSpec};
use regent::model::ids::{
    AllocationId, GroupId, Incarnation, Key, OrganizationId, ProjectId, RoleId, ServiceAccountId, TokenId, UserId,
};
use regent::model::member::{Group, GroupSpec, ServiceAccount, ServiceAccountSpec, User, UserSpec, UserState};
use regent::model::metadata::{Metadata, Placement};
use regent::model::organization::{Organization, OrganizationSpec, Project, ProjectSpec};
use regent::model::quota::{Amount, Amounts, QuotaKind};
use regent::model::record::{Record, ResourceKind};
use regent::model::token::{BearerToken, BoundTo, Token};
use regent::store::{Batch, Store, Write};
use uuid::Uuid;

use super::World;

pub fn role(name: &str) -> RoleId {
    ROLES.iter().find(|role| role.name == name).expect("a role of the catalogue").id()
}

/// Everything of one organization, and a token for each of its users.
pub struct Tenant {
    pub organization: OrganizationId,
    pub project: ProjectId,
    /// A second project, which only the sibling uses.
    pub other_project: ProjectId,
    pub administrator: String,
    pub auditor: String,
    pub user: String,
    pub reader: String,
    /// A user of the second project.
    pub sibling: String,
    /// The administrator's too, but no longer good.
    pub expired: String,
    pub users_group: GroupId,
    /// Nobody needs these: they are there to be changed and deleted.
    pub group: GroupId,
    pub spare_user: UserId,
    pub service_account: ServiceAccountId,
    pub allocation: AllocationId,
}

struct Maker<'a> {
    world: &'a World,
    placement: Placement,
    writes: Vec<Write>,
}

impl Maker<'_> {
    fn insert<K: ResourceKind>(&mut self, id: Uuid, name: &str, owner: Option<Key>, spec: &K::Spec) -> Incarnation {
        let incarnation = Incarnation(self.world.ambient.uuid());
        let new = Metadata::new(incarnation, name, self.placement, "test", self.world.ambient.now());
        let record = Record::new::<K>(id, Metadata { owner, ..new }, spec);
        self.writes.push(Write::Insert(Box::new(record)));
        incarnation
    }

    fn user(&mut self, organization: OrganizationId, subject: &str) -> UserId {
        let user = UserId::of(organization, subject);
        let spec = UserSpec { subject: subject.to_owned(), state: UserState::Active };
        self.insert::<User>(user.0, subject, Some(organization.key()), &spec);
        user
    }

    fn group(&mut self, organization: OrganizationId, name: &str, users: Vec<UserId>) -> GroupId {
        let group = GroupId(self.world.ambient.uuid());
        let spec = GroupSpec { roles: vec![role(name)], users: Some(users), ..GroupSpec::default() };
        self.insert::<Group>(group.0, name, Some(organization.key()), &spec);
        group
    }

    fn token(&mut self, user: UserId, subject: &str, expires: Option<Timestamp>) -> String {
        let token = BearerToken::new(TokenId(self.world.ambient.uuid()), &random_secret().expect("random"));
        let spec = token.spec(subject, user, expires);
        self.insert::<Token>(token.id.0, subject, Some(user.key()), &spec);
        token.reveal()
    }

    fn member(&mut self, organization: OrganizationId, name: &str) -> (GroupId, String) {
        let user = self.user(organization, name);
        let group = self.group(organization, name, vec![user]);
        (group, self.token(user, name, None))
    }
}

impl World {
    /// A new organization with somebody for every role.
    pub async fn full_tenant(&self) -> Tenant {
        let (organization, project) = (OrganizationId(self.ambient.uuid()), ProjectId(self.ambient.uuid()));
        let other_project = ProjectId(self.ambient.uuid());
        let placement = Placement { organization: Some(organization), ..Placement::default() };
        let mut maker = Maker { world: self, placement, writes: Vec::new() };
        let owner = Some(organization.key());
        maker.insert::<Organization>(organization.0, "tenant", None, &OrganizationSpec::default());
        let (_, administrator) = maker.member(organization, "administrator");
        let (_, auditor) = maker.member(organization, "auditor");
        let (users_group, user) = maker.member(organization, "user");
        let (readers, reader) = maker.member(organization, "reader");
        let sibling_user = maker.user(organization, "sibling");
        let siblings = maker.group(organization, "user", vec![sibling_user]);
        let sibling = maker.token(sibling_user, "sibling", None);
        let past = self.ambient.now() - Duration::from_secs(1);
        let expired = maker.token(UserId::of(organization, "administrator"), "administrator", Some(past));
        maker.insert::<Project>(project.0, "project", owner, &ProjectSpec { groups: vec![users_group, readers] });
        maker.insert::<Project>(other_project.0, "other", owner, &ProjectSpec { groups: vec![siblings] });
        let spare_user = maker.user(organization, "spare");
        let group = maker.group(organization, "reader", vec![]);
        let service_account = ServiceAccountId(self.ambient.uuid());
        let expiry = self.ambient.now() + Duration::from_hours(1);
        maker.insert::<ServiceAccount>(service_account.0, "program", owner, &ServiceAccountSpec { expiry });
        let allocation = AllocationId::of(organization, "clusters.example.org", "c1");
        let amounts = Amounts::from([(QuotaKind::Clusters, Amount::of(1))]);
        let spec = AllocationSpec {
            kind: "clusters.example.org".to_owned(),
            id: "c1".to_owned(),
            allocations: amounts.iter().map(|(kind, amount)| (*kind, *amount)).collect(),
        };
        maker.placement.project = Some(project);
        let incarnation = maker.insert::<Allocation>(allocation.0, "undefined", Some(project.key()), &spec);
        let holder = allocation.key();
        maker.writes.push(Write::Charge { organization, project: Some(project), holder, incarnation, amounts });
        // Of this one there is nothing without a limit of one's own.
        maker.writes.push(Write::Limit { organization, kind: QuotaKind::Volume, limit: 100 });
        // One of everything takes more than the catalogue gives.
        maker.writes.push(Write::Limit { organization, kind: QuotaKind::Networks, limit: 10 });
        self.store.commit(Batch::of(maker.writes)).await.expect("commits");
        Tenant {
            organization,
            project,
            other_project,
            administrator,
            auditor,
            user,
            reader,
            sibling,
            expired,
            users_group,
            group,
            spare_user,
            service_account,
            allocation,
        }
    }

    /// A token that is not a user's.
    pub async fn token_of(&self, subject: &str, bound_to: impl Into<BoundTo>) -> String {
        let token = BearerToken::new(TokenId(self.ambient.uuid()), &random_secret().expect("random"));
        self.insert::<Token>(token.id.0, subject, Placement::default(), &token.spec(subject, bound_to, None)).await;
        token.reveal()
    }
}

/// What a store says that an organization uses of a kind.
pub async fn used(store: &Arc<dyn Store>, organization: OrganizationId, kind: QuotaKind) -> Amount {
    let usage = store.usage(organization).await.expect("reads");
    usage.iter().find(|usage| usage.kind == kind).expect("every kind").used
}
