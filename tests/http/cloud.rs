//! A cloud that offers what a test says it offers.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use jiff::Timestamp;
use regent::api::CloudReads;
use regent::model::ids::{FileStorageClassId, FlavorId, ImageId, ProviderExternalNetworkId, RegionId, VolumeClassId};
use regent::model::image_url::ImageUrl;
use regent::providers::file_storage::{FileProtocol, FileStorageClass};
use regent::providers::image_probe::{ProbeError, Probed};
use regent::providers::types::{
    Architecture, ExternalNetwork, Flavor, FlavorGpu, GpuVendor, Image, ImageGpu, ImageStatus, Media, OperatingSystem,
    Performance, Virtualization, VolumeClass,
};
use regent::providers::{ProviderError, ProviderResult, ServerRequest};
use uuid::Uuid;

pub const GIB: u64 = 1 << 30;

pub struct StubCloud {
    pub flavors: Mutex<Vec<Flavor>>,
    pub images: Mutex<Vec<Image>>,
    pub volume_classes: Mutex<Vec<VolumeClass>>,
    pub file_storage_classes: Mutex<ProviderResult<Vec<FileStorageClass>>>,
    pub console: Mutex<ProviderResult<String>>,
    /// What it says of what is to be imported.
    pub probed: Mutex<Result<Probed, ProbeError>>,
    /// How often it was asked what it offers.
    pub asked: AtomicUsize,
}

impl Default for StubCloud {
    fn default() -> Self {
        let gpu = FlavorGpu {
            vendor: GpuVendor::Nvidia,
            model: "H100".to_owned(),
            memory_bytes: 80 * GIB,
            physical_count: 1,
            logical_count: 2,
        };
        let (small, large) = (flavor(1, "small"), Flavor { cpus: 8, ..flavor(2, "large") });
        let fast = Flavor { gpu: Some(gpu), ..flavor(3, "fast") };
        Self {
            flavors: Mutex::new(vec![fast, large, small]),
            images: Mutex::new(vec![image(2, "ubuntu"), image(1, "debian")]),
            volume_classes: Mutex::new(vec![volume_class(2, "fast"), volume_class(1, "slow")]),
            file_storage_classes: Mutex::new(Ok(vec![file_storage_class(1, "fast"), file_storage_class(2, "cheap")])),
            console: Mutex::new(Ok("booted\n".to_owned())),
            probed: Mutex::new(Ok(Probed::default())),
            asked: AtomicUsize::new(0),
        }
    }
}

pub fn flavor(number: u128, name: &str) -> Flavor {
    Flavor {
        id: FlavorId(Uuid::from_u128(0xf000 + number)),
        name: name.to_owned(),
        architecture: Architecture::X86_64,
        cpus: 2,
        cpu_family: None,
        memory_bytes: 4 * GIB,
        disk_bytes: 20 * GIB,
        gpu: None,
        baremetal: false,
        pinned_only: false,
    }
}

pub fn image(number: u128, name: &str) -> Image {
    Image {
        id: ImageId(Uuid::from_u128(0x1000 + number)),
        name: name.to_owned(),
        tags: [("purpose".to_owned(), "test".to_owned())].into(),
        organization: None,
        created: Timestamp::UNIX_EPOCH,
        modified: Timestamp::UNIX_EPOCH,
        architecture: Architecture::X86_64,
        size_gib: 10,
        virtualization: Virtualization::Virtualized,
        gpu: Some(ImageGpu { vendor: GpuVendor::Nvidia, driver: "570".to_owned(), models: vec!["H100".to_owned()] }),
        os: OperatingSystem {
            kernel: "linux".to_owned(),
            family: "debian".to_owned(),
            distro: name.to_owned(),
            variant: None,
            codename: Some("noble".to_owned()),
            version: "24.04".to_owned(),
        },
        packages: [("kubernetes".to_owned(), "v1.33.0".to_owned())].into(),
        status: ImageStatus::Ready,
        identity: None,
    }
}

pub fn volume_class(number: u128, name: &str) -> VolumeClass {
    let is_fast = name == "fast";
    VolumeClass {
        id: VolumeClassId(Uuid::from_u128(0xc000 + number)),
        name: name.to_owned(),
        description: is_fast.then(|| "for databases".to_owned()),
        media: Some(if is_fast { Media::Nvme } else { Media::Hdd }),
        performance: is_fast.then_some(Performance { iops_max: 9000, throughput_mib_per_second_max: 200 }),
        encrypted: is_fast,
    }
}

pub fn file_storage_class(number: u128, name: &str) -> FileStorageClass {
    FileStorageClass {
        id: FileStorageClassId(Uuid::from_u128(0xc000 + number)),
        name: name.to_owned(),
        description: None,
        organizations: None,
        protocols: vec![FileProtocol::Nfsv3, FileProtocol::Nfsv4],
        parallelism: 4,
    }
}

impl StubCloud {
    pub fn calls(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }

    pub fn offer(&self, image: Image) {
        self.images.lock().expect("not poisoned").push(image);
    }

    pub fn offer_flavor(&self, flavor: Flavor) {
        self.flavors.lock().expect("not poisoned").push(flavor);
    }
}

#[async_trait]
impl CloudReads for StubCloud {
    async fn external_networks(&self, _region: RegionId) -> ProviderResult<Vec<ExternalNetwork>> {
        let network =
            |name: &str| ExternalNetwork { id: ProviderExternalNetworkId(format!("id-{name}")), name: name.to_owned() };
        Ok(vec![network("two"), network("one")])
    }

    async fn flavors(&self, _region: RegionId) -> ProviderResult<Vec<Flavor>> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        Ok(self.flavors.lock().expect("not poisoned").clone())
    }

    async fn images(&self, _region: RegionId) -> ProviderResult<Vec<Image>> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        Ok(self.images.lock().expect("not poisoned").clone())
    }

    fn resizes(&self, _region: RegionId) -> bool {
        true
    }

    async fn probe_image(&self, _region: RegionId, _url: &ImageUrl) -> Result<Probed, ProbeError> {
        self.probed.lock().expect("not poisoned").clone()
    }

    async fn volume_classes(&self, _region: RegionId) -> ProviderResult<Vec<VolumeClass>> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        Ok(self.volume_classes.lock().expect("not poisoned").clone())
    }

    async fn file_storage_classes(&self, _region: RegionId) -> ProviderResult<Vec<FileStorageClass>> {
        self.file_storage_classes.lock().expect("not poisoned").clone()
    }

    async fn console_output(
        &self,
        _region: RegionId,
        server: &ServerRequest,
        lines: Option<u32>,
    ) -> ProviderResult<String> {
        let Some(_) = &server.detail.server else { return Err(ProviderError::NotFound) };
        let text = self.console.lock().expect("not poisoned").clone()?;
        Ok(lines.map_or(text.clone(), |lines| format!("the last {lines} of {text}")))
    }
}
