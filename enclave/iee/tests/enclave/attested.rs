//! Attested channels, as far as the host has a part in them.

use arras_iee::{Channels, Fault, Iee};
use arras_keys::Key;
use arras_protocol::Blob;
use arras_protocol::iee::{AskId, CONNECTIONS_MAX, ConnectionId, Incoming, Outgoing, counter_value};
use arras_schemes::bisen::channel::Plain;
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

fn question(out: &[Outgoing]) -> [u8; 32] {
    match out {
        [Outgoing::Attest { public, binding, debug: false, version: 1.., quote }]
            if public.len() > 32 && quote.is_empty() =>
        {
            *binding
        }
        other => panic!("{other:?}"),
    }
}

/// One that says nothing: the enclave does not look at it.
fn certificate() -> Incoming {
    Incoming::Certificate(Blob(vec![1; 300]))
}

fn answer(ask: AskId, bytes: Option<Blob>) -> Incoming {
    Incoming::Answer { ask, bytes }
}

fn connected(number: u64) -> Incoming {
    Incoming::Connected { connection: ConnectionId(number), seconds: NOW }
}

/// An enclave whose state is loaded.
fn ready() -> Iee {
    let (mut iee, out) = launch(&authority(), "ada");
    question(&out.unwrap());
    let mut next: Vec<Incoming> = vec![certificate()];
    let mut ready = false;
    while !next.is_empty() {
        for message in std::mem::take(&mut next) {
            for said in iee.receive(message).unwrap() {
                match said {
                    Outgoing::ReadCounter(ask) => next.push(answer(ask, counter_value(0))),
                    Outgoing::RaiseCounter { ask, from, .. } => next.push(answer(ask, counter_value(from))),
                    Outgoing::Load { ask, .. } | Outgoing::Save { ask, .. } => next.push(answer(ask, None)),
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
    let bound = |authority: &[u8], administrator| question(&launch(authority, administrator).1.unwrap());
    assert_ne!(bound(&one, "ada"), bound(&one, "ada"), "the key is that of an earlier start");
    assert_eq!(launch(b"no certificate", "ada").1, Err(Fault::Authority));
    assert_eq!(launch(b"", "ada").1, Err(Fault::Authority));
}

#[test]
fn nothing_is_loaded_and_nobody_heard_before_there_is_a_certificate() {
    let (mut iee, out) = launch(&authority(), "ada");
    question(&out.unwrap());
    assert!(matches!(iee.receive(certificate()).unwrap()[..], [Outgoing::ReadCounter(_)]));
    let mut plain = Iee::new(Key::take_from(&mut [7; 32]), Channels::Other(Plain::enclave));
    assert_eq!(plain.receive(certificate()), Err(Fault::OutOfTurn));
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
    assert_eq!(iee.receive(connected(1)), Err(Fault::OutOfTurn));
}

#[test]
fn what_is_no_record_ends_its_connection() {
    let mut iee = ready();
    let connection = ConnectionId(1);
    assert_eq!(iee.receive(connected(connection.0)).unwrap(), []);
    // A later certificate is for those that come after it.
    assert_eq!(iee.receive(certificate()).unwrap(), []);
    // At once, with an alert.
    let nonsense = Incoming::FromClient { connection, bytes: Blob(vec![77; 100]) };
    let out = iee.receive(nonsense).unwrap();
    assert_eq!(out.last(), Some(&Outgoing::Close(connection)), "{out:?}");
}

/// That there are not too many is the host's business, and its fault.
#[test]
fn more_connections_than_may_be_are_none_of_the_enclave_s() {
    let mut iee = ready();
    for number in 0..CONNECTIONS_MAX as u64 {
        assert_eq!(iee.receive(connected(number)).unwrap(), []);
    }
    let one_more = connected(CONNECTIONS_MAX as u64);
    assert_eq!(iee.receive(one_more), Err(Fault::OutOfTurn));
}

/// The last change may be unfinished until the enclave is ready: nobody searches before.
#[test]
fn who_comes_while_the_start_is_being_logged_is_not_heard() {
    let (mut iee, out) = launch(&authority(), "ada");
    question(&out.unwrap());
    let mut next = vec![certificate()];
    let saving = loop {
        match &iee.receive(next.remove(0)).unwrap()[..] {
            [Outgoing::ReadCounter(ask)] => next.push(answer(*ask, counter_value(0))),
            [Outgoing::Load { ask, .. }] => next.push(answer(*ask, None)),
            [Outgoing::Save { ask, .. }] => break *ask,
            other => panic!("{other:?}"),
        }
    };
    let connection = ConnectionId(1);
    let nonsense = Incoming::FromClient { connection, bytes: Blob(vec![77; 100]) };
    assert_eq!(iee.receive(nonsense).unwrap(), []);
    let out = iee.receive(answer(saving, None)).unwrap();
    let [Outgoing::RaiseCounter { .. }] = out[..] else { panic!("{out:?}") };
    assert_eq!(iee.receive(connected(connection.0)), Err(Fault::OutOfTurn));
}
