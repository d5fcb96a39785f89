//! Sockets of the kernel: created non-blocking, and connected before a deadline.

use super::deadline::Deadline;
use super::errno::os_error;
use super::settings::number_or;
use crate::{Error, NodeOptions, Result, Status};
use rustix::io::Errno;
use rustix::net::addr::SocketAddrArg;
use rustix::net::{self, AddressFamily, SocketAddrUnix, SocketFlags, SocketType, sockopt};
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd};

const FLAGS: SocketFlags = SocketFlags::NONBLOCK.union(SocketFlags::CLOEXEC);
/// Most bytes of a path in a `sockaddr_un`, without its NUL.
const MOST_PATH_BYTES: usize = 107;

/// Error of a system call that failed with an `errno`.
fn failed(what: &str) -> impl Fn(Errno) -> Error {
    move |errno| os_error(what, errno.raw_os_error())
}

/// Unix address of a path: only users who can enter its folder can connect or send to it.
///
/// # Errors
/// `Limit` if the path is too long, `Invalid` if it is empty or has a NUL.
pub fn unix_address(path: &[u8]) -> Result<SocketAddrUnix> {
    if path.len() > MOST_PATH_BYTES {
        let text = format!("socket path of {} bytes, {MOST_PATH_BYTES} at most", path.len());
        return Err(Error::new(Status::Limit, text));
    }
    let address = Some(path).filter(|path| !path.is_empty()).and_then(|path| SocketAddrUnix::new(path).ok());
    address.ok_or_else(|| Error::new(Status::Invalid, "the path of a socket is empty, or has a NUL"))
}

/// Creates a non-blocking socket.
///
/// # Errors
/// `Unavailable` if the kernel does not support that kind.
pub fn socket(family: AddressFamily, kind: SocketType) -> Result<OwnedFd> {
    net::socket_with(family, kind, FLAGS, None).map_err(|errno| match errno {
        Errno::AFNOSUPPORT | Errno::PROTONOSUPPORT | Errno::SOCKTNOSUPPORT => {
            Error::new(Status::Unavailable, failed("creating a socket of this kind")(errno).to_string())
        }
        _ => failed("creating a socket")(errno),
    })
}

/// Creates two connected Unix sockets, both non-blocking.
pub fn socket_pair(kind: SocketType) -> Result<(OwnedFd, OwnedFd)> {
    net::socketpair(AddressFamily::UNIX, kind, FLAGS, None).map_err(failed("making a pair of sockets"))
}

/// Calls `bind(2)`.
pub fn bind(socket: &OwnedFd, address: &impl SocketAddrArg) -> Result<()> {
    net::bind(socket, address).map_err(failed("binding a socket"))
}

/// Calls `listen(2)`.
pub fn listen(socket: &OwnedFd) -> Result<()> {
    net::listen(socket, 8).map_err(failed("listening"))
}

/// Internet address that a socket is bound to.
///
/// # Errors
/// `Failed` for other families.
pub fn local_address(socket: &OwnedFd) -> Result<SocketAddr> {
    let address = net::getsockname(socket).map_err(failed("asking for a socket's address"))?;
    SocketAddr::try_from(address).map_err(|_| Error::failed("a socket has no internet address"))
}

/// Accepts a connection, non-blocking, with the peer's internet address.
///
/// # Errors
/// After the deadline.
pub fn accept(listener: &OwnedFd, deadline: Deadline) -> Result<(OwnedFd, Option<SocketAddr>)> {
    loop {
        deadline.wait(listener.as_raw_fd(), libc::POLLIN, "the follower's connection")?;
        match net::acceptfrom_with(listener, FLAGS) {
            Ok((socket, peer)) => return Ok((socket, peer.and_then(|peer| peer.try_into().ok()))),
            Err(Errno::AGAIN | Errno::INTR | Errno::CONNABORTED) => {}
            Err(errno) => return Err(failed("accepting a connection")(errno)),
        }
    }
}

/// Connects a non-blocking socket.
///
/// # Errors
/// `Closed` if nobody listens; `Failed` after the deadline.
pub fn connect(socket: &OwnedFd, address: &impl SocketAddrArg, deadline: Deadline) -> Result<()> {
    let failed = failed("connecting to the peer");
    loop {
        match net::connect(socket, address) {
            Ok(()) => return Ok(()),
            Err(Errno::INPROGRESS) => break,
            // The backlog of a Unix listener is full.
            Err(Errno::AGAIN | Errno::INTR) if deadline.nap() => {}
            // The listener's path is missing: its owner has removed it.
            Err(Errno::NOENT) => return Err(Error::closed(failed(Errno::NOENT).to_string())),
            Err(errno) => return Err(failed(errno)),
        }
    }
    deadline.wait(socket.as_raw_fd(), libc::POLLOUT, "the connection to the leader")?;
    sockopt::socket_error(socket).and_then(|outcome| outcome).map_err(failed)
}

/// Creates a socket of `kind`, in the family of the node's address. Fails as [`socket()`].
pub fn internet_socket(options: &NodeOptions, kind: SocketType) -> Result<OwnedFd> {
    socket(if options.address().is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 }, kind)
}

/// Binds a socket to the node's address, at a port that the kernel chooses.
///
/// # Errors
/// `Unavailable` if this host does not have the address.
pub fn bind_to_address(options: &NodeOptions, socket: &OwnedFd) -> Result<()> {
    let address = options.address();
    net::bind(socket, &SocketAddr::from((address, 0))).map_err(|errno| match errno {
        Errno::ADDRNOTAVAIL => Error::new(Status::Unavailable, format!("this host has no address {address}")),
        _ => failed("binding a socket")(errno),
    })
}

/// Sets the size of the receive buffer. A privilege exceeds the limit of `net.core.rmem_max`.
pub fn set_receive_buffer(socket: &OwnedFd, bytes: usize) -> Result<()> {
    let set = sockopt::set_socket_recv_buffer_size_force(socket, bytes);
    set.or_else(|_| sockopt::set_socket_recv_buffer_size(socket, bytes)).map_err(failed("setting a socket option"))
}

fn set_send_buffer(socket: &OwnedFd, bytes: usize) -> Result<()> {
    let set = sockopt::set_socket_send_buffer_size_force(socket, bytes);
    set.or_else(|_| sockopt::set_socket_send_buffer_size(socket, bytes)).map_err(failed("setting a socket option"))
}

/// Size of the receive buffer as the kernel counts it, twice the request.
pub fn receive_buffer(socket: &OwnedFd) -> Result<usize> {
    sockopt::socket_recv_buffer_size(socket).map_err(failed("reading a socket option"))
}

/// Size of the send buffer as the kernel counts it, twice the request.
pub fn send_buffer(socket: &OwnedFd) -> Result<usize> {
    sockopt::socket_send_buffer_size(socket).map_err(failed("reading a socket option"))
}

/// Applies the setting `buffer` (`system`, or bytes for `SO_SNDBUF` and `SO_RCVBUF`).
///
/// # Errors
/// `Limit` if the kernel grants less.
pub fn buffer_setting(options: &NodeOptions, socket: &OwnedFd) -> Result<()> {
    let Some(bytes) = number_or(options, "buffer", "system", 4096..=1 << 30)? else {
        return Ok(());
    };
    let bytes = bytes as usize;
    set_send_buffer(socket, bytes)?;
    set_receive_buffer(socket, bytes)?;
    let both = [(send_buffer(socket)?, "net.core.wmem_max"), (receive_buffer(socket)?, "net.core.rmem_max")];
    match both.into_iter().find(|(granted, _)| granted / 2 < bytes) {
        None => Ok(()),
        Some((granted, sysctl)) => {
            let granted = granted / 2;
            let text = format!("setting 'buffer={bytes}': the kernel grants {granted}; raise sysctl {sysctl}");
            Err(Error::new(Status::Limit, text))
        }
    }
}
