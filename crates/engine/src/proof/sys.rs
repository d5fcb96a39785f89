//! Counters and descriptors of this process, as Linux shows them.

use super::evidence::Object;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::mem::{MaybeUninit, size_of};
use std::os::fd::RawFd;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tripmeter_abi::Path;

/// What observers of this process have read and written themselves, by `read` and `write`. Two observers of one process
/// overlap, so that each must know what both did; who holds the lock sees no half of a call in the kernel's counters.
static OWN: Mutex<Own> = Mutex::new(Own { read_bytes: 0, written_bytes: 0 });

#[derive(Clone, Copy)]
struct Own {
    read_bytes: u64,
    written_bytes: u64,
}

fn own() -> MutexGuard<'static, Own> {
    OWN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// `f_type` of the file system of POSIX message queues.
///
/// # Source
/// statfs(2), `MQUEUE_MAGIC`
const MQUEUE_MAGIC: i64 = 0x1980_0202;

/// Reads a file of `/proc` as a whole.
pub(super) fn read_proc(file: &str) -> io::Result<String> {
    read_as(&mut own(), file)
}

fn read_as(own: &mut Own, file: &str) -> io::Result<String> {
    let mut bytes = Vec::with_capacity(64 * 1024);
    let result = File::open(file).and_then(|mut opened| opened.read_to_end(&mut bytes));
    own.read_bytes += bytes.len() as u64;
    result.map(|_| String::from_utf8_lossy(&bytes).into_owned())
}

/// Forgets which pages of files and shared memory this process has touched.
///
/// # Source
/// proc_pid_clear_refs(5), value 3
pub(super) fn clear_touched() -> io::Result<()> {
    let mut own = own();
    File::options().write(true).open("/proc/self/clear_refs")?.write_all(b"3")?;
    own.written_bytes += 1;
    forget_translations();
    Ok(())
}

/// Makes the processors look every page up again. They note a touch only then, and the kernel leaves what they remember
/// when it forgets the notes. Unmapping more pages than it cares to name one by one makes it drop everything.
fn forget_translations() {
    const BYTES: usize = 1 << 20;
    const PAGE: usize = 4096;
    let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a new mapping at an address of the kernel's choice.
    let memory = unsafe { libc::mmap(std::ptr::null_mut(), BYTES, protection, flags, -1, 0) };
    if memory == libc::MAP_FAILED {
        return;
    }
    for offset in (0..BYTES).step_by(PAGE) {
        // SAFETY: inside the mapping, which is writable and ours alone.
        unsafe { memory.cast::<u8>().add(offset).write_volatile(1) };
    }
    // SAFETY: made above, and nothing points into it any more.
    unsafe { libc::munmap(memory, BYTES) };
}

/// Counters at one time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counters {
    pub read_bytes: Option<u64>,
    pub written_bytes: Option<u64>,
    pub loopback_bytes: Option<u64>,
    pub udp_datagrams: Option<u64>,
}

impl Counters {
    /// Reads them all.
    pub fn now() -> Self {
        let (before, io) = {
            let mut own = own();
            (*own, read_as(&mut own, "/proc/self/io").unwrap_or_default())
        };
        let read = |file| read_proc(file).unwrap_or_default();
        Self {
            read_bytes: named_number(&io, "rchar:").map(|bytes| bytes.saturating_sub(before.read_bytes)),
            written_bytes: named_number(&io, "wchar:").map(|bytes| bytes.saturating_sub(before.written_bytes)),
            loopback_bytes: loopback_bytes(&read("/proc/net/dev")),
            udp_datagrams: udp_datagrams(&read("/proc/net/snmp"), &read("/proc/net/snmp6")),
        }
    }

    /// What was added since an earlier time.
    pub fn since(self, earlier: Self) -> Self {
        let added = |now: Option<u64>, then: Option<u64>| Some(now?.saturating_sub(then?));
        Self {
            read_bytes: added(self.read_bytes, earlier.read_bytes),
            written_bytes: added(self.written_bytes, earlier.written_bytes),
            loopback_bytes: added(self.loopback_bytes, earlier.loopback_bytes),
            udp_datagrams: added(self.udp_datagrams, earlier.udp_datagrams),
        }
    }
}

fn named_number(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| line.trim_start().strip_prefix(name)?.split_whitespace().next()?.parse().ok())
}

/// The first number of `/proc/net/dev` is the bytes received; on the loopback it equals those sent.
fn loopback_bytes(dev: &str) -> Option<u64> {
    named_number(dev, "lo:")
}

/// Datagrams read by any program, over IPv4 and IPv6.
fn udp_datagrams(snmp: &str, snmp6: &str) -> Option<u64> {
    let mut lines = snmp.lines().filter_map(|line| line.strip_prefix("Udp:"));
    let (names, values) = (lines.next()?, lines.next()?);
    let column = names.split_whitespace().position(|name| name == "InDatagrams")?;
    let over_ipv4: u64 = values.split_whitespace().nth(column)?.parse().ok()?;
    Some(over_ipv4 + named_number(snmp6, "Udp6InDatagrams").unwrap_or(0))
}

/// An open descriptor that can carry messages.
#[derive(Clone, Debug)]
pub(super) struct Descriptor {
    pub fd: RawFd,
    pub path: Path,
    pub object: Object,
}

/// All of them.
pub(super) fn descriptors() -> io::Result<Vec<Descriptor>> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc/self/fd")? {
        let Some(fd) = entry?.file_name().to_str().and_then(|name| name.parse::<RawFd>().ok()) else { continue };
        // Another thread may have closed it since it was listed.
        let Some(status) = file_status(fd) else { continue };
        if let Some(path) = path_of(fd, status.st_mode) {
            found.push(Descriptor { fd, path, object: Object { device: status.st_dev, inode: status.st_ino } });
        }
    }
    Ok(found)
}

fn path_of(fd: RawFd, mode: libc::mode_t) -> Option<Path> {
    match mode & libc::S_IFMT {
        libc::S_IFIFO => Some(Path::Pipe),
        libc::S_IFREG if is_message_queue(fd) => Some(Path::MessageQueue),
        libc::S_IFREG => Some(Path::File),
        libc::S_IFSOCK => socket_path(fd),
        _ => None,
    }
}

fn socket_path(fd: RawFd) -> Option<Path> {
    let option = |name| socket_option(fd, libc::SOL_SOCKET, name);
    match (option(libc::SO_DOMAIN)?, option(libc::SO_TYPE)?) {
        (libc::AF_UNIX, libc::SOCK_STREAM) => Some(Path::UnixStream),
        (libc::AF_UNIX, libc::SOCK_DGRAM) => Some(Path::UnixDatagram),
        (libc::AF_UNIX, libc::SOCK_SEQPACKET) => Some(Path::UnixSeqpacket),
        (libc::AF_INET | libc::AF_INET6, _) => match option(libc::SO_PROTOCOL)? {
            libc::IPPROTO_TCP => Some(Path::Tcp),
            // Sending or receiving gives it a port: one without has carried nothing. Some libraries leave such behind.
            libc::IPPROTO_UDP => has_port(fd).then_some(Path::Udp),
            _ => None,
        },
        _ => None,
    }
}

fn has_port(fd: RawFd) -> bool {
    let mut address = MaybeUninit::<libc::sockaddr_in6>::zeroed();
    let mut length = size_of::<libc::sockaddr_in6>() as libc::socklen_t;
    // SAFETY: getsockname(2) writes at most `length` bytes, the size of `address`.
    let result = unsafe { libc::getsockname(fd, address.as_mut_ptr().cast(), &raw mut length) };
    // SAFETY: any bytes are an address, and those not written are zero. The port of IPv4 is at the same place.
    result == 0 && unsafe { address.assume_init() }.sin6_port != 0
}

fn file_status(fd: RawFd) -> Option<libc::stat> {
    let mut status = MaybeUninit::<libc::stat>::uninit();
    // SAFETY: fstat(2) takes any number as descriptor and writes at most one `stat` to the pointer.
    let result = unsafe { libc::fstat(fd, status.as_mut_ptr()) };
    // SAFETY: on success all of it has been written.
    (result == 0).then(|| unsafe { status.assume_init() })
}

fn is_message_queue(fd: RawFd) -> bool {
    let mut status = MaybeUninit::<libc::statfs>::uninit();
    // SAFETY: fstatfs(2) takes any number as descriptor and writes at most one `statfs` to the pointer.
    let result = unsafe { libc::fstatfs(fd, status.as_mut_ptr()) };
    // SAFETY: `&&` gets here on success only, when all of it has been written.
    result == 0 && unsafe { status.assume_init() }.f_type == MQUEUE_MAGIC
}

fn socket_option(fd: RawFd, level: i32, name: i32) -> Option<i32> {
    let mut value = 0_i32;
    let mut length = size_of::<i32>() as libc::socklen_t;
    // SAFETY: getsockopt(2) writes at most `length` bytes, the size of `value`.
    let result = unsafe { libc::getsockopt(fd, level, name, (&raw mut value).cast(), &raw mut length) };
    (result == 0).then_some(value)
}

/// Bytes given to this connection to send, each once, and received over it, since it was made. Before Linux 4.19, those of
/// the first that the peer has acknowledged.
///
/// # Source
/// `struct tcp_info` of linux/tcp.h: `tcpi_bytes_acked`, `tcpi_bytes_received`, `tcpi_notsent_bytes`, `tcpi_bytes_sent`,
/// `tcpi_bytes_retrans`
pub(super) fn tcp_bytes(fd: RawFd) -> Option<(u64, u64)> {
    const ACKED: usize = 120;
    const RECEIVED: usize = 128;
    const NOT_SENT: usize = 144;
    const SENT: usize = 200;
    const SENT_AGAIN: usize = 208;
    let mut info = [0_u8; 256];
    let mut length = info.len() as libc::socklen_t;
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

/// Where the next byte of a file is read or written.
pub(super) fn file_position(fd: RawFd) -> Option<u64> {
    // SAFETY: lseek(2) takes any number as descriptor; by 0 from the current position it changes nothing.
    u64::try_from(unsafe { libc::lseek(fd, 0, libc::SEEK_CUR) }).ok()
}

/// Bytes that wait in an object to be taken: all of them, or those of the next datagram.
pub(super) fn waiting_bytes(descriptor: &Descriptor) -> u64 {
    match descriptor.path {
        Path::File => 0,
        Path::MessageQueue => queue_bytes(descriptor.fd).unwrap_or(0),
        _ => {
            let mut bytes = 0_i32;
            // SAFETY: FIONREAD writes one int. Where it is not known, as for a listening socket, it writes nothing.
            let result = unsafe { libc::ioctl(descriptor.fd, libc::FIONREAD, &raw mut bytes) };
            if result == 0 { u64::try_from(bytes).unwrap_or(0) } else { 0 }
        }
    }
}

/// # Source
/// mq_overview(7): a queue's file reads as `QSIZE:129 NOTIFY:2 SIGNO:0 NOTIFY_PID:8260`
fn queue_bytes(fd: RawFd) -> Option<u64> {
    let mut text = [0_u8; 128];
    let mut own = own();
    // SAFETY: pread(2) writes at most `text.len()` bytes; it moves no position and takes no message.
    let length = unsafe { libc::pread(fd, text.as_mut_ptr().cast(), text.len(), 0) };
    let length = usize::try_from(length).ok()?;
    own.read_bytes += length as u64;
    named_number(std::str::from_utf8(&text[..length]).ok()?, "QSIZE:")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn namespace_counters_are_found() {
        let dev = "Inter-| Receive\n face |bytes packets\n    lo: 1234 5 0 0 0 0 0 0 1234 5 0\n  eth0: 99 1\n";
        assert_eq!(loopback_bytes(dev), Some(1234));
        assert_eq!(loopback_bytes("  eth0: 99 1\n"), None);
        let snmp = "Ip: Forwarding\nIp: 1\nUdp: InDatagrams NoPorts\nUdp: 7 0\nUdpLite: InDatagrams\nUdpLite: 9\n";
        assert_eq!(udp_datagrams(snmp, "Udp6InDatagrams                 \t5\n"), Some(12));
        assert_eq!(udp_datagrams(snmp, ""), Some(7));
        assert_eq!(udp_datagrams("", ""), None);
    }

    #[test]
    fn a_udp_socket_counts_once_it_has_a_port() {
        use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
        // SAFETY: socket(2) touches no memory; the descriptor is owned by nobody else.
        let unbound = unsafe { OwnedFd::from_raw_fd(libc::socket(libc::AF_INET, libc::SOCK_DGRAM, 0)) };
        assert_eq!(socket_path(unbound.as_raw_fd()), None);
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(bound) = std::net::UdpSocket::bind(address) else { continue };
            assert_eq!(socket_path(bound.as_raw_fd()), Some(Path::Udp), "{address}");
        }
    }

    #[test]
    fn a_connection_knows_what_it_was_given_before_anything_is_acknowledged() -> io::Result<()> {
        use std::os::fd::AsRawFd;
        let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
        let mut sender = std::net::TcpStream::connect(listener.local_addr()?)?;
        let (mut receiver, _) = listener.accept()?;
        sender.set_nonblocking(true)?;
        // More than the receiver has room for: the rest is neither sent nor acknowledged.
        let (chunk, mut given) = ([7; 65_536], 0);
        while let Ok(bytes) = sender.write(&chunk) {
            given += bytes as u64;
        }
        assert_eq!(tcp_bytes(sender.as_raw_fd()), Some((given, 0)));
        receiver.read_exact(&mut [0; 1000])?;
        assert!(tcp_bytes(receiver.as_raw_fd()).is_some_and(|(sent, received)| sent == 0 && received >= 1000));
        Ok(())
    }

    #[test]
    fn missing_counters_stay_missing() {
        let known = Counters { read_bytes: Some(10), ..Counters::default() };
        let more = Counters { read_bytes: Some(15), written_bytes: Some(1), ..Counters::default() };
        assert_eq!(more.since(known).read_bytes, Some(5));
        assert_eq!(more.since(known).written_bytes, None);
    }
}
