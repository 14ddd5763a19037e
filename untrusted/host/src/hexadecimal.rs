//! Bytes as people write them.

/// Two digits a byte, in small letters.
pub(crate) fn written(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
