//! A key of the memtable.

use smallvec::SmallVec;
use std::cmp::Ordering;

/// Keys of this length or less lie within the map: comparing them follows no pointer. Those of entries beside a bucket of
/// a range index have 36.
const INLINE_BYTES: usize = 36;

/// Bytes that are compared at once.
const FIRST_BYTES: usize = 16;

/// A key, in the order of its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) struct Key(SmallVec<[u8; INLINE_BYTES]>);

impl Key {
    pub(in super::super) fn from_slice(bytes: &[u8]) -> Self {
        Self(SmallVec::from_slice(bytes))
    }

    pub(in super::super) fn from_vec(bytes: Vec<u8>) -> Self {
        // `SmallVec` goes by the vector's capacity, which may be larger than what it holds.
        if bytes.len() <= INLINE_BYTES { Self::from_slice(&bytes) } else { Self(SmallVec::from_vec(bytes)) }
    }

    pub(in super::super) fn as_slice(&self) -> &[u8] {
        &self.0
    }
}

impl AsRef<[u8]> for Key {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Ord for Key {
    /// Names are of random bytes: the first of them nearly always tell, without a call.
    fn cmp(&self, other: &Self) -> Ordering {
        let (one, other) = (self.as_slice(), other.as_slice());
        match (one.split_first_chunk::<FIRST_BYTES>(), other.split_first_chunk::<FIRST_BYTES>()) {
            (Some((first, rest)), Some((others_first, others_rest))) => {
                let first = u128::from_be_bytes(*first).cmp(&u128::from_be_bytes(*others_first));
                first.then_with(|| rest.cmp(others_rest))
            }
            _ => one.cmp(other),
        }
    }
}

impl PartialOrd for Key {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bytes() -> impl Strategy<Value = Vec<u8>> {
        // Few different bytes, so that many begin alike; shorter and longer than what lies within and what is compared first.
        proptest::collection::vec(prop_oneof![Just(0_u8), Just(1), Just(255)], 0..50)
    }

    proptest! {
        #[test]
        fn keys_are_in_the_order_of_their_bytes((one, other, common) in (bytes(), bytes(), bytes())) {
            for (one, other) in [(one.clone(), other.clone()), ([&*common, &*one].concat(), [&*common, &*other].concat())] {
                let keys = (Key::from_slice(&one), Key::from_vec(other.clone()));
                prop_assert_eq!(keys.0.cmp(&keys.1), one.cmp(&other));
                prop_assert_eq!(keys.0 == keys.1, one == other);
                prop_assert_eq!((keys.0.as_slice(), keys.1.as_slice()), (&*one, &*other));
            }
        }
    }
}
