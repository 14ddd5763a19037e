//! An enclave at the host's streams: frames of [`arras_protocol::iee`].

use crate::fault::Fault;
use crate::server::Iee;
use arras_protocol::codec::encode;
use arras_protocol::iee::{FRAME_BYTES_MAX, Incoming, Outgoing};
use std::io::{self, BufRead, BufReader, BufWriter, Write};

fn frame(input: &mut impl BufRead, body: &mut Vec<u8>) -> io::Result<bool> {
    // Between two frames the host may end the enclave.
    if input.fill_buf()?.is_empty() {
        return Ok(false);
    }
    let mut length = [0; 4];
    input.read_exact(&mut length)?;
    let length = u32::from_le_bytes(length) as usize;
    if length > FRAME_BYTES_MAX {
        return Err(io::Error::other(Fault::Malformed));
    }
    body.resize(length, 0);
    input.read_exact(body)?;
    Ok(true)
}

fn send(output: &mut impl Write, message: &Outgoing) -> io::Result<()> {
    let body = encode(message);
    let length = u32::try_from(body.len()).map_err(io::Error::other)?;
    output.write_all(&length.to_le_bytes())?;
    output.write_all(&body)
}

/// Serves a host at standard input and output, until it ends them.
///
/// # Errors
/// A [`Fault`], or a stream breaks.
pub fn serve(mut iee: Iee) -> io::Result<()> {
    let mut input = BufReader::with_capacity(1 << 20, io::stdin().lock());
    let mut output = BufWriter::with_capacity(1 << 20, io::stdout().lock());
    let mut body = Vec::new();
    while frame(&mut input, &mut body)? {
        let incoming = Incoming::decode(&body).map_err(|_| io::Error::other(Fault::Malformed))?;
        for message in iee.receive(incoming).map_err(io::Error::other)? {
            send(&mut output, &message)?;
        }
        output.flush()?;
    }
    Ok(())
}
