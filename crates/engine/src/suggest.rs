//! Suggestions for mistyped names.

/// Text ` (did you mean 'x'?)` with the nearest of `names`; empty if none is near.
pub fn did_you_mean<'a>(word: &str, names: impl IntoIterator<Item = &'a str>) -> String {
    let allowed = (word.len() / 3).max(1);
    let nearest = names.into_iter().map(|name| (distance(word, name), name)).min();
    match nearest {
        Some((distance, name)) if distance <= allowed => format!(" (did you mean '{name}'?)"),
        _ => String::new(),
    }
}

/// Number of letters to insert, delete, replace or swap. A prefix of three letters or more has distance 1.
fn distance(a: &str, b: &str) -> usize {
    if a.len() >= 3 && b.starts_with(a) { 1 } else { strsim::osa_distance(a, b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_offered_and_a_far_one_is_not() {
        let names = ["uds", "udp", "iceoryx", "iceoryx2", "shm"];
        assert_eq!(did_you_mean("iceorix", names), " (did you mean 'iceoryx'?)");
        assert_eq!(did_you_mean("usd", names), " (did you mean 'uds'?)");
        assert_eq!(did_you_mean("ice", names), " (did you mean 'iceoryx'?)");
        assert_eq!(did_you_mean("zenoh", names), "");
        assert_eq!(did_you_mean("", []), "");
    }
}
