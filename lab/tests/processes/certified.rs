//! A host of boolean search with an attested enclave, and what a proxy goes by that speaks to it.

use super::process::{command, executable};
use arras_attestation::authority::Authority;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::{SystemTime, UNIX_EPOCH};

/// Makes the administrator's authority, and a proxy's certificate, in a folder that is not there yet.
pub(crate) fn certify(folder: &Path) {
    fs::create_dir(folder).unwrap();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    let (authority, _) = Authority::create(now).unwrap();
    let (certificate, private) = authority.issue("administrator", now).unwrap();
    fs::write(folder.join("ca.pem"), authority.certificate()).unwrap();
    fs::write(folder.join("administrator.pem"), certificate).unwrap();
    let key = folder.join("administrator.key");
    fs::write(&key, private.as_bytes()).unwrap();
    fs::set_permissions(&key, Permissions::from_mode(0o600)).unwrap();
}

/// Has who goes by the folder speak to enclaves of one measurement, which a host with this development root has started.
pub(crate) fn write_policy(folder: &Path, root: &Path, measurement: &str) {
    let root = fs::read_to_string(root).unwrap();
    let policy = format!(
        "administrator = \"administrator\"\n[[accept]]\nbackend = \"process\"\nroot = \"{}\"\nmeasurements = [\"{measurement}\"]\n",
        root.trim()
    );
    fs::write(folder.join("policy.toml"), policy).unwrap();
}

/// A host that keeps its `data`, and its root and sealing key in `kept`, for whom the folder `client` certifies.
pub(crate) fn host(data: &Path, kept: &Path, client: &Path) -> Command {
    let mut host = command("arras-host", "info");
    host.args(["--listen", "127.0.0.1:0", "--administrator", "administrator", "--data-dir"]).arg(data);
    host.arg("--authority").arg(client.join("ca.pem"));
    host.arg("--development-root").arg(kept.join("root"));
    host.arg("--enclave-argument=--sealing-key").arg("--enclave-argument").arg(kept.join("sealing-key"));
    host.arg("--enclave").arg(executable("arras-enclave"));
    host
}
