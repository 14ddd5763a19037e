use super::*;

/// To binary64, the bits after its precision cut off.
fn real(fixed: &Fixed, value: &IBig) -> f64 {
    value.to_f64().value() / 2_f64.powi(fixed.bits as i32)
}

#[test]
fn the_series_is_stirlings() {
    let series = stirling_series(8);
    let known =
        [(1, 12), (-1, 360), (1, 1260), (-1, 1680), (1, 1188), (-691, 360_360), (1, 156), (-3617, 122_400)];
    for ((numerator, denominator), (over, under)) in series.into_iter().zip(known) {
        assert_eq!(numerator * IBig::from(under), denominator * IBig::from(over), "{over}/{under}");
    }
}

#[test]
fn logarithms_of_products_are_sums() {
    let fixed = Fixed::new(400);
    let error = IBig::ONE << 40;
    assert!((real(&fixed, &fixed.ln_2) - std::f64::consts::LN_2).abs() < 1e-15);
    for x in [1_u128, 2, 3, 7, 640, 12_345, u128::from(u64::MAX), u128::MAX / 3] {
        let x = UBig::from(x);
        let twice = fixed.ln(&(&x * &x)) - fixed.ln(&x) * IBig::from(2_u8);
        assert!(twice < error && -twice < error, "{x}");
    }
    assert!((real(&fixed, &fixed.ln(&UBig::from(10_u8))) - std::f64::consts::LN_10).abs() < 1e-15);
}

#[test]
fn the_gamma_function_is_a_product() {
    // Across where arguments are moved up (below 400) and where not.
    let fixed = Fixed::new(400);
    let error = IBig::ONE << 60;
    let mut sum = fixed.ln_gamma(1);
    for x in 1..600_u128 {
        sum += fixed.ln(&UBig::from(x));
        let difference = fixed.ln_gamma(x + 1) - &sum;
        assert!(difference < error && -difference < error, "Gamma({})", x + 1);
    }
    let large = u128::MAX - 5;
    let step = fixed.ln_gamma(large + 1) - fixed.ln_gamma(large) - fixed.ln(&UBig::from(large));
    let error = IBig::ONE << 150;
    assert!(step < error && -step < error);
}
