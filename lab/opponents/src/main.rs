//! `cargo run --release --manifest-path lab/opponents/Cargo.toml -- [part ...]`: what an operation costs here, what
//! it costs an opponent in the same run, their ratio, and the figure aimed at. Without a part all are measured.
//!
//! A part is a module with a function `measure(&mut Table)`, listed in [`PARTS`]. Our crates are built as shipped:
//! without the meter.
#![forbid(unsafe_code)]

mod bclo;
mod clww;
mod lewi_wu;
mod path_oram;
mod pope;
mod primitives;
mod table;

use table::Table;

const PARTS: [(&str, fn(&mut Table)); 6] = [
    ("primitives", primitives::measure),
    ("bclo", bclo::measure),
    ("clww", clww::measure),
    ("lewi_wu", lewi_wu::measure),
    ("path_oram", path_oram::measure),
    ("pope", pope::measure),
];

fn main() -> std::process::ExitCode {
    let chosen: Vec<String> = std::env::args().skip(1).collect();
    if let Some(unknown) = chosen.iter().find(|name| PARTS.iter().all(|(part, _)| part != name)) {
        let names: Vec<&str> = PARTS.iter().map(|(name, _)| *name).collect();
        eprintln!("no part {unknown}; there are: {}", names.join(", "));
        return std::process::ExitCode::FAILURE;
    }
    let mut table = Table::new();
    for (name, measure) in PARTS {
        if chosen.is_empty() || chosen.iter().any(|part| part == name) {
            measure(&mut table);
        }
    }
    std::process::ExitCode::SUCCESS
}
