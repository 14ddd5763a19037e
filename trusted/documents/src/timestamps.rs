//! Empty timestamps, which MongoDB fills in where a whole document is stored: by an insert, or as a replacement.

use bson::{Bson, DateTime, Document, Timestamp};
use std::sync::atomic::{AtomicU32, Ordering};

/// Makes the empty timestamps among a document's own fields, the `_id` apart, the time `now`. Each differs from the one before.
pub fn fill_empty(document: &mut Document, now: DateTime) {
    for (name, value) in document.iter_mut() {
        if name != "_id" && matches!(value, Bson::Timestamp(Timestamp { time: 0, increment: 0 })) {
            *value = Bson::Timestamp(next(now));
        }
    }
}

fn next(now: DateTime) -> Timestamp {
    static INCREMENT: AtomicU32 = AtomicU32::new(1);
    let seconds = now.timestamp_millis().div_euclid(1000).max(0);
    Timestamp {
        time: u32::try_from(seconds).unwrap_or(u32::MAX),
        increment: INCREMENT.fetch_add(1, Ordering::Relaxed).max(1),
    }
}
