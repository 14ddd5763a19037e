//! Where entries and sealed state lie: put and get by label, always many at once.

use arras_protocol::Blob;
use arras_protocol::iee::StateName;
use std::future::Future;

#[cfg(feature = "cassandra")]
pub mod cassandra;
pub mod conformance;
#[cfg(feature = "process")]
pub mod embedded;
pub mod kept;
#[cfg(feature = "process")]
pub mod memory;
#[cfg(any(feature = "redis", feature = "cassandra", feature = "postgres"))]
mod patience;
#[cfg(feature = "postgres")]
pub mod postgres;
#[cfg(feature = "redis")]
pub mod redis;

#[cfg(feature = "cassandra")]
pub use cassandra::CassandraStore;
#[cfg(feature = "process")]
pub use embedded::EmbeddedStore;
#[cfg(feature = "process")]
pub use memory::MemoryStore;
#[cfg(feature = "postgres")]
pub use postgres::PostgresStore;
#[cfg(feature = "redis")]
pub use redis::RedisStore;

/// A storage service has failed; in its words.
#[derive(Clone, Debug, thiserror::Error)]
pub enum StoreError {
    /// For good, as far as is known.
    #[error("{0}")]
    Failed(String),
    /// It is not there, or not ready: it may answer when it is asked again.
    #[error("{0}")]
    Away(String),
}

/// A storage service. Batches are those of [`arras_protocol::iee::Outgoing`], whole labels and entries; whatever is changed is
/// durable, as far as the service ever is, when the future ends. Calls run beside one another; the enclave does not
/// have two under way that touch the same label or name and do not commute.
pub trait Store: Send + Sync + 'static {
    /// The entries of labels, in their order; zeros where there is none.
    fn get(&self, labels: Blob) -> impl Future<Output = Result<Vec<u8>, StoreError>> + Send;

    /// Stores entries under their labels, in place of what is there.
    fn put(&self, entries: Blob) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Removes the entries of labels; some may not be there.
    fn remove(&self, labels: Blob) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Keeps the first record of a log, from which on the service is its enclave's. The same record again is no news; a service
    /// that several hosts can reach refuses another's.
    fn begin(&self, record: Blob) -> impl Future<Output = Result<(), StoreError>> + Send {
        self.save(FIRST, record)
    }

    /// Keeps sealed state under a name, in place of what is there.
    fn save(&self, name: StateName, state: Blob) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// The sealed state under a name.
    fn load(&self, name: StateName) -> impl Future<Output = Result<Option<Vec<u8>>, StoreError>> + Send;

    /// Removes the log's records up to a number, and the checkpoints of lower generations.
    fn forget(&self, until: u64) -> impl Future<Output = Result<(), StoreError>> + Send;
}

/// How state is named in a service whose keys order as byte strings: by kind, then by number.
const HEAD: u8 = 0;
const LOG: u8 = 1;
const CHECKPOINT: u8 = 2;

/// The first record of a log.
pub(crate) const FIRST: StateName = StateName::Log(1);

/// What who begins on a service finds there: its own record, and no checkpoint, before which the first record is never forgotten.
#[cfg(any(feature = "redis", feature = "cassandra", feature = "postgres"))]
fn is_begun_by(record: &Blob, there: Option<&[u8]>, head: Option<&[u8]>) -> Result<(), StoreError> {
    if there == Some(record.as_slice()) && head.is_none() {
        return Ok(());
    }
    let told = "another host has begun to keep its search service here; give each storage of its own, or stop the other";
    Err(StoreError::Failed(told.into()))
}

/// The key of a piece of state.
fn state_key(name: StateName) -> Vec<u8> {
    match name {
        StateName::Head => vec![HEAD],
        StateName::Log(number) => log_key(number).to_vec(),
        StateName::Checkpoint { generation, piece } => {
            let mut key = checkpoint_key(generation).to_vec();
            key.extend_from_slice(&piece.to_be_bytes());
            key
        }
    }
}

fn log_key(number: u64) -> [u8; 9] {
    numbered(LOG, number)
}

fn checkpoint_key(generation: u64) -> [u8; 9] {
    numbered(CHECKPOINT, generation)
}

fn numbered(kind: u8, number: u64) -> [u8; 9] {
    let mut key = [kind; 9];
    if let Some(place) = key.last_chunk_mut::<8>() {
        *place = number.to_be_bytes();
    }
    key
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_order_as_kinds_and_numbers() {
        let checkpoint = |generation, piece| StateName::Checkpoint { generation, piece };
        let names =
            [StateName::Head, StateName::Log(0), StateName::Log(256), checkpoint(1, 2), checkpoint(256, 0)];
        assert!(names.map(state_key).is_sorted());
    }
}
