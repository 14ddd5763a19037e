//! The test body on the baseline itself, and on baselines that are wrong.

use crate::body::{self, Subject};
use crate::world::Wire;
use arras_protocol::Order;
use arras_protocol::RowId;
use arras_protocol::hello::Hello;
use arras_protocol::ore::Width;
use arras_protocol::{Channel, hello};
use arras_schemes::IndexError;
use arras_schemes::arx_range::RangeEntry;
use arras_schemes::traits::{RangeIndex, SortedList};
use arras_storage::Storage;

/// A sorted list that asks the server something each time, so that faults reach it; wrong in one way or none.
struct Asking<S> {
    list: SortedList,
    wire: Wire<S>,
    fault: Fault,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    None,
    /// An entry is gone from answers of more than ten.
    DropsOne,
    /// Ranges end before their upper bound.
    ExcludesUpper,
    /// Repeats the question whatever the answer.
    Persistent,
    /// Takes nothing out.
    Keeps,
}

impl<S: Storage> Asking<S> {
    async fn ask(&self) -> Result<(), IndexError> {
        loop {
            let request = hello::Request {
                protocol_version: arras_protocol::limits::PROTOCOL_VERSION,
                purpose: hello::Purpose::Observe,
            };
            let answer = Channel::<Hello>::call(&self.wire, request).await;
            match answer {
                Ok(_) => return Ok(()),
                Err(_) if self.fault == Fault::Persistent => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

fn length(key: &[u8]) -> Result<(), IndexError> {
    if key.len() == 4 { Ok(()) } else { Err(IndexError::Caller("the key's length")) }
}

impl<S: Storage> RangeIndex for Asking<S> {
    async fn insert(&self, entries: Vec<RangeEntry>) -> Result<(), IndexError> {
        entries.iter().try_for_each(|entry| length(&entry.value))?;
        self.ask().await?;
        self.list.insert(entries).await
    }

    async fn remove(&self, entries: Vec<RangeEntry>) -> Result<(), IndexError> {
        entries.iter().try_for_each(|entry| length(&entry.value))?;
        self.ask().await?;
        if self.fault == Fault::Keeps { Ok(()) } else { self.list.remove(entries).await }
    }

    async fn search(
        &self,
        lower: Vec<u8>,
        mut upper: Vec<u8>,
        order: Order,
        limit: Option<usize>,
    ) -> Result<Vec<(Vec<u8>, RowId)>, IndexError> {
        length(&lower).and_then(|()| length(&upper))?;
        self.ask().await?;
        if self.fault == Fault::ExcludesUpper {
            upper[3] = upper[3].saturating_sub(1);
        }
        let mut found = self.list.search(lower, upper, order, limit).await?;
        if self.fault == Fault::DropsOne && found.len() > 10 {
            found.remove(5);
        }
        Ok(found)
    }
}

impl Subject for Fault {
    type Index<S: Storage> = Asking<S>;

    fn width(&self) -> Width {
        Width::Bits32
    }

    async fn open<S: Storage>(&self, wire: Wire<S>) -> Result<Asking<S>, IndexError> {
        Ok(Asking { list: SortedList::default(), wire, fault: *self })
    }
}

range_tests!(right, Fault::None);

#[test]
#[should_panic(expected = "keys of")]
fn a_lost_entry_is_noticed() {
    body::long_run(&Fault::DropsOne);
}

#[test]
#[should_panic(expected = "keys of")]
fn a_wrong_bound_is_noticed() {
    body::shapes(&Fault::ExcludesUpper);
}

#[test]
#[should_panic(expected = "keys of")]
fn a_kept_entry_is_noticed() {
    body::insertion_orders(&Fault::Keeps);
}

#[test]
#[should_panic(expected = "asks for ever")]
fn an_endless_loop_is_noticed() {
    crate::hostile::answered_without_content(&Fault::Persistent);
}
