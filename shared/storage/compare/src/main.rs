//! Measures storage engines on the access pattern of the server: large values rewritten with relaxed commits,
//! small durable batches between them, point reads, short scans, bulk loads, and the reopening after a kill.
//!
//! `compare [engine ...]` runs each engine in processes of its own and prints one JSON line per measurement.
#![forbid(unsafe_code)]

mod engines;
mod workload;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

const ENGINES: [&str; 6] = ["embedded", "redb", "redb-quick-repair", "fjall", "fjall-blobs", "canopydb"];
const ROUNDS: usize = 3;

type Outcome = Result<(), Box<dyn std::error::Error>>;

fn main() -> Outcome {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["child", engine, phase, directory] => engines::run(engine, phase, Path::new(directory)),
        ["--help"] => {
            println!("compare [engine ...]: {}", ENGINES.join(", "));
            Ok(())
        }
        [] => measure(&ENGINES),
        chosen => measure(chosen),
    }
}

/// Runs the rounds, engines taking turns, so that a change of the machine's load meets all of them.
fn measure(engines: &[&str]) -> Outcome {
    for round in 0..ROUNDS {
        for engine in engines {
            let directory =
                std::env::temp_dir().join(format!("arras-compare-{}-{engine}", std::process::id()));
            let _absent = std::fs::remove_dir_all(&directory);
            std::fs::create_dir_all(&directory)?;
            child(engine, "work", round, &directory)?;
            print_number(engine, round, "bytes_after_close", workload::bytes_in(&directory));
            child(engine, "compact", round, &directory)?;
            kill_and_reopen(engine, round, &directory)?;
            std::fs::remove_dir_all(&directory)?;
        }
    }
    Ok(())
}

fn command(engine: &str, phase: &str, directory: &Path) -> Result<Command, std::io::Error> {
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["child", engine, phase]).arg(directory);
    Ok(command)
}

/// Runs a phase and passes on the lines it prints, `name value`.
fn child(engine: &str, phase: &str, round: usize, directory: &Path) -> Outcome {
    let output = command(engine, phase, directory)?.stderr(Stdio::inherit()).output()?;
    for line in String::from_utf8(output.stdout)?.lines() {
        if let Some((name, value)) = line.split_once(' ') {
            print_number(engine, round, name, value);
        }
    }
    if output.status.success() { Ok(()) } else { Err(format!("{engine} {phase}: {}", output.status).into()) }
}

/// Kills a process that keeps rewriting, then times the next opening.
fn kill_and_reopen(engine: &str, round: usize, directory: &Path) -> Outcome {
    let mut process = command(engine, "rewrite-forever", directory)?.stdout(Stdio::piped()).spawn()?;
    let mut lines = BufReader::new(process.stdout.take().ok_or("no output")?).lines();
    lines.next().ok_or("the child ended early")??;
    std::thread::sleep(std::time::Duration::from_secs(2));
    process.kill()?;
    process.wait()?;
    let start = Instant::now();
    child(engine, "reopen", round, directory)?;
    print_number(engine, round, "reopen_process_ms", start.elapsed().as_millis());
    Ok(())
}

fn print_number(engine: &str, round: usize, name: &str, value: impl std::fmt::Display) {
    println!("{{\"engine\":\"{engine}\",\"round\":{round},\"name\":\"{name}\",\"value\":{value}}}");
}
