//! Execution of stages.

use super::{Group, Pipeline, Stage, Stream, check_made, group, unwind};
use crate::error::location;
use crate::expression::Expression;
use crate::sort::external::{Sorted, Sorter};
use crate::sort::{Sort, SortKey};
use crate::spill::{Held, Spool, Workspace};
use crate::{QueryError, limits};
use bson::{Bson, Document};
use std::hash::{BuildHasher, Hasher, RandomState};

/// The stream behind `stage`. `following` are the stages behind it.
pub(super) fn apply<'p>(
    stage: &'p Stage,
    following: &[Stage],
    input: Stream<'p>,
    workspace: &Workspace,
) -> Stream<'p> {
    let workspace = workspace.clone();
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
            Err(error) => Box::new(std::iter::once(Err(error))),
        })),
        Stage::Limit(count) => Box::new(input.take(usize::try_from(*count).unwrap_or(usize::MAX))),
        Stage::Skip(count) => Box::new(skip(input, *count)),
        Stage::Sort(sort) => {
            let kept = kept_by(following);
            lazy(move || {
                let sorted = sorted(input, sort, kept, workspace.clone())?;
                Ok(documents_of(sorted, workspace))
            })
        }
        Stage::Count(name) => deferred(move || count(input, name)),
        Stage::Group(group) => lazy(move || group::group(input, group, &workspace)),
        Stage::Bucket(bucket) => deferred(move || group::bucket(input, bucket, &workspace)),
        Stage::SortByCount(expression) => lazy(move || sort_by_count(input, expression, workspace)),
        Stage::Facet(facets) => deferred(move || facet(input, facets, &workspace)),
        Stage::Sample(count) => deferred(move || sample(input, *count, &workspace)),
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

/// The same for results that are made one by one.
fn lazy<'p>(run: impl FnOnce() -> Result<Stream<'p>, QueryError> + 'p) -> Stream<'p> {
    Box::new(std::iter::once_with(run).flat_map(|result| match result {
        Ok(documents) => documents,
        Err(error) => Box::new(std::iter::once(Err(error))),
    }))
}

/// The documents of a sort. After an error there are no more.
fn documents_of<'p>(sorted: Sorted, workspace: Workspace) -> Stream<'p> {
    let mut sorted = Some(sorted);
    Box::new(std::iter::from_fn(move || {
        let from = sorted.as_mut()?;
        let next = workspace.pause().and_then(|()| from.next());
        if next.is_err() {
            sorted = None;
        }
        next.transpose()
    }))
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

fn sorted(
    input: Stream<'_>,
    sort: &Sort,
    kept: Option<usize>,
    workspace: Workspace,
) -> Result<Sorted, QueryError> {
    let mut sorter = Sorter::new(sort.clone(), kept, workspace.clone());
    for (place, document) in input.enumerate() {
        let mut more = sorter.push(document?, place as u64)?;
        while more {
            workspace.pause()?;
            more = sorter.advance()?;
        }
    }
    let mut sorted = sorter.finish()?;
    while sorted.open()? {
        workspace.pause()?;
    }
    Ok(sorted)
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

fn sort_by_count<'p>(
    input: Stream<'p>,
    expression: &Expression,
    workspace: Workspace,
) -> Result<Stream<'p>, QueryError> {
    let counted = Group {
        id: expression.clone(),
        fields: vec![super::GroupField {
            name: "count".to_owned(),
            operator: "$sum",
            argument: Expression::literal(Bson::Int32(1)),
        }],
    };
    let by_count = Sort::by(vec![SortKey { path: "count".to_owned(), descending: true }]);
    let groups = group::group(input, &counted, &workspace)?;
    let sorted = sorted(groups, &by_count, None, workspace.clone())?;
    Ok(documents_of(sorted, workspace))
}

fn facet(
    input: Stream<'_>,
    facets: &[(String, Pipeline)],
    workspace: &Workspace,
) -> Result<Vec<Document>, QueryError> {
    let mut documents = Spool::new(workspace.clone(), "$facet");
    for document in input {
        documents.push(document?)?;
    }
    let documents = documents.finish_shared()?;
    let mut result = Document::new();
    for (name, pipeline) in facets {
        let mut output = Vec::new();
        let mut bytes = 0_usize;
        let input = documents.documents().map(|document| workspace.pause().and(document));
        for made in pipeline.stream_in(input, workspace) {
            let made = made?;
            bytes = bytes.saturating_add(limits::check_built(&made)?);
            if bytes > super::MADE_BYTES_MAX {
                return Err(workspace.over_limit("the result of a facet"));
            }
            output.push(Bson::Document(made));
        }
        result.insert(name.clone(), output);
    }
    check_made(result).map(|document| vec![document])
}

/// Reservoir sampling. The choice is not a secret, so the standard library's seed will do.
fn sample(input: Stream<'_>, count: u64, workspace: &Workspace) -> Result<Vec<Document>, QueryError> {
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    let random = RandomState::new();
    let below = |limit: usize, draw: usize| -> usize {
        let mut hasher = random.build_hasher();
        hasher.write_usize(draw);
        usize::try_from(hasher.finish() % (limit.max(1) as u64)).unwrap_or(0)
    };
    let mut chosen: Vec<Document> = Vec::new();
    let (mut held_bytes, mut held) = (0_usize, Held::new(workspace));
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
        if !held.fits(held_bytes) {
            return Err(workspace.over_limit("$sample"));
        }
    }
    // A reservoir keeps early documents in their places: shuffle.
    for last in (1..chosen.len()).rev() {
        chosen.swap(last, below(last + 1, usize::MAX - last));
    }
    Ok(chosen)
}
