//! Data sets: generated from a seed, a public one, and a user's own.
//!
//! The generated ones follow section 5.2 of Bogatov, Kollios and Reyzin, *A comparative evaluation of
//! order-revealing encryption schemes and secure range-query protocols* (VLDB 2019): uniform over a range of a third
//! of the data's size, and normal with a standard deviation of a tenth of it. The paper's third set, the pay of
//! California's public employees, cannot be had without the internet; [`Dataset::Salaries`] resembles it.

mod generate;
mod import;
mod randhie;
#[cfg(test)]
mod tests;

pub use import::{Column, Decimals, ImportError, import_data, import_groups, import_queries};
pub use randhie::Unit as RandUnit;

use crate::queries::RangeQuery;
use arras_schemes::ore::domain::Domain;
use serde::{Deserialize, Serialize};

/// Where the values come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Dataset {
    /// Normal: mean half the number of records, standard deviation a tenth of it.
    Normal,
    /// Annual incomes of families in dollars, of the RAND Health Insurance Experiment: public domain, 20,190
    /// person-years of 5,912 persons, each with the income of its family in all of its years; 0 the smallest. A
    /// smaller number of records is a random part of them.
    RandIncome,
    /// Yearly pay in dollars: a mixture of part-time, ordinary and high salaries, each log-normal, below 500,000.
    Salaries,
    /// The user's own.
    Supplied,
    /// Uniform over as many values as a third of the records.
    #[default]
    Uniform,
    /// Zipf with exponent 1 over as many values as a third of the records; the smallest is the most frequent.
    Zipf,
}

impl Dataset {
    /// All that need no file.
    pub const BUILT_IN: [Self; 5] =
        [Self::Uniform, Self::Normal, Self::Salaries, Self::Zipf, Self::RandIncome];

    /// Its name in results and on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Normal => "normal",
            Self::RandIncome => "rand_income",
            Self::Salaries => "salaries",
            Self::Supplied => "supplied",
            Self::Uniform => "uniform",
            Self::Zipf => "zipf",
        }
    }

    /// What it is, in words.
    #[must_use]
    pub fn describe(self) -> &'static str {
        match self {
            Self::Normal => "normal, standard deviation a tenth of the number of records",
            Self::RandIncome => {
                "family incomes of the RAND Health Insurance Experiment (20,190 person-years, public domain)"
            }
            Self::Salaries => "salary-like: yearly pay in dollars, skewed",
            Self::Supplied => "your own",
            Self::Uniform => "uniform over as many values as a third of the records",
            Self::Zipf => "Zipf, exponent 1: few values are very frequent",
        }
    }

    /// The set of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::BUILT_IN.into_iter().find(|dataset| dataset.name() == name)
    }

    /// Whose rows belong together, if it is known of it.
    #[must_use]
    pub fn unit(self) -> Option<&'static str> {
        (self == Self::RandIncome).then(|| RandUnit::Person.name())
    }

    /// Most records it has, if there is a bound.
    #[must_use]
    pub fn records_max(self) -> Option<usize> {
        (self == Self::RandIncome).then(|| randhie::incomes().len())
    }

    /// `records` values in random order, the same for the same seed. Empty for [`Dataset::Supplied`].
    #[must_use]
    pub fn values(self, records: usize, seed: u64) -> Vec<i64> {
        match self {
            Self::Normal => generate::normal(records, seed),
            Self::RandIncome => generate::part(randhie::incomes(), records, seed),
            Self::Salaries => generate::salaries(records, seed),
            Self::Supplied => Vec::new(),
            Self::Uniform => generate::uniform(records, seed),
            Self::Zipf => generate::zipf(records, seed),
        }
    }
}

/// The values of [`Dataset::RandIncome`] in order of the table, and the unit that each is of; no units if none is
/// asked for.
#[must_use]
pub fn rand_incomes_by(unit: Option<RandUnit>) -> (Vec<i64>, Vec<u64>) {
    (randhie::incomes(), unit.map(randhie::units).unwrap_or_default())
}

/// Which numbers a run's values are of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NumberType {
    /// Signed, 32 bits.
    #[default]
    I32,
    /// Signed, 64 bits.
    I64,
    /// Unsigned, 32 bits.
    U32,
    /// Unsigned, 64 bits; those above 2^63 - 1 cannot be written in a run's data.
    U64,
}

impl NumberType {
    /// All types.
    pub const ALL: [Self; 4] = [Self::I32, Self::U32, Self::I64, Self::U64];

    /// Its name in results and on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::I32 => "i32",
            Self::I64 => "i64",
            Self::U32 => "u32",
            Self::U64 => "u64",
        }
    }

    /// The type of that name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|numbers| numbers.name() == name)
    }

    /// How its numbers become plaintexts.
    #[must_use]
    pub fn domain(self) -> Domain {
        match self {
            Self::I32 => Domain::I32,
            Self::I64 => Domain::I64,
            Self::U32 => Domain::U32,
            Self::U64 => Domain::U64,
        }
    }

    /// Whether a value is of the type.
    #[must_use]
    pub fn holds(self, value: i64) -> bool {
        self.domain().plaintext(i128::from(value)).is_some()
    }

    /// Brings a range within the type's limits; what is outside them holds no record.
    #[must_use]
    pub fn clamp(self, query: RangeQuery) -> RangeQuery {
        let (least, greatest) = self.domain().limits();
        let clamped = |value: i64| i64::try_from(i128::from(value).clamp(least, greatest)).unwrap_or(value);
        RangeQuery { lower: clamped(query.lower), upper: clamped(query.upper) }
    }
}
