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
use arras_protocol::{Channel, ChannelError, IndexId, RowId, arx_eq, documents, unique};
use arras_records::OpenDocument;
use arras_schemes::arx_eq::occurrences::Occurrences;
use arras_schemes::arx_eq::{self as client, ArxEq};
use arras_schemes::arx_range::Epochs;
use arras_schemes::contract::Serves;
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
            Serves::Unique(_) => Self::Unique { lacking: 0 },
            Serves::Equality(_) => Self::Eq(BTreeMap::new()),
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
                Expected::Unique { lacking } => (lacking > 0).then(|| lacks(lacking)),
                Expected::Eq(values) => match part.half.serves() {
                    Serves::Equality(half) => self.equality(half, values).await?,
                    Serves::Unique(_) | Serves::Range => None,
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
                if let Err(wrong) = self.note(part, &opened, expected).await? {
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

    /// Adds what some documents say of an index. The inner error is a finding.
    async fn note(
        &self,
        part: &IndexPart,
        documents: &[OpenDocument],
        expected: &mut Expected,
    ) -> Result<Result<(), String>, OpenError> {
        let mut labels = Vec::new();
        for document in documents {
            let row = document.row;
            let entries = match terms::of(part, &document.document) {
                Ok(entries) => entries,
                Err(error) => return Ok(Err(error.to_string())),
            };
            match (part.half.serves(), &mut *expected) {
                (Serves::Unique(half), Expected::Unique { .. }) => {
                    labels.extend(entries.terms.keys().map(|value| (half.label(value), row)));
                }
                (Serves::Equality(half), Expected::Eq(values)) => {
                    if document.terms.of(half.index()).len() != entries.terms.len() {
                        return Ok(Err("a document's header has not one counter for each value".into()));
                    }
                    for value in entries.terms.into_keys() {
                        values.entry(value).or_default().push(row);
                    }
                }
                (Serves::Range, Expected::Range(held)) => {
                    held.extend(entries.terms.into_keys().map(|key| (key, row)));
                }
                (Serves::Unique(_) | Serves::Equality(_) | Serves::Range, _) => {}
            }
        }
        if let Expected::Unique { lacking } = expected {
            *lacking += self.unique(part, labels).await?;
        }
        Ok(Ok(()))
    }

    /// How many labels do not lead to their rows.
    async fn unique(&self, part: &IndexPart, labels: Vec<(unique::Label, RowId)>) -> Result<u64, OpenError> {
        let asked_for = labels.iter().map(|(label, _)| *label).collect();
        let request = unique::Request { index: part.id, labels: asked_for };
        let reply = asked(Channel::<unique::Unique>::call(&**self.channel, request).await)?;
        if reply.rows.len() != labels.len() {
            return Err(IndexError::Peer("not the labels asked for").into());
        }
        let wrong = reply.rows.iter().zip(&labels).filter(|(found, (_, row))| **found != Some(*row));
        Ok(wrong.count() as u64)
    }

    /// What an equality index holds against what it must.
    async fn equality(
        &self,
        half: &ArxEq,
        values: BTreeMap<Vec<u8>, Vec<RowId>>,
    ) -> Result<Option<String>, OpenError> {
        let (mut lacking, mut foreign, mut unrecorded) = (0, 0, 0);
        // Of values that documents have: found, or not looked for.
        let mut known = 0;
        for (value, mut wanted) in values {
            let name = half.record_name(&value);
            let record: Option<Vec<u8>> = self.local.get_as_named(COUNTERS, &name)?;
            let Some(occurrences) = record.and_then(|record| Occurrences::decode(&record).ok()) else {
                unrecorded += 1;
                known += wanted.len() as u64;
                continue;
            };
            let mut held = Vec::new();
            for search in client::searches(vec![half.tokens(&value, &occurrences)]) {
                let request = arx_eq::Request { index: half.index(), values: search };
                let reply = asked(Channel::<arx_eq::ArxEq>::call(&**self.channel, request).await)?;
                held.extend(reply.values.into_iter().flat_map(|matches| matches.rows));
            }
            known += held.len() as u64;
            wanted.sort_unstable();
            held.sort_unstable();
            let (wanted, held): (BTreeSet<_>, BTreeSet<_>) = (numbered(wanted), numbered(held));
            lacking += wanted.difference(&held).count() as u64;
            foreign += held.difference(&wanted).count() as u64;
        }
        foreign += self.entries(half.index()).await?.saturating_sub(known);
        Ok(describe(lacking, foreign, unrecorded))
    }

    /// How many entries an equality index has.
    async fn entries(&self, index: IndexId) -> Result<u64, OpenError> {
        let (mut entries, mut after) = (0, None);
        loop {
            let request = arx_eq::EntriesRequest { index, after };
            let page = asked(Channel::<arx_eq::Entries>::call(&**self.channel, request).await)?;
            entries += u64::from(page.entries);
            match page.last {
                None => return Ok(entries),
                Some(last) if after < Some(last) => after = Some(last),
                Some(_) => return Err(IndexError::Peer("a count of entries does not go on").into()),
            }
        }
    }
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

/// Sorted rows, each with its number among its equals: a set that tells repeats.
fn numbered(rows: Vec<RowId>) -> BTreeSet<(RowId, usize)> {
    let mut numbered = BTreeSet::new();
    for row in rows {
        let number = numbered.range((row, 0)..=(row, usize::MAX)).count();
        numbered.insert((row, number));
    }
    numbered
}

fn lacks(lacking: u64) -> String {
    format!("{lacking} entries that documents call for are not there")
}

fn difference(wanted: &BTreeSet<(Vec<u8>, RowId)>, held: &BTreeSet<(Vec<u8>, RowId)>) -> Option<String> {
    describe(wanted.difference(held).count() as u64, held.difference(wanted).count() as u64, 0)
}

fn describe(lacking: u64, foreign: u64, unrecorded: u64) -> Option<String> {
    let told = [
        (lacking > 0).then(|| lacks(lacking)),
        (foreign > 0).then(|| format!("{foreign} entries belong to no document")),
        (unrecorded > 0).then(|| format!("{unrecorded} values have no record of their entries in the proxy")),
    ];
    let told: Vec<String> = told.into_iter().flatten().collect();
    (!told.is_empty()).then(|| told.join(", "))
}
