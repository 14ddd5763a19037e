//! An enclave at the host's streams: frames of [`arras_protocol::iee`].

use crate::server::Iee;
use arras_protocol::codec::encode;
use arras_protocol::iee::{FRAME_BYTES_MAX, Fault, Incoming, Outgoing};
use std::io::{self, BufReader, BufWriter, Read, Write};

/// The next message; none if the host has ended the stream.
fn hear(input: &mut impl Read, body: &mut Vec<u8>) -> io::Result<Option<Incoming>> {
    let mut length = [0; 4];
    match input.read_exact(&mut length) {
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        read => read?,
    }
    let length = u32::from_le_bytes(length) as usize;
    if length > FRAME_BYTES_MAX {
        return Err(io::Error::other(Fault::Malformed));
    }
    body.resize(length, 0);
    input.read_exact(body)?;
    Incoming::decode(body).map(Some).map_err(|_| io::Error::other(Fault::Malformed))
}

/// Serves a host at standard input and output, until it ends them. `quoted` quotes what evidence is to bind, or gives nothing where the host has to.
///
/// # Errors
/// A [`Fault`], or a stream breaks.
pub fn serve(mut iee: Iee, quoted: impl Fn(&[u8; 32]) -> Result<Vec<u8>, Fault>) -> io::Result<()> {
    let mut input = BufReader::with_capacity(1 << 20, io::stdin().lock());
    let mut output = BufWriter::with_capacity(1 << 20, io::stdout().lock());
    let mut body = Vec::new();
    while let Some(incoming) = hear(&mut input, &mut body)? {
        for mut message in iee.receive(incoming).map_err(io::Error::other)? {
            if let Outgoing::Attest { binding, quote, .. } = &mut message {
                quote.0 = quoted(binding).map_err(io::Error::other)?;
            }
            let body = encode(&message);
            output.write_all(&u32::try_from(body.len()).map_err(io::Error::other)?.to_le_bytes())?;
            output.write_all(&body)?;
        }
        output.flush()?;
    }
    Ok(())
}
