//! UDP over the loopback interface, or between two hosts.
//!
//! UDP has no flow control: a message in several packets must fit the receive buffer whole, or it may be lost when its
//! receiver is late. The kernel charges more than a packet's bytes. This charge is measured, and the receive buffer
//! made large enough for the largest message. A connected link only calls `read(2)` and `write(2)`. It accepts
//! datagrams of its peers only: its socket is connected, or has a kernel filter where there are several publishers.

mod room;
mod sources;
#[cfg(test)]
mod tests;

use room::Room;
use rustix::net::SocketType;
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, UdpSocket};
use std::os::fd::{AsRawFd, OwnedFd};
use tripmeter_abi::os::{self, Deadline, Endpoint, Io, Port};
use tripmeter_abi::packets::{self, PacketLink};
use tripmeter_abi::{
    Description, Error, Limits, LinkOptions, Names, Node, NodeOptions, Path, Pattern, Result, Setting, System, Variant,
    Wait, kernel_version,
};

/// Most bytes of an IPv4 datagram: 65,535 less 20 of the IP and 8 of the UDP header.
const DATAGRAM_BYTES: usize = 65_507;

#[derive(Clone, Copy, Debug, Default)]
pub struct Udp;

impl System for Udp {
    type Node = UdpNode;

    fn description(&self) -> Description {
        let buffer = "SO_RCVBUF; fit: enough for the largest message; a number also sets SO_SNDBUF";
        Description {
            system: "udp".into(),
            summary: "UDP over the loopback interface, or between hosts".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            system_version: kernel_version(),
            variants: vec![Variant {
                patterns: vec![Pattern::Ping, Pattern::Publish, Pattern::Call, Pattern::Throughput],
                lossy: true,
                interrupt: true,
                publishers: true,
                remote: true,
                ..Variant::new("loopback", "connected sockets on 127.0.0.1", Path::Udp)
            }],
            settings: vec![
                packets::packet_setting(),
                Setting::new("buffer", "fit", "fit | system | bytes", buffer, Names::Nothing),
            ],
            daemon: None,
        }
    }

    fn probe(&self, options: &NodeOptions) -> Result<Limits> {
        let packet = packet_bytes(options)?;
        let room = Room::find(options, packet)?;
        let most = room.max_payload_bytes().min(packets::largest_message(options, packet));
        Ok(Limits { max_payload_bytes: most, packet_bytes: packet as u64, unauthorized_peers: 0 })
    }

    fn open(&self, options: &NodeOptions) -> Result<UdpNode> {
        let packet = packet_bytes(options)?;
        let room = Room::find(options, packet)?;
        os::check_payload(options, room.max_payload_bytes().min(packets::largest_message(options, packet)))?;
        Ok(UdpNode { options: options.clone(), packet, room })
    }
}

fn packet_bytes(options: &NodeOptions) -> Result<usize> {
    os::check(&Udp.description(), options)?;
    Ok(packets::packet_bytes(options, DATAGRAM_BYTES as u64)?.unwrap_or(DATAGRAM_BYTES))
}

pub struct UdpNode {
    options: NodeOptions,
    packet: usize,
    room: Room,
}

impl Node for UdpNode {
    type Link = PacketLink<Datagrams>;

    fn link(&mut self, _link: &LinkOptions) -> Result<Self::Link> {
        let socket = os::internet_socket(&self.options, SocketType::DGRAM)?;
        self.room.make(&self.options, &socket)?;
        os::bind_to_address(&self.options, &socket)?;
        let endpoint = Datagrams { socket, nonblocking: self.options.wait == Wait::Poll };
        PacketLink::new(endpoint, self.packet, self.options.max_payload_bytes)
    }
}

/// Socket that receives only from its peer once connected, or only from its publishers.
pub struct Datagrams {
    socket: OwnedFd,
    nonblocking: bool,
}

impl Datagrams {
    /// Removes datagrams of others that arrived before the socket had its peers, up to the first one of a peer. An
    /// empty datagram, or one that looks like a farewell, would end the link.
    fn remove_of_others(&self, peers: &[SocketAddr]) -> Result<()> {
        let failed = |error: io::Error| Error::failed(format!("what others sent cannot be removed: {error}"));
        let socket = UdpSocket::from(self.socket.try_clone().map_err(failed)?);
        // Both descriptors share this state.
        socket.set_nonblocking(true).map_err(failed)?;
        loop {
            match socket.peek_from(&mut [0]) {
                Ok((_, from)) if peers.contains(&from) => return Ok(()),
                // The next peek reports any error.
                Ok(_) => drop(socket.recv(&mut [0])),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if [ErrorKind::Interrupted, ErrorKind::ConnectionRefused].contains(&error.kind()) => {}
                Err(error) => return Err(failed(error)),
            }
        }
    }
}

impl Port for Datagrams {
    #[inline]
    fn send(&self, bytes: &[u8]) -> Io {
        self.socket.send(bytes)
    }

    #[inline]
    fn receive(&self, room: &mut [u8]) -> Io {
        self.socket.receive(room)
    }
}

impl Endpoint for Datagrams {
    fn address(&mut self) -> Result<Vec<u8>> {
        os::local_address(&self.socket).map(os::to_peer)
    }

    fn connect(&mut self, peer: &[u8], deadline: Deadline) -> Result<()> {
        let peer = os::of_peer(peer)?;
        os::connect(&self.socket, &peer, deadline)?;
        self.remove_of_others(&[peer])?;
        os::set_nonblocking(self.socket.as_raw_fd(), self.nonblocking)
    }

    fn hear_publishers(&mut self, publishers: &[Vec<u8>]) -> Result<()> {
        let publishers: Result<Vec<_>> = publishers.iter().map(|peer| os::of_peer(peer)).collect();
        let publishers = publishers?;
        sources::take_only_from(&self.socket, &publishers)?;
        self.remove_of_others(&publishers)?;
        os::set_nonblocking(self.socket.as_raw_fd(), self.nonblocking)
    }

    fn needs_farewell(&self) -> bool {
        true
    }

    fn stop_blocking(&self) {
        // The socket is about to be closed.
        let _ = os::set_nonblocking(self.socket.as_raw_fd(), true);
    }

    fn has_arrived(&self) -> bool {
        os::is_readable(self.socket.as_raw_fd())
    }
}
