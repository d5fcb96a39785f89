//! Socket calls of the kernel: sockets are created non-blocking, and connect before a deadline.
#![expect(unsafe_code, reason = "the C boundary")]

use super::deadline::Deadline;
use super::errno::{errno, os_error};
use super::settings::number_or;
use crate::{Error, NodeOptions, Result, Status};
use std::ffi::c_int;
use std::mem;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

/// Unix or internet address of a socket.
#[derive(Clone, Copy)]
pub struct SocketAddress {
    storage: libc::sockaddr_storage,
    length: libc::socklen_t,
}

impl SocketAddress {
    fn empty() -> Self {
        // SAFETY: all zeroes is a valid `sockaddr_storage`.
        Self { storage: unsafe { mem::zeroed() }, length: size_of::<libc::sockaddr_storage>() as libc::socklen_t }
    }

    /// Unix address of a path: only users who can enter its folder can connect or send to it.
    ///
    /// # Errors
    /// `Limit` if the path is too long, `Invalid` if it is empty or has a NUL.
    pub fn unix(path: &[u8]) -> Result<Self> {
        let mut address = Self::empty();
        // SAFETY: `sockaddr_storage` is large enough and aligned for every address.
        let unix = unsafe { &mut *(&raw mut address.storage).cast::<libc::sockaddr_un>() };
        unix.sun_family = libc::AF_UNIX as libc::sa_family_t;
        let most = unix.sun_path.len() - 1;
        if path.len() > most {
            let text = format!("socket path of {} bytes, {most} at most", path.len());
            return Err(Error::new(Status::Limit, text));
        }
        if path.is_empty() || path.contains(&0) {
            return Err(Error::new(Status::Invalid, "the path of a socket is empty, or has a NUL"));
        }
        for (to, from) in unix.sun_path.iter_mut().zip(path) {
            *to = *from as libc::c_char;
        }
        let before = mem::offset_of!(libc::sockaddr_un, sun_path);
        address.length = (before + path.len() + 1) as libc::socklen_t;
        Ok(address)
    }

    /// Internet address; port 0 lets the kernel choose.
    pub fn internet(at: SocketAddr) -> Self {
        let mut address = Self::empty();
        match at {
            SocketAddr::V4(at) => {
                // SAFETY: as in `unix`.
                let internet = unsafe { &mut *(&raw mut address.storage).cast::<libc::sockaddr_in>() };
                internet.sin_family = libc::AF_INET as libc::sa_family_t;
                internet.sin_port = at.port().to_be();
                internet.sin_addr.s_addr = u32::from_ne_bytes(at.ip().octets());
                address.length = size_of::<libc::sockaddr_in>() as libc::socklen_t;
            }
            SocketAddr::V6(at) => {
                // SAFETY: as in `unix`.
                let internet = unsafe { &mut *(&raw mut address.storage).cast::<libc::sockaddr_in6>() };
                internet.sin6_family = libc::AF_INET6 as libc::sa_family_t;
                internet.sin6_port = at.port().to_be();
                internet.sin6_addr.s6_addr = at.ip().octets();
                internet.sin6_scope_id = at.scope_id();
                address.length = size_of::<libc::sockaddr_in6>() as libc::socklen_t;
            }
        }
        address
    }

    /// Port of 127.0.0.1; 0 lets the kernel choose.
    pub fn loopback(port: u16) -> Self {
        Self::internet((Ipv4Addr::LOCALHOST, port).into())
    }

    /// Internet address; `None` for other families.
    pub fn as_internet(&self) -> Option<SocketAddr> {
        let at = (&raw const self.storage).cast::<libc::sockaddr_in>();
        match c_int::from(self.storage.ss_family) {
            libc::AF_INET => {
                // SAFETY: the family says which address it is.
                let at = unsafe { &*at };
                let ip = Ipv4Addr::from(at.sin_addr.s_addr.to_ne_bytes());
                Some(SocketAddrV4::new(ip, u16::from_be(at.sin_port)).into())
            }
            libc::AF_INET6 => {
                // SAFETY: as above.
                let at = unsafe { &*at.cast::<libc::sockaddr_in6>() };
                let ip = Ipv6Addr::from(at.sin6_addr.s6_addr);
                Some(SocketAddrV6::new(ip, u16::from_be(at.sin6_port), 0, at.sin6_scope_id).into())
            }
            _ => None,
        }
    }

    /// Internet address as text for a peer, e.g. `127.0.0.1:4711`.
    ///
    /// # Errors
    /// `Failed` for other families.
    pub fn to_peer(&self) -> Result<Vec<u8>> {
        let address = self.as_internet().ok_or_else(|| Error::failed("a socket has no internet address"))?;
        Ok(address.to_string().into_bytes())
    }

    /// Parses an address from a peer.
    ///
    /// # Errors
    /// `Invalid` if it is not an address with a port.
    pub fn of_peer(told: &[u8]) -> Result<SocketAddr> {
        let parsed = std::str::from_utf8(told).ok().and_then(|text| text.parse().ok());
        parsed.filter(|address: &SocketAddr| address.port() != 0).ok_or_else(|| {
            let text = told.escape_ascii();
            Error::new(Status::Invalid, format!("a peer's address must look like 127.0.0.1:4711, not '{text}'"))
        })
    }

    fn as_ptr(&self) -> *const libc::sockaddr {
        (&raw const self.storage).cast()
    }
}

/// Creates a non-blocking socket of `domain` (`AF_*`) and `kind` (`SOCK_*`).
///
/// # Errors
/// `Unavailable` if the kernel does not support that kind.
pub fn socket(domain: c_int, kind: c_int) -> Result<OwnedFd> {
    // SAFETY: integers only.
    let fd = unsafe { libc::socket(domain, kind | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC, 0) };
    match fd {
        // SAFETY: a new descriptor that nothing else owns.
        0.. => Ok(unsafe { OwnedFd::from_raw_fd(fd) }),
        _ => Err(match errno() {
            code @ (libc::EAFNOSUPPORT | libc::EPROTONOSUPPORT | libc::ESOCKTNOSUPPORT) => {
                Error::new(Status::Unavailable, os_error("creating a socket of this kind", code).to_string())
            }
            code => os_error("creating a socket", code),
        }),
    }
}

/// Calls `bind(2)`.
pub fn bind(socket: &OwnedFd, address: &SocketAddress) -> Result<()> {
    // SAFETY: the address is valid for its length.
    let done = unsafe { libc::bind(socket.as_raw_fd(), address.as_ptr(), address.length) };
    if done == 0 { Ok(()) } else { Err(Error::last_os("binding a socket")) }
}

/// Calls `listen(2)`.
pub fn listen(socket: &OwnedFd) -> Result<()> {
    // SAFETY: integers only.
    if unsafe { libc::listen(socket.as_raw_fd(), 8) } == 0 { Ok(()) } else { Err(Error::last_os("listening")) }
}

/// Address that a socket is bound to, by `getsockname(2)`.
pub fn local_address(socket: &OwnedFd) -> Result<SocketAddress> {
    let mut address = SocketAddress::empty();
    // SAFETY: the address is writable for its length.
    let done = unsafe { libc::getsockname(socket.as_raw_fd(), (&raw mut address.storage).cast(), &mut address.length) };
    if done == 0 { Ok(address) } else { Err(Error::last_os("asking for a socket's address")) }
}

/// Accepts a connection, non-blocking, with the peer's address.
///
/// # Errors
/// After the deadline.
pub fn accept(listener: &OwnedFd, deadline: Deadline) -> Result<(OwnedFd, SocketAddress)> {
    loop {
        deadline.wait(listener.as_raw_fd(), libc::POLLIN, "the follower's connection")?;
        let mut peer = SocketAddress::empty();
        let flags = libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
        // SAFETY: the address is writable for its length.
        let fd =
            unsafe { libc::accept4(listener.as_raw_fd(), (&raw mut peer.storage).cast(), &mut peer.length, flags) };
        if fd >= 0 {
            // SAFETY: a new descriptor that nothing else owns.
            return Ok((unsafe { OwnedFd::from_raw_fd(fd) }, peer));
        }
        match errno() {
            libc::EAGAIN | libc::EINTR | libc::ECONNABORTED => {}
            code => return Err(os_error("accepting a connection", code)),
        }
    }
}

/// Connects a non-blocking socket.
///
/// # Errors
/// `Closed` if nobody listens; `Failed` after the deadline.
pub fn connect(socket: &OwnedFd, address: &SocketAddress, deadline: Deadline) -> Result<()> {
    loop {
        // SAFETY: the address is valid for its length.
        if unsafe { libc::connect(socket.as_raw_fd(), address.as_ptr(), address.length) } == 0 {
            return Ok(());
        }
        match errno() {
            libc::EINPROGRESS => break,
            // The backlog of a Unix listener is full.
            libc::EAGAIN | libc::EINTR if deadline.nap() => {}
            // The listener's path is missing: its owner has removed it.
            code @ libc::ENOENT => {
                return Err(Error::new(Status::Closed, os_error("connecting to the peer", code).to_string()));
            }
            code => return Err(os_error("connecting to the peer", code)),
        }
    }
    deadline.wait(socket.as_raw_fd(), libc::POLLOUT, "the connection to the leader")?;
    match socket_option(socket, libc::SOL_SOCKET, libc::SO_ERROR)? {
        0 => Ok(()),
        code => Err(os_error("connecting to the peer", code)),
    }
}

/// Creates a socket of `kind`, in the family of the node's address. Fails as [`socket()`] and [`bind`].
pub fn internet_socket(options: &NodeOptions, kind: c_int) -> Result<OwnedFd> {
    let domain = if options.address().is_ipv4() { libc::AF_INET } else { libc::AF_INET6 };
    socket(domain, kind)
}

/// Binds a socket to the node's address, at a port that the kernel chooses.
///
/// # Errors
/// `Unavailable` if this host does not have the address.
pub fn bind_to_address(options: &NodeOptions, socket: &OwnedFd) -> Result<()> {
    let address: IpAddr = options.address();
    bind(socket, &SocketAddress::internet((address, 0).into())).map_err(|error| match errno() {
        libc::EADDRNOTAVAIL => Error::new(Status::Unavailable, format!("this host has no address {address}")),
        _ => error,
    })
}

/// Value of an integer socket option, by `getsockopt(2)`.
pub fn socket_option(socket: &OwnedFd, level: c_int, name: c_int) -> Result<c_int> {
    let (mut value, mut length) = (0 as c_int, size_of::<c_int>() as libc::socklen_t);
    // SAFETY: value and length are writable and agree.
    let done = unsafe { libc::getsockopt(socket.as_raw_fd(), level, name, (&raw mut value).cast(), &mut length) };
    if done == 0 { Ok(value) } else { Err(Error::last_os("reading a socket option")) }
}

/// Sets an integer socket option by `setsockopt(2)`.
pub fn set_socket_option(socket: &OwnedFd, level: c_int, name: c_int, value: c_int) -> Result<()> {
    let length = size_of::<c_int>() as libc::socklen_t;
    // SAFETY: value is readable and its length right.
    let done = unsafe { libc::setsockopt(socket.as_raw_fd(), level, name, (&raw const value).cast(), length) };
    if done == 0 { Ok(()) } else { Err(Error::last_os("setting a socket option")) }
}

/// Applies the setting `buffer` (`system`, or bytes for `SO_SNDBUF` and `SO_RCVBUF`).
///
/// # Errors
/// `Limit` if the kernel grants less.
pub fn buffer_setting(options: &NodeOptions, socket: &OwnedFd) -> Result<()> {
    let Some(bytes) = number_or(options, "buffer", "system", 4096..=1 << 30)? else {
        return Ok(());
    };
    let both = [
        (libc::SO_SNDBUF, libc::SO_SNDBUFFORCE, "net.core.wmem_max"),
        (libc::SO_RCVBUF, libc::SO_RCVBUFFORCE, "net.core.rmem_max"),
    ];
    for (plain, force, sysctl) in both {
        // The first option exceeds the sysctl and needs a privilege.
        if set_socket_option(socket, libc::SOL_SOCKET, force, bytes as c_int).is_err() {
            set_socket_option(socket, libc::SOL_SOCKET, plain, bytes as c_int)?;
        }
        // The kernel grants twice the request, to account for its own overhead.
        let granted = socket_option(socket, libc::SOL_SOCKET, plain)? as u64 / 2;
        if granted < bytes {
            let text = format!("setting 'buffer={bytes}': the kernel grants {granted}; raise sysctl {sysctl}");
            return Err(Error::new(Status::Limit, text));
        }
    }
    Ok(())
}
