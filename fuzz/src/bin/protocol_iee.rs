//! Messages between enclave and host, from whichever side, and what is inside the channel of a client.
#![no_main]

use arras_fuzz::seed;
use arras_protocol::Blob;
use arras_protocol::codec::encode;
use arras_protocol::evidence::Evidence;
use arras_protocol::iee::{AskId, ConnectionId, Incoming, Outgoing, StateName, counter_value};
use arras_schemes::bisen::message::{Answer, Ask, Reply, Request};
use arras_schemes::bisen::query::{Padding, Ranking, Search, Step};
use arras_schemes::bisen::update::{DocumentAction, Facts, Update};
use arras_schemes::bisen::{DocumentName, KeywordHash, Salt};
use libfuzzer_sys::fuzz_target;

fn seeds() -> Vec<Vec<u8>> {
    let (ask, connection) = (AskId(300), ConnectionId(2));
    let name = StateName::Checkpoint { generation: 7, piece: 1 };
    let keyword = KeywordHash::of(&Salt([1; 16]), b"whale");
    let mut update = Update::new(1);
    let facts = Facts { length: 5, ..Facts::default() };
    let slot = update.document(DocumentAction::NewPublished, DocumentName([3; 16]), facts).unwrap_or(0);
    let _ = update.occurrences(slot, keyword, &[1, 2, 3, 4, 5]);
    let mut search = Search::new(1);
    search.keywords = vec![keyword];
    search.formula = vec![Step::Keyword(0), Step::Not];
    search.padding = Padding::Fixed(10);
    search = search.ranked_by(Ranking::Bm25);
    vec![
        encode(&Incoming::Launch {
            memory_bytes: 1 << 27,
            administrator: "root".into(),
            authority: Vec::new().into(),
        }),
        encode(&Incoming::FromClient { connection, bytes: Blob(vec![1; 40]) }),
        encode(&Incoming::Answer { ask, bytes: Some(Blob(vec![2; 64])) }),
        encode(&Incoming::Answer { ask, bytes: counter_value(9) }),
        encode(&Evidence::Process { statement: Blob(vec![5; 70]), signature: Blob(vec![6; 64]) }),
        encode(&Evidence::Dcap { quote: Blob(vec![3; 70]), collateral: Blob(b"{}".to_vec()) }),
        encode(&Evidence::SevSnp { report: Blob(vec![2; 64]), certificates: vec![Blob(vec![48; 9])] }),
        encode(&Evidence::Tpm { attest: Blob(vec![255; 60]), signature: Blob(vec![0; 72]) }),
        encode(&Outgoing::Put { ask, entries: Blob(vec![1; 96]) }),
        encode(&Outgoing::Save { ask, name, state: Blob(vec![4; 10]) }),
        Ask { number: 1, request: Request::Update(update) }.encode(),
        Ask { number: 2, request: Request::Search(search) }.encode(),
        Answer { number: 1, reply: Reply::Updated }.encode(),
    ]
}

fuzz_target!(init: seed(seeds), |bytes: &[u8]| {
    if let Ok(message) = Incoming::decode(bytes) {
        assert_eq!(Incoming::decode(&encode(&message)).as_ref(), Ok(&message));
    }
    if let Ok(message) = Outgoing::decode(bytes) {
        assert_eq!(Outgoing::decode(&encode(&message)).as_ref(), Ok(&message));
    }
    if let Ok(evidence) = Evidence::decode(bytes) {
        assert_eq!(Evidence::decode(&encode(&evidence)).as_ref(), Ok(&evidence));
    }
    if let Ok(ask) = Ask::decode(bytes) {
        if let Request::Search(search) = &ask.request {
            let _ = (search.check(), search.depth());
        }
        assert!(Ask::decode(&ask.encode()).is_ok());
    }
    if let Ok(answer) = Answer::decode(bytes) {
        assert!(Answer::decode(&answer.encode()).is_ok());
    }
});
