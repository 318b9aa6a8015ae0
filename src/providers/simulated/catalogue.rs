//! What every simulated cloud offers: machine types, images and classes of volumes, with ids that never change.
//!
//! | id | flavor | what it is for |
//! |---|---|---|
//! | `11111111-1111-4111-8111-111111111111` | sim-standard-4 | the ordinary virtual machine |
//! | `22222222-2222-4222-8222-222222222222` | sim-gpu-8 | one with a GPU |
//! | `77777777-7777-4777-8777-777777777777` | sim-metal-16 | a physical machine, of which there are few |
//! | `88888888-8888-4888-8888-888888888888` | sim-pinned-16 | one that must be told its host |
//! | `eeeeeeee-eeee-4eee-8eee-eeeeeeeeeeee` | sim-standard-8 | a larger one with the same disk: to and fro by a resize |
//!
//! | id | image | what it is for |
//! |---|---|---|
//! | `33333333-3333-4333-8333-333333333333` | ubuntu-24.04-amd64 | the ordinary image |
//! | `44444444-4444-4444-8444-444444444444` | ubuntu-24.04-gpu-amd64 | one with a GPU's driver |
//! | `99999999-9999-4999-8999-999999999999` | ubuntu-24.04-arm64 | of another architecture |
//! | `aaaaaaaa-aaaa-4aaa-8aaa-aaaaaaaaaaaa` | ubuntu-24.04-metal-amd64 | for physical machines alone |
//! | `bbbbbbbb-bbbb-4bbb-8bbb-bbbbbbbbbbbb` | ubuntu-26.04-amd64 | still being made: nothing boots from it |
//!
//! | id | class of volumes | what it is for |
//! |---|---|---|
//! | `33333333-3333-4333-8333-333333333333` | sim-standard-volume | the ordinary volume |
//! | `44444444-4444-4444-8444-444444444444` | sim-fast-volume | a fast and encrypted one |
//!
//! | id | class of file storage | what it is for |
//! |---|---|---|
//! | `cccccccc-cccc-4ccc-8ccc-cccccccccccc` | sim-files-standard | NFS 3 and 4 over four addresses |
//! | `dddddddd-dddd-4ddd-8ddd-dddddddddddd` | sim-files-private | NFS 4 over one address, for those whom the region's settings name |
//!
//! Physical machines are named `sim-host-1` and so on.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use jiff::Timestamp;
use uuid::Uuid;

use crate::model::ids::{FileStorageClassId, FlavorId, ImageId, VolumeClassId};
use crate::providers::file_storage::{FileProtocol, FileStorageClass};
use crate::providers::types::{
    Architecture, Flavor, FlavorGpu, GpuVendor, Image, ImageGpu, ImageStatus, Media, OperatingSystem, Performance,
    Virtualization, VolumeClass,
};

pub const FLAVOR_STANDARD: FlavorId = FlavorId(Uuid::from_u128(0x1111_1111_1111_4111_8111_1111_1111_1111));
pub const FLAVOR_GPU: FlavorId = FlavorId(Uuid::from_u128(0x2222_2222_2222_4222_8222_2222_2222_2222));
pub const FLAVOR_METAL: FlavorId = FlavorId(Uuid::from_u128(0x7777_7777_7777_4777_8777_7777_7777_7777));
pub const FLAVOR_PINNED: FlavorId = FlavorId(Uuid::from_u128(0x8888_8888_8888_4888_8888_8888_8888_8888));
pub const FLAVOR_LARGE: FlavorId = FlavorId(Uuid::from_u128(0xeeee_eeee_eeee_4eee_8eee_eeee_eeee_eeee));

pub const IMAGE_UBUNTU: ImageId = ImageId(Uuid::from_u128(0x3333_3333_3333_4333_8333_3333_3333_3333));
pub const IMAGE_GPU: ImageId = ImageId(Uuid::from_u128(0x4444_4444_4444_4444_8444_4444_4444_4444));
pub const IMAGE_ARM: ImageId = ImageId(Uuid::from_u128(0x9999_9999_9999_4999_8999_9999_9999_9999));
pub const IMAGE_METAL: ImageId = ImageId(Uuid::from_u128(0xaaaa_aaaa_aaaa_4aaa_8aaa_aaaa_aaaa_aaaa));
pub const IMAGE_UNFINISHED: ImageId = ImageId(Uuid::from_u128(0xbbbb_bbbb_bbbb_4bbb_8bbb_bbbb_bbbb_bbbb));

pub const VOLUME_CLASS_STANDARD: VolumeClassId =
    VolumeClassId(Uuid::from_u128(0x3333_3333_3333_4333_8333_3333_3333_3333));
pub const VOLUME_CLASS_FAST: VolumeClassId = VolumeClassId(Uuid::from_u128(0x4444_4444_4444_4444_8444_4444_4444_4444));

pub const FILES_STANDARD: FileStorageClassId =
    FileStorageClassId(Uuid::from_u128(0xcccc_cccc_cccc_4ccc_8ccc_cccc_cccc_cccc));
pub const FILES_PRIVATE: FileStorageClassId =
    FileStorageClassId(Uuid::from_u128(0xdddd_dddd_dddd_4ddd_8ddd_dddd_dddd_dddd));

const GIB: u64 = 1 << 30;

/// When the first image was made; the others followed a day apart.
const IMAGES_SINCE: Timestamp = Timestamp::constant(1_714_003_200, 0);
const DAY: std::time::Duration = std::time::Duration::from_hours(24);

static FLAVORS: LazyLock<Vec<Flavor>> = LazyLock::new(|| {
    let flavor = |id, name: &str, cpus, memory_gib, disk_gib| Flavor {
        id,
        name: name.to_owned(),
        architecture: Architecture::X86_64,
        cpus,
        cpu_family: None,
        memory_bytes: memory_gib * GIB,
        disk_bytes: disk_gib * GIB,
        gpu: None,
        baremetal: false,
        pinned_only: false,
    };
    let gpu = FlavorGpu {
        vendor: GpuVendor::Nvidia,
        model: "L4".to_owned(),
        memory_bytes: 16 * GIB,
        physical_count: 1,
        logical_count: 1,
    };
    vec![
        flavor(FLAVOR_STANDARD, "sim-standard-4", 4, 8, 100),
        Flavor { gpu: Some(gpu), ..flavor(FLAVOR_GPU, "sim-gpu-8", 8, 16, 200) },
        Flavor { baremetal: true, ..flavor(FLAVOR_METAL, "sim-metal-16", 16, 64, 400) },
        Flavor { pinned_only: true, ..flavor(FLAVOR_PINNED, "sim-pinned-16", 16, 64, 400) },
        flavor(FLAVOR_LARGE, "sim-standard-8", 8, 16, 100),
    ]
});

static IMAGES: LazyLock<Vec<Image>> = LazyLock::new(|| {
    let os = |version: &str, codename: &str| OperatingSystem {
        kernel: "linux".to_owned(),
        family: "debian".to_owned(),
        distro: "ubuntu".to_owned(),
        variant: None,
        codename: Some(codename.to_owned()),
        version: version.to_owned(),
    };
    let image = |id, name: &str, day: u32, size_gib| Image {
        id,
        name: name.to_owned(),
        tags: BTreeMap::new(),
        organization: None,
        created: IMAGES_SINCE + DAY * day,
        modified: IMAGES_SINCE + DAY * day,
        architecture: Architecture::X86_64,
        size_gib,
        virtualization: Virtualization::Virtualized,
        gpu: None,
        os: os("24.04", "noble"),
        packages: BTreeMap::new(),
        status: ImageStatus::Ready,
        identity: None,
    };
    let kubernetes = BTreeMap::from([("kubernetes".to_owned(), "v1.31.0".to_owned())]);
    let gpu = ImageGpu { vendor: GpuVendor::Nvidia, driver: "550.54.15".to_owned(), models: vec!["L4".to_owned()] };
    let arm = image(IMAGE_ARM, "ubuntu-24.04-arm64", 2, 20);
    let metal = image(IMAGE_METAL, "ubuntu-24.04-metal-amd64", 3, 20);
    let unfinished = image(IMAGE_UNFINISHED, "ubuntu-26.04-amd64", 4, 20);
    vec![
        Image { packages: kubernetes, ..image(IMAGE_UBUNTU, "ubuntu-24.04-amd64", 0, 20) },
        Image { gpu: Some(gpu), ..image(IMAGE_GPU, "ubuntu-24.04-gpu-amd64", 1, 30) },
        Image { architecture: Architecture::Aarch64, virtualization: Virtualization::Any, ..arm },
        Image { virtualization: Virtualization::Baremetal, ..metal },
        Image { status: ImageStatus::Creating, os: os("26.04", "resolute"), ..unfinished },
    ]
});

static VOLUME_CLASSES: LazyLock<Vec<VolumeClass>> = LazyLock::new(|| {
    let standard = VolumeClass {
        id: VOLUME_CLASS_STANDARD,
        name: "sim-standard-volume".to_owned(),
        description: Some("for everything that has no class of its own".to_owned()),
        media: Some(Media::Ssd),
        performance: None,
        encrypted: false,
    };
    let fast = VolumeClass {
        id: VOLUME_CLASS_FAST,
        name: "sim-fast-volume".to_owned(),
        description: Some("for databases".to_owned()),
        media: Some(Media::Nvme),
        performance: Some(Performance { iops_max: 25_000, throughput_mib_per_second_max: 500 }),
        encrypted: true,
    };
    vec![standard, fast]
});

#[must_use]
pub fn volume_classes() -> &'static [VolumeClass] {
    &VOLUME_CLASSES
}

#[must_use]
pub fn volume_class(id: VolumeClassId) -> Option<&'static VolumeClass> {
    volume_classes().iter().find(|class| class.id == id)
}

static FILE_STORAGE_CLASSES: LazyLock<Vec<FileStorageClass>> = LazyLock::new(|| {
    vec![
        FileStorageClass {
            id: FILES_STANDARD,
            name: "sim-files-standard".to_owned(),
            description: Some("Shared files over NFS".to_owned()),
            organizations: None,
            protocols: vec![FileProtocol::Nfsv3, FileProtocol::Nfsv4],
            parallelism: 4,
        },
        FileStorageClass {
            id: FILES_PRIVATE,
            name: "sim-files-private".to_owned(),
            description: None,
            organizations: Some(Vec::new()),
            protocols: vec![FileProtocol::Nfsv4],
            parallelism: 1,
        },
    ]
});

#[must_use]
pub fn file_storage_classes() -> &'static [FileStorageClass] {
    &FILE_STORAGE_CLASSES
}

#[must_use]
pub fn flavors() -> &'static [Flavor] {
    &FLAVORS
}

#[must_use]
pub fn images() -> &'static [Image] {
    &IMAGES
}

#[must_use]
pub fn flavor(id: FlavorId) -> Option<&'static Flavor> {
    flavors().iter().find(|flavor| flavor.id == id)
}

#[must_use]
pub fn image(id: ImageId) -> Option<&'static Image> {
    images().iter().find(|image| image.id == id)
}

/// The name of a physical machine, counted from one.
#[must_use]
pub fn host(number: u32) -> String {
    format!("sim-host-{number}")
}
