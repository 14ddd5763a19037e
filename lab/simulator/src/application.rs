//! What an application asks, and whether it was answered as it must be.

use crate::model::{Came, Choice, Item, Model, Writing, sorted};
use crate::plan::Action;
use arras_documents::filter::Filter;
use arras_documents::sort::Sort;
use arras_documents::update::{ArrayFilters, Update};
use arras_service::ServiceError;
use arras_service::error::{Blame, Fault};
use arras_service::interrupt::Interrupt;
use arras_service::store::{
    Aggregate, AggregateFunction, Cursor, DeleteStatement, InsertStatement, Modification, Namespace, Query,
    Store, UpdateStatement,
};
use bson::{Bson, Document, doc};
use std::collections::BTreeSet;

/// The collection that everybody works on.
#[must_use]
pub fn namespace() -> Namespace {
    Namespace { database: "simulation".into(), collection: "things".into() }
}

fn defect(error: impl std::fmt::Display) -> ServiceError {
    ServiceError::new(Fault::Internal, format!("the workload itself: {error}"))
}

fn filter(choice: &Choice, application: Option<i32>) -> Result<Filter, ServiceError> {
    Filter::parse(&choice.filter(application)).map_err(ServiceError::from)
}

fn query(choice: &Choice, application: Option<i32>, sort: Document) -> Result<Query, ServiceError> {
    Ok(Query {
        filter: filter(choice, application)?,
        sort: Sort::parse(&sort)?,
        skip: 0,
        limit: None,
        hint: None,
        allow_disk_use: false,
    })
}

fn by_v(descending: bool) -> Document {
    doc! { "v": if descending { -1 } else { 1 }, "_id": 1 }
}

fn update(change: &Document) -> Result<Update, ServiceError> {
    Ok(Update::parse(&Bson::Document(change.clone()))?)
}

/// Everything that a query finds.
///
/// # Errors
/// What the store says.
pub async fn all<S: Store>(store: &S, query: Query) -> Result<Vec<Item>, ServiceError> {
    let mut cursor = store.find(&namespace(), query).await?;
    let mut found = Vec::new();
    loop {
        let batch = cursor.next_batch(5, 1 << 20).await?;
        if batch.is_empty() {
            return Ok(found);
        }
        for document in &batch {
            let item = Item::read(document);
            found.push(item.ok_or_else(|| defect(format!("{document} was never written")))?);
        }
    }
}

/// Carries a write out.
///
/// # Errors
/// What the store says; nothing, or what is in doubt, was done then.
pub async fn write<S: Store>(store: &S, application: i32, writing: &Writing) -> Result<Came, ServiceError> {
    match writing_of(store, application, writing).await {
        Err(error) if error.fault == Fault::DuplicateKey => Ok(Came::Duplicate),
        outcome => outcome,
    }
}

async fn writing_of<S: Store>(store: &S, application: i32, writing: &Writing) -> Result<Came, ServiceError> {
    let ns = namespace();
    let change_of = |filter, change: &crate::model::Change, multi| {
        Ok::<_, ServiceError>(UpdateStatement {
            filter,
            update: update(&change.update())?,
            hint: None,
            array_filters: ArrayFilters::default(),
            multi,
            upsert: None,
            interrupt: Default::default(),
        })
    };
    Ok(match writing {
        Writing::Insert(items) => {
            let documents = items.iter().map(|item| item.document(application)).collect();
            let inserted = store.insert(&ns, InsertStatement::of(documents, false)?).await?;
            let other = inserted.failures.iter().find(|failure| failure.error.fault != Fault::DuplicateKey);
            if let Some(failure) = other {
                // Those before it may be there: what is known of each by itself is not compared.
                let doubt = format!("some of several inserts failed: {}", failure.error.message);
                let several = items.len() > 1 && judge(&failure.error, false).is_ok();
                return Err(if several {
                    ServiceError::new(Fault::InDoubt, doubt)
                } else {
                    failure.error.clone()
                });
            }
            Came::Inserted(
                inserted.count,
                inserted.failures.iter().map(|failure| failure.position).collect::<BTreeSet<_>>(),
            )
        }
        Writing::Update(choice, change) => {
            let statement = change_of(filter(choice, Some(application))?, change, true)?;
            let updated = store.update(&ns, statement).await?;
            Came::Updated(updated.matched, updated.modified)
        }
        Writing::UpdateOne(id, change) => {
            let statement = change_of(Filter::parse(&doc! { "_id": id })?, change, false)?;
            let updated = store.update(&ns, statement).await?;
            Came::Updated(updated.matched, updated.modified)
        }
        Writing::Delete(choice) => {
            let filter = filter(choice, Some(application))?;
            let statement =
                DeleteStatement { filter, hint: None, multi: true, interrupt: Default::default() };
            Came::Deleted(store.delete(&ns, statement).await?)
        }
        Writing::FindAndModify(choice, descending, change) => {
            let query = query(choice, Some(application), by_v(*descending))?;
            let update = update(&change.update())?;
            let how = Modification::Update {
                update,
                array_filters: ArrayFilters::default(),
                upsert: None,
                return_new: false,
            };
            let modified = store.find_and_modify(&ns, query, how, Interrupt::default()).await?;
            Came::Modified(modified.document.as_ref().and_then(Item::read))
        }
    })
}

/// What a read found.
#[derive(Clone, Debug, PartialEq)]
pub enum Found {
    /// Documents; their order does not matter where they are in none.
    Items(Vec<Item>),
    /// Documents that match.
    Count(u64),
    /// A sum; none where no index has it.
    Sum(Option<i64>),
}

/// Carries a read out; none if the action is no read.
///
/// # Errors
/// What the store says.
pub async fn read<S: Store>(
    store: &S,
    application: Option<i32>,
    action: &Action,
) -> Result<Option<Found>, ServiceError> {
    Ok(Some(match action {
        Action::Find(choice) => {
            let mut items = all(store, query(choice, application, Document::new())?).await?;
            items.sort();
            Found::Items(items)
        }
        Action::Sorted(choice, descending, limit) => {
            let query = Query { limit: Some(*limit), ..query(choice, application, by_v(*descending))? };
            Found::Items(all(store, query).await?)
        }
        Action::Count(choice) => {
            Found::Count(store.count(&namespace(), query(choice, application, Document::new())?).await?)
        }
        Action::Sum(low, high) => {
            let query = query(&Choice::A(*low, *high), application, Document::new())?;
            let sum = Aggregate { name: "sum".into(), function: AggregateFunction::Sum("v".into()) };
            let summed = store.aggregate(&namespace(), &query, &[sum]).await?;
            Found::Sum(summed.map(|summed| number(summed.get("sum"))))
        }
        Action::Write(_) | Action::CreateIndex(_) | Action::DropIndex(_) | Action::Wait(_) => {
            return Ok(None);
        }
    }))
}

fn number(value: Option<&Bson>) -> i64 {
    match value {
        Some(Bson::Int32(value)) => i64::from(*value),
        Some(Bson::Int64(value)) => *value,
        _ => i64::MIN,
    }
}

/// What it must have found. A sum that no index has is right.
#[must_use]
pub fn expected(action: &Action, items: &crate::model::Items, found: &Found) -> Found {
    match action {
        Action::Find(choice) => {
            let mut items: Vec<Item> = items.values().filter(|item| choice.takes(item)).cloned().collect();
            items.sort();
            Found::Items(items)
        }
        Action::Sorted(choice, descending, limit) => {
            let limit = usize::try_from(*limit).unwrap_or(usize::MAX);
            Found::Items(sorted(items, choice, *descending).into_iter().take(limit).collect())
        }
        Action::Count(choice) => {
            Found::Count(items.values().filter(|item| choice.takes(item)).count() as u64)
        }
        Action::Sum(low, high) if *found != Found::Sum(None) => {
            let choice = Choice::A(*low, *high);
            let taken = items.values().filter(|item| choice.takes(item));
            Found::Sum(Some(taken.map(|item| i64::from(item.v)).sum()))
        }
        Action::Sum(..)
        | Action::Write(_)
        | Action::CreateIndex(_)
        | Action::DropIndex(_)
        | Action::Wait(_) => Found::Sum(None),
    }
}

/// Compares what a read found with what it must have.
///
/// # Errors
/// The difference.
pub fn compare(model: &mut Model, action: &Action, found: &Found) -> Result<(), String> {
    model.read(&format!("{action:?}"), found, |items| expected(action, items, found))
}

/// Whether a failure may happen to an application of an honest server while indexes are dropped or while none is, and whether what it
/// did is in doubt then.
///
/// # Errors
/// Why it may not.
pub fn judge(error: &ServiceError, drops: bool) -> Result<bool, String> {
    let excused = error.message.contains("injected") || error.message.contains("this process is dead");
    match error.fault.blame() {
        Blame::Connection => Ok(error.fault == Fault::InDoubt),
        Blame::Server | Blame::Proxy if excused => Ok(error.fault != Fault::ProxyStore),
        // An index that a query goes by may be dropped meanwhile.
        Blame::Server if error.message.contains("unknown index") => Ok(false),
        Blame::Data if error.fault == Fault::Dropped && drops => Ok(false),
        Blame::Data if error.fault == Fault::DuplicateKey => Ok(false),
        // One that was dropped already, or never made.
        Blame::Request if error.fault == Fault::IndexNotFound => Ok(false),
        Blame::Request | Blame::Data | Blame::Resources | Blame::Server | Blame::Proxy | Blame::Nobody => {
            Err(format!("{:?}: {}", error.fault, error.message))
        }
    }
}
