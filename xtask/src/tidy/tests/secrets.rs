//! Secret types, their homes, and byte arrays called keys.

use super::{places, tree};

/// What `rule` says of `text` as a file of the crate in `folder`: the lines.
fn lines(folder: &str, text: &str, rule: &str) -> Vec<usize> {
    let path = format!("{folder}/src/lib.rs");
    let line = |place: String| {
        let after = place.strip_prefix(&format!("{path}:")).unwrap().to_owned();
        after.split(' ').next().unwrap().parse().unwrap()
    };
    places(&tree(&[(&path, text)]), rule).into_iter().map(line).collect()
}

const SOUND: &str = "
#[derive(Zeroize, ZeroizeOnDrop)]
pub struct Key([u8; 32]);
impl fmt::Debug for Key { fn fmt(&self, f: &mut Formatter) -> Result { f.write_str(\"Key(secret)\") } }
pub struct Passphrase(Zeroizing<String>);
#[derive(Debug)] pub enum Unlock { Passphrase(Passphrase), File(PathBuf) }
pub struct Keyring { path: PathBuf, roots: Vec<Key> }
#[derive(Clone, Debug, Serialize)] struct Header { salt: String }
pub struct MacKey { state: [u8; 16] }
impl Drop for MacKey { fn drop(&mut self) { self.state.zeroize(); } }
";

#[test]
fn sound_secret_types_pass() {
    assert_eq!(lines("trusted/keys", SOUND, "secret-types"), [0; 0]);
    assert_eq!(lines("trusted/keys", SOUND, "secret-homes"), [0; 0]);
}

#[test]
fn a_secret_type_that_copies_compares_prints_or_serialises_is_found() {
    for name in ["Clone", "Copy", "Debug", "Default", "PartialEq", "Hash", "serde::Serialize", "Deserialize"]
    {
        let text = format!("#[derive({name}, ZeroizeOnDrop)] struct Root([u8; 32]);\n");
        assert_eq!(lines("trusted/keys", &text, "secret-types"), [1], "{name}");
        assert_eq!(lines("enclave/iee", &text, "secret-types"), [1], "{name}");
    }
    for name in ["Clone", "std::ops::Deref", "AsRef<[u8]>", "PartialEq", "Display", "Serialize"] {
        let text = format!("#[derive(ZeroizeOnDrop)] struct Root([u8; 32]);\nimpl {name} for Root {{}}\n");
        assert_eq!(lines("trusted/schemes", &text, "secret-types"), [1], "{name}");
    }
}

#[test]
fn a_debug_that_looks_at_the_secret_is_found() {
    for body in ["self.0.fmt(f)", "write!(f, \"{:?}\", self.0)"] {
        let text = format!(
            "#[derive(ZeroizeOnDrop)] struct Root([u8; 32]);\nimpl Debug for Root {{ fn fmt(&self, f: &mut F) -> R {{ {body} }} }}\n"
        );
        assert_eq!(lines("trusted/keys", &text, "secret-types"), [1], "{body}");
    }
}

#[test]
fn a_secret_type_that_is_not_wiped_is_found_by_its_name() {
    for name in ["SealKey", "Passphrase", "Delta", "SharedSecret"] {
        let text = format!("struct {name}([u8; 32]);\n");
        assert_eq!(lines("trusted/schemes", &text, "secret-types"), [1], "{name}");
        assert_eq!(lines("trusted/mongo", &text, "secret-types"), [0; 0], "{name}");
    }
}

#[test]
fn a_printable_zeroizing_field_is_found() {
    let text = "#[derive(Debug)] struct Config { path: PathBuf, code: Zeroizing<String> }\n";
    assert_eq!(lines("trusted/schemes", text, "secret-types"), [1]);
}

#[test]
fn secrets_away_from_home_are_found() {
    let text = "#[derive(ZeroizeOnDrop)] struct Root([u8; 32]);\nstruct Hidden { x: Zeroizing<Vec<u8>> }\n";
    for folder in ["trusted/proxy", "trusted/planner", "untrusted/server", "shared/protocol", "lab"] {
        assert_eq!(lines(folder, text, "secret-homes"), [1, 2], "{folder}");
    }
    for folder in ["trusted/keys", "trusted/schemes", "enclave/iee", "shared/primitives"] {
        assert_eq!(lines(folder, text, "secret-homes"), [0; 0], "{folder}");
    }
}

#[test]
fn key_names_in_shared_and_untrusted_are_found() {
    let text = "struct SealKey;\nenum KeyKind {}\ntype Passphrase = String;\ntrait SecretStore {}\n";
    assert_eq!(lines("shared/protocol", text, "secret-homes"), [1, 3, 4]);
    assert_eq!(lines("untrusted/server", text, "secret-homes"), [1, 3, 4]);
    assert_eq!(lines("shared/storage", text, "secret-homes"), [3, 4]);
    assert_eq!(lines("trusted/proxy", text, "secret-homes"), [0; 0]);
}

#[test]
fn byte_arrays_called_keys_are_found() {
    let text = "
fn f(key: [u8; 32], other: [u8; 32]) {}
fn g(seal_key: &[u8; 16]) {}
fn h(secret: Option<Box<[u8; 16]>>) {}
struct S { key: Block }
enum E { A { passphrase: String } }
fn i(password: &str) {}
fn j(key: &str, a: Option<String>) {}
fn k(key: &Key, keyed: [u8; 4], key_bytes: usize) {}
";
    for folder in ["shared/protocol", "trusted/schemes", "untrusted/server", "trusted/proxy"] {
        assert_eq!(lines(folder, text, "secret-arrays"), [2, 3, 4, 5, 6, 7], "{folder}");
    }
    assert_eq!(lines("lab", text, "secret-arrays"), [2, 3, 4, 5]);
    assert_eq!(lines("trusted/keys", text, "secret-arrays"), [0; 0]);
    assert_eq!(lines("shared/primitives", text, "secret-arrays"), [5, 6]);
}

#[test]
fn database_keys_are_slices_and_stay_where_databases_are() {
    let text = "fn get(key: &[u8]) {}\nstruct Cell { key: Vec<u8> }\n";
    for folder in ["shared/storage", "untrusted/server", "trusted/proxy", "trusted/planner", "lab"] {
        assert_eq!(lines(folder, text, "secret-arrays"), [0; 0], "{folder}");
    }
    for folder in ["shared/protocol", "trusted/schemes", "enclave/iee"] {
        assert_eq!(lines(folder, text, "secret-arrays"), [1, 2], "{folder}");
    }
}
