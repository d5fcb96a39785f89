//! Scalars and lists of scalars in rosbag2's YAML. It writes each key on its own line; anything else is ignored.

/// Scalar after the first `key:` that begins a line.
pub fn scalar<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    text.lines().find_map(|line| value_of(line, key)).map(plain)
}

/// List of scalars after the first `key:` that begins a line; `None` if there is no such key.
pub fn list<'a>(text: &'a str, key: &str) -> Option<Vec<&'a str>> {
    let mut lines = text.lines().skip_while(|line| value_of(line, key).is_none());
    let inline = plain(value_of(lines.next()?, key)?);
    if let Some(items) = inline.strip_prefix('[').and_then(|items| items.strip_suffix(']')) {
        return Some(items.split(',').map(plain).filter(|item| !item.is_empty()).collect());
    }
    let item = |line: &'a str| line.trim_start().strip_prefix("- ").map(plain);
    Some(lines.filter(|line| !line.trim().is_empty()).map_while(item).collect())
}

fn value_of<'a>(line: &'a str, key: &str) -> Option<&'a str> {
    line.trim_start().strip_prefix(key)?.strip_prefix(':')
}

/// Strips surrounding blanks and quotes.
fn plain(value: &str) -> &str {
    let value = value.trim();
    let within = |quote: char| value.strip_prefix(quote).and_then(|rest| rest.strip_suffix(quote));
    within('"').or_else(|| within('\'')).unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found_as_rosbag2_writes_them() {
        let text = "rosbag2_bagfile_information:\n  version: 9\n  relative_file_paths:\n    - drive_0.mcap\n    - \"a b.mcap\"\n  \
                    compression_format: zstd\n  compression_mode: ''\n  files:\n    - path: drive_0.mcap\n";
        assert_eq!(scalar(text, "compression_format"), Some("zstd"));
        assert_eq!((scalar(text, "compression_mode"), scalar(text, "compression")), (Some(""), None));
        assert_eq!(list(text, "relative_file_paths"), Some(vec!["drive_0.mcap", "a b.mcap"]));
        assert_eq!(list("a: [x, 'y']\nb: 1", "a"), Some(vec!["x", "y"]));
        assert_eq!((list("a: []", "a"), list("a:\n", "a"), list(text, "none")), (Some(vec![]), Some(vec![]), None));
    }
}
