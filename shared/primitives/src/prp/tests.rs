use super::*;
use proptest::prelude::*;

/// The 24 permutations of 4 elements by number, and how far counts are from uniform (chi-squared, 23 degrees of
/// freedom).
fn statistic(counts: &[f64]) -> f64 {
    let expected = counts.iter().sum::<f64>() / counts.len() as f64;
    counts.iter().map(|seen| (seen - expected).powi(2) / expected).sum()
}

/// 23 degrees of freedom: exceeded with a chance of 10^-6.
const LIMIT_23: f64 = 70.6;

fn number(permutation: [usize; 4]) -> usize {
    let rank = |at: usize| permutation[at + 1..].iter().filter(|other| **other < permutation[at]).count();
    rank(0) * 6 + rank(1) * 2 + rank(2)
}

/// A shuffle of few elements by choices from uniform words.
fn shuffled<const N: usize>(words: &[[u8; 4]; N]) -> [u8; N] {
    let (mut choices, mut table) = ([0; CHOICES_MAX], [0; CHOICES_MAX]);
    choices_from(words, &mut choices[..N], |_, _| 12345);
    shuffle(&choices, N, &mut table);
    std::array::from_fn(|place| table[place])
}

#[test]
fn shuffles_of_four_elements_are_uniform() {
    let mut prg = Prg::new(&[1; 16]);
    let (mut counts, mut worse) = ([0.0; 24], [0.0; 24]);
    for _ in 0..240_000 {
        let mut drawn = [[0; 4]; 4];
        prg.fill(drawn.as_flattened_mut());
        counts[number(shuffled(&drawn).map(usize::from))] += 1.0;
        // The usual mistake: any place may be chosen, not only those so far.
        let mut table = [0_usize, 1, 2, 3];
        (0..4).for_each(|place| table.swap(place, usize::from(drawn[place][0] % 4)));
        worse[number(table)] += 1.0;
    }
    assert!(statistic(&counts) < LIMIT_23, "{counts:?}");
    assert!(statistic(&worse) > LIMIT_23, "{worse:?}");
}

#[test]
fn tables_of_four_elements_are_uniform() {
    let mut prg = Prg::new(&[2; 16]);
    let mut counts = [0.0; 24];
    for _ in 0..240_000 {
        let table = TablePermutation::new(4, &mut prg);
        counts[number([0, 1, 2, 3].map(|element| table.image(element).expect("inside")))] += 1.0;
    }
    assert!(statistic(&counts) < LIMIT_23, "{counts:?}");
}

#[test]
fn feistel_networks_of_four_elements_are_near_uniform() {
    let mut prg = Prg::new(&[3; 16]);
    let mut counts = [0.0; 24];
    for _ in 0..24_000 {
        let mut material = [0; 16];
        prg.fill(&mut material);
        let network = FeistelPermutation::new(&material, 4).expect("not empty");
        counts[number([0, 1, 2, 3].map(|element| network.image(element).expect("inside") as usize))] += 1.0;
    }
    assert!(statistic(&counts) < LIMIT_23, "{counts:?}");
}

#[test]
fn feistel_images_of_one_element_are_uniform() {
    let mut prg = Prg::new(&[4; 16]);
    let mut counts = [0.0; 24];
    for _ in 0..48_000 {
        let mut material = [0; 16];
        prg.fill(&mut material);
        // 24 of 32: cycles are walked.
        counts[FeistelPermutation::new(&material, 24).and_then(|network| network.image(7)).expect("inside")
            as usize] += 1.0;
    }
    assert!(statistic(&counts) < LIMIT_23, "{counts:?}");
}

#[test]
fn unfair_words_are_drawn_again() {
    // 2^32 mod 3 = 1: of the products of 3, the one with a low word of 0 is unfair; 2^32 mod 2 = 0: none is.
    let mut asked = Vec::new();
    let mut choices = [9; 3];
    choices_from(&[[0; 4]; 3], &mut choices, |place, tries| {
        asked.push((place, tries));
        if tries < 3 { 0 } else { u32::MAX }
    });
    assert_eq!(choices, [0, 0, 2]);
    assert_eq!(asked, [(2, 1), (2, 2), (2, 3)]);
    // 2^32 mod 7 = 4: what is left of the word's range is divided evenly.
    let mut fair = [0; 7];
    for start in [0_u64, 1 << 31, (1 << 32) - 4096] {
        for word in start..start + 4096 {
            let mut first = Some(word as u32);
            let mut drawn = 0;
            let value = below(7, || {
                drawn += 1;
                first.take().unwrap_or(u32::MAX)
            });
            assert!(value < 7);
            assert_eq!(drawn == 2, ((word * 7) as u32) < 4, "{word}");
            fair[value as usize] += 1;
        }
    }
    assert!(fair.iter().sum::<u32>() == 3 * 4096);
}

#[test]
fn domains_of_all_sizes_are_permuted() {
    for elements in (1..70).chain([255, 256, 257, 1000]) {
        let network = FeistelPermutation::new(&[5; 16], elements).expect("not empty");
        let table = TablePermutation::new(elements as usize, &mut Prg::new(&[elements as u8; 16]));
        let mut seen = vec![[false; 2]; elements as usize];
        for element in 0..elements {
            let image = network.image(element).expect("inside");
            assert_eq!(network.preimage(image), Some(element));
            assert!(!std::mem::replace(&mut seen[image as usize][0], true));
            let image = table.image(element as usize).expect("inside");
            assert_eq!(table.preimage(image), Some(element as usize));
            assert!(!std::mem::replace(&mut seen[image][1], true));
        }
        assert_eq!(network.image(elements), None);
        assert_eq!(network.preimage(elements), None);
        assert_eq!(table.image(elements as usize), None);
        assert_eq!(table.preimage(elements as usize), None);
        assert_eq!(table.elements() as u64, elements);
    }
    assert!(FeistelPermutation::new(&[5; 16], 0).is_none());
    assert_eq!(TablePermutation::new(0, &mut Prg::new(&[0; 16])).image(0), None);
}

proptest! {
    #[test]
    fn large_domains_are_permuted(material: [u8; 16], elements in 1_u64.., element: u64) {
        let element = element % elements;
        let network = FeistelPermutation::new(&material, elements).expect("not empty");
        let image = network.image(element).expect("inside");
        prop_assert!(image < elements);
        prop_assert_eq!(network.preimage(image), Some(element));
    }
}

#[test]
fn shows_nothing() {
    assert_eq!(format!("{:?}", TablePermutation::new(4, &mut Prg::new(&[1; 16]))), "TablePermutation(..)");
    assert_eq!(format!("{:?}", FeistelPermutation::new(&[0x5a; 16], 4)), "Some(FeistelPermutation(4))");
}
