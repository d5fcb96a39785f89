//! Names that become parts of paths: one rule for experiment files, flags and manifests.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::sync::OnceLock;

/// Most bytes of a name.
pub const MOST_BYTES: usize = 100;

/// True if a name may have this byte.
pub fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"_.=-".contains(&byte)
}

/// True for a name: 1 to [`MOST_BYTES`] letters, digits and `_.=-`, not starting with a dot or a dash. Never a path.
pub fn is_name(name: &str) -> bool {
    (1..=MOST_BYTES).contains(&name.len()) && name.bytes().all(is_name_byte) && !name.starts_with(['.', '-'])
}

/// Current form of a default name from schema 2, which had other words for patterns and for the background load.
pub fn of_today(name: &str) -> String {
    let part = |part| match part {
        "channel" => "publish",
        "rpc" => "call",
        part => part,
    };
    with_background(&name.split('_').map(part).collect::<Vec<_>>().join("_"))
}

/// Current form of a name from schema 2, which called the background load `load`.
pub fn with_background(name: &str) -> String {
    name.replacen("_load-", "_background-", 1)
}

/// Current form of a name between hosts, where schema 2 wrote `loopback`.
pub fn without_loopback(name: &str) -> String {
    name.replacen("_loopback_", "_", 1)
}

/// Number that identifies the boot of the machine and the namespaces of processes and times. Process ids and start
/// times are unique only within these. It has at most 8 hexadecimal digits, and is the first number in the names of
/// objects that a run creates.
pub fn process_place() -> u64 {
    static PLACE: OnceLock<u64> = OnceLock::new();
    *PLACE.get_or_init(|| {
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        let namespace = |name| fs::metadata(format!("/proc/self/ns/{name}")).map_or(0, |namespace| namespace.ino());
        place_of(&boot, namespace("pid"), namespace("time"))
    })
}

/// Combines digits of the boot's random UUID with the namespaces, whose first numbers are equal on all machines.
fn place_of(boot: &str, processes: u64, times: u64) -> u64 {
    let random = boot.get(..8).and_then(|digits| u32::from_str_radix(digits, 16).ok()).unwrap_or(0);
    // Namespace numbers differ in their last digits.
    u64::from(random ^ processes as u32 ^ (times as u32).rotate_left(16))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_namespace_is_another_one_on_each_machine() {
        let of = |boot: &str| place_of(boot, 0xefff_fffc, 0xefff_fffa);
        assert_eq!(of("0123cdef-0000-4000-8000-000000000000\n"), 0x1126_ddec);
        assert_ne!(of("0123cdef-0000-4000-8000-000000000000"), of("0123cdee-0000-4000-8000-000000000000"));
        assert_eq!(of(""), 0x1005_1003);
        assert_ne!(place_of("0123cdef-", 1, 1), place_of("0123cdef-", 2, 1));
        assert_ne!(place_of("0123cdef-", 1, 1), place_of("0123cdef-", 1, 2));
        assert_ne!(place_of("0123cdef-", 1, 2), place_of("0123cdef-", 2, 1));
    }

    #[test]
    fn words_of_patterns_and_of_the_background_load_are_those_of_today() {
        for (old, today) in [
            ("uds_stream_block_rpc_fixed-freq_clients-2", "uds_stream_block_call_fixed-freq_clients-2"),
            ("uds_stream_poll_channel_load-cpu-1-memory", "uds_stream_poll_publish_background-cpu-1-memory"),
            ("uds_channels-2_poll_throughput", "uds_channels-2_poll_throughput"),
        ] {
            assert_eq!(of_today(old), today);
        }
    }

    #[test]
    fn a_path_is_no_name() {
        for name in ["a", "uds_stream_poll", "x_profile-a.xml", "a=b", &"a".repeat(100)] {
            assert!(is_name(name), "{name}");
        }
        for name in ["", ".", "..", "../x", "/tmp/x", "a/b", "-p", "a b", "a\n", "a\u{1b}[31m", "ä", &"a".repeat(101)]
        {
            assert!(!is_name(name), "{name}");
        }
    }
}
