//! Order-maintenance labels of 64 bits: the encodings.
//!
//! *Beyond the paper*, whose encodings spell a path in a tree of fan-out 4. Here a label stands beside its key in a leaf, and
//! splitting or merging nodes changes none. A new label is the middle of its neighbours'. In a run of values, each right after
//! (before) the one inserted last, it soon takes only 2^-16 of the gap, so that runs find room. Beyond either end a value takes
//! a sixteenth of what is left there, in a run soon 2^-16, and a fixed step once a quarter of all labels is left: then 2^29
//! more find room there.
//!
//! *Spreads.* Where a gap is used up, the smallest aligned range of 2^i labels with fewer than (2/T)^i keys, T = 1.5, is spread
//! evenly (after Bender, Cole, Demaine, Farach-Colton and Zito, "Two simplified algorithms for maintaining order in a list", ESA
//! 2002), if that moves at most [`MOVED_MAX`] labels. Where it would move more, a smaller range is spread though it is denser, T =
//! 1.2, and the wide one in pieces by later changes ([`super::sweep`]). As ranges may be all of the 64 bits, a full one is never
//! an error below about 10^19 keys, but only a spread over more keys.
//!
//! *Leakage.* Labels depend on the ranks of what is inserted (and, in stOPE, deleted), and on nothing else.

use arras_protocol::mope::Label;

/// From one label to the next at either end, once no more than [`END_ROOM`] are left beyond it.
pub(super) const END_STEP: u64 = 1 << 32;

/// See [`END_STEP`].
const END_ROOM: u64 = 1 << 61;

/// The part of the labels left at an end that a value takes there, as a shift.
const END_SHIFT: u32 = 4;

/// The part of a gap, as a shift, that is taken right beside the label inserted last in a long run. A run of two may be
/// chance, and takes half: each value more, the 16th part of that.
const RUN_SHIFT: u32 = 16;

/// From one to the next of several new keys beside each other, at least: so that there is time to make room between them.
pub(super) const STEP_MIN: u64 = 8;

/// The same of a run, as long as its gap has room for that. It would else fill, to the last label, ranges that are full by the
/// rule long before.
const RUN_STEP_MIN: u64 = 1024;

/// Labels of earlier keys that one change rewrites, at most.
pub(super) const MOVED_MAX: usize = 4096;

/// (2/T): the greatest number of keys in a range of 2^i labels that is spread grows as its powers.
const DENSITY: f64 = 2.0 / 1.5;

/// The same where a range of that density has too many keys for one change: one of [`MOVED_MAX`] keys has sixteen labels to
/// a key then.
const DENSITY_CLOSE: f64 = 2.0 / 1.2;

/// The label inserted last, and how many were inserted before it in a row, each right beside the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Last {
    pub(super) label: Label,
    pub(super) run: u64,
}

impl Last {
    /// How long the run is that goes on between two neighbours; none if it does not.
    pub(super) fn run_at(last: Option<Self>, below: Option<Label>, above: Option<Label>) -> Option<u64> {
        last.filter(|last| below == Some(last.label) || above == Some(last.label)).map(|last| last.run)
    }
}

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
/// if there is no room.
pub(super) fn place(
    below: Option<Label>,
    above: Option<Label>,
    keys: u64,
    last: Option<Last>,
) -> Option<Row> {
    let run = Last::run_at(last, below, above);
    match (below, above) {
        (None, None) => {
            // The middle half, so that both ends have room.
            let step = (1 << 63) / (keys + 1);
            Some(Row { start: (1 << 62) + step, step })
        }
        (Some(below), None) => {
            let step = end_step(u64::MAX - below, keys, run);
            let beyond = keys.checked_mul(step).and_then(|length| below.checked_add(length));
            match beyond {
                Some(beyond) if beyond < u64::MAX => Some(Row { start: below + step, step }),
                _ => between((below, u64::MAX), keys, last),
            }
        }
        (None, Some(above)) => {
            let step = end_step(above, keys, run);
            let beyond = keys.checked_mul(step).and_then(|length| above.checked_sub(length));
            match beyond {
                Some(beyond) if beyond > 0 => Some(Row { start: beyond, step }),
                _ => between((0, above), keys, last),
            }
        }
        (Some(below), Some(above)) => between((below, above), keys, last),
    }
}

/// From one to the next of new keys at an end beyond which so many labels are left.
fn end_step(left: u64, keys: u64, run: Option<u64>) -> u64 {
    if left <= END_ROOM {
        return END_STEP;
    }
    let most = (left >> END_SHIFT) / keys;
    run.map_or(most, |run| (left >> run_shift(run)).min(most)).max(END_STEP)
}

/// Of a run so long.
fn run_shift(run: u64) -> u32 {
    run.min(u64::from(RUN_SHIFT / 4)) as u32 * 4
}

/// The same between two labels.
fn between((below, above): (Label, Label), keys: u64, last: Option<Last>) -> Option<Row> {
    let gap = above.saturating_sub(below);
    let even = gap / (keys + 1);
    if even < if keys > 1 { STEP_MIN } else { 1 } {
        return None;
    }
    let run = Last::run_at(last, Some(below), Some(above));
    let step = run.map_or(even, |run| (gap >> run_shift(run)).max(RUN_STEP_MIN).min(even));
    let downwards = last.is_some_and(|last| last.label == above);
    let start = if downwards { above - step * keys } else { below + step };
    Some(Row { start, step })
}

/// The aligned range of 2^bits labels around a label: its lowest and its highest.
pub(super) fn aligned(label: Label, bits: u32) -> (Label, Label) {
    let rest = u64::MAX.checked_shr(64 - bits).unwrap_or(0);
    (label & !rest, label | rest)
}

/// How dense a range may be that is spread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Density {
    /// The rule's: it is long until there is no room again.
    Rule,
    /// The laxer one, for the time until a wider range is spread.
    Close,
    /// Any at which there is room.
    Any,
}

/// What is to come into a range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Demand {
    /// New keys in all.
    pub(super) all: u64,
    /// Labels that those that come between the same two need, at most.
    pub(super) most: u64,
}

impl Demand {
    /// So many new keys between the same two.
    pub(super) fn of(keys: u64) -> Self {
        let most = if keys > 1 { keys.saturating_add(1).saturating_mul(STEP_MIN) } else { keys };
        Self { all: keys, most }
    }

    /// Both.
    pub(super) fn and(self, other: Self) -> Self {
        Self { all: self.all.saturating_add(other.all), most: self.most.max(other.most) }
    }
}

impl Density {
    /// True if a range of 2^bits labels may have so many keys.
    pub(super) fn allows(self, bits: u32, keys: u64) -> bool {
        match self {
            Self::Rule => bits == u64::BITS || (keys as f64) < DENSITY.powi(bits as i32),
            Self::Close => (keys as f64) < DENSITY_CLOSE.powi(bits as i32),
            Self::Any => true,
        }
    }
}

/// How `keys` keys of a range of 2^bits labels from `low` are spread, into which others are to come: so that these find room
/// between any two; none if there are too many for a range of this size.
pub(super) fn spread(low: Label, bits: u32, keys: u64, demand: Demand, density: Density) -> Option<Row> {
    // Shares of the range: one before each key and one behind the last.
    let step = ((1_u128 << bits) / (u128::from(keys) + 1)) as u64;
    let few = density.allows(bits, keys.saturating_add(demand.all));
    (few && step > demand.most.saturating_add(1)).then(|| Row { start: low + step, step })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn places_are_those_of_the_rules() {
        let after = |last: Option<Label>, run| {
            move |below, above| {
                let last = last.map(|label| Last { label, run });
                place(below, above, 1, last).map(|row| row.start)
            }
        };
        let one = |below, above, last| after(last, 9)(below, above);
        assert_eq!(one(None, None, None), Some(1 << 63));
        let (low, high) = (1 << 40, u64::MAX - (1 << 40));
        assert_eq!(one(Some(high), None, Some(high)), Some(high + END_STEP));
        assert_eq!(one(None, Some(low), None), Some(low - END_STEP));
        assert_eq!(one(Some(low), None, None), Some(low + ((u64::MAX - low) >> 4)), "much is left");
        assert_eq!(one(Some(low), None, Some(low)), Some(low + ((u64::MAX - low) >> 16)), "in a long run");
        assert_eq!(after(Some(low), 0)(Some(low), None), Some(low + ((u64::MAX - low) >> 4)), "in none");
        assert_eq!(one(None, Some(1 << 20), None), Some(1 << 19), "no step fits: the middle");
        assert_eq!(one(Some(100), Some(200), None), Some(150));
        assert_eq!(one(Some(1 << 40), Some(2 << 40), Some(1 << 40)), Some((1 << 40) + (1 << 24)));
        assert_eq!(one(Some(1 << 40), Some(2 << 40), Some(2 << 40)), Some((2 << 40) - (1 << 24)));
        for (run, shift) in [(0, 1), (1, 4), (2, 8), (3, 12), (4, 16), (u64::MAX, 16)] {
            assert_eq!(
                after(Some(1 << 40), run)(Some(1 << 40), Some(2 << 40)),
                Some((1 << 40) + (1 << (40 - shift)))
            );
        }
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
            below: Option<u64>, gap: Option<u64>, bits in 0..64_u32, keys in 1_u64..5000, beside in 0..3, run in 0..6_u64,
        ) {
            let below = below.map(|below| below.clamp(1, u64::MAX - 1));
            let base = below.unwrap_or(0);
            let above = gap
                .map(|gap| base.saturating_add(gap >> bits).clamp(1, u64::MAX - 1))
                .filter(|above| *above > base);
            let last = match beside { 0 => None, 1 => below, _ => above }.map(|label| Last { label, run });
            let least = base;
            let greatest = above.unwrap_or(u64::MAX);
            match place(below, above, keys, last) {
                Some(row) => {
                    prop_assert!(row.step > 0 && row.start > least);
                    let end = u128::from(row.start) + u128::from(row.step) * u128::from(keys - 1);
                    prop_assert!(end < u128::from(greatest));
                }
                None => {
                    let each = if keys > 1 { STEP_MIN } else { 1 };
                    prop_assert!((greatest - least) / (keys + 1) < each, "there is no room indeed");
                }
            }
        }

        #[test]
        fn a_spread_stays_in_its_range_and_leaves_room(
            label: u64, bits in 1..=64_u32, keys in 1_u64..100_000, new in 1_u64..1000,
        ) {
            let (low, high) = aligned(label, bits);
            if let Some(row) = spread(low, bits, keys, Demand::of(new), Density::Rule) {
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
