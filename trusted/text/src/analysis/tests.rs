use super::*;
use arras_service::Fault;
use bson::doc;

fn definition(weights: &[(&str, f64)]) -> Arc<TextDefinition> {
    Arc::new(TextDefinition {
        weights: weights.iter().map(|(field, weight)| ((*field).to_owned(), *weight)).collect(),
        default_language: "english".into(),
        language_override: "language".into(),
    })
}

fn meaning(search: &str) -> Meaning {
    let definition = definition(&[("body", 1.0), ("title", 3.0)]);
    Meaning::new(search, Language::English, &definition, &Arc::default()).unwrap()
}

fn matches(search: &str, document: Document) -> bool {
    meaning(search).score(&document).is_some()
}

#[test]
fn words_phrases_and_denials_are_mongodb_s() {
    let whale =
        || doc! { "title": "The White Whale", "body": ["Ships hunt", "whales at sea"], "other": "captain" };
    for search in
        ["whale", "whaling ship", "captain ship", "\"white whale\"", "sea -captain", "\"hunt\" nothing"]
    {
        assert!(matches(search, whale()), "{search}");
    }
    for search in [
        "captain",
        "-captain",
        "the",
        "",
        "whale -ship",
        "\"whale white\"",
        "\"hunt whales\"",
        "whale \"black whale\"",
        "whale -\"white whale\"",
    ] {
        assert!(!matches(search, whale()), "{search}");
    }
}

#[test]
fn the_score_is_mongodb_s() {
    let score = |search: &str, document| meaning(search).score(&document).unwrap();
    let near = |left: f64, right: f64| assert!((left - right).abs() < 1e-9, "{left} {right}");
    // One word of two, in a field of weight 1.
    near(score("whale", doc! { "body": "whale sea" }), 0.75);
    // The whole text, and written as its stem: a tenth more.
    near(score("whale", doc! { "body": "whale" }), 1.1);
    near(score("whales", doc! { "body": "whales" }), 1.0);
    // Weighted, and twice of three: 1 + 1/2 times 1/3 + 1/2.
    near(score("whale", doc! { "title": "whale whale sea" }), 3.0 * 1.5 * (1.0 / 3.0 + 0.5));
    // Fields and words add up; words that say nothing do not count as words.
    near(score("whale sea", doc! { "title": "the whale of sea", "body": "sea salt" }), 3.0 * 1.5 + 0.75);
}

#[test]
fn strings_are_found_on_paths_and_everywhere() {
    let document = doc! { "a": [{ "b": "one" }, { "b": ["two", 3] }, "no"], "c": { "d": "three" }, "n": 1 };
    let found = |definition: &TextDefinition| {
        texts(&document, definition).iter().map(|text| text.text.to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(found(&definition(&[("a.b", 1.0)])), ["one", "two"]);
    assert_eq!(found(&definition(&[("$**", 1.0)])), ["one", "two", "no", "three"]);
    assert_eq!(found(&definition(&[("c", 1.0), ("n", 1.0), ("x.y", 1.0)])), Vec::<String>::new());
}

#[test]
fn a_document_names_its_language() {
    let definition = definition(&[("body", 1.0), ("in.body", 1.0)]);
    let of = |document: &Document| {
        language(&texts(document, &definition), Language::English).map_err(|error| match error.fault {
            Fault::Language(rule) => rule.code,
            _ => 0,
        })
    };
    assert_eq!(of(&doc! { "body": "häuser", "language": "german" }), Ok(Language::German));
    assert_eq!(of(&doc! { "body": "houses" }), Ok(Language::English));
    assert_eq!(
        of(&doc! { "n": 1, "language": "klingon" }),
        Ok(Language::English),
        "no text of that language"
    );
    assert_eq!(of(&doc! { "body": "x", "language": "klingon" }), Err(17262));
    assert_eq!(of(&doc! { "body": "x", "language": 7 }), Err(17261));
    assert_eq!(of(&doc! { "body": "x", "in": { "body": "y", "language": "german" } }), Err(238));
    let german = Meaning::new("haus", Language::German, &definition, &Arc::default()).unwrap();
    assert!(german.score(&doc! { "body": "häuser", "language": "german" }).is_some());
}

#[test]
fn a_row_is_found_again_by_its_name_and_by_no_other_index_s() {
    let (one, other) = (Names([1; 8]), Names([2; 8]));
    let row = RowId([7; 16]);
    assert_eq!(one.row(one.document(row)), row);
    assert_ne!(one.document(row), other.document(row));
    assert_ne!(one.document(row).0, row.0);
}
