//! Randomness of a run: everything is drawn from one seed, each use from a stream of its own, so that a run replays
//! and a change in one use does not shift another.

use arras_keys::Key;
use arras_primitives::hash::sha256_framed;
use arras_primitives::prg::Prg;

fn digest(seed: u64, usage: &str) -> [u8; 32] {
    sha256_framed(&[b"arras lab", usage.as_bytes(), &seed.to_be_bytes()])
}

/// The stream of a use.
#[must_use]
pub fn prg(seed: u64, usage: &str) -> Prg {
    let digest = digest(seed, usage);
    let (blocks, _) = digest.as_chunks::<16>();
    Prg::new(&blocks[0])
}

/// A throw-away key of a run: anybody who knows the seed knows it.
#[must_use]
pub fn key(seed: u64, usage: &str) -> Key {
    Key::take_from(&mut digest(seed, usage))
}

/// A number in `0..bound`, without bias. 0 if `bound` is.
pub fn below(prg: &mut Prg, bound: u64) -> u64 {
    if bound == 0 {
        return 0;
    }
    // Draws above the greatest multiple of the bound are drawn again.
    let fair = u64::MAX - (u64::MAX % bound + 1) % bound;
    loop {
        let drawn = prg.next_u64();
        if drawn <= fair {
            return drawn % bound;
        }
    }
}

/// A number in [0, 1), with 53 random bits.
pub fn fraction(prg: &mut Prg) -> f64 {
    (prg.next_u64() >> 11) as f64 / (1u64 << 53) as f64
}

/// A number of the standard normal distribution (Box-Muller).
pub fn normal(prg: &mut Prg) -> f64 {
    let radius = (-2.0 * (1.0 - fraction(prg)).ln()).sqrt();
    radius * (std::f64::consts::TAU * fraction(prg)).cos()
}

/// Puts items into a random order, each equally likely.
pub fn shuffle<T>(prg: &mut Prg, items: &mut [T]) {
    for last in (1..items.len()).rev() {
        let other = usize::try_from(below(prg, last as u64 + 1)).unwrap_or(0);
        items.swap(last, other);
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_stream_replays_and_differs_from_others() {
        assert_eq!(prg(1, "a").next_u64(), prg(1, "a").next_u64());
        assert_ne!(prg(1, "a").next_u64(), prg(1, "b").next_u64());
        assert_ne!(prg(1, "a").next_u64(), prg(2, "a").next_u64());
        assert_eq!(key(1, "a").expose(), key(1, "a").expose());
    }

    #[test]
    fn numbers_below_a_bound_are_spread_evenly() {
        let mut prg = prg(3, "below");
        let mut counts = [0u32; 7];
        (0..70_000).for_each(|_| counts[usize::try_from(below(&mut prg, 7)).unwrap()] += 1);
        // 10,000 expected, standard deviation 93: six of them.
        assert!(counts.iter().all(|count| (9_440..10_560).contains(count)), "{counts:?}");
        assert_eq!(below(&mut prg, 0), 0);
        assert_eq!(below(&mut prg, 1), 0);
    }

    #[test]
    fn normal_numbers_have_mean_zero_and_deviation_one() {
        let mut prg = prg(4, "normal");
        let drawn: Vec<f64> = (0..50_000).map(|_| normal(&mut prg)).collect();
        let mean = drawn.iter().sum::<f64>() / 50_000.0;
        let variance = drawn.iter().map(|number| number * number).sum::<f64>() / 50_000.0;
        assert!(mean.abs() < 0.03 && (variance - 1.0).abs() < 0.05, "{mean} {variance}");
    }
}
