//! Kernel filter for a socket with several peers: drops datagrams of all others before they reach it.
//!
//! A socket can be connected to one peer only. With a filter for several, a receive stays `read(2)`.
#![expect(unsafe_code, reason = "a system call")]

use libc::{BPF_ABS, BPF_H, BPF_JA, BPF_JEQ, BPF_JGE, BPF_JMP, BPF_K, BPF_LD, BPF_RET, BPF_W, sock_filter};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsRawFd, OwnedFd};
use tripmeter_abi::{Error, Result, Status};

/// Most instructions of a filter (`BPF_MAXINSNS`).
const MOST_INSTRUCTIONS: usize = 4096;
/// Longest list of ports that the filter compares one by one; it halves longer lists first, as a binary search does.
/// A conditional jump skips at most 255 instructions.
const NEIGHBOURS: usize = 32;
/// Offsets of the source address in the headers of IP.
const SOURCE_V4: u32 = 12;
const SOURCE_V6: u32 = 8;
/// Offset of the source port in the UDP header, where a filter's view of the packet starts on UDP sockets.
const SOURCE_PORT: u32 = 0;

/// Restricts a socket to datagrams of these peers, which are ports of one address. Fails with `Limit` if there are
/// too many, with `Invalid` if they have several addresses, else with the error of `setsockopt(2)`.
pub(crate) fn take_only_from(socket: &OwnedFd, peers: &[SocketAddr]) -> Result<()> {
    let mut program = program(peers)?;
    let filter = libc::sock_fprog { len: program.len() as u16, filter: program.as_mut_ptr() };
    let length = size_of::<libc::sock_fprog>() as libc::socklen_t;
    let (fd, level, name) = (socket.as_raw_fd(), libc::SOL_SOCKET, libc::SO_ATTACH_FILTER);
    // SAFETY: the filter is readable for its length, and so are its instructions, which the kernel copies and checks.
    match unsafe { libc::setsockopt(fd, level, name, (&raw const filter).cast(), length) } {
        0 => Ok(()),
        _ => Err(refused(std::io::Error::last_os_error(), peers.len())),
    }
}

/// Error of a kernel that refused a filter for `count` peers.
pub(crate) fn refused(error: std::io::Error, count: usize) -> Error {
    let is_memory = error.raw_os_error() == Some(libc::ENOMEM);
    let error = Error::os("having the kernel drop datagrams of others (SO_ATTACH_FILTER)", error);
    if !is_memory {
        return error;
    }
    let why = format!("the filter of {count} publishers is over net.core.optmem_max; raise it, or use fewer");
    Error::new(Status::Limit, format!("{error}; {why}"))
}

/// Instructions of the filter: 4,096 are enough for about 3,500 peers. The kernel's translation of them must fit
/// `net.core.optmem_max`: 20,480 bytes are enough for 2,000 peers, not for 2,200.
pub(crate) fn program(peers: &[SocketAddr]) -> Result<Vec<sock_filter>> {
    let address = peers.first().map(SocketAddr::ip);
    let Some(address) = address.filter(|address| peers.iter().all(|peer| peer.ip() == *address)) else {
        return Err(Error::new(Status::Invalid, "publishers of one topic have ports of one address"));
    };
    let (source, octets) = match address {
        IpAddr::V4(address) => (SOURCE_V4, address.octets().to_vec()),
        IpAddr::V6(address) => (SOURCE_V6, address.octets().to_vec()),
    };
    let mut program = Vec::new();
    for (at, word) in (source..).step_by(4).zip(octets.chunks_exact(4)) {
        let word = word.iter().fold(0, |word, octet| word << 8 | u32::from(*octet));
        program.push(instruction(BPF_LD | BPF_W | BPF_ABS, (libc::SKF_NET_OFF as u32).wrapping_add(at)));
        program.push(sock_filter { jt: 1, ..instruction(BPF_JMP | BPF_JEQ | BPF_K, word) });
        program.push(verdict(false));
    }
    program.push(instruction(BPF_LD | BPF_H | BPF_ABS, SOURCE_PORT));
    let mut ports: Vec<u16> = peers.iter().map(SocketAddr::port).collect();
    ports.sort_unstable();
    program.extend(search(&ports));
    if program.len() > MOST_INSTRUCTIONS {
        let (count, needed) = (peers.len(), program.len());
        let text = format!(
            "{count} publishers need a filter of {needed} instructions, the kernel takes {MOST_INSTRUCTIONS}; use fewer"
        );
        return Err(Error::new(Status::Limit, text));
    }
    Ok(program)
}

/// Instructions that accept or drop by the loaded port, given the sorted ports to accept.
fn search(ports: &[u16]) -> Vec<sock_filter> {
    if ports.len() > NEIGHBOURS {
        let (lower, upper) = ports.split_at(ports.len() / 2);
        let [below, above] = [lower, upper].map(search);
        let choice = [
            sock_filter { jf: 1, ..instruction(BPF_JMP | BPF_JGE | BPF_K, upper[0].into()) },
            instruction(BPF_JMP | BPF_JA, below.len() as u32),
        ];
        return [&choice[..], &below, &above].concat();
    }
    let left = (0..ports.len() as u8).rev();
    let compare = |(port, left): (&u16, u8)| sock_filter {
        // Jumps over the remaining comparisons and the instruction that drops.
        jt: left + 1,
        ..instruction(BPF_JMP | BPF_JEQ | BPF_K, (*port).into())
    };
    ports.iter().zip(left).map(compare).chain([verdict(false), verdict(true)]).collect()
}

fn instruction(code: u32, k: u32) -> sock_filter {
    sock_filter { code: code as u16, jt: 0, jf: 0, k }
}

fn verdict(takes: bool) -> sock_filter {
    instruction(BPF_RET | BPF_K, if takes { u32::MAX } else { 0 })
}
