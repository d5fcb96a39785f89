//! System V message queues: they have no descriptors, but the kernel lists them all.

use super::sys;
use super::sys::Object;
use std::io;
use std::path::Path;

/// Folder of the lists; absent in a kernel without System V objects.
const FOLDER: &str = "/proc/sysvipc";
/// Device number that no device has: a queue is in no file system.
const NO_DEVICE: u64 = u64::MAX;

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Queue {
    id: u64,
    pub bytes: u64,
    last_sender: u32,
    last_receiver: u32,
}

impl Queue {
    /// Identity of the queue; its ID is reused only after thousands of others.
    pub fn object(&self) -> Object {
        Object { device: NO_DEVICE, inode: self.id }
    }

    /// True if this process was the last to send or to receive.
    pub fn is_own(&self) -> bool {
        [self.last_sender, self.last_receiver].contains(&std::process::id())
    }
}

/// All queues; empty if the kernel does not support them.
pub(super) fn all() -> io::Result<Vec<Queue>> {
    match sys::read_proc(&format!("{FOLDER}/msg")) {
        Ok(text) => read_text(&text).ok_or_else(|| io::Error::other("the list has no column names")),
        Err(error) if error.kind() == io::ErrorKind::NotFound && !Path::new(FOLDER).exists() => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// # Source
/// proc_sysvipc(5): a line of names, then one line per queue
pub(super) fn read_text(text: &str) -> Option<Vec<Queue>> {
    let mut lines = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    let names = lines.next().filter(|names| names.contains(&"msqid"))?;
    let column = |line: &[&str], name| {
        let at = names.iter().position(|found| *found == name)?;
        line.get(at)?.parse::<u64>().ok()
    };
    let process = |line: &[&str], name| u32::try_from(column(line, name)?).ok();
    let queue = |line: Vec<&str>| {
        Some(Queue {
            id: column(&line, "msqid")?,
            bytes: column(&line, "cbytes")?,
            last_sender: process(&line, "lspid")?,
            last_receiver: process(&line, "lrpid")?,
        })
    };
    Some(lines.filter_map(queue).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queues_are_read_by_the_names_of_their_columns() {
        let text = "       key      msqid perms      cbytes       qnum lspid lrpid   uid   gid  cuid  cgid      stime\n\
                    \x20        0      32769   600        8192          2    71     0  1000  1000  1000  1000 1700000000\n\
                    \x20        0          0   600   damaged\n";
        let queue = Queue { id: 32769, bytes: 8192, last_sender: 71, last_receiver: 0 };
        assert_eq!(read_text(text), Some(vec![queue]));
        assert_eq!(read_text(""), None, "hidden behind an empty file");
    }
}
