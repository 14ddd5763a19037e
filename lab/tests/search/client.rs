//! A client of a host: what a program would do, over TCP and an attested channel.

use arras_attestation::channel::{Channel, ChannelError, Client as Attested};
use arras_schemes::bisen::message::{Hit, Opened, Reply, Request, Settings};
use arras_schemes::bisen::query::{Padding, Search, Step};
use arras_schemes::bisen::update::{DocumentAction, Facts, Update};
use arras_schemes::bisen::{DocumentName, KeywordHash};
use arras_search::link::{Link, OpenError};
use arras_search::service::{SearchService, Unreachable};
use std::net::TcpStream;

pub(crate) struct Client(Link<TcpStream, Channel>);

impl Client {
    /// Connects with a client's certificate.
    pub(crate) fn open(address: &str, own: &Attested) -> Result<Self, OpenError<ChannelError>> {
        Link::open(TcpStream::connect(address).unwrap(), own.channel().unwrap()).map(Self)
    }

    /// Asks once; why no answer comes.
    pub(crate) fn ask(&mut self, request: Request) -> Result<Reply, Unreachable> {
        self.0.ask(request)
    }

    pub(crate) fn call(&mut self, request: Request) -> Reply {
        self.0.ask(request).unwrap()
    }

    pub(crate) fn create(&mut self, name: &str) -> Opened {
        let settings = Settings { fields: 1, padding: Padding::None, profile: Vec::new().into() };
        match self.call(Request::Create { name: name.into(), settings }) {
            Reply::Opened(opened) => opened,
            other => panic!("{other:?}"),
        }
    }

    /// Adds documents: each by its number, with its words.
    pub(crate) fn add(&mut self, into: &Opened, documents: &[(u64, &[&str])]) {
        let reply = self.call(addition(into, documents));
        assert!(matches!(reply, Reply::Updated), "{reply:?}");
    }

    /// The numbers of the documents that have all of these words.
    pub(crate) fn search(&mut self, within: &Opened, words: &[&str]) -> Vec<u64> {
        let request = all_of(within, words);
        let reply = self.call(request);
        let Reply::Found(page) = reply else { panic!("{reply:?}") };
        let number = |hit: Hit| u64::from_le_bytes(hit.name.0[..8].try_into().unwrap());
        let mut found: Vec<u64> = page.hits().map(number).collect();
        found.sort_unstable();
        found
    }
}

/// An update that adds documents: each by its number, with its words.
pub(crate) fn addition(into: &Opened, documents: &[(u64, &[&str])]) -> Request {
    let mut update = Update::new(into.collection);
    for (document, words) in documents {
        let slot = update.document(DocumentAction::NewPublished, name(*document), Facts::default()).unwrap();
        for word in *words {
            let keyword = KeywordHash::of(&into.salt, word.as_bytes());
            update.occurrences(slot, keyword, &[0]).unwrap();
        }
    }
    Request::Update(update)
}

/// A search for documents that have all of these words.
pub(crate) fn all_of(within: &Opened, words: &[&str]) -> Request {
    let mut search = Search::new(within.collection);
    for (word, place) in words.iter().zip(0..) {
        search.keywords.push(KeywordHash::of(&within.salt, word.as_bytes()));
        search.formula.push(Step::Keyword(place));
        if place > 0 {
            search.formula.push(Step::And);
        }
    }
    Request::Search(search)
}

pub(crate) fn name(document: u64) -> DocumentName {
    let mut name = [0; 16];
    name[..8].copy_from_slice(&document.to_le_bytes());
    DocumentName(name)
}
