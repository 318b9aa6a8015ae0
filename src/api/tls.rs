//! The certificate that a listener shows, read again when its files change.
//!
//! Files are looked at when a connection arrives, at most once a second: no watcher to lose, and no work when nobody
//! comes. A new pair that does not load leaves the old one in use, and says so once: whoever renews certificates
//! writes two files, and between them they do not match.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::time::Instant;

/// A stat of two files a second costs nothing; a renewed certificate is shown a second later at most.
const LOOK_PERIOD: Duration = Duration::from_secs(1);

#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("{} cannot be read", .path.display())]
    Unreadable { path: PathBuf, source: std::io::Error },
    #[error("{} holds no PEM {what}", .path.display())]
    NotPem { path: PathBuf, what: &'static str },
    #[error("the certificate and the key cannot be used together")]
    Unusable(#[from] rustls::Error),
}

/// Tells whether a file is still the one that was read.
type Fingerprint = [(i64, i64, u64, u64); 2];

struct Loaded {
    config: Arc<ServerConfig>,
    fingerprint: Fingerprint,
    looked: Instant,
}

/// A certificate and its key, as files.
pub struct TlsFiles {
    certificate: PathBuf,
    key: PathBuf,
    loaded: Mutex<Loaded>,
}

impl TlsFiles {
    pub fn load(certificate: &Path, key: &Path) -> Result<Self, TlsError> {
        let fingerprint = fingerprint(certificate, key)?;
        let config = server_config(certificate, key)?;
        let loaded = Mutex::new(Loaded { config, fingerprint, looked: Instant::now() });
        Ok(Self { certificate: certificate.to_owned(), key: key.to_owned(), loaded })
    }

    /// What a connection that arrives now is shown.
    #[must_use]
    pub fn current(&self) -> Arc<ServerConfig> {
        let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        if loaded.looked.elapsed() >= LOOK_PERIOD {
            self.look(&mut loaded);
        }
        Arc::clone(&loaded.config)
    }

    /// Looks now, whenever the last look was.
    pub fn reload(&self) {
        self.look(&mut self.loaded.lock().unwrap_or_else(PoisonError::into_inner));
    }

    fn look(&self, loaded: &mut Loaded) {
        loaded.looked = Instant::now();
        let found = match fingerprint(&self.certificate, &self.key) {
            Ok(found) if found != loaded.fingerprint => found,
            // A file that is missing for a moment is being replaced.
            Ok(_) | Err(_) => return,
        };
        // Remembered also when it does not load, so that a bad pair is reported once and not with every connection.
        loaded.fingerprint = found;
        match server_config(&self.certificate, &self.key) {
            Ok(config) => {
                loaded.config = config;
                tracing::info!(certificate = %self.certificate.display(), "a new certificate is in use");
            }
            Err(error) => tracing::error!(error = &error as &dyn std::error::Error, "the old certificate stays in use"),
        }
    }
}

fn fingerprint(certificate: &Path, key: &Path) -> Result<Fingerprint, TlsError> {
    let of = |path: &Path| -> Result<_, TlsError> {
        let about = std::fs::metadata(path).map_err(|source| TlsError::Unreadable { path: path.to_owned(), source })?;
        Ok((about.mtime(), about.mtime_nsec(), about.ino(), about.len()))
    };
    Ok([of(certificate)?, of(key)?])
}

fn server_config(certificate: &Path, key: &Path) -> Result<Arc<ServerConfig>, TlsError> {
    let not_pem = |path: &Path, what| TlsError::NotPem { path: path.to_owned(), what };
    let bytes =
        |path: &Path| std::fs::read(path).map_err(|source| TlsError::Unreadable { path: path.to_owned(), source });
    let certificate_pem = bytes(certificate)?;
    let chain = CertificateDer::pem_slice_iter(&certificate_pem).collect::<Result<Vec<_>, _>>();
    let chain = chain.ok().filter(|chain| !chain.is_empty()).ok_or_else(|| not_pem(certificate, "certificate"))?;
    let key = PrivateKeyDer::from_pem_slice(&bytes(key)?).map_err(|_| not_pem(key, "private key"))?;
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(chain, key)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}
