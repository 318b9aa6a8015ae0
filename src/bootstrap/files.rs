//! Small files that only their owner may read, and that are there whole or not at all.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{Error, ErrorKind, Read, Result, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

const PRIVATE_FILE: u32 = 0o600;
const PRIVATE_DIRECTORY: u32 = 0o700;

/// No file of ours is near this; something that is was put there by somebody else.
pub const LEN_MAX: u64 = 64 * 1024;

/// The directory, made for the owner alone if it was not there.
pub fn ensure_directory(path: &Path) -> Result<()> {
    DirBuilder::new().recursive(true).mode(PRIVATE_DIRECTORY).create(path)
}

/// Puts `bytes` at `path`, durably, in place of what was there.
pub fn replace_private(path: &Path, bytes: &[u8]) -> Result<()> {
    // A bare file name has the parent "", which cannot be opened.
    let directory = path.parent().ok_or(ErrorKind::InvalidInput)?;
    let directory = if directory.as_os_str().is_empty() { Path::new(".") } else { directory };
    let name = path.file_name().ok_or(ErrorKind::InvalidInput)?;
    let temporary = directory.join(format!(".{}.new", name.to_string_lossy()));
    match std::fs::remove_file(&temporary) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(PRIVATE_FILE).open(&temporary)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    std::fs::rename(&temporary, path)?;
    // Without this the rename itself may be lost with the power.
    File::open(directory)?.sync_all()
}

/// The content, or `None` when there is no such file.
pub fn read_if_present(path: &Path) -> Result<Option<Vec<u8>>> {
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut bytes = Vec::new();
    let length = file.take(LEN_MAX + 1).read_to_end(&mut bytes)?;
    if length as u64 > LEN_MAX {
        return Err(Error::new(ErrorKind::FileTooLarge, "the file is larger than 64 KiB"));
    }
    Ok(Some(bytes))
}
