//! Groups in the order of their first items.

/// Items with the same key.
pub fn by_key<K: PartialEq, V>(items: impl IntoIterator<Item = (K, V)>) -> Vec<(K, Vec<V>)> {
    let mut groups: Vec<(K, Vec<V>)> = Vec::new();
    for (key, value) in items {
        match groups.iter_mut().find(|(known, _)| *known == key) {
            Some((_, values)) => values.push(value),
            None => groups.push((key, vec![value])),
        }
    }
    groups
}

/// Items that are like the first of their group.
pub fn alike<T>(items: impl IntoIterator<Item = T>, are_alike: impl Fn(&T, &T) -> bool) -> Vec<Vec<T>> {
    let mut groups: Vec<Vec<T>> = Vec::new();
    for item in items {
        match groups.iter_mut().find(|group| are_alike(&group[0], &item)) {
            Some(group) => group.push(item),
            None => groups.push(vec![item]),
        }
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_and_their_items_keep_their_order() {
        let items = [("b", 1), ("a", 2), ("b", 3), ("a", 4), ("c", 5)];
        assert_eq!(by_key(items), [("b", vec![1, 3]), ("a", vec![2, 4]), ("c", vec![5])]);
        let is_same_letter = |one: &(&str, i32), other: &(&str, i32)| one.0 == other.0;
        assert_eq!(alike(items, is_same_letter), [vec![("b", 1), ("b", 3)], vec![("a", 2), ("a", 4)], vec![("c", 5)]]);
    }
}
