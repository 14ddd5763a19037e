#![allow(clippy::unwrap_used, clippy::expect_used)]

use super::*;
use crate::RecoveryCode;
use crate::unlock::create_key_file;
use proptest::prelude::*;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use tempfile::TempDir;

/// Cheap, so that tests are quick; never the default.
const CHEAP: Cost = Cost { memory_kib: 8, passes: 1, lanes: 1 };

fn words(text: &str) -> Unlock {
    Unlock::Passphrase(Passphrase::new(text.into()))
}

fn open_cheap(path: &Path, text: &str) -> Result<Keyring, KeyringError> {
    Keyring::open_with_minimum(path, words(text), CHEAP)
}

/// A directory with a keyring `k` under the passphrase "correct".
fn with_passphrase() -> (TempDir, PathBuf, Keyring) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("k");
    let keyring = Keyring::create_with_cost(&path, words("correct"), CHEAP, 1_000).unwrap();
    (directory, path, keyring)
}

/// A directory with a keyring `k` under the key file `f`.
fn with_key_file() -> (TempDir, PathBuf, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let (path, file) = (directory.path().join("k"), directory.path().join("f"));
    create_key_file(&file).unwrap();
    Keyring::create(&path, Unlock::KeyFile(file.clone()), 1_000).unwrap();
    (directory, path, file)
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

/// Writes `file` back with its checksum made right again: what an attacker would do.
fn rewrite(path: &Path, change: impl FnOnce(&mut File)) {
    let mut file: File = serde_json::from_slice(&fs::read(path).unwrap()).unwrap();
    change(&mut file);
    file.checksum = checksum(&header_bytes(&file.header), &file.sealed);
    fs::write(path, json(&file, true)).unwrap();
}

#[test]
fn opens_with_the_same_root() {
    let (_directory, path, made) = with_passphrase();
    let opened = open_cheap(&path, "correct").unwrap();
    assert_eq!(opened.current().0, 1);
    assert_eq!(opened.current().1.expose(), made.current().1.expose());
    assert_eq!(opened.versions().collect::<Vec<_>>(), [(1, 1_000)]);
    assert!(opened.root(2).is_none());
}

#[test]
fn two_keyrings_differ() {
    let (_one, _, first) = with_passphrase();
    let (_two, _, second) = with_passphrase();
    assert_ne!(first.current().1.expose(), second.current().1.expose());
}

#[test]
fn default_cost_meets_the_minimum_and_opens() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("k");
    let made = Keyring::create(&path, words("correct"), 0).unwrap();
    let opened = Keyring::open(&path, words("correct")).unwrap();
    assert_eq!(opened.root(1).unwrap().expose(), made.root(1).unwrap().expose());
}

#[test]
fn wrong_passphrase_is_told_from_damage() {
    let (_directory, path, _) = with_passphrase();
    for wrong in ["", "Correct", "correct ", "correc"] {
        assert!(matches!(open_cheap(&path, wrong), Err(KeyringError::Locked { .. })), "{wrong:?}");
    }
}

#[test]
fn wrong_kind_and_wrong_key_file() {
    let (directory, path, file) = with_key_file();
    assert!(matches!(Keyring::open(&path, words("x")), Err(KeyringError::WrongKind { .. })));
    let other = directory.path().join("other");
    create_key_file(&other).unwrap();
    assert!(matches!(Keyring::open(&path, Unlock::KeyFile(other)), Err(KeyringError::Locked { .. })));
    Keyring::open(&path, Unlock::KeyFile(file.clone())).unwrap();

    let (_directory, locked_by_words, _) = with_passphrase();
    let tried = Keyring::open_with_minimum(&locked_by_words, Unlock::KeyFile(file), CHEAP);
    assert!(matches!(tried, Err(KeyringError::WrongKind { .. })));
}

#[test]
fn a_cheap_keyring_is_not_opened_by_default() {
    let (_directory, path, _) = with_passphrase();
    assert!(matches!(Keyring::open(&path, words("correct")), Err(KeyringError::Cost(_))));
}

#[test]
fn an_absurd_cost_is_refused_before_it_is_paid() {
    let (_directory, path, _) = with_passphrase();
    let absurd = Cost { memory_kib: u32::MAX, passes: u32::MAX, lanes: 1 };
    rewrite(&path, |file| {
        if let Lock::Argon2id { cost, .. } = &mut file.header.unlock {
            *cost = absurd;
        }
    });
    assert!(matches!(open_cheap(&path, "correct"), Err(KeyringError::Damaged { .. })));
}

#[test]
fn every_truncation_is_an_error() {
    let (_directory, path, file) = with_key_file();
    let whole = fs::read(&path).unwrap();
    // The last byte is a line end, which JSON does not need.
    for len in 0..whole.len() - 1 {
        fs::write(&path, &whole[..len]).unwrap();
        let opened = Keyring::open(&path, Unlock::KeyFile(file.clone()));
        assert!(matches!(opened, Err(KeyringError::Damaged { .. })), "{len} bytes: {opened:?}");
    }
}

#[test]
fn every_flipped_bit_is_an_error() {
    let (_directory, path, file) = with_key_file();
    let whole = fs::read(&path).unwrap();
    for position in 0..whole.len() - 1 {
        for bit in 0..8 {
            let mut flipped = whole.clone();
            flipped[position] ^= 1 << bit;
            fs::write(&path, &flipped).unwrap();
            let opened = Keyring::open(&path, Unlock::KeyFile(file.clone()));
            assert!(
                matches!(opened, Err(KeyringError::Damaged { .. } | KeyringError::UnknownFormat { .. })),
                "byte {position}, bit {bit}: {opened:?}"
            );
        }
    }
}

#[test]
fn the_seal_binds_header_and_roots_even_with_a_right_checksum() {
    type Tampering = fn(&mut File);
    let tamperings: [(&str, Tampering); 4] = [
        ("date", |file| file.header.roots[0].made += 1),
        ("version", |file| file.header.roots[0].version += 1),
        ("extra root", |file| file.header.roots.push(RootNote { version: 9, made: 0 })),
        ("sealed", |file| {
            let last = file.sealed.pop().unwrap();
            file.sealed.push(if last == '0' { '1' } else { '0' });
        }),
    ];
    for (name, tampering) in tamperings {
        let (_directory, path, file) = with_key_file();
        rewrite(&path, tampering);
        let opened = Keyring::open(&path, Unlock::KeyFile(file));
        assert!(matches!(opened, Err(KeyringError::Locked { .. })), "{name}: {opened:?}");
    }
}

#[test]
fn a_later_format_is_named_as_such() {
    let (_directory, path, _) = with_passphrase();
    fs::write(&path, r#"{"header": {"arras_keyring": 2, "new": true}, "whatever": []}"#).unwrap();
    assert!(matches!(
        open_cheap(&path, "correct"),
        Err(KeyringError::UnknownFormat { found: 2, known: FORMAT, .. })
    ));
}

#[test]
fn rotation_adds_a_version_and_keeps_the_old_ones() {
    let (_directory, path, mut keyring) = with_passphrase();
    let first = *keyring.current().1.expose();
    assert_eq!(keyring.rotate(2_000).unwrap(), 2);
    assert_eq!(keyring.rotate(3_000).unwrap(), 3);
    let opened = open_cheap(&path, "correct").unwrap();
    assert_eq!(opened.versions().collect::<Vec<_>>(), [(1, 1_000), (2, 2_000), (3, 3_000)]);
    assert_eq!(opened.root(1).unwrap().expose(), &first);
    assert_eq!(opened.current().0, 3);
    for version in 1..=3 {
        assert_eq!(opened.root(version).unwrap().expose(), keyring.root(version).unwrap().expose());
    }
    assert_ne!(opened.root(1).unwrap().expose(), opened.root(2).unwrap().expose());
}

#[test]
fn a_keyring_rotated_twice_at_once_loses_no_root() {
    let (_directory, path, mut first) = with_passphrase();
    let mut second = open_cheap(&path, "correct").unwrap();
    first.rotate(2_000).unwrap();
    let kept = *first.current().1.expose();
    assert!(matches!(second.rotate(2_001), Err(KeyringError::Changed { .. })));
    assert_eq!(second.current().0, 1, "a failed rotation leaves the keyring as it was");
    assert_eq!(open_cheap(&path, "correct").unwrap().current().1.expose(), &kept);
}

#[test]
fn changing_the_passphrase_keeps_the_roots() {
    let (directory, path, mut keyring) = with_passphrase();
    keyring.rotate(2_000).unwrap();
    keyring.change_unlock(words("better"), CHEAP).unwrap();
    assert!(matches!(open_cheap(&path, "correct"), Err(KeyringError::Locked { .. })));
    let opened = open_cheap(&path, "better").unwrap();
    assert_eq!(opened.root(2).unwrap().expose(), keyring.root(2).unwrap().expose());

    let file = directory.path().join("f");
    create_key_file(&file).unwrap();
    keyring.change_unlock(Unlock::KeyFile(file.clone()), CHEAP).unwrap();
    keyring.rotate(3_000).unwrap();
    let opened = Keyring::open(&path, Unlock::KeyFile(file)).unwrap();
    assert_eq!(opened.root(3).unwrap().expose(), keyring.root(3).unwrap().expose());
}

#[test]
fn files_are_private_and_never_overwritten() {
    let (directory, path, file) = with_key_file();
    assert_eq!((mode(&path), mode(&file)), (0o600, 0o600));
    let before = fs::read(&path).unwrap();
    assert!(matches!(
        Keyring::create_with_cost(&path, words("x"), CHEAP, 0),
        Err(KeyringError::Exists { .. })
    ));
    assert!(matches!(create_key_file(&file), Err(KeyringError::Exists { .. })));
    assert_eq!(fs::read(&path).unwrap(), before);
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 2, "nothing temporary is left");

    let mut keyring = Keyring::open(&path, Unlock::KeyFile(file)).unwrap();
    keyring.rotate(1).unwrap();
    assert_eq!(mode(&path), 0o600);
    assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 2, "nothing temporary is left");
}

#[test]
fn open_permissions_are_refused() {
    for open in [0o640, 0o604, 0o620, 0o644, 0o777] {
        let (_directory, path, file) = with_key_file();
        fs::set_permissions(&path, fs::Permissions::from_mode(open)).unwrap();
        let opened = Keyring::open(&path, Unlock::KeyFile(file.clone()));
        assert!(matches!(opened, Err(KeyringError::Permissions { mode, .. }) if mode == open));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(open)).unwrap();
        let opened = Keyring::open(&path, Unlock::KeyFile(file));
        assert!(matches!(opened, Err(KeyringError::Permissions { .. })));
    }
}

#[test]
fn key_files_of_another_form_are_refused() {
    for content in ["", "00", "zz", &"0".repeat(63), &"0".repeat(66), &"A".repeat(64)] {
        let (directory, path, _) = with_key_file();
        let file = directory.path().join("bad");
        files::create(&file, content.as_bytes()).unwrap();
        let opened = Keyring::open(&path, Unlock::KeyFile(file));
        assert!(matches!(opened, Err(KeyringError::KeyFile { .. })), "{content:?}");
    }
}

#[test]
fn errors_are_one_line_and_name_the_file() {
    let (_directory, path, _) = with_passphrase();
    let missing = path.with_extension("missing");
    fs::write(path.with_extension("junk"), "junk").unwrap();
    fs::set_permissions(path.with_extension("junk"), fs::Permissions::from_mode(0o600)).unwrap();
    for path in [&path, &missing, &path.with_extension("junk")] {
        let message = open_cheap(path, "wrong").unwrap_err().to_string();
        assert!(message.starts_with(&path.display().to_string()) && !message.contains('\n'), "{message}");
        assert!(!message.contains("wrong"), "the passphrase tried is in the message: {message}");
    }
}

#[test]
fn nothing_secret_is_printed() {
    let (_directory, path, keyring) = with_passphrase();
    let (_, root) = keyring.current();
    let printed = format!("{keyring:?} {root:?} {:?}", words("hunter2"));
    assert!(!printed.contains(&to_hex(root.expose())) && !printed.contains("hunter2"), "{printed}");
    let stored = fs::read_to_string(path).unwrap();
    assert!(!stored.contains(&to_hex(root.expose())));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_bytes_are_read_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        prop_assert!(parse(Path::new("k"), &bytes).is_err());
    }
}

/// Backups of a keyring with two roots: one under a passphrase and one under a code, and the code.
fn backups(directory: &Path, keyring: &mut Keyring) -> [(PathBuf, String); 2] {
    keyring.rotate(2_000).unwrap();
    let code = RecoveryCode::generate();
    let typed = code.expose_groups().to_string();
    let made = [
        (Recovery::Passphrase(Passphrase::new("rescue".into())), "rescue".to_owned()),
        (Recovery::Code(code), typed),
    ];
    made.map(|(recovery, typed)| {
        let path = directory.join(&typed);
        keyring.backup(&path, &recovery, CHEAP).unwrap();
        (path, typed)
    })
}

fn verify(keyring: &Keyring, path: &Path, typed: &str) -> Result<(), KeyringError> {
    keyring.verify_backup(path, Passphrase::new(typed.into()), CHEAP)
}

#[test]
fn backups_open_with_what_they_were_made_with_and_only_that() {
    let (directory, path, mut keyring) = with_passphrase();
    let made = backups(directory.path(), &mut keyring);
    for (backup, typed) in &made {
        assert_eq!(mode(backup), 0o600);
        verify(&keyring, backup, typed).unwrap();
        for wrong in ["", "correct", "Rescue", "0000-0000-0000-0000-0000-0000-0000-0000"] {
            let error = verify(&keyring, backup, wrong).unwrap_err();
            assert!(
                matches!(error, KeyringError::Locked { .. } | KeyringError::Code { .. }),
                "{wrong}: {error}"
            );
        }
        assert!(matches!(
            keyring.backup(backup, &Recovery::Code(RecoveryCode::generate()), CHEAP),
            Err(KeyringError::Exists { .. })
        ));
        // In the keyring's place it is the keyring.
        fs::copy(backup, &path).unwrap();
        let opened = open_cheap(&path, typed).unwrap();
        assert_eq!(opened.current().1.expose(), keyring.current().1.expose());
        assert_eq!(opened.versions().count(), 2);
    }
}

#[test]
fn a_code_is_taken_as_people_type_it() {
    let (directory, _, mut keyring) = with_passphrase();
    let [_, (backup, code)] = backups(directory.path(), &mut keyring);
    assert_eq!(code.split('-').map(str::len).collect::<Vec<_>>(), [4; 8]);
    let spoken = code.to_lowercase().replace('-', " ").replace('0', "o").replace('1', "l");
    for typed in [code.replace('-', ""), spoken] {
        verify(&keyring, &backup, &typed).unwrap();
    }
    for typed in [&code[1..], &format!("{code}0"), "rescue"] {
        assert!(matches!(verify(&keyring, &backup, typed), Err(KeyringError::Code { .. })), "{typed}");
    }
    let other: Vec<String> = (0..50).map(|_| RecoveryCode::generate().expose_groups().to_string()).collect();
    assert_eq!(other.iter().collect::<std::collections::HashSet<_>>().len(), 50);
}

#[test]
fn a_cut_or_flipped_backup_does_not_pass() {
    let (directory, _, mut keyring) = with_passphrase();
    let [_, (backup, code)] = backups(directory.path(), &mut keyring);
    let whole = fs::read(&backup).unwrap();
    // The last byte is a line end, which JSON does not need.
    for length in 0..whole.len() - 1 {
        fs::write(&backup, &whole[..length]).unwrap();
        assert!(verify(&keyring, &backup, &code).is_err(), "cut to {length}");
    }
    for at in 0..whole.len() - 1 {
        let mut flipped = whole.clone();
        flipped[at] ^= 1;
        fs::write(&backup, &flipped).unwrap();
        // White space in place of white space is the same file.
        let same = serde_json::from_slice::<serde_json::Value>(&flipped).ok()
            == serde_json::from_slice::<serde_json::Value>(&whole).ok();
        assert!(same || verify(&keyring, &backup, &code).is_err(), "byte {at} flipped");
    }
}

#[test]
fn a_backup_of_another_deployment_or_from_before_a_rotation_does_not_pass() {
    let (directory, _, mut keyring) = with_passphrase();
    let made = backups(directory.path(), &mut keyring);
    let (_other, _, other) = with_passphrase();
    for (backup, typed) in &made {
        assert!(matches!(verify(&other, backup, typed), Err(KeyringError::OtherDeployment { .. })));
    }
    keyring.rotate(3_000).unwrap();
    for (backup, typed) in &made {
        assert!(matches!(verify(&keyring, backup, typed), Err(KeyringError::Incomplete { lacking: 1, .. })));
    }
}

#[test]
fn a_crash_before_the_renaming_leaves_the_old_passphrase_and_the_next_change_sweeps_up() {
    let (directory, path, mut keyring) = with_passphrase();
    // What a change has written when it ends there: the new file beside the old one.
    let (note, lock) = new_lock(words("new"), CHEAP).unwrap();
    let header = Header { unlock: note, ..keyring.header.clone() };
    let left = files::write_beside(&path, &encode(&header, &keyring.roots, &lock).0).unwrap();
    assert_eq!(mode(&left), 0o600);
    open_cheap(&path, "correct").unwrap();
    assert!(matches!(open_cheap(&path, "new"), Err(KeyringError::Locked { .. })));
    // A neighbour whose name begins like it stays.
    let neighbour = directory.path().join("k.backup.new");
    fs::write(&neighbour, "").unwrap();
    keyring.change_unlock(words("newer"), CHEAP).unwrap();
    assert!(!left.exists() && neighbour.exists());
    open_cheap(&path, "newer").unwrap();
    assert!(matches!(open_cheap(&path, "correct"), Err(KeyringError::Locked { .. })));
}

#[test]
fn the_old_files_bytes_are_overwritten_unless_somebody_keeps_them() {
    use std::io::Read;
    let (directory, path, mut keyring) = with_passphrase();
    let mut held = fs::File::open(&path).unwrap();
    keyring.change_unlock(words("new"), CHEAP).unwrap();
    let mut old = Vec::new();
    held.read_to_end(&mut old).unwrap();
    assert!(!old.is_empty() && old.iter().all(|byte| *byte == 0));
    let kept = directory.path().join("kept");
    fs::hard_link(&path, &kept).unwrap();
    keyring.change_unlock(words("newer"), CHEAP).unwrap();
    open_cheap(&kept, "new").unwrap();
}

#[test]
fn of_a_keyring_behind_a_link_the_file_itself_is_sealed_anew() {
    let (directory, path, keyring) = with_passphrase();
    drop(keyring);
    let elsewhere = directory.path().join("elsewhere");
    fs::create_dir(&elsewhere).unwrap();
    let link = elsewhere.join("keyring.json");
    std::os::unix::fs::symlink(&path, &link).unwrap();
    let mut keyring = open_cheap(&link, "correct").unwrap();
    keyring.change_unlock(words("new"), CHEAP).unwrap();
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    open_cheap(&path, "new").unwrap();
    assert!(open_cheap(&path, "correct").is_err(), "the old passphrase opens what the link led to");
    assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 1);
}
