//! Whole files: errors, gzip, byte-order marks, and atomic replacement.

use crate::printable;
use flate2::read::MultiGzDecoder;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use thiserror::Error;

/// First bytes of a gzip file.
pub const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];
/// UTF-8's byte-order mark, which Windows programs write in front of a CSV.
pub const UTF8_BOM: [u8; 3] = [0xef, 0xbb, 0xbf];

/// Most bytes of a file of figures or limits, decompressed.
pub const MOST_TABLE_BYTES: u64 = 4 << 20;

/// Error while reading or writing a file, as one line of text.
#[derive(Debug, Error)]
pub enum FileError {
    /// The file is missing, is a folder, or may not be read.
    #[error("'{}' cannot be read: {why}", .file.display())]
    Unreadable {
        /// The file.
        file: PathBuf,
        /// Reason, and what to do.
        why: String,
    },
    /// The contents are wrong.
    #[error("{0}")]
    Wrong(Box<Wrong>),
    /// The file cannot be created or written.
    #[error("'{}' cannot be written: {why}", .file.display())]
    NotWritable {
        /// The file.
        file: PathBuf,
        /// Reason.
        why: String,
        /// Class of the error, e.g. a full disk.
        kind: ErrorKind,
    },
    /// Its folder was renamed or removed.
    #[error(transparent)]
    Gone(#[from] FolderGone),
}

/// Error for a folder that was renamed or removed while a command wrote to it.
#[derive(Debug, Error)]
#[error(
    "folder '{}' {what} while a command was writing to it, so the command stopped; continue in its new place with \
     `tripmeter run --resume DIR` or `tripmeter ab -o DIR`, or start again",
    .folder.display()
)]
pub struct FolderGone {
    folder: PathBuf,
    what: String,
}

impl FolderGone {
    /// Error for `folder`: `now` is its new path, if known; `there` is whatever has its old path.
    pub fn new(folder: &Path, now: Option<PathBuf>, there: Option<fs::Metadata>) -> Self {
        let now = now.map(|now| now.display().to_string());
        let gone = match now {
            Some(now) if now.ends_with(" (deleted)") => "was removed".to_owned(),
            Some(now) if Path::new(&now) != folder => format!("was renamed to '{now}'"),
            _ => "was renamed or removed".to_owned(),
        };
        let what = match there.map(|there| there.file_type()) {
            Some(kind) if kind.is_symlink() => format!("{gone}, and a link has its name"),
            Some(kind) if kind.is_dir() => format!("{gone}, and another folder has its name"),
            Some(_) => format!("{gone}, and a file has its name"),
            None => gone,
        };
        Self { folder: folder.to_owned(), what }
    }
}

impl From<FolderGone> for io::Error {
    fn from(gone: FolderGone) -> Self {
        Self::other(gone)
    }
}

/// Error in the contents of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong {
    /// The file.
    pub file: PathBuf,
    /// Line, from 1; `None` if the whole file is wrong.
    pub line: Option<u64>,
    /// Name of the column, if one value is wrong.
    pub column: Option<String>,
    /// Value or line as in the file.
    pub value: Option<String>,
    /// Error, and what to do.
    pub what: String,
}

impl FileError {
    /// Error for contents that are wrong as a whole.
    pub fn wrong(file: &Path, what: impl Into<String>) -> Self {
        let wrong = Wrong { file: file.to_owned(), line: None, column: None, value: None, what: what.into() };
        Self::Wrong(Box::new(wrong))
    }

    /// Error for a wrong line, quoted unless `text` is empty.
    pub fn wrong_line(file: &Path, line: u64, text: &str, what: impl Into<String>) -> Self {
        let (line, value) = (Some(line), (!text.is_empty()).then(|| text.to_owned()));
        Self::Wrong(Box::new(Wrong { file: file.to_owned(), line, column: None, value, what: what.into() }))
    }

    /// Error for a wrong value in a column.
    pub fn wrong_value(file: &Path, line: u64, column: &str, value: &str, what: impl Into<String>) -> Self {
        let (line, column, value) = (Some(line), Some(column.to_owned()), Some(value.to_owned()));
        Self::Wrong(Box::new(Wrong { file: file.to_owned(), line, column, value, what: what.into() }))
    }

    /// Error while reading; damaged or cut-off compressed data counts as wrong contents.
    pub fn reading(file: &Path, error: &io::Error) -> Self {
        match error.kind() {
            ErrorKind::UnexpectedEof | ErrorKind::InvalidInput | ErrorKind::InvalidData => {
                Self::wrong(file, format!("the compressed data is damaged or cut off: {error}"))
            }
            _ => Self::Unreadable { file: file.to_owned(), why: error.to_string() },
        }
    }

    /// Error while writing.
    pub fn writing(file: &Path, error: &io::Error) -> Self {
        Self::NotWritable { file: file.to_owned(), why: error.to_string(), kind: error.kind() }
    }

    /// Exit code of this class of errors.
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Unreadable { .. } => crate::exit::NO_INPUT,
            Self::Wrong(_) => crate::exit::DATA,
            Self::NotWritable { .. } | Self::Gone(_) => crate::exit::CANNOT_CREATE,
        }
    }
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "'{}'", self.file.display())?;
        if let Some(line) = self.line {
            write!(f, " line {line}")?;
        }
        if let Some(column) = &self.column {
            write!(f, ", column '{column}'")?;
        }
        f.write_str(": ")?;
        // The text may quote the value as well.
        let what = printable::line(&self.what);
        match self.value.as_deref().map(shortened) {
            Some(value) if !what.contains(&format!("'{value}'")) => write!(f, "'{value}' {what}"),
            _ => f.write_str(&what),
        }
    }
}

/// Text cut to one line of at most 60 characters; control characters are escaped.
fn shortened(text: &str) -> String {
    printable::line(&crate::plain_words::shortened(text)).into_owned()
}

/// Opens a regular file for reading, without waiting for e.g. the writer of a FIFO. Only descriptors may wait, by which
/// a shell passes a pipe (`/dev/stdin`, `/dev/fd/63`).
///
/// # Errors
/// If it is missing, may not be read, or is a folder, a pipe or a device.
pub fn open(file: &Path) -> Result<File, FileError> {
    if is_descriptor(file) {
        return open_named(file);
    }
    let opened = File::options().read(true).custom_flags(libc::O_NONBLOCK).open(file);
    let opened = opened.map_err(|error| FileError::reading(file, &error))?;
    match opened.metadata() {
        Ok(metadata) if metadata.is_file() => Ok(opened),
        Ok(metadata) if metadata.is_dir() => Err(is_folder(file)),
        Ok(_) => {
            let why = "it is a pipe, a device or the like; name a regular file".to_owned();
            Err(FileError::Unreadable { file: file.to_owned(), why })
        }
        Err(error) => Err(FileError::reading(file, &error)),
    }
}

/// Opens a file that the user names. It may be a pipe or a device, whose writer is waited for.
///
/// # Errors
/// If it is missing, may not be read, or is a folder.
pub fn open_named(file: &Path) -> Result<File, FileError> {
    let opened = File::open(file).map_err(|error| FileError::reading(file, &error))?;
    if opened.metadata().is_ok_and(|metadata| metadata.is_dir()) { Err(is_folder(file)) } else { Ok(opened) }
}

fn is_folder(file: &Path) -> FileError {
    FileError::Unreadable { file: file.to_owned(), why: "it is a folder; name a file".to_owned() }
}

/// Reads a regular file of at most `most` bytes, decompresses gzip, and removes a byte-order mark.
///
/// # Errors
/// As [`open`]; if compressed data is damaged or cut off, or there are more bytes than `most`.
pub fn read(file: &Path, most: u64) -> Result<Vec<u8>, FileError> {
    let mut plain = Plain::open(file)?;
    let mut bytes = Vec::new();
    let read = plain.source.by_ref().take(most.saturating_add(1)).read_to_end(&mut bytes);
    read.map_err(|error| FileError::reading(file, &error))?;
    if bytes.len() as u64 > most {
        return Err(plain.too_large(file, most));
    }
    if bytes.starts_with(&UTF8_BOM) {
        bytes.drain(..UTF8_BOM.len());
    }
    Ok(bytes)
}

/// Calls `each` with the number, from 1, and the text of each line, without its line break. Reads files as [`read`]
/// does, one line at a time; ignores text after the last line break.
///
/// # Errors
/// As [`read`]; if a line has more bytes than `most_of_line`, or `each` fails.
pub fn each_line<E: From<FileError>>(
    file: &Path,
    most: u64,
    most_of_line: u64,
    mut each: impl FnMut(u64, &[u8]) -> Result<(), E>,
) -> Result<(), E> {
    let mut plain = Plain::open(file)?;
    let (mut line, mut left) = (Vec::new(), most);
    for number in 1.. {
        line.clear();
        let read = plain.source.by_ref().take(left.min(most_of_line).saturating_add(1)).read_until(b'\n', &mut line);
        let count = read.map_err(|error| FileError::reading(file, &error))? as u64;
        if count > left {
            return Err(plain.too_large(file, most).into());
        }
        if count > most_of_line {
            let what = format!(
                "line {number} exceeds the limit of {most_of_line} bytes; it is damaged, or not from tripmeter"
            );
            return Err(FileError::wrong(file, what).into());
        }
        left -= count;
        let Some(whole) = line.strip_suffix(b"\n") else { break };
        each(number, whole.strip_prefix(&UTF8_BOM).filter(|_| number == 1).unwrap_or(whole))?;
    }
    Ok(())
}

struct Plain {
    source: Box<dyn BufRead>,
    is_packed: bool,
    /// Bytes on disk.
    size: u64,
}

impl Plain {
    fn open(file: &Path) -> Result<Self, FileError> {
        let failed = |error| FileError::reading(file, &error);
        let opened = open(file)?;
        let size = opened.metadata().map_err(failed)?.len();
        let mut plain = BufReader::new(opened);
        let is_packed = plain.fill_buf().map_err(failed)?.starts_with(&GZIP_MAGIC);
        let source: Box<dyn BufRead> =
            if is_packed { Box::new(BufReader::new(MultiGzDecoder::new(plain))) } else { Box::new(plain) };
        Ok(Self { source, is_packed, size })
    }

    fn too_large(&self, file: &Path, most: u64) -> FileError {
        let size = self.size;
        let held = match self.is_packed {
            true => {
                format!("holds more than {most} bytes when decompressed ({size} compressed), the limit of such a file")
            }
            false => format!("has {size} bytes, more than {most}, the limit of such a file"),
        };
        FileError::wrong(file, format!("{held}; it is damaged, or another kind of file"))
    }
}

/// Appends lines to a file; if this fails, e.g. because the disk is full, none of them remains.
///
/// # Errors
/// As [`append`], or if they cannot be written.
pub fn append_whole(file: &Path, lines: &[u8]) -> io::Result<()> {
    let mut file = append(file)?;
    let before = file.metadata()?.len();
    file.write_all(lines).inspect_err(|_| drop(file.set_len(before)))
}

/// Writes a whole file or nothing: a temporary file is renamed. Replaces whatever has the name, including links.
///
/// # Errors
/// If it cannot be created or written, e.g. because its folder is missing or the disk is full.
pub fn write_whole(file: &Path, contents: &[u8]) -> Result<(), FileError> {
    write_beside(file, contents, false)
}

/// [`write_whole`] that also syncs to disk before the renaming, so that the file survives a loss of power.
pub fn write_synced(file: &Path, contents: &[u8]) -> Result<(), FileError> {
    write_beside(file, contents, true)
}

fn write_beside(file: &Path, contents: &[u8], is_synced: bool) -> Result<(), FileError> {
    let failed = |error| FileError::writing(file, &error);
    if fs::symlink_metadata(file).is_ok_and(|there| there.is_dir()) {
        return Err(failed(ErrorKind::IsADirectory.into()));
    }
    let folder = match file.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let mut temporary = tempfile::Builder::new();
    temporary.prefix(".tripmeter-").permissions(fs::Permissions::from_mode(0o666));
    // The library adds the temporary name, which the user does not know.
    let without_name = |error: io::Error| {
        let text = error.to_string();
        let why = text.split(" at path \"").next().unwrap_or(&text).to_owned();
        FileError::NotWritable { file: file.to_owned(), why, kind: error.kind() }
    };
    let mut temporary = temporary.tempfile_in(folder).map_err(without_name)?;
    temporary.write_all(contents).map_err(without_name)?;
    if is_synced {
        temporary.as_file().sync_all().map_err(without_name)?;
    }
    temporary.persist(file).map_err(|error| failed(error.error))?;
    Ok(())
}

/// [`write_whole`] for a file that the user names. Writes directly to pipes, devices and names in `/dev` and `/proc`,
/// such as `/dev/stdout`.
pub fn write_named(file: &Path, contents: &[u8]) -> Result<(), FileError> {
    let is_special = fs::symlink_metadata(file).is_ok_and(|there| !there.is_symlink())
        && fs::metadata(file).is_ok_and(|there| !there.is_file() && !there.is_dir());
    if !is_special && system_folder(file).is_none() {
        return write_whole(file, contents);
    }
    // In a shared folder, the device may have been replaced by a link.
    let follow = if system_folder(file).is_some() { 0 } else { libc::O_NOFOLLOW };
    let opened = File::options().write(true).custom_flags(follow).open(file);
    opened.and_then(|mut opened| opened.write_all(contents)).map_err(|error| FileError::writing(file, &error))
}

/// Folder of `file`, if it is `/dev` or in `/proc`, where files must never be replaced: `/dev/stdout` may be a link.
fn system_folder(file: &Path) -> Option<PathBuf> {
    let folder = file.parent()?.canonicalize().ok()?;
    (folder == Path::new("/dev") || folder.starts_with("/proc")).then_some(folder)
}

fn is_descriptor(file: &Path) -> bool {
    let is_in_proc = |name: &Path| system_folder(name).is_some_and(|folder| folder.starts_with("/proc"));
    is_in_proc(file) || system_folder(file).is_some() && fs::read_link(file).is_ok_and(|target| is_in_proc(&target))
}

/// Opens a file for appending, and creates it if it is missing; never waits.
///
/// # Errors
/// If it cannot be opened, or is a link, a pipe or anything but a regular file.
pub fn append(file: &Path) -> io::Result<File> {
    append_with_mode(file, 0o666)
}

/// [`append`] for a lock file. Only this user may open it: whoever can open it can hold the lock.
pub fn to_lock(file: &Path) -> io::Result<File> {
    let opened = append_with_mode(file, 0o600)?;
    if opened.metadata()?.permissions().mode() & 0o077 != 0 {
        // Created by an earlier version; remains unchanged if another user owns it.
        let _ = opened.set_permissions(fs::Permissions::from_mode(0o600));
    }
    Ok(opened)
}

fn append_with_mode(file: &Path, mode: u32) -> io::Result<File> {
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let opened = File::options().read(true).append(true).create(true).mode(mode).custom_flags(flags).open(file)?;
    if opened.metadata()?.is_file() { Ok(opened) } else { Err(io::Error::other("it is not a regular file")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_replaced_whole_and_a_failure_leaves_the_old_one() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("x.csv");
        write_whole(&file, b"old").unwrap();
        write_whole(&file, b"new").unwrap();
        assert_eq!(read(&file, 3).unwrap(), b"new");
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o600, 0o600);
        let error = write_whole(folder.path(), b"new").unwrap_err();
        assert_eq!(error.exit_code(), crate::exit::CANNOT_CREATE);
        let error = write_whole(&folder.path().join("no/x.csv"), b"new").unwrap_err();
        let told = error.to_string();
        assert!(told.contains("no/x.csv") && !told.contains(".tripmeter-"), "{told}");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "a temporary file was left");
    }

    #[test]
    fn gzip_and_byte_order_marks_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("x.csv");
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(b"\xef\xbb\xbfa,b\n").unwrap();
        let packed = encoder.finish().unwrap();
        fs::write(&file, &packed).unwrap();
        assert_eq!(read(&file, 100).unwrap(), b"a,b\n");
        // A gzip file may have several members, as `cat` and parallel compressors make them.
        fs::write(&file, [&packed[..], &packed[..]].concat()).unwrap();
        assert_eq!(read(&file, 100).unwrap(), b"a,b\n\xef\xbb\xbfa,b\n");
        fs::write(&file, &packed[..packed.len() - 6]).unwrap();
        assert_eq!(read(&file, 100).unwrap_err().exit_code(), crate::exit::DATA);
        assert_eq!(read(folder.path(), 100).unwrap_err().exit_code(), crate::exit::NO_INPUT);
        assert_eq!(read(&folder.path().join("none"), 100).unwrap_err().exit_code(), crate::exit::NO_INPUT);
    }

    #[test]
    fn nothing_is_written_through_a_link() {
        let folder = tempfile::tempdir().unwrap();
        let [file, private] = ["x.csv", "private"].map(|name| folder.path().join(name));
        for (is_there, target) in [(true, private.clone()), (false, folder.path().join("none"))] {
            fs::write(&private, b"private").unwrap();
            std::os::unix::fs::symlink(&target, &file).unwrap();
            assert!(append(&file).is_err());
            for write in [write_whole, write_named] {
                write(&file, b"new").unwrap();
                assert!(fs::symlink_metadata(&file).unwrap().is_file());
                assert_eq!(fs::read(&file).unwrap(), b"new");
                fs::remove_file(&file).unwrap();
                std::os::unix::fs::symlink(&target, &file).unwrap();
            }
            assert_eq!(fs::read(&private).unwrap(), b"private");
            assert_eq!(target.exists(), is_there);
            fs::remove_file(&file).unwrap();
        }
        write_named(Path::new("/dev/null"), b"new").unwrap();
        assert!(
            ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"].iter().all(|name| system_folder(Path::new(name)).is_some())
        );
        assert!(!["/dev/shm/x", "x", "/tmp/dev/stdout"].iter().any(|name| system_folder(Path::new(name)).is_some()));
    }

    #[test]
    fn what_is_no_regular_file_is_not_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("manifest.json");
        assert!(std::process::Command::new("mkfifo").arg(&file).status().unwrap().success());
        for file in [&file, Path::new("/dev/zero")] {
            let error = read(file, 100).unwrap_err();
            assert_eq!(error.exit_code(), crate::exit::NO_INPUT);
            assert!(error.to_string().contains("name a regular file"), "{error}");
        }
        assert!(append(&file).is_err());
    }

    #[test]
    fn no_more_is_held_than_the_limit() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("x.csv");
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(&vec![b'x'; 1 << 20]).unwrap();
        let packed = encoder.finish().unwrap();
        assert!(packed.len() < 10_000);
        let told_of_packed = format!("more than 100000 bytes when decompressed ({} compressed)", packed.len());
        let told_of_plain = "100001 bytes, more than 100000".to_owned();
        for (contents, says) in [(packed, told_of_packed), (vec![b'x'; 100_001], told_of_plain)] {
            fs::write(&file, &contents).unwrap();
            let error = read(&file, 100_000).unwrap_err();
            assert_eq!(error.exit_code(), crate::exit::DATA);
            let told = error.to_string();
            assert!(
                told.contains("x.csv': h") && told.contains(&says) && told.contains("limit of such a file"),
                "{told}"
            );
        }
        fs::write(&file, vec![b'x'; 100_000]).unwrap();
        assert_eq!(read(&file, 100_000).unwrap().len(), 100_000);
    }

    #[test]
    fn lines_are_handed_over_one_by_one_and_have_a_limit() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("x.jsonl");
        let lines = |contents: &[u8], most| {
            fs::write(&file, contents).unwrap();
            let mut lines = Vec::new();
            let read = each_line(&file, most, 5, |number, line| {
                lines.push((number, line.to_vec()));
                Ok::<_, FileError>(())
            });
            read.map(|()| lines).map_err(|error| error.to_string())
        };
        let expected = [(1, b"a".to_vec()), (2, vec![]), (3, b"b\xff".to_vec())];
        assert_eq!(lines(b"\xef\xbb\xbfa\n\nb\xff\ncut", 100).unwrap(), expected);
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        encoder.write_all(b"a\n\nb\xff\n").unwrap();
        assert_eq!(lines(&encoder.finish().unwrap(), 100).unwrap(), expected);
        assert!(lines(b"a\n123456", 100).unwrap_err().contains("line 2 exceeds the limit of 5 bytes"));
        assert!(lines(b"a\nb\nc\n", 5).unwrap_err().contains("has 6 bytes, more than 5"));
    }

    #[test]
    fn what_a_shell_hands_over_as_a_pipe_is_read() {
        let (reader, mut writer) = io::pipe().unwrap();
        writer.write_all(b"\xef\xbb\xbftext").unwrap();
        drop(writer);
        let name = format!("/dev/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&reader));
        assert_eq!(read(Path::new(&name), 100).unwrap(), b"text");
        assert!(["/dev/stdin", "/proc/self/fd/0"].iter().all(|name| is_descriptor(Path::new(name))));
        // Links elsewhere are not followed.
        let folder = tempfile::tempdir().unwrap();
        let link = folder.path().join("manifest.json");
        std::os::unix::fs::symlink("/dev/stdin", &link).unwrap();
        assert!(!["/dev/zero".as_ref(), link.as_path()].into_iter().any(is_descriptor));
    }

    #[test]
    fn an_error_says_file_line_column_and_value_on_one_line() {
        let error = FileError::wrong_value(Path::new("a.csv"), 3, "Max", "x\ny", "is not a number");
        assert_eq!(error.to_string(), "'a.csv' line 3, column 'Max': 'x\\ny' is not a number");
        let error = FileError::wrong(Path::new("a.csv"), "the file is empty");
        assert_eq!(error.to_string(), "'a.csv': the file is empty");
    }
}
