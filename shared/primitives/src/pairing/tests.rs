use super::*;
use proptest::prelude::*;

fn scalar(number: u64) -> Scalar {
    let mut wide = [0; WIDE_BYTES];
    wide[WIDE_BYTES - 8..].copy_from_slice(&number.to_be_bytes());
    Scalar::from_wide(&wide)
}

fn unhex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).expect("hex")).collect()
}

/// The groups' order minus one.
const GREATEST: &str = "73eda753299d7d483339d80809a1d80553bda402fffe5bfeffffffff00000000";

fn wide(hex: &str) -> [u8; WIDE_BYTES] {
    let mut wide = [0; WIDE_BYTES];
    wide[16..].copy_from_slice(&unhex(hex));
    wide
}

#[test]
fn the_generators_are_the_standards() {
    // draft-irtf-cfrg-pairing-friendly-curves, section 4.2.1, x compressed.
    let g1 =
        "97f1d3a73197d7942695638c4fa9ac0fc3688c4f9774b905a14e3a3f171bac586c55e83ff97a1aeffb3af00adb22c6bb";
    assert_eq!(G1::multiples(&[scalar(1)])[0].to_bytes().to_vec(), unhex(g1));
    let g2 = "93e02b6052719f607dacd3a088274f65596bd0d09920b61ab5da61bbdc7f5049334cf11213945d57e5ac7d055d042b7e\
              024aa2b2f08f0a91260805272dc51051c6e47ad4fa403b02b4510b647ae3d1770bac0326a805bbefd48056c8c121bdb8";
    assert_eq!(G2::multiples(&[scalar(1)])[0].to_bytes().to_vec(), unhex(g2));
}

#[test]
fn multiples_are_those_of_the_library() {
    let mut numbers: Vec<Scalar> =
        [1, 2, 31, 32, 33, 63, 64, 65, 2047, 2048, 2112, u64::MAX].map(scalar).into();
    numbers.push(Scalar::from_wide(&wide(GREATEST)));
    numbers.push(Scalar::from_wide(&[0xff; WIDE_BYTES]));
    numbers.push(Scalar::from_wide(&[0x5a; WIDE_BYTES]));
    let (g1, g2) = (G1::multiples(&numbers), G2::multiples(&numbers));
    for ((scalar, g1), g2) in numbers.iter().zip(g1).zip(g2) {
        let (mut one, mut two) = (blst_p1::default(), blst_p2::default());
        let (mut bytes_1, mut bytes_2) = ([0; G1_BYTES], [0; G2_BYTES]);
        // SAFETY: points and scalars as the functions take them.
        unsafe {
            blst::blst_p1_mult(&mut one, blst_p1_generator(), scalar.0.b.as_ptr(), 255);
            blst::blst_p2_mult(&mut two, blst_p2_generator(), scalar.0.b.as_ptr(), 255);
            blst::blst_p1_compress(bytes_1.as_mut_ptr(), &one);
            blst::blst_p2_compress(bytes_2.as_mut_ptr(), &two);
        }
        assert_eq!(g1.to_bytes(), bytes_1);
        assert_eq!(g2.to_bytes(), bytes_2);
    }
    assert!(G1::multiples(&[]).is_empty());
}

#[test]
fn the_order_is_the_groups() {
    let minus_one = Scalar::from_wide(&wide(GREATEST));
    assert_eq!(minus_one.times(&minus_one).0.b, scalar(1).0.b);
    // The negative has the same x and the other sign.
    let [one, negative] = [scalar(1), minus_one].map(|scalar| G1::multiples(&[scalar])[0].to_bytes());
    assert_eq!(one[0] ^ negative[0], 0x20);
    assert_eq!(one[1..], negative[1..]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(8))]
    #[test]
    fn the_pairing_is_bilinear(a: [[u8; 24]; 2], b: [[u8; 24]; 2]) {
        let one = || scalar(1);
        let [a, b] = [a, b].map(|halves| {
            let mut wide = [0; WIDE_BYTES];
            wide.copy_from_slice(halves.as_flattened());
            Scalar::from_wide(&wide)
        });
        let product = a.times(&b);
        let g1 = G1::multiples(&[one(), a, product]);
        let g2 = G2::multiples(&[one(), b]);
        prop_assert_eq!(pair(&g1[1], &g2[1]), pair(&g1[2], &g2[0]));
        prop_assert_eq!(Lines::new(&g2[1]).pair(&g1[1]), pair(&g1[1], &g2[1]));
        prop_assert_ne!(pair(&g1[1], &g2[1]), pair(&g1[0], &g2[0]));
        prop_assert_eq!(G1::from_bytes(&g1[1].to_bytes()).map(|point| point.to_bytes()), Some(g1[1].to_bytes()));
        prop_assert_eq!(G2::from_bytes(&g2[1].to_bytes()).map(|point| point.to_bytes()), Some(g2[1].to_bytes()));
    }
}

#[test]
fn points_off_the_curve_outside_the_group_or_neutral_are_refused() {
    let mut neutral = [0; G1_BYTES];
    neutral[0] = 0xc0;
    assert!(G1::from_bytes(&neutral).is_none());
    let mut neutral = [0; G2_BYTES];
    neutral[0] = 0xc0;
    assert!(G2::from_bytes(&neutral).is_none());
    assert!(G1::from_bytes(&[0; G1_BYTES]).is_none() && G2::from_bytes(&[0; G2_BYTES]).is_none());
    assert!(G1::from_bytes(&[0xff; G1_BYTES]).is_none() && G2::from_bytes(&[0xff; G2_BYTES]).is_none());
    // x = 0, 1, 2, ...: about half are on the curve, and of these nearly none is in the group of prime order.
    let (mut on_curve, mut refused) = (0, 0);
    for x in 0..64 {
        let mut bytes = [0; G1_BYTES];
        (bytes[0], bytes[G1_BYTES - 1]) = (0x80, x);
        let mut point = blst_p1_affine::default();
        // SAFETY: as many bytes as a compressed point has.
        let read = unsafe { blst_p1_uncompress(&mut point, bytes.as_ptr()) };
        on_curve += usize::from(read == BLST_ERROR::BLST_SUCCESS);
        refused += usize::from(G1::from_bytes(&bytes).is_none());
        let mut bytes = [0; G2_BYTES];
        (bytes[0], bytes[G2_BYTES - 1]) = (0x80, x);
        assert!(G2::from_bytes(&bytes).is_none());
    }
    assert!(on_curve > 10);
    assert_eq!(refused, 64);
}
