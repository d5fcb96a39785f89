//! Unix domain sockets: datagram, stream and sequenced packets.
//!
//! Sockets are in the scratch folder, which only this user can enter: names in the abstract namespace are open to every
//! user. Messages larger than a datagram are split into packets. A connected link only calls `read(2)` and `write(2)`.

use rustix::net::{AddressFamily, SocketType};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use tripmeter_abi::os::{self, Deadline, Endpoint, Io, Port};
use tripmeter_abi::packets::{self, MOST_PAYLOAD_BYTES, PacketLink, StreamLink};
use tripmeter_abi::{
    Description, EitherLink, Error, Limits, LinkOptions, Names, Node, NodeOptions, Path, Pattern, Result, Role,
    Setting, Status, System, Variant, Wait, kernel_version,
};

#[derive(Clone, Copy, Debug, Default)]
pub struct Uds;

fn kind_of(variant: &str) -> SocketType {
    match variant {
        "stream" => SocketType::STREAM,
        "seqpacket" => SocketType::SEQPACKET,
        _ => SocketType::DGRAM,
    }
}

impl System for Uds {
    type Node = UdsNode;

    fn description(&self) -> Description {
        let variant = |name, summary, path| Variant {
            patterns: vec![Pattern::Ping, Pattern::Publish, Pattern::Call, Pattern::Throughput],
            interrupt: true,
            ..Variant::new(name, summary, path)
        };
        Description {
            system: "uds".into(),
            summary: "Unix domain sockets".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            system_version: kernel_version(),
            variants: vec![
                Variant { publishers: true, ..variant("datagram", "connected datagram sockets", Path::UnixDatagram) },
                variant("stream", "a stream connection", Path::UnixStream),
                variant("seqpacket", "a sequenced-packet connection", Path::UnixSeqpacket),
            ],
            settings: vec![
                packets::packet_setting(),
                Setting::new("buffer", "system", "system | bytes", "SO_SNDBUF and SO_RCVBUF", Names::Nothing),
            ],
            daemon: None,
        }
    }

    fn probe(&self, options: &NodeOptions) -> Result<Limits> {
        os::check(&self.description(), options)?;
        let packet = packet_bytes(options)?;
        let most = packet.map_or(MOST_PAYLOAD_BYTES, |packet| packets::largest_message(options, packet));
        Ok(Limits { max_payload_bytes: most, packet_bytes: packet.unwrap_or(0) as u64, unauthorized_peers: 0 })
    }

    fn open(&self, options: &NodeOptions) -> Result<UdsNode> {
        os::check(&self.description(), options)?;
        let packet = packet_bytes(options)?;
        let most = packet.map_or(MOST_PAYLOAD_BYTES, |packet| packets::largest_message(options, packet));
        os::check_payload(options, most)?;
        Ok(UdsNode { options: options.clone(), packet })
    }
}

/// Most bytes per send; `None` for a stream with `packet=native`, which has no limit.
fn packet_bytes(options: &NodeOptions) -> Result<Option<usize>> {
    let kind = kind_of(&options.variant);
    if kind == SocketType::STREAM {
        os::buffer_setting(options, &os::socket(AddressFamily::UNIX, kind)?)?;
        return packets::packet_bytes(options, MOST_PAYLOAD_BYTES);
    }
    let native = largest_packet(kind, options)?;
    Ok(Some(packets::packet_bytes(options, native as u64)?.unwrap_or(native)))
}

/// Largest packet that the kernel accepts, found by sending over a pair of sockets.
fn largest_packet(kind: SocketType, options: &NodeOptions) -> Result<usize> {
    let (sender, receiver) = os::socket_pair(kind)?;
    os::buffer_setting(options, &sender)?;
    let bytes = vec![0; os::send_buffer(&sender)?];
    let mut drained = [0];
    let mut carries = |length: usize| {
        let sent = sender.send(&bytes[..length]).is_ok();
        // A truncated read still removes the packet.
        sent && receiver.receive(&mut drained).is_ok()
    };
    let (mut most, mut too_many) = (packets::LEAST_PACKET_BYTES as usize, bytes.len() + 1);
    if !carries(most) {
        return Err(Error::last_os("sending a packet to find the largest one"));
    }
    while most + 1 < too_many {
        let middle = most.midpoint(too_many);
        if carries(middle) { most = middle } else { too_many = middle }
    }
    Ok(most)
}

pub struct UdsNode {
    options: NodeOptions,
    packet: Option<usize>,
}

impl Node for UdsNode {
    type Link = UdsLink;

    fn link(&mut self, link: &LinkOptions) -> Result<UdsLink> {
        let endpoint = Unix::new(&self.options, link.index)?;
        let most = self.options.max_payload_bytes;
        Ok(match self.packet {
            Some(packet) if !endpoint.is_stream() => EitherLink::A(PacketLink::new(endpoint, packet, most)?),
            packet => EitherLink::B(StreamLink::new(endpoint, packet, most)?),
        })
    }
}

/// Link of one message per packet, or of a stream.
pub type UdsLink = EitherLink<PacketLink<Unix>, StreamLink<Unix>>;

/// Unix socket; of connected kinds, the leader's is a listener until the follower connects.
pub struct Unix {
    socket: OwnedFd,
    kind: SocketType,
    path: PathBuf,
    options: NodeOptions,
}

impl Unix {
    fn new(options: &NodeOptions, index: u32) -> Result<Self> {
        let kind = kind_of(&options.variant);
        let side = if options.role == Role::Leader { 'l' } else { 'f' };
        let path = options.scratch_dir.join(format!("uds-{index}-{side}"));
        let socket = os::socket(AddressFamily::UNIX, kind)?;
        os::buffer_setting(options, &socket)?;
        if kind == SocketType::DGRAM || options.role == Role::Leader {
            os::bind(&socket, &os::unix_address(path.as_os_str().as_bytes())?)?;
        }
        if kind != SocketType::DGRAM && options.role == Role::Leader {
            os::listen(&socket)?;
        }
        Ok(Self { socket, kind, path, options: options.clone() })
    }

    fn is_stream(&self) -> bool {
        self.kind == SocketType::STREAM
    }
}

impl Drop for Unix {
    fn drop(&mut self) {
        // An unbound socket has no path; a path left after a kill is removed with its folder.
        let _ = std::fs::remove_file(&self.path);
    }
}

impl Port for Unix {
    #[inline]
    fn send(&self, bytes: &[u8]) -> Io {
        self.socket.send(bytes)
    }

    #[inline]
    fn receive(&self, room: &mut [u8]) -> Io {
        self.socket.receive(room)
    }
}

impl Endpoint for Unix {
    fn address(&mut self) -> Result<Vec<u8>> {
        Ok(self.path.as_os_str().as_bytes().to_vec())
    }

    fn connect(&mut self, peer: &[u8], deadline: Deadline) -> Result<()> {
        if self.kind == SocketType::DGRAM || self.options.role == Role::Follower {
            os::connect(&self.socket, &os::unix_address(peer)?, deadline)?;
        } else {
            self.socket = os::accept(&self.socket, deadline)?.0;
            // A connection does not inherit the buffer sizes of its listener.
            os::buffer_setting(&self.options, &self.socket)?;
        }
        os::set_nonblocking(self.socket.as_raw_fd(), self.options.wait == Wait::Poll)
    }

    fn hear_publishers(&mut self, publishers: &[Vec<u8>]) -> Result<()> {
        if self.kind != SocketType::DGRAM {
            return Err(Error::new(
                Status::Limit,
                format!("a connection has 1 peer, {} given; take uds/datagram", publishers.len()),
            ));
        }
        // An unconnected socket hears all who can reach its path: this user only.
        os::set_nonblocking(self.socket.as_raw_fd(), self.options.wait == Wait::Poll)
    }

    fn needs_farewell(&self) -> bool {
        self.kind == SocketType::DGRAM
    }

    fn stop_blocking(&self) {
        // The socket is about to be closed.
        let _ = os::set_nonblocking(self.socket.as_raw_fd(), true);
    }

    fn has_arrived(&self) -> bool {
        os::is_readable(self.socket.as_raw_fd())
    }
}

#[cfg(test)]
mod tests;
