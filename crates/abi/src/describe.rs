//! Self-description of a transport.

use crate::raw;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Declares an enum whose values have a name in files, flags and tables, and a code in the C interface. A name after
/// `|` is accepted when older files are read.
macro_rules! words {
    ($(#[$meta:meta])* $name:ident { $($(#[$variant_meta:meta])* $variant:ident = $code:expr => $word:literal $(| $old:literal)?,)+ }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        pub enum $name { $($(#[$variant_meta])* #[serde(rename = $word $(, alias = $old)?)] $variant,)+ }

        impl $name {
            /// All values, in the order of the header.
            pub const ALL: &'static [$name] = &[$($name::$variant,)+];

            /// Name in files, flags and tables.
            pub fn as_str(self) -> &'static str {
                match self { $($name::$variant => $word,)+ }
            }

            /// Code in the C interface.
            pub const fn code(self) -> u32 {
                match self { $($name::$variant => $code,)+ }
            }

            /// Value with this code of the C interface.
            pub fn from_code(code: u32) -> Option<Self> {
                Self::ALL.iter().copied().find(|word| word.code() == code)
            }

            /// Values whose bits are set.
            pub fn from_bits(bits: u32) -> Vec<Self> {
                Self::ALL.iter().copied().filter(|word| bits & word.code() != 0).collect()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.as_str())
            }
        }

        impl FromStr for $name {
            type Err = String;

            fn from_str(text: &str) -> Result<Self, String> {
                Self::ALL.iter().copied().find(|word| word.as_str() == text).ok_or_else(|| {
                    let known: Vec<_> = Self::ALL.iter().map(|word| word.as_str()).collect();
                    format!("'{text}' is not one of {}", known.join(", "))
                })
            }
        }
    };
}

words! {
    /// Pattern of messages over a transport.
    Pattern {
        /// One message at a time, each answered.
        Ping = 1 << 0 => "ping" | "pingpong",
        /// One way at a fixed rate, one link per topic.
        Publish = 1 << 1 => "publish" | "channel",
        /// Requests and replies, one link per client.
        Call = 1 << 2 => "call" | "rpc",
        /// One way, as fast as it goes.
        Throughput = 1 << 3 => "throughput",
        /// Log lines to a file or FIFO; there is no follower.
        Log = 1 << 4 => "log",
    }
}

words! {
    /// Wait strategy of a side.
    Wait {
        /// The measuring thread polls and never sleeps.
        Poll = 1 << 0 => "poll",
        /// The measuring thread sleeps until a message comes.
        Block = 1 << 1 => "block",
        /// The message is handled in the system's own thread.
        Callback = 1 << 2 => "callback",
    }
}

words! {
    /// Path of the payload.
    Path {
        /// Not checked by the host.
        Other = 0 => "other",
        /// Memory of one process.
        Memory = 1 => "memory",
        /// Memory shared between processes.
        SharedMemory = 2 => "shared-memory",
        /// A Unix stream socket.
        UnixStream = 3 => "unix-stream",
        /// A Unix datagram socket.
        UnixDatagram = 4 => "unix-datagram",
        /// A Unix sequenced-packet socket.
        UnixSeqpacket = 5 => "unix-seqpacket",
        /// A message queue, POSIX or System V.
        MessageQueue = 6 => "message-queue",
        /// A pipe or FIFO.
        Pipe = 7 => "pipe",
        /// A TCP connection.
        Tcp = 8 => "tcp",
        /// UDP datagrams.
        Udp = 9 => "udp",
        /// A file.
        File = 10 => "file",
    }
}

words! {
    /// Peer that a secured transport must refuse.
    UnauthorizedPeer {
        /// A peer without security.
        Plain = 1 => "plain",
        /// A peer whose credentials another authority issued.
        Foreign = 2 => "foreign",
    }
}

words! {
    /// Kind of object outside the process that the value of a setting names.
    Names {
        /// Nothing.
        Nothing = 1 => "nothing",
        /// A file or folder that is read or written.
        File = 2 => "file",
        /// A network peer: an address, a port, a domain.
        Host = 3 => "host",
    }
}

/// Variant of a system.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Variant {
    /// Name after the slash.
    pub name: String,
    /// One-line description.
    pub summary: String,
    /// Claimed path of the payload, which the host checks.
    pub path: Path,
    /// Patterns that it can carry.
    pub patterns: Vec<Pattern>,
    /// Wait strategies that it supports.
    pub waits: Vec<Wait>,
    /// True if a loan is shared with the receiver.
    pub zero_copy: bool,
    /// True if a message may be lost without an error.
    pub lossy: bool,
    /// True if it can cross hosts.
    pub remote: bool,
    /// True if it can authenticate or encrypt.
    pub secure: bool,
    /// True if leader and follower must be two threads of one process.
    pub same_process: bool,
    /// True if delivery depends on threads of the system.
    pub own_threads: bool,
    /// True if one link reaches more than one follower.
    pub fan_out: bool,
    /// True if calls under `block` have no time-out of their own; the host interrupts an overdue one with a signal.
    pub interrupt: bool,
    /// True if several links of the leader may publish on one topic under `publish` and `throughput`.
    #[serde(default)]
    pub publishers: bool,
    /// True if messages go through a third process, to which both sides connect by TCP at one address.
    #[serde(default)]
    pub broker: bool,
}

impl Variant {
    /// Variant without special properties, which carries `ping` and waits by `poll` or `block`.
    pub fn new(name: &str, summary: &str, path: Path) -> Self {
        Self {
            name: name.to_owned(),
            summary: summary.to_owned(),
            path,
            patterns: vec![Pattern::Ping],
            waits: vec![Wait::Poll, Wait::Block],
            zero_copy: false,
            lossy: false,
            remote: false,
            secure: false,
            same_process: false,
            own_threads: false,
            fan_out: false,
            interrupt: false,
            publishers: false,
            broker: false,
        }
    }

    pub(crate) fn flags(&self) -> u32 {
        self.flag_bits().iter().filter(|(set, _)| *set).map(|(_, bit)| bit).sum()
    }

    fn flag_bits(&self) -> [(bool, u32); 10] {
        [
            (self.zero_copy, raw::TM_ZERO_COPY),
            (self.lossy, raw::TM_LOSSY),
            (self.remote, raw::TM_REMOTE),
            (self.secure, raw::TM_SECURE),
            (self.same_process, raw::TM_SAME_PROCESS),
            (self.own_threads, raw::TM_OWN_THREADS),
            (self.fan_out, raw::TM_FAN_OUT),
            (self.interrupt, raw::TM_INTERRUPT),
            (self.publishers, raw::TM_PUBLISHERS),
            (self.broker, raw::TM_BROKER),
        ]
    }
}

/// Setting, given as `?name=value` after a transport.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Setting {
    /// Name, before the `=`.
    pub name: String,
    /// Default value.
    pub default: String,
    /// Allowed values, as text: `on | off`.
    pub values: String,
    /// One-line description.
    pub summary: String,
    /// Object that its value names; `None` for transports older than this declaration.
    #[serde(default)]
    pub names: Option<Names>,
}

impl Setting {
    /// Setting with its default, allowed values, and the kind of object that they name.
    pub fn new(name: &str, default: &str, values: &str, summary: &str, names: Names) -> Self {
        let [name, default, values, summary] = [name, default, values, summary].map(str::to_owned);
        Self { name, default, values, summary, names: Some(names) }
    }

    /// True if this value may name a file or a host.
    pub fn reaches_out(&self, value: &str) -> bool {
        self.names != Some(Names::Nothing) && value != self.default
    }
}

/// Description of a transport.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Description {
    /// Name before the slash.
    pub system: String,
    /// One-line description.
    pub summary: String,
    /// Version of the transport itself.
    pub version: String,
    /// Version of the library or kernel that it drives, as found at run time.
    pub system_version: String,
    /// Variants, never empty; the first is the default.
    pub variants: Vec<Variant>,
    /// Settings; may be empty.
    pub settings: Vec<Setting>,
    /// Daemon that it needs, if any.
    pub daemon: Option<String>,
}

impl Description {
    /// Setting of this name.
    pub fn setting(&self, name: &str) -> Option<&Setting> {
        self.settings.iter().find(|setting| setting.name == name)
    }

    /// Variant of this name.
    pub fn variant(&self, name: &str) -> Option<&Variant> {
        self.variants.iter().find(|variant| variant.name == name)
    }
}

/// Release of the running kernel, e.g. `Linux 6.1.0`: the system version of transports that the kernel implements.
pub fn kernel_version() -> String {
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    format!("Linux {}", release.trim())
}

/// Version of the crate `name` in the text of a `Cargo.lock`, for the library that a plugin is built with.
pub fn locked_version<'a>(lock: &'a str, name: &str) -> &'a str {
    lock.split_once(&format!("name = \"{name}\"\nversion = \""))
        .and_then(|(_, rest)| rest.split_once('"'))
        .map_or("of unknown version", |(version, _)| version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_found_by_the_whole_name() {
        let entry = |name: &str, version: &str| format!("[[package]]\nname = \"{name}\"\nversion = \"{version}\"\n\n");
        let lock = &(entry("hyper-util", "0.1.2") + &entry("hyper", "1.6.0"));
        assert_eq!(locked_version(lock, "hyper"), "1.6.0");
        assert_eq!(locked_version(lock, "util"), "of unknown version");
    }
}
