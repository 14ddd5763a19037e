//! Floating-point numbers: their order, and PostgreSQL's shortest text.

use dashu_int::UBig;

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
    let digits = |precision: usize| format!("{number:.precision$e}");
    let same = |text: &str| text.parse() == Ok(number);
    let (mantissa, exponent) = parts(number.to_bits(), 52, 1075);
    special(number)
        .unwrap_or_else(|| shortest(&nearest(&format!("{number:e}"), digits, same, (mantissa, exponent)), 15))
}

/// A number of 32 bits as PostgreSQL prints it.
pub(super) fn text_32(number: f32) -> String {
    let digits = |precision: usize| format!("{number:.precision$e}");
    let same = |text: &str| text.parse() == Ok(number);
    let (mantissa, exponent) = parts(number.to_bits().into(), 23, 150);
    special(f64::from(number))
        .unwrap_or_else(|| shortest(&nearest(&format!("{number:e}"), digits, same, (mantissa, exponent)), 6))
}

/// Mantissa and exponent of a number's bits: it is mantissa * 2^exponent.
fn parts(bits: u64, mantissa_bits: u32, bias: i32) -> (u64, i32) {
    let fraction = bits & ((1 << mantissa_bits) - 1);
    let exponent_bits = if mantissa_bits == 52 { 0x7ff } else { 0xff };
    let exponent = i32::try_from((bits >> mantissa_bits) & exponent_bits).unwrap_or(0);
    if exponent == 0 { (fraction, 1 - bias) } else { (fraction | (1 << mantissa_bits), exponent - bias) }
}

/// The shortest digits that are nearer to the number than to any other. PostgreSQL, other than Rust, does not take digits
/// that are as near to a neighbour (though reading them would give the number), and of two that are as near to the number
/// it takes the even ones.
fn nearest(
    shortest: &str,
    digits: impl Fn(usize) -> String,
    same: impl Fn(&str) -> bool,
    number: (u64, i32),
) -> String {
    let mantissa = shortest.split('e').next().unwrap_or_default();
    let least = mantissa.chars().filter(char::is_ascii_digit).count().max(1);
    let fits = |text: &String| same(text) && !is_between(text, number);
    (least..=17)
        .map(|count| digits(count - 1))
        .find(fits)
        .map_or_else(|| shortest.to_owned(), |text| trimmed(&text))
}

/// Without zeros at the end of the digits.
fn trimmed(scientific: &str) -> String {
    match scientific.split_once('e') {
        Some((mantissa, exponent)) if mantissa.contains('.') => {
            format!("{}e{exponent}", mantissa.trim_end_matches('0').trim_end_matches('.'))
        }
        Some(_) | None => scientific.to_owned(),
    }
}

/// Are digits as near to a neighbour of the number as to the number?
fn is_between(scientific: &str, (mantissa, exponent): (u64, i32)) -> bool {
    // Only even mantissas are read back from there.
    if mantissa % 2 == 1 || mantissa == 0 {
        return false;
    }
    let Some((digits, ten)) = scientific.trim_start_matches('-').split_once('e') else { return false };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let (Ok(number), Ok(ten)) = (format!("{whole}{fraction}").parse::<UBig>(), ten.parse::<i32>()) else {
        return false;
    };
    let ten = ten - i32::try_from(fraction.len()).unwrap_or(0);
    let power = |base: u8, exponent: i32| UBig::from(base).pow(usize::try_from(exponent.max(0)).unwrap_or(0));
    // digits * 10^ten against the middles above and below, both made whole. Below a power of two the neighbour is half as
    // far.
    let below = if mantissa.is_power_of_two() {
        (mantissa * 4 - 1, exponent - 2)
    } else {
        (mantissa * 2 - 1, exponent - 1)
    };
    [(mantissa * 2 + 1, exponent - 1), below].iter().any(|(odd, two)| {
        let left = &number * power(10, ten) * power(2, -two);
        let right = UBig::from(*odd) * power(2, *two) * power(10, -ten);
        left == right
    })
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
