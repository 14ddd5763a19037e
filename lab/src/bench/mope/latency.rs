//! Values a second over a network of a given round trip, by one caller and by many at the same time.

use super::{Keeper, Lines, MopeBench, MopeError, Order, open};
use arras_schemes::IndexError;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

/// Milliseconds there and back.
const ROUND_TRIPS: [u64; 5] = [0, 1, 5, 20, 50];
/// Values of the tree before, and for one caller at most.
const BEFORE: usize = 10_000;
/// How long one caller goes on.
const TIME: Duration = Duration::from_millis(400);

/// Figure 11.
pub(super) async fn measure(bench: &MopeBench, lines: &mut Lines<'_>) -> Result<(), MopeError> {
    let before = BEFORE.min(bench.values);
    for round_trip in ROUND_TRIPS {
        let near = Keeper::default();
        let tree = open(near.clone(), 8, false)?;
        tree.encode(&Order::Random.values(before, 8, bench.seed)).await?;
        let tree = Arc::new(open(near.at(Duration::from_millis(round_trip)), 8, false)?);
        let mut values = Order::Random.values(before + bench.callers * 2, 8, bench.seed + 1);
        let of_many = values.split_off(before);
        let (start, mut count) = (Instant::now(), 0);
        for value in values {
            if start.elapsed() >= TIME {
                break;
            }
            tree.encode(&[value]).await?;
            count += 1;
        }
        let at = format!("{round_trip} ms");
        let one = f64::from(count) / start.elapsed().as_secs_f64();
        lines.add("one caller", &at, one, "values/s", "falls with it");
        let rate = many(&tree, of_many, bench.callers).await?;
        lines.add(format!("{} callers at once", bench.callers), &at, rate, "values/s", "stays high");
    }
    Ok(())
}

/// Many callers, each with a value after the other.
async fn many(
    tree: &Arc<arras_schemes::mope::Tree<Keeper>>,
    values: Vec<Vec<u8>>,
    callers: usize,
) -> Result<f64, MopeError> {
    let count = values.len();
    let start = Instant::now();
    let mut running = JoinSet::new();
    for own in values.chunks(count.div_ceil(callers.max(1)).max(1)) {
        let (own, tree) = (own.to_vec(), Arc::clone(tree));
        running.spawn(async move {
            for value in own {
                tree.encode(&[value]).await?;
            }
            Ok::<(), IndexError>(())
        });
    }
    while let Some(done) = running.join_next().await {
        done.map_err(std::io::Error::other)??;
    }
    Ok(count as f64 / start.elapsed().as_secs_f64())
}
