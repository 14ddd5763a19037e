//! `arras key`: over the real executable, each step with what unlocks the keyring and without.

use super::process::{self, Ended};
use super::system::{Making, System};
use std::os::unix::fs::PermissionsExt;

fn key(system: &System, arguments: &[&str], variables: &[(&str, &str)]) -> Ended {
    let mut command = system.arras("key");
    command.args(arguments).arg("--config").arg(system.configuration());
    command.envs(variables.iter().copied());
    process::run(command)
}

fn succeeds(ended: &Ended) {
    assert_eq!(ended.code, Some(0), "{}{}", ended.stdout, ended.stderr);
}

fn refused(ended: &Ended, words: &str) {
    assert_eq!(ended.code, Some(3), "{}{}", ended.stdout, ended.stderr);
    assert!(ended.stderr.contains(words) && ended.stderr.lines().count() == 1, "{}", ended.stderr);
}

/// Has the configuration name a key file, or none.
fn name_key_file(system: &System, file: Option<&str>) {
    let path = system.configuration();
    let text = std::fs::read_to_string(&path).unwrap();
    let without: Vec<&str> = text.lines().filter(|line| !line.starts_with("key_file")).collect();
    let named = file.map(|file| format!("\nkey_file = {file:?}")).unwrap_or_default();
    std::fs::write(path, without.join("\n").replace("[keyring]", &format!("[keyring]{named}"))).unwrap();
}

#[test]
fn a_passphrase_is_set_changed_and_removed_and_each_start_goes_by_the_last_one() {
    let mut system = System::make(Making::default());
    let keyring = system.path("config/keyring.json");
    let before = std::fs::read(&keyring).unwrap();
    refused(&key(&system, &["passphrase"], &[]), "ARRAS_NEW_PASSPHRASE");
    refused(&key(&system, &["passphrase"], &[("ARRAS_NEW_PASSPHRASE", "")]), "nothing was changed");
    assert_eq!(std::fs::read(&keyring).unwrap(), before);
    let set = key(&system, &["passphrase"], &[("ARRAS_NEW_PASSPHRASE", "first")]);
    succeeds(&set);
    assert!(set.stdout.contains("take out key_file"), "{}", set.stdout);
    refused(&key(&system, &["passphrase"], &[("ARRAS_NEW_PASSPHRASE", "x")]), "unlocked by a passphrase");
    name_key_file(&system, None);

    let change =
        |old, new| key(&system, &["passphrase"], &[("ARRAS_PASSPHRASE", old), ("ARRAS_NEW_PASSPHRASE", new)]);
    refused(&change("wrong", "second"), "does not open");
    succeeds(&change("first", "second"));
    refused(&change("first", "third"), "does not open");

    let file = system.path("new.key");
    let removed = [("ARRAS_PASSPHRASE", "second")];
    let removed = key(&system, &["passphrase", "--remove", file.to_str().unwrap()], &removed);
    succeeds(&removed);
    assert!(removed.stdout.contains("key_file ="), "{}", removed.stdout);
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(std::fs::metadata(&keyring).unwrap().permissions().mode() & 0o777, 0o600);
    name_key_file(&system, file.to_str());
    system.start_server();
    system.start_proxy();
    assert_eq!(
        std::fs::read_dir(system.path("config"))
            .unwrap()
            .filter(|entry| { entry.as_ref().unwrap().file_name().to_string_lossy().ends_with(".new") })
            .count(),
        0
    );
}

#[test]
fn a_backup_is_made_once_checked_and_used_in_the_keyrings_place() {
    let mut system = System::make(Making::default());
    let backup = system.path("backup");
    let to = ["backup", "--to", backup.to_str().unwrap()];
    let rescue = [("ARRAS_RECOVERY_PASSPHRASE", "rescue")];
    succeeds(&key(&system, &to, &rescue));
    assert_eq!(std::fs::metadata(&backup).unwrap().permissions().mode() & 0o777, 0o600);
    let bytes = std::fs::read(&backup).unwrap();
    refused(&key(&system, &to, &rescue), "never overwritten");
    assert_eq!(std::fs::read(&backup).unwrap(), bytes);

    let check = ["verify", "--backup", backup.to_str().unwrap()];
    let verified = key(&system, &check, &rescue);
    succeeds(&verified);
    assert!(verified.stdout.contains("holds all 1 roots"), "{}", verified.stdout);
    refused(&key(&system, &check, &[("ARRAS_RECOVERY_PASSPHRASE", "wrong")]), "does not open");
    refused(&key(&system, &check, &[]), "ARRAS_RECOVERY_PASSPHRASE");
    std::fs::write(&backup, &bytes[..bytes.len() - 20]).unwrap();
    refused(&key(&system, &check, &rescue), "damaged");
    std::fs::write(&backup, &bytes).unwrap();

    let other = System::make(Making::default());
    refused(&key(&other, &check, &rescue), "another deployment");

    // A printed code, and the start after a loss.
    let coded = system.path("coded");
    let made = key(&system, &["backup", "--code", "--to", coded.to_str().unwrap()], &[]);
    succeeds(&made);
    let code = made.stdout.lines().map(str::trim).find(|line| line.split('-').count() == 8).unwrap();
    assert!(!String::from_utf8_lossy(&std::fs::read(&coded).unwrap()).contains(code));
    succeeds(&key(
        &system,
        &["verify", "--backup", coded.to_str().unwrap()],
        &[("ARRAS_RECOVERY_PASSPHRASE", code)],
    ));
    std::fs::copy(&coded, system.path("config/keyring.json")).unwrap();
    name_key_file(&system, None);
    system.start_server();
    let mut proxy = system.proxy_command();
    proxy.env("ARRAS_PASSPHRASE", code);
    let (_proxy, address) = process::Process::start(proxy, &system.proxy_log());
    assert!(!address.is_empty());
}
