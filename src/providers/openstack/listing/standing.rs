//! What the objects of a page stand on: read beside it, in lists of its own.
//!
//! All of it is Neutron's, which may show everything although the service that the page comes from does not, and the other
//! way round. It is read when a sweep begins at a place, and kept for the pages that follow there.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use uuid::Uuid;

use super::super::connection::Acting;
use super::super::ports::FloatingIpBody;
use super::super::session::Session;
use super::reach::Place;
use super::{Kept, Line, Look, NAMES_MAX, Source};
use crate::providers::pool::Service;
use crate::providers::{Observed, ProviderResult, Sequence};

/// Who is asked for what belongs to the objects of a page.
pub(super) struct Beside {
    acting: Vec<Acting>,
    /// What is read there, is kept under this; `None` where only a part of it is read.
    name: Option<String>,
    is_begun_here: bool,
}

impl Beside {
    /// Is it read for a few objects alone?
    pub const fn is_narrow(&self) -> bool {
        self.name.is_none()
    }

    /// What was read when the sweep began there.
    pub fn held<T>(&self, slot: &Kept<T>) -> Option<Arc<T>> {
        slot.get(self.name.as_deref().filter(|_| !self.is_begun_here)?)
    }

    pub fn keep<T>(&self, slot: &mut Kept<T>, read: &Arc<T>) {
        if let Some(name) = &self.name {
            slot.put(name, read);
        }
    }
}

/// The earlier of two looks; where nobody was asked there was none.
pub(super) fn earlier(one: Sequence, other: Sequence) -> Sequence {
    match (one, other) {
        (Sequence(0), only) | (only, Sequence(0)) => only,
        (one, other) => one.min(other),
    }
}

/// Floating addresses, by what they say that they are for, and by the port that they lead to.
pub(super) struct Addresses {
    pub sequence: Sequence,
    by_description: BTreeMap<String, FloatingIpBody>,
    by_port: BTreeMap<String, FloatingIpBody>,
}

impl Addresses {
    fn of(listed: Observed<Vec<FloatingIpBody>>) -> Self {
        let Observed { sequence, fact } = listed;
        let by_description = fact.iter().map(|seen| (seen.description.clone(), seen.clone())).collect();
        Self { sequence, by_description, by_port: fact.into_iter().map(|seen| (seen.port_id.clone(), seen)).collect() }
    }

    /// As a convergence looks for it.
    pub fn find(&self, description: &str, port: Option<&str>) -> Option<&FloatingIpBody> {
        let by_port = || self.by_port.get(port.filter(|port| !port.is_empty())?);
        self.by_description.get(description).or_else(by_port)
    }
}

impl Line for FloatingIpBody {
    fn id(&self) -> &str {
        &self.id
    }
    fn of(&self) -> Option<Uuid> {
        None
    }
}

impl Session<'_> {
    pub(super) async fn beside(&self, look: Look<'_>, place: &Place) -> ProviderResult<Beside> {
        let is_narrow = look.only.is_some_and(|only| only.len() <= NAMES_MAX);
        let sees_everything = self.sees_everything(Service::Network).await?;
        let (acting, name, is_begun_here) = match &place.project {
            Some(project) if !sees_everything => {
                (vec![Acting::Steward(project.clone())], project.0.clone(), place.is_begun_here())
            }
            None if !sees_everything => {
                let projects = self.projects().await?;
                let stewards = projects.iter().map(|project| Acting::Steward(project.id.clone()));
                (stewards.collect(), "everywhere".to_owned(), look.after.is_none())
            }
            _ => (vec![Acting::Observer], "everything".to_owned(), look.after.is_none()),
        };
        Ok(Beside { acting, name: Some(name).filter(|_| !is_narrow), is_begun_here })
    }

    /// All of a list, wherever it has to be read.
    pub(super) async fn all_beside<T>(&self, beside: &Beside, source: &Source) -> ProviderResult<Observed<Vec<T>>>
    where
        T: DeserializeOwned + Send + Line + 'static,
    {
        let mut all = Observed { sequence: Sequence::default(), fact: Vec::new() };
        for acting in &beside.acting {
            let read = self.all(acting, source).await?;
            all.sequence = earlier(all.sequence, read.sequence);
            all.fact.extend(read.fact);
        }
        Ok(all)
    }

    /// The floating addresses: all of them, or those that lead to the ports of a few.
    pub(super) async fn addresses(&self, beside: &Beside, ports: Vec<String>) -> ProviderResult<Arc<Addresses>> {
        if beside.is_narrow() && ports.is_empty() {
            return Ok(Arc::new(Addresses::of(Observed { sequence: Sequence::default(), fact: Vec::new() })));
        }
        if let Some(held) = beside.held(&self.sweeps().addresses) {
            return Ok(held);
        }
        let source = Source::new(Service::Network, "floatingips", "list-floating-ips");
        let ports = Some(ports).filter(|_| beside.is_narrow()).unwrap_or_default();
        let listed = self.all_beside(beside, &source.with("port_id", ports)).await?;
        let addresses = Arc::new(Addresses::of(listed));
        beside.keep(&mut self.sweeps().addresses, &addresses);
        Ok(addresses)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earlier_look_counts_and_one_that_was_not_made_does_not() {
        assert_eq!(earlier(Sequence(2), Sequence(3)), Sequence(2));
        assert_eq!(earlier(Sequence(0), Sequence(3)), Sequence(3));
        assert_eq!(earlier(Sequence(2), Sequence(0)), Sequence(2));
    }

    #[test]
    fn an_address_is_found_by_what_it_says_first_and_then_by_its_port() {
        let address = |id: &str, description: &str, port: &str| FloatingIpBody {
            id: id.to_owned(),
            description: description.to_owned(),
            port_id: port.to_owned(),
            ..FloatingIpBody::default()
        };
        let fact = vec![address("said", "ours", ""), address("led", "", "p")];
        let addresses = Addresses::of(Observed { sequence: Sequence(1), fact });
        let found = |description, port| addresses.find(description, port).map(|found| found.id.as_str());
        assert_eq!(found("ours", Some("p")), Some("said"));
        assert_eq!(found("theirs", Some("p")), Some("led"));
        assert_eq!(found("theirs", None), None);
        assert_eq!(found("theirs", Some("")), None, "what leads nowhere is not for whoever has no port");
    }
}
