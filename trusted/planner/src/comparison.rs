//! What could serve a field's ranges and order, side by side: what each protocol leaks, what it costs, and how much of
//! such data the lab's attacks recovered from it.

mod recovery;
#[cfg(test)]
mod tests;
mod text;

pub use recovery::Recovery;
pub use text::text;

use crate::adversary::Adversary;
use crate::cost::{Cost, Statistics};
use crate::indexes::{chosen, needs};
use crate::kinds::{Candidate, Need, OrderChoice, OrderProtocol, Tuning, candidates};
use crate::schema::{CollectionSchema, Schema};
use arras_protocol::leakage::Pattern;
use bson::{Bson, Document, doc};

/// What could serve the order of one field.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// `database.collection`.
    pub namespace: String,
    /// What is needed.
    pub need: Need,
    /// What the schema says.
    pub order: OrderChoice,
    /// Which one is taken; none if what is declared cannot serve.
    pub taken: Option<OrderProtocol>,
    /// Against whom.
    pub adversary: Adversary,
    /// What the costs are estimated for.
    pub statistics: Statistics,
    /// Every protocol that gives an order.
    pub candidates: Vec<Candidate>,
}

/// Compares for every field whose order a schema's patterns need, or that is declared with an order.
#[must_use]
pub fn compare(schema: &Schema, of: (Tuning, &Statistics)) -> Vec<Comparison> {
    let collections = schema.collections.iter();
    collections.flat_map(|(namespace, schema)| of_collection(namespace, schema, of)).collect()
}

fn of_collection(
    namespace: &str,
    schema: &CollectionSchema,
    (tuning, statistics): (Tuning, &Statistics),
) -> Vec<Comparison> {
    let mut needs = needs(schema);
    for (path, field) in &schema.fields {
        let is_needed = needs.iter().any(|need| need.fields.last() == Some(path));
        if field.order != OrderChoice::Auto && !is_needed {
            let alone = Need::new(vec![path.clone()], schema.key_width(path));
            needs.push(Need { kind: field.kind, width: field.width, ..alone });
        }
    }
    let of = |need: Need| Comparison {
        namespace: namespace.to_owned(),
        order: need.fields.last().map(|field| schema.order(field)).unwrap_or_default(),
        taken: chosen(schema, &need),
        adversary: schema.adversary,
        statistics: statistics.clone(),
        candidates: candidates(&need, schema.adversary, (tuning, statistics)),
        need,
    };
    needs.into_iter().map(of).collect()
}

impl Comparison {
    /// The ordered field.
    #[must_use]
    pub fn field(&self) -> &str {
        self.need.fields.last().map_or("", String::as_str)
    }

    fn is_taken(&self, candidate: &Candidate) -> bool {
        self.taken == Some(candidate.protocol)
    }

    /// As a BSON document.
    #[must_use]
    pub fn to_document(&self) -> Document {
        let candidates: Vec<Document> =
            self.candidates.iter().map(|candidate| self.candidate_document(candidate)).collect();
        doc! {
            "collection": &self.namespace,
            "field": self.field(),
            "index": &self.need.fields,
            "type": self.need.kind.map(|kind| kind.name()),
            "adversary": self.adversary.name(),
            "order": self.order.name(),
            "taken": self.taken.map(OrderProtocol::name),
            "documents": number(self.statistics.document_count),
            "documentBytes": number(self.statistics.document_bytes),
            "candidates": candidates,
        }
    }

    fn candidate_document(&self, candidate: &Candidate) -> Document {
        let words = |patterns: &[Pattern]| -> Vec<&str> {
            patterns.iter().map(|pattern| pattern.describe()).collect()
        };
        let leakage = &candidate.leakage;
        let recovered: Vec<Document> =
            recovery::of(candidate.protocol.name(), self.adversary).map(Recovery::to_document).collect();
        doc! {
            "protocol": candidate.protocol.name(),
            "title": candidate.protocol.kind().title,
            "taken": self.is_taken(candidate),
            "obstacle": candidate.obstacle.as_ref().map_or(Bson::Null, |why| Bson::from(why.as_str())),
            "leakage": {
                "snapshot": words(leakage.snapshot),
                "search": words(leakage.search),
                "update": words(leakage.update),
                "attacks": leakage.attacks.to_vec(),
            },
            "searches": candidate.searches.iter().map(cost_document).collect::<Vec<_>>(),
            "insertion": cost_document(&candidate.insertion),
            "recovered": recovered,
        }
    }
}

fn number(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

fn cost_document(cost: &Cost) -> Document {
    doc! {
        "roundTrips": number(cost.rounds),
        "sentBytes": number(cost.sent_bytes),
        "receivedBytes": number(cost.received_bytes),
        "repairBytes": number(cost.repair_bytes),
        "documents": number(cost.documents),
        "weight": number(cost.weight()),
    }
}
