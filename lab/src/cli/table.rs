//! Tables of text.

mod attacks;

pub(super) use attacks::of_attacks;

use crate::run::{Ending, RunResult, StageResult};
use comfy_table::{CellAlignment, Table, presets};
use std::fmt::Write;

/// Rows under headings: the first column to the left, the others to the right.
pub(super) fn render(headings: &[&str], rows: &[Vec<String>]) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header(headings.iter().copied()).add_rows(rows.iter().cloned());
    for (at, column) in table.column_iter_mut().enumerate() {
        let (before, alignment) = if at == 0 { (0, CellAlignment::Left) } else { (2, CellAlignment::Right) };
        column.set_padding((before, 0));
        column.set_cell_alignment(alignment);
    }
    table.trim_fmt() + "\n"
}

/// A number, short: three digits that matter.
pub(super) fn short(number: f64) -> String {
    match number.abs() {
        0.0 => "0".to_owned(),
        ..0.1 => format!("{number:.4}"),
        ..10.0 => format!("{number:.2}"),
        ..100.0 => format!("{number:.1}"),
        _ => grouped(number.round() as i64),
    }
}

fn grouped(number: i64) -> String {
    let digits = number.unsigned_abs().to_string();
    let mut text = String::new();
    if number < 0 {
        text.push('-');
    }
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// What a run found, as a table, and what went wrong in it.
pub(super) fn of_run(result: &RunResult) -> String {
    let request = &result.request;
    let mut text = format!(
        "{} records ({}), {} queries, pages of {} bytes, cache of {} pages ({}), seed {}\n\n",
        request.records,
        request.dataset.name(),
        request.queries,
        request.page_bytes,
        request.cache_pages,
        request.cache_policy.name(),
        request.seed
    );
    let row = |protocol: &str, stage: &StageResult| {
        vec![
            protocol.to_owned(),
            stage.stage.title().to_owned(),
            stage.page_io().map_or_else(|| "-".to_owned(), short),
            short(stage.messages()),
            short(stage.rounds()),
            short(stage.bytes()),
            short(stage.results_found()),
            short(stage.elapsed_us()),
        ]
    };
    let rows: Vec<Vec<String>> = result
        .protocols
        .iter()
        .flat_map(|protocol| protocol.stages.iter().map(|stage| row(&protocol.protocol, stage)))
        .collect();
    let headings =
        ["protocol", "each operation of", "page I/O", "messages", "rounds", "bytes", "results", "us"];
    text.push_str(&render(&headings, &rows));
    text.push_str("\nBytes are those of frames, results excluded; page I/O includes the results' pages.\n\n");
    let sizes: Vec<Vec<String>> = result
        .protocols
        .iter()
        .map(|protocol| {
            let bytes =
                |bytes: Option<u64>| bytes.map_or_else(|| "-".to_owned(), |bytes| short(bytes as f64));
            vec![
                protocol.protocol.clone(),
                bytes(protocol.stored_bytes),
                bytes(protocol.ciphertext_bytes),
                bytes(Some(protocol.state_bytes)),
            ]
        })
        .collect();
    text.push_str(&render(&["protocol", "stored bytes", "ciphertext bytes", "client state bytes"], &sizes));
    for protocol in &result.protocols {
        let _ = match &protocol.ending {
            Ending::Finished => Ok(()),
            Ending::Stopped => writeln!(text, "\n{}: stopped", protocol.protocol),
            Ending::Failed(why) => writeln!(text, "\n{}: failed: {why}", protocol.protocol),
        };
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let rows = vec![vec!["a".to_owned(), "1".to_owned()], vec!["bcd".to_owned(), "1,000".to_owned()]];
        assert_eq!(render(&["name", "n"], &rows), "name      n\na         1\nbcd   1,000\n");
        // A sign may be two columns wide.
        let rows = vec![vec!["数".to_owned(), "1".to_owned()], vec!["bcd".to_owned(), String::new()]];
        assert_eq!(render(&["", "n"], &rows), "     n\n数   1\nbcd\n");
    }

    #[test]
    fn numbers_keep_the_digits_that_matter() {
        let shown: Vec<String> = [0.0, 0.01234, 3.456, 45.67, 1234567.8].into_iter().map(short).collect();
        assert_eq!(shown, ["0", "0.0123", "3.46", "45.7", "1,234,568"]);
        assert_eq!(grouped(-1000), "-1,000");
    }
}
