//! The enclave as a process of its own: started by measurement, spoken to by its standard streams.

use crate::hexadecimal;
use arras_protocol::codec::{DecodeError, encode};
use arras_protocol::iee::{FRAME_BYTES_MAX, Fault, Incoming, Outgoing};
use sha2::{Digest, Sha256};
use std::ffi::OsString;
use std::io;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader, BufWriter};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

/// What an enclave's program is known by: SHA-256 of its file.
pub type Measurement = [u8; 32];

/// Why the enclave does not run, or no longer.
#[derive(Debug, thiserror::Error)]
pub enum EnclaveError {
    /// Its program cannot be read or started.
    #[error("{path}: {what}")]
    Program {
        /// Where it is looked for.
        path: String,
        /// What the operating system says.
        what: io::Error,
    },
    /// It is another program than the one that is to run.
    #[error("{path} has measurement {found}, and {expected} is to run")]
    Measurement {
        /// Where it lies.
        path: String,
        /// What it is.
        found: String,
        /// What it should be.
        expected: String,
    },
    /// The stream to or from it broke.
    #[error("the link to the enclave: {0}")]
    Link(#[from] io::Error),
    /// It says what is no message.
    #[error("the enclave says what is no message: {0}")]
    Message(#[from] DecodeError),
    /// It ended.
    #[error("the enclave has ended")]
    Ended,
    /// It ended, and says why.
    #[error("the enclave has ended: {0}")]
    Fault(Fault),
}

/// A running enclave. Dropped, the process is killed.
pub struct Enclave {
    /// The process.
    pub process: Child,
    /// To it.
    pub input: ToEnclave<BufWriter<ChildStdin>>,
    /// From it.
    pub output: FromEnclave<BufReader<ChildStdout>>,
}

/// The measurement of a program.
///
/// # Errors
/// [`EnclaveError::Program`] if it cannot be read.
pub fn measure(program: &Path) -> Result<Measurement, EnclaveError> {
    let bytes = std::fs::read(program).map_err(|what| at(program, what))?;
    Ok(Sha256::digest(bytes).into())
}

/// A measurement as people write it.
#[must_use]
pub fn written(measurement: &Measurement) -> String {
    hexadecimal::written(measurement)
}

/// What starts an enclave's program.
#[derive(Clone, Copy, Debug)]
pub enum Loader<'a> {
    /// The operating system, with these arguments.
    System(&'a [OsString]),
    /// Gramine, in SGX: this is `gramine-sgx`. Beside the program are its signed manifest (`.manifest.sgx`), which has its arguments, and
    /// the signature (`.sig`).
    Gramine(&'a Path),
}

impl Loader<'_> {
    /// The command that starts a program.
    ///
    /// # Errors
    /// There is no folder to start from.
    fn command(self, program: &Path) -> io::Result<Command> {
        match self {
            Self::System(arguments) => {
                let mut command = Command::new(program);
                command.args(arguments);
                Ok(command)
            }
            Self::Gramine(loader) => {
                let program = std::path::absolute(program)?;
                let mut command = Command::new(std::path::absolute(loader)?);
                // The manifest names files as they lie beside it.
                command.args(program.file_name()).current_dir(program.parent().unwrap_or(Path::new("/")));
                Ok(command)
            }
        }
    }
}

impl Enclave {
    /// Has a program started, if it is the one that is expected.
    ///
    /// # Errors
    /// [`EnclaveError::Program`], [`EnclaveError::Measurement`].
    pub fn start(
        program: &Path,
        loader: Loader<'_>,
        expected: Option<&Measurement>,
    ) -> Result<Self, EnclaveError> {
        let found = measure(program)?;
        if let Some(expected) = expected.filter(|expected| **expected != found) {
            let (found, expected) = (written(&found), written(expected));
            return Err(EnclaveError::Measurement { path: program.display().to_string(), found, expected });
        }
        let mut command = loader.command(program).map_err(|what| at(program, what))?;
        command.env_clear().stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let started = if let Loader::Gramine(loader) = loader { loader } else { program };
        let mut process = command.spawn().map_err(|what| at(started, what))?;
        let streams = process.stdin.take().zip(process.stdout.take());
        let (input, output) = streams.ok_or_else(|| at(program, io::ErrorKind::BrokenPipe.into()))?;
        let input = ToEnclave(BufWriter::with_capacity(1 << 16, input));
        let output = FromEnclave(BufReader::with_capacity(1 << 16, output));
        Ok(Self { process, input, output })
    }
}

/// How long a process may stay that has closed its streams; then it is killed, and nobody says why.
const ENDING: Duration = Duration::from_secs(5);

/// Why a process has ended that ends.
pub(crate) async fn ended(mut process: Child) -> EnclaveError {
    let waited = tokio::time::timeout(ENDING, process.wait()).await;
    let code = waited.ok().and_then(Result::ok).and_then(|status| status.code());
    code.and_then(Fault::of_code).map_or(EnclaveError::Ended, EnclaveError::Fault)
}

fn at(program: &Path, what: io::Error) -> EnclaveError {
    EnclaveError::Program { path: program.display().to_string(), what }
}

/// The stream to an enclave.
pub struct ToEnclave<W>(pub W);

impl<W: AsyncWrite + Unpin> ToEnclave<W> {
    /// Says a message. It is on its way for certain only after [`ToEnclave::flush`].
    ///
    /// # Errors
    /// [`EnclaveError::Link`].
    pub async fn say(&mut self, message: &Incoming) -> Result<(), EnclaveError> {
        let body = encode(message);
        let length = u32::try_from(body.len()).map_err(|_| DecodeError("frame: it is too long"))?;
        self.0.write_all(&length.to_le_bytes()).await?;
        Ok(self.0.write_all(&body).await?)
    }

    /// Sends what was said.
    ///
    /// # Errors
    /// [`EnclaveError::Link`].
    pub async fn flush(&mut self) -> Result<(), EnclaveError> {
        Ok(self.0.flush().await?)
    }
}

/// The stream from an enclave.
pub struct FromEnclave<R>(pub R);

impl<R: AsyncRead + Unpin> FromEnclave<R> {
    /// Hears the next message.
    ///
    /// # Errors
    /// [`EnclaveError::Ended`] if the stream ends, [`EnclaveError::Link`], [`EnclaveError::Message`].
    pub async fn hear(&mut self) -> Result<Outgoing, EnclaveError> {
        let mut length = [0; 4];
        match self.0.read_exact(&mut length).await {
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Err(EnclaveError::Ended),
            read => read?,
        };
        let length = u32::from_le_bytes(length) as usize;
        if length > FRAME_BYTES_MAX {
            return Err(DecodeError("frame: it is too long").into());
        }
        let mut body = vec![0; length];
        self.0.read_exact(&mut body).await?;
        Ok(Outgoing::decode(&body)?)
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn another_program_than_the_expected_is_not_started() {
        let program = Path::new("/bin/true");
        let measured = measure(program).unwrap();
        let start = |program, expected| Enclave::start(Path::new(program), Loader::System(&[]), expected);
        assert!(start("/bin/true", Some(&measured)).is_ok());
        let other = start("/bin/true", Some(&[0; 32])).err().unwrap();
        assert!(other.to_string().contains(&written(&measured)), "{other}");
        assert!(matches!(start("/nowhere", None), Err(EnclaveError::Program { .. })));
    }

    #[tokio::test(start_paused = true)]
    async fn a_process_that_closes_its_streams_and_stays_does_not_hold_its_host() {
        let stays = Command::new("sleep").arg("60").kill_on_drop(true).spawn().unwrap();
        let waited = tokio::time::timeout(Duration::from_secs(30), ended(stays)).await;
        assert!(matches!(waited, Ok(EnclaveError::Ended)));
    }

    #[tokio::test]
    async fn what_is_no_message_is_not_taken_for_one() {
        let mut long = FromEnclave(&[255; 9][..]);
        assert!(matches!(long.hear().await, Err(EnclaveError::Message(_))));
        let mut cut = FromEnclave(&[9, 0, 0, 0, 1][..]);
        assert!(matches!(cut.hear().await, Err(EnclaveError::Link(_))));
        assert!(matches!(FromEnclave(&[][..]).hear().await, Err(EnclaveError::Ended)));
    }
}
