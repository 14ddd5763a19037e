//! Incomes of the RAND Health Insurance Experiment, in the public domain; `trusted/proxy/data/README.md` has the
//! source.

use std::collections::BTreeMap;
use std::io::Read;
use std::sync::OnceLock;

const TABLE: &[u8] = include_bytes!("../../../trusted/proxy/data/randhie.csv.gz");

/// Whose a row is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A person: one to five years of it.
    Person,
    /// A family. The table does not name them: persons of consecutive numbers at one site, in one plan and of one
    /// income, which is the family's, are taken for one.
    Family,
}

impl Unit {
    /// Its name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Person => "person",
            Self::Family => "family",
        }
    }

    /// That of a name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        [Self::Person, Self::Family].into_iter().find(|unit| unit.name() == name)
    }
}

/// A row of the table, as far as it is read.
#[derive(Clone, Debug)]
struct PersonYear {
    person: u64,
    /// Site, plan and income, as they are written: what persons of a family have in common.
    family: [String; 3],
    /// In dollars, cents cut off.
    income: i64,
}

/// Income of each person-year, in dollars, cents cut off.
pub(super) fn incomes() -> Vec<i64> {
    table().iter().map(|row| row.income).collect()
}

/// Whose each person-year is.
pub(super) fn units(unit: Unit) -> Vec<u64> {
    let rows = table();
    if unit == Unit::Person {
        return rows.iter().map(|row| row.person).collect();
    }
    let persons: BTreeMap<u64, &[String; 3]> = rows.iter().map(|row| (row.person, &row.family)).collect();
    let mut family_of: BTreeMap<u64, u64> = BTreeMap::new();
    let mut before: Option<&[String; 3]> = None;
    let mut family = 0;
    for (person, common) in &persons {
        family += u64::from(before != Some(*common));
        family_of.insert(*person, family);
        before = Some(common);
    }
    rows.iter().map(|row| family_of.get(&row.person).copied().unwrap_or_default()).collect()
}

fn table() -> &'static [PersonYear] {
    static TABLE_READ: OnceLock<Vec<PersonYear>> = OnceLock::new();
    TABLE_READ.get_or_init(read)
}

fn read() -> Vec<PersonYear> {
    let mut text = String::new();
    if flate2::read::GzDecoder::new(TABLE).read_to_string(&mut text).is_err() {
        return Vec::new();
    }
    let mut lines = text.lines();
    let header: Vec<&str> = lines.next().unwrap_or_default().split(',').collect();
    let row = |line: &str| {
        let fields: Vec<&str> = line.split(',').collect();
        let field = |name: &str| fields.get(header.iter().position(|column| *column == name)?).copied();
        let common = |name: &str| field(name).map(str::to_owned);
        Some(PersonYear {
            person: field("person")?.parse().ok()?,
            family: [common("site")?, common("plan")?, common("income")?],
            income: field("income")?.parse::<f64>().ok()? as i64,
        })
    };
    lines.filter_map(row).collect()
}
