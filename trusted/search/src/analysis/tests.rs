use super::{Analyzer, Collector, KEYWORD_BYTES_MAX, KEYWORDS_MAX, Keyword, POSITIONS_MAX, blocks};
use crate::formula::Field;
use crate::language::Language;
use proptest::prelude::*;
use std::collections::BTreeMap;

fn keywords(language: Language, text: &str) -> Vec<(u32, String)> {
    let mut analyzer = Analyzer::new(language);
    analyzer.words(text).filter_map(|word| Some((word.position, word.keyword?))).collect()
}

fn texts(language: Language, text: &str) -> Vec<String> {
    keywords(language, text).into_iter().map(|(_, keyword)| keyword).collect()
}

/// What a collector finds, by keyword: frequency and positions.
fn collected(collector: &mut Collector) -> BTreeMap<String, (u32, Vec<u32>)> {
    let keywords = collector.finish();
    let own = |it: Keyword<'_>| (it.text.to_owned(), (it.frequency, it.positions.to_vec()));
    keywords.iter().map(own).collect()
}

fn collect(language: Language, pieces: &[&str]) -> BTreeMap<String, (u32, Vec<u32>)> {
    let mut collector = Collector::new(language);
    collector.begin();
    pieces.iter().for_each(|piece| collector.feed(piece));
    collected(&mut collector)
}

#[test]
fn english_words_become_stems_and_keep_their_distances() {
    let expected =
        [(1, "whale"), (2, "sank"), (5, "ship"), (7, "captain")].map(|(at, it)| (at, it.to_owned()));
    assert_eq!(keywords(Language::English, "The Whales sank all the ships' -- our captain's!"), expected);
    // Without a language every word counts as it is.
    assert_eq!(texts(Language::None, "The Whales, the WHALE"), ["the", "whales", "the", "whale"]);
}

#[test]
fn words_are_those_of_unicode_and_of_one_form() {
    let cases: [(&str, &[&str]); 8] = [
        ("snake_case v1.2 3,14 example.com", &["snake_case", "v1.2", "3,14", "example.com"]),
        ("e-mail alice@example.com", &["e", "mail", "alice", "example.com"]),
        // An apostrophe is one, however it is typed; accents may be composed, decomposed or left out.
        ("don\u{2019}t don't", &["don't", "don't"]),
        ("caf\u{e9} cafe\u{301} cafe CAF\u{c9}", &["cafe", "cafe", "cafe", "cafe"]),
        ("\u{fb01}sh \u{ff37}\u{ff28}\u{ff21}\u{ff2c}\u{ff25}", &["fish", "whale"]),
        ("co\u{ad}operate", &["cooperate"]),
        ("ΣΊΣΥΦΟΣ σίσυφος", &["σισυφοσ", "σισυφοσ"]),
        ("鯨と船 Москва", &["鯨", "と", "船", "москва"]),
    ];
    for (text, expected) in cases {
        assert_eq!(texts(Language::None, text), expected, "{text}");
    }
    assert_eq!(
        texts(Language::Turkish, "IŞIK ışık İZMİR izmir"),
        texts(Language::Turkish, "ışık ışık izmir izmir")
    );
    assert_eq!(texts(Language::None, "İzmir"), ["izmir"]);
}

#[test]
fn each_language_has_its_own_stems_and_words_that_say_nothing() {
    let cases = [
        (Language::German, "Die Häuser und das Haus", vec!["haus", "haus"]),
        (Language::French, "les baleines et la baleine", vec!["balein", "balein"]),
        (Language::Spanish, "las ballenas y la ballena", vec!["ballen", "ballen"]),
        (Language::Russian, "корабли и корабль", vec!["корабл", "корабл"]),
    ];
    for (language, text, expected) in cases {
        assert_eq!(texts(language, text), expected, "{language}");
    }
    let prints: std::collections::BTreeSet<[u8; 8]> =
        Language::all().map(|language| Analyzer::new(language).fingerprint()).collect();
    assert_eq!(prints.len(), Language::all().count());
    assert_eq!(
        Analyzer::new(Language::English).fingerprint(),
        Analyzer::new(Language::English).fingerprint()
    );
}

#[test]
fn a_document_gives_frequencies_and_places() {
    let found = collect(Language::English, &["The whale, the whale! A ship", " and whales."]);
    let expected = [("ship", (1, vec![5])), ("whale", (3, vec![1, 3, 7]))];
    assert_eq!(found, expected.map(|(keyword, it)| (keyword.to_owned(), it)).into());
    let mut collector = Collector::new(Language::English);
    for document in ["ship ship", "whale"] {
        collector.begin();
        collector.feed(document);
        let only = collected(&mut collector);
        assert_eq!(only.len(), 1, "what was of the document before is not in {only:?}");
    }
    assert_eq!(collector.finish().words(), 1);
}

#[test]
fn fields_are_apart_from_the_text_and_phrases_do_not_reach_over_an_end() {
    let mut collector = Collector::new(Language::English);
    collector.begin();
    collector.field(Field::From, "The Alices <alice@example.com>");
    collector.field(Field::Subject, "The Whales");
    collector.field(Field::Subject, "Ships");
    collector.feed("The Whales");
    collector.end_text();
    collector.feed("ships");
    let found = collected(&mut collector);
    let field = |field: &str, word: &str| found[&super::of_field(field, word)].1.clone();
    // Names have no stems, and in them every word says something.
    assert_eq!(field("from", "the"), [0]);
    assert_eq!(field("from", "alices"), [1]);
    assert_eq!(field("from", "alice"), [2]);
    assert_eq!(field("from", "example.com"), [3]);
    assert_eq!(field("subject", "whale"), [1]);
    assert!(field("subject", "ship")[0] > 2);
    assert_eq!(found["whale"].1, [1]);
    assert!(found["ship"].1[0] > 2);
    assert_eq!(found.len(), 8);
}

#[test]
fn a_word_of_ten_megabytes_is_cut_and_found_by_its_beginning() {
    let long = "é".repeat(5_000_000);
    let found = collect(Language::None, &[&long[..2_000_000], &long[2_000_000..], " whale"]);
    assert!(found.keys().all(|keyword| keyword.len() <= KEYWORD_BYTES_MAX));
    assert_eq!(found.keys().collect::<Vec<_>>(), [&"e".repeat(KEYWORD_BYTES_MAX / 2), "whale"]);
    let asked = texts(Language::None, &"é".repeat(10_000));
    assert!(found.contains_key(&asked[0]));
}

#[test]
fn of_more_keywords_than_a_document_may_have_the_first_are_indexed() {
    let mut collector = Collector::new(Language::None);
    // What an earlier document had is no way around it.
    for round in 0..2 {
        collector.begin();
        let mut piece = String::new();
        for number in 0..KEYWORDS_MAX + 7 {
            piece.push_str(&format!("w{} ", (number + round * 3) % (KEYWORDS_MAX + 7)));
            if piece.len() > 60_000 {
                collector.feed(&piece);
                piece.clear();
            }
        }
        collector.feed(&piece);
        let last = (KEYWORDS_MAX + 6 + round * 3) % (KEYWORDS_MAX + 7);
        let keywords = collector.finish();
        assert_eq!(keywords.iter().len(), KEYWORDS_MAX);
        assert_eq!(keywords.cut().words, 7);
        assert!(keywords.iter().all(|keyword| keyword.text != format!("w{last}")));
    }
}

#[test]
fn of_more_places_than_are_kept_the_first_are() {
    let mut collector = Collector::new(Language::None);
    collector.begin();
    let piece = "a b ".repeat(10_000);
    for _ in 0..POSITIONS_MAX / 20_000 + 1 {
        collector.feed(&piece);
    }
    let keywords = collector.finish();
    let found: Vec<_> = keywords.iter().map(|it| (it.text, it.frequency, it.positions.len())).collect();
    let (frequency, kept) = ((POSITIONS_MAX / 2 + 10_000) as u32, POSITIONS_MAX / 2);
    assert_eq!(found, [("a", frequency, kept), ("b", frequency, kept)]);
    assert_eq!(keywords.cut().positions, 20_000);
}

/// Text with all that segmentation looks at: letters, marks, digits, quotes, other scripts, white space, long stretches.
fn prose() -> impl Strategy<Value = String> {
    let word = "[a-cA-C]{1,6}|[0-9]{1,3}[.,:'][0-9]|[a-b]['\u{2019}.:_-][a-b]|é|e\u{301}|\u{301}|日本|к[а-г]{0,3}|\u{200d}|\u{ad}|🐋";
    let space = "[ \n\t\r]{1,3}|\u{a0}|\u{2003}|[.,;:!?\"']";
    let long = (10_000..20_000_usize).prop_map(|length| "x".repeat(length));
    let part = prop_oneof![20 => word, 20 => space, 1 => long];
    (proptest::collection::vec(part, 0..60), 1..40_usize).prop_map(|(parts, times)| {
        let text = parts.concat();
        text.repeat(times.min(1 + 60_000 / (text.len() + 1)))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn how_a_text_is_cut_into_pieces_changes_nothing(text in prose(), cuts in proptest::collection::vec(0..40_000_usize, 0..20)) {
        let whole = collect(Language::English, &[&text]);
        let (mut pieces, mut rest) = (Vec::new(), text.as_str());
        for cut in cuts {
            let (piece, after) = rest.split_at(rest.floor_char_boundary(cut.min(rest.len())));
            pieces.push(piece);
            rest = after;
        }
        pieces.push(rest);
        prop_assert_eq!(collect(Language::English, &pieces), whole);
    }

    #[test]
    fn words_of_stretches_are_those_of_the_whole(text in prose()) {
        use unicode_segmentation::UnicodeSegmentation;
        let mut found = Vec::new();
        blocks::words(&text, |word| found.push(word.to_owned()));
        let expected: Vec<&str> = text.unicode_words().collect();
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn a_document_has_the_keywords_that_its_words_have(text in "([a-dA-D]{1,3}[ .,']|é |whales |The ){0,80}") {
        for language in [Language::None, Language::English, Language::German] {
            let mut expected: BTreeMap<String, (u32, Vec<u32>)> = BTreeMap::new();
            for (position, keyword) in keywords(language, &text) {
                let entry = expected.entry(keyword).or_default();
                entry.0 += 1;
                entry.1.push(position);
            }
            prop_assert_eq!(collect(language, &[&text]), expected);
        }
    }
}
