//! The specification's random values (TPC-C clauses 2.1.6 and 4.3.2), from a seed.

use crate::seed;
use arras_primitives::prg::Prg;

/// Where a terminal's or the loader's choices come from.
#[derive(Debug)]
pub struct Random {
    prg: Prg,
    /// The constants of NURand, the same for all terminals of a run.
    constants: (i32, i32, i32),
}

/// Syllables of last names.
const SYLLABLES: [&str; 10] =
    ["BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING"];

impl Random {
    /// Of a seed; `run` is the same for all terminals of a run.
    #[must_use]
    pub fn new(seed: u64, run: u64) -> Self {
        let mut common = Self { prg: seed::prg(run, "tpcc constants"), constants: (0, 0, 0) };
        let constants = (common.between(0, 255), common.between(0, 1_023), common.between(0, 8_191));
        Self { prg: seed::prg(seed, "tpcc"), constants }
    }

    /// An integer from `low` to `high`, both included.
    pub fn between(&mut self, low: i32, high: i32) -> i32 {
        let width = u64::try_from(i64::from(high) - i64::from(low) + 1).unwrap_or(1);
        low + i32::try_from(seed::below(&mut self.prg, width)).unwrap_or(0)
    }

    /// True in so many of a hundred cases.
    pub fn percent(&mut self, of_hundred: i32) -> bool {
        self.between(1, 100) <= of_hundred
    }

    /// NURand(A, low, high), over whatever range there is at a smaller scale.
    fn uneven(&mut self, a: i32, constant: i32, (low, high): (i32, i32)) -> i32 {
        let mixed = self.between(0, a) | self.between(low, high);
        (mixed + constant) % (high - low + 1) + low
    }

    /// A customer's number.
    pub fn customer(&mut self, customers: i32) -> i32 {
        self.uneven(1_023, self.constants.1, (1, customers))
    }

    /// An item's number.
    pub fn item(&mut self, items: i32) -> i32 {
        self.uneven(8_191, self.constants.2, (1, items))
    }

    /// A last name as a terminal asks for it; at a smaller scale, one that there is.
    pub fn last_name(&mut self, customers: i32) -> String {
        let number = self.uneven(255, self.constants.0, (0, 999.min(customers - 1)));
        last_name(number)
    }

    /// Letters and digits, from `low` to `high` of them.
    pub fn text(&mut self, low: i32, high: i32) -> String {
        const LETTERS: &[u8; 62] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
        let length = self.between(low, high);
        (0..length).map(|_| char::from(LETTERS[self.below(LETTERS.len())])).collect()
    }

    /// Digits, as many as asked for.
    pub fn digits(&mut self, count: i32) -> String {
        (0..count).map(|_| char::from(b"0123456789"[self.below(10)])).collect()
    }

    /// A zip code.
    pub fn zip(&mut self) -> String {
        self.digits(4) + "11111"
    }

    /// Text with "ORIGINAL" somewhere in one of ten cases.
    pub fn data(&mut self) -> String {
        let mut text = self.text(26, 50);
        if self.percent(10) {
            let at = self.between(0, i32::try_from(text.len()).unwrap_or(26) - 8);
            let at = usize::try_from(at).unwrap_or(0);
            text.replace_range(at..at + 8, "ORIGINAL");
        }
        text
    }

    /// The numbers from 1 to `count` in a random order.
    pub fn permutation(&mut self, count: i32) -> Vec<i32> {
        let mut numbers: Vec<i32> = (1..=count).collect();
        seed::shuffle(&mut self.prg, &mut numbers);
        numbers
    }

    /// A place in a list of so many.
    fn below(&mut self, count: usize) -> usize {
        usize::try_from(seed::below(&mut self.prg, count as u64)).unwrap_or(0)
    }
}

/// The last name of a number below 1,000.
#[must_use]
pub(super) fn last_name(number: i32) -> String {
    [number / 100 % 10, number / 10 % 10, number % 10]
        .iter()
        .filter_map(|digit| SYLLABLES.get(usize::try_from(*digit).ok()?))
        .copied()
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_names_are_those_of_the_specification() {
        assert_eq!(last_name(371), "PRICALLYOUGHT");
        assert_eq!(last_name(40), "BARPRESBAR");
    }

    #[test]
    fn values_are_within_their_ranges_and_repeat_with_their_seed() {
        let (mut one, mut other) = (Random::new(7, 1), Random::new(7, 1));
        for _ in 0..1_000 {
            let item = one.item(200);
            assert!((1..=200).contains(&item));
            assert_eq!(item, other.item(200));
            assert_eq!(one.data(), other.data());
            let data = one.text(3, 5);
            assert!((3..=5).contains(&data.len()));
            other.text(3, 5);
        }
        let mut numbers = one.permutation(50);
        numbers.sort_unstable();
        assert_eq!(numbers, (1..=50).collect::<Vec<_>>());
    }
}
