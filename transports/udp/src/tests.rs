use super::*;
use std::sync::mpsc::channel;
use std::time::Instant;
use tripmeter_abi::testing::{self, Case};
use tripmeter_abi::{Link, Role, Status};

const CASE: Case<'_> =
    Case { variant: "loopback", settings: &[], wait: Wait::Poll, pattern: Pattern::PingPong, payloads: &[(16, 1)] };

#[test]
fn loopback() {
    testing::conformance(&Udp, "loopback", &[&[], &[("packet", "4096")], &[("packet", "20000")]]);
}

#[test]
fn a_number_or_the_system_s_buffer_can_be_asked_for() {
    for settings in [[("buffer", "system")], [("buffer", "400000")]] {
        let case = Case { settings: &settings, payloads: &[(100_000, 3), (10, 3)], ..CASE };
        testing::pingpong(&Udp, &case);
    }
}

/// The receiver sleeps until the whole message has been sent: the buffer alone holds it.
#[test]
fn the_largest_message_fits_the_buffer() {
    // Of small packets only so many that the kernel's backlog (net.core.netdev_max_backlog) holds them all, too: it may be
    // emptied late, and what does not fit there is lost.
    let cases = [("native", "fit"), ("16384", "fit"), ("9000", "fit")];
    let small = ["4096", "1500", "256"].map(|packet| (packet, "200000"));
    for (packet, buffer) in cases.into_iter().chain(small) {
        let settings = [("packet", packet), ("buffer", buffer)];
        let most = testing::probe(&Udp, &Case { settings: &settings, ..CASE }).unwrap().max_payload_bytes;
        let payloads = [(most.min(4 << 20) as usize, 1)];
        let case = Case { settings: &settings, payloads: &payloads, ..CASE };
        let (to_follower, sent) = channel();
        let length = payloads[0].0;
        testing::run(
            &Udp,
            &case,
            move |end| {
                end.send(length, 7);
                to_follower.send(()).unwrap();
                end.expect(3, 8);
            },
            move |end| {
                sent.recv_timeout(testing::TIME_LIMIT).unwrap();
                end.expect(length, 7);
                end.send(3, 8);
            },
        );
    }
}

#[test]
fn a_small_buffer_limits_the_payload_and_probe_says_so() {
    let probe = |settings: &[(&str, &str)]| testing::probe(&Udp, &Case { settings, ..CASE }).unwrap();
    let (native, small) = (probe(&[]), probe(&[("buffer", "200000")]));
    assert_eq!(native.packet_bytes, DATAGRAM_BYTES as u64);
    assert!(small.max_payload_bytes < 400_000 && small.max_payload_bytes < native.max_payload_bytes);
    let scratch = testing::Scratch::new();
    let case = Case { settings: &[("buffer", "200000")], payloads: &[(1 << 20, 1)], ..CASE };
    let error = Udp.open(&testing::options(&Udp, Role::Leader, &case, &scratch)).err().unwrap();
    assert_eq!(error.status, Status::Limit);
}

/// Between its name and its peer, a socket takes what anybody sends.
#[test]
fn what_others_sent_before_the_link_had_its_peer_is_removed() {
    let scratch = testing::Scratch::new();
    let mut node = Udp.open(&testing::options(&Udp, Role::Leader, &CASE, &scratch)).unwrap();
    let mut link = node.link(&LinkOptions { index: 0, callback: None }).unwrap();
    let own = String::from_utf8(link.address().unwrap()).unwrap();
    let [other, peer] = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
    for datagram in [&[][..], &[0; 7], &[255; 100], &[]] {
        other.send_to(datagram, &own).unwrap();
    }
    let address = peer.local_addr().unwrap().to_string();
    link.connect(&[address.into_bytes()], testing::PATIENCE_NS).unwrap();
    assert!(link.take(0).unwrap().is_none());
    // As before, it is the peer's last word.
    peer.send_to(&[], &own).unwrap();
    assert_eq!(link.take(0).unwrap_err().status, Status::Closed);
}

#[test]
fn a_peer_that_is_not_there_is_told_apart() {
    let scratch = testing::Scratch::new();
    let mut node = Udp.open(&testing::options(&Udp, Role::Leader, &CASE, &scratch)).unwrap();
    let mut link = node.link(&LinkOptions { index: 0, callback: None }).unwrap();
    assert_eq!(link.connect(&[Vec::new()], 1_000_000).unwrap_err().status, Status::Invalid);
    // It keeps the port from others, and refuses all datagrams but its own.
    let itself = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = itself.local_addr().unwrap();
    itself.connect(address).unwrap();
    link.connect(&[address.to_string().into_bytes()], testing::PATIENCE_NS).unwrap();
    let loan = link.loan(10, None).unwrap();
    assert!(link.publish(loan, testing::PATIENCE_NS).unwrap());
    // The refusal may be late.
    let start = Instant::now();
    let error = loop {
        match link.take(0) {
            Ok(message) => assert!(message.is_none() && start.elapsed() < testing::TIME_LIMIT, "no refusal came"),
            Err(error) => break error,
        }
    };
    assert_eq!(error.status, Status::Closed);
}
