//! What the properties of a cloud's image say of it, and which images are not offered.
//!
//! Clouds keep free text beside an image; operators write there what it holds. One image whose text makes no sense is
//! left out, with a reason, and all others serve (B16). An image without an owner may have to be signed: its id, with the
//! key of whoever fills the catalogue, so that nobody else's image is offered to everybody.

use std::collections::{BTreeMap, BTreeSet};

use aws_lc_rs::signature::{ECDSA_P256_SHA256_ASN1, ECDSA_P384_SHA256_ASN1, UnparsedPublicKey};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::types::{Architecture, GpuVendor, Image, ImageGpu, ImageStatus, OperatingSystem, Virtualization};
use crate::model::ids::{IdentityId, ImageId, OrganizationId};

const KERNEL: &str = "unikorn:os:kernel";
const FAMILY: &str = "unikorn:os:family";
const DISTRO: &str = "unikorn:os:distro";
const VERSION: &str = "unikorn:os:version";
const VARIANT: &str = "unikorn:os:variant";
const CODENAME: &str = "unikorn:os:codename";
const VIRTUALIZATION: &str = "unikorn:virtualization";
const GPU_VENDOR: &str = "unikorn:gpu_vendor";
const GPU_MODELS: &str = "unikorn:gpu_models";
const GPU_DRIVER: &str = "unikorn:gpu_driver_version";
const DIGEST: &str = "unikorn:digest";
const ORGANIZATION: &str = "unikorn:organization:id";
const IDENTITY: &str = "unikorn:identity_id";
const PACKAGE: &str = "unikorn:package:";
/// What older images say instead of a package.
const KUBERNETES: &str = "unikorn:kubernetes_version";
const TAG: &str = "unikorn:tag:";
const ARCHITECTURE: &str = "architecture";

const GIB: u64 = 1 << 30;

/// An image as a cloud lists it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ImageEntry {
    pub id: ImageId,
    pub name: String,
    /// The cloud's own word.
    pub status: String,
    pub created: Timestamp,
    pub modified: Timestamp,
    #[serde(default)]
    pub min_disk_gib: u32,
    #[serde(default)]
    pub virtual_size_bytes: u64,
    #[serde(default)]
    pub properties: BTreeMap<String, String>,
}

/// Why an image is not offered. Names properties, which operators know, and never their values.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    #[error("the property {0} is missing")]
    Missing(&'static str),
    #[error("the property {0} is malformed")]
    Malformed(&'static str),
    #[error("the version of a package is not of the form v1.2.3")]
    Package,
    #[error("the signature of the image is missing or not valid")]
    Unsigned,
}

/// Whose signature an image without an owner must carry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SigningKey(Vec<u8>);

/// The text is not the public key of an elliptic curve that is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the signing key must be a PEM block \"PUBLIC KEY\" of a P-256 or P-384 key")]
pub struct InvalidSigningKey;

impl SigningKey {
    pub fn from_pem(text: &str) -> Result<Self, InvalidSigningKey> {
        let body = text.trim().strip_prefix("-----BEGIN PUBLIC KEY-----");
        let body = body.and_then(|rest| rest.strip_suffix("-----END PUBLIC KEY-----")).ok_or(InvalidSigningKey)?;
        let joined = body.split_whitespace().collect::<String>();
        let bytes = STANDARD.decode(joined).map_err(|_| InvalidSigningKey)?;
        let is_known = [&ECDSA_P256_SHA256_ASN1, &ECDSA_P384_SHA256_ASN1]
            .into_iter()
            .any(|algorithm| aws_lc_rs::signature::ParsedPublicKey::new(algorithm, &bytes).is_ok());
        if is_known { Ok(Self(bytes)) } else { Err(InvalidSigningKey) }
    }

    /// Is this the owner's signature of the id, as base64 of its ASN.1 form?
    #[must_use]
    pub fn verifies(&self, id: ImageId, signature: &str) -> bool {
        let Ok(signature) = STANDARD.decode(signature) else { return false };
        let message = id.to_string();
        [&ECDSA_P256_SHA256_ASN1, &ECDSA_P384_SHA256_ASN1]
            .into_iter()
            .any(|algorithm| UnparsedPublicKey::new(algorithm, &self.0).verify(message.as_bytes(), &signature).is_ok())
    }
}

/// The image that an entry describes, or why it is not offered.
pub fn image_of(entry: &ImageEntry, key: Option<&SigningKey>) -> Result<Image, Unfit> {
    let text = |name: &str| entry.properties.get(name).filter(|value| !value.is_empty()).cloned();
    let needed = |name| text(name).ok_or(Unfit::Missing(name));
    let organization = text(ORGANIZATION).map(|id| id.parse::<OrganizationId>()).transpose();
    let organization = organization.map_err(|_| Unfit::Malformed(ORGANIZATION))?;
    if let (Some(key), None) = (key, organization) {
        let signature = text(DIGEST).ok_or(Unfit::Unsigned)?;
        if !key.verifies(entry.id, &signature) {
            return Err(Unfit::Unsigned);
        }
    }
    let kernel = needed(KERNEL)?;
    if kernel != "linux" {
        return Err(Unfit::Malformed(KERNEL));
    }
    let virtualization = match needed(VIRTUALIZATION)?.as_str() {
        "any" => Virtualization::Any,
        "baremetal" => Virtualization::Baremetal,
        "virtualized" => Virtualization::Virtualized,
        _ => return Err(Unfit::Malformed(VIRTUALIZATION)),
    };
    let architecture = match text(ARCHITECTURE).as_deref() {
        None | Some("x86_64") => Architecture::X86_64,
        Some("aarch64") => Architecture::Aarch64,
        Some(_) => return Err(Unfit::Malformed(ARCHITECTURE)),
    };
    let identity = text(IDENTITY).map(|id| id.parse::<IdentityId>()).transpose();
    Ok(Image {
        id: entry.id,
        name: entry.name.clone(),
        tags: with_prefix(&entry.properties, TAG),
        organization,
        created: entry.created,
        modified: entry.modified,
        architecture,
        size_gib: size_gib(entry),
        virtualization,
        gpu: gpu(&text)?,
        os: OperatingSystem {
            kernel,
            family: needed(FAMILY)?,
            distro: needed(DISTRO)?,
            variant: text(VARIANT),
            codename: text(CODENAME),
            version: needed(VERSION)?,
        },
        packages: packages(&entry.properties)?,
        status: status_of(&entry.status),
        identity: identity.map_err(|_| Unfit::Malformed(IDENTITY))?,
    })
}

fn with_prefix(properties: &BTreeMap<String, String>, prefix: &str) -> BTreeMap<String, String> {
    let named = properties.iter().filter_map(|(name, value)| Some((name.strip_prefix(prefix)?, value)));
    named.map(|(name, value)| (name.to_owned(), value.clone())).collect()
}

fn packages(properties: &BTreeMap<String, String>) -> Result<BTreeMap<String, String>, Unfit> {
    let mut packages = with_prefix(properties, PACKAGE);
    if let Some(version) = properties.get(KUBERNETES) {
        packages.entry("kubernetes".to_owned()).or_insert_with(|| version.clone());
    }
    if packages.values().all(|version| is_version(version)) { Ok(packages) } else { Err(Unfit::Package) }
}

/// A driver without a vendor is a text that nobody reads; a vendor without a driver is a promise that is not kept.
fn gpu(text: &impl Fn(&str) -> Option<String>) -> Result<Option<ImageGpu>, Unfit> {
    let vendor = match text(GPU_VENDOR).as_deref() {
        None => return Ok(None),
        Some("NVIDIA") => GpuVendor::Nvidia,
        Some("AMD") => GpuVendor::Amd,
        Some(_) => return Err(Unfit::Malformed(GPU_VENDOR)),
    };
    let models = text(GPU_MODELS).ok_or(Unfit::Missing(GPU_MODELS))?;
    let models = models.split(',').map(str::to_owned).collect::<Vec<_>>();
    let is_word =
        |model: &String| !model.is_empty() && model.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    if !models.iter().all(is_word) {
        return Err(Unfit::Malformed(GPU_MODELS));
    }
    Ok(Some(ImageGpu { vendor, driver: text(GPU_DRIVER).ok_or(Unfit::Missing(GPU_DRIVER))?, models }))
}

/// The longest version that is taken for one.
const VERSION_LEN_MAX: usize = 64;

/// Three numbers after a `v`, as clients write the versions of packages.
#[must_use]
pub fn is_version(text: &str) -> bool {
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let parts = text.strip_prefix('v').map(|rest| rest.split('.').collect::<Vec<_>>()).unwrap_or_default();
    text.len() <= VERSION_LEN_MAX && parts.len() == 3 && parts.into_iter().all(is_number)
}

fn status_of(word: &str) -> ImageStatus {
    match word {
        "queued" => ImageStatus::Pending,
        "saving" | "importing" | "uploading" => ImageStatus::Creating,
        "active" => ImageStatus::Ready,
        _ => ImageStatus::Failed,
    }
}

fn size_gib(entry: &ImageEntry) -> u32 {
    match entry.min_disk_gib {
        0 => u32::try_from(entry.virtual_size_bytes.div_ceil(GIB)).unwrap_or(u32::MAX),
        size => size,
    }
}

impl ImageEntry {
    /// How a cloud would list this image: what [`image_of`] reads, written.
    #[must_use]
    pub fn of(image: &Image) -> Self {
        let os = &image.os;
        let mut properties = BTreeMap::new();
        let mut write = |name: &str, value: String| properties.insert(name.to_owned(), value);
        write(KERNEL, os.kernel.clone());
        write(FAMILY, os.family.clone());
        write(DISTRO, os.distro.clone());
        write(VERSION, os.version.clone());
        let optional = [(VARIANT, &os.variant), (CODENAME, &os.codename)];
        for (name, value) in optional {
            value.clone().map(|value| write(name, value));
        }
        let virtualization = match image.virtualization {
            Virtualization::Virtualized => "virtualized",
            Virtualization::Baremetal => "baremetal",
            Virtualization::Any => "any",
        };
        write(VIRTUALIZATION, virtualization.to_owned());
        let architecture = match image.architecture {
            Architecture::X86_64 => "x86_64",
            Architecture::Aarch64 => "aarch64",
        };
        write(ARCHITECTURE, architecture.to_owned());
        if let Some(gpu) = &image.gpu {
            let vendor = match gpu.vendor {
                GpuVendor::Nvidia => "NVIDIA",
                GpuVendor::Amd => "AMD",
            };
            write(GPU_VENDOR, vendor.to_owned());
            write(GPU_MODELS, gpu.models.join(","));
            write(GPU_DRIVER, gpu.driver.clone());
        }
        image.organization.map(|id| write(ORGANIZATION, id.to_string()));
        image.identity.map(|id| write(IDENTITY, id.to_string()));
        for (name, version) in &image.packages {
            write(&format!("{PACKAGE}{name}"), version.clone());
        }
        for (name, value) in &image.tags {
            write(&format!("{TAG}{name}"), value.clone());
        }
        let status = match image.status {
            ImageStatus::Pending => "queued",
            ImageStatus::Creating => "importing",
            ImageStatus::Ready => "active",
            ImageStatus::Failed => "killed",
        };
        Self {
            id: image.id,
            name: image.name.clone(),
            status: status.to_owned(),
            created: image.created,
            modified: image.modified,
            min_disk_gib: image.size_gib,
            virtual_size_bytes: 0,
            properties,
        }
    }
}

/// How many images that are not offered are remembered, so that each is reported once. A cloud with more of them than
/// this has a problem that is known by then.
const REPORTED_MAX: usize = 1000;

/// Which images that are not offered have been reported.
#[derive(Debug, Default)]
pub struct Reported(BTreeSet<ImageId>);

impl Reported {
    /// The images of a list that are offered. Of the others each new one is reported, and those that are well again may
    /// be reported again.
    pub fn offered(&mut self, entries: &[ImageEntry], key: Option<&SigningKey>) -> Vec<Image> {
        let (mut images, mut unfit) = (Vec::new(), BTreeSet::new());
        for entry in entries {
            match image_of(entry, key) {
                Ok(image) => images.push(image),
                Err(reason) => {
                    if !self.0.contains(&entry.id) {
                        tracing::warn!(image = %entry.id, %reason, "an image of the cloud is not offered");
                        metrics::counter!("regent_images_not_offered_total").increment(1);
                    }
                    if unfit.len() < REPORTED_MAX {
                        unfit.insert(entry.id);
                    }
                }
            }
        }
        self.0 = unfit;
        images
    }
}

#[cfg(test)]
mod tests {
    use aws_lc_rs::encoding::AsDer;
    use aws_lc_rs::rand::SystemRandom;
    use aws_lc_rs::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, ECDSA_P384_SHA384_ASN1_SIGNING, EcdsaKeyPair, KeyPair};
    use uuid::Uuid;

    use super::*;
    use crate::providers::simulated::catalogue;

    fn entry() -> ImageEntry {
        ImageEntry::of(&catalogue::images()[1])
    }

    fn with(change: impl FnOnce(&mut BTreeMap<String, String>)) -> Result<Image, Unfit> {
        let mut entry = entry();
        change(&mut entry.properties);
        image_of(&entry, None)
    }

    #[test]
    fn what_is_written_is_read_back() {
        for image in catalogue::images() {
            let owned = Image { organization: Some(OrganizationId(Uuid::from_u128(7))), ..image.clone() };
            for image in [image, &owned] {
                assert_eq!(image_of(&ImageEntry::of(image), None).as_ref(), Ok(image));
            }
        }
    }

    #[test]
    fn every_property_that_is_missing_or_malformed_is_named() {
        for name in [KERNEL, FAMILY, DISTRO, VERSION, VIRTUALIZATION, GPU_MODELS, GPU_DRIVER] {
            assert_eq!(with(|properties| drop(properties.remove(name))), Err(Unfit::Missing(name)), "{name}");
            assert_eq!(with(|all| drop(all.insert(name.to_owned(), String::new()))), Err(Unfit::Missing(name)));
        }
        for name in [KERNEL, VIRTUALIZATION, GPU_VENDOR, ARCHITECTURE, ORGANIZATION, IDENTITY] {
            let malformed = with(|all| drop(all.insert(name.to_owned(), "?".to_owned())));
            assert_eq!(malformed, Err(Unfit::Malformed(name)));
        }
        let models = with(|all| drop(all.insert(GPU_MODELS.to_owned(), "L4,,H100".to_owned())));
        assert_eq!(models, Err(Unfit::Malformed(GPU_MODELS)));
        let package = with(|all| drop(all.insert(format!("{PACKAGE}slurmd"), "24.5".to_owned())));
        assert_eq!(package, Err(Unfit::Package));
        let none = with(|all| all.retain(|name, _| !name.contains("gpu")));
        assert_eq!(none.map(|image| image.gpu), Ok(None));
        let old = with(|all| drop(all.insert(KUBERNETES.to_owned(), "v1.2.3".to_owned())));
        assert_eq!(old.map(|image| image.packages["kubernetes"].clone()), Ok("v1.2.3".to_owned()));
    }

    #[test]
    fn a_version_is_three_numbers_after_a_v() {
        for good in ["v1.2.3", "v0.0.0", "v10.20.30"] {
            assert!(is_version(good), "{good}");
        }
        for bad in ["", "v", "1.2.3", "v1.2", "v1.2.3.4", "v1.2.x", "v1.2.3-rc1", "v1..3", "v1.2.3 "] {
            assert!(!is_version(bad), "{bad}");
        }
    }

    #[test]
    fn the_size_is_what_was_set_or_what_there_is() {
        let of =
            |min_disk_gib, virtual_size_bytes| size_gib(&ImageEntry { min_disk_gib, virtual_size_bytes, ..entry() });
        assert_eq!((of(5, 9 * GIB), of(0, GIB), of(0, GIB + 1), of(0, 0)), (5, 1, 2, 0));
    }

    #[test]
    fn b16_one_bad_image_costs_the_others_nothing_and_is_reported_once() {
        let mut bad = entry();
        bad.id = ImageId(Uuid::from_u128(1));
        bad.properties.remove(GPU_DRIVER);
        let entries = [entry(), bad.clone()];
        let mut reported = Reported::default();
        for _ in 0..2 {
            let offered = reported.offered(&entries, None);
            assert_eq!(offered.iter().map(|image| image.id).collect::<Vec<_>>(), [entries[0].id]);
            assert_eq!(reported.0, BTreeSet::from([bad.id]));
        }
        reported.offered(&[entry()], None);
        assert!(reported.0.is_empty(), "what is well again may fail again");
    }

    fn pem(der: &[u8]) -> String {
        format!("-----BEGIN PUBLIC KEY-----\n{}\n-----END PUBLIC KEY-----\n", STANDARD.encode(der))
    }

    #[test]
    fn only_an_owner_or_the_right_signature_lets_an_image_be_offered() {
        let pair = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_ASN1_SIGNING).expect("a key");
        let other = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_ASN1_SIGNING).expect("a key");
        let key_of = |pair: &EcdsaKeyPair| {
            let der = pair.public_key().as_der().expect("der");
            SigningKey::from_pem(&pem(der.as_ref())).expect("a key")
        };
        let signed = |text: &str| {
            let signature = pair.sign(&SystemRandom::new(), text.as_bytes()).expect("signs");
            STANDARD.encode(signature.as_ref())
        };
        let (key, mut entry) = (key_of(&pair), entry());
        assert_eq!(image_of(&entry, Some(&key)), Err(Unfit::Unsigned));
        entry.properties.insert(DIGEST.to_owned(), signed(&entry.id.to_string()));
        assert!(image_of(&entry, Some(&key)).is_ok());
        assert_eq!(image_of(&entry, Some(&key_of(&other))), Err(Unfit::Unsigned));
        for wrong in [signed("another id"), "not base64".to_owned(), String::new()] {
            entry.properties.insert(DIGEST.to_owned(), wrong);
            assert_eq!(image_of(&entry, Some(&key)), Err(Unfit::Unsigned));
        }
        entry.properties.insert(ORGANIZATION.to_owned(), Uuid::from_u128(7).to_string());
        assert!(image_of(&entry, Some(&key)).is_ok(), "an organization's own image is nobody else's affair");
    }

    #[test]
    fn keys_of_both_curves_are_taken_and_nothing_else() {
        let pair = EcdsaKeyPair::generate(&ECDSA_P384_SHA384_ASN1_SIGNING).expect("a key");
        let der = pair.public_key().as_der().expect("der");
        let good = pem(der.as_ref());
        assert!(SigningKey::from_pem(&good).is_ok());
        for bad in ["", "text", &good.replace("PUBLIC", "PRIVATE"), &pem(b"nothing"), &pem(&[])] {
            assert_eq!(SigningKey::from_pem(bad), Err(InvalidSigningKey));
        }
    }
}
