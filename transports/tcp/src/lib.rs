//! TCP over the loopback interface, or between two hosts. A connected link only calls `read(2)` and `write(2)`.

use rustix::net::{SocketType, sockopt};
use std::os::fd::{AsRawFd, OwnedFd};
use tripmeter_abi::os::{self, Deadline, Endpoint, Io, Port};
use tripmeter_abi::packets::{self, MOST_PAYLOAD_BYTES, StreamLink};
use tripmeter_abi::{
    Description, Error, Limits, LinkOptions, Names, Node, NodeOptions, Path, Pattern, Result, Role, Setting, System,
    Variant, Wait, kernel_version,
};

#[derive(Clone, Copy, Debug, Default)]
pub struct Tcp;

impl System for Tcp {
    type Node = TcpNode;

    fn description(&self) -> Description {
        Description {
            system: "tcp".into(),
            summary: "TCP over the loopback interface, or between hosts".into(),
            version: env!("CARGO_PKG_VERSION").into(),
            system_version: kernel_version(),
            variants: vec![Variant {
                patterns: vec![Pattern::Ping, Pattern::Publish, Pattern::Call, Pattern::Throughput],
                interrupt: true,
                remote: true,
                ..Variant::new("loopback", "a connection over 127.0.0.1", Path::Tcp)
            }],
            settings: vec![
                packets::packet_setting(),
                Setting::new(
                    "nodelay",
                    "on",
                    "on | off",
                    "TCP_NODELAY: send at once, without Nagle's algorithm",
                    Names::Nothing,
                ),
                Setting::new(
                    "buffer",
                    "system",
                    "system | bytes",
                    "SO_SNDBUF and SO_RCVBUF; system: the kernel adapts",
                    Names::Nothing,
                ),
            ],
            daemon: None,
        }
    }

    fn probe(&self, options: &NodeOptions) -> Result<Limits> {
        let settings = Settings::read(options)?;
        os::buffer_setting(options, &os::internet_socket(options, SocketType::STREAM)?)?;
        let packet_bytes = settings.packet.unwrap_or(0) as u64;
        Ok(Limits { max_payload_bytes: MOST_PAYLOAD_BYTES, packet_bytes, unauthorized_peers: 0 })
    }

    fn open(&self, options: &NodeOptions) -> Result<TcpNode> {
        os::check_payload(options, MOST_PAYLOAD_BYTES)?;
        Ok(TcpNode { settings: Settings::read(options)?, options: options.clone() })
    }
}

#[derive(Clone, Copy)]
struct Settings {
    packet: Option<usize>,
    nodelay: bool,
}

impl Settings {
    fn read(options: &NodeOptions) -> Result<Self> {
        os::check(&Tcp.description(), options)?;
        let nodelay = options.is_on("nodelay", true)?;
        Ok(Self { packet: packets::packet_bytes(options, MOST_PAYLOAD_BYTES)?, nodelay })
    }
}

pub struct TcpNode {
    options: NodeOptions,
    settings: Settings,
}

impl Node for TcpNode {
    type Link = StreamLink<Connection>;

    fn link(&mut self, _link: &LinkOptions) -> Result<Self::Link> {
        let endpoint = Connection::new(&self.options, self.settings.nodelay)?;
        StreamLink::new(endpoint, self.settings.packet, self.options.max_payload_bytes)
    }
}

/// A connection; the leader's socket is a listener until the follower connects.
pub struct Connection {
    socket: OwnedFd,
    role: Role,
    nonblocking: bool,
    nodelay: bool,
}

impl Connection {
    fn new(options: &NodeOptions, nodelay: bool) -> Result<Self> {
        let socket = os::internet_socket(options, SocketType::STREAM)?;
        // A connection inherits the buffer sizes of its listener.
        os::buffer_setting(options, &socket)?;
        os::bind_to_address(options, &socket)?;
        if options.role == Role::Leader {
            os::listen(&socket)?;
        }
        Ok(Self { socket, role: options.role, nonblocking: options.wait == Wait::Poll, nodelay })
    }
}

impl Port for Connection {
    #[inline]
    fn send(&self, bytes: &[u8]) -> Io {
        self.socket.send(bytes)
    }

    #[inline]
    fn receive(&self, room: &mut [u8]) -> Io {
        self.socket.receive(room)
    }
}

impl Endpoint for Connection {
    fn address(&mut self) -> Result<Vec<u8>> {
        os::local_address(&self.socket).map(os::to_peer)
    }

    fn connect(&mut self, peer: &[u8], deadline: Deadline) -> Result<()> {
        let peer = os::of_peer(peer)?;
        if self.role == Role::Follower {
            os::connect(&self.socket, &peer, deadline)?;
        } else {
            self.socket = loop {
                let (socket, from) = os::accept(&self.socket, deadline)?;
                // Anybody may connect; only the follower is accepted.
                if from == Some(peer) {
                    break socket;
                }
            };
        }
        let set = sockopt::set_tcp_nodelay(&self.socket, self.nodelay);
        set.map_err(|errno| Error::os("setting a socket option", errno.into()))?;
        os::set_nonblocking(self.socket.as_raw_fd(), self.nonblocking)
    }

    fn has_arrived(&self) -> bool {
        os::is_readable(self.socket.as_raw_fd())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::net::AddressFamily;
    use std::net::{Ipv4Addr, SocketAddr};
    use tripmeter_abi::testing::{self, Case};
    use tripmeter_abi::{Link, Status};

    const CASE: Case<'_> =
        Case { variant: "loopback", settings: &[], wait: Wait::Poll, pattern: Pattern::Ping, payloads: &[(16, 1)] };

    #[test]
    fn loopback() {
        testing::conformance(&Tcp, "loopback", &[&[], &[("packet", "4096")], &[("buffer", "65536")]]);
    }

    #[test]
    fn nodelay_can_be_turned_off() {
        for wait in [Wait::Poll, Wait::Block] {
            testing::ping(&Tcp, &Case { settings: &[("nodelay", "off")], wait, payloads: &[(1 << 17, 3)], ..CASE });
        }
        let error = testing::probe(&Tcp, &Case { settings: &[("nodelay", "maybe")], ..CASE }).unwrap_err();
        assert_eq!(error.status, Status::Invalid);
    }

    #[test]
    fn both_ends_have_the_setting_nodelay() {
        let is_on = |end: &Connection| sockopt::tcp_nodelay(&end.socket).unwrap();
        let scratch = testing::Scratch::new();
        for nodelay in [true, false] {
            let end = |role| Connection::new(&testing::options(&Tcp, role, &CASE, &scratch), nodelay).unwrap();
            let (mut leader, mut follower) = (end(Role::Leader), end(Role::Follower));
            let (to_leader, to_follower) = (leader.address().unwrap(), follower.address().unwrap());
            let deadline = || Deadline::after(60_000_000_000);
            follower.connect(&to_leader, deadline()).unwrap();
            leader.connect(&to_follower, deadline()).unwrap();
            assert_eq!([is_on(&leader), is_on(&follower)], [nodelay; 2]);
        }
    }

    #[test]
    fn a_stranger_is_not_taken_for_the_follower() {
        let scratch = testing::Scratch::new();
        let open = |role| {
            let mut node = Tcp.open(&testing::options(&Tcp, role, &CASE, &scratch)).unwrap();
            node.link(&LinkOptions { index: 0, callback: None }).unwrap()
        };
        let (mut leader, mut follower) = (open(Role::Leader), open(Role::Follower));
        let (to_leader, to_follower) = (leader.address().unwrap(), follower.address().unwrap());
        let _stranger = std::net::TcpStream::connect(os::of_peer(&to_leader).unwrap()).unwrap();
        follower.connect(&[to_leader], testing::PATIENCE_NS).unwrap();
        leader.connect(&[to_follower], testing::PATIENCE_NS).unwrap();
        let loan = follower.loan(3, None).unwrap();
        assert!(follower.publish(loan, testing::PATIENCE_NS).unwrap());
        let start = std::time::Instant::now();
        let taken = loop {
            match leader.take(0).unwrap() {
                Some(message) => break message,
                None => assert!(start.elapsed() < testing::TIME_LIMIT, "the follower's message did not come"),
            }
        };
        assert_eq!(taken.length, 3);
    }

    #[test]
    fn connecting_to_nobody_fails() {
        let scratch = testing::Scratch::new();
        let options = testing::options(&Tcp, Role::Follower, &CASE, &scratch);
        let mut link = Tcp.open(&options).unwrap().link(&LinkOptions { index: 0, callback: None }).unwrap();
        let own = link.address().unwrap();
        assert!(link.connect(&[vec![1, 2, 3]], 1_000_000).is_err());
        // Keeps the port from others, and does not listen.
        let mute = os::socket(AddressFamily::INET, SocketType::STREAM).unwrap();
        os::bind(&mute, &SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).unwrap();
        let nobody = os::to_peer(os::local_address(&mute).unwrap());
        assert_ne!(nobody, own);
        let error = link.connect(&[nobody], testing::PATIENCE_NS).unwrap_err();
        assert_eq!(error.status, Status::Closed, "{error}");
    }
}
