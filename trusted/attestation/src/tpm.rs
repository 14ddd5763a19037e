//! Quotes of a TPM 2.0 (Trusted Platform Module Library, family 2.0, part 2: structures; part 3: `TPM2_Quote`): what a machine has booted.
//!
//! A quote has the digest of chosen registers (PCRs), and what it was asked to bind; it is signed by a key that the policy names, and that the
//! administrator has seen to be a TPM's own (restricted, fixed to the TPM: `tpm2_createak`). What the registers mean is what the machine's
//! boot extends into them: the enclave's program only if something measured before it measures it.
//!
//! Of libraries, `tss-esapi` needs C and `tpm2-protocol` has the whole protocol; a quote is the few fields below.

use crate::evidence::{Claims, ROOM, Refusal, Verifier};
use arras_protocol::evidence::Evidence;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, RSA_PKCS1_2048_8192_SHA256, UnparsedPublicKey, VerificationAlgorithm,
};
use serde::{Deserialize, Deserializer, de};
use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use x509_parser::der_parser::oid::Oid;
use x509_parser::oid_registry::OID_EC_P256;
use x509_parser::prelude::FromDer;
use x509_parser::public_key::PublicKey;
use x509_parser::x509::SubjectPublicKeyInfo;

/// What a policy says of quotes.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct Tpm {
    /// Who signs, a public key in PEM: ECDSA with P-256 or RSASSA-PKCS1-v1_5, with SHA-256.
    #[serde(deserialize_with = "key")]
    pub key: AttestationKey,
    /// The registers, as `tpm2_quote` takes them: `sha256:0,1,2`. Not 16 and 23, which whoever is on the machine may reset and extend to
    /// any value.
    #[serde(deserialize_with = "registers")]
    pub registers: BTreeSet<u8>,
}

/// A key that signs quotes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttestationKey {
    scheme: Scheme,
    public: Vec<u8>,
}

/// Registers that are reset without a restart, from any locality (PC Client Platform TPM Profile: those of debugging and of applications).
const RESETTABLE: [u8; 2] = [16, 23];

/// Bits of a modulus: as ring takes them.
const RSA_BITS: RangeInclusive<usize> = 2048..=8192;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scheme {
    Ecdsa,
    RsaSsa,
}

impl AttestationKey {
    /// Reads a public key (PEM of a `SubjectPublicKeyInfo`); none if it is not one, of another kind, or of RSA below 2,048 bits.
    #[must_use]
    pub fn read(text: &str) -> Option<Self> {
        let (_, pem) = x509_parser::pem::parse_x509_pem(text.as_bytes()).ok()?;
        let (_, info) = SubjectPublicKeyInfo::from_der(&pem.contents).ok()?;
        let curve = || Oid::try_from(info.algorithm.parameters.as_ref()?).ok();
        let scheme = match info.parsed().ok()? {
            // An uncompressed point.
            PublicKey::EC(point) if curve()? == OID_EC_P256 && point.data().len() == 65 => Scheme::Ecdsa,
            PublicKey::RSA(key) if RSA_BITS.contains(&key.key_size()) => Scheme::RsaSsa,
            _ => return None,
        };
        Some(Self { scheme, public: info.subject_public_key.data.to_vec() })
    }
}

fn key<'d, D: Deserializer<'d>>(from: D) -> Result<AttestationKey, D::Error> {
    let text = String::deserialize(from)?;
    AttestationKey::read(&text).ok_or_else(|| {
        de::Error::custom("a public key is expected, PEM, of P-256 or RSA of 2048 bits or more")
    })
}

fn registers<'d, D: Deserializer<'d>>(from: D) -> Result<BTreeSet<u8>, D::Error> {
    let text = String::deserialize(from)?;
    let read =
        |list: &str| list.split(',').map(|one| one.trim().parse().ok()).collect::<Option<BTreeSet<u8>>>();
    let registers = text.strip_prefix("sha256:").and_then(read).filter(|all| all.iter().all(|one| *one < 24));
    let registers = registers
        .ok_or_else(|| de::Error::custom("registers are written as in \"sha256:0,1,2\", below 24"))?;
    match RESETTABLE.into_iter().find(|one| registers.contains(one)) {
        Some(one) => Err(de::Error::custom(format!("registers: whoever is on the machine may reset {one}"))),
        None => Ok(registers),
    }
}

impl Verifier for Tpm {
    fn verify(&self, evidence: &Evidence, _now: u64) -> Result<Claims, Refusal> {
        let Evidence::Tpm { attest, signature } = evidence else {
            return Err(Refusal::Backend);
        };
        let (algorithm, signature) = read_signature(signature.as_slice(), self.key.scheme)?;
        let key = UnparsedPublicKey::new(algorithm, &self.key.public);
        key.verify(attest.as_slice(), &signature).map_err(|_| Refusal::Signature)?;
        let quote = Quote::read(attest.as_slice()).ok_or(Refusal::Malformed)?;
        if quote.registers != self.registers {
            let (found, asked) = (&quote.registers, &self.registers);
            return Err(Refusal::Platform(format!(
                "the quote is of registers {found:?}, {asked:?} is asked for"
            )));
        }
        let mut binding = [0; ROOM];
        binding.get_mut(..quote.bound.len()).ok_or(Refusal::Malformed)?.copy_from_slice(quote.bound);
        let measurement = quote.digest.to_vec();
        Ok(Claims { measurement, product: None, binding, made: None, debug: false, version: 0 })
    }
}

/// `TPM_ALG_SHA256`.
const SHA256: u16 = 0x000b;

/// A `TPMT_SIGNATURE` of a key's scheme, as ring takes it.
fn read_signature(
    bytes: &[u8],
    scheme: Scheme,
) -> Result<(&'static dyn VerificationAlgorithm, Vec<u8>), Refusal> {
    let mut rest = bytes;
    let kind = number(&mut rest).ok_or(Refusal::Malformed)?;
    let hash = number(&mut rest).ok_or(Refusal::Malformed)?;
    let (wanted, halves, algorithm): (u16, usize, &'static dyn VerificationAlgorithm) = match scheme {
        Scheme::RsaSsa => (0x0014, 1, &RSA_PKCS1_2048_8192_SHA256),
        Scheme::Ecdsa => (0x0018, 2, &ECDSA_P256_SHA256_FIXED),
    };
    if (kind, hash) != (wanted, SHA256) {
        return Err(Refusal::Signature);
    }
    let mut signature = Vec::new();
    for _ in 0..halves {
        let half = sized(&mut rest, 1024).ok_or(Refusal::Malformed)?;
        if scheme == Scheme::Ecdsa {
            // Zeros in front may be left out.
            let missing = 32_usize.checked_sub(half.len()).ok_or(Refusal::Malformed)?;
            signature.resize(signature.len() + missing, 0);
        }
        signature.extend_from_slice(half);
    }
    if rest.is_empty() { Ok((algorithm, signature)) } else { Err(Refusal::Malformed) }
}

/// What is wanted of a `TPMS_ATTEST` of the type `TPM_ST_ATTEST_QUOTE`.
#[derive(Debug, PartialEq, Eq)]
struct Quote<'q> {
    /// `extraData`.
    bound: &'q [u8],
    /// Registers of SHA-256.
    registers: BTreeSet<u8>,
    /// Of their values one after the other.
    digest: &'q [u8],
}

impl<'q> Quote<'q> {
    /// Reads a quote, to the end.
    fn read(mut bytes: &'q [u8]) -> Option<Self> {
        let rest = &mut bytes;
        // What a TPM makes itself begins so, and a restricted key signs nothing else that does.
        (take(rest, 4)? == b"\xffTCG").then_some(())?;
        (number(rest)? == 0x8018).then_some(())?;
        let _signer = sized(rest, 68)?;
        let bound = sized(rest, ROOM)?;
        let _clock_and_firmware = take(rest, 17 + 8)?;
        // One list, of one hash.
        (take(rest, 4)? == [0, 0, 0, 1]).then_some(())?;
        (number(rest)? == SHA256).then_some(())?;
        let [length] = take(rest, 1)? else { return None };
        let bits = take(rest, usize::from(*length))?;
        let set = |register: &u8| {
            bits.get(usize::from(register / 8)).is_some_and(|byte| byte >> (register % 8) & 1 == 1)
        };
        let most = u8::try_from(bits.len().checked_mul(8)?).ok()?;
        let registers = (0..most).filter(set).collect();
        let digest = sized(rest, 32).filter(|digest| digest.len() == 32)?;
        rest.is_empty().then_some(Self { bound, registers, digest })
    }
}

fn take<'b>(rest: &mut &'b [u8], bytes: usize) -> Option<&'b [u8]> {
    let (taken, left) = rest.split_at_checked(bytes)?;
    *rest = left;
    Some(taken)
}

fn number(rest: &mut &[u8]) -> Option<u16> {
    Some(u16::from_be_bytes(take(rest, 2)?.try_into().ok()?))
}

/// Bytes with their length before them.
fn sized<'b>(rest: &mut &'b [u8], most: usize) -> Option<&'b [u8]> {
    let length = usize::from(number(rest)?);
    (length <= most).then(|| take(rest, length))?
}

#[cfg(test)]
mod tests;
