//! File descriptors of this process, whoever opened them.
#![expect(unsafe_code, reason = "system calls")]

use rustix::fs::{FileType, FsWord};
use rustix::net::sockopt::{
    socket_domain, socket_protocol, socket_recv_buffer_size, socket_send_buffer_size, socket_type,
};
use rustix::net::{AddressFamily, SocketType, getpeername, getsockname, ipproto};
use std::net::SocketAddr;
use std::os::fd::{BorrowedFd, RawFd};
use tripmeter_abi::Path;
use tripmeter_model::kernel_queue::QueueKind;

/// Type of the file system of POSIX message queues.
///
/// # Source
/// statfs(2), `MQUEUE_MAGIC`
const MQUEUE_MAGIC: FsWord = 0x1980_0202;

/// Borrows a descriptor to query it; if it was closed meanwhile, the call fails.
fn borrowed(fd: RawFd) -> BorrowedFd<'static> {
    // SAFETY: it is not -1, is not kept, and calls here neither close it nor change what it refers to.
    unsafe { BorrowedFd::borrow_raw(fd) }
}

/// Kind of message path behind a descriptor, with device and inode. `None` if it can carry no messages, or was closed.
pub fn what(fd: RawFd) -> Option<(Path, u64, u64)> {
    let fd = borrowed(fd);
    let status = rustix::fs::fstat(fd).ok()?;
    let path = match FileType::from_raw_mode(status.st_mode) {
        FileType::Fifo => Path::Pipe,
        FileType::RegularFile if rustix::fs::fstatfs(fd).is_ok_and(|system| system.f_type == MQUEUE_MAGIC) => {
            Path::MessageQueue
        }
        FileType::RegularFile => Path::File,
        FileType::Socket => socket_path(fd)?,
        _ => return None,
    };
    Some((path, status.st_dev, status.st_ino))
}

fn socket_path(fd: BorrowedFd<'_>) -> Option<Path> {
    match (socket_domain(fd).ok()?, socket_type(fd).ok()?) {
        (AddressFamily::UNIX, SocketType::STREAM) => Some(Path::UnixStream),
        (AddressFamily::UNIX, SocketType::DGRAM) => Some(Path::UnixDatagram),
        (AddressFamily::UNIX, SocketType::SEQPACKET) => Some(Path::UnixSeqpacket),
        (AddressFamily::INET | AddressFamily::INET6, _) => match socket_protocol(fd).ok()?? {
            ipproto::TCP => Some(Path::Tcp),
            // Sending or receiving assigns a port. A socket without one has carried nothing; some libraries leave such
            // sockets.
            ipproto::UDP => own_address(fd).is_some_and(|address| address.port() != 0).then_some(Path::Udp),
            _ => None,
        },
        _ => None,
    }
}

fn own_address(fd: BorrowedFd<'_>) -> Option<SocketAddr> {
    getsockname(fd).ok()?.try_into().ok()
}

pub fn addresses(fd: RawFd) -> Option<(SocketAddr, SocketAddr)> {
    let fd = borrowed(fd);
    Some((own_address(fd)?, getpeername(fd).ok()??.try_into().ok()?))
}

/// Bytes written to, and received from, a TCP connection since its start. Before Linux 4.19, only those of the written
/// bytes that the peer has acknowledged.
///
/// # Source
/// `struct tcp_info` of linux/tcp.h: `tcpi_bytes_acked`, `tcpi_bytes_received`, `tcpi_notsent_bytes`, `tcpi_bytes_sent`,
/// `tcpi_bytes_retrans`
pub fn tcp_bytes(fd: RawFd) -> Option<(u64, u64)> {
    const ACKED: usize = 120;
    const RECEIVED: usize = 128;
    const NOT_SENT: usize = 144;
    const SENT: usize = 200;
    const SENT_AGAIN: usize = 208;
    let mut info = [0_u8; 256];
    let mut length = info.len() as libc::socklen_t;
    // rustix has no TCP_INFO.
    // SAFETY: getsockopt(2) writes at most `length` bytes, the size of `info`.
    let result =
        unsafe { libc::getsockopt(fd, libc::IPPROTO_TCP, libc::TCP_INFO, info.as_mut_ptr().cast(), &raw mut length) };
    if result != 0 {
        return None;
    }
    let known = info.get(..length as usize)?;
    let short = |at: usize| Some(u64::from(u32::from_ne_bytes(known.get(at..at + 4)?.try_into().ok()?)));
    let long = |at: usize| Some(u64::from_ne_bytes(known.get(at..at + 8)?.try_into().ok()?));
    let given = || Some((long(SENT)? + short(NOT_SENT)?).saturating_sub(long(SENT_AGAIN)?));
    Some((given().or_else(|| long(ACKED))?, long(RECEIVED)?))
}

pub fn file_position(fd: RawFd) -> Option<u64> {
    rustix::fs::tell(borrowed(fd)).ok()
}

/// Bytes that can be read: all, or the next datagram's. 0 if unknown, as for a listening socket.
pub fn unread_bytes(fd: RawFd) -> u64 {
    rustix::io::ioctl_fionread(borrowed(fd)).unwrap_or(0)
}

/// Reads the first bytes of a file, and returns their number. Keeps the file position, and consumes no message.
pub fn read_at_start(fd: RawFd, bytes: &mut [u8]) -> Option<usize> {
    rustix::io::pread(borrowed(fd), bytes, 0).ok()
}

/// Capacities of the queues behind a descriptor, with their kinds.
///
/// # Source
/// fcntl(2), `F_GETPIPE_SZ`; mq_getattr(3); socket(7), `SO_SNDBUF`; `unix_recvq_full` of Linux: a queue is full above the
/// limit, not at it
pub fn capacities(fd: RawFd, path: Path) -> Vec<(QueueKind, u64)> {
    match path {
        // SAFETY: integers only.
        Path::Pipe => match unsafe { libc::fcntl(fd, libc::F_GETPIPE_SZ) } {
            bytes if bytes > 0 => vec![(QueueKind::PipeBytes, bytes as u64)],
            _ => Vec::new(),
        },
        Path::MessageQueue => {
            // SAFETY: all zeroes are valid attributes.
            let mut attributes: libc::mq_attr = unsafe { std::mem::zeroed() };
            // SAFETY: on Linux a queue's descriptor is a file's; the attributes are writable.
            match unsafe { libc::mq_getattr(fd, &raw mut attributes) } {
                0 => vec![(QueueKind::QueueMessages, attributes.mq_maxmsg as u64)],
                _ => Vec::new(),
            }
        }
        Path::Tcp | Path::Udp | Path::UnixStream | Path::UnixDatagram | Path::UnixSeqpacket => {
            let fd = borrowed(fd);
            let shared = (path == Path::UnixDatagram && !has_peer(fd)).then(shared_datagrams).flatten();
            let buffers = [
                (QueueKind::SendBufferBytes, socket_send_buffer_size(fd)),
                (QueueKind::ReceiveBufferBytes, socket_recv_buffer_size(fd)),
            ];
            let buffers = buffers.into_iter().filter_map(|(kind, bytes)| Some((kind, bytes.ok()? as u64)));
            shared.map(|places| (QueueKind::SharedDatagrams, places)).into_iter().chain(buffers).collect()
        }
        _ => Vec::new(),
    }
}

fn has_peer(fd: BorrowedFd<'_>) -> bool {
    matches!(getpeername(fd), Ok(Some(_)))
}

/// Largest number of datagrams that wait in a socket without a peer.
fn shared_datagrams() -> Option<u64> {
    let most: u64 = std::fs::read_to_string("/proc/sys/net/unix/max_dgram_qlen").ok()?.trim().parse().ok()?;
    most.checked_add(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{self, Read, Write};
    use std::os::fd::{AsFd, AsRawFd};

    #[test]
    fn a_udp_socket_counts_once_it_has_a_port() {
        let unbound = rustix::net::socket(AddressFamily::INET, SocketType::DGRAM, None).unwrap();
        assert_eq!(socket_path(unbound.as_fd()), None);
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(bound) = std::net::UdpSocket::bind(address) else { continue };
            assert_eq!(socket_path(bound.as_fd()), Some(Path::Udp), "{address}");
        }
    }

    #[test]
    fn capacities_are_what_the_kernel_granted() -> io::Result<()> {
        let (reader, _writer) = io::pipe()?;
        // SAFETY: integers only.
        assert!(unsafe { libc::fcntl(reader.as_raw_fd(), libc::F_SETPIPE_SZ, 8192) } > 0);
        let [(QueueKind::PipeBytes, bytes)] = capacities(reader.as_raw_fd(), Path::Pipe)[..] else { panic!("no pipe") };
        assert!(bytes >= 8192 && bytes.is_power_of_two(), "{bytes}");
        let kinds = |fd| capacities(fd, Path::UnixDatagram).into_iter().map(|(kind, _)| kind).collect::<Vec<_>>();
        let buffers = [QueueKind::SendBufferBytes, QueueKind::ReceiveBufferBytes];
        let (one, _other) = std::os::unix::net::UnixDatagram::pair()?;
        assert_eq!(kinds(one.as_raw_fd()), buffers);
        let alone = std::os::unix::net::UnixDatagram::unbound()?;
        assert_eq!(kinds(alone.as_raw_fd()), [&[QueueKind::SharedDatagrams], &buffers[..]].concat());
        assert_eq!(capacities(one.as_raw_fd(), Path::SharedMemory), []);
        Ok(())
    }

    #[test]
    fn a_connection_knows_what_it_was_given_before_anything_is_acknowledged() -> io::Result<()> {
        let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
        let mut sender = std::net::TcpStream::connect(listener.local_addr()?)?;
        let (mut receiver, _) = listener.accept()?;
        sender.set_nonblocking(true)?;
        // More than the receiver has room for; the rest is neither sent nor acknowledged.
        let (chunk, mut given) = ([7; 65_536], 0);
        while let Ok(bytes) = sender.write(&chunk) {
            given += bytes as u64;
        }
        assert_eq!(tcp_bytes(sender.as_raw_fd()), Some((given, 0)));
        receiver.read_exact(&mut [0; 1000])?;
        assert!(tcp_bytes(receiver.as_raw_fd()).is_some_and(|(sent, received)| sent == 0 && received >= 1000));
        Ok(())
    }
}
