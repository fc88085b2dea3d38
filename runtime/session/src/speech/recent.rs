//! Values that were used last, within a number and a size.

/// Values by their keys; those that were not used for the longest time go first.
#[derive(Debug)]
pub(crate) struct Recent<K, V> {
    most: usize,
    most_bytes: u64,
    /// The value that was used last is the last one.
    values: Vec<(K, u64, V)>,
}

impl<K: PartialEq, V: Clone> Recent<K, V> {
    /// At most `most` values of at most `most_bytes` bytes together.
    pub(crate) fn new(most: usize, most_bytes: u64) -> Self {
        Self { most, most_bytes, values: Vec::new() }
    }

    /// Returns a value.
    pub(crate) fn get(&mut self, key: &K) -> Option<V> {
        let index = self.values.iter().position(|(own, ..)| own == key)?;
        let found = self.values.remove(index);
        let value = found.2.clone();
        self.values.push(found);
        Some(value)
    }

    /// Puts a value in; one that is too large by itself is not taken.
    pub(crate) fn put(&mut self, key: K, bytes: u64, value: V) {
        self.values.retain(|(own, ..)| *own != key);
        if bytes > self.most_bytes || self.most == 0 {
            return;
        }
        let room = self.most_bytes - bytes;
        while self.values.len() >= self.most
            || self.values.iter().map(|(_, bytes, _)| bytes).sum::<u64>() > room
        {
            self.values.remove(0);
        }
        self.values.push((key, bytes, value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(recent: &Recent<char, u32>) -> Vec<char> {
        recent.values.iter().map(|(key, ..)| *key).collect()
    }

    #[test]
    fn what_was_not_used_for_the_longest_time_goes_first() {
        let mut recent = Recent::new(2, 100);
        recent.put('a', 10, 1);
        recent.put('b', 10, 2);
        assert_eq!(recent.get(&'a'), Some(1));
        recent.put('c', 10, 3);
        assert_eq!(
            (recent.get(&'b'), recent.get(&'a'), held(&recent)),
            (None, Some(1), vec!['c', 'a'])
        );
        recent.put('c', 10, 4);
        assert_eq!((recent.get(&'c'), held(&recent)), (Some(4), vec!['a', 'c']));
    }

    #[test]
    fn values_are_bounded_by_their_bytes_too() {
        let mut recent = Recent::new(9, 100);
        recent.put('a', 40, 1);
        recent.put('b', 40, 2);
        recent.put('c', 60, 3);
        assert_eq!(held(&recent), ['b', 'c']);
        recent.put('d', 101, 4);
        assert_eq!(held(&recent), ['b', 'c'], "it would take the room of all others");
        recent.put('d', 100, 4);
        assert_eq!(held(&recent), ['d']);
    }
}
