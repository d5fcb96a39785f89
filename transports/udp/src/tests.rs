use super::*;
use std::sync::mpsc::channel;
use std::time::Instant;
use tripmeter_abi::testing::{self, Case};
use tripmeter_abi::{Link, Role, Status};

const CASE: Case<'_> =
    Case { variant: "loopback", settings: &[], wait: Wait::Poll, pattern: Pattern::Ping, payloads: &[(16, 1)] };

#[test]
fn loopback() {
    testing::conformance(&Udp, "loopback", &[&[], &[("packet", "4096")], &[("packet", "20000")]]);
}

#[test]
fn a_number_or_the_system_s_buffer_can_be_asked_for() {
    for settings in [[("buffer", "system")], [("buffer", "400000")]] {
        let case = Case { settings: &settings, payloads: &[(100_000, 3), (10, 3)], ..CASE };
        testing::ping(&Udp, &case);
    }
}

/// The receiver sleeps until the whole message is sent: the buffer alone holds it.
#[test]
fn the_largest_message_fits_the_buffer() {
    // Few enough small packets for the kernel's backlog (net.core.netdev_max_backlog), too: it may be emptied late,
    // and packets that do not fit are lost.
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

/// Between its bind and its connect, a socket accepts datagrams of anybody.
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
    // An empty datagram of the peer still ends the link.
    peer.send_to(&[], &own).unwrap();
    assert_eq!(link.take(0).unwrap_err().status, Status::Closed);
}

fn packet(content: u8) -> Vec<u8> {
    [0_u32, 1, 0, 0].iter().flat_map(|word| word.to_ne_bytes()).chain([content]).collect()
}

/// `count` pairs of a publisher and another sender; a link at `address` that is connected to the publishers, although
/// the others sent first; and the link's address.
fn heard(address: &str, count: usize) -> (Vec<[UdpSocket; 2]>, PacketLink<Datagrams>, String) {
    let scratch = testing::Scratch::new();
    let options = testing::options(&Udp, Role::Follower, &Case { pattern: Pattern::Publish, ..CASE }, &scratch);
    let local_address = Some(address.parse().unwrap());
    let mut node = Udp.open(&NodeOptions { publisher_count: count as u32, local_address, ..options }).unwrap();
    let mut link = node.link(&LinkOptions { index: 0, callback: None }).unwrap();
    let own = String::from_utf8(link.address().unwrap()).unwrap();
    let pair = |_| [(); 2].map(|()| UdpSocket::bind((address, 0)).unwrap());
    let pairs: Vec<[UdpSocket; 2]> = (0..count).map(pair).collect();
    attack(&pairs[0][1], &own);
    let addresses: Vec<_> = pairs.iter().map(|[one, _]| one.local_addr().unwrap().to_string().into_bytes()).collect();
    link.connect(&addresses, testing::PATIENCE_NS).unwrap();
    (pairs, link, own)
}

/// Sends datagrams that would end a link, count as damaged, or count as a message.
fn attack(other: &UdpSocket, victim: &str) {
    let farewell = [0_u32, 0, 0, 1].map(u32::to_ne_bytes).concat();
    for datagram in [&[][..], &[0; 7], &[255; 100], &packet(9), &farewell] {
        other.send_to(datagram, victim).unwrap();
    }
}

#[test]
fn of_many_who_know_its_address_a_link_hears_its_publishers_only() {
    // The filter searches long lists of ports, and compares short ones.
    for (address, count) in [("127.0.0.1", 2), ("127.0.0.1", 300), ("::1", 2), ("::1", 70)] {
        if address == "::1" && UdpSocket::bind((address, 0)).is_err() {
            // The test harness hides printed output.
            let line = format!("SKIPPED: {count} publishers at ::1: there is no such address here\n");
            io::Write::write_all(&mut io::stderr(), line.as_bytes()).unwrap();
            continue;
        }
        let (pairs, mut link, own) = heard(address, count);
        assert!(link.take(0).unwrap().is_none(), "{address}: others were there first");
        for (index, [publisher, other]) in pairs.iter().enumerate() {
            attack(other, &own);
            publisher.send_to(&packet(index as u8), &own).unwrap();
            attack(other, &own);
            let message = link.take(0).unwrap().unwrap_or_else(|| panic!("{address}: nothing of publisher {index}"));
            assert_eq!(message.length, 1);
            link.release(message);
            assert!(link.take(0).unwrap().is_none(), "{address}: a message of others beside publisher {index}");
        }
        // An empty datagram of a publisher still ends the link.
        pairs[count - 1][0].send_to(&[], &own).unwrap();
        assert_eq!(link.take(0).unwrap_err().status, Status::Closed);
    }
}

/// The same port at another address of this host is not a publisher.
#[test]
fn a_port_of_another_address_is_no_publisher() {
    let (pairs, mut link, own) = heard("127.0.0.1", 2);
    let publisher = &pairs[0][0];
    let same_port = UdpSocket::bind(("127.0.0.2", publisher.local_addr().unwrap().port())).unwrap();
    attack(&same_port, &own);
    assert!(link.take(0).unwrap().is_none());
    publisher.send_to(&packet(0), &own).unwrap();
    assert!(link.take(0).unwrap().is_some());
}

#[test]
fn what_no_filter_of_the_kernel_can_have_is_refused() {
    let peers = |count: u16| (1..=count).map(|port| SocketAddr::from(([127, 0, 0, 1], port))).collect::<Vec<_>>();
    assert!(sources::program(&peers(3500)).is_ok());
    let error = sources::program(&peers(4096)).unwrap_err();
    assert!(error.status == Status::Limit && error.to_string().contains("4096 publishers need"), "{error}");
    let error = sources::refused(std::io::Error::from_raw_os_error(libc::ENOMEM), 2200);
    assert!(error.status == Status::Limit && error.to_string().contains("net.core.optmem_max"), "{error}");
    assert_eq!(sources::refused(std::io::Error::from_raw_os_error(libc::EPERM), 2).status, Status::Failed);
    let strange = [peers(1), vec!["10.0.0.1:1".parse().unwrap()]].concat();
    for peers in [&strange[..], &[]] {
        assert_eq!(sources::program(peers).unwrap_err().status, Status::Invalid);
    }
}

#[test]
fn a_peer_that_is_not_there_is_told_apart() {
    let scratch = testing::Scratch::new();
    let mut node = Udp.open(&testing::options(&Udp, Role::Leader, &CASE, &scratch)).unwrap();
    let mut link = node.link(&LinkOptions { index: 0, callback: None }).unwrap();
    assert_eq!(link.connect(&[Vec::new()], 1_000_000).unwrap_err().status, Status::Invalid);
    // Keeps the port from others, and refuses all datagrams but its own.
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
