//! What Gramine gives a program that it runs in SGX: files of its own, in a folder that the manifest names, which is measured with the
//! program. No other file is opened.
//!
//! Nothing is printed here: Gramine puts standard error into standard output, where the frames for the host are.

use arras_keys::Key;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::Path;

/// The sealing key: from one of 16 bytes that the processor derives of its own secret, its firmware's versions and the measurement.
/// Another program has another, and so has this one on another machine.
pub(crate) fn sealing_key(folder: &Path) -> io::Result<Key> {
    let mut material = [0; Key::BYTES];
    File::open(folder.join("keys/_sgx_mrenclave"))?.read_exact(&mut material[..16])?;
    // Gramine itself may seal by it as it is.
    Ok(Key::take_from(&mut material).derive(&[b"gramine"]))
}

/// A quote of this program, whose report data are the binding and zeros.
pub(crate) fn quote(folder: &Path, binding: &[u8; 32]) -> io::Result<Vec<u8>> {
    // One write is taken for the whole, and the quote is made as its file is opened.
    let mut file = File::options().write(true).open(folder.join("user_report_data"))?;
    file.write_all([*binding, [0; 32]].as_flattened())?;
    fs::read(folder.join("quote"))
}
