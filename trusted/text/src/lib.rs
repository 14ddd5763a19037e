//! Text indexes by boolean search: what the engine asks of a text index, asked of an enclave through its host.
//!
//! Opens no socket and knows no clock: conversations with the enclave come from a [`talk::Host`], which in the proxy is a connection and
//! its channel, and in the simulator a network of its own.
//!
//! All indexes of a proxy are in one collection of the enclave, each under names of its own: a document is called by its row, mixed
//! with the index's name, and keywords are hashed with a salt that is the collection's and the index's. So what one index has
//! nothing of another finds, and an index is dropped by what it has under one keyword that all its documents carry.

#![forbid(unsafe_code)]

mod analysis;
mod client;
pub mod columns;
pub mod talk;

use analysis::{Analysis, Meaning, Text};
use arras_documents::text::{TextCondition, TextMatch};
use arras_engine::aside;
use arras_engine::text::{Answer, TextIndex, TextIndexId, TextService};
use arras_planner::text::TextDefinition;
use arras_protocol::RowId;
use arras_schemes::bisen::{DocumentName, Salt};
use arras_search::language::Language;
use arras_service::{Fault, ServiceError};
use bson::Document;
use client::{Client, Opened, Use};
use sha2::{Digest, Sha256};
use std::sync::Arc;
use talk::Host;

/// Text indexes of collections of documents.
const INDEXES: Use = Use {
    collection: "arras text indexes",
    waits: "$text, and writes of collections with a text index,",
    mended_by: "drop all text indexes and create them again",
};

/// The service of text indexes at a host.
#[derive(Debug)]
pub struct Service {
    client: Arc<Client>,
    analysis: Arc<Analysis>,
}

impl Service {
    /// A service at a host; it is spoken to when something is asked of it.
    #[must_use]
    pub fn new(host: Arc<dyn Host>) -> Self {
        Self { client: Arc::new(Client::new(host, INDEXES)), analysis: Arc::default() }
    }
}

impl TextService for Service {
    fn index(
        &self,
        id: TextIndexId,
        definition: &TextDefinition,
    ) -> Result<Arc<dyn TextIndex>, ServiceError> {
        let language = definition.default_language.parse::<Language>().map_err(|error| {
            ServiceError::new(Fault::CannotCreateIndex, format!("unsupported default_language: {error}"))
        })?;
        let (client, analysis) = (Arc::clone(&self.client), Arc::clone(&self.analysis));
        Ok(Arc::new(Index {
            names: Names(id),
            definition: Arc::new(definition.clone()),
            language,
            client,
            analysis,
        }))
    }

    fn expect(&self, acknowledged: u128, issued: u128) {
        self.client.expect(acknowledged, issued);
    }

    fn acknowledged(&self) -> u128 {
        self.client.acknowledged()
    }

    fn ready(&self) -> Answer<'_, ()> {
        let client = Arc::clone(&self.client);
        Box::pin(async move { client.ready().await })
    }

    fn remove(&self, id: TextIndexId) -> Answer<'_, ()> {
        let (names, client) = (Names(id), Arc::clone(&self.client));
        Box::pin(async move { client.remove_all(names).await })
    }
}

/// What an index calls its documents and hashes its keywords with.
#[derive(Clone, Copy, Debug)]
struct Names(TextIndexId);

impl Names {
    fn hash(self, purpose: &[u8], with: &[u8]) -> [u8; 16] {
        let mut hash = Sha256::new();
        hash.update(purpose);
        hash.update(self.0);
        hash.update(with);
        let whole: [u8; 32] = hash.finalize().into();
        let (halves, _) = whole.as_chunks::<16>();
        halves[0]
    }

    /// A row as the enclave knows it.
    fn document(self, row: RowId) -> DocumentName {
        let mut name = self.hash(b"arras text row\0", &[]);
        name.iter_mut().zip(row.0).for_each(|(byte, of_row)| *byte ^= of_row);
        DocumentName(name)
    }

    /// The row of what the enclave found.
    fn row(self, name: DocumentName) -> RowId {
        // The same again takes it back.
        RowId(self.document(RowId(name.0)).0)
    }

    fn salt(self, opened: &Opened) -> Salt {
        Salt(self.hash(b"arras text salt\0", &opened.salt.0))
    }
}

/// One index.
#[derive(Debug)]
struct Index {
    names: Names,
    definition: Arc<TextDefinition>,
    language: Language,
    client: Arc<Client>,
    analysis: Arc<Analysis>,
}

impl Index {
    fn texts<'d>(&self, document: Option<&'d Document>) -> Vec<Text<'d>> {
        document.map(|document| analysis::texts(document, &self.definition)).unwrap_or_default()
    }

    /// What a condition asks for; none if it finds nothing.
    fn asked(&self, condition: &TextCondition) -> Result<Meaning, ServiceError> {
        let language = match &condition.language {
            None => self.language,
            Some(name) => name.parse::<Language>().map_err(|_| {
                let message = format!("unsupported language: \"{name}\" for text index version 3");
                ServiceError::new(Fault::BadValue, message)
            })?,
        };
        Meaning::new(&condition.search, language, &self.definition, &self.analysis)
    }
}

impl TextIndex for Index {
    fn fingerprint(&self) -> [u8; 8] {
        self.analysis.fingerprint(self.language)
    }

    fn differs(&self, old: Option<&Document>, new: Option<&Document>) -> bool {
        self.texts(old) != self.texts(new)
    }

    fn check(&self, document: &Document) -> Result<(), ServiceError> {
        let language = analysis::language(&analysis::texts(document, &self.definition), self.language);
        language.map(drop).map_err(|mut error| {
            if let Some(id) = document.get("_id") {
                error.message.push_str(&format!(", in the document with _id: {id}"));
            }
            error
        })
    }

    fn meaning(&self, condition: &TextCondition) -> Result<Arc<dyn TextMatch>, ServiceError> {
        Ok(Arc::new(self.asked(condition)?))
    }

    fn ready(&self) -> Answer<'_, ()> {
        let client = Arc::clone(&self.client);
        Box::pin(async move { client.ready().await })
    }

    fn update(&self, changes: Vec<(RowId, Option<Document>)>) -> Answer<'_, ()> {
        let (client, names, language) = (Arc::clone(&self.client), self.names, self.language);
        let (definition, analysis) = (Arc::clone(&self.definition), Arc::clone(&self.analysis));
        let (changes, updates) = (Arc::new(changes), Arc::default());
        Box::pin(async move {
            client
                .run_change(move |connection| {
                    let (salt, collection) = (names.salt(&connection.opened), connection.opened.collection);
                    let (definition, analysis) = (Arc::clone(&definition), Arc::clone(&analysis));
                    let changes = Arc::clone(&changes);
                    let analyse = move || {
                        aside::run(move || {
                            analysis.updates(&changes, &definition, language, (names, collection, salt))
                        })
                    };
                    connection.update_all(Arc::clone(&updates), analyse)
                })
                .await?;
            client.tidy();
            Ok(())
        })
    }

    fn search(&self, condition: TextCondition) -> Answer<'_, Vec<RowId>> {
        let (client, names) = (Arc::clone(&self.client), self.names);
        Box::pin(async move {
            let Some(asked) = self.asked(&condition)?.into_condition() else { return Ok(Vec::new()) };
            let asked = Arc::new(asked);
            client.run(|connection| connection.search(Arc::clone(&asked), names, 0)).await
        })
    }
}
