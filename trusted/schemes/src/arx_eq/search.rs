//! Searches for values, and their replies compared with what is on record.

use super::occurrences::Occurrences;
use super::renumbering::is_worn;
use super::staging::of_record;
use super::{ArxEq, ArxEqIndex, covered, searches};
use crate::contract::{Difference, EqualityAnswer, State, Worn};
use crate::error::IndexError;
use arras_protocol::arx_eq::{ArxEq as Protocol, Entries, EntriesRequest, Request, Response, SearchToken};
use arras_protocol::{Channel, RowId};
use rand::seq::SliceRandom;
use std::collections::{BTreeMap, BTreeSet, HashSet};

/// A value asked for, and the record of its entries.
pub(super) struct Asked<'v> {
    value: &'v [u8],
    record: Vec<u8>,
    occurrences: Occurrences,
}

/// Names of values' records, and their entries; none of a value without.
type Recorded = Vec<(Vec<u8>, Option<Occurrences>)>;

impl ArxEq {
    /// The records of some values.
    pub(super) fn recorded_of<'v>(
        &self,
        values: impl IntoIterator<Item = &'v Vec<u8>>,
        state: &dyn State,
    ) -> Result<Recorded, IndexError> {
        let names: Vec<Vec<u8>> = values.into_iter().map(|value| self.record_name(value)).collect();
        let records = state.read_many(&names)?;
        let opened = |(name, record): (Vec<u8>, Option<Vec<u8>>)| Ok((name, of_record(record.as_deref())?));
        names.into_iter().zip(records).map(opened).collect()
    }

    /// The values that have entries, in a random order: the server sees no other.
    pub(super) fn asked<'v>(
        &self,
        values: &'v BTreeSet<Vec<u8>>,
        state: &dyn State,
    ) -> Result<Vec<Asked<'v>>, IndexError> {
        let of_value = values.iter().zip(self.recorded_of(values, state)?);
        let mut asked: Vec<_> = of_value
            .filter_map(|(value, (record, found))| Some(Asked { value, record, occurrences: found? }))
            .collect();
        asked.shuffle(&mut state.randomness().rng());
        Ok(asked)
    }
}

impl<C: Channel<Protocol>> ArxEqIndex<C> {
    pub(super) async fn call(&self, values: Vec<Vec<SearchToken>>) -> Result<Response, IndexError> {
        let request = Request { index: self.keyed.index(), values };
        Ok(Channel::<Protocol>::call(&self.channel, request).await?)
    }

    /// Searches for values, and compares the answer with what is on record.
    pub(super) async fn exact(&self, asked: &[Asked<'_>]) -> Result<EqualityAnswer, IndexError> {
        let tokens = asked.iter().map(|asked| self.keyed.tokens(asked.value, &asked.occurrences)).collect();
        let mut rows: Vec<RowId> = Vec::new();
        let mut values_asked = asked.iter();
        let mut of_one: HashSet<RowId> = HashSet::new();
        let (mut current, mut left) = (None, 0);
        for values in searches(tokens) {
            let covered: Vec<u64> = values.iter().map(|tokens| covered(tokens)).collect();
            let reply = self.call(values).await?;
            if reply.values.len() != covered.len() {
                return Err(IndexError::Peer("not an answer for each value"));
            }
            // A value of many entries may go on in the next reply.
            for (covered, matches) in covered.into_iter().zip(reply.values) {
                if left == 0 {
                    current = values_asked.next();
                    left = current.map_or(0, |asked| asked.occurrences.live() + asked.occurrences.holes());
                    of_one.clear();
                }
                let Some(current) = current else {
                    return Err(IndexError::Peer("answers for more values than were asked for"));
                };
                let answered = matches.rows.len() as u64 + u64::from(matches.missing);
                let once = matches.rows.iter().all(|row| of_one.insert(*row));
                rows.extend(matches.rows);
                left = left.saturating_sub(covered);
                let all = left > 0 || of_one.len() as u64 == current.occurrences.live();
                if answered != covered || !once || !all {
                    return Ok(EqualityAnswer::Differs(current.record.clone()));
                }
            }
        }
        let worn = asked.iter().filter(|asked| is_worn(&asked.occurrences));
        let worn = worn.map(|Asked { value, occurrences, .. }| Worn {
            value: value.to_vec(),
            searched: occurrences.encode(),
        });
        Ok(EqualityAnswer::Exact { rows, worn: worn.collect() })
    }
}

impl<C: Channel<Protocol> + Channel<Entries>> ArxEqIndex<C> {
    /// What the index holds against what it must.
    pub(super) async fn difference(
        &self,
        expected: BTreeMap<Vec<u8>, Vec<RowId>>,
        state: &dyn State,
    ) -> Result<Difference, IndexError> {
        let mut difference = Difference::default();
        // Of values that documents have: found, or not looked for.
        let mut known = 0;
        // The server sees the values in a random order.
        let mut expected: Vec<_> = expected.into_iter().collect();
        expected.shuffle(&mut state.randomness().rng());
        for (value, mut wanted) in expected {
            let record = state.read(&self.keyed.record_name(&value))?;
            let Some(occurrences) = record.and_then(|record| Occurrences::decode(&record).ok()) else {
                difference.unrecorded += 1;
                known += wanted.len() as u64;
                continue;
            };
            let mut held = Vec::new();
            for search in searches(vec![self.keyed.tokens(&value, &occurrences)]) {
                let reply = self.call(search).await?;
                held.extend(reply.values.into_iter().flat_map(|matches| matches.rows));
            }
            known += held.len() as u64;
            wanted.sort_unstable();
            held.sort_unstable();
            let (wanted, held): (BTreeSet<_>, BTreeSet<_>) = (numbered(wanted), numbered(held));
            difference.lacking += wanted.difference(&held).count() as u64;
            difference.foreign += held.difference(&wanted).count() as u64;
        }
        difference.foreign += self.entries().await?.saturating_sub(known);
        Ok(difference)
    }

    /// How many entries the index has.
    async fn entries(&self) -> Result<u64, IndexError> {
        let index = self.keyed.index();
        let (mut entries, mut after) = (0, None);
        loop {
            let page = Channel::<Entries>::call(&self.channel, EntriesRequest { index, after }).await?;
            entries += u64::from(page.entries);
            match page.last {
                None => return Ok(entries),
                Some(last) if after < Some(last) => after = Some(last),
                Some(_) => return Err(IndexError::Peer("a count of entries does not go on")),
            }
        }
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

#[cfg(test)]
mod tests;
