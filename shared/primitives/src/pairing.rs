//! The pairing-friendly groups of BLS12-381 and their pairing, over `blst`: what a pairing hash needs of them.
//!
//! `unsafe` here is calls of `blst`'s C functions, each with pointers to initialised values that outlive the
//! call. All group arithmetic is `blst`'s and takes constant time; multiples of the generators go through tables
//! of them, read in full whatever the digit is.

#![allow(unsafe_code)]

use blst::{
    BLST_ERROR, blst_fp, blst_fp_cneg, blst_fp2, blst_fp2_cneg, blst_fp6, blst_fp12, blst_miller_loop_lines,
    blst_p1, blst_p1_add_or_double, blst_p1_add_or_double_affine, blst_p1_affine, blst_p1_affine_compress,
    blst_p1_affine_in_g1, blst_p1_affine_is_inf, blst_p1_generator, blst_p1_uncompress, blst_p1s_to_affine,
    blst_p2, blst_p2_add_or_double, blst_p2_add_or_double_affine, blst_p2_affine, blst_p2_affine_compress,
    blst_p2_affine_in_g2, blst_p2_affine_is_inf, blst_p2_generator, blst_p2_uncompress, blst_p2s_to_affine,
    blst_precompute_lines, blst_scalar, blst_scalar_from_be_bytes, blst_sk_mul_n_check,
};
use std::fmt;
use std::sync::LazyLock;
use subtle::{Choice, ConstantTimeEq};

/// Bytes of a compressed point of the first group.
pub const G1_BYTES: usize = 48;

/// Bytes of a compressed point of the second group.
pub const G2_BYTES: usize = 96;

/// Bytes that make a scalar without telling bias: 128 bits more than the groups' order has.
pub const WIDE_BYTES: usize = 48;

/// A number modulo the groups' order, not zero. Wiped on drop.
pub struct Scalar(blst_scalar);

impl fmt::Debug for Scalar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Scalar(..)")
    }
}

impl Scalar {
    /// The remainder of a big-endian number. Zero, one in 2^255, becomes one, so that no multiple of a generator
    /// is the neutral element.
    #[must_use]
    pub fn from_wide(bytes: &[u8; WIDE_BYTES]) -> Self {
        let mut scalar = blst_scalar::default();
        // SAFETY: `bytes` is as long as it says, `scalar` is written in full.
        let is_positive = unsafe { blst_scalar_from_be_bytes(&mut scalar, bytes.as_ptr(), bytes.len()) };
        scalar.b[0] |= u8::from(!is_positive);
        Self(scalar)
    }

    /// The product.
    #[must_use]
    pub fn times(&self, other: &Self) -> Self {
        let mut product = blst_scalar::default();
        // SAFETY: three scalars, the first written in full. The result says that the product is not zero, as it
        // cannot be modulo a prime.
        unsafe { blst_sk_mul_n_check(&mut product, &self.0, &other.0) };
        Self(product)
    }
}

/// Bits of a digit of a scalar that is multiplied with a generator.
const DIGIT_BITS: usize = 6;
/// Digits of a scalar of 255 bits, with one bit for the carry.
const DIGITS: usize = 256_usize.div_ceil(DIGIT_BITS);
/// Multiples of a generator that a digit chooses from, up to sign.
const MULTIPLES: usize = 1 << (DIGIT_BITS - 1);

/// A scalar's digits, from -31 to 32, lowest first: magnitude and whether it is negative. Constant time.
fn digits(scalar: &Scalar) -> impl Iterator<Item = (u64, Choice)> {
    let mut carry = 0;
    (0..DIGITS).map(move |digit| {
        let at = digit * DIGIT_BITS;
        let byte = |at: usize| u64::from(scalar.0.b.get(at).copied().unwrap_or(0));
        let bits = (byte(at / 8) | byte(at / 8 + 1) << 8) >> (at % 8) & (2 * MULTIPLES as u64 - 1);
        let raw = bits + carry;
        carry = (raw + MULTIPLES as u64 - 1) >> DIGIT_BITS;
        let negative = carry.wrapping_neg();
        let value = raw.wrapping_sub(carry << DIGIT_BITS);
        ((value ^ negative).wrapping_add(carry), Choice::from(carry as u8))
    })
}

/// All ones where `number` is `other`, else zero.
fn mask(number: u64, other: u64) -> u64 {
    u64::from(number.ct_eq(&other).unwrap_u8()).wrapping_neg()
}

/// What both groups have: a table of the generator's multiples, and how to add from it.
macro_rules! group {
    (
        $group:ident, $projective:ident, $affine:ident, $limbs:expr, $bytes:expr, $what:literal,
        $generator:ident, $add:ident, $add_affine:ident, $to_affine:ident, $compress:ident, $uncompress:ident,
        $is_neutral:ident, $is_in_group:ident, $from_limbs:ident, $to_limbs:ident
    ) => {
        #[doc = $what]
        #[derive(Clone, Copy)]
        pub struct $group($affine);

        impl fmt::Debug for $group {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{}({:02x?}..)", stringify!($group), &self.to_bytes()[..4])
            }
        }

        impl $group {
            /// Multiples of the generator. Constant time.
            #[must_use]
            pub fn multiples(scalars: &[Scalar]) -> Vec<Self> {
                static TABLE: LazyLock<Vec<[u64; $limbs]>> = LazyLock::new($group::table);
                let sums: Vec<$projective> = scalars
                    .iter()
                    .map(|scalar| {
                        let mut sum = $projective::default();
                        for ((magnitude, negative), row) in digits(scalar).zip(TABLE.chunks_exact(MULTIPLES))
                        {
                            let mut chosen = [0; $limbs];
                            for (multiple, limbs) in (1..).zip(row) {
                                let mask = mask(magnitude, multiple);
                                for (limb, other) in chosen.iter_mut().zip(limbs) {
                                    *limb |= mask & other;
                                }
                            }
                            let chosen = $from_limbs(&chosen, negative);
                            // SAFETY: two points, the first also written to, which the function allows.
                            unsafe { $add_affine(&mut sum, &sum, &chosen) };
                        }
                        sum
                    })
                    .collect();
                Self::affine(&sums).into_iter().map(Self).collect()
            }

            /// For each digit the multiples 1 to 32 of the generator times the digit's weight.
            fn table() -> Vec<[u64; $limbs]> {
                let mut points = Vec::with_capacity(DIGITS * MULTIPLES);
                // SAFETY: the library's constant.
                let mut base = unsafe { *$generator() };
                for _ in 0..DIGITS {
                    let mut multiple = $projective::default();
                    for _ in 0..MULTIPLES {
                        // SAFETY: two points, the first also written to, which the function allows.
                        unsafe { $add(&mut multiple, &multiple, &base) };
                        points.push(multiple);
                    }
                    // SAFETY: as above.
                    unsafe { $add(&mut base, &multiple, &multiple) };
                }
                Self::affine(&points).iter().map($to_limbs).collect()
            }

            fn affine(points: &[$projective]) -> Vec<$affine> {
                let mut affine = vec![$affine::default(); points.len()];
                if !points.is_empty() {
                    // A pointer to the first of adjacent points and a null.
                    let from = [points.as_ptr(), std::ptr::null()];
                    // SAFETY: `points` and `affine` have the length that is passed.
                    unsafe { $to_affine(affine.as_mut_ptr(), from.as_ptr(), points.len()) };
                }
                affine
            }

            /// The compressed point.
            #[must_use]
            pub fn to_bytes(&self) -> [u8; $bytes] {
                let mut bytes = [0; $bytes];
                // SAFETY: a point, and room for its compressed form.
                unsafe { $compress(bytes.as_mut_ptr(), &self.0) };
                bytes
            }

            /// Reads a compressed point: `None` unless it is on the curve, in the group of prime order and not its
            /// neutral element.
            #[must_use]
            pub fn from_bytes(bytes: &[u8; $bytes]) -> Option<Self> {
                let mut point = $affine::default();
                // SAFETY: as many bytes as a compressed point has; `point` is initialised in any case.
                let read = unsafe { $uncompress(&mut point, bytes.as_ptr()) };
                // SAFETY: a point on the curve.
                let is_member = || unsafe { !$is_neutral(&point) && $is_in_group(&point) };
                (read == BLST_ERROR::BLST_SUCCESS && is_member()).then_some(Self(point))
            }
        }
    };
}

group!(
    G1,
    blst_p1,
    blst_p1_affine,
    12,
    G1_BYTES,
    "A point of the first group, not its neutral element.",
    blst_p1_generator,
    blst_p1_add_or_double,
    blst_p1_add_or_double_affine,
    blst_p1s_to_affine,
    blst_p1_affine_compress,
    blst_p1_uncompress,
    blst_p1_affine_is_inf,
    blst_p1_affine_in_g1,
    g1_from_limbs,
    g1_to_limbs
);
group!(
    G2,
    blst_p2,
    blst_p2_affine,
    24,
    G2_BYTES,
    "A point of the second group, not its neutral element.",
    blst_p2_generator,
    blst_p2_add_or_double,
    blst_p2_add_or_double_affine,
    blst_p2s_to_affine,
    blst_p2_affine_compress,
    blst_p2_uncompress,
    blst_p2_affine_is_inf,
    blst_p2_affine_in_g2,
    g2_from_limbs,
    g2_to_limbs
);

fn fp(limbs: &[u64]) -> blst_fp {
    let mut fp = blst_fp::default();
    fp.l.copy_from_slice(limbs);
    fp
}

/// The point of these limbs, or its negative.
fn g1_from_limbs(limbs: &[u64; 12], negative: Choice) -> blst_p1_affine {
    let (x, y) = limbs.split_at(6);
    let mut point = blst_p1_affine { x: fp(x), y: fp(y) };
    // SAFETY: a field element, also written to, which the function allows.
    unsafe { blst_fp_cneg(&mut point.y, &point.y, negative.into()) };
    point
}

fn g1_to_limbs(point: &blst_p1_affine) -> [u64; 12] {
    let mut limbs = [0; 12];
    limbs[..6].copy_from_slice(&point.x.l);
    limbs[6..].copy_from_slice(&point.y.l);
    limbs
}

/// The point of these limbs, or its negative.
fn g2_from_limbs(limbs: &[u64; 24], negative: Choice) -> blst_p2_affine {
    let fp2 = |at: usize| blst_fp2 { fp: [fp(&limbs[at..at + 6]), fp(&limbs[at + 6..at + 12])] };
    let mut point = blst_p2_affine { x: fp2(0), y: fp2(12) };
    // SAFETY: a field element, also written to, which the function allows.
    unsafe { blst_fp2_cneg(&mut point.y, &point.y, negative.into()) };
    point
}

fn g2_to_limbs(point: &blst_p2_affine) -> [u64; 24] {
    let mut limbs = [0; 24];
    let parts = [&point.x.fp[0], &point.x.fp[1], &point.y.fp[0], &point.y.fp[1]];
    for (six, fp) in limbs.chunks_exact_mut(6).zip(parts) {
        six.copy_from_slice(&fp.l);
    }
    limbs
}

/// An element of the target group.
#[derive(Clone, Copy, PartialEq)]
pub struct Gt(blst_fp12);

impl fmt::Debug for Gt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Gt(..)")
    }
}

/// The pairing of two points.
#[must_use]
pub fn pair(left: &G1, right: &G2) -> Gt {
    Gt(blst_fp12::miller_loop(&right.0, &left.0).final_exp())
}

/// A point of the second group made ready to be paired with many of the first, each a fifth faster.
pub struct Lines(Box<[blst_fp6; 68]>);

impl fmt::Debug for Lines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Lines(..)")
    }
}

impl Lines {
    /// Prepares a point.
    #[must_use]
    pub fn new(right: &G2) -> Self {
        let mut lines = Box::new([blst_fp6::default(); 68]);
        // SAFETY: the function writes 68 lines.
        unsafe { blst_precompute_lines(lines.as_mut_ptr(), &right.0) };
        Self(lines)
    }

    /// The pairing of `left` with the prepared point.
    #[must_use]
    pub fn pair(&self, left: &G1) -> Gt {
        let mut value = blst_fp12::default();
        // SAFETY: the function reads 68 lines and a point, and writes `value` in full.
        unsafe { blst_miller_loop_lines(&mut value, self.0.as_ptr(), &left.0) };
        Gt(value.final_exp())
    }
}

#[cfg(test)]
mod tests;
