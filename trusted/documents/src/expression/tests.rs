#![allow(clippy::unwrap_used)]

use super::*;
use crate::order::identical;
use crate::samples::{decimal, document, value};
use bson::{bson, doc};
use proptest::prelude::*;

mod conversions;
mod time_zones;

fn evaluate(expression: &Bson, document: &Document) -> Result<Option<Bson>, QueryError> {
    Expression::parse_at(expression, DateTime::from_millis(1000))?.evaluate(document)
}

/// Expressions and what they give for one document; `undefined` stands for missing.
fn check(document: &Document, rows: Vec<(Bson, Bson)>) {
    for (expression, expected) in rows {
        let got = evaluate(&expression, document).unwrap_or_else(|error| panic!("{expression}: {error}"));
        let got = got.unwrap_or(Bson::Undefined);
        assert!(identical(&got, &expected), "{expression}: {got:?}, not {expected:?}");
    }
}

fn check_errors(rows: Vec<(Bson, i32)>) {
    for (expression, code) in rows {
        let error = evaluate(&expression, &doc! { "zero": 0, "text": "x", "list": [1] }).unwrap_err();
        assert_eq!(error.code, code, "{expression}: {error}");
    }
}

#[test]
fn paths_and_literals() {
    let document = doc! { "a": { "b": 5 }, "list": [{ "b": 1 }, { "c": 2 }, 7, { "b": 3 }] };
    check(
        &document,
        vec![
            (bson!("$a.b"), bson!(5)),
            (bson!("$a.x"), Bson::Undefined),
            (bson!("$list.b"), bson!([1, 3])),
            (bson!("$list.0"), bson!([])),
            (bson!("$$ROOT.a.b"), bson!(5)),
            (bson!("$$CURRENT.a.b"), bson!(5)),
            (bson!("$$REMOVE"), Bson::Undefined),
            (bson!("$$NOW"), Bson::DateTime(DateTime::from_millis(1000))),
            (bson!("text"), bson!("text")),
            (bson!({ "$literal": "$a" }), bson!("$a")),
            (bson!({ "x": "$a.b", "y": "$none" }), bson!({ "x": 5 })),
            (bson!(["$a.b", "$none"]), bson!([5, null])),
        ],
    );
    check_errors(vec![
        (bson!("$"), 16872),
        (bson!("$a."), 40353),
        (bson!("$a.$b"), 16410),
        (bson!("$$unknown"), 17276),
        (bson!({ "$foo": 1 }), 168),
        (bson!({ "$add": 1, "x": 2 }), 15983),
        (bson!({ "$sin": 1 }), 238),
    ]);
}

#[test]
fn arithmetic_operators() {
    check(
        &doc! { "n": 7, "null": null },
        vec![
            (bson!({ "$add": ["$n", 1, 2.5] }), bson!(10.5)),
            (bson!({ "$add": [i32::MAX, 1] }), bson!(i64::from(i32::MAX) + 1)),
            (bson!({ "$add": ["$n", "$null"] }), Bson::Null),
            (bson!({ "$add": [DateTime::from_millis(5), 10] }), bson!(DateTime::from_millis(15))),
            (bson!({ "$subtract": ["$n", 9] }), bson!(-2)),
            (bson!({ "$subtract": [DateTime::from_millis(5), DateTime::from_millis(2)] }), bson!(3_i64)),
            (bson!({ "$subtract": [DateTime::from_millis(5), 2] }), bson!(DateTime::from_millis(3))),
            (bson!({ "$multiply": ["$n", 2, 0.5] }), bson!(7.0)),
            (bson!({ "$multiply": [i64::MAX, 2] }), bson!(1.8446744073709552e19)),
            (bson!({ "$multiply": [null, [1, 2]] }), Bson::Null),
            (bson!({ "$divide": ["$n", 2] }), bson!(3.5)),
            (bson!({ "$divide": [decimal("1"), 4] }), decimal("0.25")),
            (bson!({ "$mod": ["$n", -4] }), bson!(3)),
            (bson!({ "$mod": [-7.5, 2] }), bson!(-1.5)),
            (bson!({ "$abs": -3 }), bson!(3)),
            (bson!({ "$abs": i32::MIN }), bson!(2_147_483_648_i64)),
            (bson!({ "$ceil": 1.2 }), bson!(2.0)),
            (bson!({ "$floor": -1.2 }), bson!(-2.0)),
            (bson!({ "$floor": 3 }), bson!(3)),
            (bson!({ "$round": 2.5 }), bson!(2.0)),
            (bson!({ "$round": [1234.5678, 2] }), bson!(1234.57)),
            (bson!({ "$round": [1250, -2] }), bson!(1200)),
            (bson!({ "$trunc": [-1.99, 1] }), bson!(-1.9)),
            (bson!({ "$sqrt": 9 }), bson!(3.0)),
            (bson!({ "$pow": [2, 10] }), bson!(1024)),
            (bson!({ "$pow": [2, 40] }), bson!(1_099_511_627_776_i64)),
            (bson!({ "$pow": [2, -1] }), bson!(0.5)),
            (bson!({ "$log10": 1000 }), bson!(1000_f64.log10())),
            (bson!({ "$sum": [1, "x", 2] }), bson!(3)),
            (bson!({ "$avg": [[1, 2, "x"]] }), bson!(1.5)),
            (bson!({ "$max": [1, null, 5, 3] }), bson!(5)),
            (bson!({ "$min": [[4, 2]] }), bson!(2)),
            (bson!({ "$stdDevPop": [1, 3] }), bson!(1.0)),
        ],
    );
}

#[test]
fn arithmetic_refusals() {
    check_errors(vec![
        (bson!({ "$add": [1, "x"] }), 14),
        (bson!({ "$divide": [1, 0] }), 2),
        (bson!({ "$mod": [1, "$zero"] }), 16610),
        (bson!({ "$multiply": ["x", 1] }), 14),
        (bson!({ "$abs": i64::MIN }), 28680),
        (bson!({ "$sqrt": -1 }), 28714),
        (bson!({ "$ln": 0 }), 28766),
        (bson!({ "$subtract": [1] }), 16020),
        (bson!({ "$round": [1, 200] }), 51083),
    ]);
}

#[test]
fn comparison_and_logic() {
    check(
        &doc! { "a": 1, "null": null },
        vec![
            (bson!({ "$eq": ["$a", 1.0] }), bson!(true)),
            (bson!({ "$gt": ["x", 5] }), bson!(true)),
            (bson!({ "$lt": ["$missing", null] }), bson!(true)),
            (bson!({ "$eq": ["$missing", null] }), bson!(false)),
            (bson!({ "$gt": ["$a", "$missing"] }), bson!(true)),
            (bson!({ "$cmp": [2, 1] }), bson!(1)),
            (bson!({ "$and": [1, "x", []] }), bson!(true)),
            (bson!({ "$and": [1, 0] }), bson!(false)),
            (bson!({ "$or": [null, 0.0, "$missing"] }), bson!(false)),
            (bson!({ "$not": ["$null"] }), bson!(true)),
            (bson!({ "$cond": [{ "$gte": ["$a", 1] }, "yes", "no"] }), bson!("yes")),
            (bson!({ "$cond": { "if": false, "then": 1, "else": 2 } }), bson!(2)),
            (bson!({ "$ifNull": ["$missing", "$null", 3] }), bson!(3)),
            (
                bson!({ "$switch": { "branches": [{ "case": false, "then": 1 }, { "case": true, "then": 2 }] } }),
                bson!(2),
            ),
            (bson!({ "$switch": { "branches": [{ "case": false, "then": 1 }], "default": 9 } }), bson!(9)),
            // What is not chosen is not evaluated.
            (bson!({ "$cond": [true, 1, { "$divide": [1, "$a.x"] }] }), bson!(1)),
            (bson!({ "$or": [true, { "$divide": [1, 0] }] }), bson!(true)),
        ],
    );
    check_errors(vec![
        (bson!({ "$switch": { "branches": [{ "case": false, "then": 1 }] } }), 40066),
        (bson!({ "$cond": [1, 2] }), 16020),
        (bson!({ "$cond": { "if": 1, "then": 2 } }), 17080),
    ]);
}

#[test]
fn string_operators() {
    check(
        &doc! { "s": "cafétéria", "null": null },
        vec![
            (bson!({ "$concat": ["a", "$s"] }), bson!("acafétéria")),
            (bson!({ "$concat": ["a", "$null"] }), Bson::Null),
            (bson!({ "$toUpper": "$s" }), bson!("CAFéTéRIA")),
            (bson!({ "$toLower": "$null" }), bson!("")),
            (bson!({ "$substrCP": ["$s", 3, 3] }), bson!("été")),
            (bson!({ "$substrBytes": ["$s", 0, 3] }), bson!("caf")),
            (bson!({ "$substrBytes": ["abc", 1, -1] }), bson!("bc")),
            (bson!({ "$strLenCP": "$s" }), bson!(9)),
            (bson!({ "$strLenBytes": "$s" }), bson!(11)),
            (bson!({ "$indexOfCP": ["$s", "t"] }), bson!(4)),
            (bson!({ "$indexOfBytes": ["$s", "t"] }), bson!(5)),
            (bson!({ "$indexOfCP": ["abab", "b", 2] }), bson!(3)),
            (bson!({ "$indexOfCP": ["abab", "x"] }), bson!(-1)),
            (bson!({ "$split": ["a-b-", "-"] }), bson!(["a", "b", ""])),
            (bson!({ "$trim": { "input": " a b\t" } }), bson!("a b")),
            (bson!({ "$ltrim": { "input": "xxaxx", "chars": "x" } }), bson!("axx")),
            (bson!({ "$strcasecmp": ["ab", "AC"] }), bson!(-1)),
            (bson!({ "$replaceOne": { "input": "aa", "find": "a", "replacement": "b" } }), bson!("ba")),
            (bson!({ "$replaceAll": { "input": "aa", "find": "a", "replacement": "b" } }), bson!("bb")),
            (bson!({ "$regexMatch": { "input": "$s", "regex": "^CAF", "options": "i" } }), bson!(true)),
            (
                bson!({ "$regexFind": { "input": "éab", "regex": "a(b)(c)?" } }),
                bson!({ "match": "ab", "idx": 1, "captures": ["b", null] }),
            ),
            (bson!({ "$regexFindAll": { "input": "$null", "regex": "a" } }), bson!([])),
        ],
    );
    check_errors(vec![
        (bson!({ "$concat": ["a", 1] }), 16702),
        (bson!({ "$strLenCP": null }), 34471),
        (bson!({ "$substrBytes": ["é", 1, 1] }), 28656),
        (bson!({ "$split": ["a", ""] }), 40087),
        (bson!({ "$trim": { "chars": "x" } }), 40414),
        (bson!({ "$trim": { "input": "x", "foo": 1 } }), 40415),
    ]);
}

#[test]
fn array_and_set_operators() {
    check(
        &doc! { "l": [3, 1, 2], "null": null },
        vec![
            (bson!({ "$size": "$l" }), bson!(3)),
            (bson!({ "$arrayElemAt": ["$l", -1] }), bson!(2)),
            (bson!({ "$arrayElemAt": ["$l", 5] }), Bson::Undefined),
            (bson!({ "$first": "$l" }), bson!(3)),
            (bson!({ "$last": "$l" }), bson!(2)),
            (bson!({ "$slice": ["$l", 2] }), bson!([3, 1])),
            (bson!({ "$slice": ["$l", -2] }), bson!([1, 2])),
            (bson!({ "$slice": ["$l", 1, 1] }), bson!([1])),
            (bson!({ "$concatArrays": ["$l", [9]] }), bson!([3, 1, 2, 9])),
            (bson!({ "$in": [1.0, "$l"] }), bson!(true)),
            (bson!({ "$indexOfArray": ["$l", 2] }), bson!(2)),
            (bson!({ "$isArray": ["$l"] }), bson!(true)),
            (bson!({ "$range": [0, 10, 4] }), bson!([0, 4, 8])),
            (bson!({ "$range": [3, 0, -1] }), bson!([3, 2, 1])),
            (bson!({ "$reverseArray": "$l" }), bson!([2, 1, 3])),
            (bson!({ "$zip": { "inputs": ["$l", ["a"]] } }), bson!([[3, "a"]])),
            (
                bson!({ "$zip": { "inputs": [[1, 2], ["a"]], "useLongestLength": true } }),
                bson!([[1, "a"], [2, null]]),
            ),
            (
                bson!({ "$map": { "input": "$l", "as": "x", "in": { "$multiply": ["$$x", 2] } } }),
                bson!([6, 2, 4]),
            ),
            (bson!({ "$map": { "input": "$null", "in": "$$this" } }), Bson::Null),
            (bson!({ "$filter": { "input": "$l", "cond": { "$gt": ["$$this", 1] } } }), bson!([3, 2])),
            (bson!({ "$filter": { "input": "$l", "cond": true, "limit": 1 } }), bson!([3])),
            (
                bson!({ "$reduce": { "input": "$l", "initialValue": 0, "in": { "$add": ["$$value", "$$this"] } } }),
                bson!(6),
            ),
            (bson!({ "$sortArray": { "input": "$l", "sortBy": 1 } }), bson!([1, 2, 3])),
            (bson!({ "$setUnion": [[1, 2], [2, 3]] }), bson!([1, 2, 3])),
            (bson!({ "$setIntersection": [[1, 2], [2, 3]] }), bson!([2])),
            (bson!({ "$setDifference": [[3, 1, 3], [1]] }), bson!([3])),
            (bson!({ "$setEquals": [[1, 2, 1], [2, 1]] }), bson!(true)),
            (bson!({ "$setIsSubset": [[1], [2, 1]] }), bson!(true)),
            (bson!({ "$anyElementTrue": [[0, 1]] }), bson!(true)),
            (bson!({ "$allElementsTrue": [[0, 1]] }), bson!(false)),
            (bson!({ "$let": { "vars": { "x": 2 }, "in": { "$add": ["$$x", "$$x"] } } }), bson!(4)),
        ],
    );
    check_errors(vec![
        (bson!({ "$size": 1 }), 17124),
        (bson!({ "$in": [1, 2] }), 40081),
        (bson!({ "$range": [0, 1, 0] }), 34449),
        (bson!({ "$range": [0, i32::MAX] }), 146),
        (bson!({ "$map": { "input": 1, "in": 1 } }), 16883),
        (bson!({ "$let": { "vars": { "X": 1 }, "in": 1 } }), 9),
    ]);
}

#[test]
fn object_operators() {
    check(
        &doc! { "o": { "a": 1, "b": 2 }, "x.y": 7 },
        vec![
            (bson!({ "$mergeObjects": ["$o", { "b": 3 }, null] }), bson!({ "a": 1, "b": 3 })),
            (bson!({ "$objectToArray": "$o" }), bson!([{ "k": "a", "v": 1 }, { "k": "b", "v": 2 }])),
            (bson!({ "$arrayToObject": [[{ "k": "a", "v": 1 }]] }), bson!({ "a": 1 })),
            (bson!({ "$arrayToObject": [[["a", 1]]] }), bson!({ "a": 1 })),
            (bson!({ "$getField": "x.y" }), bson!(7)),
            (bson!({ "$getField": { "field": "a", "input": "$o" } }), bson!(1)),
            (
                bson!({ "$setField": { "field": "c", "input": "$o", "value": 3 } }),
                bson!({ "a": 1, "b": 2, "c": 3 }),
            ),
            (bson!({ "$unsetField": { "field": "a", "input": "$o" } }), bson!({ "b": 2 })),
        ],
    );
    check_errors(vec![
        (bson!({ "$mergeObjects": [1] }), 40400),
        (bson!({ "$arrayToObject": [[["a\0", 1]]] }), 4940400),
    ]);
}

#[test]
fn expressions_cannot_grow_without_end() {
    let doubling = bson!({ "$reduce": {
        "input": { "$range": [0, 64] },
        "initialValue": "0123456789",
        "in": { "$concat": ["$$value", "$$value"] },
    } });
    assert!(matches!(evaluate(&doubling, &doc! {}).unwrap_err().code, 292 | 10334));
    let nesting =
        bson!({ "$reduce": { "input": { "$range": [0, 5000] }, "initialValue": 1, "in": ["$$value"] } });
    assert_eq!(evaluate(&nesting, &doc! {}).unwrap_err().code, 15);
    let wide = (0..40).fold(
        bson!("x".repeat(1000)),
        |inner, _| bson!({ "$let": { "vars": { "x": inner }, "in": ["$$x", "$$x"] } }),
    );
    assert!(matches!(evaluate(&wide, &doc! {}).unwrap_err().code, 292 | 15));
}

#[test]
fn fields_an_expression_reads() {
    let fields = |expression: Bson| Expression::parse(&expression).unwrap().fields();
    assert_eq!(fields(bson!({ "$add": ["$b.c", { "$max": "$a" }, 1] })), Some(vec!["a".into(), "b".into()]));
    assert_eq!(fields(bson!("$$ROOT")), None);
    let path = |expression: Bson| Expression::parse(&expression).unwrap().field_path();
    assert_eq!(path(bson!("$a.b")).as_deref(), Some("a.b"));
    assert_eq!(path(bson!({ "$abs": "$a" })), None);
    assert_eq!(Expression::parse(&bson!(5)).unwrap().constant(), Some(&bson!(5)));
}

/// Expressions of random operators on random operands.
fn expression() -> impl Strategy<Value = Bson> {
    let names = vec![
        "$abs",
        "$add",
        "$arrayElemAt",
        "$arrayToObject",
        "$avg",
        "$ceil",
        "$cmp",
        "$concat",
        "$concatArrays",
        "$dayOfYear",
        "$divide",
        "$eq",
        "$floor",
        "$in",
        "$indexOfArray",
        "$indexOfCP",
        "$isoWeek",
        "$log",
        "$ltrim",
        "$max",
        "$mergeObjects",
        "$mod",
        "$multiply",
        "$not",
        "$objectToArray",
        "$pow",
        "$range",
        "$reverseArray",
        "$round",
        "$setUnion",
        "$size",
        "$slice",
        "$split",
        "$sqrt",
        "$strLenCP",
        "$substrBytes",
        "$substrCP",
        "$subtract",
        "$sum",
        "$toBool",
        "$toDate",
        "$toDecimal",
        "$toInt",
        "$toLong",
        "$toString",
        "$toUpper",
        "$trunc",
        "$year",
        "$zip",
    ];
    let leaf = prop_oneof![value(), prop::sample::select(vec![bson!("$a"), bson!("$b.c"), bson!("$$ROOT")])];
    leaf.prop_recursive(3, 12, 3, move |inner| {
        (prop::sample::select(names.clone()), prop::collection::vec(inner, 1..4))
            .prop_map(|(name, operands)| bson!({ name: operands }))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn any_expression_gives_a_value_or_an_error(expression in expression(), document in document()) {
        if let Ok(parsed) = Expression::parse(&expression) {
            let result = parsed.evaluate(&document);
            if let (Ok(Some(value)), Some(constant)) = (&result, parsed.constant()) {
                prop_assert!(identical(value, constant));
            }
        }
    }
}

#[test]
fn the_deepest_expression_and_filter_fit_the_stack() {
    let expression = (0..48).fold(bson!(true), |inner, _| bson!({ "$not": [inner] }));
    assert_eq!(evaluate(&expression, &doc! {}).unwrap(), Some(bson!(true)));
    let filter = (0..48).fold(doc! { "a": 1 }, |inner, _| doc! { "$nor": [inner] });
    assert!(crate::filter::Filter::parse(&filter).unwrap().matches(&doc! { "a": 1 }).unwrap());
    let deeper = (0..200).fold(bson!(true), |inner, _| bson!({ "$not": [inner] }));
    assert_eq!(evaluate(&deeper, &doc! {}).unwrap_err().code, 15);
}

#[test]
fn a_final_newline_is_not_taken_for_a_match() {
    let find = |text: &str| evaluate(&bson!({ "$regexFind": { "input": text, "regex": "b$" } }), &doc! {});
    assert!(
        matches!(find("ab").unwrap(), Some(Bson::Document(found)) if found.get_str("match").is_ok_and(|text| text == "b"))
    );
    assert_eq!(find("ab\n").unwrap_err().code, 238);
}
