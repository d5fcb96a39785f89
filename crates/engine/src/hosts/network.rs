//! Facts and counters of a network interface and its protocols, from `ip`, `ethtool` and the kernel.

use super::bounded::told;
use super::time_sync::time_sync;
use crate::os::interfaces;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fs;
use std::net::IpAddr;
use tripmeter_model::group::by_key;
use tripmeter_model::manifest::Network;

/// Offloads that change how messages become packets, as named by `ethtool -k`.
const OFFLOADS: [&str; 6] = [
    "tcp-segmentation-offload",
    "generic-segmentation-offload",
    "generic-receive-offload",
    "large-receive-offload",
    "tx-checksumming",
    "rx-checksumming",
];
/// Interrupt delays, as named by `ethtool -c`.
const COALESCING: [&str; 4] = ["rx-usecs", "rx-frames", "tx-usecs", "tx-frames"];
/// Counters of losses and retransmissions in `/proc/net/snmp` and `/proc/net/netstat`.
const PROTOCOL_COUNTERS: [(&str, &str); 8] = [
    ("Ip", "InDiscards"),
    ("Ip", "OutDiscards"),
    ("Ip", "ReasmFails"),
    ("Tcp", "RetransSegs"),
    ("Tcp", "InErrs"),
    ("TcpExt", "TCPTimeouts"),
    ("Udp", "RcvbufErrors"),
    ("Udp", "SndbufErrors"),
];

#[derive(Deserialize)]
struct IpLink {
    mtu: Option<u64>,
    operstate: Option<String>,
    #[serde(default)]
    linkinfo: LinkInfo,
    #[serde(default)]
    stats64: BTreeMap<String, BTreeMap<String, u64>>,
}

#[derive(Default, Deserialize)]
struct LinkInfo {
    info_kind: Option<String>,
}

pub(super) fn network_of(address: IpAddr) -> Network {
    let known = interfaces();
    let name = known.iter().find(|(_, one)| *one == address).map(|(name, _)| name.as_str());
    network(name.unwrap_or("lo"), address)
}

fn network(name: &str, address: IpAddr) -> Network {
    let (mut facts, mut hidden, mut counters) = (BTreeMap::new(), Vec::new(), BTreeMap::new());
    match told("ip", &["-j", "-s", "-d", "link", "show", "dev", name]).and_then(|text| link(&text)) {
        Ok(link) => {
            let kind = link.linkinfo.info_kind.unwrap_or_else(|| "device".to_owned());
            let known = [("kind", Some(kind)), ("mtu", link.mtu.map(|mtu| mtu.to_string())), ("state", link.operstate)];
            facts.extend(known.into_iter().filter_map(|(name, fact)| Some((name.to_owned(), fact?))));
            for (way, counted) in link.stats64 {
                for what in ["dropped", "errors", "over_errors"] {
                    counted.get(what).map(|count| counters.insert(format!("{way}_{what}"), *count));
                }
            }
        }
        Err(why) => hidden.push(format!("mtu, state, drops: {why}")),
    }
    let mut unseen = Vec::new();
    for (arguments, names) in [
        (&[name][..], &["Speed", "Duplex"][..]),
        (&["-i", name], &["driver", "firmware-version"]),
        (&["-k", name], &OFFLOADS),
        (&["-c", name], &COALESCING),
    ] {
        match told("ethtool", arguments) {
            Ok(text) => facts.extend(listed(&text, names)),
            Err(why) => unseen.push((why, names.join(", "))),
        }
    }
    hidden.extend(by_key(unseen).into_iter().map(|(why, names)| format!("{}: {why}", names.join(", "))));
    facts.extend(time_sync(&mut hidden));
    let counted = ["/proc/net/snmp", "/proc/net/netstat"].map(|file| fs::read_to_string(file).unwrap_or_default());
    let counted = counted.concat();
    for (protocol, counter) in PROTOCOL_COUNTERS {
        of_protocol(&counted, protocol, counter).map(|count| counters.insert(format!("{protocol}_{counter}"), count));
    }
    Network {
        interface: name.to_owned(),
        address: address.to_string(),
        facts,
        hidden,
        before: counters,
        after: BTreeMap::new(),
    }
}

pub(super) fn read_by_all(text: &str) {
    let _ = (link(text), listed(text, &["Speed"]), of_protocol(text, "Tcp", "RetransSegs"));
}

fn link(text: &str) -> Result<IpLink, String> {
    let links: Result<Vec<IpLink>, _> = serde_json::from_str(text);
    let first = links.map_err(|error| format!("`ip`: {error}"))?.into_iter().next();
    first.ok_or_else(|| "`ip`: it lists nothing".to_owned())
}

/// Names and values from lines `name: value`, for these names.
fn listed(text: &str, names: &[&str]) -> Vec<(String, String)> {
    let pairs = text.lines().filter_map(|line| line.trim().split_once(':'));
    let wanted = pairs.filter(|(name, _)| names.contains(name));
    wanted.map(|(name, value)| (name.to_lowercase(), value.trim().to_owned())).collect()
}

fn of_protocol(text: &str, protocol: &str, counter: &str) -> Option<u64> {
    let mut lines = text.lines().filter_map(|line| line.strip_prefix(protocol)?.strip_prefix(':'));
    let (names, values) = (lines.next()?, lines.next()?);
    let place = names.split_whitespace().position(|name| name == counter)?;
    values.split_whitespace().nth(place)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_tools_say_is_read_and_nothing_else() {
        let ip = r#"[{"ifname":"eth0","mtu":9000,"operstate":"UP","linkinfo":{"info_kind":"veth"},
            "stats64":{"rx":{"bytes":1,"dropped":3,"errors":0},"tx":{"dropped":4}}}]"#;
        let found = link(ip).unwrap();
        assert_eq!((found.mtu, found.stats64["rx"]["dropped"], found.stats64["tx"]["dropped"]), (Some(9000), 3, 4));
        assert!(link("[]").is_err() && link("nonsense").is_err());
        let offloads =
            listed("Features for eth0:\ntcp-segmentation-offload: on\n\ttx-lockless: on [fixed]\n", &OFFLOADS);
        assert_eq!(offloads, [("tcp-segmentation-offload".to_owned(), "on".to_owned())]);
        let snmp = "Tcp: A RetransSegs\nTcp: 1 7\nUdp: RcvbufErrors\nUdp: 2\nTcpExt: RetransSegs\nTcpExt: 9\n";
        assert_eq!(
            (of_protocol(snmp, "Tcp", "RetransSegs"), of_protocol(snmp, "Udp", "RcvbufErrors")),
            (Some(7), Some(2))
        );
        assert_eq!(of_protocol(snmp, "Udp", "Other"), None);
    }
}
