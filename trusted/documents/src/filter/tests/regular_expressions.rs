//! PCRE patterns and what they must match.

use super::super::Pattern;
use super::{check, code};
use bson::{Bson, doc};

fn regex(pattern: &str, options: &str) -> Bson {
    Bson::RegularExpression(bson::Regex {
        pattern: pattern.try_into().expect("no zero byte"),
        options: options.try_into().expect("no zero byte"),
    })
}

fn found(pattern: &str, options: &str, text: &str) -> bool {
    Pattern::new(pattern, options).expect(pattern).matches(&Bson::String(text.to_owned()))
}

#[test]
fn in_filters() {
    check(vec![
        (
            doc! { "a": { "$regex": "^ab" } },
            vec![doc! { "a": "abc" }, doc! { "a": ["x", "ab"] }],
            vec![doc! { "a": "cab" }, doc! { "a": 1 }],
        ),
        (
            doc! { "a": regex("^AB", "i") },
            vec![doc! { "a": "abc" }, doc! { "a": regex("^AB", "i") }],
            vec![doc! { "a": regex("^AB", "") }],
        ),
        (
            doc! { "a": { "$regex": "AB", "$options": "i" } },
            vec![doc! { "a": "cab" }],
            vec![doc! { "a": "x" }],
        ),
        (
            doc! { "a": { "$in": [regex("^a", ""), 5] } },
            vec![doc! { "a": "ab" }, doc! { "a": 5 }],
            vec![doc! { "a": "ba" }],
        ),
        (
            doc! { "a": { "$nin": [regex("^a", ""), 5] } },
            vec![doc! { "a": "ba" }, doc! {}],
            vec![doc! { "a": "ab" }, doc! { "a": 5 }],
        ),
        (
            doc! { "a": { "$not": regex("^a", "") } },
            vec![doc! { "a": "b" }, doc! { "a": 1 }],
            vec![doc! { "a": "a" }],
        ),
        (
            doc! { "a": { "$all": [regex("a", ""), regex("b", "")] } },
            vec![doc! { "a": ["a", "b"] }],
            vec![doc! { "a": ["a"] }],
        ),
        // Equality with a regular expression is not a search.
        (
            doc! { "a": { "$eq": regex("a", "") } },
            vec![doc! { "a": regex("a", "") }],
            vec![doc! { "a": "a" }],
        ),
    ]);
    assert_eq!(code(doc! { "a": { "$ne": regex("a", "") } }), 2);
    assert_eq!(code(doc! { "a": { "$gt": regex("a", "") } }), 2);
    assert_eq!(code(doc! { "a": { "$regex": "a", "$options": "q" } }), 51108);
    assert_eq!(code(doc! { "a": { "$regex": "(" } }), 51091);
}

#[test]
fn patterns_mean_what_they_mean_in_pcre() {
    for (pattern, options, matching, failing) in [
        // The dollar also matches before a newline at the end.
        ("^ab$", "", vec!["ab", "ab\n"], vec!["ab\nc", "ab\n\n"]),
        ("^ab$", "m", vec!["x\nab\ny"], vec!["xab"]),
        ("(?m)^ab$", "", vec!["x\nab\ny"], vec!["xab"]),
        ("a.c", "", vec!["abc"], vec!["a\nc"]),
        ("a.c", "s", vec!["a\nc"], vec!["ac"]),
        // Classes are ASCII.
        (r"^\d+$", "", vec!["12"], vec!["१२"]),
        (r"^\w$", "", vec!["a", "_"], vec!["é"]),
        (r"^\W$", "", vec!["é", "-"], vec!["a"]),
        (r"^[\w-]+$", "", vec!["a-b"], vec!["a b"]),
        (r"^[^\d\s]$", "", vec!["a"], vec!["1", " "]),
        (r"\bab\b", "", vec!["x ab y", "éabé"], vec!["xab"]),
        // Brackets and set operators are literals inside a class.
        ("^[[a]$", "", vec!["[", "a"], vec!["b"]),
        ("^[a&&b]$", "", vec!["a", "&", "b"], vec!["c"]),
        ("^[a--]$", "", vec!["a", "-"], vec!["b"]),
        ("^[]a]$", "", vec!["]", "a"], vec!["b"]),
        ("^[^]a]$", "", vec!["b"], vec!["]", "a"]),
        ("^[[:alpha:]]$", "", vec!["a"], vec!["1"]),
        ("a{,2}", "", vec!["a{,2}"], vec!["aa"]),
        ("^a{2}$", "", vec!["aa"], vec!["a{2}"]),
        ("{x}", "", vec!["{x}"], vec!["x"]),
        (r"^\x41\x{42}$", "", vec!["AB"], vec!["ab"]),
        (r"\Qa.b\E$", "", vec!["a.b"], vec!["axb"]),
        (r"^a\ b # comment", "x", vec!["a b"], vec!["ab"]),
        ("^[a b]$", "x", vec![" "], vec!["c"]),
        ("^a*?b$", "", vec!["aab"], vec!["aac"]),
        (r"/\.\-\/", "", vec!["/.-/"], vec!["x"]),
        ("É", "i", vec!["é"], vec!["e"]),
    ] {
        for text in matching {
            assert!(found(pattern, options, text), "/{pattern}/{options} should match {text:?}");
        }
        for text in failing {
            assert!(!found(pattern, options, text), "/{pattern}/{options} should not match {text:?}");
        }
    }
}

#[test]
fn what_a_linear_engine_lacks_is_refused() {
    for pattern in [
        "(?=a)", "(?!a)", "(?<=a)", r"(a)\1", "(?>a)", "a++", "a*+b", "(*UCP)a", r"\Ka", r"\Ga", "$a",
        "(?x)a", "a(?m)b$", "[", "a**", r"\B",
    ] {
        assert_eq!(Pattern::new(pattern, "").expect_err(pattern).code, 51091, "{pattern}");
    }
    // A pattern that would take exponential time elsewhere takes linear time here.
    assert!(!found("^(a+)+$", "", &format!("{}b", "a".repeat(50_000))));
}

#[test]
fn literal_prefixes() {
    for (pattern, options, expected) in [
        ("^abc", "", Some("abc")),
        ("^ab.*", "", Some("ab")),
        ("^abc?", "", Some("ab")),
        ("^abc*", "", Some("ab")),
        ("^ab{2}", "", Some("a")),
        ("^ab+", "", Some("ab")),
        ("^a|b", "", None),
        ("abc", "", None),
        ("^abc", "i", None),
        ("^abc", "m", None),
        ("^?a", "", None),
        ("^(abc)", "", None),
    ] {
        let prefix = Pattern::new(pattern, options).ok().and_then(|pattern| pattern.literal_prefix());
        assert_eq!(prefix.as_deref(), expected, "{pattern}");
    }
}
