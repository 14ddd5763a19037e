//! Dates by the clocks of places. The local times are those of Python's `zoneinfo`.

use super::{check, check_errors, evaluate};
use bson::{Bson, DateTime, bson, doc};
use proptest::{prop_assert_eq, proptest};

fn at(millis: i64) -> Bson {
    Bson::DateTime(DateTime::from_millis(millis))
}

/// Zone, instant in seconds since 1970, and the local time with its offset in minutes.
const LOCAL: [(&str, i64, &str); 17] = [
    ("America/New_York", 1_615_705_199, "2021-03-14T01:59:59 -0500 -300"),
    ("America/New_York", 1_615_705_200, "2021-03-14T03:00:00 -0400 -240"),
    ("America/New_York", 1_636_263_000, "2021-11-07T01:30:00 -0400 -240"),
    ("America/New_York", 1_636_266_600, "2021-11-07T01:30:00 -0500 -300"),
    ("Europe/Paris", 0, "1970-01-01T01:00:00 +0100 60"),
    ("Europe/Paris", 1_719_786_600, "2024-07-01T00:30:00 +0200 120"),
    ("Asia/Kolkata", 946_684_800, "2000-01-01T05:30:00 +0530 330"),
    ("Asia/Kathmandu", 504_902_700, "1986-01-01T00:30:00 +0545 345"),
    ("Asia/Kathmandu", 504_900_900, "1985-12-31T23:45:00 +0530 330"),
    ("Pacific/Apia", 1_325_239_199, "2011-12-29T23:59:59 -1000 -600"),
    ("Pacific/Apia", 1_325_239_200, "2011-12-31T00:00:00 +1400 840"),
    ("Australia/Lord_Howe", 1_617_462_000, "2021-04-04T01:30:00 +1030 630"),
    ("Australia/Lord_Howe", 1_617_461_940, "2021-04-04T01:59:00 +1100 660"),
    ("America/Sao_Paulo", 1_541_300_400, "2018-11-04T01:00:00 -0200 -120"),
    ("Africa/Casablanca", 1_648_771_200, "2022-04-01T00:00:00 +0000 0"),
    ("Pacific/Kiritimati", 788_868_000, "1995-01-01T00:00:00 +1400 840"),
    ("Etc/GMT+5", 1_609_459_200, "2020-12-31T19:00:00 -0500 -300"),
];

#[test]
fn local_times_are_those_of_the_place() {
    let format = "%Y-%m-%dT%H:%M:%S %z %Z";
    let expected = LOCAL.map(|(zone, seconds, local)| {
        let text =
            bson!({ "$dateToString": { "date": at(seconds * 1000), "format": format, "timezone": zone } });
        (text, bson!(local))
    });
    check(&doc! {}, expected.to_vec());
    let summer = at(1_719_786_600_000);
    check(
        &doc! { "zone": "Europe/Paris" },
        vec![
            (bson!({ "$month": { "date": summer.clone(), "timezone": "$zone" } }), bson!(7)),
            (bson!({ "$dayOfMonth": { "date": summer.clone(), "timezone": "Europe/Paris" } }), bson!(1)),
            (bson!({ "$dayOfMonth": { "date": summer, "timezone": "UTC" } }), bson!(30)),
        ],
    );
}

/// A local time that a clock shows twice is the first of them; one that it leaves out goes by the clock before.
#[test]
fn local_times_that_come_twice_and_not_at_all() {
    let new_york = |parts: Bson| {
        let mut parts = parts.as_document().unwrap().clone();
        parts.insert("timezone", "America/New_York");
        bson!({ "$dateFromParts": parts })
    };
    check(
        &doc! {},
        vec![
            (
                new_york(bson!({ "year": 2021, "month": 11, "day": 7, "hour": 1, "minute": 30 })),
                at(1_636_263_000_000),
            ),
            // 02:30 is 03:30.
            (
                new_york(bson!({ "year": 2021, "month": 3, "day": 14, "hour": 2, "minute": 30 })),
                at(1_615_707_000_000),
            ),
            // The whole of 2011-12-30 was left out.
            (
                bson!({ "$dateFromParts": { "year": 2011, "month": 12, "day": 30, "hour": 12, "timezone": "Pacific/Apia" } }),
                at(1_325_282_400_000),
            ),
            (
                bson!({ "$dateFromString": { "dateString": "2021-07-01T12:00", "timezone": "America/New_York" } }),
                at(1_625_155_200_000),
            ),
        ],
    );
}

/// Days and months go by the local clock, hours by the time that passes.
#[test]
fn arithmetic_across_a_change_of_the_clock() {
    // Saturday noon in New York; the clock is put forward that night.
    let noon = 1_615_654_800_000;
    let hour = 3_600_000;
    let add = |unit: &str, amount: i32| bson!({ "$dateAdd": { "startDate": at(noon), "unit": unit, "amount": amount, "timezone": "America/New_York" } });
    let span = |operator: &str, from: i64, to: i64, unit: &str| {
        let arguments =
            bson!({ "startDate": at(from), "endDate": at(to), "unit": unit, "timezone": "America/New_York" });
        bson!({ operator: arguments })
    };
    let truncated = |millis: i64, unit: &str, zone: &str| bson!({ "$dateTrunc": { "date": at(millis), "unit": unit, "timezone": zone } });
    check(
        &doc! {},
        vec![
            (add("day", 1), at(noon + 23 * hour)),
            (add("hour", 24), at(noon + 24 * hour)),
            (add("week", 1), at(noon + (7 * 24 - 1) * hour)),
            (add("month", 1), at(noon + (31 * 24 - 1) * hour)),
            (add("month", -1), at(noon - 28 * 24 * hour)),
            (span("$dateDiff", noon, noon + 23 * hour, "hour"), bson!(23_i64)),
            (span("$dateDiff", noon, noon + 23 * hour, "day"), bson!(1_i64)),
            (span("$dateDiff", noon, noon + 11 * hour, "day"), bson!(0_i64)),
            (span("$dateDiff", noon, noon + 12 * hour, "week"), bson!(1_i64)),
            // Sunday's noon, an hour less from its midnight.
            (truncated(noon + 23 * hour, "day", "America/New_York"), at(noon + 12 * hour)),
            (truncated(noon + 23 * hour, "month", "America/New_York"), at(1_614_574_800_000)),
            (truncated(noon + 10, "hour", "Asia/Kolkata"), at(noon - hour / 2)),
            // Midnight is left out: the day begins at one.
            (truncated(1_541_350_800_000, "day", "America/Sao_Paulo"), at(1_541_300_400_000)),
        ],
    );
}

#[test]
fn what_names_no_place_is_refused() {
    let when = at(0);
    check_errors(vec![
        (bson!({ "$year": { "date": when.clone(), "timezone": "Europe/Atlantis" } }), 40485),
        (bson!({ "$year": { "date": when.clone(), "timezone": "europe/paris" } }), 40485),
        (bson!({ "$year": { "date": when.clone(), "timezone": "" } }), 40485),
        (bson!({ "$year": { "date": when, "timezone": 1 } }), 40517),
        // A text that says how far its clock is ahead goes by no other.
        (
            bson!({ "$dateFromString": { "dateString": "1970-01-01T00:00:00Z", "timezone": "Europe/Paris" } }),
            241,
        ),
        (
            bson!({ "$dateFromString": { "dateString": "1970-01-01T00:00:00+01:00", "timezone": "+01:00" } }),
            241,
        ),
    ]);
}

proptest! {
    /// Any date that BSON holds has parts, from which it comes back, wherever one is.
    #[test]
    fn parts_give_their_date_back(millis in i64::MIN / 2..i64::MAX / 2, zone in 0..LOCAL.len()) {
        let zone = LOCAL[zone].0;
        let document = doc! { "d": DateTime::from_millis(millis) };
        let parts = evaluate(&bson!({ "$dateToParts": { "date": "$d", "timezone": zone } }), &document).unwrap();
        let mut parts = parts.unwrap().as_document().unwrap().clone();
        parts.insert("timezone", zone);
        let back = evaluate(&bson!({ "$dateFromParts": parts }), &document).unwrap();
        prop_assert_eq!(back, document.get("d").cloned());
    }
}
