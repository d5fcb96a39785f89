//! Capacity of the receive buffer, in message bytes.
#![expect(unsafe_code, reason = "a system call")]

use rustix::net::{AddressFamily, SocketType};
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::OwnedFd;
use tripmeter_abi::os::{self, Deadline, Port};
use tripmeter_abi::packets::{MOST_PAYLOAD_BYTES, PREFIX_BYTES};
use tripmeter_abi::{Error, NodeOptions, Result, Status};

/// Buffer of the trial: holds several packets of any size, and fills within a millisecond.
const TRIAL_BYTES: u64 = 1 << 20;
/// Least payload of a fragment between hosts, at the smallest MTU of IPv6.
const LEAST_FRAGMENT_BYTES: usize = 1280 - 48;
/// Kernel's charge for a fragment: half a page and its header.
const FRAGMENT_CHARGE: u64 = 2304;
/// Lower bound of the kernel's charge for a packet, so that a trial ends.
const LEAST_CHARGE: u64 = 256;

/// Receive buffer as the kernel accounts it.
pub(crate) struct Room {
    /// Bytes charged per full packet.
    charge: u64,
    /// Payload bytes per full packet.
    chunk: u64,
    /// Largest buffer available with these settings.
    most: u64,
}

impl Room {
    pub(crate) fn find(options: &NodeOptions, packet: usize) -> Result<Self> {
        let socket = os::internet_socket(options, SocketType::DGRAM)?;
        let most = match options.setting("buffer") {
            "" | "fit" => {
                enlarge(&socket, system_wide_bytes())?;
                granted(&socket)?
            }
            _ => {
                os::buffer_setting(options, &socket)?;
                granted(&socket)?
            }
        };
        let charge = match options.local_address {
            None => measure_charge(packet)?,
            Some(_) => measure_charge(packet)?.max(packet.div_ceil(LEAST_FRAGMENT_BYTES) as u64 * FRAGMENT_CHARGE),
        };
        Ok(Self { charge, chunk: (packet - PREFIX_BYTES) as u64, most })
    }

    /// An empty buffer always accepts a single packet.
    pub(crate) fn max_payload_bytes(&self) -> u64 {
        ((self.most / self.charge).max(1) * self.chunk).min(MOST_PAYLOAD_BYTES)
    }

    pub(crate) fn make(&self, options: &NodeOptions, socket: &OwnedFd) -> Result<()> {
        if !matches!(options.setting("buffer"), "" | "fit") {
            return os::buffer_setting(options, socket);
        }
        let packets = options.max_payload_bytes.div_ceil(self.chunk);
        let needed = packets * self.charge;
        if packets < 2 || granted(socket)? >= needed {
            return Ok(());
        }
        enlarge(socket, needed)?;
        let found = granted(socket)?;
        if found >= needed {
            return Ok(());
        }
        let payload = options.max_payload_bytes;
        let text = format!(
            "payload of {payload} bytes needs a receive buffer of {needed}, the kernel grants {found}; \
             raise sysctl net.core.rmem_max to {}",
            needed.div_ceil(2)
        );
        Err(Error::new(Status::Limit, text))
    }
}

fn granted(socket: &OwnedFd) -> Result<u64> {
    Ok(os::receive_buffer(socket)? as u64)
}

/// Requests a buffer of that size; the kernel doubles the request, and may grant less.
fn enlarge(socket: &OwnedFd, bytes: u64) -> Result<()> {
    os::set_receive_buffer(socket, bytes.div_ceil(2).min(i32::MAX as u64 / 2) as usize)
}

/// Quarter of the memory that all UDP sockets may use before the kernel limits them: both ends and others need some.
fn system_wide_bytes() -> u64 {
    // SAFETY: both return numbers.
    let [page, pages] = [libc::_SC_PAGESIZE, libc::_SC_PHYS_PAGES].map(|name| unsafe { libc::sysconf(name) });
    let text = std::fs::read_to_string("/proc/sys/net/ipv4/udp_mem").unwrap_or_default();
    let limit: Option<u64> = text.split_whitespace().next().and_then(|word| word.parse().ok());
    // Only the first network namespace shows the limit, which holds in others too. This is its default (`udp_init`).
    limit.unwrap_or(pages.max(0) as u64 / 8 / 4 * 3) / 4 * page.max(4096) as u64
}

/// Charge per packet, rounded up: fills a buffer of known size, and counts the packets in it.
fn measure_charge(packet: usize) -> Result<u64> {
    let deadline = Deadline::after(100_000_000);
    let receiver = os::socket(AddressFamily::INET, SocketType::DGRAM)?;
    enlarge(&receiver, TRIAL_BYTES)?;
    os::bind(&receiver, &SocketAddr::from((Ipv4Addr::LOCALHOST, 0)))?;
    let sender = os::socket(AddressFamily::INET, SocketType::DGRAM)?;
    os::connect(&sender, &os::local_address(&receiver)?, deadline)?;
    let room = granted(&receiver)?;
    let bytes = vec![0; packet];
    for _ in 0..=room / LEAST_CHARGE.max(packet as u64) {
        sender.send(&bytes).map_err(|errno| os::os_error("sending to the loopback interface", errno))?;
    }
    let mut first = [0];
    let held = (0..=room / LEAST_CHARGE).take_while(|_| receiver.receive(&mut first).is_ok()).count() as u64;
    // Some kernels let one packet exceed the buffer.
    Ok(room / held.saturating_sub(1).max(1))
}
