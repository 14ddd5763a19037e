//! Quotes of `swtpm`, asked for with `tpm2_quote`, and bytes that are none: each refusal.
#![allow(clippy::unwrap_used)]

use super::*;
use crate::hexadecimal::written;
use crate::policy::ReleasePolicy;
use proptest::prelude::*;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair};

/// What the samples bind.
const BOUND: [u8; 32] = [2; 32];

struct Sample {
    key: &'static str,
    attest: &'static [u8],
    signature: &'static [u8],
}

const ECDSA: Sample = Sample {
    key: include_str!("../../../../kat/attestation/tpm_ak_ecdsa.pem"),
    attest: include_bytes!("../../../../kat/attestation/tpm_quote_ecdsa.attest"),
    signature: include_bytes!("../../../../kat/attestation/tpm_quote_ecdsa.signature"),
};

const RSA: Sample = Sample {
    key: include_str!("../../../../kat/attestation/tpm_ak_rsassa.pem"),
    attest: include_bytes!("../../../../kat/attestation/tpm_quote_rsassa.attest"),
    signature: include_bytes!("../../../../kat/attestation/tpm_quote_rsassa.signature"),
};

fn evidence(attest: &[u8], signature: &[u8]) -> Evidence {
    Evidence::Tpm { attest: attest.to_vec().into(), signature: signature.to_vec().into() }
}

fn digest(sample: &Sample) -> String {
    written(&sample.attest[sample.attest.len() - 32..])
}

fn policy(key: &str, registers: &str, measurement: &str) -> ReleasePolicy {
    let text = format!(
        "administrator = \"ada\"\n[[accept]]\nbackend = \"tpm\"\nkey = '''{key}'''\nregisters = \"{registers}\"\n\
         measurements = [\"{measurement}\"]\n"
    );
    ReleasePolicy::read(&text).unwrap()
}

/// A point of another curve, as long as those of P-256.
const SECP256K1: &str = "-----BEGIN PUBLIC KEY-----
MFYwEAYHKoZIzj0CAQYFK4EEAAoDQgAEp80MljBxf3KJeMHMnc+rNe45BX32HjzY
bXgaT3HLMgJ7fZ0M1iWjxu7gVfQRyLXAShQNCU/WbgcrhX6EetTW+Q==
-----END PUBLIC KEY-----
";
const RSA_1024: &str = "-----BEGIN PUBLIC KEY-----
MIGfMA0GCSqGSIb3DQEBAQUAA4GNADCBiQKBgQDMyjJbFYlKItVhttZZvHzhxH/6
1LA7Iopc79YQO8dQuQa6BAuWVpcYPjR0q/Z6MEFgS9YOpoCtQJheJz4W+Ht2oqoE
q02djP0rMQMHOKHS8qIA9lRJs8FPAOkcFRO00Wm2DpxPOXXeU7DvFCao6T1TMuKn
c+SbTdMkP7pA7/hnwwIDAQAB
-----END PUBLIC KEY-----
";

const REGISTERS: &str = "sha256:0,1,2,7";

#[test]
fn what_agrees_with_the_policy_is_accepted() {
    for sample in [ECDSA, RSA] {
        let policy = policy(sample.key, REGISTERS, &digest(&sample));
        let claims = policy.judge(&evidence(sample.attest, sample.signature), &BOUND, 0).unwrap();
        assert_eq!(written(&claims.measurement), digest(&sample));
        assert_eq!((claims.made, claims.version), (None, 0));
    }
}

#[test]
fn each_refusal_has_its_name() {
    let good = evidence(ECDSA.attest, ECDSA.signature);
    let under = |key, registers, measurement: &str, bound: [u8; 32]| {
        policy(key, registers, measurement).judge(&good, &bound, 0)
    };
    let measured = digest(&ECDSA);
    let other = under(ECDSA.key, REGISTERS, &"00".repeat(32), BOUND);
    assert_eq!(other, Err(Refusal::Measurement(measured.clone())));
    assert_eq!(under(ECDSA.key, REGISTERS, &measured, [3; 32]), Err(Refusal::Replayed));
    assert_eq!(under(RSA.key, REGISTERS, &measured, BOUND), Err(Refusal::Signature));
    for registers in ["sha256:0,1,2", "sha256:0,1,2,7,17"] {
        assert!(matches!(under(ECDSA.key, registers, &measured, BOUND), Err(Refusal::Platform(_))));
    }
    let policy = policy(ECDSA.key, REGISTERS, &measured);
    let process = Evidence::Process { statement: Vec::new().into(), signature: Vec::new().into() };
    assert_eq!(policy.judge(&process, &BOUND, 0), Err(Refusal::Backend));
    assert_eq!(policy.judge(&evidence(ECDSA.attest, &[]), &BOUND, 0), Err(Refusal::Malformed));
}

#[test]
fn tampered_evidence_is_refused_whichever_byte_it_is() {
    for sample in [ECDSA, RSA] {
        let policy = policy(sample.key, REGISTERS, &digest(&sample));
        for place in 0..sample.attest.len() {
            let mut attest = sample.attest.to_vec();
            attest[place] ^= 0x40;
            let refused = policy.judge(&evidence(&attest, sample.signature), &BOUND, 0);
            assert_eq!(refused, Err(Refusal::Signature), "byte {place}");
        }
        for place in 0..sample.signature.len() {
            let mut signature = sample.signature.to_vec();
            signature[place] ^= 0x40;
            let refused = policy.judge(&evidence(sample.attest, &signature), &BOUND, 0);
            assert!(matches!(refused, Err(Refusal::Signature | Refusal::Malformed)), "byte {place}");
        }
    }
}

/// The right key under something else than a quote: a key's use beside quoting is not taken for one.
#[test]
fn what_is_signed_and_no_quote_is_refused() {
    let random = SystemRandom::new();
    let pkcs8 = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
    let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, pkcs8.as_ref(), &random).unwrap();
    let key = AttestationKey { scheme: Scheme::Ecdsa, public: pair.public_key().as_ref().to_vec() };
    let tpm = Tpm { key, registers: BTreeSet::from([0, 1, 2, 7]) };
    let judged = |attest: &[u8]| {
        let signature = pair.sign(&random, attest).unwrap();
        let (r, s) = signature.as_ref().split_at(32);
        let signature = [&[0, 0x18, 0, 0x0b, 0, 32][..], r, &[0, 32], s].concat();
        tpm.verify(&evidence(attest, &signature), 0)
    };
    assert!(judged(ECDSA.attest).is_ok());
    for place in [0, 5] {
        let mut attest = ECDSA.attest.to_vec();
        attest[place] ^= 1;
        assert_eq!(judged(&attest), Err(Refusal::Malformed), "magic and type");
    }
    assert_eq!(judged(&[ECDSA.attest, &[0]].concat()), Err(Refusal::Malformed), "more behind it");
}

#[test]
fn keys_and_registers_are_what_the_policy_s_text_says() {
    for (key, registers, said) in [
        (RSA.key, "sha1:0", "registers"),
        (RSA.key, "sha256:24", "registers"),
        (RSA.key, "sha256:", "registers"),
        (RSA.key, "sha256:0,16", "may reset 16"),
        (ECDSA.key, "sha256:23", "may reset 23"),
        ("no key", "sha256:0", "public key"),
        (SECP256K1, "sha256:0", "public key"),
        (RSA_1024, "sha256:0", "public key"),
    ] {
        let text = format!(
            "administrator = \"ada\"\n[[accept]]\nbackend = \"tpm\"\nmeasurements = []\nkey = '''{key}'''\n\
             registers = \"{registers}\""
        );
        let error = ReleasePolicy::read(&text).unwrap_err().to_string();
        assert!(error.contains(said), "{error}");
    }
}

#[test]
fn a_quote_cut_short_is_none() {
    assert!(Quote::read(ECDSA.attest).is_some());
    for length in 0..ECDSA.attest.len() {
        assert_eq!(Quote::read(&ECDSA.attest[..length]), None, "{length} bytes");
    }
}

proptest! {
    /// Whatever bytes there are, reading ends, and what is read lies within its bounds.
    #[test]
    fn altered_quotes_are_read_within_bounds(changes in prop::collection::vec((0..145_usize, any::<u8>()), 0..6)) {
        let mut attest = ECDSA.attest.to_vec();
        for (place, byte) in changes {
            attest[place] = byte;
        }
        if let Some(quote) = Quote::read(&attest) {
            prop_assert!(quote.bound.len() <= ROOM);
            prop_assert_eq!(quote.digest.len(), 32);
        }
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = Quote::read(&bytes);
        for scheme in [Scheme::Ecdsa, Scheme::RsaSsa] {
            if let Ok((_, signature)) = read_signature(&bytes, scheme) {
                prop_assert!(signature.len() <= 1024);
            }
        }
    }
}
