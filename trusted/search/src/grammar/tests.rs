use super::{DEPTH_MAX, Mistake, PARTS_MAX, QUERY_BYTES_MAX, QueryError, parse, text_search};
use crate::formula::{Field, Formula, Number, Range};
use proptest::prelude::*;

fn word(text: &str) -> Formula {
    Formula::Word(text.into())
}

fn range(number: Number, at_least: Option<i64>, at_most: Option<i64>) -> Formula {
    Formula::Range(Range { number, at_least, at_most })
}

fn mistake(query: &str) -> (Mistake, std::ops::Range<usize>) {
    let error = parse(query).unwrap_err();
    (error.mistake, error.place)
}

#[test]
fn a_query_is_read_by_how_tightly_its_operators_bind() {
    let not = |part| Formula::Not(Box::new(part));
    let expected = Formula::All(vec![Formula::Any(vec![word("whale"), word("ship")]), not(word("captain"))]);
    for query in
        ["(whale OR ship) AND NOT captain", "(whale OR ship) -captain", " ( whale OR ship )NOT captain"]
    {
        assert_eq!(parse(query).unwrap(), expected, "{query}");
    }
    let bound = Formula::Any(vec![word("a"), Formula::All(vec![word("b"), not(word("c"))]), word("d")]);
    assert_eq!(parse("a OR b AND NOT c OR d").unwrap(), bound);
    assert_eq!(parse("a OR b -c OR d").unwrap(), bound);
    // Only capitals are operators, and a minus within a word is part of it.
    let plain = Formula::All(vec![word("and"), word("or"), word("e-mail")]);
    assert_eq!(parse("and or e-mail").unwrap(), plain);
    let phrase =
        Formula::All(vec![Formula::Phrase("white whale".into()), not(Formula::Phrase("old man".into()))]);
    assert_eq!(parse("\"white whale\"-\"old man\"").unwrap(), phrase);
}

#[test]
fn filters_are_fields_and_ranges_of_dates_and_sizes() {
    let field = |field, words: &str| Formula::Field(field, words.into());
    assert_eq!(parse("from:alice").unwrap(), field(Field::From, "alice"));
    assert_eq!(parse("SUBJECT:\"white whale\"").unwrap(), field(Field::Subject, "white whale"));
    assert_eq!(parse("-to:bob").unwrap(), Formula::Not(Box::new(field(Field::To, "bob"))));
    // A time has a colon and is no filter.
    assert_eq!(parse("10:30").unwrap(), word("10:30"));
    let day = 86_400;
    let start_of_2001 = 978_307_200;
    let dates = [
        ("date:2001", Some(start_of_2001), Some(start_of_2001 + 365 * day - 1)),
        ("date:2000-12..2001-01", Some(start_of_2001 - 31 * day), Some(start_of_2001 + 31 * day - 1)),
        ("date:2000-02-29", Some(951_782_400), Some(951_782_400 + day - 1)),
        ("date:>2000", Some(start_of_2001), None),
        ("date:>=2001-01-01", Some(start_of_2001), None),
        ("date:<2001", None, Some(start_of_2001 - 1)),
        ("date:<=2000", None, Some(start_of_2001 - 1)),
        ("date:..2000-12-31", None, Some(start_of_2001 - 1)),
        ("date:2001-01-01T00:00:00..", Some(start_of_2001), None),
    ];
    for (query, at_least, at_most) in dates {
        assert_eq!(parse(query).unwrap(), range(Number::Date, at_least, at_most), "{query}");
    }
    let sizes = [
        ("size:>10k", Some(10 * 1024 + 1), None),
        ("size:1K..2MB", Some(1024), Some(2 << 20)),
        ("size:<1G", None, Some((1 << 30) - 1)),
        ("size:=500", Some(500), Some(500)),
    ];
    for (query, at_least, at_most) in sizes {
        assert_eq!(parse(query).unwrap(), range(Number::Size, at_least, at_most), "{query}");
    }
}

#[test]
fn a_mistake_is_named_with_its_place() {
    assert_eq!(mistake("  "), (Mistake::Empty, 0..0));
    assert_eq!(mistake("a AND (b OR c"), (Mistake::UnclosedParenthesis, 6..7));
    assert_eq!(mistake("a) b"), (Mistake::UnopenedParenthesis, 1..2));
    assert_eq!(mistake("a AND \"b c"), (Mistake::UnclosedPhrase, 6..7));
    assert_eq!(mistake("a AND OR b"), (Mistake::MissingPart("behind AND"), 6..8));
    assert_eq!(mistake("a OR"), (Mistake::MissingPart("behind OR"), 4..4));
    assert_eq!(mistake("OR a"), (Mistake::MissingPart("at the beginning"), 0..2));
    assert_eq!(mistake("a NOT"), (Mistake::MissingPart("behind NOT"), 5..5));
    assert_eq!(mistake("a ()"), (Mistake::MissingPart("in the parenthesis"), 3..4));
    assert_eq!(mistake("a \" \""), (Mistake::MissingPart("between the quotation marks"), 2..5));
    assert_eq!(mistake("whale http://x"), (Mistake::UnknownFilter("http".into()), 6..10));
    assert_eq!(mistake("from: alice"), (Mistake::EmptyFilter("from"), 0..5));
    assert_eq!(mistake("é date:"), (Mistake::EmptyFilter("date"), 3..8));
    for wrong in
        ["tomorrow", "2001-13", "2001-02-30", "01-02-2001", "..", "2001..2002..2003", "-5", "10000", "0000"]
    {
        let (found, place) = mistake(&format!("date:{wrong}"));
        assert_eq!((found, place), (Mistake::NoDate(wrong.into()), 5..5 + wrong.len()));
    }
    for wrong in ["big", "10x", "-5", "9223372036854775807k", "1.5k", ">9223372036854775807"] {
        assert_eq!(mistake(&format!("size:{wrong}")).0, Mistake::NoSize(wrong.into()));
    }
    assert_eq!(mistake("size:2k..1k").0, Mistake::Backwards);
}

#[test]
fn a_mistake_is_shown_under_the_query() {
    let query = "größe whale http://x AND y";
    let error = parse(query).unwrap_err();
    assert!(
        error.to_string().starts_with("column 13: there is no filter http:; there is cc: from:"),
        "{error}"
    );
    assert_eq!(error.pointer(query), "größe whale http://x AND y\n            ^^^^");
    let long = format!("{} AND", "x ".repeat(500));
    let error: QueryError = parse(&long).unwrap_err();
    assert_eq!(error.to_string().split(':').next(), Some("column 1005"));
    assert_eq!(error.pointer(&long).lines().map(str::len).collect::<Vec<_>>(), [40, 41]);
    assert_eq!(parse("").unwrap_err().pointer(""), "");
}

#[test]
fn length_depth_and_parts_are_bounded() {
    let nested = |depth: usize| [&"(".repeat(depth), "a", &")".repeat(depth)].concat();
    assert_eq!(parse(&nested(DEPTH_MAX)).unwrap(), word("a"));
    assert_eq!(mistake(&nested(DEPTH_MAX + 1)), (Mistake::TooDeep, DEPTH_MAX..DEPTH_MAX + 1));
    assert_eq!(mistake(&format!("{}a", "NOT ".repeat(DEPTH_MAX + 1))).0, Mistake::TooDeep);
    assert_eq!(mistake(&format!("{}a", "-(".repeat(10_000))).0, Mistake::TooDeep);
    assert!(parse(&"a ".repeat(PARTS_MAX)).is_ok());
    assert_eq!(mistake(&"a ".repeat(PARTS_MAX + 1)).0, Mistake::TooManyParts);
    // A term of 10 MB.
    let long = "a".repeat(10_000_000);
    assert_eq!(mistake(&long).0, Mistake::TooLong(10_000_000));
    assert_eq!(text_search(&long).unwrap_err().mistake, Mistake::TooLong(10_000_000));
    assert_eq!(text_search(&"a ".repeat(PARTS_MAX + 1)).unwrap_err().mistake, Mistake::TooManyParts);
    assert!(parse(&"a".repeat(QUERY_BYTES_MAX)).is_ok());
}

#[test]
fn a_text_search_takes_one_of_its_words_all_its_phrases_and_none_of_what_it_denies() {
    let read = |search: &str| text_search(search).unwrap().map(|formula| formula.to_string());
    // Words decide nothing beside phrases, whichever of these is of stop words.
    let both = read("\"the\" \"white whale\" ship").unwrap();
    assert!(
        both.ends_with("(ship OR \"the\" OR \"white whale\")") || both.contains("OR \"white whale\""),
        "{both}"
    );
    let cases = [
        ("whale", "\"whale\""),
        ("whale ship", "\"whale\" OR \"ship\""),
        ("whale ship -captain", "(\"whale\" OR \"ship\") AND NOT \"captain\""),
        ("\"white whale\"", "\"white whale\""),
        ("\"white whale\" \"the sea\"", "\"white whale\" AND \"the sea\""),
        // The word counts for the order, and decides nothing.
        ("\"white whale\" ship", "\"white whale\" AND (\"ship\" OR \"white whale\")"),
        ("ship -\"white whale\"", "\"ship\" AND NOT \"white whale\""),
        // A minus in a word denies nothing, and parts words; parentheses and operators are nothing but text.
        ("pre-market (x) AND", "\"pre\" OR \"market\" OR \"x\" OR \"AND\""),
        ("ship -pre-market", "(\"ship\" OR \"market\") AND NOT \"pre\""),
        ("a/b don't", "\"a\" OR \"b\" OR \"don't\""),
        ("an \"open phrase", "\"an\" OR \"open\" OR \"phrase\""),
        ("from:alice", "\"from:alice\""),
    ];
    for (search, expected) in cases {
        assert_eq!(read(search).as_deref(), Some(expected), "{search}");
    }
    for nothing in ["", "   ", "-whale", "-\"white whale\" -ship", "\"\"", "--", "\"", "- ", "()"] {
        assert_eq!(read(nothing), None, "{nothing}");
    }
}

/// Formulas that a query can say: no part of one kind directly within its own kind's only part.
pub(crate) fn formulas() -> impl Strategy<Value = Formula> {
    let bare = "[a-e]{1,2}|[é-í][0-9_]{0,2}|and|not";
    let seconds = -62_135_596_800_i64..=253_402_300_799;
    let ends = |values: BoxedStrategy<i64>| {
        (proptest::option::of(values.clone()), values).prop_map(|(from, to)| match from {
            Some(from) => (Some(from.min(to)), Some(from.max(to))),
            None => (None, Some(to)),
        })
    };
    let leaf = prop_oneof![
        4 => bare.prop_map(Formula::Word),
        2 => "[a-e]{1,2}( [a-e]{1,2}){0,2}".prop_map(Formula::Phrase),
        1 => (0..Field::COUNT, "[a-e]{1,2}( [a-e])?").prop_map(|(at, words)| Formula::Field(Field::ALL[at], words)),
        1 => ends((0..=i64::MAX).boxed()).prop_map(|(from, to)| range(Number::Size, from, to)),
        1 => ends(seconds.boxed()).prop_map(|(from, to)| range(Number::Date, from, to)),
    ];
    leaf.prop_recursive(5, 40, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 2..4).prop_map(Formula::All),
            proptest::collection::vec(inner.clone(), 2..4).prop_map(Formula::Any),
            inner.prop_map(|part| Formula::Not(Box::new(part))),
        ]
    })
}

proptest! {
    #[test]
    fn what_is_printed_reads_as_it_was(formula in formulas()) {
        let printed = formula.to_string();
        prop_assert_eq!(parse(&printed).map_err(|error| error.pointer(&printed)), Ok(formula));
    }

    #[test]
    fn any_text_is_read_or_refused_at_a_place_in_it(
        query in "([()\"\\-:. ]|AND|OR|NOT|from:|date:|size:|[a-c0-9é日]){0,40}",
    ) {
        match parse(&query) {
            Ok(formula) => {
                let printed = formula.to_string();
                prop_assert_eq!(parse(&printed), Ok(formula), "{}", printed);
            }
            Err(error) => {
                prop_assert!(query.get(error.place.clone()).is_some(), "{:?}", error.place);
                let _ = error.pointer(&query);
            }
        }
        prop_assert!(text_search(&query).is_ok());
    }
}
