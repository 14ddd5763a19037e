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

/// What a quote is of: behind its header, and in version 5 behind the report's kind and length.
fn report(quote: &[u8]) -> &[u8] {
    &quote[if quote[0] == 5 { 54 } else { 48 }..]
}

/// Where Intel's structures have what the quotes are of.
fn mrenclave(quote: &[u8]) -> String {
    written(&report(quote)[64..96])
}

fn product(quote: &[u8]) -> String {
    let report = report(quote);
    written(&[&report[128..160], &[report[257], report[256]]].concat())
}

fn registers(quote: &[u8]) -> String {
    let report = report(quote);
    written(&[&report[136..184], &report[328..520]].concat())
}

fn bound(quote: &[u8], backend: &str) -> [u8; 64] {
    let place = if backend == "sgx" { 320 } else { 520 };
    report(quote)[place..place + 64].try_into().unwrap()
}

/// Of each sample, what its tests look for is what the library finds: of versions 3, 4 and 5.
#[test]
fn what_a_quote_is_of_is_where_it_is_looked_for() {
    let said = |quote: &[u8]| match Quote::parse(quote).unwrap().report {
        Report::SgxEnclave(report) => enclave(&report).unwrap(),
        other => machine(other.as_td10().unwrap()).unwrap(),
    };
    let versions = [SGX, TDX, OLD].map(|quote| quote[0]);
    assert_eq!(versions, [3, 4, 5]);
    let of_enclave = said(SGX);
    assert_eq!(written(&of_enclave.measurement), mrenclave(SGX));
    assert_eq!(written(&of_enclave.product.unwrap().name), product(SGX));
    assert_eq!(of_enclave.binding, bound(SGX, "sgx"));
    for quote in [TDX, OLD] {
        let of_machine = said(quote);
        assert_eq!(written(&of_machine.measurement), registers(quote));
        assert_eq!(of_machine.binding, bound(quote, "tdx"));
    }
}

fn policy(backend: &str, measurement: &str, more: &str) -> ReleasePolicy {
    let text = format!(
        "administrator = \"ada\"\n[[accept]]\nbackend = \"{backend}\"\nmeasurements = [\"{measurement}\"]\n{more}"
    );
    ReleasePolicy::read(&text).unwrap()
}

/// Intel's evaluation that the samples' collateral is of.
const EVALUATION: &str = "evaluation_min = 17\n";
/// What the sample's platform was told, and a policy that puts up with it.
const HARDENING: &str = "statuses = [\"ConfigurationAndSWHardeningNeeded\"]\nevaluation_min = 17\n";

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
    let named = claims.product.unwrap();
    assert_eq!(written(&named.name), product(SGX));
    assert_eq!(named.version, u32::from(u16::from_le_bytes([SGX[306], SGX[307]])));
    assert!(sgx(&product(SGX), &format!("{HARDENING}version_min = 0"), NOW).is_ok());
    assert_eq!(written(&tdx(&registers(TDX), EVALUATION, NOW).unwrap().measurement), registers(TDX));
}

#[test]
fn each_refusal_has_its_name() {
    let other = "00".repeat(32);
    assert_eq!(sgx(&other, HARDENING, NOW), Err(Refusal::Measurement(mrenclave(SGX))));
    assert_eq!(tdx(&"00".repeat(240), EVALUATION, NOW), Err(Refusal::Measurement(registers(TDX))));
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
    let Err(Refusal::Platform(said)) = sgx(&mrenclave(SGX), EVALUATION, NOW) else { panic!("accepted") };
    assert!(said.contains("ConfigurationAndSWHardeningNeeded") && said.contains("INTEL-SA-00615"), "{said}");
    let old = policy("tdx", &registers(OLD), EVALUATION);
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
    assert!(matches!(tdx(&registers(TDX), EVALUATION, NOW + 60 * DAY), Err(Refusal::Ended(_))));
    assert!(matches!(tdx(&registers(TDX), EVALUATION, NOW - 60 * DAY), Err(Refusal::Early(_))));
}

#[test]
fn the_policy_s_collateral_goes_before_what_comes_with_the_evidence() {
    let with = |collateral: &str, evidence: &Evidence| {
        let policy = policy("tdx", &registers(TDX), &format!("collateral = '''{collateral}'''"));
        policy.judge_room(evidence, &bound(TDX, "tdx"), NOW)
    };
    assert!(with(TDX_COLLATERAL, &evidence(TDX, "")).is_ok());
    let Err(Refusal::Quote(said)) = with(SGX_COLLATERAL, &evidence(TDX, TDX_COLLATERAL)) else {
        panic!("accepted, or refused for something else")
    };
    assert!(said.contains("QE Identity"), "{said}");
}

fn up_to_date_of(evaluation: u32) -> Dcap {
    Dcap { collateral: None, statuses: vec![TcbStatus::UpToDate], evaluation_min: Some(evaluation) }
}

#[test]
fn quotes_under_another_root_are_refused() {
    let key = rcgen::KeyPair::generate().unwrap();
    let root = rcgen::CertificateParams::new(Vec::new()).unwrap().self_signed(&key).unwrap();
    let policy = up_to_date_of(17);
    let quotes = QuoteVerifier::new_with_config(root.der().to_vec());
    let verifier = DcapVerifier { policy: &policy, kind: Kind::Tdx, quotes };
    let refused = verifier.verify(&evidence(TDX, TDX_COLLATERAL), NOW);
    assert!(matches!(refused, Err(Refusal::Quote(_))), "{refused:?}");
    assert!(policy.verifier(Kind::Tdx).verify(&evidence(TDX, TDX_COLLATERAL), NOW).is_ok());
}

/// Header, report, signatures, keys and the quoting enclave's report; behind them are certificates in PEM, which have several spellings.
#[test]
fn a_tampered_quote_is_refused_whichever_byte_it_is() {
    let dcap = Dcap {
        collateral: None,
        statuses: vec![TcbStatus::ConfigurationAndSWHardeningNeeded],
        evaluation_min: Some(17),
    };
    for place in (0..1046).filter(|place| !(432..436).contains(place)) {
        let mut quote = SGX.to_vec();
        quote[place] ^= 0x40;
        let refused = dcap.verifier(Kind::Sgx).verify(&evidence(&quote, SGX_COLLATERAL), NOW);
        let named = matches!(refused, Err(Refusal::Quote(_) | Refusal::Malformed | Refusal::Backend));
        assert!(named, "byte {place}: {refused:?}");
    }
}

#[test]
fn tampered_collateral_is_refused() {
    let dcap = up_to_date_of(17);
    for (what, other) in [
        ("\\\"UpToDate\\\"", "\\\"OutOfDate\\\""),
        ("\\\"tcbEvaluationDataNumber\\\":17", "\\\"tcbEvaluationDataNumber\\\":99"),
        ("\\\"isvprodid\\\":2", "\\\"isvprodid\\\":3"),
    ] {
        assert!(TDX_COLLATERAL.contains(what), "{what}");
        let tampered = TDX_COLLATERAL.replacen(what, other, 1);
        let refused = dcap.verifier(Kind::Tdx).verify(&evidence(TDX, &tampered), NOW);
        assert!(matches!(refused, Err(Refusal::Quote(_))), "{what}: {refused:?}");
    }
}

/// Whoever brings the collateral may choose an old evaluation, and whoever signs a product may sign an old version.
#[test]
fn a_policy_names_what_a_host_could_choose() {
    let read = |backend: &str, measurement: &str, more: &str| {
        let text = format!(
            "administrator = \"ada\"\n[[accept]]\nbackend = \"{backend}\"\nmeasurements = [\"{measurement}\"]\n{more}"
        );
        ReleasePolicy::read(&text).map_err(|error| error.to_string())
    };
    for (backend, measurement) in [("sgx", mrenclave(SGX)), ("tdx", registers(TDX))] {
        let error = read(backend, &measurement, "").unwrap_err();
        assert!(error.contains("evaluation_min"), "{error}");
        assert!(read(backend, &measurement, "collateral = \"{}\"").is_ok());
        assert!(read(backend, &measurement, EVALUATION).is_ok());
    }
    let error = read("sgx", &product(SGX), EVALUATION).unwrap_err();
    assert!(error.contains("version_min"), "{error}");
    assert!(read("sgx", &product(SGX), &format!("{EVALUATION}version_min = 2")).is_ok());
}

#[test]
fn the_status_of_the_quoting_enclave_is_asked_for_too() {
    let (policy, collateral) = (up_to_date_of(17), serde_json::from_str(TDX_COLLATERAL).unwrap());
    let verifier = policy.verifier(Kind::Tdx);
    let mut claims = verifier.claims(TDX, &collateral, NOW).unwrap();
    assert_eq!(verifier.platform(&claims), Ok(()));
    // The library's verdict is the same with it.
    claims.qe.tcb_level.tcb_status = TcbStatus::ConfigurationNeeded;
    let refused = verifier.platform(&claims);
    assert!(matches!(&refused, Err(Refusal::Platform(said)) if said.contains("quoting")), "{refused:?}");
    let statuses = vec![TcbStatus::UpToDate, TcbStatus::ConfigurationNeeded];
    let lenient = Dcap { statuses, ..policy };
    assert_eq!(lenient.verifier(Kind::Tdx).platform(&claims), Ok(()));
}

#[test]
fn what_the_library_says_is_told_whole_and_harmless() {
    let said = "TDX module ISVSVN 3 is below minimum required from TDX module TCB levels";
    let error = anyhow::Error::msg(said).context("TDX module TCB level check");
    let told = format!("TDX module TCB level check: {said}");
    assert_eq!(named(&error), Refusal::Platform(told));
    let error = anyhow::Error::msg("TD migration is enabled");
    assert!(matches!(named(&error), Refusal::Platform(_)));
    let error = anyhow::Error::msg(format!("unknown variant `\x1b[2J\n{}`", "x".repeat(1000)));
    let Refusal::Quote(told) = named(&error) else { panic!("of the platform") };
    assert!(told.starts_with("unknown variant `[2Jxxx") && told.len() == SAID_MOST, "{told}");
}

fn sgx_report() -> EnclaveReport {
    let Report::SgxEnclave(report) = Quote::parse(SGX).unwrap().report else { panic!("of SGX") };
    report
}

fn tdx_report() -> TDReport10 {
    Quote::parse(TDX).unwrap().report.as_td10().copied().unwrap()
}

/// The signer vouches for the version. Another can sign the same program, with any.
#[test]
fn a_version_counts_only_under_its_signer_s_name() {
    let mut report = sgx_report();
    report.isv_svn = 7;
    let claims = enclave(&report).unwrap();
    let by_program = policy("sgx", &mrenclave(SGX), HARDENING);
    assert_eq!(by_program.accept[0].version(&claims), Some(0));
    let by_product = policy("sgx", &product(SGX), &format!("{HARDENING}version_min = 7"));
    assert_eq!(by_product.accept[0].version(&claims), Some(7));
    let other = policy("sgx", &"00".repeat(32), HARDENING);
    assert_eq!(other.accept[0].version(&claims), None);
}

/// No samples of what follows are at hand: reports are, with the bits set.
#[test]
fn debug_mode_is_seen() {
    let mut report = sgx_report();
    assert!(!enclave(&report).unwrap().debug);
    report.attributes[0] |= SGX_DEBUG;
    assert!(enclave(&report).unwrap().debug);
    let mut report = tdx_report();
    assert!(!machine(&report).unwrap().debug);
    report.td_attributes[0] |= 1;
    assert!(machine(&report).unwrap().debug);
}

#[test]
fn enclaves_that_are_set_up_otherwise_are_refused() {
    let [mut narrow, mut configured, mut other] = [sgx_report(); 3];
    narrow.attributes[0] &= !SGX_64_BITS;
    configured.attributes[0] |= SGX_CONFIGURED;
    other.misc_select = 1;
    for (what, report) in [("64 bits", narrow), ("KSS", configured), ("MISCSELECT", other)] {
        let refused = enclave(&report);
        assert!(
            matches!(&refused, Err(Refusal::Platform(said)) if said.contains(what)),
            "{what}: {refused:?}"
        );
    }
}

#[test]
fn machines_with_other_attributes_are_refused() {
    for bit in 0..64_u32 {
        let mut report = tdx_report();
        let attributes = u64::from_le_bytes(report.td_attributes) | 1 << bit;
        report.td_attributes = attributes.to_le_bytes();
        let refused = matches!(machine(&report), Err(Refusal::Platform(_)));
        assert_eq!(refused, bit >= 8 && ![28, 30].contains(&bit), "bit {bit}");
    }
}
