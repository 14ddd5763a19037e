//! PostgreSQL's own log: what the database saw of each statement.

use crate::cli::Failure;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::time::Duration;
use tokio_postgres::Client;

/// A log being read while it is written.
pub(super) struct Log {
    lines: BufReader<File>,
    partial: String,
}

impl Log {
    pub(super) fn open(path: &Path) -> Result<Self, Failure> {
        let file = File::open(path).map_err(|source| Failure::Io { path: path.to_path_buf(), source })?;
        Ok(Self { lines: BufReader::new(file), partial: String::new() })
    }

    /// Lines since the last call.
    pub(super) fn since(&mut self) -> Result<Vec<String>, Failure> {
        let mut lines = Vec::new();
        while self.lines.read_line(&mut self.partial)? > 0 {
            if self.partial.ends_with('\n') {
                lines.push(std::mem::take(&mut self.partial).trim_end().to_owned());
            }
        }
        Ok(lines)
    }

    /// The statements since the last call on sessions, the proxy's own rounds left out, each with its parameters behind it.
    pub(super) async fn of_statement(&mut self, client: &Client) -> Result<Vec<String>, Failure> {
        // A statement that touches nothing encrypted passes behind what was asked: it is in the log behind it.
        let mark = "SELECT 'the end of the statement before'";
        client.simple_query(mark).await?;
        let mut statements: Vec<String> = Vec::new();
        // Parameters come behind their statement.
        let mut is_shown = false;
        loop {
            for line in self.since()? {
                if line.contains(mark) {
                    return Ok(statements);
                }
                if let Some((_, parameters)) = line.split_once("DETAIL:  parameters: ") {
                    if let Some(last) = statements.last_mut().filter(|_| is_shown) {
                        last.push_str(&format!("  [{parameters}]"));
                    }
                } else if line.contains("LOG:  ") {
                    let shown = statement(&line);
                    is_shown = shown.is_some();
                    statements.extend(shown.map(str::to_owned));
                }
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

/// The statement that a line of the log is about; none if it is about none, or about one of the proxy's own.
fn statement(line: &str) -> Option<&str> {
    let (_, text) = line.split_once("LOG:  statement: ").or_else(|| {
        let (_, executed) = line.split_once("LOG:  execute ")?;
        executed.split_once(": ")
    })?;
    let own =
        ["arras.mope_fetch", "arras.mope_commit", "arras.mope_unused", "arras.mark", "pg_catalog.pg_class"];
    (!text.starts_with("SET ") && !own.iter().any(|own| text.contains(own))).then_some(text)
}
