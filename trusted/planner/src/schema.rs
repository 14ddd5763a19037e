//! The schema file: what the administrator declares about a collection's fields and queries (Arx §2.4).
//!
//! ```toml
//! adversary = "persistent"                # who is not to learn; or "snapshot": whoever has one copy of the store
//!
//! [collections."clinic.patients"]
//! scan = "refuse"                         # a filter no index serves is an error; default "allow"
//! leakage_ratio = 4                       # a plan that leaks less may read 4 times the documents; default 2
//! indexes = [["doctor", "age"], ["ssn"]]  # the regular indexes the application has
//!
//! [collections."clinic.patients".fields]
//! ssn = { unique = true, type = "string", max_bytes = 11 }
//! age = { type = "int32", width_bits = 64 }
//! admitted = { type = "date", order = "auto" }    # or a protocol by name: crate::kinds
//! ward = { sensitive = false }
//! cost = { type = "double", operations = ["sum"] }
//! "address.zip" = { operations = ["eq"] } # a dotted path is quoted
//!
//! [[collections."clinic.patients".patterns]]
//! name = "a doctor's patients by age"
//! eq = ["doctor"]
//! range = ["age"]
//! order = ["-age"]                        # a leading minus: descending
//! limit = true
//!
//! [collections."clinic.patients".text]
//! fields = { history = 1, diagnosis = 3 } # what $text finds, with weights: kept by the enclave of boolean search
//! ```
//!
//! `operations` says what must work on the field *alone*, each served by an index of its own; what is only
//! used together with other fields belongs in `patterns`. Everything not named is sensitive, stored, and
//! searchable by scan only. A collection the file does not name (and every collection, without a file) has
//! sensitive fields only, allows scans, and takes its indexes from `createIndexes`.
//!
//! *Deviations.* A field declared nonsensitive is planned as the paper says, but this version of the store
//! seals it like any other; reports say so.

mod fit;
mod raw;
#[cfg(test)]
mod tests;
mod text;

pub use fit::{Declared, Misfit};
pub use text::{TEXT_INDEX, TextSchema};

use crate::adversary::Adversary;
use crate::kinds::OrderChoice;
use crate::physical::KeyWidth;
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// A schema file: collections by `database.collection`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Schema {
    /// Against whom indexes are chosen, where a collection does not say.
    pub adversary: Adversary,
    /// What is declared of each collection.
    pub collections: BTreeMap<String, CollectionSchema>,
}

impl Schema {
    /// Reads a schema. `file` is only named in errors.
    ///
    /// # Errors
    /// The administrator's text is wrong: [`SchemaError`] says where, and what is allowed there.
    pub fn parse(text: &str, file: &str) -> Result<Self, SchemaError> {
        raw::parse(text, file)
    }

    /// What is declared of a collection, if anything is.
    #[must_use]
    pub fn collection(&self, database: &str, collection: &str) -> Option<&CollectionSchema> {
        self.collections.get(&format!("{database}.{collection}"))
    }

    /// What holds for a collection of which nothing is declared.
    #[must_use]
    pub fn undeclared(&self) -> CollectionSchema {
        CollectionSchema { adversary: self.adversary, ..CollectionSchema::default() }
    }
}

/// What is declared of one collection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CollectionSchema {
    /// Against whom its indexes are chosen.
    pub adversary: Adversary,
    /// What happens to a filter no index serves.
    pub scan: ScanPolicy,
    /// How many times the documents of the plan that reads fewest one that leaks less may read.
    pub leakage_ratio: Option<u32>,
    /// Declared fields by dotted path.
    pub fields: BTreeMap<String, FieldSchema>,
    /// The regular indexes the application has: fields in order.
    pub indexes: Vec<Vec<String>>,
    /// The queries the application makes.
    pub patterns: Vec<QueryPattern>,
    /// What `$text` is to find.
    pub text: Option<TextSchema>,
}

impl CollectionSchema {
    /// Is the field sensitive? Everything is that is not declared otherwise.
    #[must_use]
    pub fn is_sensitive(&self, path: &str) -> bool {
        self.fields.get(path).is_none_or(|field| field.sensitive)
    }

    /// Is the field unique? `_id` always is (Arx §2.4: primary keys are inferred to be).
    #[must_use]
    pub fn is_unique(&self, path: &str) -> bool {
        path == "_id" || self.fields.get(path).is_some_and(|field| field.unique)
    }

    /// Width of the field's part of a range key: as declared, else the narrowest that holds every value of the
    /// declared type exactly, else the widest.
    #[must_use]
    pub fn key_width(&self, path: &str) -> KeyWidth {
        self.fields.get(path).map_or(KeyWidth::Bits128, FieldSchema::key_width)
    }

    /// Which protocol serves the field's ranges and its order.
    #[must_use]
    pub fn order(&self, path: &str) -> OrderChoice {
        self.fields.get(path).map(|field| field.order).unwrap_or_default()
    }

    /// True if the schema says which queries there are, and so narrows what a `createIndexes` builds.
    #[must_use]
    pub fn declares_queries(&self) -> bool {
        !self.patterns.is_empty() || self.fields.values().any(|field| !field.operations.is_empty())
    }

    /// All query patterns: the declared ones, then one for each operation a field must serve alone, and one of `$text` alone if
    /// none is declared.
    #[must_use]
    pub fn all_patterns(&self) -> Vec<QueryPattern> {
        let mut patterns = self.patterns.clone();
        for (path, field) in &self.fields {
            for operation in &field.operations {
                patterns.extend(operation.pattern(path));
            }
        }
        if self.text.is_some() && !patterns.iter().any(|pattern| pattern.text) {
            patterns.push(QueryPattern { name: "$text".into(), text: true, ..QueryPattern::default() });
        }
        patterns
    }

    /// The regular indexes: the declared ones, and one on each field that must serve an operation alone.
    #[must_use]
    pub fn all_indexes(&self) -> Vec<Vec<String>> {
        let mut indexes = self.indexes.clone();
        for (path, field) in &self.fields {
            let alone = vec![path.clone()];
            let searched = field.operations.iter().any(|operation| operation.pattern(path).is_some());
            if searched && !indexes.contains(&alone) {
                indexes.push(alone);
            }
        }
        indexes
    }
}

/// What happens to a filter no index serves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ScanPolicy {
    /// The proxy reads the whole collection and filters it: leaks nothing, and is slow.
    #[default]
    Allow,
    /// It is an error that names the index to add.
    Refuse,
}

/// What is declared of one field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldSchema {
    /// Must the operator of the server not learn it? Default: yes.
    pub sensitive: bool,
    /// No two documents have the same value.
    pub unique: bool,
    /// Type of all its values.
    pub kind: Option<FieldType>,
    /// Longest value, in bytes, of a string or binary field.
    pub max_bytes: Option<u32>,
    /// What must work on the field alone.
    pub operations: BTreeSet<Operation>,
    /// Width of its part of a range key.
    pub width: Option<KeyWidth>,
    /// Which protocol serves its ranges and its order.
    pub order: OrderChoice,
}

impl Default for FieldSchema {
    fn default() -> Self {
        Self {
            sensitive: true,
            unique: false,
            kind: None,
            max_bytes: None,
            operations: BTreeSet::new(),
            width: None,
            order: OrderChoice::Auto,
        }
    }
}

impl FieldSchema {
    fn key_width(&self) -> KeyWidth {
        if let Some(width) = self.width {
            return width;
        }
        // One byte of a part is the type's tag; a body shorter than the value makes ties, never wrong answers.
        let text_fits = |bytes: u32| u32::from(KeyWidth::Bits64.component_bytes()).saturating_sub(2) >= bytes;
        match (self.kind, self.max_bytes) {
            (Some(FieldType::Bool), _) => KeyWidth::Bits32,
            (Some(FieldType::Int32), _) => KeyWidth::Bits64,
            (Some(FieldType::String | FieldType::Binary), Some(bytes)) if text_fits(bytes) => {
                KeyWidth::Bits64
            }
            _ => KeyWidth::Bits128,
        }
    }
}

/// Type of a field's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FieldType {
    /// Binary data.
    Binary,
    /// True or false.
    Bool,
    /// UTC date and time.
    Date,
    /// 128-bit decimal.
    Decimal,
    /// Double.
    Double,
    /// 32-bit integer.
    Int32,
    /// 64-bit integer.
    Int64,
    /// ObjectId.
    ObjectId,
    /// String.
    String,
}

impl FieldType {
    /// Can values be summed?
    #[must_use]
    pub fn is_number(self) -> bool {
        matches!(self, Self::Decimal | Self::Double | Self::Int32 | Self::Int64)
    }
}

/// What must work on a field alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Operation {
    /// Equality, `$in`.
    #[serde(alias = "equality")]
    Eq,
    /// `<`, `>`, between.
    Range,
    /// The first so many in its order.
    Order,
    /// Sums of it over the ranges of the collection's range indexes.
    Sum,
    /// Averages of it, likewise.
    Average,
}

impl Operation {
    fn pattern(self, path: &str) -> Option<QueryPattern> {
        let fields = vec![path.to_owned()];
        let (word, mut pattern) = match self {
            Self::Eq => ("equals", QueryPattern { eq: fields, ..QueryPattern::default() }),
            Self::Range => ("range of", QueryPattern { range: fields, ..QueryPattern::default() }),
            Self::Order => {
                let order = vec![OrderKey { path: path.to_owned(), descending: false }];
                ("first by", QueryPattern { order, limit: true, ..QueryPattern::default() })
            }
            Self::Sum | Self::Average => return None,
        };
        pattern.name = if self == Self::Eq { format!("{path} {word}") } else { format!("{word} {path}") };
        Some(pattern)
    }
}

/// Shape of a query: which fields it compares how, not with what.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueryPattern {
    /// Its name in reports.
    pub name: String,
    /// Looks for words by `$text`.
    pub text: bool,
    /// Fields compared for equality (`$in` included).
    pub eq: Vec<String>,
    /// Fields compared by `<`, `>` or between.
    pub range: Vec<String>,
    /// Order of the results.
    pub order: Vec<OrderKey>,
    /// Only the first so many are wanted.
    pub limit: bool,
    /// Counts the matches.
    pub count: bool,
    /// Sums these fields over the matches.
    pub sum: Vec<String>,
    /// Averages these fields over the matches.
    pub average: Vec<String>,
}

impl QueryPattern {
    /// Does it aggregate its matches instead of returning them?
    #[must_use]
    pub fn aggregates(&self) -> bool {
        self.count || !self.sum.is_empty() || !self.average.is_empty()
    }
}

/// A key of a pattern's order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrderKey {
    /// Dotted path.
    pub path: String,
    /// From the highest value.
    pub descending: bool,
}

impl fmt::Display for QueryPattern {
    /// The where clause in the paper's notation: `a=, b>, order by -b limit`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut parts: Vec<String> = self.text.then(|| "$text".to_owned()).into_iter().collect();
        parts.extend(self.eq.iter().map(|path| format!("{path}=")));
        parts.extend(self.range.iter().map(|path| format!("{path}>")));
        if !self.order.is_empty() {
            let keys =
                self.order.iter().map(|key| format!("{}{}", if key.descending { "-" } else { "" }, key.path));
            parts.push(format!("order by {}", keys.collect::<Vec<_>>().join(", ")));
        }
        let mut text = if parts.is_empty() { "everything".to_owned() } else { parts.join(", ") };
        if self.limit {
            text.push_str(" limit");
        }
        f.write_str(&text)
    }
}

/// A mistake in a schema file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}:{line}:{column}: {message}")]
pub struct SchemaError {
    /// The file as it was named.
    pub file: String,
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// What is wrong and what is allowed.
    pub message: String,
}
