//! CRC-32C (Castagnoli), the checksum of `OP_MSG`.

const POLYNOMIAL: u32 = 0x82f6_3b78;

const TABLE: [u32; 256] = table();

const fn table() -> [u32; 256] {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut value = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            value = if value & 1 == 1 { (value >> 1) ^ POLYNOMIAL } else { value >> 1 };
            bit += 1;
        }
        table[byte] = value;
        byte += 1;
    }
    table
}

/// CRC-32C of `bytes`.
pub(super) fn crc32c(bytes: &[u8]) -> u32 {
    let step = |sum: u32, byte: &u8| (sum >> 8) ^ TABLE[usize::from((sum as u8) ^ byte)];
    !bytes.iter().fold(u32::MAX, step)
}

#[cfg(test)]
mod tests {
    #[test]
    fn check_value_of_the_catalogue_of_crcs() {
        assert_eq!(super::crc32c(b"123456789"), 0xe306_9283);
        assert_eq!(super::crc32c(b""), 0);
    }
}
