//! A statement of the proxy's own that stays prepared, so that one who runs the same again has it neither parsed nor planned.

use super::reading::Reading;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What is prepared under one name, and for what; it is there once the database has said so.
pub(super) struct Kept<T> {
    of: Option<T>,
    /// Number of the last preparation that was sent.
    sent: u64,
    /// Number of the last one that succeeded.
    made: Arc<AtomicU64>,
}

impl<T> Default for Kept<T> {
    fn default() -> Self {
        Self { of: None, sent: 0, made: Arc::default() }
    }
}

impl<T> Kept<T> {
    /// Is it there, for what `is_same` says is the same?
    pub(super) fn is_there(&self, is_same: impl FnOnce(&T) -> bool) -> bool {
        self.of.as_ref().is_some_and(is_same) && self.made.load(Ordering::Acquire) == self.sent
    }

    /// It is prepared anew, for something else: how the reply to that `Parse` is to be read.
    pub(super) fn begin(&mut self, of: T) -> Reading {
        self.of = Some(of);
        self.sent += 1;
        Reading::Kept(Arc::clone(&self.made), self.sent)
    }
}

/// May a client's text close what is prepared, now or when it is executed?
pub(super) fn may_be_closed_by(text: &[u8]) -> bool {
    let has = |word: &[u8]| text.windows(word.len()).any(|part| part.eq_ignore_ascii_case(word));
    has(b"discard") || has(b"deallocate")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn succeed(reading: &Reading) {
        let Reading::Kept(made, number) = reading else { panic!("another reading") };
        made.store(*number, Ordering::Release);
    }

    #[test]
    fn what_was_not_prepared_is_not_there() {
        let mut kept = Kept::default();
        assert!(!kept.is_there(|_: &u8| true));
        let first = kept.begin(1);
        assert!(!kept.is_there(|of| *of == 1), "no reply yet");
        succeed(&first);
        assert!(kept.is_there(|of| *of == 1) && !kept.is_there(|of| *of == 2));
        let _fails = kept.begin(2);
        let again = kept.begin(1);
        succeed(&first);
        assert!(!kept.is_there(|of| *of == 1), "a late reply to an earlier one");
        succeed(&again);
        assert!(kept.is_there(|of| *of == 1));
    }

    #[test]
    fn what_closes_everything_is_known_wherever_it_stands() {
        for text in ["DISCARD ALL", "/* pool */ Discard Plans", "SELECT 1; deallocate all"] {
            assert!(may_be_closed_by(text.as_bytes()), "{text}");
        }
        assert!(!may_be_closed_by(b"UPDATE discs SET card = 1"));
    }
}
