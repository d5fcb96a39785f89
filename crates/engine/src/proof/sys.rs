//! Counters and descriptors of this process on Linux.

use super::interface::InterfaceBytes;
use crate::os::{self, descriptors};
use procfs::FromRead;
use procfs::net::InterfaceDeviceStatus;
use procfs::process::Io;
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::net::IpAddr;
use std::os::fd::RawFd;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tripmeter_abi::Path;

/// Identity of a kernel object, the same in every process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct Object {
    /// `st_dev` of a descriptor, or major and minor number of a mapping in `maps`; the two are never compared.
    pub device: u64,
    pub inode: u64,
}

/// Bytes that observers themselves have read and written by `read` and `write`. Observers of one process overlap, so
/// each subtracts the bytes of all. The lock keeps half-counted calls out of the kernel's counters.
static OWN: Mutex<Own> = Mutex::new(Own { read_bytes: 0, written_bytes: 0 });

#[derive(Clone, Copy)]
struct Own {
    read_bytes: u64,
    written_bytes: u64,
}

fn own() -> MutexGuard<'static, Own> {
    OWN.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(super) fn read_proc(file: &str) -> io::Result<String> {
    read_as(&mut own(), file)
}

fn read_as(own: &mut Own, file: &str) -> io::Result<String> {
    let mut bytes = Vec::with_capacity(64 * 1024);
    let result = File::open(file).and_then(|mut opened| opened.read_to_end(&mut bytes));
    own.read_bytes += bytes.len() as u64;
    result.map(|_| String::from_utf8_lossy(&bytes).into_owned())
}

/// Clears the marks of touched pages of files and shared memory of this process.
///
/// # Source
/// proc_pid_clear_refs(5), value 3
pub(super) fn clear_touched() -> io::Result<()> {
    let mut own = own();
    File::options().write(true).open("/proc/self/clear_refs")?.write_all(b"3")?;
    own.written_bytes += 1;
    os::forget_translations();
    Ok(())
}

#[derive(Clone, Debug, Default)]
pub(super) struct Counters {
    pub read_bytes: Option<u64>,
    pub written_bytes: Option<u64>,
    pub loopback_bytes: Option<u64>,
    pub udp_datagrams: Option<u64>,
    pub interface: Option<InterfaceBytes>,
}

impl Counters {
    pub fn now(address: Option<IpAddr>) -> Self {
        let (before, io) = {
            let mut own = own();
            (*own, read_as(&mut own, "/proc/self/io").unwrap_or_default())
        };
        let io = Io::from_read(io.as_bytes()).ok();
        let read = |file| read_proc(file).unwrap_or_default();
        let dev = read("/proc/net/dev");
        Self {
            read_bytes: io.as_ref().map(|io| io.rchar.saturating_sub(before.read_bytes)),
            written_bytes: io.as_ref().map(|io| io.wchar.saturating_sub(before.written_bytes)),
            loopback_bytes: loopback_bytes(&dev),
            udp_datagrams: udp_datagrams(&read("/proc/net/snmp"), &read("/proc/net/snmp6")),
            interface: address.and_then(|address| InterfaceBytes::now(&dev, address)),
        }
    }

    pub fn since(self, earlier: &Self) -> Self {
        let added = |now: Option<u64>, then: Option<u64>| Some(now?.saturating_sub(then?));
        Self {
            read_bytes: added(self.read_bytes, earlier.read_bytes),
            written_bytes: added(self.written_bytes, earlier.written_bytes),
            loopback_bytes: added(self.loopback_bytes, earlier.loopback_bytes),
            udp_datagrams: added(self.udp_datagrams, earlier.udp_datagrams),
            interface: self.interface.zip(earlier.interface.as_ref()).map(|(now, then)| now.since(then)),
        }
    }
}

fn named_number(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| line.trim_start().strip_prefix(name)?.split_whitespace().next()?.parse().ok())
}

/// Bytes received over the loopback, which equal those sent.
fn loopback_bytes(dev: &str) -> Option<u64> {
    let mut interfaces = InterfaceDeviceStatus::from_read(dev.as_bytes()).ok()?.0;
    Some(interfaces.remove("lo")?.recv_bytes)
}

/// UDP datagrams read by any program, over IPv4 and IPv6. procfs requires all counters, including those of UDP-Lite,
/// which a kernel may lack.
fn udp_datagrams(snmp: &str, snmp6: &str) -> Option<u64> {
    let mut lines = snmp.lines().filter_map(|line| line.strip_prefix("Udp:"));
    let (names, values) = (lines.next()?, lines.next()?);
    let column = names.split_whitespace().position(|name| name == "InDatagrams")?;
    let over_ipv4: u64 = values.split_whitespace().nth(column)?.parse().ok()?;
    Some(over_ipv4 + named_number(snmp6, "Udp6InDatagrams").unwrap_or(0))
}

#[derive(Clone, Debug)]
pub(super) struct Descriptor {
    pub fd: RawFd,
    pub path: Path,
    pub object: Object,
}

pub(super) fn descriptors() -> io::Result<Vec<Descriptor>> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc/self/fd")? {
        let Some(fd) = entry?.file_name().to_str().and_then(|name| name.parse::<RawFd>().ok()) else { continue };
        // Another thread may have just closed it.
        if let Some((path, device, inode)) = descriptors::what(fd) {
            found.push(Descriptor { fd, path, object: Object { device, inode } });
        }
    }
    Ok(found)
}

/// Bytes waiting in an object: all, or the next datagram's.
pub(super) fn waiting_bytes(descriptor: &Descriptor) -> u64 {
    match descriptor.path {
        Path::File => 0,
        Path::MessageQueue => queue_bytes(descriptor.fd).unwrap_or(0),
        _ => descriptors::unread_bytes(descriptor.fd),
    }
}

/// # Source
/// mq_overview(7): a queue's file reads as `QSIZE:129 NOTIFY:2 SIGNO:0 NOTIFY_PID:8260`
fn queue_bytes(fd: RawFd) -> Option<u64> {
    let mut text = [0_u8; 128];
    let mut own = own();
    let length = descriptors::read_at_start(fd, &mut text)?;
    own.read_bytes += length as u64;
    named_number(std::str::from_utf8(&text[..length]).ok()?, "QSIZE:")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn namespace_counters_are_found() {
        let dev = "Inter-| Receive\n face |bytes packets\n    lo: 1234 5 0 0 0 0 0 0 1234 5 0 0 0 0 0 0\n";
        assert_eq!(loopback_bytes(dev), Some(1234));
        assert_eq!(loopback_bytes(&dev.replace("lo", "eth0")), None);
        let snmp = "Ip: Forwarding\nIp: 1\nUdp: InDatagrams NoPorts\nUdp: 7 0\nUdpLite: InDatagrams\nUdpLite: 9\n";
        assert_eq!(udp_datagrams(snmp, "Udp6InDatagrams                 \t5\n"), Some(12));
        assert_eq!(udp_datagrams(snmp, ""), Some(7));
        assert_eq!(udp_datagrams("", ""), None);
    }

    #[test]
    fn missing_counters_stay_missing() {
        let known = Counters { read_bytes: Some(10), ..Counters::default() };
        let more = Counters { read_bytes: Some(15), written_bytes: Some(1), ..Counters::default() };
        assert_eq!(more.clone().since(&known).read_bytes, Some(5));
        assert_eq!(more.clone().since(&known).written_bytes, None);
    }
}
