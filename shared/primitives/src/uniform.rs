//! Uniform numbers of a range, without bias.

use crate::prg::Prg;

/// A uniform number from 0 to `last`: as many bits of the stream as `last` has, again until they are not greater. At
/// most two tries on average.
///
/// Bits are the low ones of a word of 64 bits, little endian, or of two if one is too short, the low one
/// first; the rest of a word is lost. Ciphertexts depend on this, so it stays.
pub fn uniform(last: u128, prg: &mut Prg) -> u128 {
    if last == 0 {
        return 0;
    }
    let mask = u128::MAX >> last.leading_zeros();
    loop {
        let mut bits = u128::from(prg.next_u64());
        if mask > u128::from(u64::MAX) {
            bits |= u128::from(prg.next_u64()) << 64;
        }
        if bits & mask <= last {
            return bits & mask;
        }
    }
}

/// Puts things into a uniformly random order.
pub fn shuffle<T>(things: &mut [T], prg: &mut Prg) {
    for place in (1..things.len()).rev() {
        // A place of a slice, so it fits.
        let other = uniform(place as u128, prg) as usize;
        things.swap(place, other);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_comes_and_none_beyond() {
        let mut prg = Prg::new(&[5; 16]);
        for last in 0..40_u128 {
            let mut seen = vec![0_u32; last as usize + 1];
            for _ in 0..400 * (last + 1) {
                seen[uniform(last, &mut prg) as usize] += 1;
            }
            // 400 expected, standard deviation 20.
            assert!(seen.iter().all(|&times| (290..510).contains(&times)), "{last}: {seen:?}");
        }
    }

    #[test]
    fn numbers_of_two_words_are_as_uniform() {
        let mut prg = Prg::new(&[6; 16]);
        let last = u128::MAX / 3 * 2;
        let upper = (0..4000).filter(|_| uniform(last, &mut prg) > last / 2).count();
        assert!((1840..2160).contains(&upper), "{upper}");
        assert!((0..4000).map(|_| uniform(u128::MAX, &mut prg)).max() > Some(u128::MAX / 100 * 99));
        let low_words = (0..4000).filter(|_| uniform(last, &mut prg) & (1 << 63) != 0).count();
        assert!((1840..2160).contains(&low_words), "{low_words}");
    }

    #[test]
    fn every_order_comes_equally_often() {
        let mut prg = Prg::new(&[7; 16]);
        let mut seen = std::collections::BTreeMap::new();
        for _ in 0..6000 {
            let mut things = [0, 1, 2];
            shuffle(&mut things, &mut prg);
            *seen.entry(things).or_insert(0_u32) += 1;
        }
        // 1,000 expected, standard deviation 29.
        assert!(seen.len() == 6 && seen.values().all(|times| (850..1150).contains(times)), "{seen:?}");
    }
}
