use super::*;

fn word(text: &str) -> Condition {
    Condition::Keyword(text.into())
}

fn near<const N: usize>(words: [(u32, &str); N]) -> Condition {
    Condition::Phrase(words.map(|(place, word)| (place, word.to_owned())).into())
}

fn not(condition: Condition) -> Condition {
    Condition::Not(Box::new(condition))
}

fn english(text: &str) -> Option<Condition> {
    formula(text, Language::English).unwrap()
}

#[test]
fn a_formula_is_read_by_its_operators() {
    let [cat, rat, dog] = ["cat", "rat", "dog"].map(word);
    let all = |parts: &[&Condition]| Condition::All(parts.iter().map(|part| (*part).clone()).collect());
    let any = |parts: &[&Condition]| Condition::Any(parts.iter().map(|part| (*part).clone()).collect());
    assert_eq!(english("cats"), Some(cat.clone()));
    assert_eq!(english(" cat & rats | dog "), Some(any(&[&all(&[&cat, &rat]), &dog])));
    assert_eq!(english("cat&(rat|dog)"), Some(all(&[&cat, &any(&[&rat, &dog])])));
    assert_eq!(english("!cat & !!rat"), Some(all(&[&not(cat.clone()), &not(not(rat.clone()))])));
    assert_eq!(english("cat <-> rats"), Some(near([(0, "cat"), (1, "rat")])));
    assert_eq!(english("cat <3> rat & dog"), Some(all(&[&near([(0, "cat"), (3, "rat")]), &dog])));
    assert_eq!(english("'fat cats' & rat"), Some(all(&[&near([(0, "fat"), (1, "cat")]), &rat])));
    assert_eq!(
        english("cat <-> (rat | dog)"),
        Some(any(&[&near([(0, "cat"), (1, "rat")]), &near([(0, "cat"), (1, "dog")])]))
    );
    assert_eq!(english("cat <-> (rat <-> dog)"), Some(near([(0, "cat"), (1, "rat"), (2, "dog")])));
    assert_eq!(english("(cat <-> rat) <2> dog"), Some(near([(0, "cat"), (1, "rat"), (3, "dog")])));
}

#[test]
fn words_that_say_nothing_go_and_leave_their_places() {
    assert_eq!(english("the"), None);
    assert_eq!(english("!the"), None);
    assert_eq!(english(" "), None);
    assert_eq!(english("the & cat"), Some(word("cat")));
    assert_eq!(english("cat <-> the <-> rat"), Some(near([(0, "cat"), (2, "rat")])));
    assert_eq!(english("the <-> cat"), Some(word("cat")));
    assert_eq!(formula("the", Language::None).unwrap(), Some(word("the")));
}

#[test]
fn what_is_no_formula_is_an_error_as_in_postgresql() {
    for text in [
        "cat rat",
        "cat &",
        "& cat",
        "(cat",
        "cat)",
        "cat || rat",
        "!",
        "'cat",
        "cat <",
        "cat <x> rat",
        "cat <-1> rat",
        "cat <20000> rat",
        "cat:x",
        "()",
        "''",
        "'cat\\",
        "cat\\",
    ] {
        let error = formula(text, Language::English).unwrap_err();
        assert_eq!(error, TsQueryError::Syntax(text.into()), "{text}");
    }
    for (text, same) in [("cat: & rat", "cat & rat"), ("cat'", "cat"), ("'cat':", "cat"), ("\\cat", "cat")] {
        assert_eq!(formula(text, Language::English), formula(same, Language::English), "{text}");
    }
    for text in ["cat:*", "cat:A", "cat <-> !rat", "cat <-> (rat & dog)"] {
        assert!(matches!(formula(text, Language::English), Err(TsQueryError::Unsupported(_))), "{text}");
    }
    let ways = format!("{0} <-> {0}", "(a1|a2|a3|a4|a5|a6|a7|a8|a9)");
    assert_eq!(formula(&ways, Language::English), Err(TsQueryError::Unsupported(WAYS)));
    let deep = "(".repeat(QUERY_BYTES_MAX);
    assert_eq!(formula(&deep, Language::English), Err(TsQueryError::TooDeep));
    assert_eq!(formula(&"!".repeat(100), Language::English), Err(TsQueryError::TooDeep));
    let many = vec!["cat"; PARTS_MAX + 1].join("|");
    assert_eq!(formula(&many, Language::English), Err(TsQueryError::TooManyParts));
    assert_eq!(web(&"a ".repeat(PARTS_MAX + 1), Language::None), Err(TsQueryError::TooManyParts));
    assert_eq!(
        all(&"x".repeat(QUERY_BYTES_MAX + 1), Language::None),
        Err(TsQueryError::TooLong(QUERY_BYTES_MAX + 1))
    );
}

#[test]
fn texts_are_read_as_all_words_as_a_phrase_and_as_of_the_web() {
    let english = Language::English;
    assert_eq!(
        all("The fat & rats, C", english).unwrap(),
        Some(Condition::All(["fat", "rat", "c"].map(word).into()))
    );
    assert_eq!(phrase("the fat rats", english).unwrap(), Some(near([(0, "fat"), (1, "rat")])));
    assert_eq!(phrase("cats of the rat", english).unwrap(), Some(near([(0, "cat"), (3, "rat")])));
    assert_eq!(phrase("!", english).unwrap(), None);
    let signal = Condition::Any(vec![
        Condition::All(vec![near([(0, "sad"), (1, "cat")]), not(word("dog"))]),
        word("rat"),
    ]);
    assert_eq!(web("\"sad cat\" -dog or rat", english).unwrap(), Some(signal));
    assert_eq!(web("or", Language::None).unwrap(), Some(word("or")));
    assert_eq!(web("cat -", english).unwrap(), Some(word("cat")));
    assert_eq!(web("-\"fat cat\"", english).unwrap(), Some(not(near([(0, "fat"), (1, "cat")]))));
    assert_eq!(web("\"cat", english).unwrap(), Some(word("cat")));
    assert_eq!(web("", english).unwrap(), None);
}
