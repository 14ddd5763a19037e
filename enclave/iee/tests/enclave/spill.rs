//! Counters beyond the tables: what the host sees of them, and one that gives what is old, another's or nothing.

use super::host::{ADMINISTRATOR, Disk, Host, To, keeping, without};
use arras_iee::Fault;
use arras_primitives::prg::Prg;
use arras_primitives::uniform::{shuffle, uniform};
use arras_protocol::iee::{CLIENT_REQUESTS_MAX, ConnectionId, StateName};
use arras_schemes::bisen::message::{Groups, Refused, Reply, Request, Rights, Tampering};
use arras_schemes::bisen::query::{PhraseWord, Search, Step};
use arras_schemes::bisen::update::{DOCUMENTS_MAX, DocumentAction, Facts, Fence, PAIRS_MAX, Update};
use arras_schemes::bisen::{DocumentName, KeywordHash};
use proptest::prelude::*;
use std::collections::HashMap;

/// Keywords that fit the tables of these tests.
const COUNTERS: usize = 16;

fn word(number: u32) -> KeywordHash {
    let mut bytes = [5; 16];
    bytes[..4].copy_from_slice(&number.to_le_bytes());
    KeywordHash(bytes)
}

/// A document that has these words once each.
fn document(words: &[KeywordHash], name: [u8; 16]) -> Request {
    document_of(0, words, name)
}

fn document_of(collection: u32, words: &[KeywordHash], name: [u8; 16]) -> Request {
    let mut update = Update::new(collection);
    let slot = update.document(DocumentAction::NewPublished, DocumentName(name), Facts::default()).unwrap();
    words.iter().for_each(|word| update.occurrences(slot, *word, &[0]).unwrap());
    Request::Update(update)
}

/// Documents that have one of these words at least.
fn any_of(keywords: Vec<KeywordHash>) -> Search {
    let mut formula = vec![Step::Keyword(0)];
    for at in 1..keywords.len() as u16 {
        formula.extend([Step::Keyword(at), Step::Or]);
    }
    Search { keywords, formula, ..Search::new(0) }
}

fn found(host: &mut Host, client: ConnectionId, word: KeywordHash) -> Result<usize, Refused> {
    let pages = host.search(client, any_of(vec![word]))?;
    Ok(pages.iter().map(|page| page.hits().count()).sum())
}

/// A host after so many documents, of two new words each, and one that all of them have.
fn filled(documents: u32) -> (Host, ConnectionId) {
    let mut host = Host::with_counters(Disk::default(), COUNTERS).start();
    let ada = host.connect(1, ADMINISTRATOR);
    host.create(ada, "mail", 0);
    for number in 0..documents {
        let words = [word(0), word(2 * number + 1), word(2 * number + 2)];
        assert_eq!(host.call(ada, document(&words, [number as u8; 16])), Reply::Updated);
    }
    (host, ada)
}

/// Pieces of the checkpoint that a search reads.
fn read(host: &mut Host, client: ConnectionId) -> usize {
    host.shape.clear();
    assert_eq!(found(host, client, word(0)).unwrap(), 40);
    host.shape.iter().filter(|(kind, _)| kind == "Load").count()
}

#[test]
fn every_keyword_is_found_wherever_its_counter_is() {
    let (mut host, ada) = filled(40);
    assert!(read(&mut host, ada) > 0, "nothing is spilled");
    for again in [false, true] {
        if again {
            host = Host::with_counters(host.disk, COUNTERS).start();
            host.connect(1, ADMINISTRATOR);
        }
        for number in 1..=80 {
            assert_eq!(found(&mut host, ada, word(number)), Ok(1), "{number}");
        }
        assert_eq!(found(&mut host, ada, word(81)), Ok(0));
    }
    // All of them at once, and searches that wait for one another.
    let all = any_of((1..=80).map(word).collect());
    let requests: Vec<u64> = (0..4).map(|_| host.send(ada, Request::Search(all.clone()))).collect();
    host.run().unwrap();
    for request in requests {
        let Some(Reply::Found(page)) = host.answer(ada, request) else { panic!("no answer") };
        assert_eq!(page.hits().count(), 40);
    }
}

#[test]
fn a_budget_as_small_as_there_is_holds_more_keywords_than_fit_it() {
    let mut host = Host::with_memory(Disk::default(), 16 << 20).start();
    let ada = host.connect(1, ADMINISTRATOR);
    host.create(ada, "mail", 0);
    // Slots alone, of 28 bytes, would take more than the budget has for data.
    let calls = 16;
    for call in 0..calls {
        let first = call * PAIRS_MAX as u32;
        let words: Vec<KeywordHash> = (first..first + PAIRS_MAX as u32).map(word).collect();
        assert_eq!(host.call(ada, document(&words, [call as u8; 16])), Reply::Updated, "{call}");
    }
    assert!(calls as usize * PAIRS_MAX * 28 > (16 << 20) / 8 * 7 / 8 * 6);
    let mut disk = std::mem::take(&mut host.disk);
    for _ in 0..2 {
        let mut host = Host::with_memory(disk, 16 << 20).start();
        let ada = host.connect(1, ADMINISTRATOR);
        for number in (0..calls * PAIRS_MAX as u32).step_by(70_001) {
            assert_eq!(found(&mut host, ada, word(number)), Ok(1), "{number}");
        }
        disk = host.disk;
    }
}

#[test]
fn a_budget_as_small_as_there_is_is_enough_for_compaction() {
    // All keywords are in tables, or more than fit them.
    for calls in [2, 4] {
        let mut host = Host::with_memory(Disk::default(), 16 << 20).start();
        let ada = host.connect(1, ADMINISTRATOR);
        host.create(ada, "mail", 0);
        let call = |call: u32| {
            let first = call * PAIRS_MAX as u32;
            let words: Vec<KeywordHash> = (first..first + PAIRS_MAX as u32).map(word).collect();
            document(&words, [call as u8; 16])
        };
        for number in 0..calls {
            assert_eq!(host.call(ada, call(number)), Reply::Updated, "{number}");
        }
        let mut from = None;
        loop {
            match host.call(ada, Request::Compact { collection: 0, from, fence: Fence::default() }) {
                Reply::Compacted { next: None, .. } => break,
                Reply::Compacted { next, .. } => from = next,
                other => panic!("{other:?} of {calls} calls from {from:?}"),
            }
        }
        assert_eq!(host.disk.entries.len(), calls as usize * PAIRS_MAX);
        assert_eq!(host.call(ada, call(calls)), Reply::Updated);
        for number in (0..calls * PAIRS_MAX as u32).step_by(30_011) {
            assert_eq!(found(&mut host, ada, word(number)), Ok(1), "{number}");
        }
    }
}

#[test]
fn a_small_collection_is_compacted_beside_one_of_which_much_is_spilled() {
    let mut host = Host::with_memory(Disk::default(), 16 << 20).start();
    let ada = host.connect(1, ADMINISTRATOR);
    host.create(ada, "mail", 0);
    host.create(ada, "notes", 0);
    for call in 0..4 {
        let first = call * PAIRS_MAX as u32;
        let words: Vec<KeywordHash> = (first..first + PAIRS_MAX as u32).map(word).collect();
        assert_eq!(host.call(ada, document(&words, [call as u8; 16])), Reply::Updated, "{call}");
    }
    assert_eq!(host.call(ada, document_of(1, &[word(1), word(2)], [9; 16])), Reply::Updated);
    let compact = Request::Compact { collection: 1, from: None, fence: Fence::default() };
    assert_eq!(host.call(ada, compact), Reply::Compacted { next: None, read: 2, saved: 0 });
}

/// Where nothing is spilled, its keywords are in the table already.
#[test]
fn what_has_no_room_for_more_is_still_compacted() {
    let mut host = Host::with_memory(Disk::default(), 16 << 20).start();
    let ada = host.connect(1, ADMINISTRATOR);
    host.create(ada, "mail", 0);
    let words: Vec<KeywordHash> = (0..6000).map(word).collect();
    assert_eq!(host.call(ada, document(&words, [255; 16])), Reply::Updated);
    let mut number = 0_u32;
    loop {
        let mut update = Update::new(0);
        for _ in 0..DOCUMENTS_MAX {
            number += 1;
            let mut name = [0; 16];
            name[..4].copy_from_slice(&number.to_le_bytes());
            update.document(DocumentAction::NewPublished, DocumentName(name), Facts::default()).unwrap();
        }
        match host.call(ada, Request::Update(update)) {
            Reply::Updated => {}
            Reply::Refused(Refused::Memory { .. }) => break,
            other => panic!("{other:?}"),
        }
    }
    let reply = host.call(ada, Request::Compact { collection: 0, from: None, fence: Fence::default() });
    assert!(matches!(reply, Reply::Compacted { read: 1000.., .. }), "{reply:?}");
}

#[test]
fn searches_that_wait_for_a_reading_count_with_their_formulas() {
    let (host, _) = filled(40);
    let mut host = Host::with_memory(host.disk, 16 << 20).start();
    host.lie = without(To::Load);
    let phrase = || Step::Phrase((0..32).map(|at| PhraseWord(at, at)).collect());
    let mut formula = vec![phrase()];
    (1..512).for_each(|_| formula.extend([phrase(), Step::Or]));
    let search = Search { keywords: (0..32).map(word).collect(), formula, ..Search::new(0) };
    let (mut refused, clients) = (0, 64);
    for number in 1..=clients {
        let client = host.connect(number, ADMINISTRATOR);
        for _ in 0..CLIENT_REQUESTS_MAX {
            if let Some(reply) = host.try_call(client, Request::Search(search.clone())).unwrap() {
                assert_eq!(reply, Reply::Refused(Refused::Busy));
                refused += 1;
            }
        }
    }
    // About 100 KB each.
    assert!((64..clients as usize * CLIENT_REQUESTS_MAX).contains(&refused), "{refused}");
}

#[test]
fn readings_of_one_client_do_not_stop_those_of_others() {
    let (mut host, ada) = filled(40);
    let rights = Rights { search: true, update: false, rank: false, fields: 0, groups: Groups::All };
    let grant = Request::Grant { identity: "bob".into(), collection: "mail".into(), rights };
    assert_eq!(host.call(ada, grant), Reply::Done);
    let (lie, read) = keeping(To::Load);
    host.lie = lie;
    let mut of_bob = Vec::new();
    for number in 2..7 {
        let bob = host.connect(number, "bob");
        for _ in 0..CLIENT_REQUESTS_MAX {
            of_bob.push((bob, host.send(bob, Request::Search(any_of(vec![word(0)])))));
        }
    }
    let of_ada = host.send(ada, Request::Search(any_of(vec![word(1)])));
    host.run().unwrap();
    host.lie = None;
    // All is there at once, hers last.
    read.take().into_iter().for_each(|incoming| host.say(incoming));
    while !host.gets.iter().any(|labels| labels.len() == 1) {
        assert!(host.step().unwrap());
    }
    assert!(host.gets.len() < 5, "{} of {} came before hers", host.gets.len(), of_bob.len());
    host.run().unwrap();
    assert!(matches!(host.answer(ada, of_ada), Some(Reply::Found(_))));
    assert!(of_bob.iter().all(|(bob, number)| matches!(host.answer(*bob, *number), Some(Reply::Found(_)))));
}

/// A keyword may have a record for each time that tables were spilled.
#[test]
fn searches_that_wait_for_a_reading_count_with_all_that_may_be_found() {
    let (mut host, ada) = filled(250);
    let spills = host.shape.iter().filter(|(kind, _)| kind == "Forget").count();
    assert!(spills > 40, "{spills}");
    assert_eq!(found(&mut host, ada, word(0)), Ok(250));
    let mut host = Host::with_memory(host.disk, 16 << 20).start();
    host.lie = without(To::Load);
    let search = any_of((0..256).map(word).collect());
    let mut taken = 0;
    for number in 1..=128 {
        let client = host.connect(number, ADMINISTRATOR);
        for _ in 0..CLIENT_REQUESTS_MAX {
            taken += usize::from(host.try_call(client, Request::Search(search.clone())).unwrap().is_none());
        }
    }
    assert!(
        taken > 1 && taken * search.keywords.len() * spills * 8 < 16 << 20,
        "{taken} after {spills} spills"
    );
}

#[test]
fn calls_of_known_keywords_do_not_each_need_a_checkpoint() {
    let (mut host, ada) = filled(40);
    let words: Vec<KeywordHash> = (100..110).map(word).collect();
    let checkpoints = |host: &Host| host.shape.iter().filter(|(kind, _)| kind == "Forget").count();
    let mut before = 0;
    for number in 0..90_u8 {
        if number == 30 {
            before = checkpoints(&host);
        }
        let at = usize::from(number % 5) * 2;
        assert_eq!(host.call(ada, document(&words[at..at + 2], [100 + number; 16])), Reply::Updated);
    }
    // Each makes room for more than half of what the tables hold.
    let made = checkpoints(&host) - before;
    assert!(made > 0 && made * COUNTERS / 2 <= 60 * 2, "{made}");
}

/// A host that fills its tables with documents of two new words each, until no more may be spilled; how many there are.
fn until_refused(spilled_max: u64) -> (Host, ConnectionId, u32) {
    let mut host = Host::with_bounds(Disk::default(), COUNTERS, spilled_max).start();
    let ada = host.connect(1, ADMINISTRATOR);
    host.create(ada, "mail", 0);
    for number in 0..200 {
        let words = [word(2 * number + 1), word(2 * number + 2)];
        match host.call(ada, document(&words, [number as u8; 16])) {
            Reply::Updated => {}
            refused => {
                assert_eq!(refused, Reply::Refused(Refused::Keywords(spilled_max)));
                return (host, ada, number);
            }
        }
    }
    panic!("all were taken");
}

#[test]
fn no_more_is_spilled_than_may_be() {
    // A piece may be; or nothing.
    for (spilled_max, pieces) in [(16_384 + 1, 1), (0, 0)] {
        let (mut host, ada, documents) = until_refused(spilled_max);
        assert!(documents as usize * 2 <= COUNTERS * (1 + pieces), "{documents}");
        assert_eq!(
            host.call(ada, document(&[word(1), word(999)], [201; 16])),
            Reply::Refused(Refused::Keywords(spilled_max))
        );
        for again in [false, true] {
            if again {
                host = Host::with_bounds(host.disk, COUNTERS, spilled_max).start();
                host.connect(1, ADMINISTRATOR);
            }
            for number in 0..documents {
                host.shape.clear();
                assert_eq!(found(&mut host, ada, word(2 * number + 1)), Ok(1), "{number}");
                assert_eq!(host.shape.iter().filter(|(kind, _)| kind == "Load").count(), pieces);
            }
            assert_eq!(found(&mut host, ada, word(2 * documents + 1)), Ok(0));
        }
        // With another limit it goes on.
        let mut host = Host::with_counters(host.disk, COUNTERS).start();
        let ada = host.connect(1, ADMINISTRATOR);
        assert_eq!(host.call(ada, document(&[word(999)], [202; 16])), Reply::Updated);
    }
}

#[test]
fn where_nothing_may_be_spilled_known_keywords_do_not_each_need_a_checkpoint() {
    let (mut host, ada, _) = until_refused(0);
    host.shape.clear();
    for number in 0..20 {
        let reply = host.call(ada, document(&[word(1), word(2)], [210 + number; 16]));
        assert!(matches!(reply, Reply::Updated | Reply::Refused(Refused::Keywords(_))), "{reply:?}");
    }
    let made = host.shape.iter().filter(|(kind, _)| kind == "Forget").count();
    assert!(made <= 20 / (COUNTERS / 8), "{made}");
}

/// Tables that have outgrown the budget of another launch.
#[test]
fn less_memory_than_before_is_made_do_with() {
    let mut host = Host::with_counters(Disk::default(), 1000).start();
    let ada = host.connect(1, ADMINISTRATOR);
    host.create(ada, "mail", 0);
    let words: Vec<KeywordHash> = (0..700).map(word).collect();
    assert_eq!(host.call(ada, document(&words, [1; 16])), Reply::Updated);
    assert!(!host.disk.state.contains_key(&StateName::Head));
    let mut host = Host::with_counters(host.disk, 100).start();
    assert!(host.disk.state.contains_key(&StateName::Head), "nothing was spilled at the start");
    let ada = host.connect(1, ADMINISTRATOR);
    for number in [0, 350, 699] {
        assert_eq!(found(&mut host, ada, word(number)), Ok(1), "{number}");
    }
    assert_eq!(host.call(ada, document(&words, [2; 16])), Reply::Updated);
    let mut host = Host::with_counters(host.disk, 100).start();
    let ada = host.connect(1, ADMINISTRATOR);
    assert_eq!(found(&mut host, ada, word(350)), Ok(2));
}

#[test]
fn a_piece_that_is_old_or_another_s_or_missing_is_noticed() {
    let (mut before, _) = filled(20);
    let (mut host, ada) = filled(20);
    let old = host.disk.clone();
    for number in 20..40 {
        let words = [word(0), word(2 * number + 1), word(2 * number + 2)];
        assert_eq!(host.call(ada, document(&words, [number as u8; 16])), Reply::Updated);
    }
    let pieces = |disk: &Disk| -> Vec<StateName> {
        disk.state.keys().copied().filter(|name| matches!(name, StateName::Checkpoint { .. })).collect()
    };
    // The last piece is of what is spilled: a search reads it, or the start's own checkpoint.
    let last = *pieces(&host.disk).last().unwrap();
    let honest = host.disk.clone();
    let lied = |piece: Option<Vec<u8>>| {
        let mut disk = honest.clone();
        disk.state.remove(&last);
        disk.state.extend(piece.map(|piece| (last, piece)));
        let mut host = Host::with_counters(disk, COUNTERS);
        host.run()?;
        let ada = host.connect(1, ADMINISTRATOR);
        host.try_call(ada, Request::Search(any_of(vec![word(1)]))).map(|_| ())
    };
    assert_eq!(lied(Some(honest.state[&last].clone())), Ok(()));
    assert_eq!(lied(None), Err(Fault::StateSetBack));
    let others = std::mem::take(&mut before.disk);
    let first = *pieces(&honest).first().unwrap();
    let names = pieces(&others);
    let wrong = [&old.state[pieces(&old).last().unwrap()], &honest.state[&first]]
        .into_iter()
        .chain(names.iter().map(|name| &others.state[name]));
    for piece in wrong {
        assert_eq!(lied(Some(piece.clone())), Err(Fault::StateAltered));
    }
}

/// A host that kept what the enclave had it forget shows an earlier checkpoint with the whole log behind it.
#[test]
fn a_checkpoint_from_before_counters_were_spilled_does_not_come_back() {
    let (mut host, ada) = filled(20);
    let mut kept = host.disk.state.clone();
    for number in 20..40 {
        let words = [word(0), word(2 * number + 1), word(2 * number + 2)];
        // What comes between two checkpoints is never more than this.
        let before = host.disk.state.clone();
        assert_eq!(host.call(ada, document(&words, [number as u8; 16])), Reply::Updated);
        for (name, state) in before.into_iter().chain(host.disk.state.clone()) {
            if matches!(name, StateName::Log(_)) {
                kept.insert(name, state);
            }
        }
    }
    // Records that were saved and forgotten within one call are not among them.
    let log = |disk: &Disk| disk.state.keys().any(|name| matches!(name, StateName::Log(_)));
    assert!(log(&host.disk));
    let disk = Disk { state: kept, ..host.disk.clone() };
    assert_eq!(Host::with_counters(disk, COUNTERS).run(), Err(Fault::StateSetBack));
}

/// Wherever a run ends: before the head that spills, between it and the record that says so, behind that, or in a round of compaction.
#[test]
fn a_crash_at_any_message_of_a_spill_or_of_a_round_loses_nothing() {
    let (mut host, ada) = filled(12);
    let spills = |host: &Host| host.shape.iter().filter(|(kind, _)| kind == "Forget").count();
    let words = |number: u32| [word(0), word(2 * number + 1), word(2 * number + 2)];
    let mut documents = 12;
    let before = loop {
        let before = host.disk.clone();
        host.shape.clear();
        assert_eq!(host.call(ada, document(&words(documents), [documents as u8; 16])), Reply::Updated);
        if spills(&host) > 0 {
            break before;
        }
        documents += 1;
    };
    let compact = Request::Compact { collection: 0, from: None, fence: Fence::default() };
    for (request, is_update) in [(document(&words(documents), [documents as u8; 16]), true), (compact, false)]
    {
        let mut ended = false;
        for after in 0..200 {
            let mut host = Host::with_counters(before.clone(), COUNTERS);
            host.crash_after = Some(after);
            ended = host.attempt(ADMINISTRATOR, request.clone()).unwrap().is_some();
            let mut host = Host::with_counters(host.disk, COUNTERS).start();
            let ada = host.connect(1, ADMINISTRATOR);
            let there = found(&mut host, ada, word(2 * documents + 1)).unwrap();
            assert!(there == usize::from(is_update) || is_update && !ended, "{after}");
            for number in 0..documents {
                assert_eq!(found(&mut host, ada, word(2 * number + 2)), Ok(1), "{number} after {after}");
            }
            assert_eq!(found(&mut host, ada, word(0)), Ok(documents as usize + there), "{after}");
            // What comes next is given labels that nothing else has: the storage sees to that.
            for next in 100..104 {
                assert_eq!(host.call(ada, document(&words(next), [next as u8; 16])), Reply::Updated);
            }
            assert_eq!(found(&mut host, ada, word(0)), Ok(documents as usize + there + 4), "{after}");
            let entries: u64 = 3 * (u64::from(documents) + there as u64 + 4);
            let Reply::Opened(opened) = host.call(ada, Request::Open("mail".into())) else {
                panic!("no reply")
            };
            assert_eq!(opened.entries, entries, "{after}");
            if ended {
                break;
            }
        }
        assert!(ended, "it takes more messages");
    }
}

#[test]
fn entries_of_spilled_keywords_that_are_missing_are_noticed() {
    let (host, _) = filled(40);
    let mut disk = host.disk;
    disk.entries.clear();
    let mut host = Host::with_counters(disk, COUNTERS).start();
    let ada = host.connect(1, ADMINISTRATOR);
    // The last call is stored again at the start.
    for number in [1, 2, 78] {
        assert_eq!(found(&mut host, ada, word(number)), Err(Refused::Storage(Tampering::Missing)));
    }
}

/// What is equal in both of two histories.
#[derive(Clone, Debug)]
enum Event {
    /// New keywords, so many.
    Update(usize),
    /// One keyword of each of these updates.
    Search(Vec<prop::sample::Index>),
    Restart,
}

struct Twin {
    host: Host,
    client: ConnectionId,
    draw: Prg,
    /// Keywords of each update.
    words: Vec<Vec<KeywordHash>>,
    seen: Seen,
}

/// Kinds and lengths of messages; how many labels each put has; of which puts the labels of each question are.
#[derive(Debug, Default, PartialEq)]
struct Seen {
    shape: Vec<(String, usize)>,
    puts: Vec<usize>,
    gets: Vec<Vec<usize>>,
    states: Vec<(StateName, usize)>,
}

impl Twin {
    fn new(seed: u8) -> Self {
        let mut host = Host::with_counters(Disk::default(), COUNTERS).start();
        let client = host.connect(1, ADMINISTRATOR);
        host.create(client, "mail", 0);
        Self { host, client, draw: Prg::new(&[seed; 16]), words: Vec::new(), seen: Seen::default() }
    }

    fn fresh(&mut self) -> [u8; 16] {
        let mut bytes = [0; 16];
        self.draw.fill(&mut bytes);
        bytes
    }

    fn take(&mut self, event: &Event, puts: &mut HashMap<[u8; 16], usize>) {
        match event {
            Event::Update(count) => {
                let words: Vec<KeywordHash> = (0..*count).map(|_| KeywordHash(self.fresh())).collect();
                let name = self.fresh();
                assert_eq!(self.host.call(self.client, document(&words, name)), Reply::Updated);
                self.words.push(words);
            }
            Event::Search(updates) if !self.words.is_empty() => {
                let mut of: Vec<usize> =
                    updates.iter().map(|update| update.index(self.words.len())).collect();
                of.sort_unstable();
                of.dedup();
                let mut keywords = Vec::new();
                for update in of {
                    let words = &self.words[update];
                    keywords.push(words[uniform(words.len() as u128 - 1, &mut self.draw) as usize]);
                }
                // Of words that nobody has there are more or less, and perhaps the same as before.
                for number in 0..uniform(3, &mut self.draw) as u32 {
                    let known = uniform(1, &mut self.draw) == 0;
                    keywords.push(if known { word(7 + number) } else { KeywordHash(self.fresh()) });
                }
                shuffle(&mut keywords, &mut self.draw);
                if !keywords.is_empty() {
                    self.host.search(self.client, any_of(keywords)).unwrap();
                }
            }
            Event::Search(_) => {}
            Event::Restart => {
                self.seen.shape.append(&mut self.host.shape);
                self.host = Host::with_counters(std::mem::take(&mut self.host.disk), COUNTERS).start();
                self.client = self.host.connect(1, ADMINISTRATOR);
            }
        }
        self.seen.shape.append(&mut self.host.shape);
        for labels in self.host.puts.drain(..) {
            labels.iter().for_each(|label| _ = puts.entry(*label).or_insert(self.seen.puts.len()));
            self.seen.puts.push(labels.len());
        }
        for labels in self.host.gets.drain(..) {
            let mut of: Vec<usize> = labels.iter().map(|label| puts[label]).collect();
            of.sort_unstable();
            self.seen.gets.push(of);
        }
        self.seen.states.extend(self.host.disk.state.iter().map(|(name, state)| (*name, state.len())));
    }
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        4 => (1..8_usize).prop_map(Event::Update),
        3 => prop::collection::vec(any::<prop::sample::Index>(), 1..6).prop_map(Event::Search),
        1 => Just(Event::Restart),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn twins_are_seen_alike_whichever_keywords_are_spilled_and_looked_for(
        events in prop::collection::vec(event(), 8..32),
        seeds in (0..=255_u8, 0..=255_u8),
    ) {
        let run = |seed| {
            let (mut twin, mut puts) = (Twin::new(seed), HashMap::new());
            events.iter().for_each(|event| twin.take(event, &mut puts));
            twin.seen
        };
        prop_assert_eq!(run(seeds.0), run(seeds.1));
    }
}
