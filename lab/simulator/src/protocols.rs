//! What the simulator knows of each protocol: how a server lies in its replies, and what of its changes must never come twice.

use crate::lies::Lie;
use crate::watch::{Once, Seen};
use arras_protocol::write::{Step, Write};
use arras_protocol::{Protocol, ProtocolId, arx_eq, arx_range, bplus, codec, documents, mope, pope, unique};

/// Makes a lie of a reply of a protocol.
pub(crate) fn tell(lie: Lie, protocol: ProtocolId, reply: &mut Vec<u8>) {
    if protocol == documents::Documents::ID {
        told_of::<documents::Documents>(lie, reply, |response| {
            if let documents::Response::Documents { documents, more, .. } = response {
                lie.of(documents);
                *more = *more && lie != Lie::Withhold;
            }
        });
    } else if protocol == arx_eq::ArxEq::ID {
        told_of::<arx_eq::ArxEq>(lie, reply, |response| {
            if let Some(matches) = response.values.iter_mut().max_by_key(|matches| matches.rows.len()) {
                lie.of(&mut matches.rows);
            }
        });
    } else if protocol == unique::Unique::ID {
        // That a value is taken nobody can prove to have been denied: what comes must be its row.
        told_of::<unique::Unique>(lie, reply, |response| match lie {
            Lie::Drop | Lie::Withhold => {}
            Lie::Repeat | Lie::Reverse | Lie::Flip(_) => lie.of(&mut response.rows),
        });
    } else if protocol == arx_range::ArxRange::ID {
        told_of::<arx_range::ArxRange>(lie, reply, |response| match response {
            arx_range::Response::Buckets(buckets) | arx_range::Response::Found { buckets, .. } => {
                lie.of(buckets);
            }
            arx_range::Response::Top { nodes, .. } => lie.of(nodes),
            arx_range::Response::Trees(nodes) => lie.of(nodes),
        });
    } else if protocol == bplus::BPlus::ID {
        // That nothing is left out nobody promises: what comes must be what was written, in order and once.
        if let Ok(mut response) = codec::decode::<bplus::Response>(reply) {
            if let bplus::Response::Found { entries, .. } = &mut response {
                lie.of_bytes(&mut entries.0);
            }
            *reply = codec::encode(&response);
        }
    } else if protocol == mope::index::Mope::ID {
        // As with B+ trees; nodes of the tree are verified.
        if let Ok(mut response) = codec::decode::<mope::index::Response>(reply) {
            match (&mut response, lie) {
                (mope::index::Response::Found { groups, .. }, lie) => {
                    groups.iter_mut().take(1).for_each(|group| lie.of_bytes(&mut group.sealed.0));
                }
                (mope::index::Response::Fetched(fetched), Lie::Flip(_)) => {
                    fetched.nodes.iter_mut().flatten().for_each(|node| lie.of_bytes(&mut node.0));
                }
                _ => {}
            }
            *reply = codec::encode(&response);
        }
    } else if protocol == pope::Pope::ID
        && let Lie::Flip(_) = lie
        // Where elements lie is the server's word; what they are is not.
        && let Ok(mut response) = codec::decode::<pope::Response>(reply)
    {
        if let pope::Response::Found { elements, .. } = &mut response {
            lie.of_bytes(&mut elements.0);
        }
        *reply = codec::encode(&response);
    }
}

/// A lie about a whole reply, or about what is in it.
fn told_of<P: Protocol>(lie: Lie, reply: &mut Vec<u8>, alter: impl FnOnce(&mut P::Response)) {
    if let Lie::Flip(_) = lie {
        lie.of_bytes(reply);
    } else if let Ok(mut response) = codec::decode::<P::Response>(reply) {
        alter(&mut response);
        *reply = codec::encode(&response);
    }
}

/// Notes what of a step must be used once.
pub(crate) fn used_once(step: &Step, seen: &mut Seen) {
    match step {
        Step::Documents(documents::Change::Put { document, .. }) => {
            seen.sealed(document.row.as_bytes(), &document.header.0);
            seen.sealed(document.row.as_bytes(), &document.values.0);
        }
        Step::Documents(documents::Change::PutHeader { row, header, .. }) => {
            seen.sealed(row.as_bytes(), &header.0);
        }
        Step::ArxEq(arx_eq::Change::Insert { index, label, row }) => {
            let name = Once::Label(codec::encode(&(index, label)));
            seen.note(name, &codec::encode(row), "a counter of an equality index is used");
        }
        Step::ArxRange(change) => of_arx_range(change, seen),
        Step::Upload { operation, part, steps } => {
            let name = Once::Operation(operation.epoch, operation.sequence, Some(*part));
            seen.note(name, &steps.0, "a part of a write comes");
            if let Ok(steps) = codec::decode_expanding::<Vec<Step>>(&steps.0, Write::REQUEST_EXPANSION) {
                steps.iter().for_each(|step| used_once(step, seen));
            }
        }
        Step::Pope(change) => of_pope(change, seen),
        Step::Documents(
            documents::Change::CreateCollection { .. }
            | documents::Change::DropCollection { .. }
            | documents::Change::Delete { .. },
        )
        | Step::Unique(
            unique::Change::CreateIndex { .. }
            | unique::Change::DropIndex { .. }
            | unique::Change::Insert { .. }
            | unique::Change::Remove { .. },
        )
        | Step::ArxEq(
            arx_eq::Change::CreateIndex { .. }
            | arx_eq::Change::DropIndex { .. }
            | arx_eq::Change::Remove { .. },
        )
        | Step::Parts { .. } => {}
        Step::Bplus(change) => of_bplus(change, seen),
        Step::Mope(change) => of_mope(change, seen),
    }
}

fn of_arx_range(change: &arx_range::Change, seen: &mut Seen) {
    use arx_range::Change;
    match change {
        Change::CreateIndex { index, head_bucket, head_sealed, .. } => {
            seen.sealed(index.as_bytes(), &head_bucket.0);
            seen.sealed(index.as_bytes(), &head_sealed.0);
        }
        Change::PutHead { index, sealed, .. }
        | Change::PutBucket { index, sealed, .. }
        | Change::AddEntries { index, sealed, .. } => seen.sealed(index.as_bytes(), &sealed.0),
        Change::PutTop { index, record, .. } => seen.sealed(index.as_bytes(), &record.sealed.0),
        Change::PutNode { index, record, .. } => seen.sealed(index.as_bytes(), &record.sealed.0),
        Change::PutCircuit { circuit, .. } => {
            seen.note(Once::Circuit(circuit.nonce.0), &codec::encode(circuit), "a circuit is made");
        }
        Change::DropIndex { .. } | Change::RemoveNode { .. } | Change::LinkBuckets { .. } => {}
    }
}

/// Elements of the buffer tree: each begins with its nonce.
fn of_pope(change: &pope::Change, seen: &mut Seen) {
    match change {
        pope::Change::CreateIndex { index, element_bytes, .. } => {
            seen.lengths.insert(*index, usize::from(*element_bytes));
        }
        pope::Change::Append { index, elements } => {
            let length = seen.lengths.get(index).copied().unwrap_or_default();
            for element in elements.as_slice().chunks_exact(length.max(1)) {
                seen.sealed(index.as_bytes(), element);
            }
        }
        pope::Change::DropIndex { .. } => {}
    }
}

/// Ciphertexts of B+ trees: those that are random begin with a nonce of 16 bytes, and others are no longer than that.
fn of_bplus(change: &bplus::Change, seen: &mut Seen) {
    match change {
        bplus::Change::Insert { index, entries } => {
            for entry in entries {
                let stored = entry.stored.as_slice();
                let nonce = stored.get(..16).unwrap_or(stored);
                let name = Once::Nonce([index.as_bytes().as_slice(), nonce].concat());
                seen.note(name, stored, "a nonce of a ciphertext is used");
            }
        }
        // A version that was refused is given again, and one that was not is taken once by the server itself; ciphertexts of
        // such an index are places, which others come to have.
        bplus::Change::Revise { .. }
        | bplus::Change::CreateIndex { .. }
        | bplus::Change::DropIndex { .. }
        | bplus::Change::Remove { .. } => {}
    }
}

/// Ciphertexts under which entries come: those that are random end with their nonce of 8 bytes, and others are a block.
fn of_mope(change: &mope::index::Change, seen: &mut Seen) {
    let mope::index::Change::Update { index, update } = change else { return };
    for listed in &update.added {
        let ciphertext = listed.ciphertext.as_slice();
        if let Some((16.., nonce)) =
            ciphertext.split_last_chunk::<8>().map(|(block, nonce)| (block.len(), nonce))
        {
            let name = Once::Nonce([index.as_bytes().as_slice(), nonce].concat());
            seen.note(name, ciphertext, "a nonce of a ciphertext is used");
        }
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::watch::Watch;
    use arras_protocol::write::Request;
    use arras_protocol::{Blob, IndexId, OperationId};

    #[test]
    fn what_b_plus_trees_and_buffer_trees_find_becomes_a_lie() {
        let entries = Blob((0..80).collect());
        let honest = codec::encode(&bplus::Response::Found { entries, more: true });
        for lie in [Lie::Flip(77), Lie::Repeat, Lie::Reverse] {
            let mut reply = honest.clone();
            assert!(lie.tell(bplus::BPlus::ID, &mut reply), "{lie:?}");
            let told = codec::decode::<bplus::Response>(&reply).unwrap();
            assert!(matches!(told, bplus::Response::Found { more: true, .. }), "only entries are lied about");
        }
        let elements = Blob(vec![7; 60]);
        let found = pope::Response::Found { runs: Vec::new(), next: None, elements };
        let honest = codec::encode(&found);
        let mut reply = honest.clone();
        assert!(Lie::Flip(100).tell(pope::Pope::ID, &mut reply));
        assert_eq!(reply.len(), honest.len());
        assert!(
            !Lie::Reverse.tell(pope::Pope::ID, &mut honest.clone()),
            "where elements lie nobody promises"
        );
    }

    #[test]
    fn a_nonce_of_an_element_or_a_ciphertext_that_comes_twice_is_seen() {
        let index = IndexId([1; 8]);
        let append = |last| {
            let elements = Blob([[5; 19].as_slice(), &[last]].concat());
            Step::Pope(pope::Change::Append { index, elements })
        };
        let insert = |last| {
            let (query, stored) = (Blob(vec![3; 4]), Blob([[5; 19].as_slice(), &[last]].concat()));
            let sealed = bplus::SealedEntry([last; 32]);
            let entries = vec![bplus::NewEntry { query, stored, sealed, tie: None }];
            Step::Bplus(bplus::Change::Insert { index, entries })
        };
        let made = Step::Pope(pope::Change::CreateIndex { index, page_bytes: 4096, element_bytes: 20 });
        let enter = |first| {
            let ciphertext = Blob([[first; 16].as_slice(), &[5; 8]].concat());
            let added = vec![mope::index::Listed { ciphertext, sealed: mope::index::SealedRow([first; 32]) }];
            let update = mope::index::Update { added, ..mope::index::Update::default() };
            Step::Mope(mope::index::Change::Update { index, update })
        };
        for twice in [[append(1), append(2)], [insert(1), insert(2)], [enter(1), enter(2)]] {
            let watch = Watch::default();
            for (sequence, step) in (0..).zip([made.clone()].into_iter().chain(twice)) {
                assert_eq!(watch.wrong(), None);
                let operation = OperationId { epoch: 1, sequence };
                let write = Request {
                    operation: Some(operation),
                    finished_below: operation,
                    acknowledged: 0,
                    steps: vec![step],
                };
                watch.request(Write::ID, &codec::encode(&write));
            }
            assert!(watch.wrong().is_some_and(|why| why.contains("twice")));
        }
    }
}
