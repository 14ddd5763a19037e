use super::*;
use proptest::prelude::*;
use std::cmp::Ordering;
use std::collections::HashMap;

fn prg(seed: u8) -> Prg {
    Prg::new(&[seed; 16])
}

/// A name, the value at each time of insertion, and how many others may move an insertion.
type Order = (&'static str, fn(u64) -> u64, usize);

fn number(ciphertext: &[u8]) -> u64 {
    u64::from_be_bytes(ciphertext.try_into().expect("8 bytes"))
}

/// What a server would hold: ciphertexts in order, with the values for checking.
#[derive(Default)]
struct Oracle {
    stored: Vec<(u64, u64)>,
    moved: usize,
}

impl Oracle {
    /// Applies an encryption of `value`: replacements first, then the new ciphertext.
    fn apply(&mut self, value: u64, encrypted: &Encrypted) {
        assert!(encrypted.replaced.is_sorted());
        let mut from = 0;
        for (old, new) in &encrypted.replaced {
            let at = self.stored[from..].binary_search_by_key(&number(old), |pair| pair.0);
            from += at.expect("a stored ciphertext is replaced");
            self.stored[from].0 = number(new);
        }
        self.moved += encrypted.replaced.len();
        if !encrypted.replaced.is_empty() {
            assert!(self.stored.is_sorted_by(|one, two| one.0 < two.0), "order unchanged");
        }
        assert_eq!(encrypted.query, encrypted.stored);
        let ciphertext = number(&encrypted.stored);
        let at = self.stored.partition_point(|pair| pair.0 < ciphertext);
        assert!(at == self.stored.len() || self.stored[at].0 > ciphertext, "a ciphertext of its own");
        assert!(at == self.stored.len() || self.stored[at].1 >= value);
        assert!(at == 0 || self.stored[at - 1].1 <= value);
        self.stored.insert(at, (ciphertext, value));
    }

    /// Every stored ciphertext decrypts, and bounds of `values` lie where they should.
    fn check(&self, scheme: &FhOpe, values: impl Iterator<Item = u64>) {
        assert_eq!(scheme.len(), self.stored.len());
        for (ciphertext, value) in &self.stored {
            assert_eq!(scheme.decrypt(&ciphertext.to_be_bytes()), Ok(*value));
        }
        for value in values {
            let lower = number(&scheme.bound(value, End::Lower, &mut prg(9)).expect("in the domain"));
            let upper = number(&scheme.bound(value, End::Upper, &mut prg(9)).expect("in the domain"));
            for (ciphertext, stored) in &self.stored {
                assert_eq!(lower <= *ciphertext, value <= *stored);
                assert_eq!(upper >= *ciphertext, value >= *stored);
            }
        }
    }
}

fn encrypt_all(values: impl Iterator<Item = u64>) -> (FhOpe, Oracle) {
    let (mut scheme, mut oracle, mut prg) = (FhOpe::new(Width::Bits64), Oracle::default(), prg(1));
    for value in values {
        oracle.apply(value, &scheme.encrypt(value, &mut prg).expect("room"));
    }
    (scheme, oracle)
}

#[test]
fn the_first_value_is_the_root_and_smaller_ones_go_left() {
    let mut scheme = FhOpe::new(Width::Bits32);
    let mut encrypt = |value| number(&scheme.encrypt(value, &mut prg(0)).expect("room").stored);
    assert_eq!(encrypt(6), 1 << 63);
    assert_eq!(encrypt(3), 1 << 62);
    assert_eq!(encrypt(5), 3 << 61);
    assert_eq!(encrypt(u64::from(u32::MAX)), 3 << 62);
    assert_eq!(scheme.encrypt(1 << 32, &mut prg(0)), Err(EncryptFailed::OutsideDomain));
    assert_eq!(scheme.bound(1 << 32, End::Upper, &mut prg(0)), Err(EncryptFailed::OutsideDomain));
}

#[test]
fn sixty_five_in_a_row_move_few_others() {
    for descending in [false, true] {
        let values = (0..65_u64).map(|value| if descending { 1000 - value } else { value });
        let (scheme, oracle) = encrypt_all(values);
        assert!(oracle.moved > 0 && oracle.moved < 200, "{} moved", oracle.moved);
        oracle.check(&scheme, (0..70).chain(930..1005));
    }
}

#[test]
fn a_hundred_thousand_in_a_row_move_few_others_each() {
    let orders: [Order; 4] = [
        ("ascending", |at| at, 12),
        ("descending", |at| 1_000_000 - at, 12),
        ("inwards", |at| if at.is_multiple_of(2) { at } else { 1_000_000 - at }, 12),
        ("all equal", |_| 7, 0),
    ];
    for (order, value, most) in orders {
        let count = 100_000;
        let (mut scheme, mut prg, mut moved) = (FhOpe::new(Width::Bits64), prg(1), 0);
        for at in 0..count {
            moved += scheme.encrypt(value(at), &mut prg).expect("room").replaced.len();
        }
        assert!(moved <= most * count as usize, "{order}: {moved} moved");
        let mut values: Vec<u64> = (0..count).map(value).collect();
        values.sort_unstable();
        assert!(scheme.list.ciphertexts().is_sorted_by(|one, two| one < two));
        let decrypted: Vec<Result<u64, OpenFailed>> =
            scheme.list.ciphertexts().map(|ciphertext| scheme.decrypt(&ciphertext.to_be_bytes())).collect();
        assert!(decrypted.into_iter().eq(values.into_iter().map(Ok)), "{order}");
    }
}

#[test]
fn compaction_holds_equal_plaintexts_once() {
    let (equal, _) = encrypt_all((0..10_000).map(|_| 5));
    let (distinct, _) = encrypt_all((0..10_000).map(|at| at * 7919 % 10_007));
    assert!(equal.state_bytes() * 2 < distinct.state_bytes());
    assert!(equal.to_bytes().len() < 10_000 / 2);
}

#[test]
fn an_unknown_or_forgotten_ciphertext_does_not_decrypt() {
    let (mut scheme, oracle) = encrypt_all([5, 5, 8].into_iter());
    assert_eq!(scheme.decrypt(&12345_u64.to_be_bytes()), Err(OpenFailed));
    assert_eq!(scheme.decrypt(&[0; 8]), Err(OpenFailed));
    assert_eq!(scheme.decrypt(&[255; 8]), Err(OpenFailed));
    assert_eq!(scheme.decrypt(&[0; 7]), Err(OpenFailed));
    let gone = oracle.stored[0].0.to_be_bytes();
    scheme.forget(&gone);
    scheme.forget(&gone);
    scheme.forget(b"short");
    assert_eq!(scheme.decrypt(&gone), Err(OpenFailed));
    assert_eq!(scheme.len(), 2);
}

/// Leakage: ciphertexts, and what is replaced when, are a function of the ranks. Values with duplicates, and
/// distinct ones that come in at the same ranks, give the same transcript whatever the coins were.
#[test]
fn two_databases_of_equal_ranks_have_equal_transcripts() {
    let mut draw = prg(3);
    for spread in [1, 4, 50] {
        let mut scheme = FhOpe::new(Width::Bits32);
        // Runs at one end, so that rebalancing is part of it.
        let first: Vec<u64> = (0..600).map(|at| at / 3 + draw.next_u64() % spread).collect();
        let transcript: Vec<Encrypted> =
            first.iter().map(|value| scheme.encrypt(*value, &mut draw).expect("room")).collect();
        assert!(spread > 4 || transcript.iter().any(|encrypted| !encrypted.replaced.is_empty()));
        // Distinct values of the same ranks: each one's place in the final order.
        let mut order: Vec<usize> = Vec::new();
        let mut now: Vec<(u64, usize)> = Vec::new();
        for (at, encrypted) in transcript.iter().enumerate() {
            let moved: HashMap<u64, u64> =
                encrypted.replaced.iter().map(|(old, new)| (number(old), number(new))).collect();
            now.iter_mut().for_each(|pair| pair.0 = moved.get(&pair.0).copied().unwrap_or(pair.0));
            now.push((number(&encrypted.stored), at));
        }
        now.sort_unstable();
        order.extend(now.iter().map(|pair| pair.1));
        let mut other = FhOpe::new(Width::Bits64);
        for (at, expected) in transcript.iter().enumerate() {
            let place = order.iter().position(|inserted| *inserted == at).expect("every one is in the order");
            let value = place as u64 * 1_000_003 + 17;
            assert_eq!(&other.encrypt(value, &mut prg(at as u8)).expect("room"), expected);
        }
    }
}

/// The paper's algorithm on a tree of pointers, as the reference for where coins lead.
#[derive(Default)]
struct Node {
    value: u64,
    rank_of_insertion: usize,
    children: [Option<Box<Node>>; 2],
}

fn reference_insert(node: &mut Option<Box<Node>>, value: u64, at: usize, prg: &mut Prg) {
    match node {
        None => *node = Some(Box::new(Node { value, rank_of_insertion: at, ..Node::default() })),
        Some(node) => {
            let side = match value.cmp(&node.value) {
                Ordering::Less => 0,
                Ordering::Greater => 1,
                Ordering::Equal => (prg.next_u64() & 1) as usize,
            };
            reference_insert(&mut node.children[side], value, at, prg);
        }
    }
}

fn in_order(node: Option<&Node>, order: &mut Vec<usize>) {
    if let Some(node) = node {
        in_order(node.children[0].as_deref(), order);
        order.push(node.rank_of_insertion);
        in_order(node.children[1].as_deref(), order);
    }
}

#[test]
fn coins_lead_where_the_papers_descent_leads() {
    let values = [5, 3, 5, 7, 4, 5, 6, 5, 3, 5];
    let runs = 40_000;
    let mut counts: HashMap<Vec<usize>, [f64; 2]> = HashMap::new();
    let mut draw = prg(5);
    for _ in 0..runs {
        let mut root = None;
        let mut scheme = FhOpe::new(Width::Bits32);
        let mut ciphertexts = Vec::new();
        for (at, value) in values.iter().enumerate() {
            reference_insert(&mut root, *value, at, &mut draw);
            ciphertexts.push(number(&scheme.encrypt(*value, &mut draw).expect("room").stored));
        }
        let mut reference = Vec::new();
        in_order(root.as_deref(), &mut reference);
        let mut order: Vec<usize> = (0..values.len()).collect();
        order.sort_unstable_by_key(|at| ciphertexts[*at]);
        counts.entry(reference).or_default()[0] += 1.0;
        counts.entry(order).or_default()[1] += 1.0;
    }
    // Two samples, chi-squared: sum of (a - b)^2 / (a + b) over the orders seen often enough.
    let frequent: Vec<&[f64; 2]> = counts.values().filter(|pair| pair[0] + pair[1] >= 20.0).collect();
    let statistic: f64 = frequent.iter().map(|[a, b]| (a - b).powi(2) / (a + b)).sum();
    let freedom = frequent.len() as f64 - 1.0;
    assert!(freedom > 50.0, "coins matter here");
    // Six standard deviations of the statistic; the seed is fixed, so this either holds or does not.
    assert!(statistic < freedom + 6.0 * (2.0 * freedom).sqrt(), "{statistic} at {freedom} degrees");
}

#[test]
fn without_forgetting_a_ciphertext_is_the_middle_of_its_interval() {
    let mut draw = prg(8);
    let mut scheme = FhOpe::new(Width::Bits32);
    let mut stored: Vec<u64> = Vec::new();
    for _ in 0..3000 {
        let encrypted = scheme.encrypt(draw.next_u64() % 500, &mut draw).expect("room");
        assert!(encrypted.replaced.is_empty());
        let ciphertext = number(&encrypted.stored);
        let at = stored.partition_point(|other| *other < ciphertext);
        let before = if at == 0 { 0 } else { u128::from(stored[at - 1]) };
        let behind = stored.get(at).map_or(1 << 64, |behind| u128::from(*behind));
        assert_eq!(u128::from(ciphertext), before + (behind - before).div_ceil(2));
        stored.insert(at, ciphertext);
    }
}

#[test]
fn a_state_with_any_byte_changed_or_cut_off_never_panics_and_never_reads_as_it_was() {
    let (mut scheme, oracle) = encrypt_all([9, 9, 9, 1, 300, 70_000, 2, 2].into_iter());
    scheme.forget(&oracle.stored[3].0.to_be_bytes());
    let bytes = scheme.to_bytes();
    assert_eq!(*FhOpe::from_bytes(&bytes).expect("its own bytes").to_bytes(), *bytes);
    for cut in 0..bytes.len() {
        assert!(FhOpe::from_bytes(&bytes[..cut]).is_err(), "cut at {cut}");
    }
    let mut longer = bytes.to_vec();
    longer.push(0);
    assert!(FhOpe::from_bytes(&longer).is_err());
    for at in 0..bytes.len() {
        for change in 1..=255_u8 {
            let mut changed = bytes.to_vec();
            changed[at] ^= change;
            if let Ok(read) = FhOpe::from_bytes(&changed) {
                assert_eq!(*read.to_bytes(), changed, "one state, one encoding");
            }
        }
    }
    assert!(FhOpe::from_bytes(&[1, 64, 255, 255, 255, 255, 255, 255, 255, 255, 255, 1]).is_err());
}

proptest! {
    #[test]
    fn agrees_with_a_sorted_list(
        steps in prop::collection::vec((0..3_u8, 0..40_u64), 1..400),
        base in prop::sample::select(vec![0, u64::MAX - 40]),
        seed: [u8; 16],
    ) {
        let (mut scheme, mut oracle, mut prg) = (FhOpe::new(Width::Bits64), Oracle::default(), Prg::new(&seed));
        for (kind, value) in steps {
            if kind > 0 || oracle.stored.is_empty() {
                let value = base + value;
                oracle.apply(value, &scheme.encrypt(value, &mut prg).expect("room"));
            } else {
                let (gone, _) = oracle.stored.remove(value as usize % oracle.stored.len());
                scheme.forget(&gone.to_be_bytes());
            }
        }
        let values = || (0..40).map(|value| base + value);
        oracle.check(&scheme, values());
        let bytes = scheme.to_bytes();
        oracle.check(&FhOpe::from_bytes(&bytes).expect("its own bytes"), values());
    }

    /// A value's own neighbourhood, again and again, with forgetting: chunks split, empty and join.
    #[test]
    fn chunks_come_and_go(seed: [u8; 16], kept in 1..600_usize) {
        let (mut scheme, mut oracle, mut prg) = (FhOpe::new(Width::Bits32), Oracle::default(), Prg::new(&seed));
        for at in 0..1500 {
            let value = if at % 3 == 0 { 50 } else { prg.next_u64() % 100 };
            oracle.apply(value, &scheme.encrypt(value, &mut prg).expect("room"));
        }
        while oracle.stored.len() > kept {
            let at = (prg.next_u64() as usize % oracle.stored.len()) / 2;
            scheme.forget(&oracle.stored.remove(at).0.to_be_bytes());
        }
        for at in 0..100 {
            oracle.apply(at, &scheme.encrypt(at, &mut prg).expect("room"));
        }
        oracle.check(&scheme, 0..101);
    }
}
