#![expect(unsafe_code, reason = "system calls")]

use super::process::user_id;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io;
use std::net::{IpAddr, Ipv6Addr};
use std::os::fd::{AsFd, AsRawFd, FromRawFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// Standard input as a socket. Only the first caller may use it.
pub(crate) fn stdin_socket() -> UnixStream {
    // SAFETY: the supervisor made descriptor 0 a socket for this process, and nothing else here uses it.
    unsafe { UnixStream::from_raw_fd(0) }
}

/// Waits until a stream is readable, `time` is over, or a signal comes. Returns true for each readable stream.
pub fn wait_readable(streams: &[&dyn AsFd], time: Duration) -> io::Result<Vec<bool>> {
    let mut polls: Vec<PollFd<'_>> = streams.iter().map(|stream| PollFd::new(stream, PollFlags::IN)).collect();
    let timeout = Timespec { tv_sec: time.as_secs().min(i32::MAX as u64) as i64, tv_nsec: time.subsec_nanos().into() };
    match poll(&mut polls, Some(&timeout)) {
        Ok(_) => Ok(polls.iter().map(|poll| !poll.revents().is_empty()).collect()),
        Err(rustix::io::Errno::INTR) => Ok(vec![false; streams.len()]),
        Err(error) => Err(error.into()),
    }
}

/// Checks that the process at the other end of a socket belongs to this user.
pub fn check_peer(stream: &UnixStream) -> io::Result<()> {
    check_user(peer(stream)?.uid, user_id())
}

fn check_user(other: u32, own: u32) -> io::Result<()> {
    if other == own {
        return Ok(());
    }
    let text = format!("the process at the other end is of user {other}, this one of user {own}");
    Err(io::Error::new(io::ErrorKind::PermissionDenied, text))
}

pub fn peer_pid(stream: &UnixStream) -> Option<u32> {
    u32::try_from(peer(stream).ok()?.pid).ok().filter(|&pid| pid != 0)
}

fn peer(stream: &UnixStream) -> io::Result<libc::ucred> {
    let mut peer = libc::ucred { pid: 0, uid: u32::MAX, gid: u32::MAX };
    let mut bytes = size_of::<libc::ucred>() as libc::socklen_t;
    let to = (&raw mut peer).cast();
    // rustix has no PID 0, which stands for a peer in a PID namespace above ours.
    // SAFETY: the descriptor is open, and both places are valid for writing that many bytes.
    let result = unsafe { libc::getsockopt(stream.as_raw_fd(), libc::SOL_SOCKET, libc::SO_PEERCRED, to, &mut bytes) };
    if result == 0 { Ok(peer) } else { Err(io::Error::last_os_error()) }
}

/// Names and addresses of interfaces of this host that other hosts may reach; without loopback.
pub(crate) fn interfaces() -> Vec<(String, IpAddr)> {
    // A link-local address means nothing without its interface.
    let is_link_local = |address: &Ipv6Addr| address.segments()[0] & 0xffc0 == 0xfe80;
    let is_reached = |address: &IpAddr| match address {
        IpAddr::V4(address) => !address.is_loopback(),
        IpAddr::V6(address) => !address.is_loopback() && !is_link_local(address),
    };
    let all = if_addrs::get_if_addrs().unwrap_or_default();
    let all = all.into_iter().map(|interface| (interface.name.clone(), interface.ip()));
    all.filter(|(_, address)| is_reached(address)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_of_another_user_is_none_of_ours() {
        let (one, _other) = UnixStream::pair().unwrap();
        assert!(check_peer(&one).is_ok() && check_user(7, 7).is_ok());
        let error = check_user(12, 7).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
        assert_eq!(error.to_string(), "the process at the other end is of user 12, this one of user 7");
    }
}
