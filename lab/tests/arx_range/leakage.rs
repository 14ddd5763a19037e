//! The server's view is that of the shape and of ranks: sets of different values and equal shape look alike.

use crate::answers::entries;
use crate::world::{Client, World, entry, parameters, run};
use arras_primitives::prg::Prg;
use arras_protocol::Order;
use arras_protocol::RowId;
use arras_schemes::arx_range::{ArxRange, ArxRangeParameters, Epochs, RangeEntry, Standalone};
use std::collections::HashMap;
use std::sync::Arc;

/// What an attacker sees who watches the whole life of an index, but for bytes that look random.
#[derive(PartialEq, Debug)]
struct View {
    shape: String,
    stored: Vec<(&'static str, usize, usize)>,
    transcript: Vec<(usize, usize)>,
}

/// Builds an index of `keys` and works on it by rank.
async fn watch(parameters: ArxRangeParameters, keys: &[u16]) -> View {
    let world = World::new();
    let client = Client::create(&world, parameters).await;
    let (insert, _) = entries(&parameters, &(keys.iter().map(|key| (*key, 0, 1)).collect(), Vec::new()));
    client.own.change(insert, Vec::new()).await.expect("inserts");
    let shape = world.shape().await;
    world.take_transcript();
    for (low, high) in [(0, 2), (1, 1), (2, 5), (0, 5), (3, 4), (3, 4)] {
        let [low, high] = [keys[low], keys[high]].map(|key| key.to_be_bytes().to_vec());
        let (_, repair) = client.own.index.search(low, high, Order::Ascending, None).await.expect("searches");
        repair.run().await.expect("repairs");
    }
    // What is there already: the bucket is found, nothing is written; then a row beside it, in the same place but
    // for its tie.
    client.own.change(vec![entry(&parameters, keys[2], 0, 1)], Vec::new()).await.expect("inserts");
    let stored = world.stored().into_iter().map(|(table, name, value)| (table, name.len(), value));
    let mut stored: Vec<_> = stored.collect();
    stored.sort();
    View { shape, stored, transcript: world.take_transcript() }
}

#[test]
fn sets_of_one_shape_look_alike() {
    run(async {
        for parameters in [parameters(1, 1, 0), parameters(2, 0, 1), parameters(2, 1024, 0)] {
            let mut seen: HashMap<String, (Vec<u16>, View)> = HashMap::new();
            let mut pairs = 0;
            let mut random = Prg::new(&[5; 16]);
            for _ in 0..400 {
                let mut keys: Vec<u16> = (0..6).map(|_| random.next_u64() as u16).collect();
                keys.sort_unstable();
                // Which buckets the ranks fall in is leakage too: it is in the transcript by the buckets returned,
                // so sets are alike if shape and transcript lengths by shape agree.
                let view = watch(parameters, &keys).await;
                let name = format!("{}{:?}", view.shape, buckets_of(parameters, &keys));
                match seen.get(&name) {
                    Some((other, first)) if *other != keys => {
                        assert_eq!(*first, view, "{other:?} and {keys:?} look different");
                        pairs += 1;
                    }
                    Some(_) => {}
                    None => {
                        seen.insert(name, (keys, view));
                    }
                }
                if pairs >= 20 {
                    break;
                }
            }
            assert!(pairs >= 20, "the test compares something: {pairs}");
        }
    });
}

/// The leakage of the queries: ranks in buckets of the keys they are about. Known here because the test holds the
/// key.
fn buckets_of(parameters: ArxRangeParameters, keys: &[u16]) -> Vec<usize> {
    use arras_keys::Purpose;
    use arras_primitives::prf::Prf;
    let index = crate::world::keys();
    let ties = Prf::new(index.child(Purpose::ArxRangeTie).expose_16());
    let separators = Prf::new(index.child(Purpose::ArxRangeSeparator).expose_16());
    let tie = ties.block(&[0; 16]);
    let mut rank = 0;
    let ranks = keys.iter().map(|key| {
        let place = [&key.to_be_bytes(), &tie[..4]].concat();
        let image = separators.mac(&place);
        let image = u64::from_be_bytes(image[..8].try_into().expect("8 bytes"));
        rank += usize::from(image % parameters.bucket_factor == 0);
        rank
    });
    // A bound at key || 00.. may fall in the bucket before; that is a matter of whether the key's own place is a
    // separator.
    ranks.collect()
}

#[test]
fn no_value_is_ever_stored_or_sent_in_the_clear() {
    run(async {
        let canary = *b"CANARY-VALUE";
        let parameters =
            ArxRangeParameters { key_bytes: 12, bucket_factor: 2, top_nodes: 2, sums: 0, aggregates: true };
        let world = World::new();
        let index_keys = crate::world::keys();
        let steps =
            ArxRange::<World>::create(crate::world::INDEX, &index_keys, parameters, &mut Prg::new(&[9; 16]));
        let operation = arras_protocol::OperationId { epoch: 0, sequence: 0 };
        let request = arras_protocol::write::Request {
            operation: Some(operation),
            finished_below: operation,
            acknowledged: 0,
            steps,
        };
        arras_protocol::Channel::<arras_protocol::write::Write>::call(&*world, request)
            .await
            .expect("creates");
        let epochs = Arc::new(Epochs::new(1));
        let mut random = Prg::new(&[8; 16]);
        let opened = ArxRange::open(
            Arc::clone(&world),
            crate::world::INDEX,
            &index_keys,
            parameters,
            epochs,
            &mut random,
        );
        let own = Standalone::new(opened.await.expect("opens"), Arc::clone(&world), 1);
        for row in 0..40 {
            let mut key = canary.to_vec();
            key[11] = row;
            let entry = RangeEntry { value: key, row: RowId([row; 16]), sums: Vec::new() };
            own.change(vec![entry], Vec::new()).await.expect("inserts");
        }
        let mut high = canary.to_vec();
        high[11] = 30;
        let (_, repair) =
            own.index.search(canary.to_vec(), high, Order::Ascending, None).await.expect("searches");
        repair.run().await.expect("repairs");
        let everything = [world.everything_stored(), world.everything_sent()].concat();
        assert!(everything.len() > 100_000, "the test looks at something");
        assert!(!everything.windows(6).any(|window| window == &canary[..6]));
        for row in 1..40_u8 {
            assert!(!everything.windows(16).any(|window| window == [row; 16]), "row ids are sealed too");
        }
    });
}
