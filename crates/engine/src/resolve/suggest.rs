//! Guessing what a mistyped name meant.

/// ` (did you mean 'x'?)` with the nearest of `names`, or nothing if none is near.
pub fn did_you_mean<'a>(word: &str, names: impl IntoIterator<Item = &'a str>) -> String {
    let allowed = (word.len() / 3).max(1);
    let nearest = names.into_iter().map(|name| (distance(word, name), name)).min();
    match nearest {
        Some((distance, name)) if distance <= allowed => format!(" (did you mean '{name}'?)"),
        _ => String::new(),
    }
}

/// Letters to insert, delete, replace, or swap with their neighbour. A beginning of a name of three letters or more is as
/// near as one letter.
///
/// # Source
/// Optimal string alignment distance.
fn distance(a: &str, b: &str) -> usize {
    if a.len() >= 3 && b.starts_with(a) {
        return 1;
    }
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut rows = vec![(0..=b.len()).collect::<Vec<usize>>()];
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let replaced = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut least = replaced.min(rows[i - 1][j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                least = least.min(rows[i - 2][j - 2] + 1);
            }
            row.push(least);
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
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

    #[test]
    fn distances_are_those_of_the_textbook() {
        assert_eq!((distance("kitten", "sitting"), distance("ab", "ba"), distance("", "xyz")), (3, 1, 3));
    }
}
