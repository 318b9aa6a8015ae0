//! Tenants: an organization, and the projects that it owns.

use serde::{Deserialize, Serialize};

use super::ids::{GroupId, Kind};
use super::record::ResourceKind;

#[derive(Clone, Debug)]
pub struct Organization;

impl ResourceKind for Organization {
    const KIND: Kind = Kind::Organization;
    type Spec = OrganizationSpec;
    type Detail = Nothing;
}

#[derive(Clone, Debug)]
pub struct Project;

impl ResourceKind for Project {
    const KIND: Kind = Kind::Project;
    type Spec = ProjectSpec;
    type Detail = Nothing;
}

/// A status detail that says nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Nothing {}

/// How users of the organization are told apart elsewhere. Kept for clients that write it; nothing here acts on it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OrganizationSpec {
    #[serde(default)]
    pub organization_type: OrganizationType,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub domain: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub provider_scope: Option<ProviderScope>,
    #[serde(default, rename = "providerID", skip_serializing_if = "Option::is_none")]
    pub provider_id: Option<String>,
    #[serde(default, rename = "googleCustomerID", skip_serializing_if = "Option::is_none")]
    pub google_customer_id: Option<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum OrganizationType {
    /// Users are added one by one.
    #[default]
    Adhoc,
    /// Users come by the domain of their e-mail address.
    Domain,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, utoipa::ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum ProviderScope {
    Global,
    Organization,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProjectSpec {
    /// The groups whose members have their project rights here.
    #[serde(default, rename = "groupIDs")]
    pub groups: Vec<GroupId>,
}
