//! `$group` and `$bucket`.

use super::stages::over_limit;
use super::{Bucket, Group, GroupField, MEMORY_BYTES_MAX, Stream, check_made};
use crate::accumulate::Accumulator;
use crate::error::location;
use crate::{QueryError, limits, order};
use bson::{Bson, Document};
use std::collections::HashMap;

/// Groups in the order in which they were first seen.
struct Groups<'f> {
    fields: &'f [GroupField],
    offsets: HashMap<Vec<u8>, usize>,
    groups: Vec<(Bson, Vec<Accumulator>)>,
    held_bytes: usize,
}

impl<'f> Groups<'f> {
    fn new(fields: &'f [GroupField]) -> Self {
        Groups { fields, offsets: HashMap::new(), groups: Vec::new(), held_bytes: 0 }
    }

    fn add(&mut self, id: Bson, document: &Document) -> Result<(), QueryError> {
        let key = order::canonical(&id);
        let offset = match self.offsets.get(&key) {
            Some(offset) => *offset,
            None => {
                let accumulators: Result<Vec<_>, _> =
                    self.fields.iter().map(|field| Accumulator::new(field.operator)).collect();
                let fixed = key.len() + self.fields.len() * size_of::<Accumulator>();
                self.held_bytes += limits::value_bytes(&id, limits::DEPTH_MAX)? + fixed;
                self.offsets.insert(key, self.groups.len());
                self.groups.push((id, accumulators?));
                self.groups.len() - 1
            }
        };
        if let Some((_, accumulators)) = self.groups.get_mut(offset) {
            for (field, accumulator) in self.fields.iter().zip(accumulators) {
                self.held_bytes += accumulator.add(field.argument.evaluate(document)?)?;
            }
        }
        if self.held_bytes > MEMORY_BYTES_MAX {
            return Err(over_limit("$group"));
        }
        Ok(())
    }

    fn finish(self) -> Result<Vec<Document>, QueryError> {
        let fields = self.fields;
        self.groups
            .into_iter()
            .map(|(id, accumulators)| {
                let mut document = Document::new();
                document.insert("_id", id);
                for (field, accumulator) in fields.iter().zip(accumulators) {
                    document.insert(field.name.clone(), accumulator.finish());
                }
                check_made(document)
            })
            .collect()
    }
}

pub(super) fn group(input: Stream<'_>, group: &Group) -> Result<Vec<Document>, QueryError> {
    let mut groups = Groups::new(&group.fields);
    for document in input {
        let document = document?;
        // Documents without the field and with null in it make one group.
        let id = group.id.evaluate(&document)?.unwrap_or(Bson::Null);
        groups.add(id, &document)?;
    }
    groups.finish()
}

pub(super) fn bucket(input: Stream<'_>, bucket: &Bucket) -> Result<Vec<Document>, QueryError> {
    let mut groups = Groups::new(&bucket.output);
    for document in input {
        let document = document?;
        let value = bucket.group_by.evaluate(&document)?.unwrap_or(Bson::Null);
        // The last boundary is exclusive.
        let above = bucket.boundaries.partition_point(|boundary| order::compare(boundary, &value).is_le());
        let bound = if above < bucket.boundaries.len() {
            above.checked_sub(1).and_then(|offset| bucket.boundaries.get(offset))
        } else {
            None
        };
        let id = bound.or(bucket.default.as_ref()).cloned().ok_or_else(|| {
            location!(
                40066,
                "$switch could not find a matching branch for an input, and no default was specified."
            )
        })?;
        groups.add(id, &document)?;
    }
    let mut documents = groups.finish()?;
    documents.sort_by(|left, right| match (left.get("_id"), right.get("_id")) {
        (Some(left), Some(right)) => order::compare(left, right),
        _ => std::cmp::Ordering::Equal,
    });
    Ok(documents)
}
