//! Verdicts on artificial evidence that real traffic hardly produces: unreadable counters, crowds, lost messages.

use super::claim;
use crate::proof::evidence::{Address, AddressPlace, Evidence, EvidenceChannel, SharedObject};
use crate::proof::peer::{Ends, Holder};
use crate::proof::sys::Object;
use crate::proof::{Claim, MOST_PAYLOAD_BYTES, judge, messages_for};
use tripmeter_abi::Path;
use tripmeter_model::manifest::Verdict;

const BYTES: u64 = MOST_PAYLOAD_BYTES;
const SEGMENT: Object = Object { device: 26, inode: 7 };

fn claim_for(path: Path) -> Claim {
    claim(path, false, false, BYTES)
}

fn all_bytes() -> u64 {
    2 * BYTES * messages_for(BYTES)
}

/// Side that sent and received everything, without any trace.
fn quiet(process_id: u32) -> Evidence {
    let addresses: Vec<_> = (0..messages_for(BYTES))
        .map(|sequence| Address { sequence, address: 4096, place: AddressPlace::Private })
        .collect();
    Evidence {
        process_id,
        read_bytes: Some(0),
        written_bytes: Some(0),
        loopback_bytes: Some(0),
        interface: None,
        udp_datagrams: Some(0),
        channels: Some(Vec::new()),
        has_listed_queues: true,
        looked_for_parked: true,
        shared: Some(Vec::new()),
        sent_messages: messages_for(BYTES),
        received_messages: messages_for(BYTES),
        sent: addresses.clone(),
        received: addresses,
    }
}

fn both(change: impl Fn(&mut Evidence)) -> [Evidence; 2] {
    [1, 2].map(|process_id| {
        let mut side = quiet(process_id);
        change(&mut side);
        side
    })
}

fn hold(path: Path, parked_bytes: u64) -> EvidenceChannel {
    let object = Object { device: 9, inode: path.code().into() };
    EvidenceChannel { path, object, sent_bytes: Some(0), received_bytes: Some(0), parked_bytes, ends: None }
}

fn map(side: &mut Evidence, touched_bytes: Option<u64>) {
    let name = "/dev/shm/segment".to_owned();
    let segment = SharedObject { object: SEGMENT, name, bytes: 8 << 20, is_writable: true, touched_bytes };
    side.shared.get_or_insert_default().push(segment);
}

fn read_and_write(side: &mut Evidence, bytes: u64) {
    (side.read_bytes, side.written_bytes) = (Some(bytes), Some(bytes));
}

fn over_loopback(side: &mut Evidence, bytes: u64) {
    (side.loopback_bytes, side.udp_datagrams) = (Some(bytes), Some(4 * messages_for(BYTES)));
}

#[track_caller]
fn assert_verdict(claim: &Claim, sides: &[Evidence; 2], verdict: Verdict, words: &str) {
    let proof = judge(claim, &sides[0], &sides[1]);
    assert_eq!(proof.verdict, verdict, "{}", proof.evidence);
    assert!(proof.evidence.contains(words), "'{words}' is not in: {}", proof.evidence);
    assert!(!proof.evidence.contains('\n'));
}

#[test]
fn nothing_is_proven_by_nothing() {
    for claim in super::claims(BYTES) {
        let sides = both(|_| ());
        assert_ne!(judge(&claim, &sides[0], &sides[1]).verdict, Verdict::Proven, "{claim:?}");
    }
}

#[test]
fn what_cannot_be_read_is_not_visible() {
    let blind = both(|side| {
        (side.read_bytes, side.written_bytes, side.loopback_bytes, side.udp_datagrams) = (None, None, None, None);
        (side.channels, side.shared) = (None, None);
        side.looked_for_parked = false;
    });
    for &path in Path::ALL.iter().filter(|&&path| path != Path::Memory) {
        let words = if path == Path::Other { "no trace" } else { "could" };
        assert_verdict(&claim_for(path), &blind, Verdict::NotVisible, words);
        let sides = both(|side| {
            read_and_write(side, all_bytes());
            side.channels = None;
        });
        assert_ne!(judge(&claim_for(path), &sides[0], &sides[1]).verdict, Verdict::Proven, "{path}");
    }
}

#[test]
fn a_crowded_loopback_proves_no_udp_where_there_is_another_way() {
    let with = |bytes, other: Option<Path>| {
        both(move |side| {
            side.channels = Some([Some(Path::Udp), other].into_iter().flatten().map(|path| hold(path, 0)).collect());
            over_loopback(side, bytes);
        })
    };
    for other in [None, Some(Path::UnixStream)] {
        assert_verdict(&claim_for(Path::Udp), &with(all_bytes(), other), Verdict::Proven, "loopback");
        assert_verdict(&claim_for(Path::Udp), &with(all_bytes() / 2, other), Verdict::Failed, "only 2.1 MB of 4.2 MB");
    }
    let crowded = with(all_bytes() * 10, None);
    assert_verdict(&claim_for(Path::Udp), &crowded, Verdict::Proven, "all that both hold");
    let crowded = with(all_bytes() * 10, Some(Path::UnixStream));
    assert_verdict(&claim_for(Path::Udp), &crowded, Verdict::NotVisible, "others were busy");
    let beside_memory = both(|side| {
        side.channels = Some(vec![hold(Path::Udp, 0)]);
        over_loopback(side, all_bytes() * 10);
        map(side, Some(0));
    });
    assert_verdict(&claim_for(Path::Udp), &beside_memory, Verdict::NotVisible, "others were busy");
}

#[test]
fn udp_without_datagrams_is_no_udp() {
    let sides = both(|side| {
        side.channels = Some(vec![hold(Path::Udp, 0)]);
        over_loopback(side, all_bytes());
        side.udp_datagrams = Some(3);
    });
    assert_verdict(&claim_for(Path::Udp), &sides, Verdict::Failed, "3 of ");
}

#[test]
fn unanswered_messages_may_share_a_datagram() {
    const SMALL: u64 = 64;
    let (claimed, messages) = (claim(Path::Udp, false, false, SMALL), messages_for(SMALL));
    let with = |answers: u64| {
        let mut sides = both(|side| {
            side.channels = Some(vec![hold(Path::Udp, 0)]);
            side.loopback_bytes = Some(2 * SMALL * messages);
            side.udp_datagrams = Some(messages / 4);
            side.received_messages = messages;
        });
        (sides[0].received_messages, sides[1].sent_messages) = (answers, answers);
        sides
    };
    assert_verdict(
        &claimed,
        &with(messages),
        Verdict::Failed,
        &format!("{} of {} datagrams", messages / 4, 2 * messages),
    );
    assert_verdict(&claimed, &with(0), Verdict::Proven, "over the loopback");
}

#[test]
fn messages_that_were_lost_do_not_refute_udp() {
    let with = |arrived| {
        both(move |side| {
            side.channels = Some(vec![hold(Path::Udp, 0)]);
            over_loopback(side, all_bytes() / 2);
            side.udp_datagrams = Some(messages_for(BYTES));
            side.received_messages = arrived;
        })
    };
    assert_verdict(&claim_for(Path::Udp), &with(messages_for(BYTES)), Verdict::Failed, "only 2.1 MB of 4.2 MB");
    assert_verdict(&claim_for(Path::Udp), &with(messages_for(BYTES) / 2), Verdict::Proven, "2.1 MB of 2.1 MB");
    assert_verdict(&claim_for(Path::Udp), &with(0), Verdict::NotVisible, "no message arrived");
}

#[test]
fn messages_that_were_lost_do_not_refute_shared_memory() {
    let with = |arrived, is_elsewhere| {
        both(move |side| {
            map(side, Some(BYTES / 16));
            side.received_messages = arrived;
            if is_elsewhere {
                read_and_write(side, all_bytes());
            }
        })
    };
    let claimed = claim_for(Path::SharedMemory);
    assert_verdict(&claimed, &with(messages_for(BYTES), false), Verdict::Failed, "was touched by both");
    assert_verdict(&claimed, &with(0, false), Verdict::NotVisible, "only 0 of 32 messages came");
    assert_verdict(&claimed, &with(0, true), Verdict::Failed, "went by read and write");
}

#[test]
fn threads_that_wake_each_other_are_little_beside_a_small_payload() {
    let small = 64;
    let messages = messages_for(small);
    let with = |bytes| {
        both(move |side| {
            side.channels = Some(vec![hold(Path::UnixStream, 4096)]);
            side.sent_messages = messages;
            side.received_messages = messages;
            read_and_write(side, bytes);
        })
    };
    let claimed = claim(Path::UnixStream, false, false, small);
    assert_verdict(&claimed, &with(messages * 16), Verdict::Proven, "waited in unix-stream");
    assert_verdict(&claimed, &with(messages * 32), Verdict::Failed, "by read and write");
}

#[test]
fn others_on_the_loopback_do_not_hide_data_sharing_under_udp() {
    let with = |touched| {
        both(move |side| {
            side.channels = Some(vec![hold(Path::Udp, 0)]);
            over_loopback(side, all_bytes());
            map(side, touched);
        })
    };
    assert_verdict(&claim_for(Path::Udp), &with(Some(BYTES)), Verdict::Failed, "both sides used /dev/shm/segment");
    assert_verdict(&claim_for(Path::Udp), &with(None), Verdict::NotVisible, "is in common");
    assert_verdict(&claim_for(Path::Udp), &with(Some(4096)), Verdict::Proven, "loopback");
}

#[test]
fn others_on_the_loopback_do_not_refute_shared_memory() {
    let sides = both(|side| {
        map(side, Some(BYTES));
        over_loopback(side, all_bytes() * 10);
    });
    assert_verdict(&claim_for(Path::SharedMemory), &sides, Verdict::Proven, "/dev/shm/segment (8.4 MB)");
}

#[test]
fn a_mapping_alone_proves_shared_memory_only_where_nothing_else_is_held() {
    let with = |channels: &[Path]| {
        both(|side| {
            map(side, None);
            side.channels = Some(channels.iter().map(|&path| hold(path, 0)).collect());
        })
    };
    let claim = claim_for(Path::SharedMemory);
    assert_verdict(&claim, &with(&[]), Verdict::Proven, "nothing else");
    assert_verdict(&claim, &with(&[Path::Tcp]), Verdict::Proven, "nothing else");
    assert_verdict(&claim, &with(&[Path::MessageQueue]), Verdict::NotVisible, "also hold message-queue");
    assert_verdict(&claim, &with(&[Path::UnixDatagram]), Verdict::NotVisible, "also hold unix-datagram");
    let barely = both(|side| map(side, Some(8192)));
    assert_verdict(&claim, &barely, Verdict::Failed, "only 8.2 kB");
}

#[test]
fn others_over_tcp_do_not_hide_shared_memory_beside_a_udp_socket() {
    let with = |datagrams| {
        both(move |side| {
            map(side, None);
            side.channels = Some(vec![hold(Path::Udp, 0)]);
            over_loopback(side, all_bytes() * 10);
            side.udp_datagrams = Some(datagrams);
        })
    };
    let messages = 2 * messages_for(BYTES);
    assert_verdict(&claim_for(Path::SharedMemory), &with(messages / 8), Verdict::Proven, "nothing else");
    assert_verdict(&claim_for(Path::SharedMemory), &with(messages), Verdict::NotVisible, "also hold udp");
}

#[test]
fn a_mapping_that_nobody_can_write_carries_nothing() {
    let sides = both(|side| {
        map(side, Some(BYTES));
        side.shared.as_mut().unwrap()[0].is_writable = false;
    });
    assert_verdict(&claim_for(Path::SharedMemory), &sides, Verdict::Failed, "no new mapping");
}

#[test]
fn two_kinds_at_once_are_distinguished_by_what_waits() {
    let with = |stream, datagram| {
        both(move |side| {
            read_and_write(side, all_bytes() / 2);
            side.channels = Some(vec![hold(Path::UnixStream, stream), hold(Path::UnixDatagram, datagram)]);
        })
    };
    assert_verdict(&claim_for(Path::UnixDatagram), &with(0, 0), Verdict::NotVisible, "or unix-stream");
    assert_verdict(&claim_for(Path::UnixDatagram), &with(0, 4096), Verdict::Proven, "waited in unix-datagram");
    assert_verdict(&claim_for(Path::UnixDatagram), &with(BYTES, 0), Verdict::Failed, "waited in unix-stream");
}

#[test]
fn what_no_counter_sees_is_proven_only_where_nothing_else_is_left() {
    let claim = claim_for(Path::UnixStream);
    let only = |side: &mut Evidence| side.channels.get_or_insert_default().push(hold(Path::UnixStream, 0));
    assert_verdict(&claim, &both(only), Verdict::Proven, "all that both hold");
    let beside_a_ring = both(|side| {
        only(side);
        map(side, None);
        side.shared.iter_mut().flatten().for_each(|segment| segment.bytes = 4096);
    });
    assert_verdict(&claim, &beside_a_ring, Verdict::NotVisible, "none were seen waiting");
    let beside_another = both(|side| {
        only(side);
        side.channels.get_or_insert_default().push(hold(Path::UnixSeqpacket, 0));
    });
    assert_verdict(&claim, &beside_another, Verdict::NotVisible, "none were seen waiting");
    let blind = both(|side| {
        only(side);
        side.shared = None;
    });
    assert_verdict(&claim, &blind, Verdict::NotVisible, "none were seen waiting");
}

#[test]
fn queues_without_descriptors_are_not_visible_where_they_cannot_be_listed() {
    let claim = claim_for(Path::MessageQueue);
    assert_verdict(&claim, &both(|_| ()), Verdict::Failed, "no new message-queue in common");
    let mut sides = both(|_| ());
    sides[1].has_listed_queues = false;
    assert_verdict(&claim, &sides, Verdict::NotVisible, "could not be listed");
    // A POSIX queue that both hold is still seen.
    let held = both(|side| {
        side.has_listed_queues = false;
        side.channels = Some(vec![hold(Path::MessageQueue, 8192)]);
    });
    assert_verdict(&claim, &held, Verdict::Proven, "waited in message-queue");
}

#[test]
fn a_queue_whose_messages_are_taken_at_once_is_proven_where_nothing_else_is_left() {
    let only = |side: &mut Evidence| side.channels = Some(vec![hold(Path::MessageQueue, 0)]);
    assert_verdict(&claim_for(Path::MessageQueue), &both(only), Verdict::Proven, "all that both hold");
    let beside_a_socket = both(|side| {
        only(side);
        side.channels.get_or_insert_default().push(hold(Path::UnixStream, 0));
    });
    assert_verdict(&claim_for(Path::MessageQueue), &beside_a_socket, Verdict::NotVisible, "none were seen waiting");
}

#[test]
fn a_message_that_waits_is_no_proof_if_memory_was_used_as_well() {
    let sides = both(|side| {
        side.channels = Some(vec![hold(Path::UnixDatagram, 4096)]);
        map(side, Some(BYTES));
    });
    assert_verdict(&claim_for(Path::UnixDatagram), &sides, Verdict::Failed, "both sides used /dev/shm/segment");
}

#[test]
fn one_way_traffic_needs_no_way_back() {
    let mut sides = both(|side| side.channels = Some(vec![hold(Path::UnixStream, 4096)]));
    sides[0].written_bytes = Some(all_bytes() / 2);
    sides[1].read_bytes = Some(all_bytes() / 2);
    assert_verdict(&claim_for(Path::UnixStream), &sides, Verdict::Failed, "only 0 B of 2.1 MB");
    (sides[1].sent_messages, sides[1].sent, sides[0].received) = (0, Vec::new(), Vec::new());
    assert_verdict(&claim_for(Path::UnixStream), &sides, Verdict::Proven, "2.1 MB of 2.1 MB");
}

#[test]
fn a_few_bytes_are_no_proof() {
    let sides = both(|side| {
        read_and_write(side, 4096);
        side.channels = Some(vec![hold(Path::Pipe, 64)]);
    });
    let claim = Claim { payload_bytes: 64, messages: 64, ..claim_for(Path::Pipe) };
    assert_verdict(&claim, &sides, Verdict::NotVisible, "too little");
    assert_eq!(messages_for(64), 4096);
    assert_eq!(messages_for(BYTES), 32);
}

/// Both sides with messages at the same places of one segment.
fn zero_copy() -> [Evidence; 2] {
    both(|side| {
        map(side, None);
        for address in side.sent.iter_mut().chain(&mut side.received) {
            address.place = AddressPlace::Shared(SEGMENT, address.sequence * BYTES);
        }
    })
}

#[test]
fn one_copied_loan_refutes_zero_copy() {
    let claim = claim(Path::SharedMemory, true, false, BYTES);
    let mut sides = zero_copy();
    assert_verdict(&claim, &sides, Verdict::Proven, "64 of 64 messages at the same place");
    sides[0].received[9].place = AddressPlace::Shared(SEGMENT, 1);
    assert_verdict(&claim, &sides, Verdict::Failed, "message 9 was loaned at 589824 of /dev/shm/segment");
    sides[0].received[9].place = AddressPlace::Unmapped;
    assert_verdict(&claim, &sides, Verdict::Failed, "63 of 64");
}

#[test]
fn zero_copy_needs_most_messages_and_a_segment_of_its_own() {
    let claim = claim(Path::SharedMemory, true, false, BYTES);
    let mut lost = zero_copy();
    lost[0].received.truncate(30);
    assert_verdict(&claim, &lost, Verdict::Proven, "62 of 62");
    lost[1].received.truncate(10);
    assert_verdict(&claim, &lost, Verdict::NotVisible, "40 of 64");
    let mut old = zero_copy();
    old[1].shared = Some(Vec::new());
    assert_verdict(&claim, &old, Verdict::Failed, "0 of 64");
}

#[test]
fn zero_copy_beside_a_copy_over_a_socket_is_refuted() {
    let mut sides = zero_copy();
    sides.iter_mut().for_each(|side| read_and_write(side, all_bytes() / 2));
    assert_verdict(&claim(Path::SharedMemory, true, false, BYTES), &sides, Verdict::Failed, "by read and write");
}

/// Both sides with all traffic over TCP to these ports, held by these processes.
fn over_tcp(others: [(u16, Option<u32>); 2]) -> [Evidence; 2] {
    let mut sides = both(|side| {
        let all = Some(all_bytes() / 2);
        let channel = EvidenceChannel { sent_bytes: all, received_bytes: all, ..hold(Path::Tcp, 0) };
        side.channels = Some(vec![hold(Path::Tcp, 0), channel]);
    });
    for ((side, (port, process_id)), own) in sides.iter_mut().zip(others).zip([50_001, 50_002]) {
        let at = |port: u16| std::net::SocketAddr::from(([127, 0, 0, 1], port));
        let holder = process_id.map(|process_id| Holder { process_id, program: "between".to_owned() });
        side.channels.as_mut().unwrap()[1].ends = Some(Ends { own: at(own), other: at(port), holder });
    }
    sides
}

#[test]
fn a_broker_is_a_third_process_at_one_address() {
    let claim = Claim { broker: true, ..claim_for(Path::Tcp) };
    let sides = over_tcp([(1883, Some(7)), (1883, Some(7))]);
    assert_verdict(&claim, &sides, Verdict::Proven, "through 'between' (process 7) at 127.0.0.1:1883");
    assert_verdict(&claim_for(Path::Tcp), &sides, Verdict::Proven, "TCP connections;");
    let unseen = over_tcp([(1883, None), (1883, None)]);
    assert_verdict(&claim, &unseen, Verdict::Proven, "through a process that is not visible here at 127.0.0.1:1883");
    let two = over_tcp([(1883, Some(7)), (1884, Some(7))]);
    assert_verdict(&claim, &two, Verdict::Failed, "the leader is connected with 127.0.0.1:1883, the follower with");
    let direct = over_tcp([(50_002, Some(2)), (50_001, Some(1))]);
    assert_verdict(&claim, &direct, Verdict::Failed, "no broker is between");
    // The follower listens, and is connected with itself.
    let disguised = over_tcp([(1883, Some(2)), (1883, Some(2))]);
    assert_verdict(&claim, &disguised, Verdict::Failed, "127.0.0.1:1883 is the leader or the follower itself");
    let mut dark = over_tcp([(1883, Some(7)), (1883, Some(7))]);
    dark[1].channels.as_mut().unwrap()[1].ends = None;
    assert_verdict(&claim, &dark, Verdict::NotVisible, "addresses of a TCP connection could not be read");
}

#[test]
fn what_a_leader_sent_to_many_followers_counts_for_each() {
    let sides = |leader: u64, follower: u64| {
        let mut sides = both(|side| map(side, Some(all_bytes())));
        let channel = |sent_bytes, received_bytes| EvidenceChannel {
            sent_bytes: Some(sent_bytes),
            received_bytes: Some(received_bytes),
            ..hold(Path::Tcp, 0)
        };
        sides[0].channels = Some(vec![channel(leader, 0)]);
        sides[1].channels = Some(vec![channel(0, follower)]);
        sides
    };
    let claim = |followers| Claim { followers, ..claim_for(Path::SharedMemory) };
    let (all, little) = (all_bytes(), all_bytes() / 64);
    assert_verdict(&claim(64), &sides(64 * little, little), Verdict::Proven, "segment");
    assert_verdict(&claim(1), &sides(64 * little, little), Verdict::Failed, "over TCP");
    assert_verdict(&claim(64), &sides(64 * all, all), Verdict::Failed, "over TCP");
    // Sent once, to another program that fills the memory.
    assert_verdict(&claim(64), &sides(all, 0), Verdict::Failed, "over TCP");
}
