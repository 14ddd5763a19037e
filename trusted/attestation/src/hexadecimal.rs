//! Bytes as people write them.

/// Two digits a byte.
pub(crate) fn written(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Bytes from digits; none if they are not pairs of digits.
pub(crate) fn read(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes().iter().all(u8::is_ascii_hexdigit) && text.len().is_multiple_of(2);
    let byte = |place| u8::from_str_radix(text.get(place..place + 2)?, 16).ok();
    digits.then(|| (0..text.len()).step_by(2).map(byte).collect())?
}
