//! Attested channels, as far as the host has a part in them.

use arras_iee::{Channels, Fault, Iee};
use arras_keys::Key;
use arras_protocol::Blob;
use arras_protocol::iee::{AskId, ConnectionId, Incoming, Outgoing};
use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair};

const NOW: u64 = 1_800_000_000;

fn authority() -> Vec<u8> {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.self_signed(&KeyPair::generate().unwrap()).unwrap().der().to_vec()
}

fn launch(authority: &[u8], administrator: &str) -> (Iee, Result<Vec<Outgoing>, Fault>) {
    let mut iee = Iee::new(Key::take_from(&mut [7; 32]), Channels::Attested { debug: false });
    let (administrator, authority) = (administrator.into(), authority.to_vec().into());
    let out = iee.receive(Incoming::Launch { memory_bytes: 32 << 20, administrator, authority });
    (iee, out)
}

fn question(out: &[Outgoing]) -> (AskId, [u8; 32]) {
    match out {
        [Outgoing::Attest { ask, binding, debug: false, version: 1.. }] => (*ask, *binding),
        other => panic!("{other:?}"),
    }
}

fn evidence(ask: AskId) -> Incoming {
    Incoming::Evidence { ask, evidence: Blob(vec![1; 300]) }
}

/// An enclave whose state is loaded.
fn ready() -> Iee {
    let (mut iee, out) = launch(&authority(), "ada");
    let mut next: Vec<Incoming> = vec![evidence(question(&out.unwrap()).0), Incoming::Time(NOW)];
    let mut ready = false;
    while !next.is_empty() {
        for message in std::mem::take(&mut next) {
            for said in iee.receive(message).unwrap() {
                match said {
                    Outgoing::ReadCounter(ask) => next.push(Incoming::Counter { ask, value: 0 }),
                    Outgoing::RaiseCounter { ask, from, .. } => {
                        next.push(Incoming::Counter { ask, value: from });
                    }
                    Outgoing::Load { ask, .. } => next.push(Incoming::Loaded { ask, state: None }),
                    Outgoing::Save { ask, .. } => next.push(Incoming::Done(ask)),
                    Outgoing::Attest { ask, .. } => next.push(evidence(ask)),
                    Outgoing::Ready => ready = true,
                    other => panic!("{other:?}"),
                }
            }
        }
    }
    assert!(ready);
    iee
}

#[test]
fn evidence_binds_a_new_key_and_whom_the_enclave_is_for() {
    let one = authority();
    let bound = |authority: &[u8], administrator| question(&launch(authority, administrator).1.unwrap()).1;
    assert_ne!(bound(&one, "ada"), bound(&one, "ada"), "the key is that of an earlier start");
    assert_eq!(launch(b"no certificate", "ada").1, Err(Fault::Authority));
    assert_eq!(launch(b"", "ada").1, Err(Fault::Authority));
}

#[test]
fn nothing_is_loaded_before_there_is_evidence_and_none_is_taken_unasked() {
    let (mut iee, out) = launch(&authority(), "ada");
    let (ask, _) = question(&out.unwrap());
    assert!(matches!(iee.receive(evidence(ask)).unwrap()[..], [Outgoing::ReadCounter(_)]));
    assert_eq!(iee.receive(evidence(ask)), Err(Fault::Unasked));
    let (mut iee, out) = launch(&authority(), "ada");
    question(&out.unwrap());
    let again = Incoming::Launch {
        memory_bytes: 32 << 20,
        administrator: "eve".into(),
        authority: authority().into(),
    };
    assert_eq!(iee.receive(again), Err(Fault::OutOfTurn));
    let (mut iee, out) = launch(&authority(), "ada");
    question(&out.unwrap());
    assert_eq!(iee.receive(Incoming::Connected(ConnectionId(1))), Err(Fault::OutOfTurn));
}

#[test]
fn evidence_is_renewed_by_the_host_s_clock() {
    let mut iee = ready();
    let begun = NOW + 1000;
    let out = iee.receive(Incoming::Time(begun)).unwrap();
    let (ask, _) = question(&out);
    // Asked once.
    assert_eq!(iee.receive(Incoming::Time(begun + 1)).unwrap(), []);
    assert_eq!(iee.receive(evidence(ask)).unwrap(), []);
    assert_eq!(iee.receive(Incoming::Time(begun + 599)).unwrap(), []);
    question(&iee.receive(Incoming::Time(begun + 700)).unwrap());
}

#[test]
fn evidence_is_renewed_after_the_clock_was_far_ahead_for_a_while() {
    let mut iee = ready();
    let (ask, _) = question(&iee.receive(Incoming::Time(NOW + 100_000_000)).unwrap());
    assert_eq!(iee.receive(evidence(ask)).unwrap(), []);
    let early = ConnectionId(1);
    assert_eq!(iee.receive(Incoming::Connected(early)).unwrap(), []);
    assert_eq!(iee.receive(Incoming::Time(NOW)).unwrap(), []);
    assert_eq!(iee.receive(Incoming::Time(NOW + 20)).unwrap(), []);
    assert_eq!(iee.receive(Incoming::Time(NOW + 40)).unwrap(), [Outgoing::Close(early)]);
    assert_eq!(iee.receive(Incoming::Time(NOW + 599)).unwrap(), []);
    question(&iee.receive(Incoming::Time(NOW + 601)).unwrap());
}

#[test]
fn who_begins_a_handshake_and_does_not_end_it_is_let_go() {
    let mut iee = ready();
    let (early, late) = (ConnectionId(1), ConnectionId(2));
    assert_eq!(iee.receive(Incoming::Connected(early)).unwrap(), []);
    assert_eq!(iee.receive(Incoming::Time(NOW + 20)).unwrap(), []);
    assert_eq!(iee.receive(Incoming::Connected(late)).unwrap(), []);
    assert_eq!(iee.receive(Incoming::Time(NOW + 40)).unwrap(), [Outgoing::Close(early)]);
    // What is no record at all ends its connection at once, with an alert.
    let nonsense = Incoming::FromClient { connection: late, bytes: Blob(vec![77; 100]) };
    let out = iee.receive(nonsense).unwrap();
    assert_eq!(out.last(), Some(&Outgoing::Close(late)), "{out:?}");
}

/// The last change may be unfinished until the enclave is ready: nobody searches before.
#[test]
fn who_comes_while_the_start_is_being_logged_is_not_heard() {
    let (mut iee, out) = launch(&authority(), "ada");
    let mut next = vec![evidence(question(&out.unwrap()).0)];
    let saving = loop {
        match &iee.receive(next.remove(0)).unwrap()[..] {
            [Outgoing::ReadCounter(ask)] => next.push(Incoming::Counter { ask: *ask, value: 0 }),
            [Outgoing::Load { ask, .. }] => next.push(Incoming::Loaded { ask: *ask, state: None }),
            [Outgoing::Save { ask, .. }] => break *ask,
            other => panic!("{other:?}"),
        }
    };
    let connection = ConnectionId(1);
    let nonsense = Incoming::FromClient { connection, bytes: Blob(vec![77; 100]) };
    assert_eq!(iee.receive(nonsense).unwrap(), []);
    let out = iee.receive(Incoming::Done(saving)).unwrap();
    let [Outgoing::RaiseCounter { .. }] = out[..] else { panic!("{out:?}") };
    assert_eq!(iee.receive(Incoming::Connected(connection)), Err(Fault::OutOfTurn));
}
