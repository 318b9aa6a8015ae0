//! From the regions that are stored to the regions that are configured.

use jiff::Timestamp;

use super::{Configuration, ConfiguredRegion};
use crate::model::WRITER_VERSION;
use crate::model::ambient::Ambient;
use crate::model::ids::{Incarnation, Kind, RegionId};
use crate::model::metadata::{Metadata, Placement};
use crate::model::record::{Document, Record, Resource};
use crate::model::region::{Region, RegionSpec};
use crate::store::{Batch, Filter, PAGE_MAX, Page, Refusal, Store, StoreError, Write};

/// Who is said to have made and changed regions.
const AUTHOR: &str = "configuration";

/// Nobody else writes regions but another reading of the file.
const TRIES_MAX: usize = 8;

#[derive(Debug, thiserror::Error)]
pub enum RegionsError {
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Its resources live in the cloud that it was; another cloud would not find them and would make them anew.
    #[error("region {0} is stored with another type of provider: give the new one an id of its own")]
    TypeChanged(RegionId),
}

/// Brings the stored regions to what the file says.
pub async fn apply(store: &dyn Store, ambient: &Ambient, wanted: &Configuration) -> Result<(), RegionsError> {
    for _ in 0..TRIES_MAX {
        let stored = stored_regions(store).await?;
        let draw = || Incarnation(ambient.uuid());
        let writes = reconcile_regions(&stored, &wanted.regions, ambient.now(), draw)?;
        if writes.is_empty() {
            return Ok(());
        }
        match store.commit(Batch::of(writes)).await {
            Ok(_) => return Ok(()),
            Err(StoreError::Refused(Refusal::Conflict(_) | Refusal::Exists(_))) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Err(StoreError::Unavailable("regions are being changed by somebody else".to_owned()).into())
}

async fn stored_regions(store: &dyn Store) -> Result<Vec<Resource<Region>>, StoreError> {
    let mut regions = Vec::new();
    let mut page = Page::FIRST;
    loop {
        let records = store.list(&Filter::of(Kind::Region), page).await?;
        for record in &records {
            regions.push(record.open::<Region>()?);
        }
        match records.last() {
            Some(last) if records.len() >= PAGE_MAX => page = Page::after(last.key.id),
            _ => return Ok(regions),
        }
    }
}

/// What has to be written. A region that is no longer configured is kept and marked, whether or not it has
/// resources: whether it has is known only at one moment, and a mark can be taken back by configuring it again.
pub fn reconcile_regions(
    stored: &[Resource<Region>],
    configured: &[ConfiguredRegion],
    now: Timestamp,
    mut draw: impl FnMut() -> Incarnation,
) -> Result<Vec<Write>, RegionsError> {
    let mut writes = Vec::new();
    for wanted in configured {
        match stored.iter().find(|region| region.key == wanted.id.key()) {
            None => writes.push(insertion(wanted, draw(), now)),
            Some(region) if region.spec.region_type() != wanted.spec.region_type() => {
                return Err(RegionsError::TypeChanged(wanted.id));
            }
            Some(region) => writes.extend(changed(region, wanted.clone(), now)),
        }
    }
    for region in stored {
        if configured.iter().all(|wanted| wanted.id.key() != region.key) && !region.spec.withdrawn {
            let spec = RegionSpec { withdrawn: true, ..region.spec.clone() };
            writes.push(intent(region, region.metadata.clone(), &spec, now));
        }
    }
    Ok(writes)
}

fn insertion(wanted: &ConfiguredRegion, incarnation: Incarnation, now: Timestamp) -> Write {
    let metadata = Metadata {
        description: wanted.description.clone(),
        tags: wanted.tags.clone(),
        ..Metadata::new(incarnation, &wanted.name, Placement::default(), AUTHOR, now)
    };
    Write::Insert(Box::new(Record::new::<Region>(wanted.id.0, metadata, &wanted.spec)))
}

fn changed(region: &Resource<Region>, wanted: ConfiguredRegion, now: Timestamp) -> Option<Write> {
    let old = &region.metadata;
    let metadata = Metadata { name: wanted.name, description: wanted.description, tags: wanted.tags, ..old.clone() };
    let same = metadata == *old && wanted.spec == region.spec;
    (!same).then(|| intent(region, metadata, &wanted.spec, now))
}

fn intent(region: &Resource<Region>, metadata: Metadata, spec: &RegionSpec, now: Timestamp) -> Write {
    let metadata = Metadata {
        generation: metadata.generation + u64::from(*spec != region.spec),
        modifier: Some(AUTHOR.to_owned()),
        modified: Some(now),
        writer_version: WRITER_VERSION,
        ..metadata
    };
    Write::Intent { key: region.key, expected: region.revision, metadata: Box::new(metadata), spec: Document::of(spec) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::region::{KubernetesSettings, ProviderSettings, SimulatedSettings};
    use uuid::Uuid;

    const NOW: Timestamp = Timestamp::UNIX_EPOCH;

    fn wanted(number: u128, name: &str) -> ConfiguredRegion {
        let provider = ProviderSettings::Simulated(SimulatedSettings::default());
        ConfiguredRegion {
            id: RegionId(Uuid::from_u128(number)),
            name: name.to_owned(),
            description: None,
            tags: None,
            spec: RegionSpec { provider, organizations: None, withdrawn: false },
        }
    }

    fn reconciled(stored: &[Resource<Region>], configured: &[ConfiguredRegion]) -> Result<Vec<Write>, RegionsError> {
        reconcile_regions(stored, configured, NOW, || Incarnation(Uuid::from_u128(99)))
    }

    /// What the store would hold after the writes.
    fn after(mut stored: Vec<Resource<Region>>, writes: Vec<Write>) -> Vec<Resource<Region>> {
        for write in writes {
            match write {
                Write::Insert(record) => stored.push(record.open().expect("opens")),
                Write::Intent { key, expected, metadata, spec } => {
                    let region = stored.iter_mut().find(|region| region.key == key).expect("it is there");
                    assert_eq!(region.revision, expected);
                    region.metadata = *metadata;
                    region.spec = spec.read().expect("reads");
                    region.revision = expected.next();
                }
                other => panic!("not a write of regions: {other:?}"),
            }
        }
        stored
    }

    fn run(stored: Vec<Resource<Region>>, configured: &[ConfiguredRegion]) -> Vec<Resource<Region>> {
        let writes = reconciled(&stored, configured).expect("reconciles");
        let stored = after(stored, writes);
        assert!(reconciled(&stored, configured).expect("reconciles").is_empty(), "the second time nothing is to do");
        stored
    }

    #[test]
    fn regions_appear_change_withdraw_and_return() {
        let stored = run(vec![], &[wanted(1, "a"), wanted(2, "b")]);
        assert_eq!(stored.len(), 2);
        let stored = run(stored, &[wanted(1, "renamed")]);
        assert_eq!(stored[0].metadata.name, "renamed");
        assert_eq!((stored[0].metadata.generation, stored[1].metadata.generation), (1, 2));
        assert!(stored[1].spec.withdrawn && !stored[0].spec.withdrawn);
        let stored = run(stored, &[wanted(1, "renamed"), wanted(2, "b")]);
        assert!(!stored[1].spec.withdrawn);
        assert!(run(stored, &[]).iter().all(|region| region.spec.withdrawn));
    }

    #[test]
    fn a_region_does_not_become_another_cloud() {
        let stored = run(vec![], &[wanted(1, "a")]);
        let mut other = wanted(1, "a");
        other.spec.provider =
            ProviderSettings::Kubernetes(KubernetesSettings { kubeconfig_file: "f".to_owned(), domain_name: None });
        assert!(matches!(reconciled(&stored, &[other]), Err(RegionsError::TypeChanged(_))));
    }
}
