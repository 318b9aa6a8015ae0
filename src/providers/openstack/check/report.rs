//! What is said of what was found: line by line, with what mends each shortfall.

use std::fmt;

use super::facts::{Answer, Facts, ServiceFact, Standing};
use crate::model::openstack::{Isolation, OpenstackIdentitySettings};
use crate::providers::openstack::identity::STEWARD_ROLE;

/// How good something is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Grade {
    Ok,
    /// The region works, with less.
    Weaker,
    /// There is no region without it.
    Missing,
}

impl Grade {
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Weaker => "weaker",
            Self::Missing => "missing",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    pub grade: Grade,
    pub subject: String,
    pub found: String,
    /// The command, or the file, that mends it.
    pub mend: Option<String>,
}

impl fmt::Display for Line {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:<8} {:<26} {}", self.grade.word(), self.subject, self.found)?;
        match &self.mend {
            Some(mend) => write!(formatter, "\n{:<8} {:<26} mend: {mend}", "", ""),
            None => Ok(()),
        }
    }
}

impl Line {
    fn ok(subject: impl Into<String>, found: impl Into<String>) -> Self {
        Self { grade: Grade::Ok, subject: subject.into(), found: found.into(), mend: None }
    }

    fn short(grade: Grade, subject: impl Into<String>, found: impl Into<String>, mend: impl Into<String>) -> Self {
        Self { grade, subject: subject.into(), found: found.into(), mend: Some(mend.into()) }
    }
}

/// A service that we speak to.
struct Needed {
    name: &'static str,
    grade: Grade,
    /// What does not work without it.
    purpose: &'static str,
    /// The microversions that we cannot do without, and that we want, with the service's name in its policy's file.
    versions: Option<((u8, u8), (u8, u8))>,
}

const NEEDED: [Needed; 7] = [
    Needed { name: "identity", grade: Grade::Missing, purpose: "principals", versions: None },
    // Server groups with one policy each; what a server's list shows of flavors.
    Needed { name: "compute", grade: Grade::Missing, purpose: "servers", versions: Some(((2, 64), (2, 90))) },
    Needed { name: "network", grade: Grade::Missing, purpose: "networks", versions: None },
    Needed { name: "image", grade: Grade::Missing, purpose: "images", versions: None },
    Needed { name: "block-storage", grade: Grade::Weaker, purpose: "volumes", versions: Some(((3, 0), (3, 70))) },
    Needed { name: "load-balancer", grade: Grade::Weaker, purpose: "load balancers", versions: None },
    // Traits that a host must not have.
    Needed {
        name: "placement",
        grade: Grade::Weaker,
        purpose: "looking for a pinned server's host first",
        versions: Some(((1, 22), (1, 22))),
    },
];

/// What keeps tenants apart in this cloud: as much as it lets us.
#[must_use]
pub fn isolation(facts: &Facts) -> Isolation {
    let trial = &facts.trial;
    let is_whole = trial.project.is_yes()
        && trial.user.is_yes()
        && trial.entry.is_yes()
        && trial.grants.contains_key("member")
        && trial.grants.values().all(Answer::is_yes)
        && trial.quotas.values().all(Answer::is_yes);
    if is_whole { Isolation::Principal } else { Isolation::Project }
}

/// Everything that is to be said, in the order in which it is mended.
#[must_use]
pub fn lines(facts: &Facts) -> Vec<Line> {
    let mut lines = vec![keystone(facts)];
    if !facts.keystone.is_yes() {
        return lines;
    }
    lines.push(log_in(facts));
    let Some(own) = facts.account.yes() else { return lines };
    lines.push(own_roles(own));
    lines.push(domain(facts, own));
    lines.extend(trial(facts, own));
    lines.push(kept_apart(facts));
    lines.extend(NEEDED.iter().flat_map(|needed| service(facts, needed)));
    lines.extend(sights(facts));
    lines.extend(offers(facts));
    lines
}

fn keystone(facts: &Facts) -> Line {
    let subject = "Keystone";
    match &facts.keystone {
        Answer::Yes(version) => Line::ok(subject, format!("answers, version {version}")),
        other => {
            let mend = format!("see whether auth.auth_url of {} is right: curl <auth_url>", facts.entry.cloud);
            Line::short(Grade::Missing, subject, other.reason(), mend)
        }
    }
}

fn log_in(facts: &Facts) -> Line {
    let (subject, cloud) = ("log-in", &facts.entry.cloud);
    match &facts.account {
        Answer::Yes(own) => Line::ok(subject, format!("user {} in project {}", own.user, own.place)),
        Answer::Refused => {
            let mend = format!(
                "see what `openstack --os-cloud {cloud} token issue` says; then user_id, password and project_id"
            );
            Line::short(Grade::Missing, subject, "user, password or project are refused", mend)
        }
        other => {
            let mend = format!("name user_id, password and project_id below auth of {cloud} in {}", facts.entry.file);
            Line::short(Grade::Missing, subject, other.reason(), mend)
        }
    }
}

fn own_roles(own: &Standing) -> Line {
    let (subject, found) = ("roles, own project", own.roles.join(", "));
    if own.is(STEWARD_ROLE) && own.is("member") {
        return Line::ok(subject, found);
    }
    let give = |role: &str| format!("openstack role add --user {} --project {} {role}", own.user, own.place);
    let lacking = ["member", STEWARD_ROLE].into_iter().filter(|role| !own.is(role)).map(give).collect::<Vec<_>>();
    Line::short(Grade::Weaker, subject, format!("only {found}"), lacking.join(" && "))
}

fn domain(facts: &Facts, own: &Standing) -> Line {
    let subject = "roles, domain";
    let home = own.home.as_deref().unwrap_or("<domain>");
    // Whoever manages a domain manages everybody's projects in it.
    let give = |domain: &str| {
        let command = format!("openstack role add --user {} --domain {domain} {STEWARD_ROLE}", own.user);
        format!("{command} (if the domain is Regent's alone; else begin with: openstack domain create regent)")
    };
    match &facts.manager {
        Answer::Yes(manager) if manager.is(STEWARD_ROLE) || manager.is("admin") => {
            Line::ok(subject, format!("{} of domain {}", manager.roles.join(", "), manager.place))
        }
        Answer::Yes(manager) => {
            let found = format!("only {} of domain {}", manager.roles.join(", "), manager.place);
            Line::short(Grade::Weaker, subject, found, give(&manager.place))
        }
        other => Line::short(Grade::Weaker, subject, format!("no role in the domain: {}", other.reason()), give(home)),
    }
}

/// What was seen of the project and the user that were made for it.
fn trial(facts: &Facts, own: &Standing) -> Vec<Line> {
    let trial = &facts.trial;
    let Some(manager) = facts.manager.yes() else { return Vec::new() };
    let give = format!("openstack role add --user {} --domain {} {STEWARD_ROLE}", own.user, manager.place);
    let mut lines = vec![
        graded("projects", &trial.project, "one was made in the domain, and taken away again", &give),
        graded("users", &trial.user, "one was made in the domain, and taken away again", &give),
    ];
    lines.extend(cluster_roles(facts));
    let is_asked = |answer: &Answer| *answer != Answer::NotAsked;
    if is_asked(&trial.entry) {
        lines.push(graded("entry", &trial.entry, "the account was let into the project that it made", &give));
    }
    for (service, answer) in &trial.quotas {
        let mend = match *service {
            "compute" => policy("nova", "os-quota-sets"),
            "network" => policy("neutron", "update_quota"),
            _ => policy("cinder", "volume_extension:quotas"),
        };
        lines.push(graded(format!("quotas, {service}"), answer, "can be lifted in a principal's project", &mend));
    }
    let left = trial.left.iter();
    lines.extend(left.map(|command| {
        Line::short(Grade::Weaker, "left behind", "what was made for this check could not be taken away", command)
    }));
    lines
}

fn cluster_roles(facts: &Facts) -> Vec<Line> {
    let wanted = OpenstackIdentitySettings::default().cluster_roles;
    let Some(known) = facts.roles.yes() else {
        let mend = policy("keystone", "identity:list_roles");
        return vec![Line::short(Grade::Weaker, "roles of principals", facts.roles.reason(), mend)];
    };
    let line = |role: &String| {
        let subject = format!("role {role}");
        if !known.contains(role) {
            let found = "the cloud does not have it";
            return Line::short(Grade::Weaker, subject, found, format!("openstack role create {role}"));
        }
        let given = facts.trial.grants.get(role).unwrap_or(&Answer::NotAsked);
        graded(subject, given, "may be given to principals", &policy("keystone", "domain_managed_target_role"))
    };
    std::iter::once(&STEWARD_ROLE.to_owned()).chain(&wanted).map(line).collect()
}

fn kept_apart(facts: &Facts) -> Line {
    let subject = "isolation";
    match isolation(facts) {
        Isolation::Principal => Line::ok(subject, "each principal has a project of its own"),
        Isolation::Project => Line::short(
            Grade::Weaker,
            subject,
            "all tenants lie in one project, and nothing but names keeps them apart",
            "see the lines above; to accept it, leave isolation = \"project\" in the region below",
        ),
    }
}

fn service(facts: &Facts, needed: &Needed) -> Vec<Line> {
    let missing = ServiceFact::default();
    let fact = facts.services.get(needed.name).unwrap_or(&missing);
    let subject = format!("service {}", needed.name);
    let place = format!("{} {}", facts.region.as_deref().unwrap_or("any region"), facts.interface.word());
    if !fact.is_here {
        let (found, mend) = if fact.elsewhere.is_empty() {
            let region = facts.region.as_deref().unwrap_or("<region>");
            let interface = facts.interface.word();
            let mend = format!("openstack endpoint create --region {region} {} {interface} <url>", needed.name);
            (format!("not in the catalogue: no {}", needed.purpose), mend)
        } else {
            let places = fact.elsewhere.iter().cloned().collect::<Vec<_>>().join(", ");
            let mend = "set region_name and interface in the clouds.yaml to where it is".to_owned();
            (format!("not for {place}, but for {places}"), mend)
        };
        return vec![Line::short(needed.grade, subject, found, mend)];
    }
    let mut lines = vec![Line::ok(subject, format!("in the catalogue for {place}"))];
    lines.extend(needed.versions.map(|versions| microversions(needed, fact, versions)));
    lines
}

fn microversions(needed: &Needed, fact: &ServiceFact, (least, wanted): ((u8, u8), (u8, u8))) -> Line {
    let subject = format!("versions of {}", needed.name);
    let shown = |(major, minor): (u8, u8)| format!("{major}.{minor}");
    let newer = "a newer release of the service".to_owned();
    match &fact.versions {
        Answer::Yes((min, max)) => {
            let found = format!("{} to {}; we speak {}", shown(*min), shown(*max), shown(wanted.min(*max).max(*min)));
            if *max < least {
                return Line::short(needed.grade, subject, format!("{found}, and need {}", shown(least)), newer);
            }
            if *max < wanted {
                return Line::short(Grade::Weaker, subject, format!("{found}, and want {}", shown(wanted)), newer);
            }
            Line::ok(subject, found)
        }
        other => {
            let mend = "see what GET of its address in `openstack catalog list` answers";
            Line::short(needed.grade, subject, other.reason(), mend)
        }
    }
}

/// What saves calls, or is there for some tenants only: nothing here is needed.
fn sights(facts: &Facts) -> Vec<Line> {
    let (sights, mut lines) = (&facts.sights, Vec::new());
    let in_one = "one list for all projects";
    let mut add = |subject: &str, answer: &Answer, good: &str, mend: String| {
        if *answer != Answer::NotAsked {
            lines.push(graded(subject, answer, good, &mend));
        }
    };
    add("lists, servers", &sights.servers, in_one, policy("nova", "servers:detail:get_all_tenants"));
    add("lists, networks", &sights.networks, in_one, policy("neutron", "context_with_global_access and get_…"));
    add("lists, load balancers", &sights.load_balancers, in_one, policy("octavia", "load-balancer:global_observer"));
    add("hosts", &sights.hosts, "can be looked up", policy("placement", "placement:resource_providers:list"));
    add("VLANs", &sights.vlans, "can be chosen", policy("neutron", "create_network:provider:…"));
    lines
}

fn offers(facts: &Facts) -> Vec<Line> {
    let offers = &facts.offers;
    let mut lines = Vec::new();
    let mut add = |subject: &str, (grade, answer): (Grade, Answer<String>), mend: &str| match answer {
        Answer::NotAsked => {}
        Answer::Yes(found) if !found.is_empty() => lines.push(Line::ok(subject, found)),
        Answer::Yes(_) => lines.push(Line::short(grade, subject, "none", mend)),
        other => lines.push(Line::short(grade, subject, other.reason(), mend)),
    };
    let names = shown(&offers.external_networks, |networks| {
        networks.iter().map(|(_, name)| name.as_str()).collect::<Vec<_>>().join(", ")
    });
    add("external networks", (Grade::Missing, names), "openstack network set --external <network>");
    let count = |count: &usize| if *count == 0 { String::new() } else { count.to_string() };
    let mend = "openstack flavor create --vcpus 1 --ram 1024 --disk 10 small";
    add("flavors", (Grade::Missing, shown(&offers.flavors, count)), mend);
    let mend = "openstack image set --public --property unikorn:os:kernel=linux --property unikorn:os:family=… --property \
                unikorn:os:distro=… --property unikorn:os:version=… --property unikorn:virtualization=any <image>";
    add("images for everybody", (Grade::Weaker, shown(&offers.images, count)), mend);
    let names =
        shown(&offers.volume_types, |types| types.iter().map(|(_, name)| name.as_str()).collect::<Vec<_>>().join(", "));
    add("volume types", (Grade::Weaker, names), "openstack volume type create standard");
    lines
}

fn shown<T>(answer: &Answer<T>, words: impl Fn(&T) -> String) -> Answer<String> {
    match answer {
        Answer::NotAsked => Answer::NotAsked,
        Answer::Yes(value) => Answer::Yes(words(value)),
        Answer::Refused => Answer::Refused,
        Answer::Failed(reason) => Answer::Failed(reason.clone()),
    }
}

fn graded(subject: impl Into<String>, answer: &Answer, good: &str, mend: &str) -> Line {
    if answer.is_yes() { Line::ok(subject, good) } else { Line::short(Grade::Weaker, subject, answer.reason(), mend) }
}

fn policy(service: &str, rules: &str) -> String {
    format!("put {rules} of deploy/dev/openstack/policy/{service}.yaml into the service's policy.yaml")
}
