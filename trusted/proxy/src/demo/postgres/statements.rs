//! What the demonstration asks, and what the plaintext answers.

use super::super::data::Person;
use std::collections::BTreeMap;
use std::fmt::Write;

/// Rows as text, NULL as none.
pub(crate) type Rows = Vec<Vec<Option<String>>>;

/// A statement and the plaintext's answer.
pub(crate) struct Statement {
    /// What it shows.
    pub(crate) kind: &'static str,
    /// As the application writes it.
    pub(crate) text: &'static str,
    /// What a column's terms show of it.
    pub(crate) does: Does,
    /// Whether the order of its rows is determined.
    pub(crate) is_ordered: bool,
    /// What it comes to on the data, which a change changes.
    pub(crate) expect: fn(&mut Vec<Person>) -> Rows,
}

/// What a statement does with the values of its columns.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Does {
    /// Looks for them.
    Search,
    /// Looks for them, and changes or removes rows.
    Change,
    /// Nothing: the schema does not allow it. What is expected is the SQLSTATE of the refusal.
    Refused,
}

pub(crate) const CREATE: &str = "CREATE TABLE people (id integer PRIMARY KEY, person bigint, site integer, plan integer, \
    year integer, age double precision, female boolean, income double precision, health varchar(10), visits integer, \
    medical double precision)";

/// Inserts some people.
pub(crate) fn insert(people: &[Person]) -> String {
    let mut text = String::from("INSERT INTO people VALUES ");
    for (at, person) in people.iter().enumerate() {
        let number = |value: Option<f64>| value.map_or_else(|| "NULL".into(), |value| value.to_string());
        let comma = if at == 0 { "" } else { ", " };
        // Writing to a string does not fail.
        let _ = write!(
            text,
            "{comma}({}, {}, {}, {}, {}, {}, {}, {}, '{}', {}, {})",
            person.id,
            person.person,
            person.site,
            person.plan,
            person.year,
            number(person.age),
            person.female == 1,
            number(person.income),
            person.health.replace('\'', "''"),
            person.visits,
            number(person.medical)
        );
    }
    text
}

/// Rows of one value.
fn one(value: impl ToString) -> Rows {
    vec![vec![Some(value.to_string())]]
}

fn count(people: &[Person], of: impl Fn(&Person) -> bool) -> usize {
    people.iter().filter(|person| of(person)).count()
}

pub(crate) fn all() -> Vec<Statement> {
    reads().into_iter().chain(changes()).collect()
}

fn statement(kind: &'static str, text: &'static str, expect: fn(&mut Vec<Person>) -> Rows) -> Statement {
    Statement { kind, text, does: Does::Search, is_ordered: true, expect }
}

fn change(kind: &'static str, text: &'static str, expect: fn(&mut Vec<Person>) -> Rows) -> Statement {
    Statement { does: Does::Change, ..statement(kind, text, expect) }
}

fn reads() -> Vec<Statement> {
    vec![
        statement(
            "equality",
            "SELECT id, year, health FROM people WHERE person = 125024 ORDER BY id",
            |people| {
                let own = people.iter().filter(|person| person.person == 125_024);
                own.map(|person| vec![person.id.to_string(), person.year.to_string(), person.health.clone()])
                    .map(|row| row.into_iter().map(Some).collect())
                    .collect()
            },
        ),
        statement(
            "one of several values",
            "SELECT count(*) FROM people WHERE health IN ('poor', 'fair')",
            |people| one(count(people, |person| ["poor", "fair"].contains(&person.health.as_str()))),
        ),
        statement("range", "SELECT count(*) FROM people WHERE income BETWEEN 10000 AND 10500", |people| {
            one(count(people, |person| {
                person.income.is_some_and(|income| (10_000.0..=10_500.0).contains(&income))
            }))
        }),
        statement(
            "range and equality",
            "SELECT count(*) FROM people WHERE visits >= 10 AND health = 'poor' AND NOT plan = 1",
            |people| one(count(people, |p| p.visits >= 10 && p.health == "poor" && p.plan != 1)),
        ),
        statement(
            "order and limit",
            "SELECT id, visits FROM people ORDER BY visits DESC, id LIMIT 4",
            |people| {
                let mut sorted: Vec<&Person> = people.iter().collect();
                sorted.sort_by_key(|person| (-person.visits, person.id));
                let row =
                    |person: &&Person| vec![Some(person.id.to_string()), Some(person.visits.to_string())];
                sorted.iter().take(4).map(row).collect()
            },
        ),
        Statement {
            kind: "groups",
            text: "SELECT health, count(*) FROM people GROUP BY health",
            does: Does::Search,
            is_ordered: false,
            expect: |people| {
                let mut groups: BTreeMap<&str, usize> = BTreeMap::new();
                people.iter().for_each(|person| *groups.entry(&person.health).or_default() += 1);
                groups
                    .iter()
                    .map(|(health, count)| vec![Some((*health).into()), Some(count.to_string())])
                    .collect()
            },
        },
        statement("the ends of an order", "SELECT min(age), max(age) FROM people WHERE plan = 4", |people| {
            let ages = people.iter().filter(|person| person.plan == 4).filter_map(|person| person.age);
            let ends = ages.fold(None, |ends: Option<(f64, f64)>, age| {
                Some(ends.map_or((age, age), |(low, high)| (low.min(age), high.max(age))))
            });
            let text = |end: Option<f64>| end.map(|end| end.to_string());
            vec![vec![text(ends.map(|ends| ends.0)), text(ends.map(|ends| ends.1))]]
        }),
        statement("sum, in the proxy", "SELECT sum(visits) FROM people WHERE age > 60", |people| {
            let old = people.iter().filter(|person| person.age.is_some_and(|age| age > 60.0));
            one(old.map(|person| i64::from(person.visits)).sum::<i64>())
        }),
    ]
}

/// Changes, what they leave, and what is refused.
fn changes() -> Vec<Statement> {
    vec![
        change(
            "new values from old ones",
            "UPDATE people SET visits = visits + 1 WHERE person = 125024",
            |people| {
                let own = people.iter_mut().filter(|person| person.person == 125_024);
                one(own.map(|person| person.visits += 1).count())
            },
        ),
        change("deletion by a range", "DELETE FROM people WHERE visits > 60", |people| {
            let before = people.len();
            people.retain(|person| person.visits <= 60);
            one(before - people.len())
        }),
        statement("what remains", "SELECT count(*), max(visits) FROM people", |people| {
            let most = people.iter().map(|person| person.visits).max();
            vec![vec![Some(people.len().to_string()), most.map(|most| most.to_string())]]
        }),
        Statement {
            does: Does::Refused,
            ..statement(
                "what the schema does not allow is refused, not guessed",
                "SELECT id FROM people WHERE medical > 1000",
                |_| one("0A000"),
            )
        },
    ]
}
