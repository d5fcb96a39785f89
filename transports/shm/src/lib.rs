//! Transport `shm`: the floor that every other transport is compared with.
//!
//! Messages are written in place, in distinct chunks of a shared segment, and published by storing one word.
//! Nothing is copied, and wait `poll` makes no system call. Module `ring` has the details.

mod atomics;
mod fan;
mod link;
mod ring;
mod segment;

pub use link::ShmLink;

use segment::{Geometry, MOST_FOLLOWERS};
use std::io;
use tripmeter_abi::{
    Description, Error, Limits, LinkOptions, Names, Node, NodeOptions, Path, Pattern, Result, Setting, Status, System,
    Variant, Wait, kernel_version,
};

const DEPTH: std::ops::RangeInclusive<u64> = 2..=1024;

#[derive(Clone, Copy, Debug, Default)]
pub struct Shm;

impl System for Shm {
    type Node = ShmNode;

    fn description(&self) -> Description {
        let mut ring = Variant::new(
            "ring",
            "chunks in a shared segment, handed over through one cache line; block by futex",
            Path::SharedMemory,
        );
        ring.patterns = vec![Pattern::Ping, Pattern::Publish, Pattern::Call, Pattern::Throughput];
        ring.zero_copy = true;
        ring.fan_out = true;
        Description {
            system: "shm".into(),
            summary: "zero-copy reference: the floor".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            system_version: kernel_version(),
            variants: vec![ring],
            settings: vec![Setting::new(
                "depth",
                "16",
                "messages, 2 to 1024",
                "messages on their way per direction, each in a chunk of its own",
                Names::Nothing,
            )],
            daemon: None,
        }
    }

    fn probe(&self, options: &NodeOptions) -> Result<Limits> {
        let sizes = Sizes::from_options(options)?;
        let links = u64::from(options.link_count.max(1));
        let free_bytes = free_bytes()?;
        let largest = Geometry::largest_payload(free_bytes / links, sizes.depth, sizes.directions, sizes.followers);
        let payload = options.max_payload_bytes;
        if payload <= largest && largest > 0 {
            return Ok(Limits { max_payload_bytes: largest, packet_bytes: 0, unauthorized_peers: 0 });
        }
        let needed = sizes.geometry(payload)?.bytes().saturating_mul(links);
        Err(Error::new(
            Status::Limit,
            format!(
                "a payload of {payload} bytes needs {needed} bytes of shared memory ({links} links, depth {}), \
                 {free_bytes} are free in /dev/shm and memory; enlarge it (mount -o remount,size=... /dev/shm), \
                 or take a payload of at most {largest} bytes or a smaller depth",
                sizes.depth
            ),
        ))
    }

    fn open(&self, options: &NodeOptions) -> Result<ShmNode> {
        if options.variant != "ring" {
            return Err(Error::new(Status::Invalid, format!("system 'shm' has no variant '{}'", options.variant)));
        }
        if options.wait == Wait::Callback {
            return Err(Error::new(Status::Invalid, "system 'shm' cannot wait by callback; take poll or block"));
        }
        let sizes = Sizes::from_options(options)?;
        Ok(ShmNode { geometry: sizes.geometry(options.max_payload_bytes)?, options: options.clone() })
    }
}

struct Sizes {
    depth: u64,
    directions: u64,
    followers: u64,
}

impl Sizes {
    fn from_options(options: &NodeOptions) -> Result<Self> {
        let followers = u64::from(options.follower_count.max(1));
        if followers > MOST_FOLLOWERS {
            let text =
                format!("{followers} followers are more than {MOST_FOLLOWERS}, the most that one leader connects");
            return Err(Error::new(Status::Limit, text));
        }
        let follower = options.follower_index;
        if u64::from(follower) >= followers {
            return Err(Error::new(Status::Invalid, format!("follower {follower} is none of {followers} (from 0)")));
        }
        let answers = if matches!(options.pattern, Pattern::Ping | Pattern::Call) { followers } else { 0 };
        Ok(Self { depth: options.number("depth", DEPTH)?, directions: 1 + answers, followers })
    }

    fn geometry(&self, payload_bytes: u64) -> Result<Geometry> {
        Geometry::new(payload_bytes, self.depth, self.directions, self.followers).ok_or_else(|| {
            let depth = self.depth;
            let text = format!("a payload of {payload_bytes} bytes at depth {depth} is more than can be addressed");
            Error::new(Status::Limit, text)
        })
    }
}

/// Bytes available for a new segment: free space of /dev/shm, limited by available memory.
fn free_bytes() -> Result<u64> {
    let space = rustix::fs::statvfs("/dev/shm").map_err(|errno| {
        let error = io::Error::from(errno);
        Error::new(Status::Unavailable, format!("/dev/shm is not there: {error}; mount a tmpfs on it"))
    })?;
    let in_shm = space.f_bavail.saturating_mul(space.f_frsize);
    Ok(in_shm.min(available_memory().unwrap_or(u64::MAX)))
}

fn available_memory() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?.checked_mul(1024)
}

pub struct ShmNode {
    options: NodeOptions,
    geometry: Geometry,
}

impl Node for ShmNode {
    type Link = ShmLink;

    fn link(&mut self, options: &LinkOptions) -> Result<ShmLink> {
        ShmLink::open(&self.options, self.geometry, options.index)
    }
}

#[cfg(test)]
mod ring_tests;
#[cfg(test)]
mod tests;
