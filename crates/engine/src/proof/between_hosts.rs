//! The path between two hosts: what crossed the interface of each.

use super::evidence::Evidence;
use super::judge::{Judgement, between, failed, not_visible, proven};
use super::observations::{Observations, amount, is_little, is_most};
use crate::os::interfaces;
use procfs::FromRead;
use procfs::net::InterfaceDeviceStatus;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::IpAddr;
use tripmeter_abi::Path;

/// More than so many times the payload: others were busy there, and the counters say nothing of us.
const CROWD: u64 = 4;

/// Bytes over the interfaces of a host, of all its programs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct InterfaceBytes {
    /// The interface that has the address asked for.
    pub name: String,
    pub sent: u64,
    pub received: u64,
    /// Of the others that have an address, the loopback too, by their names: the larger of both ways. The ports of a bridge
    /// have none, and carry what it does.
    pub others: BTreeMap<String, u64>,
}

impl InterfaceBytes {
    /// So far, of the interface with this address; `None` if there is none.
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

    /// What was added since an earlier time.
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

/// Whether the messages crossed the interfaces of both hosts, over sockets of that kind, and went no other way.
pub(super) fn between_hosts(observed: &Observations<'_>, path: Path) -> Judgement {
    if !matches!(path, Path::Tcp | Path::Udp) {
        return failed("another host has no part in that");
    }
    match observed.both_hold(path) {
        None => return not_visible("the descriptors of a process could not be listed"),
        Some(false) => return failed(format!("not both sides hold a new socket of {path}")),
        Some(true) => {}
    }
    let (leader, follower) = (observed.leader, observed.follower);
    let (Some(here), Some(there)) = (&leader.interface, &follower.interface) else {
        return not_visible("the counters of an interface could not be read");
    };
    let expected = observed.arrived_bytes();
    if expected == 0 {
        return not_visible("no message arrived");
    }
    let is_answered = follower.sent_messages > 0;
    let (sent, received) = (here.sent.min(there.received), here.received.min(there.sent));
    let crossed = if is_answered { sent.min(received) } else { sent };
    let names = format!("{} here and {} there", here.name, there.name);
    let bytes = format!("{} of {} each way over {names}", amount(crossed), amount(expected));
    if !is_most(crossed, expected) {
        return failed(format!("only {bytes}, of all programs together"));
    }
    for (side, name) in [(here, "here"), (there, "there")] {
        // A broker may be on either host, and is reached there over the loopback.
        let is_other =
            |other: &str, bytes: u64| (other != "lo" || !observed.claim.broker) && !is_little(bytes, expected);
        if let Some((other, elsewhere)) = side.others.iter().find(|(other, bytes)| is_other(other, **bytes)) {
            let elsewhere = amount(*elsewhere);
            return not_visible(format!("{bytes}, but {elsewhere} went over {other} {name} at the same time"));
        }
    }
    match path {
        Path::Tcp => tcp(observed, expected, &bytes),
        _ => udp(observed, crossed, expected, &bytes),
    }
}

fn tcp(observed: &Observations<'_>, expected: u64, bytes: &str) -> Judgement {
    let Some(flow) = observed.by_own_counter(Path::Tcp) else {
        return not_visible("a TCP connection does not tell its bytes");
    };
    if !is_most(flow.least, expected) {
        return failed(format!(
            "only {} of {} each way went over TCP connections",
            amount(flow.least),
            amount(expected)
        ));
    }
    let bytes = format!("{bytes}, and {} over the processes' own TCP connections", amount(flow.least));
    if observed.claim.broker { between(observed, &bytes) } else { proven(bytes) }
}

fn udp(observed: &Observations<'_>, crossed: u64, expected: u64, bytes: &str) -> Judgement {
    let tcp = observed.by_own_counter(Path::Tcp).filter(|flow| !is_little(flow.most, expected));
    if let Some(flow) = tcp {
        return failed(format!("{} went over TCP", amount(flow.most)));
    }
    let datagrams = |side: &Evidence| side.udp_datagrams;
    let (Some(here), Some(there)) = (datagrams(observed.leader), datagrams(observed.follower)) else {
        return not_visible("the counters of UDP could not be read");
    };
    let needed = observed.least_datagrams_of(observed.arrived_messages());
    let came = here.saturating_add(there);
    let all = format!("{bytes}, {came} of {needed} datagrams, of all programs");
    if !is_most(came, needed) {
        return failed(format!("only {all}"));
    }
    if crossed > expected.saturating_mul(CROWD) {
        return not_visible(format!("{all}: others were busy there at the same time"));
    }
    proven(all)
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
