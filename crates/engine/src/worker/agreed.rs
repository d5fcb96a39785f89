//! Files that the leader's node leaves for followers on other hosts, which do not see its scratch folder.

use super::{Error, Result};
use base64::Engine;
use base64::prelude::BASE64_STANDARD as BASE64;
use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;
use tripmeter_abi::AGREED_FOLDER;

/// Most bytes of all files together: credentials and addresses.
const MOST_BYTES: u64 = 1 << 20;

/// Content of each file in the folder, in base64, by its name; empty if there is no folder.
/// Fails if a file cannot be read, or all together exceed 1 MiB.
pub(super) fn read(scratch_dir: &Path) -> Result<BTreeMap<String, String>> {
    let folder = scratch_dir.join(AGREED_FOLDER);
    let failed = |error| Error::failed(&format!("folder '{}'", folder.display()), error);
    let entries = match fs::read_dir(&folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
        entries => entries.map_err(failed)?,
    };
    let (mut files, mut bytes) = (BTreeMap::new(), 0);
    for entry in entries {
        let entry = entry.map_err(failed)?;
        if !entry.file_type().map_err(failed)?.is_file() {
            continue;
        }
        let content = fs::read(entry.path()).map_err(failed)?;
        bytes += content.len() as u64;
        files.insert(entry.file_name().to_string_lossy().into_owned(), BASE64.encode(content));
    }
    if bytes > MOST_BYTES {
        let folder = folder.display();
        return Err(Error::Failed(format!("files in '{folder}' have {bytes} bytes, over the limit of {MOST_BYTES}")));
    }
    Ok(files)
}

/// Writes these files into the folder, unreadable for other users.
/// Fails if a name is not plain, or a file cannot be written.
pub(super) fn write(scratch_dir: &Path, files: &BTreeMap<String, String>) -> Result<()> {
    let folder = scratch_dir.join(AGREED_FOLDER);
    let failed = |error| Error::failed(&format!("folder '{}'", folder.display()), error);
    DirBuilder::new().recursive(true).mode(0o700).create(&folder).map_err(failed)?;
    for (name, content) in files {
        let is_plain = |letter: u8| letter.is_ascii_alphanumeric() || b"._-".contains(&letter);
        if name.starts_with('.') || name.is_empty() || !name.bytes().all(is_plain) {
            return Err(Error::Failed(format!("'{name}' is not the name of a file in '{AGREED_FOLDER}'")));
        }
        let content = BASE64.decode(content).map_err(|error| failed(io::Error::other(error)))?;
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(folder.join(name));
        file.and_then(|mut file| file.write_all(&content)).map_err(failed)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_come_as_they_were_and_only_into_the_folder() {
        let [here, there] = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        assert!(read(here.path()).unwrap().is_empty());
        let folder = here.path().join(AGREED_FOLDER);
        fs::create_dir_all(folder.join("below")).unwrap();
        fs::write(folder.join("key.pem"), [0, 255]).unwrap();
        let files = read(here.path()).unwrap();
        write(there.path(), &files).unwrap();
        let found = there.path().join(AGREED_FOLDER);
        assert_eq!(fs::read(found.join("key.pem")).unwrap(), [0, 255]);
        assert_eq!(fs::read_dir(found).unwrap().count(), 1);
        for name in ["../x", ".", "", "a/b"] {
            let bad = BTreeMap::from([(name.to_owned(), String::new())]);
            assert!(write(there.path(), &bad).is_err(), "{name}");
        }
    }
}
