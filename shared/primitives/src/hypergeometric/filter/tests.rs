use super::*;

#[test]
fn logarithms_are_those_of_the_platform_but_for_the_last_digits() {
    let mut x = 1e-9;
    while x < 1e40 {
        let difference = (ln(x) - f64::ln(x)).abs();
        assert!(difference <= 1e-15 * (1.0 + f64::ln(x).abs()), "ln({x}): {difference}");
        x *= 1.0137;
    }
    assert_eq!(ln(1.0), 0.0);
}

#[test]
fn series_near_zero_agree_with_the_definition() {
    let mut t = 1e-3;
    while t < NEAR {
        for t in [t, -t] {
            let (log, h) = near(t);
            assert!((log - t.ln_1p()).abs() <= 2e-15 * log.abs(), "ln(1 + {t})");
            let definition = (1.0 + t) * t.ln_1p() - t;
            assert!((h - definition).abs() <= 1e-15, "h({t}): {h} {definition}");
        }
        t *= 1.03;
    }
    let (log, h) = near(1e-12);
    assert!((log / 1e-12 - 1.0).abs() < 1e-11 && (h / 0.5e-24 - 1.0).abs() < 1e-11);
}

#[test]
fn stirling_remainders_make_factorials() {
    let mut log_gamma = 0.0;
    for x in 1..3000 {
        let x = f64::from(x);
        let stirling = (x - 0.5) * f64::ln(x) - x + 0.5 * f64::ln(2.0 * std::f64::consts::PI);
        let difference = stirling + stirling_remainder(x) - log_gamma;
        assert!(difference.abs() < 1e-14 * (1.0 + log_gamma) * x.sqrt(), "ln Gamma({x}): {difference}");
        log_gamma += f64::ln(x);
    }
    // The formula changes between these, the value hardly.
    let step = stirling_remainder(1023.0) / stirling_remainder(1024.0) - 1024.0 / 1023.0;
    assert!(step.abs() < 1e-8);
}
