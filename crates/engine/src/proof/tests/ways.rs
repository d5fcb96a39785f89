//! Small real transports, one per path of a message, and some that disguise their path.
#![expect(unsafe_code, reason = "system calls")]

use super::sides::{Control, DEADLINE, Role, payload_bytes};
use crate::os;
use memmap2::MmapMut;
use rustix::net::{self, AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType};
use std::collections::VecDeque;
use std::ffi::CString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::{UnixDatagram, UnixListener};
use std::path::{Path as FilePath, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::Instant;

const MOST_PAYLOAD: usize = 64 * 1024;
/// Bytes of a datagram, so that a large message takes at least two.
const PACKET: usize = 32 * 1024;
/// Bytes of a packet of a message queue: the system's default limit.
const QUEUE_PACKET: usize = 8 * 1024;
const CHUNKS: usize = 4;
/// Wake-up sent over a socket when the message itself is in a segment.
const WAKE_UP: [u8; 8] = [0; 8];

pub trait Ends {
    fn loan(&mut self) -> &mut [u8];
    fn publish(&mut self);
    fn take(&mut self) -> &[u8];
}

pub fn open(way: &str, role: Role, directory: &FilePath, control: &mut Control) -> Box<dyn Ends> {
    let beside = match way {
        "udp beside shared memory" | "udp beside zero-copy" => Some(udp(role, control)),
        _ => None,
    };
    match way {
        "memory" => Box::new(InProcess::new(role, false)),
        "memory, copied" => Box::new(InProcess::new(role, true)),
        "zero-copy" | "udp beside zero-copy" => Box::new(Segment::open(role, directory, control, Copies::None, beside)),
        "shared memory" | "udp beside shared memory" => {
            Box::new(Segment::open(role, directory, control, Copies::Both, beside))
        }
        "loan that is copied" => Box::new(Segment::open(role, directory, control, Copies::Loan, beside)),
        "message queue" => Box::new(message_queues(role, directory, control)),
        "file" => Box::new(files(role, directory, control)),
        "pipe" => Box::new(pipes(role, directory, control)),
        "tcp" => Box::new(Socket::new(tcp(role, control), Calls::ReadWrite)),
        "tcp by send" => Box::new(Socket::new(tcp(role, control), Calls::SendRecv)),
        "udp" => Box::new(Socket::new(udp(role, control), Calls::ReadWrite)),
        "udp with a thread" => Box::new(Threaded::new(udp(role, control))),
        "unix datagram" => Box::new(Socket::new(unix_datagram(role, directory, control), Calls::ReadWrite)),
        "unix datagram by send" => Box::new(Socket::new(unix_datagram(role, directory, control), Calls::SendRecv)),
        "unix datagram with a thread" => Box::new(Threaded::new(unix_datagram(role, directory, control))),
        "unix stream" => Box::new(Socket::new(unix(SocketType::STREAM, role, directory, control), Calls::ReadWrite)),
        "unix stream by send, beside a segment" => {
            let segment = Segment::open(role, directory, control, Copies::None, None);
            let fd = unix(SocketType::STREAM, role, directory, control);
            Box::new(Socket { beside: Some(segment), ..Socket::new(fd, Calls::SendRecv) })
        }
        "unix seqpacket" => {
            Box::new(Socket::new(unix(SocketType::SEQPACKET, role, directory, control), Calls::ReadWrite))
        }
        _ => panic!("no way is called '{way}'"),
    }
}

struct InProcess {
    role: Role,
    buffers: Vec<Box<[u8]>>,
    next: usize,
    copy: Option<Box<[u8]>>,
}

static ADDRESSES: [Mutex<VecDeque<usize>>; 2] = [const { Mutex::new(VecDeque::new()) }; 2];

impl InProcess {
    fn new(role: Role, copies: bool) -> Self {
        let buffer = || vec![0; payload_bytes()].into_boxed_slice();
        Self { role, buffers: (0..CHUNKS).map(|_| buffer()).collect(), next: 0, copy: copies.then(buffer) }
    }
}

impl Ends for InProcess {
    fn loan(&mut self) -> &mut [u8] {
        self.next = (self.next + 1) % CHUNKS;
        &mut self.buffers[self.next]
    }

    fn publish(&mut self) {
        ADDRESSES[self.role as usize].lock().unwrap().push_back(self.buffers[self.next].as_ptr().expose_provenance());
    }

    fn take(&mut self) -> &[u8] {
        let queue = &ADDRESSES[1 - self.role as usize];
        let address = poll(|| queue.lock().unwrap().pop_front());
        // SAFETY: the sender keeps its buffers, and writes this one again only after it was answered.
        let message =
            unsafe { std::slice::from_raw_parts(std::ptr::with_exposed_provenance(address), payload_bytes()) };
        let Some(copy) = &mut self.copy else { return message };
        copy.copy_from_slice(message);
        copy
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Copies {
    None,
    Both,
    /// Loans are copied from one chunk into another, invisibly.
    Loan,
}

/// Maps a file as shared, and creates it if necessary. It stays mapped.
pub fn map(file: &FilePath, bytes: usize) -> &'static mut [u8] {
    let file = File::options().read(true).write(true).create(true).truncate(false).open(file).unwrap();
    file.set_len(bytes as u64).unwrap();
    // SAFETY: what other processes do to it is plain bytes.
    let map = unsafe { MmapMut::map_mut(&file) }.unwrap();
    let map: &'static mut MmapMut = Box::leak(Box::new(map));
    map
}

/// Chunks in a mapped file, with one counter per direction in its first page.
struct Segment {
    start: *mut u8,
    role: Role,
    copies: Copies,
    sent: u64,
    taken: u64,
    private: [Box<[u8]>; 2],
    beside: Option<OwnedFd>,
}

const PAGE: usize = 4096;
const SEGMENT: usize = PAGE + 2 * (CHUNKS + 1) * MOST_PAYLOAD;

// SAFETY: the mapping belongs to the whole process and stays; chunks are used by one side at a time.
unsafe impl Send for Segment {}

impl Segment {
    fn open(role: Role, directory: &FilePath, control: &mut Control, copies: Copies, beside: Option<OwnedFd>) -> Self {
        let start = map(&directory.join("segment"), SEGMENT).as_mut_ptr();
        control.meet();
        let private = [(); 2].map(|()| vec![0; payload_bytes()].into_boxed_slice());
        Self { start, role, copies, sent: 0, taken: 0, private, beside }
    }

    fn counter(&self, of: usize) -> &AtomicU64 {
        // SAFETY: aligned, in the first page of the mapping, and used as atomic only.
        unsafe { AtomicU64::from_ptr(self.start.add(of * 64).cast()) }
    }

    /// Chunk by index; the chunk after those for messages is for a loan that will be copied.
    fn chunk(&mut self, of: usize, index: usize) -> &mut [u8] {
        let offset = PAGE + (of * (CHUNKS + 1) + index) * MOST_PAYLOAD;
        // SAFETY: inside the mapping. The peer reads a chunk only between its publication and its answer.
        unsafe { std::slice::from_raw_parts_mut(self.start.add(offset), payload_bytes()) }
    }

    fn next_chunk(&mut self) -> &mut [u8] {
        self.chunk(self.role as usize, self.sent as usize % CHUNKS)
    }
}

impl Ends for Segment {
    fn loan(&mut self) -> &mut [u8] {
        match self.copies {
            Copies::None => self.next_chunk(),
            Copies::Both => &mut self.private[0],
            Copies::Loan => self.chunk(self.role as usize, CHUNKS),
        }
    }

    fn publish(&mut self) {
        if self.copies != Copies::None {
            let loan = self.loan().to_vec();
            self.next_chunk().copy_from_slice(&loan);
        }
        self.sent += 1;
        self.counter(self.role as usize).store(self.sent, Ordering::Release);
        if let Some(socket) = &self.beside {
            assert_eq!(send(socket, &WAKE_UP), WAKE_UP.len());
        }
    }

    fn take(&mut self) -> &[u8] {
        if let Some(socket) = &self.beside {
            receive(socket, &mut { WAKE_UP });
        }
        let peer = 1 - self.role as usize;
        poll(|| (self.counter(peer).load(Ordering::Acquire) > self.taken).then_some(()));
        let index = self.taken as usize % CHUNKS;
        self.taken += 1;
        if self.copies != Copies::Both {
            return self.chunk(peer, index);
        }
        let message = self.chunk(peer, index).to_vec();
        self.private[1].copy_from_slice(&message);
        &self.private[1]
    }
}

#[derive(Clone, Copy)]
enum Calls {
    ReadWrite,
    SendRecv,
    Queue,
    /// Reads and writes; the next message begins at the end of the file.
    File,
}

/// Two descriptors, which may be of one socket.
struct Socket {
    to: File,
    from: File,
    calls: Calls,
    packet: usize,
    loan: Box<[u8]>,
    message: Box<[u8]>,
    beside: Option<Segment>,
}

impl Socket {
    fn new(fd: OwnedFd, calls: Calls) -> Self {
        let from = File::from(fd.try_clone().unwrap());
        Self::from_files(File::from(fd), from, calls, PACKET)
    }

    fn from_files(to: File, from: File, calls: Calls, packet: usize) -> Self {
        let [loan, message] = [(); 2].map(|()| vec![0; payload_bytes()].into_boxed_slice());
        Self { to, from, calls, packet, loan, message, beside: None }
    }
}

impl Ends for Socket {
    fn loan(&mut self) -> &mut [u8] {
        &mut self.loan
    }

    fn publish(&mut self) {
        for packet in self.loan.chunks(self.packet) {
            let mut rest = packet;
            while !rest.is_empty() {
                let sent = match self.calls {
                    Calls::ReadWrite | Calls::File => self.to.write(rest).unwrap(),
                    Calls::SendRecv => send(&self.to, rest),
                    Calls::Queue => queue_send(self.to.as_raw_fd(), rest),
                };
                rest = &rest[sent..];
            }
        }
        // Real systems also wake each other by a few bytes in a segment.
        if let Some(segment) = &mut self.beside {
            segment.next_chunk()[0] ^= 1;
        }
    }

    fn take(&mut self) -> &[u8] {
        let mut taken = 0;
        while taken < self.message.len() {
            let end = self.message.len().min(taken + self.packet);
            let room = &mut self.message[taken..end];
            let received = match self.calls {
                Calls::ReadWrite => self.from.read(room).unwrap(),
                Calls::File => poll(|| self.from.read(room).ok().filter(|&length| length > 0)),
                Calls::SendRecv => receive(&self.from, room),
                Calls::Queue => queue_receive(self.from.as_raw_fd(), room),
            };
            assert_ne!(received, 0, "the peer has gone");
            taken += received;
        }
        &self.message
    }
}

/// Socket whose messages are taken at once by a thread of the system, as in many middlewares.
struct Threaded {
    socket: Socket,
    arrived: Receiver<Box<[u8]>>,
    message: Box<[u8]>,
}

impl Threaded {
    fn new(fd: OwnedFd) -> Self {
        let mut inner = Socket::new(fd.try_clone().unwrap(), Calls::SendRecv);
        let (to, arrived) = channel();
        // The thread ends with its process.
        std::thread::spawn(move || while to.send(inner.take().to_vec().into_boxed_slice()).is_ok() {});
        Self { socket: Socket::new(fd, Calls::SendRecv), arrived, message: Box::default() }
    }
}

impl Ends for Threaded {
    fn loan(&mut self) -> &mut [u8] {
        self.socket.loan()
    }

    fn publish(&mut self) {
        self.socket.publish();
    }

    fn take(&mut self) -> &[u8] {
        self.message = self.arrived.recv_timeout(DEADLINE).unwrap();
        &self.message
    }
}

fn tcp(role: Role, control: &mut Control) -> OwnedFd {
    match role {
        Role::Leader => {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            control.tell(&listener.local_addr().unwrap().to_string());
            listener.accept().unwrap().0.into()
        }
        Role::Follower => TcpStream::connect(control.hear()).unwrap().into(),
    }
}

fn udp(_role: Role, control: &mut Control) -> OwnedFd {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    control.tell(&socket.local_addr().unwrap().to_string());
    socket.connect(control.hear()).unwrap();
    control.meet();
    socket.into()
}

fn unix_datagram(role: Role, directory: &FilePath, control: &mut Control) -> OwnedFd {
    let file = |of: usize| directory.join(format!("datagram-{of}"));
    let socket = UnixDatagram::bind(file(role as usize)).unwrap();
    control.meet();
    socket.connect(file(1 - role as usize)).unwrap();
    control.meet();
    socket.into()
}

fn unix(kind: SocketType, role: Role, directory: &FilePath, control: &mut Control) -> OwnedFd {
    let address = SocketAddrUnix::new(directory.join("connection")).unwrap();
    let fd = net::socket_with(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None).unwrap();
    if role == Role::Leader {
        net::bind(&fd, &address).unwrap();
        net::listen(&fd, 1).unwrap();
        control.meet();
        return UnixListener::from(fd).accept().unwrap().0.into();
    }
    control.meet();
    net::connect(&fd, &address).unwrap();
    fd
}

fn pipes(role: Role, directory: &FilePath, control: &mut Control) -> Socket {
    let files: [PathBuf; 2] = [directory.join("fifo-0"), directory.join("fifo-1")];
    if role == Role::Leader {
        files.iter().for_each(|file| os::make_fifo(file).unwrap());
    }
    control.meet();
    // Opened to read and write, so that opening does not wait for the peer.
    let open = |of: usize| File::options().read(true).write(true).open(&files[of]).unwrap();
    Socket::from_files(open(role as usize), open(1 - role as usize), Calls::ReadWrite, PACKET)
}

fn files(role: Role, directory: &FilePath, control: &mut Control) -> Socket {
    let open = |of: usize| {
        let file = directory.join(format!("file-{of}"));
        File::options().read(true).write(true).create(true).truncate(false).open(file).unwrap()
    };
    let (to, from) = (open(role as usize), open(1 - role as usize));
    control.meet();
    Socket::from_files(to, from, Calls::File, PACKET)
}

fn message_queues(role: Role, directory: &FilePath, control: &mut Control) -> Socket {
    // The name of the folder is unique.
    let prefix = directory.file_name().unwrap().display();
    let name = |of: usize| CString::new(format!("/tripmeter-proof-{prefix}-{of}")).unwrap();
    // SAFETY: all zeros are a valid mq_attr.
    let mut attributes: libc::mq_attr = unsafe { std::mem::zeroed() };
    attributes.mq_maxmsg = 10;
    attributes.mq_msgsize = QUEUE_PACKET.min(payload_bytes()) as _;
    let open = |of: usize, access: i32| {
        let (name, flags) = (name(of), access | libc::O_CREAT | libc::O_CLOEXEC);
        let fd = poll(|| {
            // SAFETY: name and attributes outlive the call; the result is checked.
            let fd = unsafe { libc::mq_open(name.as_ptr(), flags, 0o600 as libc::mode_t, &raw const attributes) };
            let error = io::Error::last_os_error();
            // Queues of other processes of this user may take all the room for a while.
            let is_crowded = matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENOSPC));
            assert!(fd >= 0 || is_crowded, "mq_open: {error}");
            (fd >= 0).then_some(fd)
        });
        // SAFETY: new and owned by nobody else; on Linux a queue's descriptor is a file's.
        unsafe { File::from_raw_fd(fd) }
    };
    let (to, from) = (open(role as usize, libc::O_WRONLY), open(1 - role as usize, libc::O_RDONLY));
    control.meet();
    if role == Role::Leader {
        for name in [name(0), name(1)] {
            os::unlink_queue(name.to_str().unwrap());
        }
    }
    Socket::from_files(to, from, Calls::Queue, QUEUE_PACKET)
}

fn send(fd: impl AsFd, bytes: &[u8]) -> usize {
    net::send(fd, bytes, SendFlags::NOSIGNAL).unwrap()
}

fn receive(fd: impl AsFd, room: &mut [u8]) -> usize {
    net::recv(fd, room, RecvFlags::empty()).unwrap().0
}

fn queue_send(fd: RawFd, bytes: &[u8]) -> usize {
    // SAFETY: mq_send(3) reads the slice only.
    checked(unsafe { libc::mq_send(fd, bytes.as_ptr().cast(), bytes.len(), 0) } as isize);
    bytes.len()
}

fn queue_receive(fd: RawFd, room: &mut [u8]) -> usize {
    // SAFETY: mq_receive(3) writes into the slice only.
    checked(unsafe { libc::mq_receive(fd, room.as_mut_ptr().cast(), room.len(), std::ptr::null_mut()) })
}

fn checked(result: isize) -> usize {
    usize::try_from(result).unwrap_or_else(|_| panic!("{}", io::Error::last_os_error()))
}

pub fn poll<T>(mut attempt: impl FnMut() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(value) = attempt() {
            return value;
        }
        assert!(start.elapsed() < DEADLINE, "no message came");
        std::thread::yield_now();
    }
}
