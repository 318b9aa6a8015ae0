//! What resources are: ids, metadata, specifications, statuses, conditions and edges.
//!
//! Data and pure rules. Nothing here reads a clock, a socket or a file, and nothing here knows another module of
//! the crate, so every rule can be tested by calling it. A kind is one file (`network.rs`, `identity.rs`, …) that
//! names its specification and its status detail and carries the rules that hold for it anywhere.

pub mod address_plan;
pub mod allocation;
pub mod ambient;
pub mod cloud_init;
pub mod cluster;
pub mod condition;
pub mod edge;
pub mod file_storage;
pub mod identity;
pub mod ids;
pub mod image;
pub mod image_url;
pub mod instance;
pub mod load_balancer;
pub mod load_balancer_topology;
pub mod member;
pub mod metadata;
pub mod network;
pub mod openstack;
pub mod operation;
pub mod organization;
pub mod orphan;
pub mod projection;
pub mod quota;
pub mod rebuild;
pub mod record;
pub mod region;
pub mod resize;
pub mod sealed;
pub mod security_group;
pub mod server;
pub mod ssh_certificate_authority;
pub mod token;
pub mod volume;

/// The version of the stored form that this binary writes. A folder written by a newer one is refused.
pub const WRITER_VERSION: u32 = 1;
