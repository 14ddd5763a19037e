use super::super::server::{Fault, Server, run};
use super::*;
use arras_keys::Purpose;
use proptest::prelude::*;

const BLOCK_BYTES: usize = 8;

fn parameters(cached_levels: u8) -> OramParameters {
    OramParameters { cached_levels, stash_blocks: 40, ..OramParameters::of_blocks(BLOCK_BYTES) }
}

fn create(server: &Server, parameters: OramParameters, count: usize, seed: u8) -> Oram<Server> {
    let key = Key::take_from(&mut [3; 32]).child(Purpose::PathOramSeal);
    let mut fill =
        |id: BlockId, block: &mut [u8]| block[..4].copy_from_slice(&initial(id, parameters.block_bytes)[..4]);
    run(Oram::create(
        server.clone(),
        IndexId([1; 8]),
        &key,
        parameters,
        Prg::new(&[seed; 16]),
        count,
        &mut fill,
    ))
    .expect("no fault is planned")
}

fn initial(id: BlockId, block_bytes: usize) -> Vec<u8> {
    let mut content = vec![0; block_bytes];
    content[..4].copy_from_slice(&(id ^ 0x5555).to_le_bytes());
    content
}

#[derive(Clone, Debug)]
enum Step {
    Add(u64),
    Discard(prop::sample::Index),
    Fail(bool),
    Read(Vec<prop::sample::Index>),
    Settle,
    Write(Vec<prop::sample::Index>, u64),
}

fn step() -> impl Strategy<Value = Step> {
    let some = || prop::collection::vec(any::<prop::sample::Index>(), 1..6);
    prop_oneof![
        3 => any::<u64>().prop_map(Step::Add),
        1 => any::<prop::sample::Index>().prop_map(Step::Discard),
        1 => any::<bool>().prop_map(Step::Fail),
        4 => some().prop_map(Step::Read),
        1 => Just(Step::Settle),
        4 => (some(), any::<u64>()).prop_map(|(which, content)| Step::Write(which, content)),
    ]
}

/// Fails the next calls once in a while, then lets them through.
async fn insistently<R>(
    oram: &mut Oram<Server>,
    mut work: impl AsyncFnMut(&mut Oram<Server>) -> Result<R, IndexError>,
) -> R {
    for _ in 0..3 {
        if let Ok(result) = work(oram).await {
            return result;
        }
        oram.channel.state().fault = None;
    }
    panic!("it fails without a fault")
}

fn apply(oram: &mut Oram<Server>, array: &mut Vec<(BlockId, Vec<u8>)>, step: Step) {
    let chosen = |array: &Vec<(BlockId, Vec<u8>)>, which: &[prop::sample::Index]| {
        let mut at: Vec<_> = which.iter().map(|index| index.index(array.len())).collect();
        at.sort_unstable();
        at.dedup();
        at
    };
    match step {
        Step::Add(content) => {
            run(insistently(oram, async |oram| oram.reserve(1).await));
            let content = content.to_le_bytes().to_vec();
            array.push((oram.add(&content), content));
            oram.release();
        }
        Step::Fail(request) => {
            let fault = if request { Fault::LostRequest } else { Fault::LostReply };
            oram.channel.state().fault = Some(fault);
        }
        Step::Settle => run(insistently(oram, async |oram| oram.settle().await)),
        _ if array.is_empty() => {}
        Step::Discard(which) => {
            let (id, _) = array.swap_remove(which.index(array.len()));
            run(insistently(oram, async |oram| oram.fetch(&[id]).await));
            oram.discard(id);
            oram.release();
        }
        Step::Read(which) => {
            let at = chosen(array, &which);
            let ids: Vec<_> = at.iter().map(|at| array[*at].0).collect();
            run(insistently(oram, async |oram| oram.fetch(&ids).await));
            for at in at {
                assert_eq!(oram.block(array[at].0), Some(array[at].1.as_slice()));
            }
            oram.release();
        }
        Step::Write(which, content) => {
            let at = chosen(array, &which);
            let ids: Vec<_> = at.iter().map(|at| array[*at].0).collect();
            run(insistently(oram, async |oram| oram.fetch(&ids).await));
            for at in at {
                array[at].1 = (content ^ at as u64).to_le_bytes().to_vec();
                oram.block_mut(array[at].0).expect("pinned").copy_from_slice(&array[at].1);
            }
            oram.release();
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn it_is_an_array_whatever_gets_lost(
        cached_levels in 0..4_u8,
        count in 0..40_usize,
        seed: u8,
        steps in prop::collection::vec(step(), 1..120),
    ) {
        let server = Server::default();
        let mut oram = create(&server, parameters(cached_levels), count, seed);
        let mut array: Vec<_> = (0..count as BlockId).map(|id| (id, initial(id, BLOCK_BYTES))).collect();
        for step in steps {
            apply(&mut oram, &mut array, step);
            prop_assert_eq!(oram.len(), array.len());
        }
        server.state().fault = None;
        for (id, content) in &array {
            prop_assert_eq!(&run(oram.access(*id, |block| block.to_vec())).expect("no fault"), content);
        }
        prop_assert!(!server.state().inconsistent, "a request without an answer is sent again as it was");
    }
}

/// Sizes of the pool after each of many accesses to a full ORAM, in turn: the worst order (Stefanov et al., §5).
fn pool_sizes(cached_levels: u8, blocks: usize, accesses: usize) -> Vec<usize> {
    let server = Server::default();
    let mut oram = create(&server, parameters(cached_levels), blocks, 7);
    assert_eq!(oram.capacity(), blocks);
    let mut sizes = Vec::with_capacity(accesses);
    for access in 0..blocks + accesses {
        run(oram.access((access % blocks) as BlockId, |_| ())).expect("no fault");
        if access >= blocks {
            run(oram.settle()).expect("no fault");
            sizes.push(oram.pool_len());
        }
    }
    sizes.sort_unstable();
    sizes
}

#[test]
fn the_stash_stays_small() {
    let sizes = pool_sizes(0, 1024, 30_000);
    let quantile = |one_in: usize| sizes[sizes.len() - 1 - sizes.len() / one_in];
    // Measured over 3,000,000 accesses: beyond 1 in one of 100, 4 in one of 1,000, 9 in one of 10,000; the tail loses a
    // factor of ten every 4 blocks.
    assert!(quantile(100) <= 4, "{}", quantile(100));
    assert!(quantile(1_000) <= 10, "{}", quantile(1_000));
    assert!(sizes[sizes.len() - 1] <= 30);
}

#[test]
fn the_pool_holds_about_a_block_for_each_subtree() {
    let sizes = pool_sizes(5, 1024, 10_000);
    let mean = sizes.iter().sum::<usize>() as f64 / sizes.len() as f64;
    assert!((25.0..45.0).contains(&mean), "{mean}");
    assert!(sizes[sizes.len() - 1] <= 32 * 3);
}

#[test]
fn an_overflow_is_an_error_and_loses_nothing() {
    let server = Server::default();
    let mut oram = create(&server, OramParameters { stash_blocks: 3, ..parameters(0) }, 4, 1);
    let ids: Vec<_> = (0..12_u64).map(|content| oram.add(&content.to_le_bytes())).collect();
    oram.release();
    let mut failed = false;
    for _ in 0..30 {
        match run(oram.access(0, |_| ())) {
            Ok(()) => {}
            Err(IndexError::State(why)) => {
                assert!(why.contains("overflow"), "{why}");
                failed = true;
            }
            Err(other) => panic!("{other}"),
        }
    }
    assert!(failed, "12 blocks more than the tree is meant for");
    oram.parameters.stash_blocks = 40;
    for (content, id) in (0_u64..).zip(ids) {
        assert_eq!(run(oram.access(id, |block| block.to_vec())).expect("room"), content.to_le_bytes());
    }
}

/// Chi-squared of counts against equal expectations.
fn chi_squared(values: impl Iterator<Item = u32>, kinds: usize) -> f64 {
    let mut counts = vec![0_u32; kinds];
    values.for_each(|value| counts[value as usize] += 1);
    let expected = f64::from(counts.iter().sum::<u32>()) / kinds as f64;
    counts.iter().map(|count| (f64::from(*count) - expected).powi(2) / expected).sum()
}

/// What a watcher sees of accesses to these blocks: leaves, and pairs of leaves that follow each other.
fn seen(accesses: impl Iterator<Item = BlockId>, remap: bool) -> (f64, f64) {
    const LEAVES: usize = 16;
    let server = Server::default();
    let mut oram = create(&server, parameters(2), 4 * LEAVES, 9);
    for id in accesses {
        if !remap {
            // A broken ORAM: each block goes back to the leaf it came from.
            oram.random = Prg::new(&[1; 16]);
        }
        run(oram.access(id, |_| ())).expect("no fault");
    }
    let leaves: Vec<u32> = server.state().reads.concat();
    let pairs = leaves.windows(2).map(|pair| pair[0] * LEAVES as u32 + pair[1]);
    (chi_squared(leaves.iter().copied(), LEAVES), chi_squared(pairs, LEAVES * LEAVES))
}

#[test]
fn leaves_are_uniform_and_independent_of_what_is_accessed() {
    const ACCESSES: u32 = 20_000;
    let sequences: [&dyn Fn(u32) -> BlockId; 4] =
        [&|_| 5, &|at| at % 64, &|at| at % 2, &|at| (at / 100) % 64];
    for (number, sequence) in sequences.iter().enumerate() {
        // Chi-squared beyond these has a probability below 10^-6 at 15 and 255 degrees of freedom.
        let (leaves, pairs) = seen((0..ACCESSES).map(sequence), true);
        assert!(leaves < 56.5, "sequence {number}: {leaves}");
        assert!(pairs < 374.0, "sequence {number}: {pairs}");
    }
    let (leaves, pairs) = seen((0..ACCESSES).map(|_| 5), false);
    assert!(leaves > 1_000.0 && pairs > 1_000.0, "the test sees a block that stays where it was");
}

#[test]
fn all_accesses_look_alike() {
    let server = Server::default();
    let mut oram = create(&server, parameters(2), 100, 9);
    for id in 0..100 {
        run(oram.access(id % 7, |block| block[0] = id as u8)).expect("no fault");
    }
    let state = server.state();
    assert!(state.sizes[1..].windows(2).all(|pair| pair[0].1 == pair[1].1));
    // The epoch and the leaves are numbers of one to three bytes.
    let sizes = state.sizes[1..].iter().map(|size| size.0);
    assert!(sizes.clone().max().expect("some") - sizes.min().expect("some") <= 4);
    let shape = state.shape.expect("a tree");
    assert!(state.buckets.values().all(|bucket| bucket.len() == shape.bucket_bytes as usize));
    assert_eq!(
        state.buckets.len() as u32,
        shape.end_place() - shape.first_place(),
        "all are there from the start"
    );
}

#[test]
fn lies_are_errors_and_change_nothing() {
    let server = Server::default();
    let mut oram = create(&server, parameters(1), 64, 9);
    let old = server.state().buckets.clone();
    for id in 0..64 {
        run(oram.access(id, |block| block[0] = 77)).expect("no fault");
    }
    let lies: [fn(&mut Vec<u8>, usize); 7] = [
        |reply, _| reply.truncate(reply.len() - 1),
        |reply, _| reply.clear(),
        |reply, _| reply.push(0),
        |reply, bucket| reply.truncate(reply.len() - bucket),
        |reply, bucket| reply[bucket + 3] ^= 1,
        |reply, _| *reply.last_mut().expect("some") ^= 0x80,
        |reply, bucket| {
            let (left, right) = reply.split_at_mut(bucket);
            left.swap_with_slice(&mut right[..bucket]);
        },
    ];
    for lie in lies {
        server.state().lie = Some(Box::new(move |shape, _, reply| lie(reply, shape.bucket_bytes as usize)));
        let result = run(oram.access(3, |_| ()));
        assert!(matches!(result, Err(IndexError::Open(_) | IndexError::Peer(_))), "{result:?}");
        server.state().lie = None;
        assert_eq!(run(oram.access(3, |block| block[0])).expect("an honest reply"), 77);
    }
    // Each bucket of a path in turn as it was at first.
    for level in 0..4 {
        let old = old.clone();
        server.state().lie = Some(Box::new(move |shape, read, reply| {
            let bytes = shape.bucket_bytes as usize;
            if let Some(place) = shape.places(read).get(level) {
                reply[level * bytes..][..bytes].copy_from_slice(&old[place]);
            }
        }));
        let result = run(oram.access(9, |_| ()));
        assert!(matches!(result, Err(IndexError::Open(_))), "level {level}: {result:?}");
        server.state().lie = None;
        assert_eq!(run(oram.access(9, |block| block[0])).expect("an honest reply"), 77);
    }
}

#[test]
fn what_cannot_be_is_refused() {
    let server = Server::default();
    let mut oram = create(&server, parameters(1), 64, 9);
    let calls = server.state().reads.len();
    for ids in [vec![64], vec![1, 1], vec![BlockId::MAX], (0..64).chain(0..10).collect()] {
        assert!(matches!(run(oram.fetch(&ids)), Err(IndexError::Caller(_))));
    }
    assert_eq!(server.state().reads.len(), calls, "nothing was sent");
    let key = Key::take_from(&mut [3; 32]);
    for parameters in [
        OramParameters { block_bytes: 0, ..parameters(1) },
        OramParameters { block_bytes: 1 << 30, ..parameters(1) },
        OramParameters { cached_levels: 60, ..parameters(1) },
    ] {
        let mut fill = |_: BlockId, _: &mut [u8]| {};
        let made =
            Oram::create(server.clone(), IndexId([1; 8]), &key, parameters, Prg::new(&[1; 16]), 0, &mut fill);
        assert!(matches!(run(made), Err(IndexError::Caller(_))));
    }
}
