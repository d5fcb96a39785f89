//! Peers of TCP connections.

use super::sys::{descriptors, read_proc};
use crate::os::descriptors;
use procfs::FromBufReadSI;
use procfs::net::{TcpNetEntries, TcpNetEntry};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::fs;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::RawFd;
use std::path::Path;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Ends {
    pub own: SocketAddr,
    pub other: SocketAddr,
    /// Process at the other end; `None` if not visible, such as that of another user.
    pub holder: Option<Holder>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Holder {
    pub process_id: u32,
    pub program: String,
}

impl fmt::Display for Holder {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "'{}' (process {})", self.program, self.process_id)
    }
}

pub(super) fn ends(fd: RawFd) -> Option<Ends> {
    let (own, other) = descriptors::addresses(fd)?;
    let (own, other) = (canonical(own), canonical(other));
    Some(Ends { own, other, holder: holder(own, other) })
}

/// Converts IPv4 mapped into IPv6 to IPv4, so that addresses of both ends compare equal.
fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

pub(crate) fn is_connected(own: SocketAddr, other: SocketAddr) -> bool {
    connected_inode(canonical(own), canonical(other)).is_some()
}

/// Remote address of a socket of this process, if it is not among `hosts`. Loopback and multicast addresses are
/// ignored.
pub(crate) fn connected_elsewhere(hosts: &[IpAddr]) -> io::Result<Option<SocketAddr>> {
    let others = descriptors()?.into_iter().filter_map(|one| Some(canonical(descriptors::addresses(one.fd)?.1)));
    Ok(others.into_iter().find(|other| {
        let other = other.ip();
        !(other.is_loopback() || other.is_multicast() || hosts.contains(&other))
    }))
}

fn connected_inode(own: SocketAddr, other: SocketAddr) -> Option<u64> {
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(|file| read_proc(file).unwrap_or_default());
    tables.iter().find_map(|table| inode(table, own, other))
}

fn holder(own: SocketAddr, other: SocketAddr) -> Option<Holder> {
    let inode = connected_inode(other, own)?;
    let socket = format!("socket:[{inode}]");
    let processes = fs::read_dir("/proc").ok()?.flatten();
    let mut processes = processes.filter_map(|entry| Some((entry.path(), entry.file_name().to_str()?.parse().ok()?)));
    let (folder, process_id) = processes.find(|(folder, _): &(_, u32)| holds(folder, &socket))?;
    Some(Holder { process_id, program: program(&folder) })
}

fn holds(process: &Path, socket: &str) -> bool {
    let descriptors = fs::read_dir(process.join("fd"));
    let mut links = descriptors.into_iter().flatten().flatten().map(|entry| fs::read_link(entry.path()));
    links.any(|link| link.is_ok_and(|link| link.as_os_str() == socket))
}

fn program(process: &Path) -> String {
    let name = fs::read_link(process.join("exe")).ok();
    let name = name.as_deref().and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
    name.unwrap_or_else(|| "unknown".to_owned())
}

fn inode(table: &str, local: SocketAddr, remote: SocketAddr) -> Option<u64> {
    let table = TcpNetEntries::from_buf_read(table.as_bytes(), procfs::current_system_info()).ok()?;
    let is_it =
        |entry: &&TcpNetEntry| (canonical(entry.local_address), canonical(entry.remote_address)) == (local, remote);
    // 0 means that nobody holds it any more.
    table.0.iter().filter(is_it).map(|entry| entry.inode).find(|&inode| inode != 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsRawFd;
    use std::time::{Duration, Instant};

    #[test]
    fn the_holder_of_the_other_end_is_found() -> std::io::Result<()> {
        for listen in ["127.0.0.1:0", "[::1]:0", "[::ffff:127.0.0.1]:0"] {
            let Ok(listener) = TcpListener::bind(listen) else { continue };
            let (there, at) = (TcpStream::connect(listener.local_addr()?)?, canonical(listener.local_addr()?));
            let (back, _) = listener.accept()?;
            let start = Instant::now();
            loop {
                let found = ends(there.as_raw_fd()).unwrap();
                assert_eq!((found.own, found.other), (canonical(there.local_addr()?), at));
                // A process that another test forks holds our descriptors until it calls exec.
                if let Some(holder) = found.holder.filter(|holder| holder.process_id == std::process::id()) {
                    assert!(std::env::current_exe()?.ends_with(&holder.program), "{holder}");
                    break;
                }
                assert!(start.elapsed() < Duration::from_secs(120), "the holder was not found");
            }
            drop(back);
            assert_eq!(ends(listener.as_raw_fd()), None, "it is connected with nobody");
        }
        Ok(())
    }

    #[test]
    fn tables_of_the_kernel_are_read() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n\
                     0: 0100007F:1F90 0100007F:C350 01 00000000:00000000 00:00000000 00000000  0  0 4711 1 0 20 4 30 10 -1\n\
                     1: 0100007F:1F90 0100007F:C351 06 00000000:00000000 03:00000000 00000000  0  0 0 3 0\n";
        let at = |port| SocketAddr::from(([127, 0, 0, 1], port));
        assert_eq!(inode(table, at(8080), at(50000)), Some(4711));
        assert_eq!(inode(table, at(8080), at(50001)), None, "nobody holds it any more");
        assert_eq!(inode(table, at(50000), at(8080)), None);
        assert_eq!(inode("\n0: rubbish\n", at(8080), at(50000)), None);
    }
}
