//! Floor of loggers: one `write(2)` per line, to a file or to a pipe.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write as _};
use std::path::PathBuf;
use tripmeter_abi::{
    Description, Error, Limits, Link, LinkOptions, Loan, Message, Node, NodeOptions, Path, Pattern, Result, Role,
    Status, System, Variant, Wait, kernel_version, os,
};

const MOST_PAYLOAD_BYTES: u64 = 1 << 30;

#[derive(Clone, Copy, Debug, Default)]
pub struct Write;

fn variant(name: &str, summary: &str, path: Path) -> Variant {
    Variant { patterns: vec![Pattern::Log], waits: vec![Wait::Block], ..Variant::new(name, summary, path) }
}

impl System for Write {
    type Node = WriteNode;

    fn description(&self) -> Description {
        Description {
            system: "write".into(),
            summary: "a bare write(2) per line: the floor of loggers".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            system_version: kernel_version(),
            variants: vec![
                variant("file", "appended to a file", Path::File),
                variant("pipe", "into a pipe, as to a console", Path::Pipe),
            ],
            settings: Vec::new(),
            daemon: None,
        }
    }

    fn probe(&self, options: &NodeOptions) -> Result<Limits> {
        os::check(&self.description(), options)?;
        Ok(Limits { max_payload_bytes: MOST_PAYLOAD_BYTES, packet_bytes: 0, unauthorized_peers: 0 })
    }

    fn open(&self, options: &NodeOptions) -> Result<WriteNode> {
        os::check(&self.description(), options)?;
        os::check_payload(options, MOST_PAYLOAD_BYTES)?;
        if options.role != Role::Leader {
            return Err(Error::new(Status::Invalid, "a logger has no follower".to_owned()));
        }
        Ok(WriteNode { options: options.clone() })
    }
}

pub struct WriteNode {
    options: NodeOptions,
}

impl Node for WriteNode {
    type Link = WriteLink;

    fn link(&mut self, _: &LinkOptions) -> Result<WriteLink> {
        let path = self.options.log_file();
        // A FIFO exists already, and opening it waits for its reader, which is there.
        let file = OpenOptions::new().create(true).append(true).open(&path);
        let file = file.map_err(|error| {
            Error::new(Status::Failed, format!("'{}' cannot be opened to append to it: {error}", path.display()))
        })?;
        Ok(WriteLink { file, path, line: vec![0; self.options.max_payload_bytes as usize + 1] })
    }
}

pub struct WriteLink {
    file: File,
    path: PathBuf,
    line: Vec<u8>,
}

impl Link for WriteLink {
    fn connect(&mut self, _: &[Vec<u8>], _: u64) -> Result<()> {
        Ok(())
    }

    #[inline]
    fn loan(&mut self, length: usize, _: Option<&Message>) -> Result<Loan> {
        if length >= self.line.len() {
            let text = format!("a text of {length} bytes is over {} bytes", self.line.len() - 1);
            return Err(Error::new(Status::Limit, text));
        }
        self.line[length] = b'\n';
        Ok(Loan { data: self.line.as_mut_ptr(), length, token: std::ptr::null_mut() })
    }

    #[inline]
    fn publish(&mut self, loan: Loan, _: u64) -> Result<bool> {
        match self.file.write_all(&self.line[..=loan.length]) {
            Ok(()) => Ok(true),
            Err(error) => Err(self.failed(&error)),
        }
    }

    fn discard(&mut self, _: Loan) {}

    fn take(&mut self, _: u64) -> Result<Option<Message>> {
        Err(Error::new(Status::Invalid, "a logger receives nothing".to_owned()))
    }

    fn release(&mut self, _: Message) {}
}

impl WriteLink {
    #[cold]
    fn failed(&self, error: &std::io::Error) -> Error {
        let status = if error.kind() == ErrorKind::BrokenPipe { Status::Closed } else { Status::Failed };
        let remedy = match error.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
                "; make room, or set TMPDIR to a folder on another disk"
            }
            ErrorKind::FileTooLarge => "; raise the limit of a file's size (ulimit -f), or log less",
            _ => "",
        };
        Error::new(status, format!("write to '{}': {error}{remedy}", self.path.display()))
    }
}

#[cfg(test)]
mod tests {
    #![expect(unsafe_code, reason = "a host lends memory, and looks at sockets")]

    use super::*;

    fn options(folder: &std::path::Path, variant: &str) -> NodeOptions {
        NodeOptions {
            role: Role::Leader,
            pattern: Pattern::Log,
            wait: Wait::Block,
            variant: variant.to_owned(),
            settings: Default::default(),
            run_id: "write-test".to_owned(),
            scratch_dir: folder.to_owned(),
            max_payload_bytes: 32,
            link_count: 1,
            follower_count: 1,
            follower_index: 0,
            unauthorized_peer: None,
            publisher_count: 1,
            local_address: None,
        }
    }

    #[test]
    fn each_call_is_a_line_and_what_is_not_a_logger_s_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let options = options(folder.path(), "file");
        let mut link = Write.open(&options).unwrap().link(&LinkOptions { index: 0, callback: None }).unwrap();
        for (length, letter) in [(32, b'a'), (16, b'b')] {
            let loan = link.loan(length, None).unwrap();
            // SAFETY: a loan is writable for its length.
            unsafe { loan.data.write_bytes(letter, loan.length) };
            assert!(link.publish(loan, 0).unwrap());
        }
        assert_eq!(link.loan(33, None).err().unwrap().status, Status::Limit);
        assert_eq!(link.take(0).err().unwrap().status, Status::Invalid);
        drop(link);
        let text = std::fs::read_to_string(options.log_file()).unwrap();
        assert_eq!(text, format!("{}\n{}\n", "a".repeat(32), "b".repeat(16)));
        let refused = |options: NodeOptions| Write.open(&options).err().unwrap().status;
        assert_eq!(refused(NodeOptions { pattern: Pattern::Ping, ..options.clone() }), Status::Invalid);
        assert_eq!(refused(NodeOptions { role: Role::Follower, ..options.clone() }), Status::Invalid);
        assert_eq!(refused(NodeOptions { variant: "console".to_owned(), ..options }), Status::Invalid);
    }
}
