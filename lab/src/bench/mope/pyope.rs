//! A public implementation of BCLO, in Python, as others know its cost.

use super::MopeError;
use std::path::Path;
use std::process::Command;

/// Prints the milliseconds of one encryption.
const PROGRAM: &str = "
import time
from pyope.ope import OPE, ValueRange
cipher = OPE(b'k' * 16, in_range=ValueRange(0, 2**64 - 1), out_range=ValueRange(0, 2**128 - 1))
begin, count = time.perf_counter(), 0
while time.perf_counter() - begin < 3:
    cipher.encrypt(count * 0x9e3779b97f4a7c15 % 2**64)
    count += 1
print((time.perf_counter() - begin) / count * 1000)
";

/// Milliseconds that one encryption of 64 bits takes.
pub(super) fn milliseconds(python: &Path) -> Result<f64, MopeError> {
    let output = Command::new(python).args(["-c", PROGRAM]).output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    text.trim().parse().map_err(|_| {
        let said = String::from_utf8_lossy(&output.stderr);
        MopeError::Python(said.lines().last().unwrap_or("it said nothing").to_owned())
    })
}
