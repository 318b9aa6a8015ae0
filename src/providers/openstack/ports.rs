//! Ports and floating addresses: what a server and a load balancer stand on.
//!
//! A port is found by its name, and a floating address by the port that it leads to. What they are for is also in their
//! descriptions, with the incarnation: so a floating address whose port was taken away under it is still found.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use openstack_sdk_core::types::ServiceType;
use openstack_sdk_network::v2::floatingip::{
    delete as delete_floating_ip, get as get_floating_ip, list as list_floating_ips,
};
use openstack_sdk_network::v2::port::{delete as delete_port, get as get_port, list as list_ports};
use openstack_sdk_network::v2::subnet::list as list_subnets;
use serde::{Deserialize, Deserializer};
use serde_json::{Value, json};

use super::asking::Ask;
use super::connection::Acting;
use super::doubles::{Marked, choose, taken_away};
use super::names::{self, Claim};
use super::session::{Session, at_most_one, on};
use crate::model::ids::{Incarnation, NetworkId, ProviderFloatingIpId, ServerId};
use crate::providers::fingerprint::Fingerprint;
use crate::providers::pool::Service;
use crate::providers::{Observed, ProviderError, ProviderResult, PublicAddress};

/// What a cloud leaves out and what it calls `null` are both nothing.
pub(super) fn nothing_if_null<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub(super) struct PortBody {
    pub id: String,
    #[serde(default, deserialize_with = "nothing_if_null")]
    pub name: String,
    #[serde(default, deserialize_with = "nothing_if_null")]
    pub description: String,
    /// Who uses it; empty while nobody does.
    #[serde(default, deserialize_with = "nothing_if_null")]
    pub device_id: String,
    #[serde(default, deserialize_with = "nothing_if_null")]
    pub mac_address: String,
    #[serde(default, deserialize_with = "nothing_if_null")]
    pub fixed_ips: Vec<FixedAddress>,
    #[serde(default, deserialize_with = "nothing_if_null")]
    pub security_groups: Vec<String>,
    #[serde(default, deserialize_with = "nothing_if_null")]
    pub allowed_address_pairs: Vec<PairBody>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub(super) struct FixedAddress {
    #[serde(default, deserialize_with = "nothing_if_null")]
    pub ip_address: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub(super) struct PairBody {
    pub ip_address: String,
    #[serde(default, deserialize_with = "nothing_if_null")]
    pub mac_address: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
pub(super) struct FloatingIpBody {
    pub id: String,
    pub floating_ip_address: String,
    #[serde(default, deserialize_with = "nothing_if_null")]
    pub port_id: String,
    #[serde(default, deserialize_with = "nothing_if_null")]
    pub description: String,
    #[serde(default, deserialize_with = "nothing_if_null")]
    pub status: String,
}

/// What of a port can be changed, in the one form in which it is compared.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct PortOptions {
    pub security_groups: BTreeSet<String>,
    /// Prefixes, and the hardware address where it is another than the port's own.
    pub allowed: BTreeSet<(String, Option<String>)>,
}

impl PortOptions {
    /// For a port with this hardware address: what it may send with anyhow need not be said.
    pub fn of_port(&self, mac_address: &str) -> Self {
        let own = |mac: &String| mac.eq_ignore_ascii_case(mac_address);
        let allowed = self.allowed.iter().map(|(net, mac)| (net.clone(), mac.clone().filter(|mac| !own(mac))));
        Self { security_groups: self.security_groups.clone(), allowed: allowed.collect() }
    }

    fn pairs(&self) -> Value {
        let pair = |(net, mac): &(String, Option<String>)| {
            mac.as_ref()
                .map_or_else(|| json!({"ip_address": net}), |mac| json!({"ip_address": net, "mac_address": mac}))
        };
        self.allowed.iter().map(pair).collect()
    }
}

impl Marked for PortBody {
    const WORD: &'static str = "port";
    fn id(&self) -> &str {
        &self.id
    }
    fn incarnation(&self) -> Option<Incarnation> {
        names::incarnation_in(&self.description)
    }
}

impl PortBody {
    pub fn address(&self) -> Option<Ipv4Addr> {
        self.fixed_ips.iter().find_map(|fixed| fixed.ip_address.parse().ok())
    }

    pub fn options(&self) -> PortOptions {
        let whole = |net: &str| if net.contains('/') { net.to_owned() } else { format!("{net}/32") };
        let pair = |pair: &PairBody| {
            let mac = Some(pair.mac_address.to_ascii_lowercase()).filter(|mac| !mac.is_empty());
            (whole(&pair.ip_address), mac)
        };
        let seen = PortOptions {
            security_groups: self.security_groups.iter().cloned().collect(),
            allowed: self.allowed_address_pairs.iter().map(pair).collect(),
        };
        seen.of_port(&self.mac_address)
    }

    pub fn claim(&self, incarnation: Incarnation) -> Claim {
        Claim::of(names::incarnation_in(&self.description), incarnation)
    }

    pub fn digest(&self, digest: &mut Fingerprint) {
        digest.text(&self.id);
        digest.text(&self.description);
        digest.text(&self.mac_address);
        digest.number(self.address().map_or(0, u32::from));
        let options = self.options();
        digest.number(options.security_groups.len() as u64);
        options.security_groups.iter().for_each(|group| digest.text(group));
        digest.number(options.allowed.len() as u64);
        for (net, mac) in &options.allowed {
            digest.text(net);
            digest.text(mac.as_deref().unwrap_or_default());
        }
    }
}

impl FloatingIpBody {
    pub fn address(&self) -> Option<Ipv4Addr> {
        self.floating_ip_address.parse().ok()
    }

    pub fn has_failed(&self) -> bool {
        self.status.eq_ignore_ascii_case("error")
    }

    pub fn claim(&self, incarnation: Incarnation) -> Claim {
        Claim::of(names::incarnation_in(&self.description), incarnation)
    }

    pub fn digest(&self, digest: &mut Fingerprint) {
        digest.text(&self.id);
        digest.text(&self.floating_ip_address);
        digest.text(&self.port_id);
        digest.text(&self.description);
        digest.number(self.has_failed());
    }

    /// As it is told of a load balancer.
    pub fn public_address(&self) -> Option<PublicAddress> {
        let mut digest = Fingerprint::new();
        self.digest(&mut digest);
        let id = ProviderFloatingIpId(self.id.clone());
        Some(PublicAddress { id, address: self.address()?, fingerprint: digest.value() })
    }
}

/// A port to be made.
pub(super) struct NewPort {
    pub name: String,
    pub network: String,
    pub description: String,
    /// `None`: the cloud's own default.
    pub options: Option<PortOptions>,
    pub address: Option<Ipv4Addr>,
}

impl NewPort {
    fn body(&self) -> Value {
        let mut port = json!({"name": self.name, "network_id": self.network, "description": self.description});
        if let Some(options) = &self.options {
            port["security_groups"] = json!(options.security_groups);
            port["allowed_address_pairs"] = options.pairs();
        }
        if let Some(address) = self.address {
            port["fixed_ips"] = json!([{"ip_address": address}]);
        }
        json!({"port": port})
    }
}

impl Session<'_> {
    /// The ports of this name that are nobody else's, and the one on record if it is not among them.
    pub async fn find_ports(
        &self,
        acting: &Acting,
        name: &str,
        incarnation: Incarnation,
        known: Option<&str>,
    ) -> ProviderResult<Observed<Vec<PortBody>>> {
        let endpoint = list_ports::Request::builder().name(name.to_owned()).build();
        let mut found: Observed<Vec<PortBody>> =
            self.read(acting, on(Service::Network, "find-ports", name), endpoint).await?;
        let is_ours = |port: &PortBody| port.name == name && port.claim(incarnation) != Claim::Another;
        found.fact.retain(is_ours);
        if let Some(known) = known.filter(|known| found.fact.iter().all(|port| port.id != *known)) {
            found.fact.extend(self.port(acting, known).await?.filter(is_ours));
        }
        Ok(found)
    }

    /// The ports of a server that only its id is known of.
    pub async fn ports_of_server(&self, acting: &Acting, server: ServerId) -> ProviderResult<Vec<PortBody>> {
        let name = names::server_port(server);
        let endpoint = list_ports::Request::builder().name(name.clone()).build();
        let mut found: Vec<PortBody> =
            self.read(acting, on(Service::Network, "find-ports", &name), endpoint).await?.fact;
        found.retain(|port| port.name == name);
        Ok(found)
    }

    pub async fn port(&self, acting: &Acting, id: &str) -> ProviderResult<Option<PortBody>> {
        let endpoint = get_port::Request::builder().id(id.to_owned()).build();
        let seen: Option<Observed<PortBody>> =
            self.look(acting, on(Service::Network, "get-port", id), endpoint).await?;
        Ok(seen.map(|seen| seen.fact))
    }

    /// The only port; of several the one that something has, and the others go.
    pub async fn only_port(
        &self,
        acting: &Acting,
        ports: Vec<PortBody>,
        known: Option<&str>,
    ) -> ProviderResult<Option<PortBody>> {
        let ports = choose(ports, known, |port| !port.device_id.is_empty())?;
        for double in &ports.doubles {
            self.delete_port(acting, &double.id).await?;
        }
        match ports.doubles.first() {
            Some(double) => Err(taken_away(&double.name)),
            None => Ok(ports.first),
        }
    }

    pub async fn create_port(&self, acting: &Acting, new: &NewPort) -> ProviderResult<PortBody> {
        let ask = Ask::post(ServiceType::Network, "ports".to_owned(), new.body()).within("port");
        self.change(acting, on(Service::Network, "create-port", &new.name), ask.build()).await
    }

    /// Sets what differs right, and says whose it is.
    pub async fn update_port(
        &self,
        acting: &Acting,
        id: &str,
        options: &PortOptions,
        description: &str,
    ) -> ProviderResult<PortBody> {
        let body = json!({"port": {
            "security_groups": options.security_groups,
            "allowed_address_pairs": options.pairs(),
            "description": description,
        }});
        let ask = Ask::put(ServiceType::Network, format!("ports/{id}"), body).within("port");
        self.change(acting, on(Service::Network, "update-port", id), ask.build()).await
    }

    /// Nobody has it any more.
    pub async fn free_port(&self, acting: &Acting, id: &str) -> ProviderResult<PortBody> {
        let body = json!({"port": {"device_id": "", "device_owner": ""}});
        let ask = Ask::put(ServiceType::Network, format!("ports/{id}"), body).within("port");
        self.change(acting, on(Service::Network, "free-port", id), ask.build()).await
    }

    pub async fn delete_port(&self, acting: &Acting, id: &str) -> ProviderResult<()> {
        let endpoint = delete_port::Request::builder().id(id.to_owned()).build();
        self.take_away(acting, on(Service::Network, "delete-port", id), endpoint).await
    }

    /// The floating addresses that lead to a port, those that say that they are for this, and the one on record.
    pub async fn find_floating_ips(
        &self,
        acting: &Acting,
        port: Option<&str>,
        description: &str,
        incarnation: Incarnation,
        known: Option<&str>,
    ) -> ProviderResult<Observed<Vec<FloatingIpBody>>> {
        let endpoint = list_floating_ips::Request::builder().description(description.to_owned()).build();
        let operation = on(Service::Network, "find-floating-ips", description);
        let mut found: Observed<Vec<FloatingIpBody>> = self.read(acting, operation, endpoint).await?;
        found.fact.retain(|floating_ip| floating_ip.description == description);
        if let Some(port) = port.filter(|_| found.fact.is_empty()) {
            let endpoint = list_floating_ips::Request::builder().port_id(port.to_owned()).build();
            let operation = on(Service::Network, "find-floating-ips-of-port", port);
            let listed: Observed<Vec<FloatingIpBody>> = self.read(acting, operation, endpoint).await?;
            found.fact.extend(listed.fact.into_iter().filter(|floating_ip| floating_ip.port_id == port));
        }
        if let Some(known) = known.filter(|known| found.fact.iter().all(|floating_ip| floating_ip.id != *known)) {
            let is_ours = |seen: &FloatingIpBody| seen.claim(incarnation) == Claim::Ours;
            found.fact.extend(self.floating_ip(acting, known).await?.filter(is_ours));
        }
        Ok(found)
    }

    pub async fn floating_ip(&self, acting: &Acting, id: &str) -> ProviderResult<Option<FloatingIpBody>> {
        let endpoint = get_floating_ip::Request::builder().id(id.to_owned()).build();
        let seen: Option<Observed<FloatingIpBody>> =
            self.look(acting, on(Service::Network, "get-floating-ip", id), endpoint).await?;
        Ok(seen.map(|seen| seen.fact))
    }

    pub async fn create_floating_ip(
        &self,
        acting: &Acting,
        port: &str,
        description: &str,
    ) -> ProviderResult<FloatingIpBody> {
        let outside = self.way_out().await?;
        let body = json!({"floatingip": {
            "floating_network_id": outside.0, "port_id": port, "description": description,
        }});
        let ask = Ask::post(ServiceType::Network, "floatingips".to_owned(), body).within("floatingip");
        self.change(acting, on(Service::Network, "create-floating-ip", port), ask.build()).await
    }

    /// Leads it to the port, and says whose it is.
    pub async fn update_floating_ip(
        &self,
        acting: &Acting,
        id: &str,
        port: &str,
        description: &str,
    ) -> ProviderResult<FloatingIpBody> {
        let body = json!({"floatingip": {"port_id": port, "description": description}});
        let ask = Ask::put(ServiceType::Network, format!("floatingips/{id}"), body).within("floatingip");
        self.change(acting, on(Service::Network, "update-floating-ip", id), ask.build()).await
    }

    pub async fn delete_floating_ip(&self, acting: &Acting, id: &str) -> ProviderResult<()> {
        let endpoint = delete_floating_ip::Request::builder().id(id.to_owned()).build();
        self.take_away(acting, on(Service::Network, "delete-floating-ip", id), endpoint).await
    }

    /// The cloud's id of the network that something is to be made on: of the one with a subnet. It was there a moment ago,
    /// so that it is not there now is not final.
    pub async fn network_of(&self, acting: &Acting, network: NetworkId) -> ProviderResult<String> {
        let name = names::network(network);
        let endpoint = list_subnets::Request::builder().name(name.clone()).build();
        let mut found: Vec<SubnetPlace> =
            self.read(acting, on(Service::Network, "find-subnet-place", &name), endpoint).await?.fact;
        found.retain(|subnet| subnet.name == name);
        let missing = || ProviderError::Conflict("the network is not there".to_owned());
        at_most_one(found, "subnet")?.map(|subnet| subnet.network_id).ok_or_else(missing)
    }
}

/// A network's subnet, as far as something is made on it.
#[derive(Clone, Deserialize)]
struct SubnetPlace {
    #[serde(default, deserialize_with = "nothing_if_null")]
    name: String,
    network_id: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: &str = "fa:16:3e:00:00:01";

    fn pair(net: &str, mac: Option<&str>) -> (String, Option<String>) {
        (net.to_owned(), mac.map(str::to_owned))
    }

    fn port(pairs: &[(&str, &str)]) -> PortBody {
        let pairs =
            pairs.iter().map(|(net, mac)| PairBody { ip_address: (*net).into(), mac_address: (*mac).to_owned() });
        PortBody { mac_address: OWN.to_owned(), allowed_address_pairs: pairs.collect(), ..PortBody::default() }
    }

    #[test]
    fn b36_a_port_is_compared_in_one_form_so_that_nothing_is_written_that_is_so_already() {
        // The cloud fills in the port's own hardware address, and leaves single addresses without a length.
        let seen = port(&[("10.0.0.0/24", OWN), ("10.0.1.5", "FA:16:3E:00:00:02")]).options();
        let wanted = PortOptions {
            allowed: [pair("10.0.0.0/24", None), pair("10.0.1.5/32", Some("fa:16:3e:00:00:02"))].into(),
            ..PortOptions::default()
        };
        assert_eq!(seen, wanted);
        let spelled_out = PortOptions { allowed: [pair("10.0.0.0/24", Some(OWN))].into(), ..PortOptions::default() };
        assert_eq!(spelled_out.of_port(OWN), port(&[("10.0.0.0/24", OWN)]).options());
    }

    #[test]
    fn a_port_says_what_is_asked_for_and_nothing_else() {
        let options = PortOptions {
            security_groups: BTreeSet::from(["g".to_owned()]),
            allowed: [pair("10.0.0.0/24", None), pair("10.0.1.5/32", Some(OWN))].into(),
        };
        let new = NewPort {
            name: "server-1".to_owned(),
            network: "n".to_owned(),
            description: "d".to_owned(),
            options: Some(options),
            address: Some([10, 0, 0, 9].into()),
        };
        let expected = json!({"port": {
            "name": "server-1", "network_id": "n", "description": "d", "security_groups": ["g"],
            "allowed_address_pairs": [
                {"ip_address": "10.0.0.0/24"}, {"ip_address": "10.0.1.5/32", "mac_address": OWN},
            ],
            "fixed_ips": [{"ip_address": "10.0.0.9"}],
        }});
        assert_eq!(new.body(), expected);
    }

    #[test]
    fn what_a_cloud_leaves_out_or_calls_null_is_nothing() {
        let port: PortBody = serde_json::from_value(json!({"id": "p", "device_id": null})).expect("a port");
        assert_eq!(port, PortBody { id: "p".to_owned(), ..PortBody::default() });
        let said = json!({"id": "f", "floating_ip_address": "203.0.113.7", "port_id": null, "status": "ERROR"});
        let floating_ip: FloatingIpBody = serde_json::from_value(said).expect("a floating address");
        assert!(floating_ip.has_failed() && floating_ip.port_id.is_empty());
        assert_eq!(floating_ip.address(), Some([203, 0, 113, 7].into()));
    }
}
