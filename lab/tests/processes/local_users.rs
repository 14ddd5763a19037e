//! What other users of the machine find: nothing they may read, and no passphrase in a process's environment.

use super::process::{self, Process};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

fn mode(path: &Path) -> u32 {
    std::fs::symlink_metadata(path).unwrap().permissions().mode() & 0o777
}

/// A directory and everything below it.
fn tree(directory: &Path) -> Vec<PathBuf> {
    let mut found = vec![directory.to_path_buf()];
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(tree(&path));
        } else {
            found.push(path);
        }
    }
    found
}

/// Processes that a process started.
fn children(of: u32) -> Vec<u32> {
    let threads = std::fs::read_dir(format!("/proc/{of}/task")).unwrap();
    let listed =
        threads.filter_map(|thread| std::fs::read_to_string(thread.unwrap().path().join("children")).ok());
    listed
        .flat_map(|list| list.split_whitespace().map(|id| id.parse().unwrap()).collect::<Vec<_>>())
        .collect()
}

#[test]
fn everything_is_its_owners_only_and_the_server_is_not_told_the_passphrase() {
    let place = tempfile::tempdir().unwrap();
    let data = place.path().join("data");
    let transcript = data.join("transcript.jsonl");
    let mut command = process::command("arras", "info");
    command.args(["dev", "--listen", "127.0.0.1:0", "--data-dir"]).arg(&data);
    command.arg("--transcript").arg(&transcript).env("ARRAS_PASSPHRASE", "correct horse");
    let (proxy, _) = Process::start(command, &place.path().join("log"));

    let found = tree(&data);
    for name in
        ["arras.redb", "LOCK", "arras.toml", "keyring.json", "keyring.key", "server.key", "transcript.jsonl"]
    {
        assert!(found.iter().any(|path| path.ends_with(name)), "no {name} among {found:?}");
    }
    for path in found {
        assert_eq!(mode(&path) & 0o077, 0, "{}: {:o}", path.display(), mode(&path));
    }

    let servers = children(proxy.id());
    assert_eq!(servers.len(), 1);
    let environment = std::fs::read(format!("/proc/{}/environ", servers[0])).unwrap();
    let environment = String::from_utf8_lossy(&environment);
    assert!(environment.contains("RUST_LOG=") && !environment.contains("correct horse"), "{environment}");
}
