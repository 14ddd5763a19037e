//! Every index compared with the documents: `arras doctor --deep`. It changes nothing of what the indexes hold, and runs
//! beside nothing that writes: the proxy must be stopped. An index that sorts itself by being searched is sorted by it, whole.
//! Memory is in proportion to the entries of one collection's indexes.

use super::apply::COUNTERS;
use super::catalog::{self, CollectionRecord};
use super::channel::ServerChannel;
use super::collection::Collection;
use super::index::RangeSettings;
use super::index::{IndexPart, Opening};
use super::ledger::Ledger;
use super::local::LocalStore;
use super::{OpenError, terms};
use arras_keys::Keyring;
use arras_protocol::{Channel, ChannelError, RowId, documents};
use arras_records::OpenDocument;
use arras_schemes::contract::Epochs;
use arras_schemes::contract::{Difference, Serves};
use arras_schemes::error::IndexError;
use arras_storage::Storage;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Documents of one step.
const DOCUMENTS_PER_STEP: u32 = 1000;

/// What was found of one collection.
#[derive(Debug, Default)]
pub struct Inspected {
    /// Database and collection.
    pub name: String,
    /// Its documents.
    pub documents: u64,
    /// Its indexes that were compared.
    pub indexes: usize,
    /// What is not as it must be, a line each. Names of fields, never values.
    pub wrong: Vec<String>,
}

/// What the documents say that an index must hold.
enum Expected {
    /// Looked up while the documents are read.
    Unique {
        lacking: u64,
    },
    /// Of each value, its rows.
    Eq(BTreeMap<Vec<u8>, Vec<RowId>>),
    Range(BTreeSet<(Vec<u8>, RowId)>),
}

impl Expected {
    fn of(part: &IndexPart) -> Self {
        match part.half.serves() {
            Serves::Unique => Self::Unique { lacking: 0 },
            Serves::Equality => Self::Eq(BTreeMap::new()),
            Serves::Range => Self::Range(BTreeSet::new()),
        }
    }
}

/// Compares every collection's indexes and counts with its documents.
///
/// # Errors
/// [`OpenError`] if the comparison cannot be made: what it finds wrong is in its result.
pub async fn inspect<S: Storage, C: ServerChannel>(
    local: &LocalStore<S>,
    keyring: &Keyring,
    channel: &Arc<C>,
    settings: RangeSettings,
) -> Result<Vec<Inspected>, OpenError> {
    let ledger = Ledger::open(local, COUNTERS)?;
    let mut all = Vec::new();
    for record in catalog::all(local)? {
        let inspection = Inspection { local, channel, found: Inspected::default() };
        let mut found = inspection.collection(&record, keyring, settings).await?;
        if let Some(counted) = ledger.documents(record.id)
            && counted != found.documents
        {
            found.wrong.push(format!("the server has {} documents of {counted}", found.documents));
        }
        all.push(found);
    }
    Ok(all)
}

struct Inspection<'i, S, C> {
    local: &'i LocalStore<S>,
    channel: &'i Arc<C>,
    found: Inspected,
}

fn asked<T>(outcome: Result<T, ChannelError>) -> Result<T, OpenError> {
    outcome.map_err(|error| OpenError::Index(IndexError::from(error)))
}

impl<S: Storage, C: ServerChannel> Inspection<'_, S, C> {
    async fn collection(
        mut self,
        record: &CollectionRecord,
        keyring: &Keyring,
        settings: RangeSettings,
    ) -> Result<Inspected, OpenError> {
        self.found.name = format!("{}.{}", record.database, record.collection);
        let root = keyring.root(record.key_version).ok_or(OpenError::KeyVersion(record.key_version))?;
        let mut indexes = Vec::new();
        let epochs = Arc::new(Epochs::new(0));
        let opening =
            Opening { channel: self.channel, epochs: &epochs, range: settings, state: self.local, starts: 0 };
        for made in record.indexes.iter().filter(|made| made.ready) {
            let request = made.request()?;
            let name = request.name.clone();
            match opening.open(made, request, root).await {
                Ok(opened) => indexes.push(opened),
                Err(error) => self.found.wrong.push(format!("index {name}: {error}")),
            }
        }
        let collection = Collection::new(record, root, indexes);
        let mut parts: Vec<(String, Arc<IndexPart>, Expected)> = Vec::new();
        for index in collection.indexes().iter() {
            let of_part =
                |part: &Arc<IndexPart>| (index.request.name.clone(), Arc::clone(part), Expected::of(part));
            parts.extend(index.parts.iter().map(of_part));
        }
        self.found.indexes = parts.len();
        self.read(&collection, &mut parts).await?;
        for (name, part, expected) in parts {
            let wrong = match expected {
                Expected::Unique { lacking } => describe(Difference { lacking, ..Difference::default() }),
                Expected::Eq(values) => match Arc::clone(&part.half).equality() {
                    Some(half) => describe(half.inspect(values, self.local).await?),
                    None => None,
                },
                Expected::Range(entries) => range(&part, &entries).await?,
            };
            self.found.wrong.extend(wrong.map(|wrong| format!("index {name}: {wrong}")));
        }
        Ok(self.found)
    }

    /// Reads the documents and notes what they say of each index.
    async fn read(
        &mut self,
        collection: &Collection,
        parts: &mut [(String, Arc<IndexPart>, Expected)],
    ) -> Result<(), OpenError> {
        let mut after = None;
        loop {
            let request = documents::Request::Scan {
                collection: collection.id,
                after,
                documents_max: DOCUMENTS_PER_STEP,
            };
            let reply = asked(Channel::<documents::Documents>::call(&**self.channel, request).await)?;
            let documents::Response::Documents { documents, more, .. } = reply else {
                return Err(IndexError::Peer("not the documents asked for").into());
            };
            let mut opened = Vec::with_capacity(documents.len());
            let before = after;
            for sealed in &documents {
                if after.is_some_and(|after| sealed.row <= after) {
                    return Err(IndexError::Peer("documents are repeated or out of order in a scan").into());
                }
                after = Some(sealed.row);
                self.found.documents += 1;
                match collection.sealer.open(sealed) {
                    Ok(document) => opened.push(document),
                    Err(error) => self.found.wrong.push(format!("a document: {error}")),
                }
            }
            for (name, part, expected) in parts.iter_mut() {
                if let Err(wrong) = note(part, &opened, expected).await? {
                    self.found.wrong.push(format!("index {name}: {wrong}"));
                }
            }
            if !more {
                return Ok(());
            }
            if before == after {
                return Err(IndexError::Peer("a scan does not go on").into());
            }
        }
    }
}

/// Adds what some documents say of an index. The inner error is a finding.
async fn note(
    part: &IndexPart,
    documents: &[OpenDocument],
    expected: &mut Expected,
) -> Result<Result<(), String>, OpenError> {
    let mut unique = Vec::new();
    for document in documents {
        let row = document.row;
        let entries = match terms::of(part, &document.document) {
            Ok(entries) => entries,
            Err(error) => return Ok(Err(error.to_string())),
        };
        match &mut *expected {
            Expected::Unique { .. } => unique.extend(entries.terms.into_keys().map(|value| (value, row))),
            Expected::Eq(values) => {
                if document.terms.of(part.id).len() != entries.terms.len() {
                    return Ok(Err("a document's header has not one counter for each value".into()));
                }
                for value in entries.terms.into_keys() {
                    values.entry(value).or_default().push(row);
                }
            }
            Expected::Range(held) => held.extend(entries.terms.into_keys().map(|key| (key, row))),
        }
    }
    if let Expected::Unique { lacking } = expected {
        *lacking += misled(part, unique).await?;
    }
    Ok(Ok(()))
}

/// How many values do not lead to their rows.
async fn misled(part: &IndexPart, values: Vec<(Vec<u8>, RowId)>) -> Result<u64, OpenError> {
    let Some(half) = Arc::clone(&part.half).unique() else { return Ok(0) };
    let (values, rows): (Vec<_>, Vec<_>) = values.into_iter().unzip();
    let holders = half.holders(values).await?;
    Ok(holders.iter().zip(&rows).filter(|(holder, row)| **holder != Some(**row)).count() as u64)
}

/// What a range index holds against what it must.
async fn range(part: &IndexPart, entries: &BTreeSet<(Vec<u8>, RowId)>) -> Result<Option<String>, OpenError> {
    let Some(index) = Arc::clone(&part.half).range() else { return Ok(None) };
    match index.inspect().await {
        Ok(held) => Ok(difference(entries, &held.into_iter().collect())),
        // A server that refuses what its own records name says that they do not hang together.
        Err(error @ IndexError::Channel(ChannelError::Refused(_))) => Ok(Some(error.to_string())),
        Err(error @ IndexError::Channel(_)) => Err(error.into()),
        Err(error) => Ok(Some(error.to_string())),
    }
}

fn difference(wanted: &BTreeSet<(Vec<u8>, RowId)>, held: &BTreeSet<(Vec<u8>, RowId)>) -> Option<String> {
    describe(Difference {
        lacking: wanted.difference(held).count() as u64,
        foreign: held.difference(wanted).count() as u64,
        unrecorded: 0,
    })
}

fn describe(Difference { lacking, foreign, unrecorded }: Difference) -> Option<String> {
    let told = [
        (lacking > 0).then(|| format!("{lacking} entries that documents call for are not there")),
        (foreign > 0).then(|| format!("{foreign} entries belong to no document")),
        (unrecorded > 0).then(|| format!("{unrecorded} values have no record of their entries in the proxy")),
    ];
    let told: Vec<String> = told.into_iter().flatten().collect();
    (!told.is_empty()).then(|| told.join(", "))
}
