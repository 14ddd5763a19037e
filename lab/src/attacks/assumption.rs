//! What attacks take for granted, and how much of it is given to them.

use serde::{Deserialize, Serialize};

/// Something that an attack uses and does not see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Assumption {
    /// Auxiliary data of the values' distribution.
    Distribution,
    /// The least and the greatest value: the domain is all between them.
    Extremes,
    /// Every value of the domain occurs.
    Dense,
    /// Queries are uniform over all ranges of the domain.
    UniformQueries,
    /// The number of records.
    Records,
}

impl Assumption {
    /// In words.
    #[must_use]
    pub fn describe(self) -> &'static str {
        match self {
            Self::Distribution => "auxiliary data of the same distribution",
            Self::Extremes => "the least and the greatest value",
            Self::Dense => "every value between them occurs",
            Self::UniformQueries => "queries are uniform over all ranges",
            Self::Records => "the number of records",
        }
    }
}

/// Where the attacker has the least and the greatest value from, from the strongest assumption to none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Extremes {
    /// It is told those of the records.
    #[default]
    Records,
    /// It takes those of the auxiliary data for them.
    Auxiliary,
    /// It knows the numbers' type alone.
    Type,
}

impl Extremes {
    /// All, from the strongest on.
    pub const ALL: [Self; 3] = [Self::Records, Self::Auxiliary, Self::Type];

    /// Its name on the command line and in results.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Records => "records",
            Self::Auxiliary => "auxiliary",
            Self::Type => "type",
        }
    }

    /// In words.
    #[must_use]
    pub fn describe(self) -> &'static str {
        match self {
            Self::Records => "the records' least and greatest, told to it",
            Self::Auxiliary => "the least and the greatest of the auxiliary data",
            Self::Type => "all that the type holds",
        }
    }

    /// That of a name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|extremes| extremes.name() == name)
    }
}
