//! Quotes of real processors, with Intel's collateral of their time: each refusal.
#![allow(clippy::unwrap_used)]

use super::*;
use crate::hexadecimal::written;
use crate::policy::ReleasePolicy;

const SGX: &[u8] = include_bytes!("../../../../kat/attestation/sgx_quote.bin");
const SGX_COLLATERAL: &str = include_str!("../../../../kat/attestation/sgx_quote_collateral.json");
const TDX: &[u8] = include_bytes!("../../../../kat/attestation/tdx_quote.bin");
const TDX_COLLATERAL: &str = include_str!("../../../../kat/attestation/tdx_quote_collateral.json");
const OLD: &[u8] = include_bytes!("../../../../kat/attestation/tdx_quote_outdated.bin");
const OLD_COLLATERAL: &str = include_str!("../../../../kat/attestation/tdx_quote_outdated_collateral.json");

/// When the first two held: 25 June 2025.
const NOW: u64 = 1_750_809_600;
/// When the third did: 20 February 2026.
const OLD_NOW: u64 = 1_771_545_600;
const DAY: u64 = 24 * 60 * 60;

fn evidence(quote: &[u8], collateral: &str) -> Evidence {
    Evidence::Dcap { quote: quote.to_vec().into(), collateral: collateral.as_bytes().to_vec().into() }
}

/// Where Intel's structures have what the quotes are of.
fn mrenclave(quote: &[u8]) -> String {
    written(&quote[112..144])
}

fn product(quote: &[u8]) -> String {
    written(&[&quote[176..208], &[quote[305], quote[304]]].concat())
}

fn registers(quote: &[u8]) -> String {
    written(&[&quote[184..232], &quote[376..568]].concat())
}

fn bound(quote: &[u8], backend: &str) -> [u8; 64] {
    let place = if backend == "sgx" { 368 } else { 568 };
    quote[place..place + 64].try_into().unwrap()
}

fn policy(backend: &str, measurement: &str, more: &str) -> ReleasePolicy {
    let text = format!(
        "administrator = \"ada\"\n[[accept]]\nbackend = \"{backend}\"\nmeasurements = [\"{measurement}\"]\n{more}"
    );
    ReleasePolicy::read(&text).unwrap()
}

/// What the sample's platform was told, and a policy that puts up with it.
const HARDENING: &str = "statuses = [\"ConfigurationAndSWHardeningNeeded\"]\n";

fn sgx(measurement: &str, more: &str, now: u64) -> Result<Claims, Refusal> {
    policy("sgx", measurement, more).judge_room(&evidence(SGX, SGX_COLLATERAL), &bound(SGX, "sgx"), now)
}

fn tdx(measurement: &str, more: &str, now: u64) -> Result<Claims, Refusal> {
    policy("tdx", measurement, more).judge_room(&evidence(TDX, TDX_COLLATERAL), &bound(TDX, "tdx"), now)
}

#[test]
fn what_agrees_with_the_policy_is_accepted() {
    let claims = sgx(&mrenclave(SGX), HARDENING, NOW).unwrap();
    assert_eq!(written(&claims.measurement), mrenclave(SGX));
    assert_eq!((claims.debug, claims.made), (false, None));
    assert_eq!(claims.version, u32::from(u16::from_le_bytes([SGX[306], SGX[307]])));
    assert!(sgx(&product(SGX), HARDENING, NOW).is_ok());
    assert_eq!(written(&tdx(&registers(TDX), "", NOW).unwrap().measurement), registers(TDX));
}

#[test]
fn each_refusal_has_its_name() {
    let other = "00".repeat(32);
    assert_eq!(sgx(&other, HARDENING, NOW), Err(Refusal::Measurement(mrenclave(SGX))));
    assert_eq!(tdx(&"00".repeat(240), "", NOW), Err(Refusal::Measurement(registers(TDX))));
    let mut bound = bound(SGX, "sgx");
    bound[63] ^= 1;
    let policy = policy("sgx", &mrenclave(SGX), HARDENING);
    assert_eq!(policy.judge_room(&evidence(SGX, SGX_COLLATERAL), &bound, NOW), Err(Refusal::Replayed));
    let higher = format!("{HARDENING}version_min = 9999");
    assert!(matches!(sgx(&mrenclave(SGX), &higher, NOW), Err(Refusal::Version { least: 9999, .. })));
    let bare = evidence(SGX, "");
    assert_eq!(policy.judge_room(&bare, &bound, NOW), Err(Refusal::Collateral));
    let machine = evidence(TDX, TDX_COLLATERAL);
    assert_eq!(policy.judge_room(&machine, &bound, NOW), Err(Refusal::Backend));
    let nothing = evidence(&SGX[..40], SGX_COLLATERAL);
    assert_eq!(policy.judge_room(&nothing, &bound, NOW), Err(Refusal::Malformed));
    let nothing = evidence(SGX, "{}");
    assert_eq!(policy.judge_room(&nothing, &bound, NOW), Err(Refusal::Malformed));
}

#[test]
fn a_platform_whose_firmware_is_too_old_is_refused() {
    let Err(Refusal::Platform(said)) = sgx(&mrenclave(SGX), "", NOW) else { panic!("accepted") };
    assert!(said.contains("ConfigurationAndSWHardeningNeeded") && said.contains("INTEL-SA-00615"), "{said}");
    let old = policy("tdx", &registers(OLD), "");
    let judged = old.judge_room(&evidence(OLD, OLD_COLLATERAL), &bound(OLD, "tdx"), OLD_NOW);
    assert!(matches!(&judged, Err(Refusal::Platform(said)) if said.contains("TCB level")), "{judged:?}");
    // Collateral that holds still, when newer says more.
    let judged = tdx(&registers(TDX), "evaluation_min = 18", NOW);
    assert!(matches!(&judged, Err(Refusal::Platform(said)) if said.contains("17")), "{judged:?}");
    assert!(tdx(&registers(TDX), "evaluation_min = 17", NOW).is_ok());
}

#[test]
fn collateral_that_has_ended_or_not_begun_is_refused_by_the_clock_given() {
    assert!(matches!(sgx(&mrenclave(SGX), HARDENING, NOW + 60 * DAY), Err(Refusal::Ended(_))));
    assert!(matches!(tdx(&registers(TDX), "", NOW + 60 * DAY), Err(Refusal::Ended(_))));
    assert!(matches!(tdx(&registers(TDX), "", NOW - 60 * DAY), Err(Refusal::Early(_))));
}

#[test]
fn the_policy_s_collateral_goes_before_what_comes_with_the_evidence() {
    let with = |collateral: &str, evidence: &Evidence| {
        let policy = policy("tdx", &registers(TDX), &format!("collateral = '''{collateral}'''"));
        policy.judge_room(evidence, &bound(TDX, "tdx"), NOW)
    };
    assert!(with(TDX_COLLATERAL, &evidence(TDX, "")).is_ok());
    assert_eq!(with(SGX_COLLATERAL, &evidence(TDX, TDX_COLLATERAL)), Err(Refusal::Signature));
}

#[test]
fn quotes_under_another_root_are_refused() {
    let key = rcgen::KeyPair::generate().unwrap();
    let root = rcgen::CertificateParams::new(Vec::new()).unwrap().self_signed(&key).unwrap();
    let policy = Dcap { collateral: None, statuses: vec![TcbStatus::UpToDate], evaluation_min: 0 };
    let quotes = QuoteVerifier::new_with_config(root.der().to_vec());
    let verifier = DcapVerifier { policy: &policy, kind: Kind::Tdx, quotes };
    assert_eq!(verifier.verify(&evidence(TDX, TDX_COLLATERAL), NOW), Err(Refusal::Signature));
    assert!(policy.verifier(Kind::Tdx).verify(&evidence(TDX, TDX_COLLATERAL), NOW).is_ok());
}

/// Header, report, signatures, keys and the quoting enclave's report; behind them are certificates in PEM, which have several spellings.
#[test]
fn a_tampered_quote_is_refused_whichever_byte_it_is() {
    let dcap = Dcap {
        collateral: None,
        statuses: vec![TcbStatus::ConfigurationAndSWHardeningNeeded],
        evaluation_min: 0,
    };
    for place in (0..1046).filter(|place| !(432..436).contains(place)) {
        let mut quote = SGX.to_vec();
        quote[place] ^= 0x40;
        let refused = dcap.verifier(Kind::Sgx).verify(&evidence(&quote, SGX_COLLATERAL), NOW);
        let named = matches!(refused, Err(Refusal::Signature | Refusal::Malformed | Refusal::Backend));
        assert!(named, "byte {place}: {refused:?}");
    }
}

#[test]
fn tampered_collateral_is_refused() {
    let dcap = Dcap { collateral: None, statuses: vec![TcbStatus::UpToDate], evaluation_min: 0 };
    for (what, other) in [
        ("\\\"UpToDate\\\"", "\\\"OutOfDate\\\""),
        ("\\\"tcbEvaluationDataNumber\\\":17", "\\\"tcbEvaluationDataNumber\\\":99"),
        ("\\\"isvprodid\\\":2", "\\\"isvprodid\\\":3"),
    ] {
        assert!(TDX_COLLATERAL.contains(what), "{what}");
        let tampered = TDX_COLLATERAL.replacen(what, other, 1);
        let refused = dcap.verifier(Kind::Tdx).verify(&evidence(TDX, &tampered), NOW);
        assert_eq!(refused, Err(Refusal::Signature), "{what}");
    }
}

/// No sample of a quote in debug mode is at hand: reports are, with the bit set.
#[test]
fn debug_mode_is_seen() {
    let Report::SgxEnclave(mut report) = Quote::parse(SGX).unwrap().report else { panic!("of SGX") };
    assert!(!enclave(&report).debug);
    report.attributes[0] |= SGX_DEBUG;
    assert!(enclave(&report).debug);
    let Some(mut report) = Quote::parse(TDX).unwrap().report.as_td10().copied() else { panic!("of TDX") };
    assert!(!machine(&report).debug);
    report.td_attributes[0] |= 1;
    assert!(machine(&report).debug);
}
