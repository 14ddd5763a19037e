//! The attested channel between real processes: whom the enclave takes, whom a client speaks to, and what a host can do between them.

use crate::client::{Client, all_of};
use crate::deployment::{Deployment, certified, frame, now, open_by_hand, read_frame};
use crate::process::{PATIENCE, command, run};
use arras_attestation::authority::Authority;
use arras_attestation::channel::{Channel, ChannelError, Client as Attested};
use arras_attestation::evidence::{DevelopmentRoot, Refusal};
use arras_attestation::policy::{ReleasePolicy, Source};
use arras_protocol::iee::CLIENT_REQUESTS_MAX;
use arras_schemes::bisen::channel::{ChannelBroken, ClientChannel};
use arras_schemes::bisen::message::{Answer, Ask, Groups, Opened, Refused, Reply, Request, Rights};
use arras_search::link::OpenError;
use std::fs;
use std::io::Read;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::thread;
use std::time::{Duration, Instant};

const MAY_SEARCH: Rights =
    Rights { search: true, update: false, rank: false, fields: 0, groups: Groups::All };

fn grant(administrator: &mut Client, identity: &str, collection: &str) {
    let (identity, collection) = (identity.into(), collection.into());
    let reply = administrator.call(Request::Grant { identity, collection, rights: MAY_SEARCH });
    assert_eq!(reply, Reply::Done);
}

#[test]
fn clients_with_different_rights_do_not_read_each_other_s_results() {
    let deployment = Deployment::new();
    let (_host, address) = deployment.start();
    let mut ada = deployment.connect(&address, "ada");
    let (books, letters) = (ada.create("books"), ada.create("letters"));
    for part in 0..3 {
        let documents: Vec<(u64, &[&str])> =
            (part * 2000..(part + 1) * 2000).map(|number| (number, &["whale"][..])).collect();
        ada.add(&books, &documents);
    }
    ada.add(&letters, &[(1, &["whale"])]);
    grant(&mut ada, "bob", "books");
    grant(&mut ada, "eve", "letters");
    let (mut bob, mut eve) = (deployment.connect(&address, "bob"), deployment.connect(&address, "eve"));
    assert_eq!(eve.call(all_of(&books, &["whale"])), Reply::Refused(Refused::NotAllowed));
    assert_eq!(eve.call(Request::Open("books".into())), Reply::Refused(Refused::NotAllowed));
    assert_eq!(eve.search(&letters, &["whale"]), [1]);
    // More than a page has.
    assert_eq!(bob.search(&books, &["whale"]).len(), 6000);
    assert_eq!(bob.call(all_of(&letters, &["whale"])), Reply::Refused(Refused::NotAllowed));
}

#[test]
fn a_client_of_another_authority_is_refused_and_refuses() {
    let deployment = Deployment::new();
    let (_host, address) = deployment.start();
    let (other, _) = Authority::create(now()).unwrap();
    let ours = fs::read_to_string(deployment.folder.path().join("ca.pem")).unwrap();
    // It says it is ada, by an authority that the enclave does not know.
    let (mallory, _) = certified(&other, &ours, "ada", deployment.policy());
    let refused = Client::open(&address, &mallory).err().unwrap();
    assert!(matches!(refused, OpenError::Channel(ChannelError::NotAdmitted(_))), "{refused}");
    // To a client of the other authority, this enclave is somebody else's.
    let (stranger, _) = certified(&other, other.certificate(), "ada", deployment.policy());
    assert!(matches!(
        Client::open(&address, &stranger),
        Err(OpenError::Channel(ChannelError::Refused(Refusal::Replayed)))
    ));
    deployment.connect(&address, "ada").create("books");
}

pub(crate) fn refusal(address: &str, deployment: &Deployment, policy: ReleasePolicy) -> Refusal {
    match Client::open(address, &deployment.client("ada", policy).0) {
        Err(OpenError::Channel(ChannelError::Refused(refusal))) => refusal,
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("the enclave is accepted"),
    }
}

#[test]
fn an_enclave_that_the_policy_does_not_accept_is_told_nothing() {
    let deployment = Deployment::new();
    let (host, address) = deployment.start();
    let refused = |change: &dyn Fn(&mut ReleasePolicy)| {
        let mut policy = deployment.policy();
        change(&mut policy);
        refusal(&address, &deployment, policy)
    };
    let other = refused(&|policy| policy.accept[0].measurements = vec![vec![9; 32]]);
    assert!(matches!(other, Refusal::Measurement(_)), "{other}");
    assert_eq!(refused(&|policy| policy.administrator = "eve".into()), Refusal::Replayed);
    let other = || Source::Process { root: DevelopmentRoot([1; 32]) };
    assert_eq!(refused(&|policy| policy.accept[0].source = other()), Refusal::Signature);
    assert_eq!(refused(&|policy| policy.accept.clear()), Refusal::Backend);
    let newer = refused(&|policy| policy.accept[0].version_min = u32::MAX);
    assert!(matches!(newer, Refusal::Version { .. }), "{newer}");
    // Older than it may be, however young.
    thread::sleep(Duration::from_secs(2));
    let old = refused(&|policy| policy.max_age_seconds = 0);
    assert!(matches!(old, Refusal::Expired { most: 0, .. }), "{old}");
    host.kill();
    let (debugged, address) = deployment.start_with(&["--debug"]);
    assert_eq!(refusal(&address, &deployment, deployment.policy()), Refusal::Debug);
    debugged.kill();
    // What is no attested enclave at all does not come to be judged.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let other = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        assert!(!read_frame(&mut stream).unwrap().is_empty());
        frame(&mut stream, &[7; 40]);
    });
    assert!(Client::open(&address, &deployment.certified("ada")).is_err());
    other.join().unwrap();
}

#[test]
fn a_revoked_client_loses_its_open_connection() {
    let deployment = Deployment::new();
    let (_host, address) = deployment.start();
    let mut ada = deployment.connect(&address, "ada");
    let books = ada.create("books");
    ada.add(&books, &[(7, &["whale"])]);
    grant(&mut ada, "bob", "books");
    let (bob, serial) = deployment.client("bob", deployment.policy());
    let mut by_name = Client::open(&address, &bob).unwrap();
    assert_eq!(by_name.search(&books, &["whale"]), [7]);
    assert_eq!(ada.call(Request::Revoke("bob".into())), Reply::Done);
    assert!(by_name.ask(all_of(&books, &["whale"])).is_err());
    let mut again = Client::open(&address, &bob).unwrap();
    assert_eq!(again.call(all_of(&books, &["whale"])), Reply::Refused(Refused::NotAllowed));
    // The certificate: its connections end, and it opens none, whatever rights the name has; another one of this name does.
    grant(&mut ada, "bob", "books");
    assert_eq!(again.search(&books, &["whale"]), [7]);
    assert_eq!(ada.call(Request::RevokeCertificate(serial.into())), Reply::Done);
    assert!(again.ask(all_of(&books, &["whale"])).is_err());
    let refused = Client::open(&address, &bob).err().unwrap();
    assert!(matches!(refused, OpenError::Channel(ChannelError::Revoked)), "{refused}");
    assert_eq!(deployment.connect(&address, "bob").search(&books, &["whale"]), [7]);
    let refused = Request::RevokeCertificate(vec![1].into());
    assert_eq!(deployment.connect(&address, "bob").call(refused), Reply::Refused(Refused::NotAllowed));
}

/// What a client has sent and not taken yet, where a test is the host between it and the enclave.
struct Between {
    stream: TcpStream,
    channel: Channel,
}

impl Between {
    fn new(address: &str, client: &Attested) -> Self {
        let (stream, channel) = open_by_hand(address, client);
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Self { stream, channel }
    }

    /// A request as the client sends it.
    fn ask(&mut self, number: u64) -> Vec<u8> {
        self.channel.wrap(&Ask { number, request: Request::Open("books".into()) }.encode()).unwrap()
    }

    /// What the enclave answers to requests.
    fn answers(&mut self, asks: &[Vec<u8>]) -> Vec<Vec<u8>> {
        asks.iter().for_each(|ask| frame(&mut self.stream, ask));
        asks.iter().map(|_| read_frame(&mut self.stream).unwrap()).collect()
    }

    fn asks(&mut self, count: u64) -> Vec<Vec<u8>> {
        (0..count).map(|number| self.ask(number)).collect()
    }

    /// What the client comes to with the next message.
    fn takes(&mut self, message: &[u8]) -> Result<u64, ChannelError> {
        let opened = self.channel.unwrap(message)?;
        Ok(Answer::decode(&opened).unwrap().number)
    }
}

fn is_altered(taken: &Result<u64, ChannelError>) -> bool {
    matches!(taken, Err(ChannelError::Broken(ChannelBroken::Altered)))
}

/// Replies on their way to the client.
#[test]
fn a_host_that_touches_replies_is_noticed() {
    let deployment = Deployment::new();
    let (_host, address) = deployment.start();
    let ada = deployment.certified("ada");
    let world = || {
        let mut between = Between::new(&address, &ada);
        let asks = between.asks(3);
        let answers = between.answers(&asks);
        (between, answers)
    };
    let (mut honest, answers) = world();
    for (number, answer) in (0..).zip(&answers) {
        assert_eq!(honest.takes(answer).unwrap(), number);
    }
    let (mut repeated, answers) = world();
    assert_eq!(repeated.takes(&answers[0]).unwrap(), 0);
    assert!(is_altered(&repeated.takes(&answers[0])));
    let (mut reordered, answers) = world();
    assert!(is_altered(&reordered.takes(&answers[1])));
    let (mut dropped, answers) = world();
    assert_eq!(dropped.takes(&answers[0]).unwrap(), 0);
    assert!(is_altered(&dropped.takes(&answers[2])));
    let (mut altered, answers) = world();
    let mut one = answers[0].clone();
    *one.last_mut().unwrap() ^= 1;
    assert!(is_altered(&altered.takes(&one)));
    let (mut cut, answers) = world();
    let half = &answers[0][..answers[0].len() / 2];
    assert!(matches!(cut.takes(half), Err(ChannelError::Broken(ChannelBroken::Reframed))));
    let (mut joined, answers) = world();
    let both = [&answers[0][..], &answers[1]].concat();
    assert!(matches!(joined.takes(&both), Err(ChannelError::Broken(ChannelBroken::Reframed))));
    // Another channel of the same client's.
    let ((mut one, _), (_, others)) = (world(), world());
    assert!(is_altered(&one.takes(&others[0])));
}

/// Requests on their way to the enclave: it ends the channel, and the client is told why.
#[test]
fn a_host_that_touches_requests_is_noticed() {
    let deployment = Deployment::new();
    let (_host, address) = deployment.start();
    let ada = deployment.certified("ada");
    let cases: [fn(&mut Vec<Vec<u8>>); 4] = [
        |asks| drop(asks.remove(0)),
        |asks| asks.swap(0, 1),
        |asks| asks[1] = asks[0].clone(),
        |asks| *asks[1].last_mut().unwrap() ^= 1,
    ];
    for case in cases {
        let mut between = Between::new(&address, &ada);
        let mut asks = between.asks(2);
        case(&mut asks);
        asks.iter().for_each(|ask| frame(&mut between.stream, ask));
        // Answers to what came before arrive; then, why there are no more.
        let taken = std::iter::repeat_with(|| {
            let message = read_frame(&mut between.stream).unwrap();
            between.channel.unwrap(&message)
        });
        let error = taken.take(CLIENT_REQUESTS_MAX).find_map(Result::err).unwrap();
        assert!(matches!(error, ChannelError::Broken(ChannelBroken::ReceivedAltered)), "{error}");
        assert!(read_frame(&mut between.stream).is_err());
    }
    // Cut or joined at its records' bounds, a request is none.
    let mut between = Between::new(&address, &ada);
    let asks = between.asks(2);
    frame(&mut between.stream, &asks.concat());
    assert!(read_frame(&mut between.stream).is_err());
}

/// A host that has recorded a channel and plays it again, or leads one client's flights to two connections.
#[test]
fn a_channel_is_neither_replayed_nor_forked() {
    let deployment = Deployment::new();
    let (_host, address) = deployment.start();
    let ada = deployment.certified("ada");
    let (mut first, mut second) =
        (TcpStream::connect(&address).unwrap(), TcpStream::connect(&address).unwrap());
    let mut channel = ada.channel().unwrap();
    let hello = channel.flight();
    frame(&mut first, &hello);
    frame(&mut second, &hello);
    let (flight, forked) = (read_frame(&mut first).unwrap(), read_frame(&mut second).unwrap());
    assert_ne!(flight, forked);
    channel.take(&flight).unwrap();
    let finish = channel.flight();
    let settings = Request::Open("books".into());
    let ask = channel.wrap(&Ask { number: 0, request: settings }.encode()).unwrap();
    // The fork has another key, whatever is said to it.
    frame(&mut second, &finish);
    let said = read_frame(&mut second).unwrap();
    assert!(read_frame(&mut second).is_err());
    frame(&mut first, &finish);
    let admitted = read_frame(&mut first).unwrap();
    frame(&mut first, &ask);
    let answer = read_frame(&mut first).unwrap();
    assert!(matches!(
        channel.take(&said),
        Err(ChannelError::Broken(ChannelBroken::Altered | ChannelBroken::Reframed))
    ));
    assert!(answer.len() > admitted.len());
    // All that was recorded, on a new connection.
    let mut third = TcpStream::connect(&address).unwrap();
    for recorded in [&hello, &finish, &ask] {
        frame(&mut third, recorded);
    }
    let mut rest = Vec::new();
    let _ = third.read_to_end(&mut rest);
    assert!(rest.len() < flight.len() + answer.len(), "the recorded request is answered");
}

/// Nothing that is said is seen on the way, and lengths are those of the classes of requests.
#[test]
fn records_show_no_more_than_their_messages_classes() {
    let deployment = Deployment::new();
    let (_host, address) = deployment.start();
    let mut ada = deployment.connect(&address, "ada");
    let books: Opened = ada.create("a-name-that-nobody-sees");
    let mut between = Between::new(&address, &deployment.certified("ada"));
    let words: Vec<String> = (0..20).map(|word| format!("word{word}")).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let mut lengths = Vec::new();
    for request in
        [all_of(&books, &words[..1]), all_of(&books, &words), Request::Open("a-name-that-nobody-sees".into())]
    {
        let message = between.channel.wrap(&Ask { number: 0, request }.encode()).unwrap();
        let answer = between.answers(std::slice::from_ref(&message)).remove(0);
        between.channel.unwrap(&answer).unwrap();
        for bytes in [&message, &answer] {
            assert!(!bytes.windows(12).any(|window| window == b"a-name-that-"));
        }
        lengths.push((message.len(), answer.len()));
    }
    assert_eq!(lengths[0], lengths[1]);
    assert_eq!(lengths[0].0, lengths[2].0);
}

#[test]
fn a_client_that_stalls_in_the_handshake_stalls_nobody() {
    let deployment = Deployment::new();
    let (_host, address) = deployment.start();
    let ada = deployment.certified("ada");
    let mut client = deployment.connect(&address, "ada");
    let books = client.create("books");
    client.add(&books, &[(7, &["whale"])]);
    let stalled: Vec<TcpStream> = (0..300)
        .map(|number| {
            let (mut stream, mut channel) = (TcpStream::connect(&address).unwrap(), ada.channel().unwrap());
            let hello = channel.flight();
            // Nothing, a part, all of the first flight.
            frame(&mut stream, &hello[..hello.len() * (number % 3) / 2]);
            stream
        })
        .collect();
    assert_eq!(client.search(&books, &["whale"]), [7]);
    assert_eq!(deployment.connect(&address, "ada").search(&books, &["whale"]), [7]);
    // Whoever has said something that can be no beginning is gone; who has said the first half may still say the other.
    drop(stalled);
}

/// A host cannot start somebody's enclave for an authority of its own.
#[test]
fn an_enclave_stays_with_its_first_authority() {
    let deployment = Deployment::new();
    let (host, address) = deployment.start();
    deployment.connect(&address, "ada").create("books");
    host.kill();
    let (other, _) = Authority::create(now()).unwrap();
    fs::write(deployment.folder.path().join("ca.pem"), other.certificate()).unwrap();
    let (_host, address) = deployment.start();
    let mut stream = TcpStream::connect(&address).unwrap();
    assert_eq!(stream.read(&mut [0]).unwrap_or(0), 0);
    let (log, end) = (deployment.folder.path().join("log"), Instant::now() + PATIENCE);
    while !fs::read_to_string(&log).unwrap().contains("another administrator or authority") {
        assert!(Instant::now() < end, "{}", fs::read_to_string(&log).unwrap());
        thread::sleep(Duration::from_millis(50));
    }
}

/// By the command, as an administrator does it.
#[test]
fn rights_are_granted_and_revoked_by_the_command() {
    let deployment = Deployment::new();
    let (_host, address) = deployment.start();
    let folder = deployment.folder.path().join("administrator");
    deployment.write_administrator(&folder);
    let administer = |arguments: &[&str]| {
        let mut administer = command("arras-search", "warn");
        administer.args(&arguments[..1]).args(["--host", &address, "--credentials"]).arg(&folder);
        administer.arg("--policy").arg(folder.join("policy.toml")).args(&arguments[1..]);
        run(administer)
    };
    let mut ada = deployment.connect(&address, "ada");
    let books = ada.create("books");
    ada.add(&books, &[(7, &["whale"])]);
    let (bob, serial) = deployment.client("bob", deployment.policy());
    let search = |bob: &Attested| Client::open(&address, bob).unwrap().call(all_of(&books, &["whale"]));
    assert_eq!(search(&bob), Reply::Refused(Refused::NotAllowed));
    let granted = administer(&["grant", "--search", "bob", "books"]);
    assert_eq!(
        (granted.code, granted.stdout.trim()),
        (Some(0), "bob may search books"),
        "{}",
        granted.stderr
    );
    assert!(matches!(search(&bob), Reply::Found(_)));
    for taken in [&["grant", "--nothing", "bob", "books"][..], &["revoke", "bob"]] {
        let taken = administer(taken);
        assert_eq!(taken.code, Some(0), "{}", taken.stderr);
        assert_eq!(search(&bob), Reply::Refused(Refused::NotAllowed));
        assert_eq!(administer(&["grant", "--search", "bob", "books"]).code, Some(0));
    }
    let colons: Vec<String> = serial.iter().map(|byte| format!("{byte:02X}")).collect();
    let revoked = administer(&["revoke", "--serial", &colons.join(":")]);
    assert_eq!(revoked.code, Some(0), "{}", revoked.stderr);
    assert!(Client::open(&address, &bob).is_err());
    for wrong in
        [&["grant", "bob", "books"][..], &["revoke"], &["grant", "--search", "--field", "8", "bob", "books"]]
    {
        assert_eq!(administer(wrong).code, Some(2), "{wrong:?}");
    }
    assert_eq!(administer(&["revoke", "--serial", "xyz"]).code, Some(4));
    let key = folder.join("ada.key");
    fs::set_permissions(&key, fs::Permissions::from_mode(0o640)).unwrap();
    let open = administer(&["grant", "--search", "bob", "books"]);
    assert_eq!(open.code, Some(4));
    assert!(open.stderr.contains(&format!("chmod 600 {}", key.display())), "{}", open.stderr);
}
