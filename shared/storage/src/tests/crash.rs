//! A writing process killed without warning.

use std::io::{BufRead, BufReader, Write as _};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use super::history;
use crate::{Durability, Embedded};

/// Names the child's directory.
const DIRECTORY: &str = "ARRAS_CRASH_DIRECTORY";
const KILLS: u64 = 25;

/// Most of them, where many show nothing.
const KILLS_MAX: u64 = 20 * KILLS;

/// Commits until killed and says which commits were acknowledged.
#[test]
#[ignore = "the child process of acknowledged_commits_survive_kills"]
fn writes_until_killed() {
    let directory =
        PathBuf::from(std::env::var_os(DIRECTORY).expect("run by acknowledged_commits_survive_kills"));
    let store = Embedded::open(&directory).unwrap();
    let mut output = std::io::stdout().lock();
    for number in history::check(&store) + 1.. {
        history::commit(&store, number).unwrap();
        writeln!(output, "acknowledged {number}").unwrap();
    }
}

#[test]
fn acknowledged_commits_survive_kills() {
    let directory = tempfile::tempdir().unwrap();
    let (mut last, mut lost) = (0, 0);
    for kill in 0..KILLS_MAX {
        // On a busy machine every kill may come right after a durable commit: then the test has shown nothing yet.
        if kill >= KILLS && lost > 0 && last > KILLS {
            break;
        }
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "tests::crash::writes_until_killed", "--ignored", "--nocapture"])
            .env(DIRECTORY, directory.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(|line| line.unwrap());
        let number =
            |line: &str| line.strip_prefix("acknowledged ").and_then(|number| number.parse::<u64>().ok());
        // Every fifth process may die while it still opens the store and repairs what the one before left.
        let first = if kill % 5 == 4 { None } else { lines.by_ref().find_map(|line| number(&line)) };
        if kill % 5 != 4 {
            assert_eq!(first, Some(last + 1), "the child did not go on where the last one ended");
        }
        // Spread over a few commits; the exact instant is the scheduler's.
        std::thread::sleep(Duration::from_micros(500 + kill * 7919 % 60_000));
        child.kill().unwrap();
        child.wait().unwrap();
        let acknowledged = lines.filter_map(|line| number(&line)).last().or(first).unwrap_or(last);
        let durable =
            (last..=acknowledged).rev().find(|&number| history::durability(number) == Durability::Durable);
        let found = history::check(&Embedded::open(directory.path()).unwrap());
        assert!(found >= durable.unwrap_or(last), "durable commit {durable:?} was lost: found {found}");
        assert!(found >= last, "a commit a later process had seen was lost");
        assert!(found <= acknowledged.max(last) + 1 || kill % 5 != 4, "{found} was never made");
        lost += acknowledged.saturating_sub(found);
        last = found;
    }
    assert!(last > KILLS, "the children hardly wrote");
    assert!(lost > 0, "every kill came right after a durable commit: the test shows nothing");
}
