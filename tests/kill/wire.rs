//! Lists, as the server sends them and clients read them.

use std::collections::BTreeMap;

use regent::model::ids::RegionId;
use serde_json::Value;
use uuid::Uuid;

use super::ledger;
use super::machines::{Asked, Shown, ShownGroup, ShownServer};
use super::wares::{self, List, ShownWare, Ware};
use regent::model::instance::INSTANCE_TAG;

/// What every kind is shown with.
#[derive(Clone, Debug)]
pub struct Head {
    pub name: String,
    pub status: String,
    pub deleting: bool,
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn id_in(value: &Value) -> Option<Uuid> {
    value.as_str().and_then(|id| id.parse().ok())
}

pub fn id_of(resource: &Value) -> Result<Uuid, String> {
    id_in(&resource["metadata"]["id"]).ok_or_else(|| format!("no id in {resource}"))
}

fn head(resource: &Value) -> Head {
    let metadata = &resource["metadata"];
    let (name, status) = (text(&metadata["name"]), text(&metadata["provisioningStatus"]));
    Head { name, status, deleting: !metadata["deletionTime"].is_null() }
}

/// Images show neither how far they are in everybody's words nor that they are being deleted: one that is going is
/// like one that failed, and none fails here.
fn ware_head(ware: Ware, resource: &Value) -> Head {
    let head = head(resource);
    if ware != Ware::Image {
        return head;
    }
    let status = text(&resource["status"]["state"]);
    Head { deleting: status == "failed", status, ..head }
}

/// A list, by id. Nothing may be in it twice.
fn listed<T>(list: &Value, read: impl Fn(&Value) -> Option<T>) -> Result<BTreeMap<Uuid, T>, String> {
    let mut all = BTreeMap::new();
    for resource in list.as_array().ok_or_else(|| format!("not a list: {list}"))? {
        let shown = read(resource).ok_or_else(|| format!("incomplete: {resource}"))?;
        if all.insert(id_of(resource)?, shown).is_some() {
            return Err(format!("{resource} is listed twice"));
        }
    }
    Ok(all)
}

pub fn networks(list: &Value) -> Result<BTreeMap<Uuid, ledger::Shown>, String> {
    listed(list, |network| {
        let servers = network["spec"]["dnsNameservers"].as_array().into_iter().flatten().map(text).collect();
        let region = RegionId(id_in(&network["status"]["regionId"])?);
        let Head { name, status, deleting } = head(network);
        Some(ledger::Shown { name, region, servers, status, deleting })
    })
}

/// The lists of security groups, certificate authorities and servers.
pub fn machines([groups, authorities, servers]: [&Value; 3]) -> Result<Shown, String> {
    Ok(Shown {
        groups: listed(groups, group)?,
        authorities: listed(authorities, |authority| Some(head(authority)))?,
        servers: listed(servers, server)?,
    })
}

fn group(group: &Value) -> Option<ShownGroup> {
    Some(ShownGroup {
        head: head(group),
        network: id_in(&group["status"]["networkId"])?,
        region: RegionId(id_in(&group["status"]["regionId"])?),
        port: group["spec"]["rules"][0]["port"].as_u64()?.try_into().ok()?,
    })
}

fn server(server: &Value) -> Option<ShownServer> {
    Some(ShownServer {
        head: head(server),
        network: id_in(&server["status"]["networkId"])?,
        region: RegionId(id_in(&server["status"]["regionId"])?),
        authority: id_in(&server["status"]["sshCertificateAuthorityId"]),
        asked: asked(&server["spec"])?,
        power: text(&server["status"]["powerState"]),
        instance: tag(server, INSTANCE_TAG).as_ref().and_then(id_in),
    })
}

fn tag(resource: &Value, name: &str) -> Option<Value> {
    let mut tags = resource["metadata"]["tags"].as_array().into_iter().flatten();
    tags.find(|tag| tag["name"] == name).map(|tag| tag["value"].clone())
}

/// What a server's specification asks for.
pub fn asked(spec: &Value) -> Option<Asked> {
    let networking = &spec["networking"];
    Some(Asked {
        groups: networking["securityGroups"].as_array().into_iter().flatten().filter_map(id_in).collect(),
        image: id_in(&spec["imageId"])?,
        public: networking["publicIP"].as_bool().unwrap_or_default(),
    })
}

/// A list of load balancers, volumes, file storages, images or instances: of everybody's, or only with this client's tag.
pub fn wares(list: &List, answer: &Value, label: Option<&str>) -> Result<wares::Shown, String> {
    let is_own = |resource: &Value| label.is_none_or(|label| tag(resource, "client").is_some_and(|of| of == label));
    let own = answer.as_array().ok_or_else(|| format!("not a list: {answer}"))?;
    let own = own.iter().filter(|resource| is_own(resource)).cloned().collect::<Vec<_>>();
    listed(&Value::from(own), |resource| {
        let status = &resource["status"];
        Some(ShownWare {
            ware: list.ware,
            head: ware_head(list.ware, resource),
            region: list.region.or_else(|| Some(RegionId(id_in(&status["regionId"])?)))?,
            network: id_in(&status["networkId"]),
            asked: ware_asked(list.ware, &resource["spec"])?,
            power: text(&status["powerState"]),
        })
    })
}

/// What a specification asks for.
pub fn ware_asked(ware: Ware, spec: &Value) -> Option<wares::Asked> {
    let door = |listener: &Value| {
        let port = listener["pool"]["members"][0]["port"].as_u64()?.try_into().ok()?;
        Some((text(&listener["name"]), port))
    };
    if ware == Ware::Instance {
        let Asked { groups, image, public } = asked(spec)?;
        let flavor = id_in(&spec["flavorId"]);
        return Some(wares::Asked { groups, image: Some(image), public, flavor, ..wares::Asked::default() });
    }
    let networks = spec["attachments"]["networkIds"].as_array();
    Some(wares::Asked {
        // How large an image is, its cloud says.
        size_gib: spec["sizeGiB"].as_u64().filter(|_| ware != Ware::Image).unwrap_or_default(),
        server: id_in(&spec["serverId"]),
        networks: networks.into_iter().flatten().filter_map(id_in).collect(),
        public: spec["publicIP"].as_bool().unwrap_or_default(),
        doors: spec["listeners"].as_array().into_iter().flatten().map(door).collect::<Option<_>>()?,
        ..wares::Asked::default()
    })
}
