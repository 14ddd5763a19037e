//! Encodings of earlier values that an insertion rewrites, in our tree and in the paper's own; and how many one change does.

use super::{Keeper, Lines, MopeBench, MopeError, Order, key, one_by_one, open, tens};
use arras_schemes::mope::Form;
use arras_schemes::mope::path_encoded::PathTree;

/// The mean over so many values.
fn mean(rewritten: &[u64], values: usize) -> f64 {
    rewritten.iter().sum::<u64>() as f64 / values as f64
}

/// Figure 12.
pub(super) async fn measure(bench: &MopeBench, lines: &mut Lines<'_>) -> Result<(), MopeError> {
    for count in tens(1000, bench.values) {
        for order in [Order::Random, Order::Sequential] {
            let values = order.values(count, 8, bench.seed);
            let keeper = Keeper::default();
            one_by_one(&open(keeper.clone(), 8, false)?, &values).await?;
            let rewritten = mean(&keeper.rewritten(), count);
            lines.add(format!("our tree, {}, mean", order.name()), count, rewritten, "a value", "2 to 4");
        }
    }
    for count in tens(1000, bench.values) {
        let mut random = 0.0;
        for order in [Order::Random, Order::Sequential] {
            let keeper = Keeper::default();
            let tree = PathTree::open(keeper.clone(), &key(), Form::Fixed(8))?;
            for value in order.values(count, 8, bench.seed) {
                tree.encode(&value).await?;
            }
            let rewritten = keeper.rewritten();
            let name = |what: &str| format!("a 4-way tree of paths, {}, {what}", order.name());
            // Insertions that rewrite none are not among the changes.
            let none = count - rewritten.len();
            let at = |place: usize| {
                place.checked_sub(none).map_or(0, |at| rewritten.get(at).copied().unwrap_or(0))
            };
            let mean = mean(&rewritten, count);
            let paper = if order == Order::Random { "2 to 4" } else { "fewer than at random" };
            lines.add(name("mean"), count, mean, "a value", paper);
            for (what, part) in
                [("half of them at most", count / 2), ("99 % of them at most", count / 100 * 99)]
            {
                lines.add(name(what), count, at(part) as f64, "a value", "");
            }
            match order {
                Order::Random => random = mean,
                Order::Sequential => {
                    let what = "a 4-way tree of paths, sequential beside random";
                    lines.add(what, count, mean / random, "times", "less than 1");
                }
            }
        }
    }
    pauses(bench, lines).await
}

/// What one change comes to, by orders of insertion that need some.
async fn pauses(bench: &MopeBench, lines: &mut Lines<'_>) -> Result<(), MopeError> {
    let count = bench.values;
    let to_bytes = |values: Vec<u64>| values.into_iter().map(|value| value.to_be_bytes().to_vec()).collect();
    let runs = |values: Vec<Vec<u8>>| -> Vec<Vec<u8>> {
        let starts = values.into_iter().filter_map(|value| value.try_into().ok().map(u64::from_be_bytes));
        to_bytes(starts.flat_map(|from| (0..1000).map(move |at| (from >> 1) + at)).collect())
    };
    let medians = (0..count as u64 / 2).flat_map(|at| [at, u64::MAX - at]).collect();
    let orders = [
        ("random", Order::Random.values(count, 8, bench.seed)),
        ("runs of 1,000 at random places", runs(Order::Random.values(count.div_ceil(1000), 8, bench.seed))),
        ("every value the median", to_bytes(medians)),
    ];
    for (name, values) in orders {
        let keeper = Keeper::default();
        one_by_one(&open(keeper.clone(), 8, false)?, &values).await?;
        let rewritten = keeper.rewritten();
        let part =
            |of: usize| rewritten.get(rewritten.len() * of / 100).or(rewritten.last()).copied().unwrap_or(0);
        lines.add(
            format!("{name}: labels rewritten"),
            values.len(),
            mean(&rewritten, values.len()),
            "a value",
            "",
        );
        lines.add(format!("{name}: changes of labels"), values.len(), rewritten.len() as f64, "", "");
        for (what, of) in [("half of them", 50), ("99 % of them", 99), ("all of them", 100)] {
            lines.add(format!("{name}: {what} of at most"), values.len(), part(of) as f64, "labels", "");
        }
    }
    Ok(())
}
