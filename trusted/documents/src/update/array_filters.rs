//! `arrayFilters`: which elements `$[identifier]` stands for.

use super::change::Change;
use super::resolve::Component;
use crate::QueryError;
use crate::filter::Filter;
use bson::{Bson, Document};

/// Parsed `arrayFilters` of an update.
#[derive(Clone, Debug, Default)]
pub struct ArrayFilters {
    filters: Vec<(String, Filter)>,
}

impl ArrayFilters {
    /// Reads the filters; each names one identifier.
    ///
    /// # Errors
    /// 9 `FailedToParse` for a filter without or with several identifiers, or a duplicate; 224 for an `$expr`.
    pub fn parse(filters: &[Document]) -> Result<Self, QueryError> {
        let mut parsed: Vec<(String, Filter)> = Vec::with_capacity(filters.len());
        for filter in filters {
            let parsed_filter = Filter::of_updated(filter)?;
            let mut identifiers = Vec::new();
            collect(filter, &mut identifiers);
            identifiers.dedup();
            let identifier = match identifiers.as_slice() {
                [identifier] => (*identifier).to_owned(),
                [] => {
                    return Err(QueryError::failed_to_parse(
                        "Cannot use an expression without a top-level field name in arrayFilters",
                    ));
                }
                [first, second, ..] => {
                    return Err(QueryError::failed_to_parse(format!(
                        "Error parsing array filter :: caused by :: Expected a single top-level field name, found \
                         '{first}' and '{second}'"
                    )));
                }
            };
            let starts_well = identifier.starts_with(|first: char| first.is_ascii_lowercase());
            if !starts_well || !identifier.chars().all(|character| character.is_ascii_alphanumeric()) {
                return Err(QueryError::bad_value(format!(
                    "The top-level field name must be an alphanumeric string beginning with a lowercase letter, \
                     found '{identifier}'"
                )));
            }
            if parsed.iter().any(|(known, _)| *known == identifier) {
                return Err(QueryError::failed_to_parse(format!(
                    "Found multiple array filters with the same top-level field name {identifier}"
                )));
            }
            parsed.push((identifier, parsed_filter));
        }
        Ok(ArrayFilters { filters: parsed })
    }

    /// Whether `element` is one that `identifier` stands for; none if there is no such identifier.
    pub(super) fn admits(&self, identifier: &str, element: &Bson) -> Option<Result<bool, QueryError>> {
        let (name, filter) = self.filters.iter().find(|(name, _)| name == identifier)?;
        let mut holder = Document::new();
        holder.insert(name.clone(), element.clone());
        Some(filter.matches(&holder))
    }

    /// Refuses a filter that no path uses.
    pub(super) fn check_used(&self, changes: &[Change]) -> Result<(), QueryError> {
        let used = |identifier: &str| {
            changes
                .iter()
                .flat_map(|change| &change.path)
                .any(|component| matches!(component, Component::Matching(name) if name == identifier))
        };
        match self.filters.iter().find(|(identifier, _)| !used(identifier)) {
            None => Ok(()),
            Some((identifier, _)) => Err(QueryError::failed_to_parse(format!(
                "The array filter for identifier '{identifier}' was not used in the update"
            ))),
        }
    }
}

/// First components of the fields a filter tests.
fn collect<'f>(filter: &'f Document, out: &mut Vec<&'f str>) {
    for (name, value) in filter {
        if !name.starts_with('$') {
            out.push(name.split('.').next().unwrap_or(name));
        } else if let Bson::Array(entries) = value {
            entries.iter().filter_map(Bson::as_document).for_each(|inner| collect(inner, out));
        }
    }
}
