//! Bytes over the interface to another host.

use crate::os::interfaces;
use procfs::FromRead;
use procfs::net::InterfaceDeviceStatus;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// Bytes over the interfaces of a host, by all its programs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct InterfaceBytes {
    pub name: String,
    pub sent: u64,
    pub received: u64,
    /// Bytes over the loopback and other interfaces with an address, by name, in the larger direction. Ports of a
    /// bridge have no address, and carry the traffic of the bridge.
    pub others: BTreeMap<String, u64>,
}

impl InterfaceBytes {
    /// Bytes so far; `None` if no interface has this address.
    pub fn now(dev: &str, address: IpAddr) -> Option<Self> {
        let all = InterfaceDeviceStatus::from_read(dev.as_bytes()).ok()?.0;
        let known = interfaces();
        let name = known.iter().find(|(_, one)| *one == address).map(|(name, _)| name.clone());
        let name = name.or_else(|| address.is_loopback().then(|| "lo".to_owned()))?;
        let own = all.get(&name)?;
        let is_other =
            |other: &&String| **other != name && (*other == "lo" || known.iter().any(|(one, _)| one == *other));
        let others = all.iter().filter(|(other, _)| is_other(other));
        let others = others.map(|(other, one)| (other.clone(), one.sent_bytes.max(one.recv_bytes))).collect();
        Some(Self { sent: own.sent_bytes, received: own.recv_bytes, others, name })
    }

    pub fn since(self, earlier: &Self) -> Self {
        let before = |other: &String| earlier.others.get(other).copied().unwrap_or(0);
        Self {
            sent: self.sent.saturating_sub(earlier.sent),
            received: self.received.saturating_sub(earlier.received),
            others: self
                .others
                .iter()
                .map(|(other, bytes)| (other.clone(), bytes.saturating_sub(before(other))))
                .collect(),
            name: self.name,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_of_the_interface_with_the_address_are_apart_from_all_others() {
        let dev = "Inter-| Receive\n face |bytes packets\n    lo: 500 5 0 0 0 0 0 0 700 5 0 0 0 0 0 0\n\
                   none0: 9 1 0 0 0 0 0 0 9 1 0 0 0 0 0 0\n";
        let now = InterfaceBytes::now(dev, IpAddr::from([127, 0, 0, 1])).unwrap();
        assert_eq!((now.name.as_str(), now.received, now.sent, now.others.len()), ("lo", 500, 700, 0));
        assert_eq!(InterfaceBytes::now(dev, IpAddr::from([192, 0, 2, 1])), None);
        let earlier = InterfaceBytes { received: 100, sent: 600, ..now.clone() };
        let added = now.since(&earlier);
        assert_eq!((added.received, added.sent), (400, 100));
    }
}
