//! Each refusal, by evidence that differs in one thing from evidence that is accepted.
#![allow(clippy::unwrap_used)]

use super::*;
use arras_protocol::codec::encode;
use arras_protocol::evidence::Statement;
use ring::signature::{Ed25519KeyPair, KeyPair};

const NOW: u64 = 1_800_000_000;

fn root(seed: u8) -> Ed25519KeyPair {
    Ed25519KeyPair::from_seed_unchecked(&[seed; 32]).unwrap()
}

fn good() -> Statement {
    Statement { measurement: [1; 32], binding: [2; 32], made: NOW - 60, debug: false, version: 3 }
}

fn signed(statement: &Statement, by: u8) -> Evidence {
    let statement = encode(statement);
    let signature = root(by).sign(&Statement::signed(&statement)).as_ref().to_vec();
    Evidence::Process { statement: statement.into(), signature: signature.into() }
}

fn policy() -> ReleasePolicy {
    let public = hexadecimal::written(root(7).public_key().as_ref());
    let text = format!(
        "administrator = \"ada\"\nmax_age_seconds = 600\n\n[[accept]]\nbackend = \"process\"\nroot = \"{public}\"\n\
         measurements = [\"{}\"]\nversion_min = 3\n",
        "01".repeat(32)
    );
    ReleasePolicy::read(&text).unwrap()
}

fn judged(change: impl FnOnce(&mut Statement)) -> Result<Claims, Refusal> {
    let mut statement = good();
    change(&mut statement);
    policy().judge(&signed(&statement, 7), &[2; 32], NOW)
}

#[test]
fn what_agrees_with_the_policy_is_accepted() {
    let claims = judged(|_| {}).unwrap();
    assert_eq!(claims.measurement, [1; 32]);
    assert_eq!((claims.made, claims.version, claims.debug), (Some(NOW - 60), 3, false));
    assert!(judged(|statement| statement.made = NOW - 600).is_ok());
    assert!(judged(|statement| statement.made = NOW + CLOCKS_APART).is_ok());
}

#[test]
fn each_refusal_has_its_name() {
    assert_eq!(judged(|statement| statement.binding[31] ^= 1), Err(Refusal::Replayed));
    let other = Refusal::Measurement(format!("{}00", "01".repeat(31)));
    assert_eq!(judged(|statement| statement.measurement[31] = 0), Err(other));
    assert_eq!(judged(|statement| statement.debug = true), Err(Refusal::Debug));
    assert_eq!(judged(|statement| statement.version = 2), Err(Refusal::Version { found: 2, least: 3 }));
    let old = Refusal::Expired { age: 601, most: 600 };
    assert_eq!(judged(|statement| statement.made = NOW - 601), Err(old));
    assert_eq!(judged(|statement| statement.made = NOW + 301), Err(Refusal::Early(301)));
    let foreign = signed(&good(), 8);
    assert_eq!(policy().judge(&foreign, &[2; 32], NOW), Err(Refusal::Signature));
    let nothing = ReleasePolicy { accept: Vec::new(), ..policy() };
    assert_eq!(nothing.judge(&signed(&good(), 7), &[2; 32], NOW), Err(Refusal::Backend));
}

/// Whatever byte of evidence is changed, it is refused.
#[test]
fn tampered_evidence_is_refused_whichever_byte_it_is() {
    let whole = encode(&signed(&good(), 7));
    for place in 0..whole.len() {
        let mut tampered = whole.clone();
        tampered[place] ^= 0x40;
        let refused = Evidence::decode(&tampered).map(|evidence| policy().judge(&evidence, &[2; 32], NOW));
        assert!(matches!(refused, Err(_) | Ok(Err(Refusal::Signature))), "byte {place}: {refused:?}");
    }
}

#[test]
fn of_several_that_are_accepted_what_came_closest_says_why() {
    let mut policy = policy();
    let foreign =
        Accepted { source: Source::Process { root: DevelopmentRoot([9; 32]) }, ..policy.accept[0].clone() };
    policy.accept.insert(0, foreign.clone());
    policy.accept.push(foreign);
    let mut statement = good();
    assert!(policy.judge(&signed(&statement, 7), &[2; 32], NOW).is_ok());
    statement.debug = true;
    assert_eq!(policy.judge(&signed(&statement, 7), &[2; 32], NOW), Err(Refusal::Debug));
    policy.accept[1].allow_debug = true;
    assert!(policy.judge(&signed(&statement, 7), &[2; 32], NOW).is_ok());
}

#[test]
fn a_policy_says_what_is_wrong_with_it() {
    for (text, said) in [
        ("max_age_seconds = 1", "administrator"),
        ("administrator = \"ada\"\nmaximum = 1", "maximum"),
        ("administrator = \"ada\"\n[[accept]]\nbackend = \"process\"", "measurements"),
        ("administrator = \"ada\"\n[[accept]]\nbackend = \"magic\"\nmeasurements = []", "magic"),
        (
            "administrator = \"ada\"\n[[accept]]\nbackend = \"process\"\nmeasurements = []\nroot = \"12\"",
            "64 hexadecimal",
        ),
        (
            "administrator = \"ada\"\n[[accept]]\nbackend = \"sev-snp\"\nmeasurements = []\nproduct = \"rome\"",
            "rome",
        ),
        (
            "administrator = \"ada\"\n[[accept]]\nbackend = \"sev-snp\"\nmeasurements = []\nproduct = \"milan\"\n\
             unheard = 1",
            "unheard",
        ),
    ] {
        let error = ReleasePolicy::read(text).unwrap_err().to_string();
        assert!(error.contains(said), "{error}");
    }
}
