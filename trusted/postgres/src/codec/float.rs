//! Floating-point numbers: their order, and PostgreSQL's shortest text.

/// The bits of a number so that their order is PostgreSQL's: `-0` is `0`, NaN is one value and above all.
pub(super) fn ordered_64(number: f64) -> u64 {
    if number.is_nan() {
        return u64::MAX;
    }
    let bits = if number == 0.0 { 0 } else { number.to_bits() };
    if bits >> 63 == 1 { !bits } else { bits | (1 << 63) }
}

/// The same of 32 bits.
pub(super) fn ordered_32(number: f32) -> u32 {
    if number.is_nan() {
        return u32::MAX;
    }
    let bits = if number == 0.0 { 0 } else { number.to_bits() };
    if bits >> 31 == 1 { !bits } else { bits | (1 << 31) }
}

/// A number of 64 bits as PostgreSQL prints it.
pub(super) fn text_64(number: f64) -> String {
    special(number).unwrap_or_else(|| shortest(&format!("{number:e}"), 15))
}

/// A number of 32 bits as PostgreSQL prints it.
pub(super) fn text_32(number: f32) -> String {
    special(f64::from(number)).unwrap_or_else(|| shortest(&format!("{number:e}"), 6))
}

fn special(number: f64) -> Option<String> {
    if number.is_nan() {
        return Some("NaN".into());
    }
    number.is_infinite().then(|| if number > 0.0 { "Infinity".into() } else { "-Infinity".into() })
}

/// Shortest digits in scientific notation, written without an exponent if it is from -4 to below `digits`.
fn shortest(scientific: &str, digits: i32) -> String {
    let (sign, rest) = scientific.strip_prefix('-').map_or(("", scientific), |rest| ("-", rest));
    let (mantissa, exponent) = rest.split_once('e').unwrap_or((rest, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let plain: String = mantissa.chars().filter(char::is_ascii_digit).collect();
    if !(-4..digits).contains(&exponent) {
        return format!("{sign}{mantissa}e{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.abs());
    }
    let Ok(whole) = usize::try_from(exponent + 1) else {
        let zeros = "0".repeat(usize::try_from(-exponent - 1).unwrap_or(0));
        return format!("{sign}0.{zeros}{plain}");
    };
    if whole == 0 {
        return format!("{sign}0.{plain}");
    }
    if plain.len() <= whole {
        return format!("{sign}{plain:0<whole$}");
    }
    let (before, after) = plain.split_at(whole);
    format!("{sign}{before}.{after}")
}
