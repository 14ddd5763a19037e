//! The types that an encrypted column can have, as PostgreSQL names and numbers them.

/// The logical type of an encrypted column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ColumnType {
    /// 16 bits.
    SmallInt,
    /// 32 bits.
    Integer,
    /// 64 bits.
    BigInt,
    /// IEEE 754 binary32.
    Real,
    /// IEEE 754 binary64.
    DoublePrecision,
    /// Decimal; with digits in all and digits after the point if both are declared.
    Numeric(Option<(u16, u16)>),
    /// Text of any length.
    Text,
    /// Text of so many characters at most, if a number is declared.
    Varchar(Option<u32>),
    /// A day.
    Date,
    /// A day and a time, in no zone; with digits of a second if they are declared.
    Timestamp(Option<u8>),
    /// A moment; the same.
    TimestampTz(Option<u8>),
    /// 16 bytes.
    Uuid,
    /// True or false.
    Boolean,
    /// Bytes.
    Bytea,
    /// JSON as text.
    Json,
    /// JSON, parsed.
    Jsonb,
}

impl ColumnType {
    /// Are its values numbers?
    #[must_use]
    pub fn is_number(self) -> bool {
        self.is_integer() || matches!(self, Self::Numeric(_) | Self::Real | Self::DoublePrecision)
    }

    /// Are its values whole numbers?
    #[must_use]
    pub fn is_integer(self) -> bool {
        matches!(self, Self::SmallInt | Self::Integer | Self::BigInt)
    }

    /// Are its values texts?
    #[must_use]
    pub fn is_text(self) -> bool {
        matches!(self, Self::Text | Self::Varchar(_))
    }

    /// Are its values days or moments?
    #[must_use]
    pub fn is_time(self) -> bool {
        matches!(self, Self::Date | Self::Timestamp(_) | Self::TimestampTz(_))
    }

    /// The type without digits or a length.
    #[must_use]
    pub fn plain(self) -> Self {
        match self {
            Self::Numeric(_) => Self::Numeric(None),
            Self::Varchar(_) => Self::Varchar(None),
            Self::Timestamp(_) => Self::Timestamp(None),
            Self::TimestampTz(_) => Self::TimestampTz(None),
            other => other,
        }
    }

    /// Has it a zone, as a moment has?
    #[must_use]
    pub fn is_zoned(self) -> bool {
        matches!(self, Self::TimestampTz(_))
    }

    /// Do two types have the same values? All digits of a second are those that a moment has.
    #[must_use]
    pub fn is_same(self, other: Self) -> bool {
        let whole = |kind| match kind {
            Self::Timestamp(Some(6)) => Self::Timestamp(None),
            Self::TimestampTz(Some(6)) => Self::TimestampTz(None),
            kind => kind,
        };
        whole(self) == whole(other)
    }

    /// PostgreSQL's number of the type: the same in every installation.
    #[must_use]
    pub fn oid(self) -> u32 {
        match self {
            Self::SmallInt => 21,
            Self::Integer => 23,
            Self::BigInt => 20,
            Self::Real => 700,
            Self::DoublePrecision => 701,
            Self::Numeric(_) => 1700,
            Self::Text => 25,
            Self::Varchar(_) => 1043,
            Self::Date => 1082,
            Self::Timestamp(_) => 1114,
            Self::TimestampTz(_) => 1184,
            Self::Uuid => 2950,
            Self::Boolean => 16,
            Self::Bytea => 17,
            Self::Json => 114,
            Self::Jsonb => 3802,
        }
    }

    /// PostgreSQL's number of the type of arrays of it.
    #[must_use]
    pub fn array_oid(self) -> u32 {
        match self {
            Self::SmallInt => 1005,
            Self::Integer => 1007,
            Self::BigInt => 1016,
            Self::Real => 1021,
            Self::DoublePrecision => 1022,
            Self::Numeric(_) => 1231,
            Self::Text => 1009,
            Self::Varchar(_) => 1015,
            Self::Date => 1182,
            Self::Timestamp(_) => 1115,
            Self::TimestampTz(_) => 1185,
            Self::Uuid => 2951,
            Self::Boolean => 1000,
            Self::Bytea => 1001,
            Self::Json => 199,
            Self::Jsonb => 3807,
        }
    }

    /// What a `RowDescription` says of the length: bytes, or -1 where it differs from value to value.
    #[must_use]
    pub fn length(self) -> i16 {
        match self {
            Self::SmallInt => 2,
            Self::Integer | Self::Real | Self::Date => 4,
            Self::BigInt | Self::DoublePrecision | Self::Timestamp(_) | Self::TimestampTz(_) => 8,
            Self::Uuid => 16,
            Self::Boolean => 1,
            Self::Numeric(_) | Self::Text | Self::Varchar(_) | Self::Bytea | Self::Json | Self::Jsonb => -1,
        }
    }

    /// PostgreSQL's type modifier: -1 for none.
    #[must_use]
    pub fn modifier(self) -> i32 {
        match self {
            Self::Numeric(Some((precision, scale))) => ((i32::from(precision) << 16) | i32::from(scale)) + 4,
            Self::Varchar(Some(length)) => {
                i32::try_from(length).map_or(-1, |length| length.saturating_add(4))
            }
            Self::Timestamp(Some(digits)) | Self::TimestampTz(Some(digits)) => digits.into(),
            Self::SmallInt
            | Self::Integer
            | Self::BigInt
            | Self::Real
            | Self::DoublePrecision
            | Self::Numeric(None)
            | Self::Text
            | Self::Varchar(None)
            | Self::Date
            | Self::Timestamp(None)
            | Self::TimestampTz(None)
            | Self::Uuid
            | Self::Boolean
            | Self::Bytea
            | Self::Json
            | Self::Jsonb => -1,
        }
    }

    /// The name as `format_type` prints it.
    #[must_use]
    pub fn name(self) -> String {
        match self {
            Self::SmallInt => "smallint".into(),
            Self::Integer => "integer".into(),
            Self::BigInt => "bigint".into(),
            Self::Real => "real".into(),
            Self::DoublePrecision => "double precision".into(),
            Self::Numeric(None) => "numeric".into(),
            Self::Numeric(Some((precision, scale))) => format!("numeric({precision},{scale})"),
            Self::Text => "text".into(),
            Self::Varchar(None) => "character varying".into(),
            Self::Varchar(Some(length)) => format!("character varying({length})"),
            Self::Date => "date".into(),
            Self::Timestamp(None) => "timestamp without time zone".into(),
            Self::Timestamp(Some(digits)) => format!("timestamp({digits}) without time zone"),
            Self::TimestampTz(None) => "timestamp with time zone".into(),
            Self::TimestampTz(Some(digits)) => format!("timestamp({digits}) with time zone"),
            Self::Uuid => "uuid".into(),
            Self::Boolean => "boolean".into(),
            Self::Bytea => "bytea".into(),
            Self::Json => "json".into(),
            Self::Jsonb => "jsonb".into(),
        }
    }

    /// The type that a name of PostgreSQL's means, without regard to case and blanks: `int4`, `varchar(20)`,
    /// `TIMESTAMP WITH TIME ZONE`. None: no such type, or none that a column can be encrypted as.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        let name = name.trim().to_ascii_lowercase().replace('"', "");
        let name = name.strip_prefix("pg_catalog.").unwrap_or(&name).to_owned();
        let (word, rest) =
            name.split_once('(').map_or((name.as_str(), None), |(word, rest)| (word, Some(rest)));
        let (numbers, behind) = match rest {
            None => (Vec::new(), ""),
            Some(rest) => {
                let (inside, behind) = rest.split_once(')')?;
                let numbers = inside.split(',').map(|number| number.trim().parse().ok());
                (numbers.collect::<Option<Vec<u32>>>()?, behind)
            }
        };
        let word = word.split_whitespace().chain(behind.split_whitespace()).collect::<Vec<_>>().join(" ");
        // Of moments only, the digits stand within the name.
        if !behind.is_empty() && !word.starts_with("timestamp ") {
            return None;
        }
        let plain = match word.as_str() {
            // Digits in base 2 that it has at least.
            "float" if !numbers.is_empty() => {
                return match *numbers {
                    [1..=24] => Some(Self::Real),
                    [25..=53] => Some(Self::DoublePrecision),
                    _ => None,
                };
            }
            "smallint" | "int2" => Self::SmallInt,
            "integer" | "int" | "int4" => Self::Integer,
            "bigint" | "int8" => Self::BigInt,
            "real" | "float4" => Self::Real,
            "double precision" | "float8" | "float" => Self::DoublePrecision,
            "text" => Self::Text,
            "date" => Self::Date,
            "uuid" => Self::Uuid,
            "boolean" | "bool" => Self::Boolean,
            "bytea" => Self::Bytea,
            "json" => Self::Json,
            "jsonb" => Self::Jsonb,
            "timestamp" | "timestamp without time zone" => return Self::of_digits(&numbers, Self::Timestamp),
            "timestamptz" | "timestamp with time zone" => {
                return Self::of_digits(&numbers, Self::TimestampTz);
            }
            "numeric" | "decimal" | "dec" => {
                return match *numbers {
                    [] => Some(Self::Numeric(None)),
                    [precision] => Self::numeric(precision, 0),
                    [precision, scale] => Self::numeric(precision, scale),
                    _ => None,
                };
            }
            "varchar" | "character varying" | "char varying" => {
                return match *numbers {
                    [] => Some(Self::Varchar(None)),
                    [length @ 1..=10_485_760] => Some(Self::Varchar(Some(length))),
                    _ => None,
                };
            }
            _ => return None,
        };
        numbers.is_empty().then_some(plain)
    }

    /// Of more digits than six PostgreSQL takes six, and warns.
    fn of_digits(numbers: &[u32], of: fn(Option<u8>) -> Self) -> Option<Self> {
        match *numbers {
            [] => Some(of(None)),
            [digits @ 0..=6] => Some(of(u8::try_from(digits).ok())),
            _ => None,
        }
    }

    fn numeric(precision: u32, scale: u32) -> Option<Self> {
        let fits = (1..=1000).contains(&precision) && scale <= precision;
        let digits = (u16::try_from(precision).ok()?, u16::try_from(scale).ok()?);
        fits.then_some(Self::Numeric(Some(digits)))
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::ColumnType;

    #[test]
    fn a_type_is_found_by_every_name_and_prints_as_postgresql_prints_it() {
        for (given, printed) in [
            ("INT4", "integer"),
            ("int", "integer"),
            ("varchar( 20 )", "character varying(20)"),
            ("CHARACTER  VARYING", "character varying"),
            ("numeric(12, 2)", "numeric(12,2)"),
            ("decimal(5)", "numeric(5,0)"),
            ("timestamptz", "timestamp with time zone"),
            ("Double Precision", "double precision"),
            ("float(53)", "double precision"),
            ("FLOAT(24)", "real"),
            ("timestamptz(6)", "timestamp(6) with time zone"),
            ("timestamp (0) WITHOUT time zone", "timestamp(0) without time zone"),
            ("char varying(20)", "character varying(20)"),
            ("pg_catalog.\"varchar\"(20)", "character varying(20)"),
        ] {
            let parsed = ColumnType::parse(given).unwrap();
            assert_eq!(parsed.name(), printed);
            assert_eq!(ColumnType::parse(printed), Some(parsed));
        }
        for wrong in [
            "point",
            "numeric(0)",
            "numeric(3,4)",
            "varchar(0)",
            "int(4)",
            "float(54)",
            "timestamp(7)",
            "timestamp(3) of day",
            "timestamptz(3) with time zone",
            "numeric(3) with time zone",
            "varchar(3)(4)",
            "varchar(x)",
            "text(",
        ] {
            assert_eq!(ColumnType::parse(wrong), None, "{wrong}");
        }
        assert_eq!(ColumnType::parse("numeric(12,2)").unwrap().modifier(), 786_438);
        assert_eq!(ColumnType::parse("varchar(20)").unwrap().modifier(), 24);
        assert_eq!(ColumnType::parse("timestamptz(0)").unwrap().modifier(), 0);
    }
}
