//! What the cloud offers: flavors, images, classes of storage, ways out.
//!
//! The calls are at the top; what is offered of what was listed is below them, without calls.

use std::collections::BTreeMap;
use std::sync::PoisonError;

use jiff::Timestamp;
use openstack_sdk_block_storage::v3::r#type::list as list_types;
use openstack_sdk_compute::v2::flavor::list_detailed_20 as list_flavors;
use openstack_sdk_image::v2::image::list as list_images;
use openstack_sdk_network::v2::network::list as list_networks;
use serde::Deserialize;
use serde_json::Value;

use super::connection::Acting;
use super::session::{Link, Session, Whole, has_next, on};
use crate::model::ids::{FlavorId, ImageId, ProviderExternalNetworkId, VolumeClassId};
use crate::model::openstack::{
    ExternalNetworkSelector, FlavorMetadata, FlavorSettings, MediaWord, VolumeClassSettings, flavor_id,
};
use crate::providers::image_schema::ImageEntry;
use crate::providers::pool::Service;
use crate::providers::types::{
    Architecture, ExternalNetwork, Flavor, FlavorGpu, Image, Media, Performance, VolumeClass,
};
use crate::providers::{ProviderError, ProviderResult};

/// How much is asked for at a time: what most services allow at most.
const PAGE_MAX: u32 = 1000;

/// How many pages of offers are read. A catalogue that is longer is not a catalogue.
const PAGES_MAX: usize = 20;

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

#[derive(Clone, Debug, Deserialize)]
pub(super) struct FlavorBody {
    pub id: String,
    pub name: String,
    pub vcpus: u32,
    #[serde(rename = "ram")]
    pub memory_mib: u64,
    #[serde(rename = "disk")]
    pub disk_gib: u64,
    #[serde(rename = "os-flavor-access:is_public", default)]
    pub is_public: bool,
    /// What the scheduler looks at.
    #[serde(default)]
    pub extra_specs: BTreeMap<String, String>,
}

#[derive(Clone, Deserialize)]
struct FlavorPage {
    flavors: Vec<FlavorBody>,
    #[serde(default)]
    flavors_links: Vec<Link>,
}

#[derive(Clone, Deserialize)]
struct ImagePage {
    images: Vec<ImageBody>,
    next: Option<String>,
}

#[derive(Clone, Deserialize)]
struct ImageBody {
    id: ImageId,
    #[serde(default)]
    name: Option<String>,
    status: String,
    created_at: Timestamp,
    updated_at: Timestamp,
    #[serde(default)]
    min_disk: u32,
    virtual_size: Option<u64>,
    #[serde(flatten)]
    properties: BTreeMap<String, Value>,
}

#[derive(Clone, Deserialize)]
struct VolumeTypeBody {
    id: VolumeClassId,
    name: String,
    description: Option<String>,
}

#[derive(Clone, Deserialize)]
struct ExternalNetworkBody {
    id: String,
    #[serde(default)]
    name: String,
    #[serde(default)]
    tags: Vec<String>,
}

impl Session<'_> {
    pub async fn flavors(&self) -> ProviderResult<Vec<Flavor>> {
        Ok(offered_flavors(&self.all_flavors().await?, &self.provider.settings.compute.flavors))
    }

    /// Every flavor that the cloud shows us, with what the scheduler looks at.
    pub(super) async fn all_flavors(&self) -> ProviderResult<Vec<FlavorBody>> {
        let mut all = Vec::<FlavorBody>::new();
        for _ in 0..PAGES_MAX {
            let after = all.last().map(|flavor| flavor.id.clone());
            let mut builder = list_flavors::Request::builder();
            builder.limit(PAGE_MAX);
            if let Some(id) = &after {
                builder.marker(id.clone());
            }
            let operation = on(Service::Compute, "list-flavors", after.unwrap_or_default());
            let page: FlavorPage = self.read(&Acting::Observer, operation, builder.build().map(Whole)).await?.fact;
            let is_last = page.flavors.is_empty() || !has_next(&page.flavors_links);
            all.extend(page.flavors);
            if is_last {
                break;
            }
        }
        Ok(all)
    }

    /// A flavor by the id that the cloud itself knows it by.
    pub async fn own_flavor(&self, id: FlavorId) -> ProviderResult<FlavorBody> {
        let found = self.all_flavors().await?.into_iter().find(|flavor| flavor_id(&flavor.id) == id);
        found.ok_or_else(|| ProviderError::Rejected("the cloud does not have the flavor".to_owned()))
    }

    pub async fn images(&self) -> ProviderResult<Vec<Image>> {
        let mut entries = Vec::<ImageEntry>::new();
        for _ in 0..PAGES_MAX {
            let after = entries.last().map(|entry| entry.id.to_string());
            let mut builder = list_images::Request::builder();
            builder.visibility("public").limit(PAGE_MAX.cast_signed());
            if let Some(id) = &after {
                builder.marker(id.clone());
            }
            let operation = on(Service::Image, "list-images", after.unwrap_or_default());
            let page: ImagePage = self.read(&Acting::Observer, operation, builder.build().map(Whole)).await?.fact;
            let is_last = page.images.is_empty() || page.next.is_none();
            entries.extend(page.images.into_iter().map(ImageBody::entry));
            if is_last {
                break;
            }
        }
        entries.sort_by_key(|entry| (entry.created, entry.id));
        let mut unfit = self.provider.unfit.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(unfit.offered(&entries, self.provider.signing_key.as_ref()))
    }

    pub async fn volume_classes(&self) -> ProviderResult<Vec<VolumeClass>> {
        let settings = &self.provider.settings.block_storage.volume_classes;
        if settings.ids.is_empty() {
            return Ok(Vec::new());
        }
        let endpoint = list_types::Request::builder().build();
        let listed: Vec<VolumeTypeBody> =
            self.read(&Acting::Observer, on(Service::BlockStorage, "list-types", ""), endpoint).await?.fact;
        Ok(offered_classes(listed, settings))
    }

    pub async fn external_networks(&self) -> ProviderResult<Vec<ExternalNetwork>> {
        let endpoint = list_networks::Request::builder().router_external(true).build();
        let operation = on(Service::Network, "list-external-networks", "");
        let listed: Vec<ExternalNetworkBody> = self.read(&Acting::Observer, operation, endpoint).await?.fact;
        Ok(selected_networks(listed, &self.provider.settings.network.external_networks))
    }

    /// The external network that routers and floating addresses lead to (B14).
    pub async fn way_out(&self) -> ProviderResult<ProviderExternalNetworkId> {
        let first = self.external_networks().await?.into_iter().next();
        let none = || ProviderError::Rejected("the region has no external network, or selects none".to_owned());
        first.map(|network| network.id).ok_or_else(none)
    }
}

impl ImageBody {
    /// Glance writes properties beside its own fields; those that are no texts are its own.
    fn entry(self) -> ImageEntry {
        let text = |(name, value): (String, Value)| Some((name, value.as_str()?.to_owned()));
        ImageEntry {
            id: self.id,
            name: self.name.unwrap_or_default(),
            status: self.status,
            created: self.created_at,
            modified: self.updated_at,
            min_disk_gib: self.min_disk,
            virtual_size_bytes: self.virtual_size.unwrap_or_default(),
            properties: self.properties.into_iter().filter_map(text).collect(),
        }
    }
}

/// Those that everybody may use and the region selects, by name.
fn offered_flavors(listed: &[FlavorBody], settings: &FlavorSettings) -> Vec<Flavor> {
    let is_selected =
        |flavor: &&FlavorBody| settings.selector.as_ref().is_none_or(|only| only.ids.contains(&flavor.id));
    let offered = listed.iter().filter(|flavor| flavor.is_public).filter(is_selected);
    let metadata = |id: &str| settings.metadata.iter().find(|metadata| metadata.id == id);
    let mut flavors = offered.map(|flavor| overlaid(flavor, metadata(&flavor.id))).collect::<Vec<_>>();
    flavors.sort_by(|one, other| (&one.name, one.id).cmp(&(&other.name, other.id)));
    flavors
}

fn overlaid(flavor: &FlavorBody, metadata: Option<&FlavorMetadata>) -> Flavor {
    let memory = metadata.and_then(|metadata| metadata.memory_gib).map(|gib| gib * GIB);
    let cpu = metadata.map(|metadata| metadata.cpu.clone()).unwrap_or_default();
    Flavor {
        id: flavor_id(&flavor.id),
        name: flavor.name.clone(),
        architecture: cpu.architecture.unwrap_or(Architecture::X86_64),
        cpus: cpu.count.unwrap_or(flavor.vcpus),
        cpu_family: cpu.family,
        memory_bytes: memory.unwrap_or(flavor.memory_mib * MIB),
        disk_bytes: flavor.disk_gib * GIB,
        gpu: metadata.and_then(|metadata| metadata.gpu.as_ref()).map(|gpu| FlavorGpu {
            vendor: gpu.vendor,
            model: gpu.model.clone(),
            memory_bytes: gpu.memory_gib * GIB,
            physical_count: gpu.physical_count,
            logical_count: gpu.logical_count,
        }),
        baremetal: metadata.is_some_and(|metadata| metadata.baremetal),
        pinned_only: metadata.is_some_and(|metadata| metadata.pinned_only),
    }
}

/// Those that are named: nothing is offered by accident.
fn offered_classes(listed: Vec<VolumeTypeBody>, settings: &VolumeClassSettings) -> Vec<VolumeClass> {
    let named = listed.into_iter().filter(|class| settings.ids.contains(&class.id));
    named
        .map(|class| {
            let metadata = settings.metadata.iter().find(|metadata| metadata.id == class.id);
            let performance = metadata.and_then(|metadata| metadata.performance);
            VolumeClass {
                id: class.id,
                name: class.name,
                description: class.description.filter(|text| !text.is_empty()),
                media: metadata.and_then(|metadata| metadata.media).map(|media| match media {
                    MediaWord::Hdd => Media::Hdd,
                    MediaWord::Ssd => Media::Ssd,
                    MediaWord::Nvme => Media::Nvme,
                }),
                performance: performance.map(|performance| Performance {
                    iops_max: performance.iops_max,
                    throughput_mib_per_second_max: performance.throughput_mib_per_second_max,
                }),
                encrypted: metadata.is_some_and(|metadata| metadata.encrypted),
            }
        })
        .collect()
}

/// Those that the region selects, in the order in which it names them, or by name.
fn selected_networks(listed: Vec<ExternalNetworkBody>, selector: &ExternalNetworkSelector) -> Vec<ExternalNetwork> {
    let place = |id: &str| selector.ids.iter().position(|wanted| wanted.0 == id);
    let is_selected = |network: &ExternalNetworkBody| {
        let has_tags = selector.tags.iter().all(|tag| network.tags.contains(tag));
        has_tags && (selector.ids.is_empty() || place(&network.id).is_some())
    };
    let mut selected = listed.into_iter().filter(is_selected).collect::<Vec<_>>();
    selected.sort_by_key(|network| (place(&network.id), network.name.clone(), network.id.clone()));
    let external = selected.into_iter();
    external.map(|network| ExternalNetwork { id: ProviderExternalNetworkId(network.id), name: network.name }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::openstack::{CpuMetadata, FlavorSelector, VolumeClassMetadata};

    fn flavor(id: &str, is_public: bool) -> FlavorBody {
        let name = format!("flavor {id}");
        let extra_specs = BTreeMap::new();
        FlavorBody { id: id.to_owned(), name, vcpus: 2, memory_mib: 2048, disk_gib: 10, is_public, extra_specs }
    }

    #[test]
    fn flavors_are_offered_if_they_are_public_and_selected_with_what_the_region_says_of_them() {
        let listed = [flavor("2", true), flavor("1", true), flavor("3", false)];
        let names = |settings: &FlavorSettings| {
            offered_flavors(&listed, settings).into_iter().map(|flavor| flavor.name).collect::<Vec<_>>()
        };
        assert_eq!(names(&FlavorSettings::default()), ["flavor 1", "flavor 2"]);
        let metadata = vec![FlavorMetadata {
            id: "2".to_owned(),
            baremetal: true,
            pinned_only: false,
            cpu: CpuMetadata { architecture: None, count: Some(64), family: None },
            memory_gib: Some(512),
            gpu: None,
        }];
        let selector = Some(FlavorSelector { ids: vec!["2".to_owned(), "3".to_owned()] });
        let settings = FlavorSettings { selector, metadata };
        let [only] = offered_flavors(&listed, &settings).try_into().expect("one");
        assert_eq!((only.cpus, only.memory_bytes, only.disk_bytes), (64, 512 * GIB, 10 * GIB));
        assert!(only.baremetal && !only.pinned_only);
        assert_eq!(only.id, flavor_id("2"));
    }

    #[test]
    fn no_class_of_storage_is_offered_unless_it_is_named() {
        let id = |number| VolumeClassId(uuid::Uuid::from_u128(number));
        let listed = || {
            let class = |number| VolumeTypeBody { id: id(number), name: number.to_string(), description: None };
            vec![class(1), class(2)]
        };
        assert_eq!(offered_classes(listed(), &VolumeClassSettings::default()), []);
        let metadata =
            vec![VolumeClassMetadata { id: id(2), media: Some(MediaWord::Nvme), performance: None, encrypted: true }];
        let settings = VolumeClassSettings { ids: vec![id(2)], metadata };
        let [only] = offered_classes(listed(), &settings).try_into().expect("one");
        assert_eq!((only.id, only.media, only.encrypted), (id(2), Some(Media::Nvme), true));
    }

    #[test]
    fn b14_the_way_out_is_the_first_that_the_region_names() {
        let network = |id: &str, name: &str, tags: &[&str]| ExternalNetworkBody {
            id: id.to_owned(),
            name: name.to_owned(),
            tags: tags.iter().map(|tag| (*tag).to_owned()).collect(),
        };
        let listed =
            || vec![network("a", "zulu", &["x"]), network("b", "alpha", &["x", "y"]), network("c", "mike", &[])];
        let chosen = |ids: &[&str], tags: &[&str]| {
            let ids = ids.iter().map(|id| ProviderExternalNetworkId((*id).to_owned())).collect();
            let tags = tags.iter().map(|tag| (*tag).to_owned()).collect();
            let selected = selected_networks(listed(), &ExternalNetworkSelector { ids, tags });
            selected.into_iter().map(|network| network.id.0).collect::<Vec<_>>()
        };
        assert_eq!(chosen(&[], &[]), ["b", "c", "a"]);
        assert_eq!(chosen(&["c", "a"], &[]), ["c", "a"]);
        assert_eq!(chosen(&[], &["x"]), ["b", "a"]);
        assert_eq!(chosen(&["a", "b"], &["x", "y"]), ["b"]);
        assert_eq!(chosen(&["z"], &[]), [""; 0]);
    }
}
