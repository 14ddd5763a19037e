//! Which attacks to carry out, and whether they can be.

use super::span::Span;
use super::split::{halves, repeats, shared};
use super::{Attack, Extremes, Knowledge, Target};
use crate::datasets::{self, Dataset, NumberType, RandUnit};
use crate::protocols::{self, ProtocolEntry};
use crate::run::{ALL_PROTOCOLS, FieldError};
use crate::seed;
use serde::{Deserialize, Serialize};

/// Stands for every attack.
pub const ALL_ATTACKS: &str = "all";
/// Splits data row by row.
pub const NO_GROUP: &str = "none";
/// Most records of an attacked run.
pub const ATTACKED_RECORDS_MAX: usize = 100_000;
/// Most queries that are watched.
const QUERIES_MAX: usize = 1_000_000;

/// What the attacker knows of the values' distribution.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Auxiliary {
    /// As many other values of the same distribution: a generated set is drawn again from another seed; of other data a
    /// random half is attacked and the other half is the attacker's, split by [`AttackRequest::group`].
    #[default]
    SameDistribution,
    /// The values in `auxiliary_data`.
    Supplied,
}

/// Which attacks to carry out on what.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AttackRequest {
    /// Names of attacks, or [`ALL_ATTACKS`].
    pub attacks: Vec<String>,
    /// Names of protocols, or `all`.
    pub protocols: Vec<String>,
    /// How many records are attacked; 0 for all of the data there is.
    pub records: usize,
    /// Where the values come from.
    pub dataset: Dataset,
    /// The values, for [`Dataset::Supplied`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub data: Option<Vec<i64>>,
    /// What the attacker knows of their distribution.
    pub auxiliary: Auxiliary,
    /// The attacker's values, for [`Auxiliary::Supplied`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auxiliary_data: Option<Vec<i64>>,
    /// Whose rows stay together when data are split: the name of a column, or [`NO_GROUP`]. None: the data set's own
    /// unit ([`Dataset::unit`]), if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// The group of each of `data`, for [`Dataset::Supplied`] with a `group`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group_data: Option<Vec<u64>>,
    /// Where the attacker has the least and the greatest value from.
    pub extremes: Extremes,
    /// Queries that are watched.
    pub queries: usize,
    /// Which numbers the values are of.
    pub numbers: NumberType,
    /// Size of a page, in bytes.
    pub page_bytes: usize,
    /// Everything random comes from it.
    pub seed: u64,
}

impl Default for AttackRequest {
    fn default() -> Self {
        Self {
            attacks: vec![ALL_ATTACKS.to_owned()],
            protocols: vec![ALL_PROTOCOLS.to_owned()],
            records: 1000,
            dataset: Dataset::default(),
            data: None,
            auxiliary: Auxiliary::default(),
            auxiliary_data: None,
            group: None,
            group_data: None,
            extremes: Extremes::default(),
            queries: 1000,
            numbers: NumberType::default(),
            page_bytes: 4096,
            seed: 1,
        }
    }
}

/// A request that was found good, with its data.
#[derive(Clone, Debug)]
pub struct AttackPlan {
    /// The request, without the data that was supplied.
    pub request: AttackRequest,
    /// What is carried out against what. An obstacle is in place of what cannot be.
    pub pairs: Vec<(&'static Attack, &'static ProtocolEntry, Option<String>)>,
    /// What is attacked.
    pub target: Target,
    /// Share of the attacked records whose value the auxiliary data hold, too.
    pub shared: f64,
    /// What makes the rates other than they look.
    pub warnings: Vec<String>,
}

fn error(field: &str, message: impl Into<String>) -> FieldError {
    FieldError { field: field.to_owned(), message: message.into() }
}

/// The rows that names stand for, each once, in the order asked for.
fn chosen<T>(
    (field, what): (&str, &str),
    given: &[String],
    rows: &'static [T],
    name: impl Fn(&T) -> &'static str,
    in_all: impl Fn(&T) -> bool,
    errors: &mut Vec<FieldError>,
) -> Vec<&'static T> {
    let known = || rows.iter().map(&name).collect::<Vec<_>>().join(", ");
    let mut found: Vec<&'static T> = Vec::new();
    for asked in given {
        let matching: Vec<&'static T> =
            rows.iter().filter(|row| if asked == "all" { in_all(row) } else { name(row) == asked }).collect();
        if matching.is_empty() {
            errors.push(error(field, format!("no {what} is named {asked}; there are: {}, all", known())));
        }
        for row in matching {
            if !found.iter().any(|other| name(other) == name(row)) {
                found.push(row);
            }
        }
    }
    if given.is_empty() {
        errors.push(error(field, format!("choose at least one of: {}, all", known())));
    }
    found
}

impl AttackRequest {
    /// Checks everything and makes the data, before any work starts.
    ///
    /// # Errors
    /// Every mistake, by field.
    pub fn plan(mut self) -> Result<AttackPlan, Vec<FieldError>> {
        let mut errors = Vec::new();
        let attacks =
            chosen(("attacks", "attack"), &self.attacks, super::ALL, |row| row.name, |_| true, &mut errors);
        let protocols = chosen(
            ("protocols", "protocol"),
            &self.protocols,
            protocols::ALL,
            |row| row.name,
            |row| row.in_all,
            &mut errors,
        );
        self.check_sizes(&protocols, &mut errors);
        let (values, auxiliary) = self.take_values(&mut errors);
        let shared = shared(&values, &auxiliary);
        let warnings: Vec<String> = self.warning(&values, shared).into_iter().collect();
        let span = self.extremes(&values, &auxiliary);
        let Some(Span { least, greatest }) = span.filter(|_| errors.is_empty()) else {
            return Err(errors);
        };
        let knowledge = Knowledge { auxiliary, least, greatest, numbers: self.numbers };
        let (queries, page_bytes, seed) = (self.queries, self.page_bytes, self.seed);
        let target = Target { values, knowledge, queries, page_bytes, seed };
        let pairs = self.pairs(&attacks, &protocols, &target, &mut errors);
        self.records = target.values.len();
        if errors.is_empty() {
            Ok(AttackPlan { request: self, pairs, target, shared, warnings })
        } else {
            Err(errors)
        }
    }

    /// What the attacker takes for the least and the greatest value; none of no values.
    fn extremes(&self, values: &[i64], auxiliary: &[i64]) -> Option<Span> {
        match self.extremes {
            Extremes::Records => Span::of(values),
            Extremes::Auxiliary => Span::of(auxiliary),
            Extremes::Type => {
                let (least, greatest) = self.numbers.domain().limits();
                let within = |limit: i128| limit.clamp(i128::from(i64::MIN), i128::from(i64::MAX)) as i64;
                Some(Span { least: within(least), greatest: within(greatest) })
            }
        }
    }

    /// Of data whose rows may belong together and were split one by one.
    fn warning(&self, values: &[i64], shared: f64) -> Option<String> {
        let split = self.dataset == Dataset::Supplied && self.auxiliary == Auxiliary::SameDistribution;
        (split && self.group.is_none() && repeats(values)).then(|| {
            format!(
                "values repeat, and {:.0}% of the attacked records have a value that is in the attacker's half as well: \
                 if rows belong together (of one person, say), name the column that tells (--group), or rates are too high; if they do not, say --group none",
                shared * 100.0
            )
        })
    }

    /// What is asked for and works; asking for one thing that does not is a mistake.
    fn pairs(
        &self,
        attacks: &[&'static Attack],
        protocols: &[&'static ProtocolEntry],
        target: &Target,
        errors: &mut Vec<FieldError>,
    ) -> Vec<(&'static Attack, &'static ProtocolEntry, Option<String>)> {
        let mut pairs = Vec::new();
        for attack in attacks {
            let obstacle = (attack.obstacle)(target);
            if let Some(why) =
                obstacle.as_ref().filter(|_| self.attacks.iter().any(|name| name == attack.name))
            {
                errors.push(error("attacks", format!("{}: {why}", attack.name)));
            }
            let concerned: Vec<_> =
                protocols.iter().filter(|protocol| attack.concerns(protocol.name)).collect();
            if concerned.is_empty() && self.attacks.iter().any(|name| name == attack.name) {
                let works = attack.protocols().join(", ");
                errors.push(error("protocols", format!("{} works against: {works}", attack.name)));
            }
            pairs.extend(concerned.into_iter().map(|protocol| (*attack, *protocol, obstacle.clone())));
        }
        if pairs.is_empty() && errors.is_empty() {
            errors.push(error("protocols", "no attack here works against them"));
        }
        pairs
    }

    fn check_sizes(&self, protocols: &[&'static ProtocolEntry], errors: &mut Vec<FieldError>) {
        if self.records > ATTACKED_RECORDS_MAX {
            errors.push(error("records", format!("at most {ATTACKED_RECORDS_MAX} records")));
        }
        if self.queries == 0 || self.queries > QUERIES_MAX {
            errors.push(error("queries", format!("1 to {QUERIES_MAX} queries")));
        }
        if self.page_bytes > crate::run::PAGE_BYTES_MAX {
            errors.push(error("page_bytes", format!("at most {}", crate::run::PAGE_BYTES_MAX)));
        }
        let width = self.numbers.domain().width;
        let least = protocols.iter().map(|protocol| ((protocol.page_bytes_min)(width), protocol.name)).max();
        if let Some((least, name)) = least.filter(|(least, _)| self.page_bytes < *least) {
            errors.push(error(
                "page_bytes",
                format!("{} bytes: {name} needs at least {least}", self.page_bytes),
            ));
        }
    }

    /// The records' values, and the attacker's, ascending.
    fn take_values(&mut self, errors: &mut Vec<FieldError>) -> (Vec<i64>, Vec<i64>) {
        let auxiliary = match (self.auxiliary, self.auxiliary_data.take()) {
            (Auxiliary::Supplied, Some(values)) if !values.is_empty() => Some(values),
            (Auxiliary::Supplied, _) => {
                errors.push(error("auxiliary", "no values"));
                None
            }
            (Auxiliary::SameDistribution, _) => None,
        };
        let groups = self.group_data.take().unwrap_or_default();
        if self.group.is_none() {
            self.group = self.dataset.unit().map(str::to_owned);
        }
        let (values, mut auxiliary) = match (self.dataset, self.data.take()) {
            (Dataset::Supplied, None) => {
                errors.push(error("data", "no data: supply some, or choose a data set"));
                return (Vec::new(), Vec::new());
            }
            (Dataset::Supplied, Some(data)) => self.supplied(&data, &groups, auxiliary, errors),
            (Dataset::RandIncome, _) => self.rand_incomes(auxiliary, errors),
            _ => self.generated(auxiliary, errors),
        };
        for (field, values) in [("data", &values), ("auxiliary", &auxiliary)] {
            if let Some(value) = values.iter().find(|value| !self.numbers.holds(**value)) {
                errors.push(error(field, format!("{value} is outside {}", self.numbers.name())));
            }
        }
        auxiliary.sort_unstable();
        (values, auxiliary)
    }

    /// Of a generated set: the attacker's values are drawn from another seed.
    fn generated(&self, auxiliary: Option<Vec<i64>>, errors: &mut Vec<FieldError>) -> (Vec<i64>, Vec<i64>) {
        if self.records == 0 {
            errors.push(error("records", "at least 1 record"));
        }
        if self.group.as_ref().is_some_and(|group| group != NO_GROUP) {
            errors.push(error("group", "rows of generated data are of nobody"));
        }
        let records = self.records.clamp(1, ATTACKED_RECORDS_MAX);
        let other = || self.dataset.values(records, self.seed ^ OTHER_SEED);
        (self.dataset.values(records, self.seed), auxiliary.unwrap_or_else(other))
    }

    fn rand_incomes(
        &self,
        auxiliary: Option<Vec<i64>>,
        errors: &mut Vec<FieldError>,
    ) -> (Vec<i64>, Vec<i64>) {
        let by = match self.group.as_deref() {
            None | Some(NO_GROUP) => None,
            Some(name) => match RandUnit::named(name) {
                Some(unit) => Some(unit),
                None => {
                    errors.push(error("group", format!("rand_income has: person, family, {NO_GROUP}")));
                    None
                }
            },
        };
        let (values, groups) = datasets::rand_incomes_by(by);
        self.part(&values, &groups, auxiliary, errors)
    }

    fn supplied(
        &self,
        data: &[i64],
        groups: &[u64],
        auxiliary: Option<Vec<i64>>,
        errors: &mut Vec<FieldError>,
    ) -> (Vec<i64>, Vec<i64>) {
        let named = self.group.as_ref().is_some_and(|group| group != NO_GROUP);
        if named == groups.is_empty() || named && groups.len() != data.len() {
            errors.push(error("group", "a group for each value is needed, and its name"));
        }
        self.part(data, groups, auxiliary, errors)
    }

    /// Of data that cannot be drawn again: the part that is attacked, and the attacker's.
    fn part(
        &self,
        data: &[i64],
        groups: &[u64],
        auxiliary: Option<Vec<i64>>,
        errors: &mut Vec<FieldError>,
    ) -> (Vec<i64>, Vec<i64>) {
        let (mut data, auxiliary) = match auxiliary {
            Some(auxiliary) => {
                let mut data = data.to_vec();
                seed::shuffle(&mut seed::prg(self.seed, "order of the data"), &mut data);
                (data, auxiliary)
            }
            None => {
                let halves = halves(data, groups, self.seed);
                (halves.attacked, halves.auxiliary)
            }
        };
        if data.is_empty() || auxiliary.is_empty() {
            let message = match self.group.as_deref() {
                Some(group) if group != NO_GROUP => {
                    format!("all are of one {group}: nothing is left for the attacker")
                }
                _ => "too few values: at least 2, half of them for the attacker".to_owned(),
            };
            errors.push(error("data", message));
        }
        if self.records > data.len() {
            let message = format!("there are {} to attack, the rest is the attacker's", data.len());
            errors.push(error("records", message));
        }
        let records = if self.records == 0 { data.len() } else { self.records };
        if records > ATTACKED_RECORDS_MAX {
            errors.push(error("records", format!("at most {ATTACKED_RECORDS_MAX} records")));
        }
        data.truncate(records);
        (data, auxiliary)
    }
}

/// Makes of a seed that of the attacker's sample.
const OTHER_SEED: u64 = 0x6175_7869_6c69_6172;
