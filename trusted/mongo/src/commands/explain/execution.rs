//! What running a query took, by the names MongoDB gives it.

use super::Explained;
use crate::commands::count::number;
use crate::commands::{aggregate, reads};
use crate::cursors::{Batches, Shape};
use crate::dispatch::Context;
use crate::error::{CommandError, CommandResult};
use arras_service::examined::{self, Tally};
use arras_service::explanation::Explanation;
use arras_service::store::{Namespace, Query, Store};
use bson::{Document, doc};
use std::sync::Arc;
use std::time::Instant;

/// What a run came to.
struct Execution {
    /// Documents handed on, counted, or that would be changed.
    results: u64,
    /// Entries of indexes that the proxy was given.
    entries: u64,
    /// Documents that the proxy was given.
    documents: u64,
    milliseconds: u64,
}

/// Runs a command as far as it reads; `executionStats`.
pub(super) async fn run<S: Store>(
    context: &Context<'_, S>,
    explained: Explained,
    explanation: &Explanation,
) -> CommandResult {
    let (tally, began) = (Arc::new(Tally::default()), Instant::now());
    let stage = Outer::of(&explained);
    let results = examined::counted(Some(Arc::clone(&tally)), results(context, explained)).await?;
    let ran = Execution {
        results,
        entries: tally.entries(),
        documents: tally.documents(),
        milliseconds: u64::try_from(began.elapsed().as_millis()).unwrap_or(u64::MAX),
    };
    Ok(doc! {
        "executionSuccess": true,
        "nReturned": number(stage.returned(&ran)),
        "executionTimeMillis": number(ran.milliseconds),
        "totalKeysExamined": number(ran.entries),
        "totalDocsExamined": number(ran.documents),
        "executionStages": stage.over(&ran, explanation),
    })
}

/// Runs it; how many results there are.
async fn results<S: Store>(context: &Context<'_, S>, explained: Explained) -> Result<u64, CommandError> {
    match explained {
        Explained::Count(namespace, query) => {
            context.deadline.read(context.store().count(&namespace, query)).await
        }
        Explained::Find(namespace, query)
        | Explained::Update(namespace, query)
        | Explained::Delete(namespace, query) => found(context, &namespace, query).await,
        Explained::Aggregate(aggregation) => {
            counted(context, aggregate::batches(context, *aggregation).await?).await
        }
    }
}

async fn found<S: Store>(
    context: &Context<'_, S>,
    namespace: &Namespace,
    query: Query,
) -> Result<u64, CommandError> {
    let limit = query.limit;
    let cursor = context.deadline.read(context.store().find(namespace, query)).await?;
    counted(context, Batches::of_store(cursor, Shape::Whole, limit)).await
}

async fn counted<S: Store>(
    context: &Context<'_, S>,
    mut batches: Batches<S::Cursor>,
) -> Result<u64, CommandError> {
    let mut count = 0_u64;
    while let Some(documents) = reads::next_documents(context, &mut batches).await? {
        count += documents.len() as u64;
    }
    Ok(count)
}

/// The stage above those that read.
#[derive(Clone, Copy)]
enum Outer {
    None,
    Count,
    Update,
    Delete,
}

impl Outer {
    fn of(explained: &Explained) -> Self {
        match explained {
            Explained::Find(..) | Explained::Aggregate(_) => Self::None,
            Explained::Count(..) => Self::Count,
            Explained::Update(..) => Self::Update,
            Explained::Delete(..) => Self::Delete,
        }
    }

    /// Documents it hands on: a count or a write returns none.
    fn returned(self, ran: &Execution) -> u64 {
        match self {
            Self::None => ran.results,
            Self::Count | Self::Update | Self::Delete => 0,
        }
    }

    fn over(self, ran: &Execution, explanation: &Explanation) -> Document {
        let results = number(ran.results);
        let mut stage = match self {
            Self::None => return reading(ran, explanation),
            Self::Count => doc! { "stage": "COUNT", "nCounted": results },
            Self::Update => doc! { "stage": "UPDATE", "nMatched": results.clone(), "nWouldModify": results },
            Self::Delete => doc! { "stage": "DELETE", "nWouldDelete": results },
        };
        stage.insert("nReturned", 0);
        stage.insert("executionTimeMillisEstimate", number(ran.milliseconds));
        if ran.entries > 0 || ran.documents > 0 || !(explanation.scan || explanation.on_record) {
            stage.insert("inputStage", reading(ran, explanation));
        }
        stage
    }
}

/// The stages that read.
fn reading(ran: &Execution, explanation: &Explanation) -> Document {
    let stage = |name: &str, returned: u64| {
        let time = number(ran.milliseconds);
        doc! { "stage": name, "nReturned": number(returned), "executionTimeMillisEstimate": time }
    };
    let documents = number(ran.documents);
    let mut outer = match explanation.indexes.first() {
        None if explanation.scan => stage("COLLSCAN", ran.results),
        None if explanation.on_record => stage("RECORD_STORE_FAST_COUNT", ran.results),
        None => stage("IDHACK", ran.results),
        Some(used) => {
            let mut entries = stage("IXSCAN", ran.entries);
            entries.insert("indexName", used.name.as_str());
            entries.insert("keysExamined", number(ran.entries));
            let mut fetch = stage("FETCH", ran.results);
            fetch.insert("inputStage", entries);
            fetch
        }
    };
    outer.insert("docsExamined", documents);
    outer
}
