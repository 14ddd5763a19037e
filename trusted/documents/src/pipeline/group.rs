//! `$group` and `$bucket`.

use super::{Bucket, Group, GroupField, Stream, check_made};
use crate::accumulate::Accumulator;
use crate::error::location;
use crate::spill::{Held, Run, RunReader, RunWriter, Workspace, decode, encode};
use crate::{QueryError, limits, order};
use bson::{Bson, Document};
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

/// Parts into which documents of groups that do not fit are dealt out.
const PARTS: usize = 32;
/// Times a part is dealt out again: enough for any number of groups that a disk holds.
const DEPTH_MAX: usize = 6;

/// What a document adds to its group: the group's id, and the value of each field's argument if there is one.
struct Contribution {
    id: Bson,
    values: Vec<Option<Bson>>,
}

impl Contribution {
    fn of(id: Bson, fields: &[GroupField], document: &Document) -> Result<Self, QueryError> {
        let values =
            fields.iter().map(|field| field.argument.evaluate(document)).collect::<Result<_, _>>()?;
        Ok(Self { id, values })
    }

    fn to_record(&self) -> Result<Vec<u8>, QueryError> {
        let mut record = Document::new();
        record.insert("_id", self.id.clone());
        for (offset, value) in self.values.iter().enumerate() {
            if let Some(value) = value {
                record.insert(offset.to_string(), value.clone());
            }
        }
        encode(&record)
    }

    fn from_record(record: &[u8], fields: usize) -> Result<Self, QueryError> {
        let mut record = decode(record)?;
        let id = record.remove("_id").unwrap_or(Bson::Null);
        Ok(Self { id, values: (0..fields).map(|offset| record.remove(offset.to_string())).collect() })
    }
}

/// Bytes by which groups that are begun may grow when there is no memory left for others.
const BEGUN_SLACK: usize = 64 * 1024;

/// Groups in the order in which they were first seen. Those that do not fit are dealt out to parts, by their ids, and
/// made part by part when the others are done.
struct Groups<'f> {
    fields: &'f [GroupField],
    workspace: Workspace,
    depth: usize,
    offsets: HashMap<Vec<u8>, usize>,
    groups: Vec<(Bson, Vec<Accumulator>)>,
    held_bytes: usize,
    held: Held,
    parts: Vec<Box<dyn RunWriter>>,
    dealing: RandomState,
}

impl<'f> Groups<'f> {
    fn new(fields: &'f [GroupField], workspace: Workspace, depth: usize) -> Self {
        Groups {
            fields,
            held: Held::new(&workspace),
            workspace,
            depth,
            offsets: HashMap::new(),
            groups: Vec::new(),
            held_bytes: 0,
            parts: Vec::new(),
            dealing: RandomState::new(),
        }
    }

    fn add(&mut self, contribution: Contribution) -> Result<(), QueryError> {
        let key = order::canonical(&contribution.id);
        let offset = match self.offsets.get(&key) {
            Some(offset) => *offset,
            None if !self.parts.is_empty() => return self.deal(&key, &contribution),
            None => {
                let accumulators: Result<Vec<_>, _> =
                    self.fields.iter().map(|field| Accumulator::new(field.operator)).collect();
                let fixed = key.len() + self.fields.len() * size_of::<Accumulator>();
                self.held_bytes += limits::value_bytes(&contribution.id, limits::DEPTH_MAX)? + fixed;
                self.offsets.insert(key, self.groups.len());
                self.groups.push((contribution.id, accumulators?));
                self.groups.len() - 1
            }
        };
        if let Some((_, accumulators)) = self.groups.get_mut(offset) {
            for (value, accumulator) in contribution.values.into_iter().zip(accumulators) {
                self.held_bytes += accumulator.add(value)?;
            }
        }
        if self.held.fits(self.held_bytes) {
            return Ok(());
        }
        if self.parts.is_empty() && self.depth < DEPTH_MAX {
            for _ in 0..PARTS {
                self.parts.push(self.workspace.run("$group")?);
            }
        }
        // Those that are begun may grow; an accumulator has a bound of its own.
        let begun_max = self.workspace.memory_bytes.saturating_mul(2).max(super::MEMORY_BYTES_MAX);
        let beyond =
            self.held_bytes > begun_max || !self.held.granted(self.held_bytes.saturating_sub(BEGUN_SLACK));
        if beyond { Err(self.workspace.over_limit("$group")) } else { Ok(()) }
    }

    fn deal(&mut self, id: &[u8], contribution: &Contribution) -> Result<(), QueryError> {
        let part = usize::try_from(self.dealing.hash_one(id) % PARTS as u64).unwrap_or(0);
        match self.parts.get_mut(part) {
            Some(part) => part.append(&contribution.to_record()?),
            None => Ok(()),
        }
    }

    fn finish(self) -> Result<Made<'f>, QueryError> {
        let parts = self.parts.into_iter().map(RunWriter::finish).collect::<Result<_, _>>()?;
        let depth = self.depth;
        Ok(Made {
            fields: self.fields,
            workspace: self.workspace,
            held: self.held,
            groups: self.groups.into_iter(),
            parts: vec![(depth, parts)],
        })
    }
}

/// Groups that are whole.
struct Made<'f> {
    fields: &'f [GroupField],
    workspace: Workspace,
    /// For the groups.
    held: Held,
    groups: std::vec::IntoIter<(Bson, Vec<Accumulator>)>,
    /// Parts not made yet, and how often what is in them was dealt out before.
    parts: Vec<(usize, Vec<Arc<dyn Run>>)>,
}

impl Made<'_> {
    fn next(&mut self) -> Result<Option<Document>, QueryError> {
        loop {
            if let Some((id, accumulators)) = self.groups.next() {
                let mut document = Document::new();
                document.insert("_id", id);
                for (field, accumulator) in self.fields.iter().zip(accumulators) {
                    document.insert(field.name.clone(), accumulator.finish());
                }
                return check_made(document).map(Some);
            }
            let Some((depth, parts)) = self.parts.last_mut() else {
                return Ok(None);
            };
            let depth = *depth;
            let Some(part) = parts.pop() else {
                self.parts.pop();
                continue;
            };
            self.held.let_go();
            let mut groups = Groups::new(self.fields, self.workspace.clone(), depth + 1);
            let mut records: Box<dyn RunReader> = part.reader();
            while let Some(record) = records.next()? {
                self.workspace.pause()?;
                groups.add(Contribution::from_record(&record, self.fields.len())?)?;
            }
            let Made { groups, held, parts, .. } = groups.finish()?;
            (self.groups, self.held) = (groups, held);
            self.parts.extend(parts);
        }
    }
}

pub(super) fn group<'p>(
    input: Stream<'_>,
    group: &Group,
    workspace: &Workspace,
) -> Result<Stream<'p>, QueryError> {
    let mut groups = Groups::new(&group.fields, workspace.clone(), 0);
    for document in input {
        let document = document?;
        // Documents without the field and with null in it make one group.
        let id = group.id.evaluate(&document)?.unwrap_or(Bson::Null);
        groups.add(Contribution::of(id, &group.fields, &document)?)?;
    }
    let fields = group.fields.clone();
    let Made { groups, held, parts, workspace, .. } = groups.finish()?;
    let mut left = Some((groups, held, parts));
    Ok(Box::new(std::iter::from_fn(move || {
        let (groups, held, parts) = left.take()?;
        let mut made = Made { fields: &fields, workspace: workspace.clone(), held, groups, parts };
        let next = made.next();
        if matches!(next, Ok(Some(_))) {
            left = Some((made.groups, made.held, made.parts));
        }
        next.transpose()
    })))
}

pub(super) fn bucket(
    input: Stream<'_>,
    bucket: &Bucket,
    workspace: &Workspace,
) -> Result<Vec<Document>, QueryError> {
    let mut groups = Groups::new(&bucket.output, workspace.clone(), 0);
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
        groups.add(Contribution::of(id, &bucket.output, &document)?)?;
    }
    let mut made = groups.finish()?;
    let mut documents = Vec::new();
    while let Some(document) = made.next()? {
        documents.push(document);
    }
    documents.sort_by(|left, right| match (left.get("_id"), right.get("_id")) {
        (Some(left), Some(right)) => order::compare(left, right),
        _ => std::cmp::Ordering::Equal,
    });
    Ok(documents)
}
