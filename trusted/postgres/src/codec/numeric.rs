//! PostgreSQL's `numeric`: decimals of any length, NaN and the infinities.

use crate::error::{SqlError, sqlstate};
use dashu_int::ops::BitTest;
use dashu_int::{IBig, UBig};
use std::cmp::Ordering;
use std::fmt;
use std::str::FromStr;

/// Digits behind the point that PostgreSQL stores at most.
const MAX_SCALE: u32 = 16_383;
/// Digits before the point that PostgreSQL stores at most.
const MAX_WHOLE_DIGITS: i64 = 131_072;
/// Significant digits that a quotient has at least.
const MIN_SIGNIFICANT: i64 = 16;
/// Digits behind the point that a quotient has at most.
const MAX_DISPLAY_SCALE: i64 = 1_000;

/// A decimal.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Numeric {
    /// Below all numbers.
    NegativeInfinity,
    /// `unscaled / 10^scale`; the scale is what is printed.
    Finite { unscaled: IBig, scale: u32 },
    /// Above all numbers.
    Infinity,
    /// Above that.
    Nan,
}

/// A text is no decimal, or one of too many digits.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum NotNumeric {
    Syntax,
    Range,
}

fn power_of_ten(exponent: u32) -> IBig {
    IBig::from(UBig::from(10_u8).pow(usize::try_from(exponent).unwrap_or(usize::MAX)))
}

/// The quotient, rounded half away from zero.
fn divided(number: &IBig, by: &IBig) -> IBig {
    let half = by / IBig::from(2);
    let zero = IBig::ZERO;
    let rounded = if (*number < zero) == (*by < zero) { number + &half } else { number - &half };
    rounded / by
}

impl Numeric {
    pub(crate) fn integer(number: i64) -> Self {
        Self::Finite { unscaled: IBig::from(number), scale: 0 }
    }

    /// The number without zeros at its end.
    pub(super) fn normalized(&self) -> Self {
        let Self::Finite { unscaled, scale } = self else { return self.clone() };
        let (mut unscaled, mut scale) = (unscaled.clone(), *scale);
        let ten = IBig::from(10);
        while scale > 0 && &unscaled % &ten == IBig::ZERO {
            unscaled /= &ten;
            scale -= 1;
        }
        Self::Finite { unscaled, scale }
    }

    /// The number of the last digits at a scale, if it has no more digits than that and they fit.
    pub(super) fn unscaled_at(&self, scale: u16) -> Option<i128> {
        let Self::Finite { unscaled, scale: digits } = self.normalized() else { return None };
        let more = u32::from(scale).checked_sub(digits)?;
        i128::try_from(unscaled * power_of_ten(more)).ok()
    }

    /// The number as a column of so many digits holds it.
    ///
    /// # Errors
    /// It has too many before the point.
    pub(super) fn fitted(self, precision: u16, scale: u16) -> Result<Self, SqlError> {
        let overflow = || {
            let whole = precision - scale.min(precision);
            let most = if whole == 0 { "1".to_owned() } else { format!("10^{whole}") };
            SqlError::new(sqlstate::NUMERIC_VALUE_OUT_OF_RANGE, "numeric field overflow").detail(format!(
                "A field with precision {precision}, scale {scale} must round to an absolute value less than {most}."
            ))
        };
        match self {
            Self::Nan => Ok(Self::Nan),
            Self::Infinity | Self::NegativeInfinity => {
                Err(SqlError::new(sqlstate::NUMERIC_VALUE_OUT_OF_RANGE, "numeric field overflow").detail(
                    format!(
                        "A field with precision {precision}, scale {scale} cannot hold an infinite value."
                    ),
                ))
            }
            Self::Finite { .. } => {
                let rounded = self.rescaled(u32::from(scale));
                let Self::Finite { unscaled, .. } = &rounded else { return Ok(rounded) };
                let limit = power_of_ten(u32::from(precision));
                let fits = *unscaled < limit && *unscaled > -limit;
                if fits { Ok(rounded) } else { Err(overflow()) }
            }
        }
    }

    /// The greatest number of so many digits behind the point that is not above this one, as its last digits, and whether it is
    /// this one. What is no number has none: zero.
    pub(crate) fn floor(&self, to: u16) -> (IBig, bool) {
        let Self::Finite { unscaled, scale } = self else { return (IBig::ZERO, false) };
        let to = u32::from(to);
        if to >= *scale {
            return (unscaled * power_of_ten(to - scale), true);
        }
        let by = power_of_ten(scale - to);
        // The quotient is cut towards zero.
        let (cut, rest) = (unscaled / &by, unscaled % &by);
        let floor = if rest < IBig::ZERO { cut - IBig::ONE } else { cut };
        (floor, rest == IBig::ZERO)
    }

    /// Its place among all decimals: NaN is above all.
    pub(crate) fn compared(&self, other: &Self) -> Ordering {
        let rank = |number: &Self| match number {
            Self::NegativeInfinity => 0,
            Self::Finite { .. } => 1,
            Self::Infinity => 2,
            Self::Nan => 3,
        };
        match self.plus(&other.negated()) {
            Self::Finite { unscaled, .. } => unscaled.cmp(&IBig::ZERO),
            _ => rank(self).cmp(&rank(other)),
        }
    }

    /// Without its digits behind the point.
    pub(crate) fn truncated(&self) -> Self {
        let Self::Finite { unscaled, scale } = self else { return self.clone() };
        Self::Finite { unscaled: unscaled / power_of_ten(*scale), scale: 0 }
    }

    /// Is it below zero?
    pub(crate) fn is_negative(&self) -> bool {
        match self {
            Self::NegativeInfinity => true,
            Self::Finite { unscaled, .. } => *unscaled < IBig::ZERO,
            Self::Infinity | Self::Nan => false,
        }
    }

    /// The whole number that is nearest, away from zero of two; none if it is none of 64 bits.
    pub(crate) fn rounded(&self) -> Option<i64> {
        self.rescaled(0).unscaled_at(0).and_then(|number| i64::try_from(number).ok())
    }

    /// The number with so many digits behind the point.
    fn rescaled(&self, to: u32) -> Self {
        let Self::Finite { unscaled, scale } = self else { return self.clone() };
        let unscaled = match to.cmp(scale) {
            Ordering::Equal => unscaled.clone(),
            Ordering::Greater => unscaled * power_of_ten(to - scale),
            Ordering::Less => divided(unscaled, &power_of_ten(scale - to)),
        };
        Self::Finite { unscaled, scale: to }
    }

    pub(crate) fn negated(&self) -> Self {
        match self {
            Self::NegativeInfinity => Self::Infinity,
            Self::Infinity => Self::NegativeInfinity,
            Self::Nan => Self::Nan,
            Self::Finite { unscaled, scale } => Self::Finite { unscaled: -unscaled.clone(), scale: *scale },
        }
    }

    pub(crate) fn plus(&self, other: &Self) -> Self {
        match (self, other) {
            (Self::Nan, _) | (_, Self::Nan) => Self::Nan,
            (Self::Infinity, Self::NegativeInfinity) | (Self::NegativeInfinity, Self::Infinity) => Self::Nan,
            (Self::Infinity | Self::NegativeInfinity, _) => self.clone(),
            (_, Self::Infinity | Self::NegativeInfinity) => other.clone(),
            (Self::Finite { scale: left, .. }, Self::Finite { scale: right, .. }) => {
                let scale = *left.max(right);
                match (self.rescaled(scale), other.rescaled(scale)) {
                    (Self::Finite { unscaled: left, .. }, Self::Finite { unscaled: right, .. }) => {
                        Self::Finite { unscaled: left + right, scale }
                    }
                    _ => Self::Nan,
                }
            }
        }
    }

    pub(crate) fn times(&self, other: &Self) -> Self {
        let sign = |number: &Self| match number {
            Self::NegativeInfinity => -1,
            Self::Infinity => 1,
            Self::Nan => 0,
            Self::Finite { unscaled, .. } => match unscaled.cmp(&IBig::ZERO) {
                Ordering::Less => -1,
                Ordering::Equal => 0,
                Ordering::Greater => 1,
            },
        };
        match (self, other) {
            (Self::Finite { unscaled: left, scale: one }, Self::Finite { unscaled: right, scale: two }) => {
                Self::Finite { unscaled: left * right, scale: one + two }
            }
            // Infinity times nothing is not a number.
            _ => match sign(self) * sign(other) {
                0 => Self::Nan,
                1 => Self::Infinity,
                _ => Self::NegativeInfinity,
            },
        }
    }

    /// The number divided by how many there are, with as many digits as PostgreSQL gives.
    pub(crate) fn mean(&self, count: u64) -> Self {
        let by = Self::Finite { unscaled: IBig::from(count), scale: 0 };
        self.over(&by).unwrap_or(Self::Nan)
    }

    /// The quotient, with as many digits as PostgreSQL gives; none of zero.
    pub(crate) fn over(&self, other: &Self) -> Option<Self> {
        let (Self::Finite { unscaled, scale }, Self::Finite { unscaled: by, scale: by_scale }) =
            (self, other)
        else {
            return self.over_special(other);
        };
        if *by == IBig::ZERO {
            return None;
        }
        let ((weight, first), (by_weight, by_first)) = (self.leading(), other.leading());
        let quotient = weight - by_weight - i64::from(first <= by_first);
        let most = i64::from(*scale.max(by_scale));
        let wanted = (MIN_SIGNIFICANT - quotient * 4).max(most).clamp(0, MAX_DISPLAY_SCALE);
        let wanted = u32::try_from(wanted).unwrap_or(0);
        // What is divided has so many digits more than its divisor.
        let unscaled = match (wanted + by_scale).checked_sub(*scale) {
            Some(more) => divided(&(unscaled * power_of_ten(more)), by),
            None => divided(unscaled, &(by * power_of_ten(scale - wanted - by_scale))),
        };
        Some(Self::Finite { unscaled, scale: wanted })
    }

    /// The same where one of the two is no finite number.
    fn over_special(&self, other: &Self) -> Option<Self> {
        let is_zero =
            |number: &Self| matches!(number, Self::Finite { unscaled, .. } if *unscaled == IBig::ZERO);
        match (self, other) {
            (Self::Nan, _) | (_, Self::Nan) => Some(Self::Nan),
            (_, Self::Infinity | Self::NegativeInfinity) => Some(match self {
                Self::Finite { .. } => Self::integer(0),
                _ => Self::Nan,
            }),
            (_, by) if is_zero(by) => None,
            (infinite, by) => Some(if by.is_negative() { infinite.negated() } else { infinite.clone() }),
        }
    }

    /// What is left of a division; none of zero. It has the sign of what is divided.
    pub(crate) fn modulo(&self, other: &Self) -> Option<Self> {
        match (self, other) {
            (Self::Nan, _) | (_, Self::Nan) => Some(Self::Nan),
            (Self::Infinity | Self::NegativeInfinity, by) => self.over_special(by).map(|_| Self::Nan),
            (_, Self::Infinity | Self::NegativeInfinity) => Some(self.clone()),
            (Self::Finite { scale: one, .. }, Self::Finite { scale: other_scale, .. }) => {
                let scale = *one.max(other_scale);
                match (self.rescaled(scale), other.rescaled(scale)) {
                    (_, Self::Finite { unscaled: by, .. }) if by == IBig::ZERO => None,
                    (Self::Finite { unscaled, .. }, Self::Finite { unscaled: by, .. }) => {
                        Some(Self::Finite { unscaled: unscaled % by, scale })
                    }
                    _ => Some(Self::Nan),
                }
            }
        }
    }

    /// Rounded to so many digits behind the point, or before it.
    pub(crate) fn rounded_to(&self, digits: i32) -> Self {
        self.to_digits(digits, divided)
    }

    /// Cut to so many digits behind the point, or before it.
    pub(crate) fn truncated_to(&self, digits: i32) -> Self {
        self.to_digits(digits, |number, by| number / by)
    }

    fn to_digits(&self, digits: i32, divide: impl Fn(&IBig, &IBig) -> IBig) -> Self {
        let digits = i64::from(digits).clamp(-MAX_WHOLE_DIGITS, i64::from(MAX_SCALE));
        let Self::Finite { unscaled, scale } = self else { return self.clone() };
        match u32::try_from(digits) {
            Ok(digits) if digits >= *scale => self.rescaled(digits),
            Ok(digits) => {
                Self::Finite { unscaled: divide(unscaled, &power_of_ten(scale - digits)), scale: digits }
            }
            Err(_) => {
                let by = power_of_ten(u32::try_from(-digits).unwrap_or(0));
                let whole = divide(unscaled, &(&by * power_of_ten(*scale)));
                Self::Finite { unscaled: whole * by, scale: 0 }
            }
        }
    }

    /// The number as PostgreSQL keeps it: rounded to the digits behind the point that it has room for; none of too many before it.
    pub(crate) fn kept(self) -> Option<Self> {
        let Self::Finite { unscaled, scale } = &self else { return Some(self) };
        if *scale > MAX_SCALE {
            return self.rescaled(MAX_SCALE).kept();
        }
        // So many bits are fewer digits.
        let is_short = unscaled.bit_len() < 3 * usize::try_from(MAX_WHOLE_DIGITS).unwrap_or(0);
        let least = || power_of_ten(u32::try_from(MAX_WHOLE_DIGITS).unwrap_or(0) + scale);
        let fits = is_short || (-least() < *unscaled && *unscaled < least());
        fits.then_some(self)
    }

    /// The weight of the first digit of four, and that digit; zero has none.
    fn leading(&self) -> (i64, i16) {
        let (digits, weight) = self.groups();
        (i64::from(weight), digits.first().copied().unwrap_or(0))
    }

    /// The digits in base 10,000 without zeros at either end, and the first one's weight: PostgreSQL's own form.
    pub(super) fn groups(&self) -> (Vec<i16>, i16) {
        let Self::Finite { unscaled, scale } = self else { return (Vec::new(), 0) };
        let positive = if *unscaled < IBig::ZERO { -unscaled.clone() } else { unscaled.clone() };
        // Zeros behind, so that the point is between groups.
        let behind = (4 - scale % 4) % 4;
        let digits = (positive * power_of_ten(behind)).to_string();
        let fraction = i64::from((scale + behind) / 4);
        let padding = (4 - digits.len() % 4) % 4;
        let digits = format!("{}{digits}", "0".repeat(padding));
        let groups: Vec<i16> = digits
            .as_bytes()
            .chunks(4)
            .map(|group| group.iter().fold(0, |number, digit| number * 10 + i16::from(digit - b'0')))
            .collect();
        let first = groups.iter().position(|group| *group != 0);
        let Some(first) = first else { return (Vec::new(), 0) };
        let last = groups.iter().rposition(|group| *group != 0).unwrap_or(first);
        let count = |number: usize| i64::try_from(number).unwrap_or(i64::MAX);
        let weight = count(groups.len()) - fraction - 1 - count(first);
        let kept = groups.get(first..=last).unwrap_or_default().to_vec();
        (kept, i16::try_from(weight).unwrap_or(i16::MAX))
    }

    /// The number of digits in base 10,000 as PostgreSQL sends them.
    pub(super) fn from_groups(groups: &[i16], weight: i16, negative: bool, scale: u16) -> Option<Self> {
        let mut unscaled = IBig::ZERO;
        for group in groups {
            (0..10_000).contains(group).then_some(())?;
            unscaled = unscaled * IBig::from(10_000) + IBig::from(*group);
        }
        let behind = i64::try_from(groups.len()).ok()? - 1 - i64::from(weight);
        let number = if behind >= 0 {
            Self::Finite { unscaled, scale: u32::try_from(behind * 4).ok()? }
        } else {
            Self::Finite { unscaled: unscaled * power_of_ten(u32::try_from(-behind * 4).ok()?), scale: 0 }
        };
        let number = number.rescaled(u32::from(scale));
        Some(if negative { number.negated() } else { number })
    }
}

impl FromStr for Numeric {
    type Err = NotNumeric;

    fn from_str(text: &str) -> Result<Self, NotNumeric> {
        let text = text.trim();
        match text.to_ascii_lowercase().as_str() {
            "nan" => return Ok(Self::Nan),
            "infinity" | "+infinity" | "inf" | "+inf" => return Ok(Self::Infinity),
            "-infinity" | "-inf" => return Ok(Self::NegativeInfinity),
            _ => {}
        }
        let (negative, rest) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        let (mantissa, exponent) = rest.split_once(['e', 'E']).map_or((rest, 0), |(mantissa, exponent)| {
            (mantissa, exponent.parse::<i64>().unwrap_or(i64::MAX))
        });
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
        if (whole.is_empty() && fraction.is_empty()) || !digits(whole) || !digits(fraction) {
            return Err(NotNumeric::Syntax);
        }
        let length = |part: &str| i64::try_from(part.len()).unwrap_or(i64::MAX);
        if exponent.checked_abs().is_none_or(|size| size > MAX_WHOLE_DIGITS)
            || length(whole).saturating_add(exponent) > MAX_WHOLE_DIGITS
        {
            return Err(if exponent == i64::MAX { NotNumeric::Syntax } else { NotNumeric::Range });
        }
        let unscaled: IBig = format!("0{whole}{fraction}").parse().map_err(|_| NotNumeric::Syntax)?;
        let unscaled = if negative { -unscaled } else { unscaled };
        let scale = length(fraction) - exponent;
        match u32::try_from(scale) {
            Ok(scale) if scale <= MAX_SCALE => Ok(Self::Finite { unscaled, scale }),
            Ok(scale) => Ok(Self::Finite { unscaled, scale }.rescaled(MAX_SCALE)),
            Err(_) => {
                let zeros = u32::try_from(-scale).map_err(|_| NotNumeric::Range)?;
                Ok(Self::Finite { unscaled: unscaled * power_of_ten(zeros), scale: 0 })
            }
        }
    }
}

impl fmt::Display for Numeric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NegativeInfinity => f.write_str("-Infinity"),
            Self::Infinity => f.write_str("Infinity"),
            Self::Nan => f.write_str("NaN"),
            Self::Finite { unscaled, scale } => {
                let width = usize::try_from(*scale).unwrap_or(0);
                let sign = if *unscaled < IBig::ZERO { "-" } else { "" };
                let digits = unscaled.to_string();
                let digits = digits.trim_start_matches('-');
                let digits = format!("{digits:0>width$}", width = width + 1);
                let (whole, fraction) = digits.split_at(digits.len() - width);
                if width == 0 { write!(f, "{sign}{whole}") } else { write!(f, "{sign}{whole}.{fraction}") }
            }
        }
    }
}
