//! The RAND Health Insurance Experiment; see `data/README.md` for source and licence.

use crate::cli::Failure;
use bson::{Bson, Document, doc};
use flate2::read::GzDecoder;
use serde::Deserialize;

const COMPRESSED: &[u8] = include_bytes!("../../data/randhie.csv.gz");

/// One person in one year.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub(crate) struct Person {
    /// Number of the line: the document's `_id`.
    #[serde(skip)]
    pub(crate) id: i32,
    pub(crate) person: i64,
    pub(crate) site: i32,
    pub(crate) plan: i32,
    pub(crate) year: i32,
    pub(crate) age: Option<f64>,
    pub(crate) female: i32,
    pub(crate) income: Option<f64>,
    pub(crate) education: Option<f64>,
    pub(crate) family: i32,
    pub(crate) chronic: Option<f64>,
    pub(crate) limited: Option<f64>,
    pub(crate) health: String,
    pub(crate) visits: i32,
    pub(crate) medical: Option<f64>,
    pub(crate) inpatient: Option<f64>,
}

impl Person {
    /// The document that is stored. A missing value is a missing field.
    pub(crate) fn document(&self) -> Document {
        let mut document = doc! {
            "_id": self.id, "person": self.person, "site": self.site, "plan": self.plan, "year": self.year,
            "female": self.female == 1, "family": self.family, "health": &self.health, "visits": self.visits,
        };
        let numbers = [
            ("age", self.age),
            ("income", self.income),
            ("education", self.education),
            ("chronic", self.chronic),
            ("limited", self.limited),
            ("medical", self.medical),
            ("inpatient", self.inpatient),
        ];
        for (name, value) in numbers {
            if let Some(value) = value {
                document.insert(name, Bson::Double(value));
            }
        }
        document
    }
}

/// Every person-year.
pub(crate) fn load() -> Result<Vec<Person>, Failure> {
    let damaged = |error: csv::Error| Failure::Check(format!("the built-in data set is damaged: {error}"));
    let mut reader = csv::Reader::from_reader(GzDecoder::new(COMPRESSED));
    let mut people: Vec<Person> = reader.deserialize().collect::<Result<_, _>>().map_err(damaged)?;
    for (person, id) in people.iter_mut().zip(1..) {
        person.id = id;
    }
    Ok(people)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_data_set_is_whole() {
        let people = load().expect("loads");
        assert_eq!(people.len(), 20_190);
        assert_eq!(people[0].document().get_i64("person").ok(), Some(125_024));
        assert_eq!(people.iter().map(|person| person.visits).sum::<i32>(), 57_752);
        assert_eq!(people.iter().filter(|person| person.education.is_none()).count(), 4);
    }
}
