#![allow(clippy::unwrap_used)]

use super::*;
use std::sync::atomic::AtomicBool;

fn cell(paper: f64, ours: Option<f64>, reason: Option<&str>) -> Cell {
    Cell {
        table: 3,
        dataset: None,
        row: "row".into(),
        column: "column".into(),
        paper,
        ours,
        reason: reason.map(str::to_owned),
    }
}

#[test]
fn ratios_fall_into_bands() {
    let bands: Vec<Band> = [
        (10.0, Some(5.0)),
        (10.0, Some(20.0)),
        (10.0, Some(4.9)),
        (10.0, Some(20.1)),
        (0.0, Some(0.0)),
        (0.0, Some(1.0)),
        (1.0, None),
    ]
    .into_iter()
    .map(|(paper, ours)| cell(paper, ours, None).band())
    .collect();
    assert_eq!(
        bands,
        [Band::Within, Band::Within, Band::Below, Band::Above, Band::Within, Band::Above, Band::Missing]
    );
}

#[test]
fn a_cell_out_of_the_band_without_a_reason_is_found() {
    let cells =
        [cell(10.0, Some(1.0), Some("better")), cell(10.0, Some(1.0), None), cell(10.0, Some(9.0), None)];
    assert_eq!(unexplained(&cells), [&cells[1]]);
}

fn arguments() -> CompareArguments {
    CompareArguments {
        records: 300,
        queries: 5,
        seed: 1,
        workers: 2,
        protocol: Vec::new(),
        figures: None,
        json: false,
    }
}

#[test]
fn every_run_is_there_in_order() {
    let stop = AtomicBool::new(false);
    let jobs = Jobs { workers: 2, tell: &|_, _, _| {}, stop: &stop };
    let runs = arguments().run(&jobs).unwrap();
    assert_eq!(runs.len(), DATASETS.len());
    for (run, dataset) in runs.iter().zip(DATASETS) {
        assert_eq!(run.request.dataset, dataset);
        let names: Vec<&str> = run.protocols.iter().map(|protocol| protocol.protocol.as_str()).collect();
        assert_eq!(names, arguments().protocols());
        assert!(
            run.finished(),
            "{:?}",
            run.protocols.iter().map(|protocol| &protocol.ending).collect::<Vec<_>>()
        );
        let cells = table3(run);
        assert_eq!(cells.len(), 31);
        assert!(cells.iter().any(|cell| cell.ours.is_some()));
    }
    assert!(figure2(&runs).unwrap().svg.contains("salaries"));
}

#[test]
fn table_4_is_the_papers() {
    let cells = table4(&arguments());
    assert_eq!(cells.len(), 17);
    assert!(cells.iter().any(|cell| cell.ours.is_some()));
}

/// What was last measured at the paper's size: every cell about the same, or explained.
#[test]
fn every_recorded_cell_is_about_the_papers_or_explained() {
    let recorded = include_str!("../../measured/compare.jsonl");
    let cells: Vec<Cell> = recorded
        .lines()
        .filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok())
        .filter_map(|line| serde_json::from_value(line.get("cell")?.clone()).ok())
        .map(explained_now)
        .collect();
    assert!(cells.len() > 100, "only {} cells are recorded", cells.len());
    assert!(unexplained(&cells).is_empty(), "{:#?}", unexplained(&cells));
}

/// The cell with the reasons of this build.
fn explained_now(mut cell: Cell) -> Cell {
    let reasons = if cell.table == 3 { table3::reasons() } else { table4::REASONS.to_vec() };
    cell::explain(&mut cell, &reasons);
    cell
}
