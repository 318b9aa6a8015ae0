//! A cloud that offers what a test says it offers.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use jiff::Timestamp;
use regent::api::CloudReads;
use regent::model::ids::{FlavorId, ImageId, ProviderExternalNetworkId, RegionId};
use regent::providers::types::{
    Architecture, ExternalNetwork, Flavor, FlavorGpu, GpuVendor, Image, ImageGpu, ImageStatus, OperatingSystem,
    Virtualization,
};
use regent::providers::{ProviderError, ProviderResult, ServerRequest};
use uuid::Uuid;

pub const GIB: u64 = 1 << 30;

pub struct StubCloud {
    pub flavors: Mutex<Vec<Flavor>>,
    pub images: Mutex<Vec<Image>>,
    pub console: Mutex<ProviderResult<String>>,
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
            console: Mutex::new(Ok("booted\n".to_owned())),
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
