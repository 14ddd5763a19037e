//! Replies that are the client's as they come, to what is about nothing that was rewritten: most of what comes. Whatever is not
//! known to be one is left to be looked at.

use super::State;
use crate::frames::Head;
use crate::pipeline::Asked;
use crate::rewriting::Rewriting;
use crate::session::reading::Reading;

/// Notes replies at the beginning of `there` that pass as they are; how many bytes they have.
pub(super) fn passed(there: &[u8], rewriting: &Rewriting, state: &mut State) -> usize {
    if state.keeping_back.is_some() {
        return 0;
    }
    let mut passed = 0;
    while let Some(rest) = there.get(passed..)
        && let Some(head) = Head::read(rest)
        && let Some(frame) = rest.get(..head.total)
        && passes(head.kind, frame, rewriting, state)
    {
        passed += head.total;
    }
    passed
}

/// Notes a reply if it passes as it is.
#[inline]
fn passes(kind: u8, frame: &[u8], rewriting: &Rewriting, state: &mut State) -> bool {
    let Some(next) = state.pipeline.next().filter(|next| matches!(next.note.reading, Reading::Plain)) else {
        return false;
    };
    let (asked, number) = (next.asked, next.note.number);
    match kind {
        b'D' | b'd' => {}
        _ if asked.ends_by(kind) => {
            if kind == b'C' {
                state.tagged(frame);
            }
            state.pipeline.next_is_answered();
        }
        // Else it answers one further behind.
        b'Z' if asked.ends_ready() => {
            state.ready(frame, rewriting);
            state.pipeline.next_is_answered();
            state.waits_behind(number, rewriting);
        }
        // Another result may follow.
        b'C' if asked == Asked::Query => state.tagged(frame),
        b'T' | b't' | b'I' => {}
        _ => return false,
    }
    true
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::super::{reply, scan};
    use super::*;
    use crate::session::tests::rewriting;
    use crate::session::{BothWays, KeepingBack, Note};
    use proptest::prelude::*;

    /// A session that has sent these messages; each with whether it is the client's as it was.
    fn state(sent: &[(u8, bool)]) -> State {
        let mut state = BothWays::new(b"").state.into_inner().unwrap();
        for (number, (kind, is_plain)) in (1..).zip(sent) {
            let reading = if *is_plain { Reading::Plain } else { Reading::Hidden };
            let _ = state.pipeline.sent(Asked::by(*kind).unwrap(), Note { number, reading, undo: None });
        }
        state
    }

    /// What is to be seen of a session.
    fn seen(state: &mut State) -> (Vec<(Asked, u64)>, [bool; 7], u8) {
        let flags = [
            state.pipeline.is_skipping(),
            state.wrote,
            state.changing_tables,
            state.changed_tables,
            state.fatal,
            state.failed_here,
            state.keeping_back.is_some(),
        ];
        // While rows are read, what is sent is passed over.
        let note = Note { number: 0, reading: Reading::Plain, undo: None };
        let _ = state.pipeline.sent(Asked::Sync, note);
        let entries = state.pipeline.entries().map(|entry| (entry.asked, entry.note.number)).collect();
        (entries, flags, state.status)
    }

    /// Reads replies each for itself.
    fn one_by_one(replies: &[Vec<u8>], rewriting: &Rewriting, state: &mut State) -> Vec<u8> {
        let (mut out, mut shares) = (Vec::new(), Vec::new());
        for frame in replies {
            let is_row = matches!(frame[0], b'D' | b'd');
            let first = state.pipeline.first();
            if is_row && first.is_none_or(|first| matches!(first.note.reading, Reading::Plain)) {
                out.extend_from_slice(frame);
            } else {
                reply(frame[0], frame, rewriting, state, (&mut out, &mut shares)).unwrap();
            }
        }
        out
    }

    fn framed(kind: u8, body: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        crate::replies::message(&mut out, kind, |out| out.extend_from_slice(body));
        out
    }

    /// A reply of this type.
    fn reply_of(kind: u8) -> impl Strategy<Value = Vec<u8>> {
        let tags: [&[u8]; 8] = [
            b"SELECT 1\0",
            b"SET\0",
            b"UPDATE 2\0",
            b"CREATE TABLE\0",
            b"ROLLBACK\0",
            b"DO\0",
            b"COMMIT\0",
            b"COPY 3\0",
        ];
        let bodies = match kind {
            b'C' => tags.to_vec(),
            b'Z' => vec![&b"I"[..], b"T", b"E"],
            b'E' => vec![&b"VERROR\0C22012\0Mno\0\0"[..]],
            b'S' => vec![&b"a\0b\0"[..]],
            _ => vec![&b""[..]],
        };
        prop::sample::select(bodies).prop_map(move |body| framed(kind, body))
    }

    /// A message, whether it is the client's as it was, and replies: mostly such as may answer it.
    fn exchange() -> impl Strategy<Value = ((u8, bool), Vec<Vec<u8>>)> {
        let usual: [(u8, &[u8]); 15] = [
            (b'Q', b"TDDCZ"),
            (b'Q', b"CCZ"),
            (b'Q', b"GCZ"),
            (b'Q', b"EZ"),
            (b'P', b"1"),
            (b'B', b"2"),
            (b'D', b"tT"),
            (b'D', b"n"),
            (b'E', b"DDC"),
            (b'E', b"Ds"),
            (b'E', b"GC"),
            (b'C', b"3"),
            (b'S', b"Z"),
            (b'F', b"VZ"),
            (b'c', b""),
        ];
        let any = (
            prop::sample::select(b"QPBDECSFcf".to_vec()),
            prop::collection::vec(prop::sample::select(b"123TntDdIsGCZES".to_vec()), 0..4),
        );
        let usual = prop::sample::select(usual.to_vec()).prop_map(|(kind, replies)| (kind, replies.to_vec()));
        (prop_oneof![8 => usual, 1 => any], prop::bool::weighted(0.9)).prop_flat_map(
            |((kind, replies), is_plain)| {
                let replies: Vec<_> = replies.into_iter().map(reply_of).collect();
                (Just((kind, is_plain)), replies)
            },
        )
    }

    proptest! {
        #[test]
        fn what_passes_leaves_a_session_as_if_it_had_been_looked_at(
            exchanges in prop::collection::vec(exchange(), 0..8), answered in 0_usize..30,
            came in 0_usize..8,
            keeps_back in prop::bool::weighted(0.1),
        ) {
            let (sent, replies): (Vec<_>, Vec<_>) = exchanges.into_iter().unzip();
            let replies: Vec<Vec<u8>> = replies.into_iter().flatten().take(answered).collect();
            let rewriting = rewriting();
            let (mut passing, mut looked_at) = (state(&sent), state(&sent));
            for state in [&mut passing, &mut looked_at] {
                state.keeping_back = keeps_back.then_some(KeepingBack { followed: false });
            }
            let (mut out, mut shares) = (Vec::new(), Vec::new());
            let (first, second) = replies.split_at(came.min(replies.len()));
            for there in [first.concat(), second.concat()] {
                let (read, _) = scan(&there, &rewriting, &mut passing, (&mut out, &mut shares)).unwrap();
                prop_assert_eq!(read, there.len());
            }
            prop_assert_eq!(out, one_by_one(&replies, &rewriting, &mut looked_at));
            prop_assert_eq!(seen(&mut passing), seen(&mut looked_at));
        }

        #[test]
        fn the_replies_of_a_usual_statement_pass(cut in 0_usize..60) {
            let messages = b"BDES".map(|kind| (kind, true));
            let rewriting = rewriting();
            let mut state = state(&messages);
            let mut there = Vec::new();
            for (kind, body) in [(b'2', &b""[..]), (b'T', b""), (b'D', b"row"), (b'C', b"SELECT 1\0"), (b'Z', b"I")] {
                there.extend(framed(kind, body));
            }
            let cut = cut.min(there.len());
            let first = passed(&there[..cut], &rewriting, &mut state);
            let second = passed(&there[first..], &rewriting, &mut state);
            prop_assert!(first <= cut && first + second == there.len() && state.pipeline.is_empty());
        }
    }
}
