//! The lives of organizations, projects and SSH certificate authorities: what exists by being stored.
//!
//! ```text
//!   ──▶ Done
//!   deleting ──▶ what it owns, and what refers to it, is marked too ──▶ waits until all of that is gone ──▶ gone
//! ```
//!
//! A project does not own what lies in a cloud: that hangs under its region. It is bridged: every resource of ours
//! that refers to a project or an organization goes with it, so that the list of what has to go is the graph itself
//! and nobody's to maintain (B31). A reference of another service only makes it wait.

use super::kind::Behaviour;
use crate::model::ids::Kind;
use crate::model::organization::{Organization, Project};
use crate::model::ssh_certificate_authority::SshCertificateAuthority;

impl Behaviour for Organization {
    fn is_bridge_to(_kind: Kind) -> bool {
        true
    }
}

impl Behaviour for Project {
    fn is_bridge_to(_kind: Kind) -> bool {
        true
    }
}

impl Behaviour for SshCertificateAuthority {}
