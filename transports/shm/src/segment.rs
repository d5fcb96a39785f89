//! Shared segment of one link: a front page, then the chunks of both directions.
#![expect(unsafe_code, reason = "memory that is lent or shared")]

use crate::ring::{Control, EventCount, HEAD_BYTES, Place};
use memmap2::{MmapOptions, MmapRaw};
use rustix::fs::{FallocateFlags, Mode, OFlags, fallocate};
use rustix::io::Errno;
use std::fs::File;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};
use tripmeter_abi::{Error, Result, Role, Status};

/// Most followers of a link: each has a byte in the front page, and its own words.
pub(crate) const MOST_FOLLOWERS: u64 = 512;

const PAGE: u64 = 4096;
const CACHE_LINE: u64 = 64;
/// Marks a complete segment of this layout.
const MAGIC: u64 = u64::from_le_bytes(*b"tripshm3");

#[repr(C, align(64))]
struct Front {
    /// Stored last by the leader.
    magic: AtomicU64,
    depth: AtomicU64,
    stride: AtomicU64,
    leader_sleeps: AtomicU32,
    follower_sleeps: AtomicU32,
    connected: AtomicU32,
    controls: Controls,
    /// 1 for each follower that tried to connect. Placed after the words that messages use, which keep their cache
    /// lines to themselves.
    joined: [AtomicU8; MOST_FOLLOWERS as usize],
}

/// Words of the rings of one follower. Those of the first follower are in the front page, the others after it.
#[repr(C, align(64))]
struct Controls {
    to_follower: Control,
    to_leader: Control,
}

const _: () = assert!(size_of::<Front>() as u64 <= PAGE);
const CONTROLS_BYTES: u64 = size_of::<Controls>() as u64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Geometry {
    /// Messages in flight per direction.
    pub(crate) depth: u64,
    /// Bytes from chunk to chunk.
    stride: u64,
    /// Rows of chunks: the leader's, and one for each follower that answers.
    directions: u64,
    followers: u64,
}

impl Geometry {
    /// `None` if the numbers exceed any memory.
    pub(crate) fn new(payload_bytes: u64, depth: u64, directions: u64, followers: u64) -> Option<Self> {
        let whole = payload_bytes.checked_add(HEAD_BYTES as u64)?.checked_next_multiple_of(PAGE)?;
        // One line more than whole pages; otherwise the heads of all chunks would fall into one set of the cache.
        let geometry = Self { depth, stride: whole.checked_add(CACHE_LINE)?, directions, followers };
        let chunks = geometry.stride.checked_mul(geometry.chunks())?;
        (chunks.checked_add(geometry.front_bytes())? <= isize::MAX as u64).then_some(geometry)
    }

    /// Largest message that fits into `free_bytes`; 0 if none does.
    pub(crate) fn largest_payload(free_bytes: u64, depth: u64, directions: u64, followers: u64) -> u64 {
        let stride = free_bytes.saturating_sub(front_bytes(followers)) / ((depth + 1) * directions);
        let whole = stride.saturating_sub(CACHE_LINE) / PAGE * PAGE;
        whole.saturating_sub(HEAD_BYTES as u64)
    }

    fn chunks(&self) -> u64 {
        (self.depth + 1) * self.directions
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.front_bytes() + self.chunks() * self.stride
    }

    fn front_bytes(&self) -> u64 {
        front_bytes(self.followers)
    }

    pub(crate) fn payload_bytes(&self) -> usize {
        (self.stride - CACHE_LINE) as usize - HEAD_BYTES
    }
}

/// Bytes before the chunks, in whole pages.
fn front_bytes(followers: u64) -> u64 {
    PAGE + (followers.saturating_sub(1) * CONTROLS_BYTES).next_multiple_of(PAGE)
}

/// Path that is removed when dropped.
struct Name(String);

impl Drop for Name {
    fn drop(&mut self) {
        // It may be gone already.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Mapped segment, accessed through atomics, or through chunks owned by one end at a time.
pub(crate) struct Segment {
    memory: MmapRaw,
    geometry: Geometry,
    /// Name of the leader's; `None` in a follower.
    _name: Option<Name>,
}

impl Segment {
    pub(crate) fn create(name: &str, geometry: Geometry, sleeps: bool) -> Result<Self> {
        let path = path(name)?;
        let file = open(&path, OFlags::CREATE | OFlags::EXCL);
        let file = file.map_err(|errno| Error::os(&format!("creating shared memory '{name}'"), errno.into()))?;
        let path = Name(path);
        reserve(&file, name, geometry.bytes())?;
        let segment = Self { memory: map(&file, geometry.bytes())?, geometry, _name: Some(path) };
        segment.fill();
        let front = segment.front();
        front.depth.store(geometry.depth, Ordering::Relaxed);
        front.stride.store(geometry.stride, Ordering::Relaxed);
        front.leader_sleeps.store(sleeps.into(), Ordering::Relaxed);
        front.magic.store(MAGIC, Ordering::Release);
        Ok(segment)
    }

    /// Maps the leader's segment and marks `follower`, one of `followers`, as joined. Fails if it is marked already.
    pub(crate) fn join(name: &str, sleeps: bool, follower: u32, followers: u64) -> Result<Self> {
        let file = open(&path(name)?, OFlags::empty())
            .map_err(|errno| Error::os(&format!("opening the leader's shared memory '{name}'"), errno.into()))?;
        let metadata = file.metadata();
        let length =
            metadata.map_err(|error| Error::os(&format!("reading the size of shared memory '{name}'"), error))?.len();
        let foreign =
            || Error::failed(format!("shared memory '{name}' ({length} bytes) is not a segment of this version"));
        if length < PAGE {
            return Err(foreign());
        }
        let mut segment = Self { memory: map(&file, length)?, geometry: Geometry::whole(length), _name: None };
        segment.geometry = segment.read_geometry(length, followers).ok_or_else(foreign)?;
        if segment.front().joined[follower as usize].swap(1, Ordering::AcqRel) != 0 {
            let text = format!(
                "shared memory '{name}' has a follower {follower} already; this leader connects {followers} follower(s)"
            );
            return Err(Error::new(Status::Invalid, text));
        }
        segment.touch();
        segment.front().follower_sleeps.store(sleeps.into(), Ordering::Relaxed);
        segment.front().connected.fetch_add(1, Ordering::AcqRel);
        Ok(segment)
    }

    pub(crate) fn connected(&self) -> u64 {
        self.front().connected.load(Ordering::Acquire).into()
    }

    pub(crate) fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// Ring that `role` writes, and ring that it reads, between the leader and one follower. If there is one direction,
    /// both are the same memory, written by the leader. The leader's chunks are the same for all followers.
    pub(crate) fn rings(&self, role: Role, follower: u32) -> (Option<Place>, Option<Place>) {
        let front = self.front();
        let sleepers = [&front.leader_sleeps, &front.follower_sleeps].map(|word| word.load(Ordering::Relaxed) != 0);
        let (sleeps, peer_sleeps) = match role {
            Role::Leader => (sleepers[0], sleepers[1]),
            Role::Follower => (sleepers[1], sleepers[0]),
        };
        let place = |control: &Control, event_count: *const EventCount, direction: u64| {
            (direction < self.geometry.directions).then(|| Place {
                control,
                event_count,
                // SAFETY: the geometry was checked against the size of the mapping.
                chunks: unsafe { self.memory().add(self.geometry.direction_offset(direction)) },
                stride: self.geometry.stride as usize,
                depth: self.geometry.depth as usize,
                sleeps,
                peer_sleeps,
            })
        };
        let controls = self.controls(follower);
        // All followers wake the leader through one event count.
        let leaders_bed = front.controls.to_leader.event_count();
        let out = place(&controls.to_follower, controls.to_follower.event_count(), 0);
        let back = place(&controls.to_leader, leaders_bed, 1 + u64::from(follower));
        match role {
            Role::Leader => (out, back),
            Role::Follower => (back, out),
        }
    }

    fn controls(&self, follower: u32) -> &Controls {
        let Some(behind) = u64::from(follower).checked_sub(1) else { return &self.front().controls };
        // SAFETY: this is one of the followers, by the check of the options; the front of a segment has room for all of
        // them, in the mapping; they consist of atomics, all zeros at the start.
        unsafe { &*self.memory().add((PAGE + behind * CONTROLS_BYTES) as usize).cast::<Controls>() }
    }

    fn memory(&self) -> *mut u8 {
        self.memory.as_mut_ptr()
    }

    fn front(&self) -> &Front {
        // SAFETY: the mapping is page-aligned and at least a page long, and the front consists of atomics.
        unsafe { &*self.memory().cast::<Front>() }
    }

    fn read_geometry(&self, length: u64, followers: u64) -> Option<Geometry> {
        let front = self.front();
        if front.magic.load(Ordering::Acquire) != MAGIC {
            return None;
        }
        let (depth, stride) = (front.depth.load(Ordering::Relaxed), front.stride.load(Ordering::Relaxed));
        let geometries = [1, 1 + followers].map(|directions| Geometry { depth, stride, directions, followers });
        geometries.into_iter().find(|geometry| geometry.bytes() == length)
    }

    /// Fills the chunks with pseudorandom words, so that the kernel cannot merge pages, and marks them free.
    fn fill(&self) {
        let front_bytes = self.geometry.front_bytes() as usize;
        let words = (self.geometry.bytes() as usize - front_bytes) / size_of::<u64>();
        // SAFETY: the chunks lie behind the front; no other process has been told of the segment yet.
        let words = unsafe { std::slice::from_raw_parts_mut(self.memory().add(front_bytes).cast::<u64>(), words) };
        let mut state = 0x9E37_79B9_7F4A_7C15_u64;
        for word in &mut *words {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            *word = state;
        }
        for chunk in words.chunks_exact_mut(self.geometry.stride as usize / size_of::<u64>()) {
            chunk[..HEAD_BYTES / size_of::<u64>()].fill(0);
        }
    }

    /// Maps every page for writing.
    fn touch(&self) {
        for offset in (0..self.geometry.bytes() as usize).step_by(PAGE as usize) {
            // SAFETY: inside the mapping; adding 0 changes nothing for other processes.
            unsafe { AtomicU8::from_ptr(self.memory().add(offset)) }.fetch_add(0, Ordering::Relaxed);
        }
    }
}

impl Geometry {
    /// Provisional geometry of a whole segment, used until its front page is read.
    fn whole(length: u64) -> Self {
        Self { depth: 0, stride: length - PAGE, directions: 1, followers: 1 }
    }

    fn direction_offset(&self, direction: u64) -> usize {
        (self.front_bytes() + direction * (self.depth + 1) * self.stride) as usize
    }
}

fn path(name: &str) -> Result<String> {
    let path = (!name.contains(['/', '\0'])).then(|| format!("/dev/shm/{name}"));
    path.ok_or_else(|| Error::new(Status::Invalid, format!("'{}' is not a name of shared memory", name.escape_debug())))
}

fn map(file: &File, bytes: u64) -> Result<MmapRaw> {
    let mapped = MmapOptions::new().populate().len(bytes as usize).map_raw(file);
    mapped.map_err(|error| Error::os(&format!("mapping {bytes} bytes of shared memory"), error))
}

/// Allocates the pages now, so that a full /dev/shm is an error here and not a fatal signal later.
fn reserve(file: &File, name: &str, bytes: u64) -> Result<()> {
    fallocate(file, FallocateFlags::empty(), 0, bytes).map_err(|errno| {
        let reason = std::io::Error::from(errno);
        if errno != Errno::NOSPC && errno != Errno::NOMEM {
            return Error::os(&format!("reserving {bytes} bytes of shared memory '{name}'"), reason);
        }
        let text = format!(
            "shared memory '{name}' needs {bytes} bytes of /dev/shm: {reason}; \
             enlarge it (mount -o remount,size=... /dev/shm), or take a smaller payload or depth"
        );
        Error::new(Status::Limit, text)
    })
}

/// As `shm_open(3)`; that of rustix follows links.
fn open(path: &str, flags: OFlags) -> rustix::io::Result<File> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW | flags;
    rustix::fs::open(path, flags, Mode::RUSR | Mode::WUSR).map(File::from)
}
