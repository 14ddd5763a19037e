//! A keeper that lies: whole sessions with one message changed, left out, repeated, exchanged or cut, each of which is found out
//! or changes no answer.

use super::support::{bytes, key, run, settings};
use crate::error::IndexError;
use crate::mope::memory::{Kept, MemoryStore};
use crate::mope::{Kind, Place, Stored, Tree};
use crate::random::Randomness;
use arras_protocol::Blob;
use arras_protocol::channel::ChannelError;
use arras_protocol::codec;
use arras_protocol::mope::{Fetch, Fetched, Head, Label, Round, TreeChange, TreeStore};
use std::sync::{Arc, Mutex};

/// What happens to the message of a number, from 0.
#[derive(Clone, Debug)]
enum Fault {
    None,
    /// A byte of the reply is another.
    Flip(usize, u8),
    /// The reply ends early.
    Cut(usize),
    /// The reply has fewer nodes.
    Fewer,
    /// A node is said not to be there.
    Missing,
    /// The reply is that of an earlier message.
    Replay(usize),
    /// Two nodes of the reply are exchanged; one alone becomes the root.
    Exchange,
    /// The change is not applied, and said to be.
    Drop,
    /// The change is applied, and said not to be.
    Deny,
    /// The change comes twice.
    Twice,
    /// The change is applied but for one of its nodes, which stays as it was.
    Partly(usize),
    /// From here on the keeper is back at the beginning.
    SetBack,
}

/// The keeper, what it began with, and what it has replied.
#[derive(Clone)]
struct Liar {
    store: Arc<MemoryStore>,
    first: Kept,
    at: usize,
    fault: Fault,
    replies: Arc<Mutex<Vec<Vec<u8>>>>,
}

fn malformed() -> ChannelError {
    ChannelError::Malformed("not a reply".into())
}

impl Liar {
    /// True if this message is the one.
    fn is_due(&self) -> bool {
        self.replies.lock().unwrap().len() == self.at
    }

    fn reply<T: serde::de::DeserializeOwned>(&self, reply: Vec<u8>, due: bool) -> Result<T, ChannelError> {
        let mut replies = self.replies.lock().unwrap();
        let mut sent = reply.clone();
        replies.push(reply);
        if due {
            match self.fault {
                Fault::Flip(at, bit) => sent[at] ^= 1 << bit,
                Fault::Cut(at) => sent.truncate(at),
                Fault::Replay(earlier) => sent.clone_from(&replies[earlier]),
                _ => {}
            }
        }
        codec::decode(&sent).map_err(|_| malformed())
    }

    fn fetched(&self, fetch: Fetch) -> Result<Fetched, ChannelError> {
        let due = self.is_due();
        if due && matches!(self.fault, Fault::SetBack) {
            *self.store.kept() = self.first.clone();
        }
        let root = self.store.kept().head.root;
        let mut fetched = run(self.store.fetch(fetch))?;
        if due {
            match self.fault {
                Fault::Fewer => drop(fetched.nodes.pop()),
                Fault::Missing => fetched.nodes.fill(None),
                Fault::Exchange if fetched.nodes.len() > 1 => fetched.nodes.swap(0, 1),
                Fault::Exchange => fetched.nodes = vec![self.store.kept().nodes.get(&root).cloned()],
                _ => {}
            }
        }
        self.reply(codec::encode(&fetched), due)
    }

    fn committed(&self, change: TreeChange) -> Result<bool, ChannelError> {
        let due = self.is_due();
        let applied = match self.fault {
            Fault::Drop if due => true,
            Fault::Partly(node) if due => {
                let mut partial = change;
                partial.nodes.remove(node % partial.nodes.len());
                self.store.kept().apply(partial)?
            }
            Fault::Deny if due => !self.store.kept().apply(change)?,
            Fault::Twice if due => {
                let applied = self.store.kept().apply(change.clone())?;
                assert!(!self.store.kept().apply(change)?);
                applied
            }
            _ => self.store.kept().apply(change)?,
        };
        self.reply(codec::encode(&applied), due)
    }
}

impl TreeStore for Liar {
    fn fetch(&self, fetch: Fetch) -> Round<'_, Fetched> {
        Box::pin(std::future::ready(self.fetched(fetch)))
    }

    fn commit(&self, change: TreeChange) -> Round<'_, bool> {
        Box::pin(std::future::ready(self.committed(change)))
    }
}

/// An answer without what is random in it: values and labels.
type Answer = Vec<(Option<Vec<u8>>, Option<Label>)>;

fn opened(tree: &Tree<Liar>, stored: &Stored) -> (Option<Vec<u8>>, Option<Label>) {
    let mut plain = Vec::new();
    tree.cipher.open_each(stored.ciphertext.as_slice(), &mut plain).unwrap();
    (Some(plain), Some(stored.label))
}

fn places(tree: &Tree<Liar>, values: &[Vec<u8>]) -> Result<Answer, IndexError> {
    let open = |stored: Option<&Stored>| stored.map_or((None, None), |stored| opened(tree, stored));
    Ok(run(tree.places(values))?
        .iter()
        .flat_map(|place| match place {
            Place::At(stored) => vec![opened(tree, stored)],
            Place::Among { first, last, .. } => vec![opened(tree, first), opened(tree, last)],
            Place::Between { below, above } => vec![open(below.as_ref()), (None, None), open(above.as_ref())],
        })
        .collect())
}

/// What a session does, over 150 even numbers; ends at the first error.
fn session(tree: &Tree<Liar>, answers: &mut Vec<Answer>) -> Result<(), IndexError> {
    let encode = |values: &[Vec<u8>]| -> Result<Answer, IndexError> {
        Ok(run(tree.encode(values))?.iter().map(|stored| opened(tree, stored)).collect())
    };
    answers.push(places(tree, &bytes([3, 100, 299]))?);
    answers.push(encode(&bytes([101]))?);
    answers.push(encode(&bytes([102, 6]))?);
    run(tree.remove(&bytes([50])))?;
    answers.push(places(tree, &bytes([50, 101, 102]))?);
    // A split, or a merge.
    answers.push(encode(&bytes((0..70).map(|value| 1000 + value)))?);
    run(tree.remove(&bytes((0..40).map(|value| value * 2 + 100))))?;
    answers.push(places(tree, &bytes([50, 101, 102, 151, 1030]))?);
    Ok(())
}

fn liar(first: &Kept, at: usize, fault: Fault) -> Liar {
    let store = Arc::new(MemoryStore::default());
    *store.kept() = first.clone();
    Liar { store, first: first.clone(), at, fault, replies: Arc::default() }
}

fn began(kind: Kind) -> Kept {
    let store = liar(&Kept::default(), usize::MAX, Fault::None);
    let tree = Tree::open(store.clone(), &key(), settings(kind, true), None, Randomness::default()).unwrap();
    run(tree.encode(&bytes((0..150).map(|value| value * 2)))).unwrap();
    store.store.kept().clone()
}

/// Runs a session; returns its answers, how it ended, and the replies.
fn lied_to(
    first: &Kept,
    kind: Kind,
    remembers: bool,
    at: usize,
    fault: Fault,
) -> (Vec<Answer>, Option<IndexError>, Vec<Vec<u8>>) {
    let store = liar(first, at, fault);
    let remembered: Option<Head> = remembers.then_some(first.head);
    let tree =
        Tree::open(store.clone(), &key(), settings(kind, true), remembered, Randomness::default()).unwrap();
    let mut answers = Vec::new();
    let ended = session(&tree, &mut answers).err();
    let replies = store.replies.lock().unwrap().clone();
    (answers, ended, replies)
}

/// True if an error says that the keeper broke the protocol, or shows that what it sent is not what was stored.
fn is_named(error: &IndexError) -> bool {
    use IndexError::{Channel, Contradicted, Open, Peer};
    matches!(error, Contradicted(_) | Peer(_) | Open(_) | Channel(ChannelError::Malformed(_)))
}

/// Checks one lie; returns true if it was found out.
fn found_out(
    first: &Kept,
    kind: Kind,
    honest: &[Answer],
    (remembers, at): (bool, usize),
    fault: Fault,
) -> bool {
    let (answers, ended, _) = lied_to(first, kind, remembers, at, fault.clone());
    assert_eq!(answers[..], honest[..answers.len()], "a wrong answer: message {at}, {fault:?}");
    match &ended {
        Some(error) => assert!(is_named(error), "{error}: message {at}, {fault:?}"),
        None => assert_eq!(answers.len(), honest.len()),
    }
    ended.is_some()
}

#[test]
fn each_altered_byte_is_found_out_or_changes_nothing() {
    for (kind, remembers) in [(Kind::Mope, true), (Kind::Stope, false)] {
        let first = began(kind);
        let (honest, ended, replies) = lied_to(&first, kind, remembers, usize::MAX, Fault::None);
        assert!(ended.is_none() && replies.len() >= 9, "{ended:?} {}", replies.len());
        let (mut all, mut harmless) = (0, 0);
        for (at, reply) in replies.iter().enumerate() {
            for byte in 0..reply.len() {
                let fault = Fault::Flip(byte, (byte % 8) as u8);
                harmless += usize::from(!found_out(&first, kind, &honest, (remembers, at), fault));
                all += 1;
            }
        }
        assert!(all > 10_000 && harmless * 1000 < all, "{harmless} of {all} change nothing");
    }
}

#[test]
fn messages_left_out_repeated_exchanged_cut_or_of_an_older_state_are_found_out() {
    for kind in [Kind::Mope, Kind::Stope] {
        let first = began(kind);
        let (honest, _, replies) = lied_to(&first, kind, true, usize::MAX, Fault::None);
        let is_commit = |at: usize| replies[at].len() == 1;
        for at in 0..replies.len() {
            let check = |fault: Fault| found_out(&first, kind, &honest, (true, at), fault);
            for cut in (0..replies[at].len()).step_by(97) {
                assert!(check(Fault::Cut(cut)), "{at}: cut to {cut}");
            }
            for earlier in 0..at {
                let is_same = replies[earlier] == replies[at];
                assert_eq!(check(Fault::Replay(earlier)), !is_same, "{at}: for it {earlier}");
            }
            if is_commit(at) {
                assert!(check(Fault::Drop), "{at}");
                assert!(check(Fault::Deny), "{at}");
                assert!(!check(Fault::Twice), "{at}: the second changes nothing");
            } else {
                assert!(check(Fault::Fewer) && check(Fault::Missing), "{at}");
                // Of the root alone, which takes its own place.
                assert_eq!(check(Fault::Exchange), at > 0, "{at}");
                let is_later = replies[..at].iter().any(|reply| reply.len() == 1);
                assert_eq!(check(Fault::SetBack), is_later, "{at}");
            }
        }
    }
}

/// Runs a session with a fault, then has another client look for every value: its answer, or the error that ended either of them.
fn looked_for_anew(first: &Kept, kind: Kind, at: usize, fault: Fault) -> Result<Answer, IndexError> {
    let open =
        |store: Liar, head| Tree::open(store, &key(), settings(kind, true), head, Randomness::default());
    let store = liar(first, at, fault);
    let tree = open(store.clone(), Some(first.head)).unwrap();
    session(&tree, &mut Vec::new())?;
    let other = open(liar(&store.store.kept(), usize::MAX, Fault::None), tree.acknowledged()).unwrap();
    places(&other, &bytes(0..1100))
}

#[test]
fn a_change_applied_in_part_is_found_out_by_who_looks_for_all_values() {
    for kind in [Kind::Mope, Kind::Stope] {
        let first = began(kind);
        let (_, _, replies) = lied_to(&first, kind, true, usize::MAX, Fault::None);
        let honest = looked_for_anew(&first, kind, usize::MAX, Fault::None).unwrap();
        let mut found = 0;
        for at in (0..replies.len()).filter(|at| replies[*at].len() == 1) {
            for node in 0..3 {
                match looked_for_anew(&first, kind, at, Fault::Partly(node)) {
                    Err(error) => {
                        assert!(is_named(&error), "{error}: message {at}, node {node}");
                        found += 1;
                    }
                    // A later change wrote the node whole.
                    Ok(answer) => assert_eq!(answer, honest, "message {at}, node {node}"),
                }
            }
        }
        assert!(found >= 3, "{found}");
    }
}

#[test]
fn a_denied_change_is_not_counted_twice() {
    let first = began(Kind::Stope);
    let (honest, _, replies) = lied_to(&first, Kind::Stope, true, usize::MAX, Fault::None);
    let commit = replies.iter().position(|reply| reply.len() == 1).unwrap();
    assert!(found_out(&first, Kind::Stope, &honest, (true, commit), Fault::Deny));
}

#[test]
fn a_node_without_its_column_key_is_no_node_and_a_head_of_another_column_no_head() {
    let first = began(Kind::Mope);
    let store = liar(&first, usize::MAX, Fault::None);
    let other = arras_keys::Key::take_from(&mut [8; 32]);
    let tree = Tree::open(store, &other, settings(Kind::Mope, true), None, Randomness::default()).unwrap();
    assert!(matches!(run(tree.places(&bytes([1]))), Err(IndexError::Contradicted(_))));
    let mut forged = first.clone();
    forged.head.values += 1;
    let tree = Tree::open(
        liar(&forged, usize::MAX, Fault::None),
        &key(),
        settings(Kind::Mope, true),
        None,
        Randomness::default(),
    );
    assert!(matches!(run(tree.unwrap().places(&bytes([1]))), Err(IndexError::Contradicted(_))));
    let mut older = first.clone();
    older.nodes.values_mut().for_each(|node| *node = Blob(Vec::new()));
    let tree = Tree::open(
        liar(&older, usize::MAX, Fault::None),
        &key(),
        settings(Kind::Mope, true),
        Some(first.head),
        Randomness::default(),
    );
    assert!(matches!(run(tree.unwrap().places(&bytes([1]))), Err(IndexError::Contradicted(_))));
}
