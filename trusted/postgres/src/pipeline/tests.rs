//! Sequences of messages and replies as PostgreSQL gives them.

use super::*;

fn sent(pipeline: &mut Pipeline<usize>, messages: &[u8]) {
    for (place, kind) in messages.iter().enumerate() {
        if let Some(asked) = Asked::by(*kind) {
            let _ = pipeline.sent(asked, place);
        }
    }
}

/// The places of the messages that each reply ends.
fn ends(pipeline: &mut Pipeline<usize>, replies: &[u8]) -> Vec<Vec<usize>> {
    let places = |done| match done {
        Done::Nothing => Vec::new(),
        Done::Answered(entry) | Done::Ready(entry) => vec![entry.note],
        Done::Failed(entries) => entries.into_iter().map(|entry| entry.note).collect(),
    };
    replies.iter().map(|reply| places(pipeline.answered(*reply))).collect()
}

#[test]
fn each_reply_answers_its_message() {
    let mut pipeline = Pipeline::default();
    sent(&mut pipeline, b"PDBDEHCSQ");
    let ended = ends(&mut pipeline, b"1tTN2TDDC3ZTDCCZ");
    let expected: Vec<Vec<usize>> =
        [&[0][..], &[], &[1], &[], &[2], &[3], &[], &[], &[4], &[6], &[7], &[], &[], &[], &[], &[8]]
            .map(<[usize]>::to_vec)
            .into();
    assert_eq!(ended, expected);
    assert!(pipeline.is_empty());
}

#[test]
fn an_error_passes_over_what_comes_before_the_next_sync() {
    let mut pipeline = Pipeline::default();
    sent(&mut pipeline, b"PBESPBES");
    assert_eq!(ends(&mut pipeline, b"1EZ"), [vec![0], vec![1, 2], vec![3]]);
    assert_eq!(ends(&mut pipeline, b"12CZ"), [vec![4], vec![5], vec![6], vec![7]]);
}

#[test]
fn what_is_sent_after_an_error_and_before_a_sync_is_never_answered() {
    let mut pipeline = Pipeline::default();
    sent(&mut pipeline, b"PBE");
    assert_eq!(ends(&mut pipeline, b"E"), [vec![0, 1, 2]]);
    sent(&mut pipeline, b"PBEQS");
    assert_eq!(pipeline.len(), 1, "the Sync alone");
    assert_eq!(ends(&mut pipeline, b"Z"), [vec![4]]);
}

#[test]
fn an_error_within_a_query_ends_with_its_own_ready() {
    let mut pipeline = Pipeline::default();
    sent(&mut pipeline, b"QPS");
    assert_eq!(ends(&mut pipeline, b"TDCEZ1Z"), [vec![], vec![], vec![], vec![], vec![0], vec![1], vec![2]]);
}

#[test]
fn a_sync_ahead_of_the_end_of_rows_is_not_answered() {
    // libpq: Execute, Sync, and once the COPY has begun CopyDone and another Sync.
    let mut pipeline = Pipeline::default();
    sent(&mut pipeline, b"BES");
    assert_eq!(ends(&mut pipeline, b"2G"), [vec![0], vec![]]);
    sent(&mut pipeline, b"SddHcS");
    assert_eq!(ends(&mut pipeline, b"CZ"), [vec![1], vec![5]]);
    assert!(pipeline.is_empty());
    // All of it ahead.
    sent(&mut pipeline, b"BESdcSPS");
    assert_eq!(ends(&mut pipeline, b"2GCZ1Z"), [vec![0], vec![], vec![1], vec![5], vec![6], vec![7]]);
    assert!(pipeline.is_empty());
}

#[test]
fn rows_that_fail_end_the_copy() {
    let mut pipeline = Pipeline::default();
    sent(&mut pipeline, b"BESdcS");
    assert_eq!(ends(&mut pipeline, b"2GEZ"), [vec![0], vec![], vec![1], vec![5]]);
    assert!(pipeline.is_empty());
    // In a query, whose client goes on sending rows for a while.
    sent(&mut pipeline, b"Q");
    assert_eq!(ends(&mut pipeline, b"GE"), [vec![], vec![]]);
    sent(&mut pipeline, b"ddc");
    assert_eq!(ends(&mut pipeline, b"Z"), [vec![0]]);
    sent(&mut pipeline, b"dcQ");
    assert_eq!(ends(&mut pipeline, b"CZ"), [vec![], vec![2]]);
    assert!(pipeline.is_empty());
}

#[test]
fn a_query_of_two_copies_reads_rows_twice() {
    let mut pipeline = Pipeline::default();
    sent(&mut pipeline, b"QdcdcP");
    assert_eq!(ends(&mut pipeline, b"GCGCZ1"), [vec![], vec![], vec![], vec![], vec![0], vec![5]]);
    assert!(pipeline.is_empty());
}

#[test]
fn replies_that_answer_nothing_end_nothing() {
    let mut pipeline: Pipeline<usize> = Pipeline::default();
    assert_eq!(ends(&mut pipeline, b"ZSNAE"), [vec![], vec![], vec![], vec![], vec![]]);
    assert!(pipeline.is_empty());
}
