//! Sets of document numbers.

/// Which bits of a word are set, ascending.
fn bits(mut word: u64) -> impl Iterator<Item = u32> {
    std::iter::from_fn(move || {
        let bit = (word != 0).then(|| word.trailing_zeros())?;
        word &= word - 1;
        Some(bit)
    })
}

/// A set of numbers below a bound.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct Bitmap {
    words: Vec<u64>,
}

impl Bitmap {
    pub(crate) fn empty(bound: usize) -> Self {
        Self { words: vec![0; bound.div_ceil(64)] }
    }

    /// Bytes of a set below this bound.
    pub(crate) fn bytes_for(bound: usize) -> usize {
        bound.div_ceil(64) * 8
    }

    pub(crate) fn grow(&mut self, bound: usize) {
        let words = bound.div_ceil(64);
        if words > self.words.len() {
            self.words.resize(words, 0);
        }
    }

    pub(crate) fn insert(&mut self, number: u32) {
        self.enter(number);
    }

    pub(crate) fn remove(&mut self, number: u32) {
        if let Some(word) = self.words.get_mut(number as usize / 64) {
            *word &= !(1 << (number % 64));
        }
    }

    pub(crate) fn has(&self, number: u32) -> bool {
        self.words.get(number as usize / 64).is_some_and(|word| word >> (number % 64) & 1 == 1)
    }

    /// Enters a number; whether it was not there.
    pub(crate) fn enter(&mut self, number: u32) -> bool {
        let Some(word) = self.words.get_mut(number as usize / 64) else { return false };
        let bit = 1 << (number % 64);
        let new = *word & bit == 0;
        *word |= bit;
        new
    }

    pub(crate) fn and(&mut self, other: &Self) {
        for (at, word) in self.words.iter_mut().enumerate() {
            *word &= other.words.get(at).copied().unwrap_or(0);
        }
    }

    pub(crate) fn or(&mut self, other: &Self) {
        self.words.iter_mut().zip(&other.words).for_each(|(word, other)| *word |= other);
    }

    /// All numbers of the words that are not there; those beyond the bound are for the caller to leave out.
    pub(crate) fn complement(&mut self) {
        self.words.iter_mut().for_each(|word| *word = !*word);
    }

    pub(crate) fn count(&self) -> u32 {
        self.words.iter().map(|word| word.count_ones()).sum()
    }

    pub(crate) fn count_common(&self, other: &Self) -> u32 {
        self.words.iter().zip(&other.words).map(|(one, other)| (one & other).count_ones()).sum()
    }

    pub(crate) fn retain(&mut self, keep: impl Fn(u32) -> bool) {
        for (at, word) in self.words.iter_mut().enumerate() {
            *word &=
                !bits(*word).filter(|bit| !keep(at as u32 * 64 + bit)).fold(0, |out, bit| out | 1 << bit);
        }
    }

    /// The numbers, ascending.
    pub(crate) fn numbers(&self) -> impl Iterator<Item = u32> {
        let of = |(at, word): (usize, &u64)| bits(*word).map(move |bit| at as u32 * 64 + bit);
        self.words.iter().enumerate().flat_map(of)
    }

    /// For [`Ranks`]: how many numbers there are before each word.
    pub(crate) fn ranks(self) -> Ranks {
        let mut before = 0;
        let starts = self.words.iter().map(|word| {
            let start = before;
            before += word.count_ones();
            start
        });
        Ranks { starts: starts.collect(), set: self }
    }
}

/// A set that knows at which place a number of it stands.
pub(crate) struct Ranks {
    set: Bitmap,
    starts: Vec<u32>,
}

impl Ranks {
    pub(crate) fn set(&self) -> &Bitmap {
        &self.set
    }

    #[inline]
    pub(crate) fn rank(&self, number: u32) -> Option<usize> {
        let at = number as usize / 64;
        let (word, start) = (*self.set.words.get(at)?, *self.starts.get(at)?);
        let bit = 1_u64 << (number % 64);
        (word & bit != 0).then(|| (start + (word & (bit - 1)).count_ones()) as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn sets_are_sets(one in prop::collection::btree_set(0..300_u32, 0..90), other in prop::collection::btree_set(0..300_u32, 0..90)) {
            let of = |numbers: &BTreeSet<u32>| {
                let mut set = Bitmap::empty(300);
                for number in numbers {
                    prop_assert!(set.enter(*number) && !set.enter(*number) && set.has(*number));
                }
                Ok(set)
            };
            let all = |set: &Bitmap| set.numbers().filter(|number| *number < 300).collect::<BTreeSet<_>>();
            let (first, second) = (of(&one)?, of(&other)?);
            prop_assert_eq!(first.count_common(&second) as usize, one.intersection(&other).count());
            let mut set = first.clone();
            set.and(&second);
            prop_assert_eq!(all(&set), &one & &other);
            let mut set = first.clone();
            set.or(&second);
            prop_assert_eq!(all(&set), &one | &other);
            set.retain(|number| !other.contains(&number));
            prop_assert_eq!(all(&set), &one - &other);
            let mut set = first.clone();
            set.complement();
            prop_assert_eq!(all(&set), &(0..300).collect::<BTreeSet<u32>>() - &one);
            let ranks = first.ranks();
            for number in 0..300 {
                let rank = one.contains(&number).then(|| one.range(..number).count());
                prop_assert_eq!(ranks.rank(number), rank);
            }
        }
    }
}
