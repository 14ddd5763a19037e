#![allow(clippy::unwrap_used)]

use super::super::COLLECTION_NAME_BYTES_MAX;
use super::super::message::{PAGE_HITS, PROFILE_BYTES_MAX, Reply, Request, Rights, STEP_BYTES, Settings};
use super::super::query::{FILTERS_MAX, Filter, PHRASE_MAX, PhraseWord, STEPS_MAX, Step};
use super::super::update::{Field, POSITION_MAX};
use super::*;
use arras_protocol::Blob;
use arras_protocol::codec::{self, encoded_bytes};
use arras_protocol::iee::{CLIENT_BYTES_MAX, IDENTITY_BYTES_MAX};

#[test]
fn a_keyword_s_hash_is_that_of_its_collection() {
    let (one, other) = (Salt([1; 16]), Salt([2; 16]));
    assert_eq!(KeywordHash::of(&one, b"whale"), KeywordHash::of(&one, b"whale"));
    assert_ne!(KeywordHash::of(&one, b"whale"), KeywordHash::of(&other, b"whale"));
    assert_ne!(KeywordHash::of(&one, b"whale"), KeywordHash::of(&one, b"whales"));
    assert_eq!(format!("{:?}", KeywordHash::of(&one, b"whale")), "KeywordHash(..)");
}

#[test]
fn what_goes_in_comes_out_and_operations_take_one_length() {
    let mut update = Update::new(7);
    let facts = Facts { length: 9, visibility: 3, fields: [i64::MIN, -1, 0, i64::MAX].map(Field) };
    let slot = update.document(DocumentAction::NewPublished, DocumentName([4; 16]), facts).unwrap();
    let keyword = KeywordHash([5; 16]);
    let positions: Vec<u32> = (0..9).chain([POSITION_MAX]).collect();
    update.occurrences(slot, keyword, &positions).unwrap();
    assert_eq!(update.pair_count(), Update::pairs_for(positions.len()));
    let additions = encoded_bytes(&update);
    update.delete(slot, keyword).unwrap();
    let deleted = encoded_bytes(&update) - additions;
    let mut other = update.clone();
    other.pair(&Pair { slot: 2047, keyword: KeywordHash([255; 16]), ..update.pairs[0] }).unwrap();
    assert_eq!(encoded_bytes(&other), encoded_bytes(&update) + deleted);
    assert!(update.is_bounded() && !other.is_bounded());
    let update: Update = codec::decode(&codec::encode(&update)).unwrap();
    let pairs = &update.pairs;
    let found = pairs.iter().flat_map(|pair| pair.metadata.positions(pair.operation));
    assert_eq!(found.collect::<Vec<_>>(), positions);
    assert_eq!(pairs[0].metadata.frequency(), 10);
    let document =
        DocumentChange { action: DocumentAction::NewPublished, name: DocumentName([4; 16]), facts };
    assert_eq!(update.documents, [document]);
    let plain = DocumentChange { action: DocumentAction::New, facts: Facts::default(), ..document };
    assert_eq!(encoded_bytes(&plain), encoded_bytes(&document), "documents take one length");
}

#[test]
fn what_cannot_be_read_or_is_too_long_is_refused() {
    let mut update = Update::new(7);
    update.document(DocumentAction::Retire, DocumentName([4; 16]), Facts::default()).unwrap();
    update.delete(0, KeywordHash([1; 16])).unwrap();
    let mut broken = update.clone();
    broken.pairs[0].slot = 1;
    assert!(!broken.is_bounded());
    let bytes = codec::encode(&update);
    let read = |bytes: &[u8]| codec::decode::<Update>(bytes);
    assert_eq!(read(&bytes).as_ref(), Ok(&update));
    assert!(read(&bytes[..bytes.len() - 1]).is_err() && read(&[&bytes[..], &[0]].concat()).is_err());
    for at in 0..bytes.len() {
        // No such operation, action or length.
        let mut broken = bytes.clone();
        broken[at] = 9;
        assert!(read(&broken).map_or(true, |read| read != update), "{at}");
    }
    while update.pair_count() < PAIRS_MAX {
        update.delete(0, KeywordHash([1; 16])).unwrap();
    }
    assert!(update.delete(0, KeywordHash([1; 16])).is_err());
    assert!(update.is_bounded());
    update.pairs.push(update.pairs[0]);
    assert!(!update.is_bounded());
}

#[test]
fn the_longest_update_and_page_fit() {
    let mut update = Update::new(1);
    for _ in 0..DOCUMENTS_MAX {
        update.document(DocumentAction::New, DocumentName([1; 16]), Facts::default()).unwrap();
    }
    for _ in 0..PAIRS_MAX {
        update.delete(0, KeywordHash([1; 16])).unwrap();
    }
    let ask = Ask { number: u64::MAX, request: Request::Update(update) };
    let bytes = ask.encode();
    assert!(bytes.len() + 64 <= CLIENT_BYTES_MAX, "{}", bytes.len());
    assert_eq!(Ask::decode(&bytes).unwrap(), ask);
    let hit = Hit { name: DocumentName([2; 16]), score: 1.5 };
    let page = Page::new(vec![hit; PAGE_HITS], PAGE_HITS, u32::MAX, true);
    let answer = Answer { number: 1, reply: Reply::Found(page) };
    assert_eq!(Answer::decode(&answer.encode()).unwrap(), answer);
}

#[test]
fn a_page_s_length_is_that_of_its_slots() {
    let hit = Hit { name: DocumentName([2; 16]), score: 1.5 };
    let encoded = |real: usize, matches, is_last| {
        let page = Page::new(vec![hit; real], 100, matches, is_last);
        assert_eq!((page.hits().count(), page.matches(), page.is_last()), (real, matches, is_last));
        Answer { number: 3, reply: Reply::Found(page) }.encode().len()
    };
    assert_eq!(encoded(0, 0, false), encoded(100, u32::MAX, true));
}

/// What is in a collection, and how often it has changed, shows in no length.
#[test]
fn who_opens_a_collection_hears_of_it_at_one_length() {
    let encoded = |profile, (count, revision)| {
        let settings = Settings { fields: 4, padding: Padding::None, profile: Blob(vec![1; profile]) };
        let (documents, entries, live_entries) = (count, count, count);
        let opened = Opened {
            collection: 1,
            salt: Salt([1; 16]),
            settings,
            documents,
            entries,
            live_entries,
            revision,
        };
        Answer { number: 3, reply: Reply::Opened(opened) }.encode().len()
    };
    for profile in 0..STEP_BYTES {
        assert_eq!(encoded(profile, (0, 0)), encoded(profile, (u64::MAX, u128::MAX)), "{profile}");
    }
}

#[test]
fn no_log_shows_what_is_in_an_update() {
    let mut update = Update::new(7);
    let facts = Facts { length: 9, visibility: 3, fields: [5, 6, 7, 8].map(Field) };
    update.document(DocumentAction::Retire, DocumentName([4; 16]), facts).unwrap();
    let ask = Ask { number: 1, request: Request::Update(update) };
    assert_eq!(format!("{ask:?}"), "Ask { number: 1, request: Update(Update(..)) }");
}

#[test]
fn searches_of_a_few_keywords_have_one_length() {
    let encoded = |keywords: u8| {
        let mut search = Search::new(1);
        search.keywords = (0..keywords).map(|keyword| KeywordHash([keyword; 16])).collect();
        search.formula = vec![Step::Keyword(0)];
        Ask { number: 1, request: Request::Search(search) }.encode().len()
    };
    assert_eq!(encoded(1), encoded(20));
}

/// Who has no rights yet may send it, and nothing is counted before it is read.
#[test]
fn what_takes_much_more_memory_than_bytes_is_not_read() {
    let read = |formula: Vec<Step>| {
        let mut search = Search::new(1);
        search.keywords = (0..=255).map(|keyword| KeywordHash([keyword; 16])).collect();
        search.filters = vec![Filter::length(1); FILTERS_MAX];
        search.formula = formula;
        Ask::decode(&Ask { number: 1, request: Request::Search(search) }.encode()).is_ok()
    };
    assert!(read(vec![Step::Phrase(vec![PhraseWord(0, 0); PHRASE_MAX]); STEPS_MAX]));
    assert!(read(vec![Step::All; STEPS_MAX]));
    assert!(!read(vec![Step::All; 700_000]));
}

#[test]
fn overlong_names_and_lists_are_refused() {
    let refused = |request: Request| assert!(!request.is_bounded(), "{request:?}");
    let name = "a".repeat(COLLECTION_NAME_BYTES_MAX + 1);
    refused(Request::Open(name));
    refused(Request::Open(String::new()));
    assert!(Request::Open("a".repeat(COLLECTION_NAME_BYTES_MAX)).is_bounded());
    let identity = "a".repeat(IDENTITY_BYTES_MAX + 1);
    refused(Request::Revoke(identity));
    let settings = Settings { fields: 4, padding: Padding::None, profile: Blob::default() };
    let create = |settings: Settings| Request::Create { name: "mail".into(), settings };
    assert!(create(settings.clone()).is_bounded());
    refused(create(Settings { fields: 5, ..settings.clone() }));
    refused(create(Settings { padding: Padding::Fixed(0), ..settings.clone() }));
    refused(create(Settings { profile: Blob(vec![0; PROFILE_BYTES_MAX + 1]), ..settings }));
}

#[test]
fn searches_and_grants_have_one_length_whatever_numbers_are_in_them() {
    let length = |request: Request| encoded_bytes(&request);
    let search = |number: u64| {
        let (long, short) = (number as u32, number as u16);
        let of = [
            Attribute::Field(number as u8),
            Attribute::Frequency(short),
            Attribute::Visibility,
            Attribute::Length,
        ];
        let formula = vec![Step::Keyword(short), Step::Phrase(vec![PhraseWord(short, short)]), Step::And];
        let filters = of.map(|of| Filter { of, from: number as i64, until: number as i64 }).to_vec();
        let (keywords, ranking, padding) = (vec![KeywordHash([1; 16])], Ranking::Bm25, Padding::Fixed(long));
        let (ranked, top) = (short, long);
        let asked = Search { formula, filters, keywords, ranking, padding, ranked, top, ..Search::new(0) };
        length(Request::Search(asked))
    };
    let grant = |number: u64| {
        let groups = Groups::only([number as u32]);
        let is_odd = number % 2 == 1;
        let rights = Rights { search: is_odd, update: !is_odd, rank: is_odd, fields: number as u8, groups };
        length(Request::Grant { identity: "bob".into(), collection: "mail".into(), rights })
    };
    for bits in 1..=64 {
        let number = u64::MAX >> (64 - bits);
        assert_eq!(search(number), search(0), "{number}");
        assert_eq!(grant(number), grant(0), "{number}");
    }
}
