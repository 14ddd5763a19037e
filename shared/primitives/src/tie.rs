//! A keyed order of the entries of one value: whoever has the key can sort them, and to anybody else their sequence is
//! random.

use crate::Block;
use crate::prf::Prf;
use std::cmp::Ordering;
use std::fmt;

/// Bytes of a key.
pub const KEY_BYTES: usize = 16;

/// The order of names under a key: that of their images under AES-128. A permutation, so no two names are equal in it.
pub struct TieOrder(Prf);

impl fmt::Debug for TieOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TieOrder(..)")
    }
}

impl TieOrder {
    /// The order of a key, which must be uniform and of one value alone: the same order for two values would show
    /// where one ends and the next begins to whoever learns the key.
    #[must_use]
    pub fn new(key: &[u8; KEY_BYTES]) -> Self {
        Self(Prf::new(key))
    }

    /// The place of a name: places compare as the names do.
    #[must_use]
    pub fn place(&self, name: &Block) -> Block {
        self.0.block(name)
    }

    /// How two names compare.
    #[must_use]
    pub fn compare(&self, one: &Block, other: &Block) -> Ordering {
        self.place(one).cmp(&self.place(other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_order_is_total_and_that_of_its_key() {
        let names: Vec<Block> = (0..64u8).map(|name| [name; 16]).collect();
        let sorted = |key: u8| {
            let order = TieOrder::new(&[key; KEY_BYTES]);
            let mut sorted = names.clone();
            sorted.sort_by(|one, other| order.compare(one, other));
            assert!(sorted.windows(2).all(|two| order.compare(&two[0], &two[1]) == Ordering::Less));
            sorted
        };
        assert_eq!(sorted(1), sorted(1));
        assert_ne!(sorted(1), sorted(2));
        assert_ne!(sorted(1), names);
    }
}
