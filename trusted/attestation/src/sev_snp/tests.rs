//! A report of a real processor, and reports of a chip that the tests are themselves: each refusal.
#![allow(clippy::unwrap_used)]

use super::*;
use crate::hexadecimal::written;
use crate::policy::{ReleasePolicy, Source};
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P384_SHA384_FIXED_SIGNING, EcdsaKeyPair, KeyPair};

const REPORT: &[u8] = include_bytes!("../../../../kat/attestation/sev_snp_report_milan.bin");
const VCEK: &[u8] = include_bytes!("../../../../kat/attestation/sev_snp_vcek_milan.der");

/// 1 June 2024.
const NOW: u64 = 1_717_200_000;
const YEAR: u64 = 365 * 24 * 60 * 60;

const TCB: &str = "tcb_min = { bootloader = 3, tee = 0, snp = 8, microcode = 115 }\nallow_smt = true";

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
    // Unless the policy says otherwise, cores are not shared.
    let alone = judged("milan", &TCB.replace("true", "false"), NOW);
    assert_eq!(alone, judged("milan", TCB.lines().next().unwrap(), NOW));
    assert!(matches!(&alone, Err(Refusal::Platform(said)) if said.contains("SMT")), "{alone:?}");
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
        self.judged(&accepting(), change)
    }

    fn judged(&self, policy: &SevSnp, change: impl FnOnce(&mut [u8])) -> Result<Claims, Refusal> {
        let report = self.report(change);
        let report = Report::read(&report, Product::Milan)?;
        self.certificate().signed(&report)?;
        policy.claims(&report)
    }
}

/// A policy that accepts the sample.
fn accepting() -> SevSnp {
    SevSnp {
        product: Product::Milan,
        tcb_min: Tcb { bootloader: 3, tee: 0, snp: 8, microcode: 115, fmc: None },
        vmpl: 0,
        allow_smt: true,
        platform_info: 0,
        id_key_digest: None,
    }
}

fn of_platform(judged: &Result<Claims, Refusal>, words: &str) -> bool {
    matches!(judged, Err(Refusal::Platform(said)) if said.contains(words))
}

#[test]
fn what_the_machine_s_own_policy_lets_the_host_do_is_seen() {
    let chip = OwnChip::new();
    assert!(!chip.claims(|_| {}).unwrap().debug);
    assert!(chip.claims(|report| report[0x0a] |= 0x08).unwrap().debug);
    let migrating = chip.claims(|report| report[0x0a] |= 0x04);
    assert!(of_platform(&migrating, "migrate"), "{migrating:?}");
    let strict = SevSnp { allow_smt: false, ..accepting() };
    assert!(chip.judged(&strict, |report| report[0x0a] &= !0x01).is_ok());
    let shared = chip.judged(&strict, |_| {});
    assert!(of_platform(&shared, "SMT"), "{shared:?}");
}

/// A machine may begin under old firmware that a chip then replaces, and a chip may be set back to what it has not committed to.
#[test]
fn firmware_is_new_enough_at_the_start_and_for_good() {
    let chip = OwnChip::new();
    for (place, name) in [(0x1e0, "committed"), (0x1f0, "first")] {
        let judged = chip.claims(|report| report[place] -= 1);
        assert!(of_platform(&judged, name), "{name}: {judged:?}");
        let judged = chip.claims(|report| report[place + 7] -= 1);
        assert!(of_platform(&judged, name), "{name}: {judged:?}");
        assert!(chip.claims(|report| report[place + 7] += 1).is_ok());
    }
}

/// Whoever starts a machine may sign its ID block with any key, and any version in it.
#[test]
fn a_version_counts_only_under_the_key_that_the_policy_names() {
    let chip = OwnChip::new();
    let own_block = |report: &mut [u8]| {
        report[0x04] = 9;
        report[0xe0..0x110].fill(5);
    };
    assert_eq!(chip.claims(own_block).unwrap().version, 0);
    let named = SevSnp { id_key_digest: Some([5; 48]), ..accepting() };
    assert_eq!(chip.judged(&named, own_block).unwrap().version, 9);
    let other = SevSnp { id_key_digest: Some([6; 48]), ..accepting() };
    let judged = chip.judged(&other, own_block);
    assert!(of_platform(&judged, &"06".repeat(48)), "{judged:?}");
}

#[test]
fn a_platform_has_what_the_policy_asks_it_to_have() {
    let chip = OwnChip::new();
    let strict = SevSnp { platform_info: 0x28, ..accepting() };
    let judged = chip.judged(&strict, |report| report[0x40] |= 0x08);
    assert!(of_platform(&judged, "0x20"), "{judged:?}");
    assert!(chip.judged(&strict, |report| report[0x40] |= 0x28).is_ok());
}

#[test]
fn a_policy_has_the_mediator_of_firmware_where_there_is_one() {
    let read = |product: &str, fmc: &str, more: &str| {
        let text = format!(
            "administrator = \"ada\"\n[[accept]]\nbackend = \"sev-snp\"\nproduct = \"{product}\"\nmeasurements = []\n\
             tcb_min = {{ bootloader = 1, tee = 0, snp = 1, microcode = 1{fmc} }}\n{more}"
        );
        ReleasePolicy::read(&text).map_err(|error| error.to_string())
    };
    assert!(read("turin", ", fmc = 1", "").is_ok() && read("genoa", "", "").is_ok());
    for (product, fmc) in [("turin", ""), ("milan", ", fmc = 1"), ("genoa", ", fmc = 0")] {
        let error = read(product, fmc, "").unwrap_err();
        assert!(error.contains("fmc"), "{product}: {error}");
    }
    let pinned = read("genoa", "", &format!("id_key_digest = \"{}\"", "0a".repeat(48))).unwrap();
    let Source::SevSnp(policy) = &pinned.accept[0].source else { panic!("of SEV-SNP") };
    assert_eq!(policy.id_key_digest, Some([10; 48]));
    let error = read("genoa", "", "id_key_digest = \"0a\"").unwrap_err();
    assert!(error.contains("96 hexadecimal"), "{error}");
}

#[test]
fn a_chip_s_identity_is_itself_before_it_is_a_string() {
    let mut raw = [7; 64];
    raw[..2].copy_from_slice(&[0x04, 62]);
    assert_eq!(read_identity(&raw, 64), Some(&raw[..]));
    let wrapped = [&[0x04, 64][..], &raw].concat();
    assert_eq!(read_identity(&wrapped, 64), Some(&raw[..]));
    let short = [0x04, 6, 1, 2, 3, 4, 5, 6];
    assert_eq!(read_identity(&short, Product::Turin.identity_bytes()), Some(&short[..]));
    assert_eq!(read_identity(&short, 64), None);
    assert_eq!(read_identity(&short, 6), Some(&short[2..]));
    assert_eq!(read_identity(&[], 8), None);
}

#[test]
fn a_report_is_of_the_chip_and_the_firmware_that_the_certificate_is_for() {
    let chip = OwnChip::new();
    assert!(chip.claims(|report| report[0x1a0..0x1e0].fill(0)).is_ok(), "a chip may be hidden");
    assert_eq!(chip.claims(|report| report[0x1a0] ^= 1), Err(Refusal::Signature), "another chip");
    let other = chip.claims(|report| report[0x187] += 1);
    assert!(of_platform(&other, "certificate"), "other microcode: {other:?}");
    assert_eq!(chip.claims(|report| report[0x48] |= 1 << 2), Err(Refusal::Signature), "a cloud's key");
    assert_eq!(chip.claims(|report| report[0x34] = 2), Err(Refusal::Malformed), "another algorithm");
}

#[test]
fn versions_lie_where_the_product_has_them() {
    let bytes = [1, 2, 3, 4, 5, 6, 7, 8];
    let milan = Tcb { bootloader: 1, tee: 2, snp: 7, microcode: 8, fmc: None };
    assert_eq!([Product::Milan.tcb(bytes), Product::Genoa.tcb(bytes)], [milan, milan]);
    let turin = Tcb { fmc: Some(1), bootloader: 2, tee: 3, snp: 4, microcode: 8 };
    assert_eq!(Product::Turin.tcb(bytes), turin);
    let older = Tcb { fmc: Some(0), ..turin };
    assert!(turin.reaches(&older) && !older.reaches(&turin));
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
