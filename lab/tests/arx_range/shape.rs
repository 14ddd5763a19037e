//! What the server stores is a function of the set, whatever its history.

use crate::answers::{Entries, any_parameters, entries};
use crate::world::{Client, World, cases, run};
use arras_schemes::arx_range::ArxRangeParameters;
use proptest::prelude::*;
use std::collections::BTreeSet;

/// A set, and two ways to come to it: each a permutation, how it is cut into changes, and entries that come and go.
#[derive(Clone, Debug)]
struct History {
    order: Vec<(u16, u8)>,
    cut: usize,
    passing: Vec<(u16, u8)>,
}

fn histories() -> impl Strategy<Value = (Vec<(u16, u8)>, History, History)> {
    let pair = || (0_u16..200, 0_u8..2);
    proptest::collection::btree_set(pair(), 0..120).prop_flat_map(move |set: BTreeSet<_>| {
        let set: Vec<(u16, u8)> = set.into_iter().collect();
        let history = |set: Vec<(u16, u8)>| {
            let passing = proptest::collection::vec(pair(), 0..60);
            (Just(set).prop_shuffle(), 1_usize..70, passing).prop_map(|(order, cut, passing)| History {
                order,
                cut,
                passing,
            })
        };
        (Just(set.clone()), history(set.clone()), history(set))
    })
}

async fn build(parameters: ArxRangeParameters, set: &[(u16, u8)], history: &History) -> (Client, String) {
    let world = World::new();
    let client = Client::create(&world, parameters).await;
    let change = async |change: Entries| {
        let (insert, remove) = entries(&parameters, &change);
        client.own.change(insert, remove).await.expect("no fault is planned");
    };
    let with_amount = |(key, row): &(u16, u8)| (*key, *row, i32::from(*key));
    let half = history.order.len() / 2;
    for part in history.order[..half].chunks(history.cut) {
        change((part.iter().map(with_amount).collect(), Vec::new())).await;
    }
    let passing: Vec<_> = history.passing.iter().filter(|entry| !set.contains(entry)).copied().collect();
    change((passing.iter().map(with_amount).collect(), Vec::new())).await;
    for part in history.order[half..].chunks(history.cut) {
        change((part.iter().map(with_amount).collect(), Vec::new())).await;
    }
    for part in passing.chunks(history.cut) {
        change((Vec::new(), part.to_vec())).await;
    }
    let shape = world.shape().await;
    // Where entries are added beside their buckets, how long a bucket is depends on when it was last rewritten.
    let adds = parameters.bucket_factor >= 8 && parameters.sums == 0 && !parameters.aggregates;
    let lines = shape.lines().map(|line| if adds && line.starts_with("bucket") { "bucket" } else { line });
    (client, lines.collect::<Vec<&str>>().join("\n"))
}

proptest! {
    #![proptest_config(cases(32))]

    #[test]
    fn the_same_set_has_the_same_shape(
        parameters in any_parameters(),
        (set, first, second) in histories(),
    ) {
        run(async {
            let (_, one) = build(parameters, &set, &first).await;
            let (_, other) = build(parameters, &set, &second).await;
            assert_eq!(one, other);
        });
    }
}
