//! Path between two hosts, by the traffic of both interfaces.

use super::evidence::Evidence;
use super::finding::{Judgement, between, failed, not_visible, proven};
use super::observations::{Observations, amount, is_little, is_most};
use tripmeter_abi::Path;

/// Multiple of the payload above which other programs must have been busy, so that counters prove nothing.
const CROWD: u64 = 4;

/// Judges if the messages crossed the interfaces of both hosts, by sockets of that kind, and took no other path.
pub(super) fn between_hosts(observed: &Observations<'_>, path: Path) -> Judgement {
    if !matches!(path, Path::Tcp | Path::Udp) {
        return failed("this path does not reach another host");
    }
    match observed.both_hold(path) {
        None => return not_visible("the descriptors of a process could not be listed"),
        Some(false) => return failed(format!("only one side, or none, has a new socket of {path}")),
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
        // A broker on either host may be reached over the loopback there.
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
        return not_visible("a TCP connection does not report its bytes");
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
