//! Keyless half of mutable order-preserving encoding as an index of documents: nodes, table and entries, and one version
//! for them ([`arras_protocol::mope`] says what they are).
//!
//! *Storage.* A head an index. Nodes by number, as they came: nothing here reads them. The table both ways, ciphertext to
//! label and label to ciphertext. Entries under their ciphertexts: a change of labels touches the table alone, whatever
//! the number of entries.
//!
//! *Trust.* What a request says is checked against what is stored: versions, labels that are taken, ciphertexts that leave
//! with entries. That nodes say what the table says is the client's affair, who alone reads them.
//!
//! *Memory.* A spread goes through the table in pages ([`spread`]); what it changes is held by the store until the commit, as of
//! any write.

mod change;
mod search;
mod spread;
mod store;
#[cfg(test)]
mod tests;

use crate::backend::{look_up, storage};
use arras_protocol::limits::REPLY_BYTES_SOFT;
use arras_protocol::mope::index::{ASKED_MAX, Change, Listed, Request, Response};
use arras_protocol::mope::{Fetch, Fetched};
use arras_protocol::{Blob, IndexId, Refusal};
use arras_storage::{Durability, Read, Storage, Write};
use std::ops::ControlFlow;
pub(crate) use store::EMPTIED;
use store::{ENTRIES, Index, NODES, TABLE};

/// True for what changes an index, or which there are.
pub(crate) fn is_change(request: &Request) -> bool {
    match request {
        Request::Change(_) => true,
        Request::Fetch { .. } | Request::Look { .. } | Request::Search { .. } => false,
    }
}

fn malformed(what: &str) -> Refusal {
    Refusal::Malformed(what.to_owned())
}

fn check_count(count: usize, max: usize) -> Result<(), Refusal> {
    if count > max { Err(Refusal::Limit(format!("{count} at once, at most {max}"))) } else { Ok(()) }
}

/// Answers a request.
pub(crate) fn answer<S: Storage>(store: &S, request: Request) -> Result<Response, Refusal> {
    match request {
        Request::Change(change) => {
            let mut writer = store.write().map_err(storage)?;
            apply(&mut writer, &change)?;
            writer.commit(Durability::Durable).map_err(storage)?;
            Ok(Response::Done)
        }
        Request::Fetch { index, fetch } => {
            let reader = store.read().map_err(storage)?;
            let index = Index::open(&reader, index)?;
            fetched(&reader, &index, &fetch).map(Response::Fetched)
        }
        Request::Look { index, entries } => {
            let reader = store.read().map_err(storage)?;
            let index = Index::open(&reader, index)?;
            there(&reader, &index, &entries).map(Response::There)
        }
        Request::Search { index, search } => {
            let reader = store.read().map_err(storage)?;
            let index = Index::open(&reader, index)?;
            search::answer(&reader, &index, &search)
        }
    }
}

/// Applies a step of a write.
pub(crate) fn apply(writer: &mut impl Write, change: &Change) -> Result<(), Refusal> {
    match change {
        Change::CreateIndex { index, ciphertext_bytes } => store::create(writer, *index, *ciphertext_bytes),
        Change::DropIndex { index } => store::drop_index(writer, *index),
        Change::Update { index, update } => {
            let mut opened = Index::open(writer, *index)?;
            change::apply(writer, &mut opened, update)
        }
    }
}

/// Nodes and labels, in the order asked for.
fn fetched(reader: &impl Read, index: &Index, fetch: &Fetch) -> Result<Fetched, Refusal> {
    check_count(fetch.nodes.len(), ASKED_MAX)?;
    check_count(fetch.ciphertexts.len(), ASKED_MAX)?;
    index.check_ciphertexts(fetch.ciphertexts.iter())?;
    let root = fetch.root.then_some(index.head.root);
    let mut nodes = Vec::with_capacity(fetch.nodes.len() + 1);
    let mut bytes = 0;
    let keys = fetch.nodes.iter().copied().chain(root).map(|node| index.node_key(node));
    look_up(reader, NODES, keys, |node| {
        bytes += node.as_ref().map_or(0, |node| node.len());
        if bytes > REPLY_BYTES_SOFT {
            return Err(Refusal::Limit(format!("nodes of more than {REPLY_BYTES_SOFT} bytes at once")));
        }
        nodes.push(node.map(|node| Blob(node.to_vec())));
        Ok(ControlFlow::Continue(()))
    })?;
    let mut labels = Vec::with_capacity(fetch.ciphertexts.len());
    let keys = fetch.ciphertexts.iter().map(|ciphertext| index.table_key(ciphertext.as_slice()));
    look_up(reader, TABLE, keys, |label| {
        labels.push(label.map(|label| store::label_of(&label)).transpose()?);
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(Fetched { head: index.head, nodes, labels })
}

/// Which of the entries are there.
fn there(reader: &impl Read, index: &Index, entries: &[Listed]) -> Result<Vec<bool>, Refusal> {
    check_count(entries.len(), ASKED_MAX)?;
    index.check_ciphertexts(entries.iter().map(|entry| &entry.ciphertext))?;
    let mut found = Vec::with_capacity(entries.len());
    look_up(reader, ENTRIES, entries.iter().map(|entry| index.entry_key(entry)), |entry| {
        found.push(entry.is_some());
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(found)
}

/// What is stored of an index contradicts itself.
fn damaged(index: IndexId, what: &str) -> Refusal {
    Refusal::Damaged(format!("{index:?}: {what}"))
}
