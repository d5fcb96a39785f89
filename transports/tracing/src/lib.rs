//! Rust's `tracing`: the subscriber of `tracing-subscriber` in its default format, without colours, and the writers of
//! `tracing-appender`.
//!
//! A call is one `tracing::info!`. The subscriber is set for the logging thread only, so that each node has its own.
//! Under `blocking` the call writes the line; under `non-blocking` it queues the line for a thread of tracing-appender.
//! Closing drops that thread's guard, which waits for at most a second. Later lines are still written.
#![expect(unsafe_code, reason = "memory that is lent or shared")]

mod settings;

use settings::{Kind, Settings, Target};
use std::cell::RefCell;
use std::fs::{File, OpenOptions};
use std::io::LineWriter;
use std::sync::Mutex;
use tracing::dispatcher::{self, DefaultGuard, Dispatch};
use tracing_appender::non_blocking::{NonBlocking, NonBlockingBuilder, WorkerGuard};
use tracing_appender::rolling::{self, RollingFileAppender};
use tracing_subscriber::fmt::MakeWriter;
use tripmeter_abi::{
    Description, Error, Limits, Link, LinkOptions, Loan, Message, Node, NodeOptions, Result, Status, System, os,
};

const MOST_PAYLOAD_BYTES: u64 = 64 << 20;

/// System `tracing`.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tracing;

tripmeter_abi::export_transport!(Tracing);

impl System for Tracing {
    type Node = TracingNode;

    fn description(&self) -> Description {
        settings::description()
    }

    fn probe(&self, options: &NodeOptions) -> Result<Limits> {
        Settings::from_options(options)?;
        Ok(Limits { max_payload_bytes: MOST_PAYLOAD_BYTES, packet_bytes: 0, unauthorized_peers: 0 })
    }

    fn open(&self, options: &NodeOptions) -> Result<TracingNode> {
        os::check_payload(options, MOST_PAYLOAD_BYTES)?;
        Ok(TracingNode { options: options.clone(), settings: Settings::from_options(options)? })
    }
}

/// Settings of one process.
pub struct TracingNode {
    options: NodeOptions,
    settings: Settings,
}

impl Node for TracingNode {
    type Link = TracingLink;

    fn link(&mut self, _: &LinkOptions) -> Result<TracingLink> {
        let (dispatch, worker) = match (self.settings.kind, self.settings.target) {
            (Kind::Blocking, Target::File) => (subscriber(self.appender()?), None),
            (Kind::Blocking, Target::Pipe) => (subscriber(Mutex::new(self.console()?)), None),
            (Kind::NonBlocking, target) => {
                let (writer, worker) = match target {
                    Target::File => self.non_blocking(self.appender()?),
                    Target::Pipe => self.non_blocking(self.console()?),
                };
                (subscriber(writer), Some(worker))
            }
        };
        Ok(TracingLink { dispatch, worker, text: vec![0; self.options.max_payload_bytes as usize] })
    }
}

impl TracingNode {
    /// File of tracing-appender, which is never rolled over.
    fn appender(&self) -> Result<RollingFileAppender> {
        let file = self.options.log_file();
        let (Some(folder), Some(name)) = (file.parent(), file.file_name()) else {
            return Err(Error::new(Status::Invalid, format!("'{}' is not a file name", file.display())));
        };
        // Created here, because the appender panics if it cannot.
        OpenOptions::new().create(true).append(true).open(&file).map_err(|error| failed(&file, &error))?;
        Ok(rolling::never(folder, name))
    }

    /// Writer like standard output into a pipe: buffered by lines.
    fn console(&self) -> Result<LineWriter<File>> {
        let file = self.options.log_file();
        let opened = OpenOptions::new().append(true).open(&file).map_err(|error| failed(&file, &error))?;
        Ok(LineWriter::new(opened))
    }

    fn non_blocking<W: std::io::Write + Send + 'static>(&self, writer: W) -> (NonBlocking, WorkerGuard) {
        let builder = NonBlockingBuilder::default().lossy(self.settings.lossy);
        builder.buffered_lines_limit(self.settings.buffered_lines).finish(writer)
    }
}

fn failed(file: &std::path::Path, error: &std::io::Error) -> Error {
    Error::new(Status::Failed, format!("'{}' cannot be opened to append to it: {error}", file.display()))
}

fn subscriber<W: for<'a> MakeWriter<'a> + Send + Sync + 'static>(writer: W) -> Dispatch {
    Dispatch::new(tracing_subscriber::fmt().with_ansi(false).with_writer(writer).finish())
}

thread_local! {
    /// Keeps the subscriber set for this thread.
    static CURRENT: RefCell<Option<DefaultGuard>> = const { RefCell::new(None) };
}

/// Subscriber, the thread that writes for it, and a buffer for a text.
pub struct TracingLink {
    dispatch: Dispatch,
    worker: Option<WorkerGuard>,
    text: Vec<u8>,
}

impl Link for TracingLink {
    fn connect(&mut self, _: &[Vec<u8>], _: u64) -> Result<()> {
        let guard = dispatcher::set_default(&self.dispatch);
        CURRENT.with(|current| *current.borrow_mut() = Some(guard));
        Ok(())
    }

    #[inline]
    fn loan(&mut self, length: usize, _: Option<&Message>) -> Result<Loan> {
        if length > self.text.len() {
            let text = format!("a text of {length} bytes is over {} bytes", self.text.len());
            return Err(Error::new(Status::Limit, text));
        }
        Ok(Loan { data: self.text.as_mut_ptr(), length, token: std::ptr::null_mut() })
    }

    #[inline]
    fn publish(&mut self, loan: Loan, _: u64) -> Result<bool> {
        // SAFETY: the contract of pattern `log` is that texts are printable ASCII; what is not would be wrong text, but
        // every use of it here copies bytes only.
        let text = unsafe { std::str::from_utf8_unchecked(&self.text[..loan.length]) };
        tracing::info!("{text}");
        Ok(true)
    }

    fn discard(&mut self, _: Loan) {}

    fn take(&mut self, _: u64) -> Result<Option<Message>> {
        Err(Error::new(Status::Invalid, "a logger receives nothing".to_owned()))
    }

    fn release(&mut self, _: Message) {}
}

impl Drop for TracingLink {
    fn drop(&mut self) {
        CURRENT.with(|current| drop(current.borrow_mut().take()));
        // Drops the subscriber's sender first; then the guard waits for the thread.
        self.dispatch = Dispatch::none();
        drop(self.worker.take());
    }
}
