//! More values than there may be ranges: ranges that hold several of them.

use crate::conditions::Values;
use crate::interval::{Edge, Interval};
use crate::physical::PhysicalIndex;
use arras_documents::order;
use bson::Bson;

/// At most `most` intervals that hold all the values, and what lies between values that are close in the index's keys.
pub(super) fn fewer(values: &Values, most: usize, index: &PhysicalIndex) -> Vec<Interval> {
    let most = most.saturating_sub(values.intervals.len()).max(1);
    let mut points: Vec<&Bson> = values.points.iter().collect();
    points.sort_by(|left, right| order::compare(left, right));
    let place = |value: &Bson| {
        let key = index.layout().map(|layout| layout.part(value).bytes).unwrap_or_default();
        let mut leading = [0; 16];
        leading.iter_mut().zip(key).for_each(|(byte, of_key)| *byte = of_key);
        u128::from_be_bytes(leading)
    };
    let places: Vec<u128> = points.iter().map(|value| place(value)).collect();
    // The widest gaps are where one range ends and the next begins.
    let gap = |at: &usize| match (places.get(at.wrapping_sub(1)), places.get(*at)) {
        (Some(before), Some(after)) => after.saturating_sub(*before),
        _ => 0,
    };
    let mut ends: Vec<usize> = (1..points.len()).collect();
    ends.sort_by_key(|at| std::cmp::Reverse(gap(at)));
    ends.truncate(most - 1);
    ends.push(points.len());
    ends.sort_unstable();
    let mut start = 0;
    let mut intervals = values.intervals.clone();
    for end in ends {
        if let (Some(first), Some(last)) = (points.get(start), points.get(end - 1)) {
            let (lower, upper) = (Edge::Included((*first).clone()), Edge::Included((*last).clone()));
            intervals.push(Interval { lower, upper });
        }
        start = end;
    }
    intervals
}
