//! Lacharité, Minaud, Paterson, *Improved reconstruction attacks on encrypted data using range query leakage*
//! (S&P 2018), §3: dense data from access patterns and ranks.
//!
//! *Has.* Which items each search returned, in the order of their values, as a store in order shows it; that every
//! value of the span occurs. Nothing about the distribution of queries.
//!
//! *Method.* Answers that overlap chain the items. Where an answer begins or ends, one value ends and the next begins;
//! with N - 1 such bounds, the place between bounds is the value. There is no reflection.
//!
//! *Cost.* Of the order of N log N queries. *Deviations.* Ranks are deduced from the answers, not taken from the store:
//! items that no chain joins to the longest one are left out. With fewer bounds than values, values are spread
//! over them evenly: approximate.

use super::lmp_order::spread;
use super::observed::Returned;
use super::span::{Estimates, Span};

/// Estimates the items' values.
#[must_use]
pub fn recover(searches: &[Returned], items: usize, span: Span) -> Estimates {
    let segments = segments(searches, items);
    let mut estimates = vec![None; items];
    for (at, segment) in segments.iter().enumerate() {
        let value = span.value(spread(at, 1, segments.len(), span));
        segment.iter().for_each(|item| estimates[*item as usize] = Some(value));
    }
    estimates
}

/// Items in order, cut where an answer has begun or ended.
#[must_use]
pub fn segments(searches: &[Returned], items: usize) -> Vec<Vec<u32>> {
    let (mut next, mut has_previous) = (vec![None; items], vec![false; items]);
    let (mut seen, mut begins, mut ends) = (vec![false; items], vec![false; items], vec![false; items]);
    for search in searches {
        for two in search.items.windows(2) {
            next[two[0] as usize] = Some(two[1]);
            has_previous[two[1] as usize] = true;
        }
        search.items.iter().for_each(|item| seen[*item as usize] = true);
        if let (Some(first), Some(last)) = (search.items.first(), search.items.last()) {
            begins[*first as usize] = true;
            ends[*last as usize] = true;
        }
    }
    let chain = |first: usize| {
        let mut chain: Vec<u32> = Vec::new();
        let mut at = u32::try_from(first).ok();
        // A store in order has no circle; a false one is cut off.
        while let Some(item) = at
            && chain.len() < items
        {
            chain.push(item);
            at = next[item as usize];
        }
        chain
    };
    let firsts = (0..items).filter(|item| seen[*item] && !has_previous[*item]);
    let longest = firsts.map(chain).max_by_key(Vec::len).unwrap_or_default();
    let mut segments: Vec<Vec<u32>> = Vec::new();
    let mut is_cut = true;
    for item in longest {
        if is_cut || begins[item as usize] {
            segments.push(Vec::new());
        }
        if let Some(segment) = segments.last_mut() {
            segment.push(item);
        }
        is_cut = ends[item as usize];
    }
    segments
}

#[cfg(test)]
mod tests {
    use super::super::Symmetry;
    use super::super::ideal::{Ideal, dense};
    use super::*;

    fn exact(ideal: &Ideal) -> f64 {
        let observed = &ideal.recording.observed;
        let estimates = recover(&observed.searches, observed.items, ideal.span());
        ideal.score(&estimates, Symmetry::None).exact
    }

    #[test]
    fn a_few_times_n_log_n_queries_give_every_value_without_reflection() {
        for (count, times, seed) in [(3, 2, 1), (20, 1, 2), (50, 3, 3), (200, 2, 4)] {
            let n = count as f64;
            let queries = (2.0 * n * n.ln()).ceil() as usize + 20;
            assert_eq!(exact(&Ideal::in_order(dense(count, times, seed), queries, seed)), 1.0, "{count}");
        }
    }

    #[test]
    fn without_the_order_there_is_a_guess() {
        let rate = exact(&Ideal::new(dense(12, 10, 1), 5000, 1).renamed(1));
        assert!(rate < 0.2, "{rate}");
        assert_eq!(segments(&[], 2), Vec::<Vec<u32>>::new());
        let circle = [Returned { volume: 3, items: vec![0, 1, 0] }];
        assert!(segments(&circle, 2).len() <= 2);
    }
}
