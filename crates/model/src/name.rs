//! Names that become parts of paths: one rule for experiment files, flags and manifests.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::sync::OnceLock;

/// Most bytes of a name.
pub const MOST_BYTES: usize = 100;

/// Whether a name may have this byte.
pub fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"_.=-".contains(&byte)
}

/// Whether it is a name: 1 to [`MOST_BYTES`] letters, digits and `_.=-`, without a dot or a dash in front. Never a path.
pub fn is_name(name: &str) -> bool {
    (1..=MOST_BYTES).contains(&name.len()) && name.bytes().all(is_name_byte) && !name.starts_with(['.', '-'])
}

/// Number of the machine since its start, and of the process namespace on it: the first namespace has the same number on
/// every machine. At most 8 hexadecimal digits, the first number in the names of what a run makes.
pub fn process_place() -> u64 {
    static PLACE: OnceLock<u64> = OnceLock::new();
    *PLACE.get_or_init(|| {
        let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
        place_of(&boot, fs::metadata("/proc/self/ns/pid").map_or(0, |namespace| namespace.ino()))
    })
}

/// Of the random UUID of a boot, the first digits.
fn place_of(boot: &str, namespace: u64) -> u64 {
    let random = boot.get(..8).and_then(|digits| u32::from_str_radix(digits, 16).ok()).unwrap_or(0);
    u64::from(random ^ namespace as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_namespace_is_another_one_on_each_machine() {
        let of = |boot: &str| place_of(boot, 0xefff_fffc);
        assert_eq!(of("0123cdef-0000-4000-8000-000000000000\n"), 0xeedc_3213);
        assert_ne!(of("0123cdef-0000-4000-8000-000000000000"), of("0123cdee-0000-4000-8000-000000000000"));
        assert_eq!(of(""), 0xefff_fffc);
        assert_ne!(place_of("0123cdef-", 1), place_of("0123cdef-", 2));
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
