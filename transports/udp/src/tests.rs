use super::*;
use std::sync::mpsc::channel;
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
    for packet in ["native", "16384", "9000", "4096", "1500", "256"] {
        let settings = [("packet", packet)];
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

#[test]
fn a_peer_that_is_not_there_is_told_apart() {
    let scratch = testing::Scratch::new();
    let mut node = Udp.open(&testing::options(&Udp, Role::Leader, &CASE, &scratch)).unwrap();
    let mut link = node.link(&LinkOptions { index: 0, callback: None }).unwrap();
    assert_eq!(link.connect(&[Vec::new()], 1_000_000).unwrap_err().status, Status::Invalid);
    let gone = std::net::UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    link.connect(&[gone.to_be_bytes().to_vec()], 1_000_000).unwrap();
    let loan = link.loan(10, None).unwrap();
    assert!(link.publish(loan, 1_000_000).unwrap());
    assert_eq!(link.take(0).unwrap_err().status, Status::Closed);
}
