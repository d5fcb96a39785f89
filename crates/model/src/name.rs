//! Names that become parts of paths: one rule for experiment files, flags and manifests.

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

#[cfg(test)]
mod tests {
    use super::*;

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
