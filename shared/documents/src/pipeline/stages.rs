//! Execution of stages.

use super::{Group, MEMORY_BYTES_MAX, Pipeline, Stage, Stream, check_made, group, unwind};
use crate::error::location;
use crate::expression::Expression;
use crate::sort::{Sort, SortKey};
use crate::{QueryError, limits};
use bson::{Bson, Document};
use std::hash::{BuildHasher, Hasher, RandomState};

/// The stream behind `stage`. `following` are the stages behind it.
pub(super) fn apply<'p>(stage: &'p Stage, following: &[Stage], input: Stream<'p>) -> Stream<'p> {
    match stage {
        Stage::Match(filter) => Box::new(input.filter_map(move |document| match document {
            Ok(document) => match filter.matches(&document) {
                Ok(true) => Some(Ok(document)),
                Ok(false) => None,
                Err(error) => Some(Err(error)),
            },
            Err(error) => Some(Err(error)),
        })),
        Stage::Project(projection) | Stage::AddFields(projection) => {
            each(input, move |document| projection.apply(&document, None))
        }
        Stage::ReplaceRoot(expression) => each(input, move |document| replace_root(expression, &document)),
        Stage::Unwind(unwind) => Box::new(input.flat_map(move |document| match document {
            Ok(document) => unwind::unwind(unwind, document),
            Err(error) => vec![Err(error)],
        })),
        Stage::Limit(count) => Box::new(input.take(usize::try_from(*count).unwrap_or(usize::MAX))),
        Stage::Skip(count) => Box::new(skip(input, *count)),
        Stage::Sort(sort) => {
            let kept = kept_by(following);
            deferred(move || sorted(input, sort, kept))
        }
        Stage::Count(name) => deferred(move || count(input, name)),
        Stage::Group(group) => deferred(move || group::group(input, group)),
        Stage::Bucket(bucket) => deferred(move || group::bucket(input, bucket)),
        Stage::SortByCount(expression) => deferred(move || sort_by_count(input, expression)),
        Stage::Facet(facets) => deferred(move || facet(input, facets)),
        Stage::Sample(count) => deferred(move || sample(input, *count)),
    }
}

fn each<'p>(
    input: Stream<'p>,
    transform: impl Fn(Document) -> Result<Document, QueryError> + 'p,
) -> Stream<'p> {
    Box::new(input.map(move |document| transform(document?).and_then(check_made)))
}

/// Errors are not skipped over.
fn skip<'p>(input: Stream<'p>, count: u64) -> impl Iterator<Item = Result<Document, QueryError>> + 'p {
    let mut left = count;
    input.filter(move |document| {
        if left > 0 && document.is_ok() {
            left -= 1;
            return false;
        }
        true
    })
}

/// A stage that takes all its input when its first result is asked for.
fn deferred<'p>(run: impl FnOnce() -> Result<Vec<Document>, QueryError> + 'p) -> Stream<'p> {
    Box::new(std::iter::once_with(run).flat_map(|result| match result {
        Ok(documents) => documents.into_iter().map(Ok).collect(),
        Err(error) => vec![Err(error)],
    }))
}

/// Collects documents within the memory limit; `storable`: each must also fit the size of a stored document.
pub(super) fn collect(input: Stream<'_>, what: &str, storable: bool) -> Result<Vec<Document>, QueryError> {
    let mut documents = Vec::new();
    let mut held_bytes = 0_usize;
    for document in input {
        let document = document?;
        held_bytes = held_bytes.saturating_add(if storable {
            limits::check_built(&document)?
        } else {
            limits::document_bytes(&document, limits::DEPTH_MAX)?
        });
        if held_bytes > MEMORY_BYTES_MAX {
            return Err(over_limit(what));
        }
        documents.push(document);
    }
    Ok(documents)
}

pub(super) fn over_limit(what: &str) -> QueryError {
    QueryError::memory(format!(
        "Exceeded memory limit for {what}: more than {MEMORY_BYTES_MAX} bytes, and this layer does not use the disk"
    ))
}

fn replace_root(expression: &Expression, document: &Document) -> Result<Document, QueryError> {
    match expression.evaluate(document)? {
        Some(Bson::Document(root)) => Ok(root),
        other => Err(location!(
            40228,
            "'newRoot' expression must evaluate to an object, but resulting value was of type: {}",
            other.as_ref().map_or("missing", crate::order::type_name)
        )),
    }
}

/// How many documents the stages behind a sort let through at most.
fn kept_by(following: &[Stage]) -> Option<usize> {
    let mut skipped = 0_u64;
    for stage in following {
        match stage {
            Stage::Skip(count) => skipped = skipped.saturating_add(*count),
            Stage::Limit(count) => return usize::try_from(count.saturating_add(skipped)).ok(),
            _ => return None,
        }
    }
    None
}

fn sorted(input: Stream<'_>, sort: &Sort, kept: Option<usize>) -> Result<Vec<Document>, QueryError> {
    /// Documents beyond the limit that are gathered before the rest is cut off.
    const SLACK: usize = 1024;
    let mut keyed: Vec<(Vec<Bson>, usize, Document)> = Vec::new();
    let mut held_bytes = 0_usize;
    for document in input {
        let document = document?;
        let bytes = limits::document_bytes(&document, limits::DEPTH_MAX)?;
        held_bytes = held_bytes.saturating_add(bytes);
        keyed.push((sort.values(&document), bytes, document));
        let full = held_bytes > MEMORY_BYTES_MAX;
        if let Some(kept) = kept
            && (full || keyed.len() >= kept.saturating_mul(2).saturating_add(SLACK))
        {
            keyed.sort_by(|left, right| sort.compare_values(&left.0, &right.0));
            keyed.truncate(kept);
            held_bytes = keyed.iter().map(|(_, bytes, _)| bytes).sum();
        }
        if held_bytes > MEMORY_BYTES_MAX {
            return Err(over_limit("$sort"));
        }
    }
    keyed.sort_by(|left, right| sort.compare_values(&left.0, &right.0));
    Ok(keyed.into_iter().map(|(_, _, document)| document).collect())
}

fn count(input: Stream<'_>, name: &str) -> Result<Vec<Document>, QueryError> {
    let mut count = 0_i64;
    for document in input {
        document?;
        count += 1;
    }
    if count == 0 {
        return Ok(Vec::new());
    }
    let mut document = Document::new();
    document.insert(name, i32::try_from(count).map_or(Bson::Int64(count), Bson::Int32));
    Ok(vec![document])
}

fn sort_by_count(input: Stream<'_>, expression: &Expression) -> Result<Vec<Document>, QueryError> {
    let counted = Group {
        id: expression.clone(),
        fields: vec![super::GroupField {
            name: "count".to_owned(),
            operator: "$sum",
            argument: Expression::literal(Bson::Int32(1)),
        }],
    };
    let groups = group::group(input, &counted)?;
    Ok(Sort::by(vec![SortKey { path: "count".to_owned(), descending: true }]).sort(groups))
}

fn facet(input: Stream<'_>, facets: &[(String, Pipeline)]) -> Result<Vec<Document>, QueryError> {
    let documents = collect(input, "$facet", false)?;
    let mut result = Document::new();
    for (name, pipeline) in facets {
        let output = pipeline.run(documents.iter().cloned())?;
        result.insert(name.clone(), output.into_iter().map(Bson::Document).collect::<Vec<_>>());
    }
    check_made(result).map(|document| vec![document])
}

/// Reservoir sampling. The choice is not a secret, so the standard library's seed will do.
fn sample(input: Stream<'_>, count: u64) -> Result<Vec<Document>, QueryError> {
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    let random = RandomState::new();
    let below = |limit: usize, draw: usize| -> usize {
        let mut hasher = random.build_hasher();
        hasher.write_usize(draw);
        usize::try_from(hasher.finish() % (limit.max(1) as u64)).unwrap_or(0)
    };
    let mut chosen: Vec<Document> = Vec::new();
    let mut held_bytes = 0_usize;
    for (position, document) in input.enumerate() {
        let document = document?;
        let bytes = limits::document_bytes(&document, limits::DEPTH_MAX)?;
        if chosen.len() < count {
            held_bytes = held_bytes.saturating_add(bytes);
            chosen.push(document);
        } else if let Some(slot) = chosen.get_mut(below(position + 1, position)) {
            let old = limits::document_bytes(slot, limits::DEPTH_MAX)?;
            held_bytes = held_bytes.saturating_add(bytes).saturating_sub(old);
            *slot = document;
        }
        if held_bytes > MEMORY_BYTES_MAX {
            return Err(over_limit("$sample"));
        }
    }
    // A reservoir keeps early documents in their places: shuffle.
    for last in (1..chosen.len()).rev() {
        chosen.swap(last, below(last + 1, usize::MAX - last));
    }
    Ok(chosen)
}
