//! What the host sees: counts of what passes through its hands. Whoever searches can be shown what that told.

use arras_protocol::Blob;
use arras_protocol::iee::{ENTRY_BYTES, Incoming, LABEL_BYTES, Outgoing, SEALED_BYTES};
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

/// Counts since the start.
#[derive(Debug, Default)]
pub struct Seen {
    /// Messages of clients.
    requests: AtomicU64,
    request_bytes: AtomicU64,
    /// Messages to clients.
    replies: AtomicU64,
    reply_bytes: AtomicU64,
    /// Questions to the storage.
    questions: AtomicU64,
    /// Entries that these asked for.
    entries_read: AtomicU64,
    /// Entries that were stored.
    entries_written: AtomicU64,
    /// Pieces of sealed state that were read: of all that is spilled, by searches; at a start, and for checkpoints.
    states_read: AtomicU64,
    state_bytes_read: AtomicU64,
}

/// Adds to a count: each is by itself, and read when nothing is under way.
fn add(count: &AtomicU64, more: usize) {
    count.fetch_add(more as u64, Ordering::Relaxed);
}

impl Seen {
    /// Counts what the enclave says.
    pub(crate) fn outgoing(&self, message: &Outgoing) {
        match message {
            Outgoing::Get { labels, .. } => {
                add(&self.questions, 1);
                add(&self.entries_read, labels.len() / LABEL_BYTES);
            }
            Outgoing::Put { entries, .. } => add(&self.entries_written, entries.len() / ENTRY_BYTES),
            Outgoing::ToClient { bytes, .. } | Outgoing::Part { bytes, .. } => {
                add(&self.replies, 1);
                add(&self.reply_bytes, bytes.len());
            }
            Outgoing::Ready
            | Outgoing::Opened(_)
            | Outgoing::Close(_)
            | Outgoing::Again
            | Outgoing::Remove { .. }
            | Outgoing::Save { .. }
            | Outgoing::Load { .. }
            | Outgoing::Forget { .. }
            | Outgoing::ReadCounter(_)
            | Outgoing::Attest { .. }
            | Outgoing::RaiseCounter { .. } => {}
        }
    }

    /// Counts what the enclave is told.
    pub(crate) fn incoming(&self, message: &Incoming) {
        if let Incoming::FromClient { bytes, .. } = message {
            add(&self.requests, 1);
            add(&self.request_bytes, bytes.len());
        }
    }

    /// Counts sealed state that was read, if it is there.
    pub(crate) fn loaded(&self, state: Option<&Blob>) {
        if let Some(state) = state {
            add(&self.states_read, 1);
            add(&self.state_bytes_read, state.len());
        }
    }
}

impl fmt::Display for Seen {
    /// One JSON object.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let read = self.entries_read.load(Ordering::Relaxed);
        let counts = [
            ("requests", self.requests.load(Ordering::Relaxed)),
            ("request_bytes", self.request_bytes.load(Ordering::Relaxed)),
            ("replies", self.replies.load(Ordering::Relaxed)),
            ("reply_bytes", self.reply_bytes.load(Ordering::Relaxed)),
            ("questions", self.questions.load(Ordering::Relaxed)),
            ("entries_read", read),
            ("entry_bytes_read", read * SEALED_BYTES as u64),
            ("entries_written", self.entries_written.load(Ordering::Relaxed)),
            ("states_read", self.states_read.load(Ordering::Relaxed)),
            ("state_bytes_read", self.state_bytes_read.load(Ordering::Relaxed)),
        ];
        let counts = counts.map(|(name, count)| format!("\"{name}\":{count}"));
        write!(formatter, "{{{}}}", counts.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arras_protocol::iee::{AskId, ConnectionId};

    #[test]
    fn what_passes_is_counted() {
        let seen = Seen::default();
        let connection = ConnectionId(1);
        seen.incoming(&Incoming::FromClient { connection, bytes: Blob(vec![0; 40]) });
        seen.incoming(&Incoming::Again);
        seen.loaded(Some(&Blob(vec![0; 90])));
        seen.loaded(None);
        seen.outgoing(&Outgoing::Get { ask: AskId(1), labels: Blob(vec![0; 3 * LABEL_BYTES]) });
        seen.outgoing(&Outgoing::Put { ask: AskId(2), entries: Blob(vec![0; 2 * ENTRY_BYTES]) });
        seen.outgoing(&Outgoing::ToClient { connection, bytes: Blob(vec![0; 70]) });
        assert_eq!(
            seen.to_string(),
            "{\"requests\":1,\"request_bytes\":40,\"replies\":1,\"reply_bytes\":70,\"questions\":1,\"entries_read\":3,\
             \"entry_bytes_read\":96,\"entries_written\":2,\"states_read\":1,\"state_bytes_read\":90}"
        );
    }
}
