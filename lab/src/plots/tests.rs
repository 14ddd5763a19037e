#![allow(clippy::unwrap_used)]

use super::*;

fn panel(values: &[Option<f64>]) -> BarPanel {
    BarPanel {
        title: "bytes".to_owned(),
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
    for y_axis in [Axis::Linear, Axis::Logarithmic] {
        let line = Line { label: "pope".to_owned(), points: vec![(1.0, 0.0), (2.0, 5.0), (3.0, 5000.0)] };
        let panel = LinePanel { title: "I/O".into(), x_title: "%".into(), y_axis, lines: vec![line] };
        let svg = line_chart("Growth", &[panel], 1).unwrap();
        assert!(svg.contains("pope: from 0 to 5k."));
        assert!(svg.contains("polyline"));
    }
}
