//! Types, conversions and dates.

use super::{check, check_errors, evaluate};
use crate::samples::decimal;
use bson::{Bson, DateTime, bson, doc};
use proptest::{prop_assert, prop_assert_eq, proptest};

/// Thursday, 2021-12-30 23:59:58.007 UTC.
const NEW_YEARS_EVE_EVE: DateTime = DateTime::from_millis(1_640_908_798_007);

#[test]
fn conversions() {
    check(
        &doc! {},
        vec![
            (bson!({ "$type": "$missing" }), bson!("missing")),
            (bson!({ "$type": [[1]] }), bson!("array")),
            (bson!({ "$isNumber": decimal("1") }), bson!(true)),
            (bson!({ "$toInt": "12" }), bson!(12)),
            (bson!({ "$toInt": 12.9 }), bson!(12)),
            (bson!({ "$toLong": true }), bson!(1_i64)),
            (bson!({ "$toDouble": "1.5" }), bson!(1.5)),
            (bson!({ "$toDecimal": "1.50" }), decimal("1.50")),
            (bson!({ "$toString": 1.5 }), bson!("1.5")),
            (bson!({ "$toString": 3.0 }), bson!("3")),
            (bson!({ "$toString": 1e20 }), bson!("1e+20")),
            (bson!({ "$toString": DateTime::from_millis(0) }), bson!("1970-01-01T00:00:00.000Z")),
            (bson!({ "$toBool": "false" }), bson!(true)),
            (
                bson!({ "$toDate": "2020-02-29T12:30:00.250Z" }),
                bson!(DateTime::from_millis(1_582_979_400_250)),
            ),
            (bson!({ "$toDate": 0_i64 }), bson!(DateTime::from_millis(0))),
            (bson!({ "$toInt": null }), Bson::Null),
            (bson!({ "$convert": { "input": "x", "to": "int", "onError": -1 } }), bson!(-1)),
            (bson!({ "$convert": { "input": null, "to": 16, "onNull": 0 } }), bson!(0)),
        ],
    );
    check_errors(vec![
        (bson!({ "$toInt": "x" }), 241),
        (bson!({ "$toInt": 1e10 }), 241),
        (bson!({ "$toInt": f64::NAN }), 241),
        (bson!({ "$toObjectId": "x" }), 241),
        (bson!({ "$toDate": "2021-02-29" }), 241),
        (bson!({ "$convert": { "input": 1, "to": "nothing" } }), 2),
    ]);
}

#[test]
fn parts_of_dates() {
    check(
        &doc! { "d": NEW_YEARS_EVE_EVE, "null": null },
        vec![
            (bson!({ "$year": "$d" }), bson!(2021)),
            (bson!({ "$month": "$d" }), bson!(12)),
            (bson!({ "$dayOfMonth": "$d" }), bson!(30)),
            (bson!({ "$dayOfWeek": "$d" }), bson!(5)),
            (bson!({ "$dayOfYear": "$d" }), bson!(364)),
            (bson!({ "$hour": { "date": "$d", "timezone": "+02:00" } }), bson!(1)),
            (bson!({ "$minute": "$d" }), bson!(59)),
            (bson!({ "$second": "$d" }), bson!(58)),
            (bson!({ "$millisecond": "$d" }), bson!(7)),
            (bson!({ "$isoWeek": "$d" }), bson!(52)),
            (bson!({ "$isoWeekYear": { "$toDate": "2021-01-01" } }), bson!(2020_i64)),
            (bson!({ "$isoWeek": { "$toDate": "2021-01-01" } }), bson!(53)),
            (bson!({ "$week": { "$toDate": "2022-01-02" } }), bson!(1)),
            (bson!({ "$year": "$null" }), Bson::Null),
        ],
    );
}

#[test]
fn text_and_arithmetic_of_dates() {
    let at = |millis: i64| bson!(DateTime::from_millis(millis));
    check(
        &doc! { "d": NEW_YEARS_EVE_EVE, "null": null },
        vec![
            (bson!({ "$dateToString": { "date": "$d" } }), bson!("2021-12-30T23:59:58.007Z")),
            (
                bson!({ "$dateToString": { "date": "$d", "format": "%d.%m.%Y %j %%" } }),
                bson!("30.12.2021 364 %"),
            ),
            (bson!({ "$dateToString": { "date": "$null", "onNull": "-" } }), bson!("-")),
            (
                bson!({ "$dateFromString": { "dateString": "2021-12-30T23:59:58.007Z" } }),
                bson!(NEW_YEARS_EVE_EVE),
            ),
            (bson!({ "$dateFromParts": { "year": 1970, "month": 14 } }), at(396 * 86_400_000)),
            (
                bson!({ "$dateAdd": { "startDate": { "$toDate": "2020-01-31" }, "unit": "month", "amount": 1 } }),
                at(1_582_934_400_000),
            ),
            (
                bson!({ "$dateSubtract": { "startDate": at(10_000), "unit": "second", "amount": 4 } }),
                at(6_000),
            ),
            (
                bson!({ "$dateDiff": { "startDate": { "$toDate": "2020-12-31" }, "endDate": "$d", "unit": "year" } }),
                bson!(1_i64),
            ),
            (
                bson!({ "$dateDiff": { "startDate": at(0), "endDate": at(86_399_999), "unit": "day" } }),
                bson!(0_i64),
            ),
            (bson!({ "$dateTrunc": { "date": "$d", "unit": "month" } }), at(1_638_316_800_000)),
            // Weeks begin on Sunday.
            (bson!({ "$dateTrunc": { "date": "$d", "unit": "week" } }), at(1_640_476_800_000)),
            (
                bson!({ "$dateToParts": { "date": at(0) } }),
                bson!({
                    "year": 1970, "month": 1, "day": 1, "hour": 0, "minute": 0, "second": 0, "millisecond": 0
                }),
            ),
        ],
    );
}

#[test]
fn date_refusals() {
    check_errors(vec![
        (bson!({ "$year": "x" }), 16006),
        (bson!({ "$dateToString": { "date": DateTime::from_millis(0), "format": "%q" } }), 18536),
        (bson!({ "$dateAdd": { "startDate": DateTime::MAX, "unit": "year", "amount": 1 } }), 5166406),
    ]);
}

proptest! {
    #[test]
    fn dates_and_their_parts(millis in -62_135_596_800_000_i64..253_402_300_800_000) {
        let document = doc! { "d": DateTime::from_millis(millis) };
        let round_trip = bson!({ "$toDate": { "$toString": "$d" } });
        prop_assert_eq!(evaluate(&round_trip, &document).unwrap(), document.get("d").cloned());
        let text = evaluate(&bson!({ "$toString": "$d" }), &document).unwrap();
        let library = DateTime::from_millis(millis).try_to_rfc3339_string().unwrap();
        // The library leaves out fractions of zero and trailing zeros.
        let seconds = library.get(..19).unwrap();
        prop_assert!(matches!(text, Some(Bson::String(text)) if text.starts_with(seconds)));
    }
}
