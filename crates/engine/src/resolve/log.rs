//! Settings of pattern `log`, and the space that its lines need.

use super::error::Problem;
use crate::os;
use std::path::Path;
use tripmeter_abi::{Path as Claim, Variant};
use tripmeter_model::experiment::Common;
use tripmeter_model::plan::SubExperiment;
use tripmeter_model::workload::Workload;
use tripmeter_model::{Touch, payload::display_size};

/// Upper bound, in bytes, of what a logger adds to a line: its prefix and the line break.
const MOST_ADDED: u64 = 128;

pub(super) fn lines(common: &Common) -> Result<Workload, Problem> {
    let given = [
        ("one_way", common.one_way == Some(true)),
        ("followers", common.followers.is_some_and(|followers| followers > 1)),
        ("touch", common.touch.is_some_and(|touch| touch != Touch::None)),
    ];
    given.iter().find(|(_, is_given)| *is_given).map_or(Ok(Workload::lines()), |(flag, _)| Err(Problem::NotInLog(flag)))
}

/// Checks the target of the lines, and that the lines of one payload fit into the scratch folder. They are removed
/// before the next payload.
pub(super) fn check_lines(variant: &Variant, sub: &SubExperiment, scratch: &Path) -> Result<(), Problem> {
    match variant.path {
        _ if !sub.workload.is_log() => return Ok(()),
        Claim::Pipe => return Ok(()),
        Claim::File => {}
        path => return Err(Problem::LogPath(path)),
    }
    let bytes = |payload_bytes: &u64| {
        let lines = sub.warmup + sub.samples_of(*payload_bytes);
        lines.saturating_mul(payload_bytes.saturating_add(MOST_ADDED))
    };
    let needed = sub.payloads.iter().map(bytes).max().unwrap_or(0);
    let free = os::space(scratch).map_or(u64::MAX, |(_, free)| free);
    let folder = scratch.parent().unwrap_or(scratch).display().to_string();
    room(needed, free, os::file_size_limit(), folder)
}

fn room(needed: u64, free: u64, limit: Option<u64>, folder: String) -> Result<(), Problem> {
    if let Some(limit) = limit.filter(|limit| needed > *limit) {
        return Err(Problem::LogOverLimit { needed: size(needed), limit });
    }
    if needed > free {
        return Err(Problem::NoRoomForLog { needed: size(needed), free: size(free), folder });
    }
    Ok(())
}

/// Size as text, such as `900 MB`; sizes below 1 MB are in bytes.
fn size(bytes: u64) -> String {
    match bytes {
        0..1_000_000 => format!("{} bytes", display_size(bytes)),
        _ => format!("{} MB", bytes.div_ceil(1_000_000)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_logger_has_none_of_is_refused_with_the_flag() {
        let refused = |common: &Common| lines(common).unwrap_err().to_string();
        let given = |set: fn(&mut Common)| {
            let mut common = Common::default();
            set(&mut common);
            common
        };
        for (flag, common) in [
            ("one_way", given(|common| common.one_way = Some(true))),
            ("followers", given(|common| common.followers = Some(2))),
            ("touch", given(|common| common.touch = Some(Touch::Full))),
        ] {
            assert!(refused(&common).contains(flag), "{flag}");
        }
        assert_eq!(lines(&Common::default()).ok(), Some(Workload::lines()));
    }

    #[test]
    fn lines_without_room_are_refused_before_they_are_written() {
        let text = |result: Result<(), Problem>| result.unwrap_err().to_string();
        assert!(room(1000, 1000, Some(1000), String::new()).is_ok());
        let full = text(room(900_000_000, 5_000_000, None, "/var/scratch".to_owned()));
        assert!(full.contains("900 MB") && full.contains("5 MB") && full.contains("/var/scratch"), "{full}");
        assert!(full.contains("TMPDIR"), "{full}");
        let limited = text(room(2000, 1 << 40, Some(1024), String::new()));
        assert!(limited.contains("1024 bytes") && limited.contains("ulimit -f"), "{limited}");
    }
}
