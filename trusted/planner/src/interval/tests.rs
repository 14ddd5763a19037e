#![allow(clippy::unwrap_used)]

use super::*;

fn string(text: &str) -> Bson {
    Bson::String(text.to_owned())
}

#[test]
fn a_prefix_interval_holds_what_starts_with_it() {
    let cases: &[(&str, &str, bool)] = &[
        ("ab", "ab", true),
        ("ab", "abz\u{10FFFF}", true),
        ("ab", "ac", false),
        ("ab", "aa\u{10FFFF}", false),
        ("a\u{D7FF}", "a\u{D7FF}x", true),
        ("a\u{D7FF}", "a\u{E000}", false),
        ("a\u{10FFFF}", "a\u{10FFFF}b", true),
        ("a\u{10FFFF}", "b", false),
        ("\u{10FFFF}", "\u{10FFFF}\u{10FFFF}", true),
        ("\u{10FFFF}", "z", false),
    ];
    for (prefix, text, inside) in cases {
        let interval = Interval::prefix((*prefix).to_owned());
        assert_eq!(interval.contains(&string(text)), *inside, "{prefix:?} {text:?}");
        assert!(!interval.contains(&Bson::Int32(1)) && !interval.contains(&Bson::Null));
    }
}

#[test]
fn intersections_keep_the_stricter_end() {
    let over = |value: i32| Interval { lower: Edge::Excluded(Bson::Int32(value)), upper: Edge::Bracket };
    let from = |value: i32| Interval { lower: Edge::Included(Bson::Int32(value)), upper: Edge::Bracket };
    let up_to = |value: f64| Interval { lower: Edge::Bracket, upper: Edge::Included(Bson::Double(value)) };
    let both = over(1).narrowed(&up_to(4.5));
    assert_eq!(both.lower, Edge::Excluded(Bson::Int32(1)));
    assert_eq!(both.upper, Edge::Included(Bson::Double(4.5)));
    assert_eq!(from(1).narrowed(&over(1)), over(1));
    assert_eq!(over(1).narrowed(&from(1)), over(1));
    assert_eq!(over(1).narrowed(&from(2)), from(2));
    assert_eq!(Interval::ALL.narrowed(&over(3)), over(3));
    let text = Interval::prefix("a".to_owned());
    assert_eq!(
        over(1).narrowed(&text),
        over(1),
        "of different classes: nothing is in both; wider is allowed"
    );
}
