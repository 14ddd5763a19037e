//! The enclave's certificate: unsigned (RFC 9925), with evidence in an extension. Clients look at evidence and key alone, and the enclave
//! shows in each handshake that it has the key.

use arras_protocol::evidence::OID;

const SEQUENCE: u8 = 0x30;

/// `id-alg-unsigned` as an `AlgorithmIdentifier`.
const UNSIGNED: &[u8] = b"\x30\x0a\x06\x08\x2b\x06\x01\x05\x05\x07\x06\x24";

/// `commonName`, `arras-enclave`, as a whole name.
const NAME: &[u8] = b"\x30\x18\x31\x16\x30\x14\x06\x03\x55\x04\x03\x0c\x0darras-enclave";

/// 1970 to 9999: how long a certificate is good for, its evidence says.
const EVER: &[u8] = b"\x30\x20\x17\x0d700101000000Z\x18\x0f99991231235959Z";

/// An element of DER (ITU-T X.690).
fn element(tag: u8, content: &[&[u8]]) -> Vec<u8> {
    let content = content.concat();
    let digits: Vec<u8> = content.len().to_be_bytes().into_iter().skip_while(|byte| *byte == 0).collect();
    let mut bytes = vec![tag];
    match *digits.as_slice() {
        [] => bytes.push(0),
        [short @ ..0x80] => bytes.push(short),
        _ => {
            bytes.push(0x80 | digits.len() as u8);
            bytes.extend(digits);
        }
    }
    bytes.extend(content);
    bytes
}

/// A certificate of a public key (`SubjectPublicKeyInfo`) with encoded evidence.
pub(crate) fn certificate(public: &[u8], evidence: &[u8]) -> Vec<u8> {
    let extension = element(SEQUENCE, &[&element(0x06, &[&OID]), &element(0x04, &[evidence])]);
    let extensions = element(0xa3, &[&element(SEQUENCE, &[&extension])]);
    let (version, serial) = (b"\xa0\x03\x02\x01\x02", b"\x02\x01\x01");
    let whole = element(SEQUENCE, &[version, serial, UNSIGNED, NAME, EVER, NAME, public, &extensions]);
    element(SEQUENCE, &[&whole, UNSIGNED, b"\x03\x01\x00"])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_the_shortest_that_der_has() {
        for (length, head) in
            [(0, &b"\x04\x00"[..]), (127, b"\x04\x7f"), (128, b"\x04\x81\x80"), (256, b"\x04\x82\x01\x00")]
        {
            let found = element(4, &[&vec![7; length]]);
            assert!(found.starts_with(head) && found.len() == head.len() + length, "{length}");
        }
        assert_eq!(
            element(
                SEQUENCE,
                &[&element(
                    0x31,
                    &[&element(SEQUENCE, &[b"\x06\x03\x55\x04\x03", &element(12, &[b"arras-enclave"])])]
                )]
            ),
            NAME
        );
    }
}
