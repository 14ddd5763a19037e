//! A report of a real processor, and reports of a chip that the tests are themselves: each refusal.
#![allow(clippy::unwrap_used)]

use super::*;
use crate::hexadecimal::written;
use crate::policy::ReleasePolicy;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair, KeyPair};

const REPORT: &[u8] = include_bytes!("../../../../kat/attestation/sev_snp_report_milan.bin");
const VCEK: &[u8] = include_bytes!("../../../../kat/attestation/sev_snp_vcek_milan.der");

/// 1 June 2024.
const NOW: u64 = 1_717_200_000;
const YEAR: u64 = 365 * 24 * 60 * 60;

const TCB: &str = "tcb_min = { bootloader = 3, tee = 0, snp = 8, microcode = 115 }";

fn evidence(report: &[u8], certificate: &[u8]) -> Evidence {
    Evidence::SevSnp { report: report.to_vec().into(), certificates: vec![certificate.to_vec().into()] }
}

fn bound() -> [u8; 64] {
    REPORT[0x50..0x90].try_into().unwrap()
}

fn policy(product: &str, measurement: &str, more: &str) -> ReleasePolicy {
    let text = format!(
        "administrator = \"ada\"\n[[accept]]\nbackend = \"sev-snp\"\nproduct = \"{product}\"\n\
         measurements = [\"{measurement}\"]\n{more}"
    );
    ReleasePolicy::read(&text).unwrap()
}

fn measured() -> String {
    written(&REPORT[0x90..0xc0])
}

fn judged(product: &str, more: &str, now: u64) -> Result<Claims, Refusal> {
    policy(product, &measured(), more).judge_room(&evidence(REPORT, VCEK), &bound(), now)
}

#[test]
fn what_agrees_with_the_policy_is_accepted() {
    let claims = judged("milan", TCB, NOW).unwrap();
    assert_eq!(written(&claims.measurement), measured());
    assert_eq!((claims.debug, claims.made, claims.version), (false, None, 0));
}

#[test]
fn each_refusal_has_its_name() {
    let other = policy("milan", &"00".repeat(48), TCB);
    assert_eq!(
        other.judge_room(&evidence(REPORT, VCEK), &bound(), NOW),
        Err(Refusal::Measurement(measured()))
    );
    let mut other = bound();
    other[0] ^= 1;
    let policy = policy("milan", &measured(), TCB);
    assert_eq!(policy.judge_room(&evidence(REPORT, VCEK), &other, NOW), Err(Refusal::Replayed));
    let higher = format!("{TCB}\nversion_min = 1");
    assert_eq!(judged("milan", &higher, NOW), Err(Refusal::Version { found: 0, least: 1 }));
    assert!(matches!(judged("milan", TCB, NOW + 7 * YEAR), Err(Refusal::Ended(_))));
    assert!(matches!(judged("milan", TCB, NOW - 2 * YEAR), Err(Refusal::Early(_))));
    for newer in ["3, tee = 0, snp = 8, microcode = 116", "4, tee = 0, snp = 8, microcode = 115"] {
        let newer = format!("tcb_min = {{ bootloader = {newer} }}");
        assert!(matches!(judged("milan", &newer, NOW), Err(Refusal::Platform(_))));
    }
    let below = format!("{TCB}\nvmpl = 1");
    assert!(matches!(judged("milan", &below, NOW), Err(Refusal::Platform(_))));
    // Other roots of AMD's than that of the chip's product.
    assert_eq!(judged("genoa", TCB, NOW), Err(Refusal::Signature));
    let alone = Evidence::SevSnp { report: REPORT.to_vec().into(), certificates: Vec::new() };
    assert_eq!(policy.judge_room(&alone, &bound(), NOW), Err(Refusal::Malformed));
    let short = evidence(&REPORT[1..], VCEK);
    assert_eq!(policy.judge_room(&short, &bound(), NOW), Err(Refusal::Malformed));
}

#[test]
fn a_certificate_of_nobody_s_is_refused() {
    let key = rcgen::KeyPair::generate().unwrap();
    let own = rcgen::CertificateParams::new(Vec::new()).unwrap().self_signed(&key).unwrap();
    let policy = policy("milan", &measured(), TCB);
    let judged = policy.judge_room(&evidence(REPORT, own.der()), &bound(), NOW);
    assert_eq!(judged, Err(Refusal::Signature));
}

#[test]
fn tampered_evidence_is_refused_whichever_byte_it_is() {
    let policy = policy("milan", &measured(), TCB);
    for place in 0..REPORT.len() {
        let mut report = REPORT.to_vec();
        report[place] ^= 0x40;
        let refused = policy.judge_room(&evidence(&report, VCEK), &bound(), NOW);
        let named = matches!(refused, Err(Refusal::Signature | Refusal::Malformed));
        assert!(named, "byte {place}: {refused:?}");
    }
    for place in 0..VCEK.len() {
        let mut certificate = VCEK.to_vec();
        certificate[place] ^= 0x01;
        let refused = policy.judge_room(&evidence(REPORT, &certificate), &bound(), NOW);
        assert!(refused.is_err(), "byte {place} of the certificate");
    }
}

/// The chip of a test: it signs what is asked of it.
struct OwnChip(EcdsaKeyPair);

impl OwnChip {
    fn new() -> Self {
        let random = SystemRandom::new();
        let pkcs8 = EcdsaKeyPair::generate_pkcs8(&ECDSA_P384_SHA384_FIXED_SIGNING, &random).unwrap();
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P384_SHA384_FIXED_SIGNING, pkcs8.as_ref(), &random);
        Self(pair.unwrap())
    }

    /// The sample's report, changed and signed anew.
    fn report(&self, change: impl FnOnce(&mut [u8])) -> Vec<u8> {
        let mut report = REPORT.to_vec();
        change(&mut report);
        let signature = self.0.sign(&SystemRandom::new(), &report[..SIGNED_BYTES]).unwrap();
        for (half, start) in signature.as_ref().chunks(48).zip([SIGNED_BYTES, SIGNED_BYTES + 72]) {
            let number = half.iter().rev();
            report[start..start + 48].iter_mut().zip(number).for_each(|(to, from)| *to = *from);
        }
        report
    }

    /// What a certificate of it would have.
    fn certificate(&self) -> Chip {
        let certificate = CertificateDer::from(VCEK);
        let public = self.0.public_key().as_ref().to_vec();
        Chip { public, ..Chip::read(&certificate, Product::Milan).unwrap() }
    }

    fn claims(&self, change: impl FnOnce(&mut [u8])) -> Result<Claims, Refusal> {
        let report = self.report(change);
        let report = Report::read(&report, Product::Milan)?;
        self.certificate().signed(&report)?;
        Ok(report.claims())
    }
}

#[test]
fn debugging_and_migration_by_an_agent_are_seen() {
    let chip = OwnChip::new();
    assert!(!chip.claims(|_| {}).unwrap().debug);
    assert!(chip.claims(|report| report[0x0a] |= 0x08).unwrap().debug);
    assert!(chip.claims(|report| report[0x0a] |= 0x04).unwrap().debug);
}

#[test]
fn a_report_is_of_the_chip_and_the_firmware_that_the_certificate_is_for() {
    let chip = OwnChip::new();
    assert!(chip.claims(|report| report[0x1a0..0x1e0].fill(0)).is_ok(), "a chip may be hidden");
    assert_eq!(chip.claims(|report| report[0x1a0] ^= 1), Err(Refusal::Signature), "another chip");
    assert_eq!(chip.claims(|report| report[0x187] += 1), Err(Refusal::Signature), "other microcode");
    assert_eq!(chip.claims(|report| report[0x48] |= 1 << 2), Err(Refusal::Signature), "a cloud's key");
    assert_eq!(chip.claims(|report| report[0x34] = 2), Err(Refusal::Malformed), "another algorithm");
}

#[test]
fn versions_lie_where_the_product_has_them() {
    let bytes = [1, 2, 3, 4, 5, 6, 7, 8];
    let milan = Tcb { bootloader: 1, tee: 2, snp: 7, microcode: 8, fmc: 0 };
    assert_eq!([Product::Milan.tcb(bytes), Product::Genoa.tcb(bytes)], [milan, milan]);
    let turin = Tcb { fmc: 1, bootloader: 2, tee: 3, snp: 4, microcode: 8 };
    assert_eq!(Product::Turin.tcb(bytes), turin);
    assert!(turin.reaches(&Tcb { fmc: 0, ..turin }) && !Tcb { fmc: 0, ..turin }.reaches(&turin));
}

/// The roots are AMD's for these products, and sign the intermediate certificates.
#[test]
fn the_roots_sign_the_certificates_between() {
    for product in [Product::Milan, Product::Genoa, Product::Turin] {
        let [root, between] = product.authorities();
        let (_, root) = X509Certificate::from_der(root).unwrap();
        let (_, between) = X509Certificate::from_der(between).unwrap();
        for certificate in [&root, &between] {
            let signed = certificate.tbs_certificate.as_ref();
            let key = &root.public_key().subject_public_key.data;
            AmdPss.verify_signature(key, signed, &certificate.signature_value.data).unwrap();
        }
        assert!(root.subject().to_string().contains(&format!("ARK-{product:?}")));
    }
}
