#![allow(clippy::unwrap_used)]

use super::*;

#[test]
fn generated_sets_replay_and_have_their_shape() {
    for dataset in Dataset::BUILT_IN {
        let values = dataset.values(9_000, 5);
        assert_eq!(values, dataset.values(9_000, 5), "{dataset:?}");
        assert_ne!(values, dataset.values(9_000, 6), "{dataset:?}");
        assert_eq!(values.len(), 9_000);
        assert_eq!(Dataset::named(dataset.name()), Some(dataset));
    }
    let uniform = Dataset::Uniform.values(9_000, 1);
    assert!(uniform.iter().all(|value| (0..3_000).contains(value)));
    let mean = |values: &[i64]| values.iter().sum::<i64>() / 9_000;
    assert!((1_450..1_550).contains(&mean(&uniform)));
    let normal = Dataset::Normal.values(9_000, 1);
    assert!((4_450..4_550).contains(&mean(&normal)));
    let near = normal.iter().filter(|value| (3_600..5_400).contains(*value)).count();
    assert!((5_900..6_400).contains(&near), "68 % within a standard deviation: {near}");
    let zipf = Dataset::Zipf.values(9_000, 1);
    let ones = zipf.iter().filter(|value| **value == 1).count();
    let twos = zipf.iter().filter(|value| **value == 2).count();
    assert!((900..1_200).contains(&ones) && (430..630).contains(&twos), "{ones} {twos}");
    let salaries = Dataset::Salaries.values(9_000, 1);
    assert!(salaries.iter().all(|pay| (0..=500_000).contains(pay)));
    assert!((60_000..85_000).contains(&mean(&salaries)), "{}", mean(&salaries));
}

#[test]
fn the_public_set_is_whole_and_its_parts_are_without_repetition() {
    assert_eq!(Dataset::RandIncome.records_max(), Some(20_190));
    let mut all = Dataset::RandIncome.values(20_190, 1);
    let mut other = Dataset::RandIncome.values(20_190, 2);
    assert_ne!(all, other, "in another order");
    all.sort_unstable();
    other.sort_unstable();
    assert_eq!(all, other);
}

fn data(text: &str, column: &str) -> Result<Vec<i64>, String> {
    let column = if column.is_empty() { Column::Only } else { Column::parse(column) };
    import_data("d.csv", text.as_bytes(), &column, NumberType::I32, Decimals(0)).map_err(|e| e.to_string())
}

#[test]
fn data_is_imported_from_the_column_chosen() {
    assert_eq!(data("1\n-2\n\n 3 \n", ""), Ok(vec![1, -2, 3]));
    assert_eq!(data("pay\n1\n2\n", ""), Ok(vec![1, 2]));
    assert_eq!(data("name,pay\n\"A, B\",1\nC,2\n", "pay"), Ok(vec![1, 2]));
    assert_eq!(data("name,pay\nA,1\nC,2\n", "2"), Ok(vec![1, 2]));
    assert_eq!(data("A,1\nC,2\n", "2"), Ok(vec![1, 2]));
    let cents = |text: &str| import_data("d", text.as_bytes(), &Column::Only, NumberType::I32, Decimals(2));
    assert_eq!(cents("1.5\n-0.07\n3\n2.100\n"), Ok(vec![150, -7, 300, 210]));
}

#[test]
fn bad_data_is_named_by_file_line_and_column() {
    for (text, column, expected) in [
        ("1\n2x\n", "", "d.csv:2:1: \"2x\" is not a number"),
        ("a,b\n1,2\n3,\n", "b", "d.csv:3:2: \"\" is not a number"),
        ("a,b\n1,2\n3\n", "b", "d.csv:3:2: the line has 1 columns"),
        ("a,b\n1,2\n", "c", "d.csv:1: no column is named c; the first line has: a, b"),
        ("a,b\n1,2\n", "", "d.csv:1: 2 columns: choose one by number or name (a, b)"),
        ("1\n\n\n4294967296\n", "", "d.csv:4:1: 4294967296 is outside i32 (-2147483648 to 2147483647)"),
        (
            "1\n99999999999999999999999999999999999999999\n",
            "",
            "d.csv:2:1: 9999999999999999999999999999999999999999 is outside i32 (-2147483648 to 2147483647)",
        ),
        ("1.5\n", "", "d.csv:1:1: 1.5 has more than 0 digits after the point: have more kept (--decimals)"),
        ("1x\n2\n", "", "d.csv:1:1: \"1x\" is not a number"),
        ("", "", "d.csv: no values"),
        ("pay\n", "", "d.csv: no values"),
        ("1\n", "0", "d.csv: columns are counted from 1"),
    ] {
        assert_eq!(data(text, column), Err(expected.to_owned()), "{text:?}");
    }
    let binary = import_data("d", b"1\n\xff\xfe\n", &Column::Only, NumberType::I32, Decimals(0));
    assert_eq!(binary.unwrap_err().to_string(), "d:2: not text (UTF-8)");
}

#[test]
fn queries_are_imported_and_checked() {
    let queries = |text: &str| {
        import_queries("q.csv", text.as_bytes(), NumberType::U32, Decimals(0)).map_err(|e| e.to_string())
    };
    let expected = vec![RangeQuery { lower: 1, upper: 5 }, RangeQuery { lower: 7, upper: 7 }];
    assert_eq!(queries("lower,upper\n1,5\n7,7\n"), Ok(expected.clone()));
    assert_eq!(queries("1,5\n7,7\n"), Ok(expected));
    assert_eq!(queries("1,5\n7,6\n"), Err("q.csv:2: the lower bound is above the upper one".into()));
    assert_eq!(queries("1,5\n7\n"), Err("q.csv:2: a query is two numbers: lower,upper".into()));
    assert_eq!(queries("1,5\n-1,6\n"), Err("q.csv:2:1: -1 is outside u32 (0 to 4294967295)".into()));
    assert_eq!(queries("1,5\n1,z\n"), Err("q.csv:2:2: \"z\" is not a number".into()));
    assert_eq!(queries("lower,upper\n"), Err("q.csv: no queries".into()));
}
