//! How many entries a range has, about: by the separators and totals that the client holds anyway. Nothing is asked.

use super::ArxRange;
use super::directory::Directory;
use super::secrets::TIE_BYTES;

impl<C> ArxRange<C> {
    /// About how many of the index's `entries` entries have a key from `lower` to `upper`. `None` while that is not
    /// known: the index is being changed, or was not loaded since its last change was left open.
    #[must_use]
    pub fn estimate(&self, lower: &[u8], upper: &[u8], entries: u64) -> Option<u64> {
        let directory = self.directory.try_read().ok()?;
        if !directory.valid {
            return None;
        }
        let end = |value: &[u8], fill: u8| -> Vec<u8> { [value, &[fill; TIE_BYTES]].concat() };
        let weights = Weights { directory: &directory, aggregated: self.parameters().aggregated(), entries };
        let (lower, upper) = (end(lower, 0), end(upper, u8::MAX));
        let between = weights.below(&upper) - weights.below(&lower);
        Some(between.max(0.0).round() as u64)
    }
}

/// What lies between top nodes: as the totals say, or as if they were equally far apart.
struct Weights<'d> {
    directory: &'d Directory,
    aggregated: bool,
    entries: u64,
}

impl Weights<'_> {
    fn of(&self, gap: usize) -> f64 {
        if self.aggregated {
            let gap = self.directory.gap(gap);
            return gap.own.count.saturating_add(gap.total.count) as f64;
        }
        self.entries as f64 / self.directory.gap_count() as f64
    }

    /// Entries below a place.
    fn below(&self, place: &[u8]) -> f64 {
        let gap = self.directory.gap_of(place);
        let before: f64 =
            if self.aggregated { (0..gap).map(|gap| self.of(gap)).sum() } else { gap as f64 * self.of(0) };
        before + self.share_below(gap, place) * self.of(gap)
    }

    /// Part of a gap's entries below a place in it, as if keys were spread evenly from one top node to the next. Where
    /// the index ends on one side, nothing is known: next to nothing below, or nearly all, by whether it is filled up.
    fn share_below(&self, gap: usize, place: &[u8]) -> f64 {
        let separator = |top: usize| self.directory.tops.get(top).map(|top| &*top.separator);
        let (lower, upper) = (gap.checked_sub(1).and_then(separator), separator(gap));
        match (lower, upper) {
            (Some(lower), Some(upper)) => fraction(lower, place, upper),
            _ if place.ends_with(&[u8::MAX; TIE_BYTES]) => 0.75,
            _ => 0.25,
        }
    }
}

/// How far `place` is from `lower` to `upper`, which are byte strings of one length in this order.
fn fraction(lower: &[u8], place: &[u8], upper: &[u8]) -> f64 {
    let common = lower.iter().zip(upper).take_while(|(left, right)| left == right).count();
    let leading = |bytes: &[u8]| {
        let mut leading = [0; 8];
        leading.iter_mut().zip(bytes.iter().skip(common)).for_each(|(to, from)| *to = *from);
        u64::from_be_bytes(leading)
    };
    let (lower, place, upper) = (leading(lower), leading(place), leading(upper));
    let (into, whole) = (place.saturating_sub(lower), upper.saturating_sub(lower));
    (into as f64 / (whole as f64).max(1.0)).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::fraction;

    #[test]
    fn a_place_between_two_is_a_part_of_the_way() {
        assert_eq!(fraction(b"aa00", b"aa00", b"aa99"), 0.0);
        assert_eq!(fraction(&[7, 0, 0], &[7, 64, 0], &[7, 128, 0]), 0.5);
        assert_eq!(fraction(&[7, 0, 0], &[7, 128, 0], &[7, 128, 0]), 1.0);
        assert_eq!(fraction(&[7], &[7], &[7]), 0.0, "no way to go");
    }
}
