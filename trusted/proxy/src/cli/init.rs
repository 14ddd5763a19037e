//! `arras init`.

use super::{Failure, InitArguments, unlock};
use crate::init::{self, Choices};
use arras_certificates::now;

#[allow(clippy::print_stdout, reason = "what the command is for")]
pub(super) fn run(arguments: InitArguments) -> Result<(), Failure> {
    let InitArguments { directory, listen, server, data_dir, key_file } = arguments;
    let unlock = unlock::new(key_file)?;
    let layout = init::init(&directory, Choices { unlock, listen, server: server.clone(), data_dir }, now())?;
    println!("Made {}:", directory.display());
    println!("  {}  the proxy's configuration", layout.configuration.display());
    println!("  {}  root keys; back this up, and what unlocks it", layout.keyring.display());
    println!("  {}  the proxy's certificates and their authority", layout.certificates.display());
    println!("  {}  to be copied to the server's machine\n", layout.server.display());
    println!("Next, on the server's machine:");
    println!("  arras-server --data-dir DIR --listen {server} --certificates server");
    println!("and here:");
    println!("  arras doctor --config {0}\n  arras proxy --config {0}", layout.configuration.display());
    Ok(())
}
