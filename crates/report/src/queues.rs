//! Notes on kernel queues that are smaller than the plan suggests.

use crate::document::{Note, Severity};
use crate::merged::Merged;
use crate::number::counted;
use tripmeter_model::kernel_queue::{KernelQueues, QueueKind, QueueSide};
use tripmeter_model::manifest::Manifest;
use tripmeter_model::plan::SubExperiment;

const QUEUES: &str = "queues";

/// Kind of queue that is smaller where a limit of Linux is reached.
struct Limited {
    kind: QueueKind,
    name: &'static str,
    /// Default capacity in Linux, in `unit`.
    usual: u64,
    unit: &'static str,
    limits: &'static str,
    /// Setting of its capacity.
    setting: &'static str,
}

/// # Source
/// pipe(7), mq_overview(7)
const LIMITED: [Limited; 2] = [
    Limited {
        kind: QueueKind::PipeBytes,
        name: "pipe",
        usual: 65_536,
        unit: "bytes",
        limits: "sysctl fs.pipe-user-pages-soft or fs.pipe-max-size",
        setting: "buffer",
    },
    Limited {
        kind: QueueKind::QueueMessages,
        name: "queue",
        usual: 10,
        unit: "messages",
        limits: "RLIMIT_MSGQUEUE (ulimit -q) or sysctl fs.mqueue.msg_max",
        setting: "depth",
    },
];

/// Notes on queues that are smaller than others or than usual, and on datagrams of several publishers.
pub fn notes(subs: &[Merged<'_>]) -> Vec<Note> {
    let note = |severity, sub: &Merged<'_>, what: String| {
        Note::new(severity, QUEUES, None, format!("{}: {what}", sub.planned.name))
    };
    let of_sub = |sub: &Merged<'_>| {
        let rounds = || sub.results.iter().map(|result| result.queues.as_slice());
        let shared = rounds().find_map(|queues| shared_datagrams(sub.planned, queues));
        let shared = shared.map(|what| note(Severity::Info, sub, what));
        let small = rounds().find_map(|queues| small(sub.planned, queues));
        [small.map(|what| note(Severity::Warning, sub, what)), shared]
    };
    subs.iter().flat_map(of_sub).flatten().collect()
}

/// Note on queues of a transport that are smaller than others or than usual, if there are any.
pub fn small_queues(manifest: &Manifest, transport: &str) -> Option<String> {
    let subs = Merged::from_manifest(manifest);
    let mut of_transport = subs.iter().filter(|sub| sub.planned.transport.to_string() == transport);
    of_transport.find_map(|sub| sub.results.iter().find_map(|result| small(sub.planned, &result.queues)))
}

fn small(planned: &SubExperiment, queues: &[KernelQueues]) -> Option<String> {
    LIMITED.iter().find_map(|limited| limited.small(planned, queues))
}

impl Limited {
    /// Checks the queues of the leader, which has both ends open.
    fn small(&self, planned: &SubExperiment, queues: &[KernelQueues]) -> Option<String> {
        let Self { kind, name, usual, unit, limits, setting } = self;
        let of_kind = || queues.iter().filter(|one| (one.side, one.kind) == (QueueSide::Leader, *kind));
        let (least, most) = (of_kind().map(|one| one.capacity).min()?, of_kind().map(|one| one.capacity).max()?);
        // The setting may request less than usual.
        let expected = if planned.transport.given.contains_key(*setting) { most } else { most.max(*usual) };
        let (all, short) = of_kind().fold((0, 0), |(all, short), one| {
            (all + one.count, short + if one.capacity < expected { one.count } else { 0 })
        });
        let text = format!(
            "{short} of {} hold less than {expected} {unit} (the smallest {least}), because of {limits}; raise these, or \
             use fewer links",
            counted(all as usize, name)
        );
        (short > 0).then_some(text)
    }
}

/// Note on a socket that several publishers send to.
fn shared_datagrams(planned: &SubExperiment, queues: &[KernelQueues]) -> Option<String> {
    let publishers = planned.workload.publishers();
    let is_shared = |one: &&KernelQueues| (one.side, one.kind) == (QueueSide::Follower, QueueKind::SharedDatagrams);
    let shared = queues.iter().filter(is_shared).map(|one| one.capacity).min().filter(|_| publishers > 1)?;
    let text = format!(
        "{publishers} publishers share {} for messages at the follower (sysctl net.unix.max_dgram_qlen); a single \
         publisher is limited only by its send buffer",
        counted(shared as usize, "place")
    );
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{add, manifest, result};

    #[test]
    fn less_room_than_expected_has_a_note() {
        let noted = |queues: &[(QueueSide, QueueKind, u64, u32)], publishers: u32, given: Option<&str>| {
            let mut manifest = manifest();
            let planned = add(&mut manifest, "one", "pipe/fifo", &[1024]);
            planned.workload.topology.publishers = publishers;
            if let Some(setting) = given {
                planned.transport.given.insert(setting.to_owned(), "4096".to_owned());
            }
            result(&mut manifest, "one", 1, &[(1024, 1000.0)]).queues = queues
                .iter()
                .map(|&(side, kind, capacity, count)| KernelQueues { side, kind, capacity, count })
                .collect();
            let notes: Vec<String> =
                notes(&Merged::from_manifest(&manifest)).into_iter().map(|note| note.text).collect();
            // `explain` has the same note, by transport.
            let transport = manifest.plan.sub_experiments[0].transport.to_string();
            let explained = small_queues(&manifest, &transport).map(|what| format!("one: {what}"));
            assert!(explained.is_none_or(|what| notes.contains(&what)), "{notes:?}");
            notes
        };
        let pipes = |capacity, count| (QueueSide::Leader, QueueKind::PipeBytes, capacity, count);
        assert_eq!(noted(&[pipes(65_536, 4)], 1, None), [""; 0]);
        assert_eq!(noted(&[pipes(4096, 4)], 1, Some("buffer")), [""; 0]);
        let some = noted(&[pipes(65_536, 4), pipes(8192, 2)], 1, None);
        assert!(some[0].contains("2 of 6 pipes hold less than 65536 bytes (the smallest 8192)"), "{some:?}");
        assert!(some[0].contains("fs.pipe-user-pages-soft"), "{some:?}");
        assert!(noted(&[pipes(8192, 2)], 1, None)[0].contains("2 of 2 pipes"));
        assert!(noted(&[pipes(131_072, 1), pipes(65_536, 1)], 1, Some("buffer"))[0].contains("1 of 2 pipes"));
        let messages = |capacity, count| (QueueSide::Leader, QueueKind::QueueMessages, capacity, count);
        assert_eq!(noted(&[messages(10, 2)], 1, None), [""; 0]);
        let few = noted(&[messages(4, 24)], 1, None);
        assert!(few[0].contains("24 of 24 queues hold less than 10 messages (the smallest 4)"), "{few:?}");
        assert!(few[0].contains("RLIMIT_MSGQUEUE (ulimit -q) or sysctl fs.mqueue.msg_max"), "{few:?}");
        assert!(noted(&[messages(4, 2)], 1, Some("packet"))[0].contains("hold less than 10"));
        assert_eq!(noted(&[messages(4, 2)], 1, Some("depth")), [""; 0]);
        let datagrams = [(QueueSide::Follower, QueueKind::SharedDatagrams, 11, 1)];
        assert_eq!(noted(&datagrams, 1, None), [""; 0]);
        assert!(noted(&datagrams, 3, None)[0].contains("3 publishers share 11 places"));
    }
}
