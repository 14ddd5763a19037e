//! Building, writing and merging instances.

use super::LogarithmicBrc;
use super::build::{Builder, count};
use super::instance::InstanceKeys;
use super::record::{Operation, Record, newest};
use super::state::{Facts, Instance, State};
use crate::arx_range::RangeEntry;
use crate::error::IndexError;
use arras_protocol::Channel;
use arras_protocol::logarithmic_brc::{InstanceId, LogarithmicBrc as Protocol, Others, Request, Response};
use std::sync::Arc;

impl<C: Channel<Protocol>> LogarithmicBrc<C> {
    /// Loads an index that is empty: one instance, complete for searches at every level, which the paper calls static.
    ///
    /// # Errors
    /// [`IndexError`]; [`IndexError::Caller`] if the index is not empty or the entries are more than 2^30. After any
    /// error the index is as before.
    pub async fn bulk_load(&self, entries: Vec<RangeEntry>) -> Result<(), IndexError> {
        let records = newest(self.records(entries, Operation::Insert)?);
        let mut attempted = self.writing.lock().await;
        let before = self.state.read().await.clone();
        if !before.instances.is_empty() {
            return Err(IndexError::Caller("only an empty index is loaded in bulk"));
        }
        if records.is_empty() {
            return Ok(());
        }
        let built = self.build(&records, false, &before, &mut attempted).await?;
        self.replace(State { instances: vec![built], replaced: Vec::new() }).await;
        Ok(())
    }

    /// Drops what the server holds of this index and the client does not know: instances that a failed write left,
    /// and those that the last write replaced. For a client that starts, after its state is restored.
    ///
    /// # Errors
    /// [`IndexError`].
    pub async fn collect(&self) -> Result<(), IndexError> {
        let mut attempted = self.writing.lock().await;
        let mut state = self.state.read().await.clone();
        let instances = state.ids();
        // Searches that read an instance of before are through: the next writer of the state waited for them.
        match self.channel.call(Request::Retain { index: self.index, instances }).await? {
            Response::Done => {}
            Response::Found { .. } => return Err(IndexError::Peer("lists for a request to drop")),
        }
        attempted.clear();
        state.replaced.clear();
        self.replace(state).await;
        Ok(())
    }

    /// Writes records, which are of different entries or equal, as the newest.
    pub(super) async fn update(&self, records: Vec<Record>) -> Result<(), IndexError> {
        if records.is_empty() {
            return Ok(());
        }
        let mut attempted = self.writing.lock().await;
        let before = self.state.read().await.clone();
        let mut state = before.clone();
        // The buffer, if there is one.
        let mut replaced = Vec::from_iter(state.instances.pop_if(|newest| newest.facts.flat));
        let mut all = records;
        all.extend(self.read_all(&replaced).await?);
        let mut all = newest(all);
        if all.len() > self.parameters.buffer_records() {
            // It becomes, or joins, an instance of lists. Those that are no larger merge with it.
            replaced.clear();
            let mut size = all.len();
            while let Some(older) = state.instances.pop_if(|older| older.facts.records as usize <= size) {
                size += older.facts.records as usize;
                replaced.push(older);
            }
            all.extend(self.read_all(&replaced).await?);
            all = newest(all);
        }
        if state.instances.is_empty() {
            all.retain(|record| record.operation == Operation::Insert);
        }
        let stays = |id: &InstanceId| state.instances.iter().any(|instance| instance.facts.id == *id);
        let replaced: Vec<InstanceId> = before.ids().into_iter().filter(|id| !stays(id)).collect();
        if all.is_empty() {
            // The server is not told.
            state.replaced.extend(replaced);
        } else {
            let flat = all.len() <= self.parameters.buffer_records();
            state.replaced = replaced;
            state.instances.push(self.build(&all, flat, &before, &mut attempted).await?);
        }
        self.replace(state).await;
        Ok(())
    }

    /// Makes the instances those of later searches, once earlier ones are through.
    async fn replace(&self, state: State) {
        *self.state.write().await = state;
    }

    /// Builds an instance; the server keeps only those of `before` beside it. `attempted` are earlier ones of which it is not known
    /// whether they are there.
    async fn build(
        &self,
        records: &[Record],
        flat: bool,
        before: &State,
        attempted: &mut Vec<InstanceId>,
    ) -> Result<Arc<Instance>, IndexError> {
        let too_many = IndexError::Caller("more entries than an instance may have");
        let Some(record_count) = count(records) else {
            return Err(too_many);
        };
        let mut id = InstanceId([0; 16]);
        self.with_prg(|prg| prg.fill(&mut id.0));
        let [keywords, seals] = &self.roots;
        let keys = InstanceKeys::new(keywords, seals, id);
        let builder = self.with_prg(|prg| Builder::new(&self.parameters, &keys, flat, records, prg));
        let Some(builder) = builder else {
            return Err(too_many);
        };
        let shape = builder.shape;
        let replaced = before.replaced.iter().chain(&*attempted).copied().collect();
        let mut others = Some(Others { kept: before.ids(), replaced });
        attempted.push(id);
        for (batch, is_last) in builder.batches() {
            let others = if is_last { others.take() } else { None };
            let request = Request::Build {
                index: self.index,
                instance: id,
                shape,
                bins: batch.bins,
                blocks: batch.blocks,
                others,
            };
            let Response::Done = self.channel.call(request).await? else {
                return Err(IndexError::Peer("lists for a request to build"));
            };
        }
        attempted.clear();
        Ok(Arc::new(Instance { facts: Facts { id, records: record_count, shape, flat }, keys }))
    }
}
