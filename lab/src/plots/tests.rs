#![allow(clippy::unwrap_used)]

use super::*;

fn panel(values: &[Option<f64>]) -> BarPanel {
    BarPanel {
        title: "bytes".to_owned(),
        scale: Scale::Logarithmic,
        rows: vec![BarRow { label: "a < b".to_owned(), values: values.to_vec() }],
    }
}

#[test]
fn bars_are_drawn_and_described() {
    let series = ["one".to_owned(), "two".to_owned()];
    let svg = bar_chart("Costs & more", &series, &[panel(&[Some(1234.0), None])], 3).unwrap();
    assert!(svg.starts_with("<svg role=\"img\""));
    assert!(svg.contains("<title id=\"title\">Costs &amp; more</title>"));
    assert!(svg.contains("a &lt; b, one: 1.2k. a &lt; b, two: none."));
    assert!(svg.contains("prefers-color-scheme: dark"));
    assert!(svg.trim_end().ends_with("</svg>"));
}

#[test]
fn nothing_to_draw_is_an_empty_chart() {
    assert!(bar_chart("nothing", &["x".to_owned()], &[panel(&[None])], 1).is_ok());
    assert!(bar_chart("nothing", &[], &[], 1).is_ok());
    assert!(line_chart("nothing", &[], 1).is_ok());
}

#[test]
fn lines_are_drawn_on_both_scales() {
    for y_axis in [Axis::Linear, Axis::Logarithmic, Axis::Percent] {
        let line = Line { label: "pope".to_owned(), points: vec![(1.0, 0.0), (2.0, 5.0), (3.0, 5000.0)] };
        let panel = LinePanel { title: "I/O".into(), x_title: "%".into(), y_axis, lines: vec![line] };
        let svg = line_chart("Growth", &[panel], 1).unwrap();
        assert!(svg.contains("pope: from 0 to 5k."));
        assert!(svg.contains("polyline"));
    }
}

/// Where the text of an element that contains `text` begins, and where the next bar ends, in pixels.
fn numbers_of(svg: &str, element: &str, attribute: &str) -> Vec<f64> {
    let parts = svg.split('<').filter(|part| part.starts_with(element));
    let value = |part: &str| part.split(&format!(" {attribute}=\"")).nth(1)?.split('"').next()?.parse().ok();
    parts.filter_map(value).collect()
}

/// The widths of the bars of a series, which has a colour of its own.
fn widths(svg: &str, colour: &str) -> Vec<f64> {
    let bars: String = svg.split('<').filter(|part| part.starts_with("rect") && part.contains(colour)).fold(
        String::new(),
        |mut all, part| {
            all.push('<');
            all.push_str(part);
            all
        },
    );
    numbers_of(&bars, "rect", "width")
}

#[test]
fn percentages_are_as_long_as_they_are_and_zero_has_no_bar() {
    let row = |label: &str, value: f64| BarRow { label: label.to_owned(), values: vec![Some(value)] };
    let rows = vec![row("all", 100.0), row("half", 50.0), row("little", 1.0), row("nothing", 0.0)];
    let panel = BarPanel { title: "rates".to_owned(), scale: Scale::Percent, rows };
    let svg = bar_chart("Rates", &["one".to_owned()], &[panel], 1).unwrap();
    let widths = widths(&svg, "#0072B2");
    assert_eq!(widths.len(), 3, "none for nothing: {svg}");
    assert!((widths[0] / widths[1] - 2.0).abs() < 0.05, "{widths:?}");
    assert!(widths[2] < 0.03 * widths[0], "{widths:?}");
    assert!(svg.contains("nothing, one: 0."));
}

#[test]
fn a_zero_beside_costs_is_a_zero() {
    let svg = bar_chart("Costs", &["one".to_owned()], &[panel(&[Some(0.0)])], 1).unwrap();
    assert!(svg.contains("a &lt; b, one: 0."));
    assert!(widths(&svg, "#0072B2").is_empty());
}

#[test]
fn bars_begin_behind_the_longest_label() {
    let label = "nkw_cumulative*, kerschbaum_tueno_and_a_long_name";
    let rows = vec![BarRow { label: label.to_owned(), values: vec![Some(30.0)] }];
    let panel = BarPanel { title: "rates".to_owned(), scale: Scale::Percent, rows };
    let svg = bar_chart("Rates", &["one".to_owned()], &[panel], 1).unwrap();
    let bar = svg.split('<').find(|part| part.starts_with("rect") && part.contains("#0072B2")).unwrap();
    let left = numbers_of(&format!("<{bar}"), "rect", "x")[0];
    // 8 from the edge; wide letters of 13 pixels are 8 wide.
    assert!(left >= 8.0 + 8.0 * label.chars().count() as f64, "{left}");
}
