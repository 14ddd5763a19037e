//! Order-maintenance labels of 64 bits: the encodings.
//!
//! *Beyond the paper*, whose encodings spell a path in a tree of fan-out 4. Here a label stands beside its key in a leaf, and
//! splitting or merging nodes changes none. A new label is the middle of its neighbours'; at either end a fixed step beyond;
//! right after (before) the label inserted last, only 2^-16 of the gap, so that runs find room. Where a gap is used up, the
//! smallest aligned range of 2^i labels with fewer than (2/T)^i keys, T = 1.5, is spread evenly (after Bender, Cole, Demaine,
//! Farach-Colton and Zito, "Two simplified algorithms for maintaining order in a list", ESA 2002). As ranges may be all of the
//! 64 bits, a full one is never an error below about 10^19 keys, but only a spread over more keys.
//!
//! *Leakage.* Labels depend on the ranks of what is inserted (and, in stOPE, deleted), and on nothing else.

use arras_protocol::mope::Label;

/// From one label to the next at either end.
pub(super) const END_STEP: u64 = 1 << 32;

/// The part of a gap, as a shift, that is taken right beside the label inserted last.
const RUN_SHIFT: u32 = 16;

/// (2/T): the greatest number of keys in a range of 2^i labels that is spread grows as its powers.
const DENSITY: f64 = 2.0 / 1.5;

/// Labels of consecutive new keys: `start`, `start + step`, ...
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) start: Label,
    pub(super) step: u64,
}

impl Row {
    /// Of the key of a rank.
    pub(super) fn label(self, rank: u64) -> Label {
        self.start + self.step * rank
    }
}

/// Labels for `keys` new keys, at least one, between two neighbours (none: the key would be the least, or the greatest); none
/// if there is no room. `last` is the label inserted last.
pub(super) fn place(
    below: Option<Label>,
    above: Option<Label>,
    keys: u64,
    last: Option<Label>,
) -> Option<Row> {
    match (below, above) {
        (None, None) => {
            // The middle half, so that both ends have room.
            let step = (1 << 63) / (keys + 1);
            Some(Row { start: (1 << 62) + step, step })
        }
        (Some(below), None) => {
            let beyond = keys.checked_mul(END_STEP).and_then(|length| below.checked_add(length));
            match beyond {
                Some(beyond) if beyond < u64::MAX => Some(Row { start: below + END_STEP, step: END_STEP }),
                _ => between(below, u64::MAX, keys, last),
            }
        }
        (None, Some(above)) => {
            let beyond = keys.checked_mul(END_STEP).and_then(|length| above.checked_sub(length));
            match beyond {
                Some(beyond) if beyond > 0 => Some(Row { start: beyond, step: END_STEP }),
                _ => between(0, above, keys, last),
            }
        }
        (Some(below), Some(above)) => between(below, above, keys, last),
    }
}

/// The same between two labels.
fn between(below: Label, above: Label, keys: u64, last: Option<Label>) -> Option<Row> {
    let gap = above.saturating_sub(below);
    let even = gap / (keys + 1);
    if even == 0 {
        return None;
    }
    let step =
        if last == Some(below) || last == Some(above) { (gap >> RUN_SHIFT).clamp(1, even) } else { even };
    let start = if last == Some(above) { above - step * keys } else { below + step };
    Some(Row { start, step })
}

/// The aligned range of 2^bits labels around a label: its lowest and its highest.
pub(super) fn aligned(label: Label, bits: u32) -> (Label, Label) {
    let rest = u64::MAX.checked_shr(64 - bits).unwrap_or(0);
    (label & !rest, label | rest)
}

/// How `keys` keys of a range of 2^bits labels from `low` are spread, into which `new` more are to come, at most `most` of them
/// between the same two: so that these find room between any two; none if there are too many for a range of this size.
pub(super) fn spread(low: Label, bits: u32, keys: u64, new: u64, most: u64) -> Option<Row> {
    let all = keys.saturating_add(new);
    let few = bits == 64 || (all as f64) < DENSITY.powi(bits as i32);
    // Shares of the range: one before each key and one behind the last.
    let step = ((1_u128 << bits) / (u128::from(keys) + 1)) as u64;
    (few && step > most + 1).then(|| Row { start: low + step, step })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn places_are_those_of_the_rules() {
        let one = |below, above, last| place(below, above, 1, last).map(|row| row.start);
        assert_eq!(one(None, None, None), Some(1 << 63));
        assert_eq!(one(Some(100), None, Some(100)), Some(100 + END_STEP));
        assert_eq!(one(None, Some(1 << 40), None), Some((1 << 40) - END_STEP));
        assert_eq!(one(None, Some(1 << 20), None), Some(1 << 19), "no step fits: the middle");
        assert_eq!(one(Some(100), Some(200), None), Some(150));
        assert_eq!(one(Some(1 << 40), Some(2 << 40), Some(1 << 40)), Some((1 << 40) + (1 << 24)));
        assert_eq!(one(Some(1 << 40), Some(2 << 40), Some(2 << 40)), Some((2 << 40) - (1 << 24)));
        assert_eq!(one(Some(100), Some(102), None), Some(101));
        assert_eq!(one(Some(100), Some(101), None), None);
        assert_eq!(one(None, Some(1), None), None, "0 is never given");
        assert_eq!(one(Some(u64::MAX - 1), None, None), None, "nor is the greatest");
        assert_eq!(aligned(0x1234, 8), (0x1200, 0x12ff));
        assert_eq!(aligned(0x1234, 64), (0, u64::MAX));
        assert_eq!(aligned(0x1234, 0), (0x1234, 0x1234));
    }

    proptest! {
        #[test]
        fn placed_labels_ascend_between_their_neighbours(
            below: Option<u64>, gap: Option<u64>, bits in 0..64_u32, keys in 1_u64..5000, beside in 0..3,
        ) {
            let below = below.map(|below| below.clamp(1, u64::MAX - 1));
            let base = below.unwrap_or(0);
            let above = gap
                .map(|gap| base.saturating_add(gap >> bits).clamp(1, u64::MAX - 1))
                .filter(|above| *above > base);
            let last = match beside { 0 => None, 1 => below, _ => above };
            let least = base;
            let greatest = above.unwrap_or(u64::MAX);
            match place(below, above, keys, last) {
                Some(row) => {
                    prop_assert!(row.step > 0 && row.start > least);
                    let end = u128::from(row.start) + u128::from(row.step) * u128::from(keys - 1);
                    prop_assert!(end < u128::from(greatest));
                }
                None => prop_assert!(greatest - least <= keys, "there is no room indeed"),
            }
        }

        #[test]
        fn a_spread_stays_in_its_range_and_leaves_room(
            label: u64, bits in 1..=64_u32, keys in 1_u64..100_000, new in 1_u64..1000,
        ) {
            let (low, high) = aligned(label, bits);
            if let Some(row) = spread(low, bits, keys, new, new) {
                prop_assert!(row.start - low > new);
                let end = u128::from(row.start) + u128::from(row.step) * u128::from(keys - 1);
                prop_assert!(end + u128::from(new) <= u128::from(high));
                prop_assert!(row.step > new && end < u128::from(u64::MAX));
            } else {
                prop_assert!(bits < 64, "all of the labels have room");
            }
        }
    }
}
