//! The keys of a SQL schema's columns, and the encoders of their orders over the database's own tables.

use super::known::Known;
use super::lately::Lately;
use super::ready::{self, Ready};
use arras_keys::{Key, Purpose};
use arras_postgres::catalog::{Encryption, Order};
use arras_postgres::mope::{self, Column, Connections, Heads, Protocol, Reach, Recent, TreeTables, Watched};
use arras_postgres::words::ColumnWords;
use arras_protocol::mope::TreeStore;
use arras_protocol::{Blob, ChannelError, Refusal};
use arras_records::{ColumnOrder, ColumnSealers, TermScheme};
use arras_schemes::IndexError;
use arras_schemes::mope::{Form, Kind, Place as Found, Settings, Tree};
use arras_schemes::random::Randomness;
use arras_service::columns::{
    ColumnKeys, Columns, Declared, Learned, OrderEncoder, OrderTerms, Pending, Place,
};
use arras_service::words::Words;
use arras_service::{Fault, ServiceError};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{Mutex, RwLock, mpsc};
use zeroize::Zeroizing;

/// Keys that are looked at at a time, to be taken out.
const SWEPT: u16 = 256;
/// For how long who holds labels is waited for when keys are taken out: as long does a value wait that is encoded meanwhile.
const SWEEP_WAIT: Duration = Duration::from_millis(20);

/// Statements whose values are owed at a time.
const OWED_MAX: usize = 64;
/// How often one's are tried.
const OWED_TRIES: usize = 100;

/// Order keys that are to be entered.
type Owed = (Vec<Zeroizing<Vec<u8>>>, Option<i32>);

/// What a sweep came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Swept {
    /// Keys that went.
    pub(crate) gone: usize,
    /// Were all keys looked at that no row has?
    pub(crate) is_all: bool,
    /// Were others in the way, who hold the labels?
    pub(crate) is_busy: bool,
}

/// A column's tree, as this proxy uses it.
type ColumnTree = Tree<Recent<Watched<TreeTables>>>;

/// A column's tree, wherever it is kept.
///
/// # Errors
/// The column has an order that cannot be kept.
pub(super) fn tree<S: TreeStore>(
    column: &Encryption,
    protocol: Protocol,
    root: &Key,
    store: S,
) -> Result<Tree<S>, IndexError> {
    let bytes = u16::try_from(column.order_key_bytes())
        .map_err(|_| IndexError::Caller("a column's order keys are longer than a tree takes"))?;
    let kind = match protocol {
        Protocol::Mope => Kind::Mope,
        Protocol::Stope => Kind::Stope,
        Protocol::FrequencyHiding => Kind::FrequencyHiding,
    };
    let settings = Settings { form: Form::Fixed(bytes), kind, verified: true };
    let key = root.child(Purpose::Column(&column.id));
    Tree::open(store, &key, settings, None, Randomness::default())
}

/// The columns of one schema.
pub(crate) struct KeyedColumns {
    sealers: ColumnSealers,
    encoders: BTreeMap<[u8; 8], Arc<Encoder>>,
    terms: BTreeMap<[u8; 8], Arc<ColumnOrder>>,
    words: BTreeMap<[u8; 8], Arc<ColumnWords>>,
}

/// What makes the ciphertexts of a column's order.
fn order_terms(column: &Encryption, order: Order, root: &Key) -> Result<ColumnOrder, IndexError> {
    TermScheme::named(order.name())
        .and_then(|scheme| ColumnOrder::new(scheme, column.order_key_bytes(), root, &column.id))
        .ok_or(IndexError::Caller("a column's order is of a scheme that this program does not have"))
}

impl KeyedColumns {
    /// Derives keys from the keyring's roots, versions and roots, the oldest first. Trees and terms, which must stay equal to
    /// themselves, are under the oldest.
    ///
    /// # Errors
    /// A column has an order that cannot be kept.
    pub(crate) fn new(
        columns: &[Arc<Encryption>],
        roots: &[(u32, &Key)],
        connections: &Arc<Connections>,
        heads: &Arc<dyn Heads>,
    ) -> Result<Self, IndexError> {
        let declared = columns.iter().flat_map(|column| {
            // A column that is joined with others has the equality key of one of them.
            let ids = [Some(column.id), column.equality].into_iter().flatten();
            ids.map(|id| Declared { id, ..column.declared() })
        });
        // A column's own padding is the one that holds for its id, whoever shares its key.
        let own = columns.iter().map(|column| column.declared());
        let sealers = ColumnSealers::new(declared.chain(own), roots);
        let oldest = roots.first().map(|(_, root)| *root);
        let (mut encoders, mut terms) = (BTreeMap::new(), BTreeMap::new());
        for column in columns {
            let (Some(order), Some(root)) = (column.order, oldest) else { continue };
            match order.labels() {
                Some(protocol) => {
                    let encoder = Encoder::open(column, protocol, root, connections, heads)?;
                    encoders.insert(column.id, Arc::new(encoder));
                }
                None => {
                    terms.insert(column.id, Arc::new(order_terms(column, order, root)?));
                }
            }
        }
        Ok(Self { sealers, encoders, terms, words: BTreeMap::new() })
    }

    /// With the words of columns' texts.
    pub(crate) fn with_words(self, words: BTreeMap<[u8; 8], Arc<ColumnWords>>) -> Self {
        Self { words, ..self }
    }

    /// The encoders of all columns that have labels.
    pub(crate) fn ordered(&self) -> Vec<Arc<Encoder>> {
        self.encoders.values().cloned().collect()
    }

    /// The encoders of the columns whose values leave with their last row.
    pub(crate) fn swept(&self) -> Vec<Arc<Encoder>> {
        self.encoders.values().filter(|encoder| encoder.kind != Kind::Mope).cloned().collect()
    }
}

impl Columns for KeyedColumns {
    fn keys(&self, column: [u8; 8]) -> Option<Arc<dyn ColumnKeys>> {
        self.sealers.get(column).map(|sealer| sealer as Arc<dyn ColumnKeys>)
    }

    fn encoder(&self, column: [u8; 8]) -> Option<Arc<dyn OrderEncoder>> {
        self.encoders.get(&column).map(|encoder| Arc::clone(encoder) as Arc<dyn OrderEncoder>)
    }

    fn order_terms(&self, column: [u8; 8]) -> Option<Arc<dyn OrderTerms>> {
        self.terms.get(&column).map(|terms| Arc::clone(terms) as Arc<dyn OrderTerms>)
    }

    fn words(&self, column: [u8; 8]) -> Option<Arc<dyn Words>> {
        self.words.get(&column).map(|words| Arc::clone(words) as Arc<dyn Words>)
    }
}

/// The order of one column.
pub(crate) struct Encoder {
    label: String,
    kind: Kind,
    tree: ColumnTree,
    tables: TreeTables,
    /// Values for which labels had to change that their own transactions held: entered behind, so that these succeed when they
    /// are tried again.
    owed: mpsc::Sender<Owed>,
    owing: Mutex<Option<mpsc::Receiver<Owed>>>,
    /// All but mOPE: keys that were given out lately, and when. Held while keys come or go, so that none goes that somebody
    /// was just told is there.
    lately: Mutex<Lately>,
    /// All but mOPE: keys that statements lately got as bounds. Shared by who looks bounds up, until they are noted, and alone with who
    /// takes keys out: none goes between look-up and statement.
    bounds: RwLock<std::sync::Mutex<Lately>>,
    /// Keys of single occurrences that are not given out yet.
    ready: std::sync::Mutex<Ready>,
    /// mOPE: ciphertexts that are stored.
    known: Known,
}

impl Encoder {
    fn open(
        column: &Encryption,
        protocol: Protocol,
        root: &Key,
        connections: &Arc<Connections>,
        heads: &Arc<dyn Heads>,
    ) -> Result<Self, IndexError> {
        let id = Column::from(column.id);
        let tables = TreeTables::new(Arc::clone(connections), id);
        let store = Recent::new(Watched::new(tables.clone(), id, Arc::clone(heads)));
        let tree = tree(column, protocol, root, store)?;
        let (label, kind) = (column.label.clone(), tree.kind());
        let (owed, owing) = mpsc::channel(OWED_MAX);
        let owing = Mutex::new(Some(owing));
        let (lately, bounds) = (Mutex::default(), RwLock::default());
        let (ready, known) = (std::sync::Mutex::default(), Known::default());
        Ok(Self { label, kind, tree, tables, owed, owing, lately, bounds, ready, known })
    }

    async fn encoded(&self, keys: &[Vec<u8>], process: Option<i32>) -> Result<Vec<Blob>, IndexError> {
        match self.kind {
            Kind::Mope => {
                let stored = self.tree.encode(keys).await?;
                Ok(stored.into_iter().map(|stored| stored.ciphertext).collect())
            }
            Kind::Stope => self.encoded_once(keys).await,
            Kind::FrequencyHiding => self.encoded_each(keys, process).await,
        }
    }

    fn ready(&self) -> MutexGuard<'_, Ready> {
        self.ready.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Where each occurrence has a key: one for each, of those that are ready for the session or new ones.
    async fn encoded_each(&self, keys: &[Vec<u8>], process: Option<i32>) -> Result<Vec<Blob>, IndexError> {
        let mut lately = self.lately.lock().await;
        let taken: Vec<Option<ready::Key>> = {
            let (mut ready, now) = (self.ready(), Instant::now());
            keys.iter().map(|key| ready.take(process, key, now)).collect()
        };
        let missing: Vec<&Vec<u8>> =
            keys.iter().zip(&taken).filter(|(_, taken)| taken.is_none()).map(|(key, _)| key).collect();
        let entered = match missing.is_empty() {
            true => Vec::new(),
            false => match self.tree.encode(&missing).await {
                Ok(entered) => entered,
                Err(error) => {
                    let unused = keys.iter().zip(taken).filter_map(|(key, taken)| Some((key, taken?)));
                    self.keep_ready(process, unused);
                    return Err(error);
                }
            },
        };
        let mut entered = entered.into_iter().map(|stored| stored.ciphertext);
        let taken = taken.into_iter().map(|taken| taken.map(|(ciphertext, _)| ciphertext));
        let ciphertexts: Vec<Blob> = taken.filter_map(|taken| taken.or_else(|| entered.next())).collect();
        let now = Instant::now();
        ciphertexts.iter().for_each(|ciphertext| lately.note(ciphertext.as_slice(), now));
        if ciphertexts.len() != keys.len() {
            return Err(IndexError::Caller("a value that was entered is not among those that were"));
        }
        Ok(ciphertexts)
    }

    fn keep_ready<'k>(&self, process: Option<i32>, keys: impl Iterator<Item = (&'k Vec<u8>, ready::Key)>) {
        let mut ready = self.ready();
        keys.for_each(|(value, key)| ready.keep(process, value, key));
    }

    /// stOPE: the key of each value, which is entered if it is not there.
    async fn encoded_once(&self, keys: &[Vec<u8>]) -> Result<Vec<Blob>, IndexError> {
        // Rows count themselves: a value is entered once, however many rows it has.
        let mut lately = self.lately.lock().await;
        let found = self.tree.places(keys).await?;
        let mut missing: Vec<&Vec<u8>> = keys
            .iter()
            .zip(&found)
            .filter(|(_, place)| !matches!(place, Found::At(_)))
            .map(|(key, _)| key)
            .collect();
        missing.sort_unstable();
        missing.dedup();
        let entered = self.tree.encode(&missing).await?;
        let entered: HashMap<&Vec<u8>, Blob> =
            missing.into_iter().zip(entered.into_iter().map(|stored| stored.ciphertext)).collect();
        let mut ciphertexts = Vec::with_capacity(keys.len());
        for (key, place) in keys.iter().zip(found) {
            let ciphertext = match place {
                Found::At(stored) => stored.ciphertext,
                Found::Among { .. } | Found::Between { .. } => entered
                    .get(key)
                    .cloned()
                    .ok_or(IndexError::Caller("a value that was entered is not among those that were"))?,
            };
            lately.note(ciphertext.as_slice(), Instant::now());
            ciphertexts.push(ciphertext);
        }
        Ok(ciphertexts)
    }

    /// The ciphertexts of values, if all of them are known to be stored.
    fn known_ciphertexts(&self, keys: &[Vec<u8>]) -> Result<Option<Vec<Vec<u8>>>, IndexError> {
        let mut ciphertexts = Vec::with_capacity(keys.len());
        for key in keys {
            match self.tree.ciphertext(key)? {
                Some(ciphertext) => ciphertexts.push(ciphertext.as_slice().to_vec()),
                None => return Ok(None),
            }
        }
        Ok(self.known.has_all(&ciphertexts).then_some(ciphertexts))
    }

    /// Enters what transactions could not, for as long as the process runs.
    pub(crate) async fn enter_owed(&self) {
        let Some(mut owing) = self.owing.lock().await.take() else { return };
        while let Some((keys, process)) = owing.recv().await {
            for _ in 0..OWED_TRIES {
                let keys: Vec<Vec<u8>> = keys.iter().map(|key| key.to_vec()).collect();
                let since = Instant::now();
                match self.encoded(&keys, process).await {
                    Err(IndexError::Channel(ChannelError::Halted(_))) => tokio::task::yield_now().await,
                    Ok(entered) if self.kind == Kind::FrequencyHiding => {
                        let entered = entered.into_iter().map(|ciphertext| (ciphertext, since));
                        self.keep_ready(process, keys.iter().zip(entered));
                        break;
                    }
                    Ok(_) | Err(_) => break,
                }
            }
        }
    }

    /// Takes out keys that no row has any more. Nobody waits for long for that, nor for those who store values meanwhile.
    ///
    /// # Errors
    /// [`IndexError`]; what did not go is found again.
    pub(crate) async fn sweep(&self, reach: Reach) -> Result<Swept, IndexError> {
        // Before anybody has to wait: what is given out meanwhile is known when the lock is there.
        let mut unused = self.tables.unused(reach, SWEPT).await?;
        let mut lately = self.lately.lock().await;
        let now = Instant::now();
        lately.let_go(now);
        noted(&mut *self.bounds.write().await).let_go(now);
        self.ready().let_go(now);
        let is_all = unused.len() < usize::from(SWEPT);
        unused.retain(|ciphertext| !lately.has(ciphertext.as_slice()));
        let mut gone = 0;
        // Keys of occurrences, of which there are as many as rows went, together.
        let together = self.kind == Kind::FrequencyHiding && unused.len() > 1;
        if together {
            let mut bounds = self.bounds.write().await;
            unused.retain(|ciphertext| !noted(&mut bounds).has(ciphertext.as_slice()));
            if let Some(swept) = self.swept_together(&unused).await? {
                return Ok(Swept { is_all, ..swept });
            }
        }
        for ciphertext in unused {
            // One by one: who looks bounds up waits for no more than one of them.
            let mut bounds = self.bounds.write().await;
            if noted(&mut bounds).has(ciphertext.as_slice()) {
                continue;
            }
            match self.take_out(&ciphertext).await {
                Ok(true) => gone += 1,
                Ok(false) => return Ok(Swept { gone, is_all, is_busy: true }),
                // A row has it again.
                Err(IndexError::Channel(ChannelError::Refused(_))) => {}
                // It is not what the tree says, or another proxy has taken it out: the others go all the same.
                Err(error @ (IndexError::Open(_) | IndexError::Contradicted(_) | IndexError::Caller(_))) => {
                    tracing::warn!(column = %self.label, %error, "a key that no row has cannot be taken out: arras doctor --deep says what is wrong");
                }
                Err(error) => return Err(error),
            }
        }
        Ok(Swept { gone, is_all, is_busy: false })
    }

    /// Takes keys of occurrences out in one change; nothing if one of them cannot go.
    async fn swept_together(&self, unused: &[Blob]) -> Result<Option<Swept>, IndexError> {
        if unused.is_empty() {
            return Ok(Some(Swept { gone: 0, is_all: true, is_busy: false }));
        }
        match self.tree.remove_stored(unused, SWEEP_WAIT).await {
            Ok(true) => Ok(Some(Swept { gone: unused.len(), is_all: true, is_busy: false })),
            Ok(false) => Ok(Some(Swept { gone: 0, is_all: true, is_busy: true })),
            Err(IndexError::Channel(ChannelError::Refused(_)) | IndexError::Contradicted(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Takes a key out; false if others had to be waited for.
    async fn take_out(&self, ciphertext: &Blob) -> Result<bool, IndexError> {
        match self.kind {
            Kind::Mope | Kind::Stope => {
                let value = Zeroizing::new(self.tree.value(ciphertext)?);
                self.tree.remove_within(&[&*value], SWEEP_WAIT).await
            }
            Kind::FrequencyHiding => {
                self.tree.remove_stored(std::slice::from_ref(ciphertext), SWEEP_WAIT).await
            }
        }
    }

    fn failure(&self, error: IndexError) -> ServiceError {
        let fault = match &error {
            IndexError::Channel(ChannelError::Malformed(_)) => Fault::Peer,
            IndexError::Channel(ChannelError::Deadline(_)) => Fault::TimedOut,
            IndexError::Channel(ChannelError::Halted(_)) => Fault::Contended,
            IndexError::Channel(ChannelError::Refused(Refusal::SetBack)) => Fault::Corruption,
            IndexError::Channel(error) if mope::lacks_room(error) => Fault::DiskFull,
            IndexError::Channel(_) => Fault::Unreachable,
            IndexError::Open(_) | IndexError::Contradicted(_) => Fault::Corruption,
            IndexError::Peer(_) => Fault::Peer,
            IndexError::Caller(_) | IndexError::State(_) => Fault::Internal,
        };
        ServiceError::new(fault, format!("the order of column {}: {error}", self.label))
    }
}

impl OrderEncoder for Encoder {
    fn encode<'a>(&'a self, keys: &'a [Vec<u8>], process: Option<i32>) -> Pending<'a, Vec<Vec<u8>>> {
        Box::pin(async move {
            if let Some(ciphertexts) = self.known_ciphertexts(keys).map_err(|error| self.failure(error))? {
                return Ok(ciphertexts);
            }
            let session = self.tables.encoding(process);
            let encoded = self.encoded(keys, process).await;
            drop(session);
            if let Err(IndexError::Channel(ChannelError::Halted(_))) = &encoded {
                // Where too many are owed already, the next try owes it.
                let keys = keys.iter().cloned().map(Zeroizing::new).collect();
                let _ = self.owed.try_send((keys, process));
            }
            let ciphertexts = encoded.map_err(|error| self.failure(error))?;
            let ciphertexts: Vec<Vec<u8>> =
                ciphertexts.iter().map(|ciphertext| ciphertext.as_slice().to_vec()).collect();
            if self.kind == Kind::Mope {
                self.known.found(&ciphertexts);
            }
            Ok(ciphertexts)
        })
    }

    fn prepare<'a>(&'a self, keys: &'a [Vec<u8>], process: Option<i32>) -> Pending<'a, ()> {
        Box::pin(async move {
            let since = Instant::now();
            let entered = self.encode(keys, process).await?;
            if self.kind == Kind::FrequencyHiding {
                let entered = entered.into_iter().map(|ciphertext| (Blob(ciphertext), since));
                self.keep_ready(process, keys.iter().zip(entered));
            }
            Ok(())
        })
    }

    fn learned<'a>(&'a self, ciphertexts: &'a [Vec<u8>]) -> Pending<'a, Learned> {
        Box::pin(async move {
            let learned = self.tables.learn(ciphertexts).await;
            let learned = learned.map_err(|error| self.failure(error.into()))?;
            let labels = learned.of.iter().map(|one| Some(one.as_ref()?.label_bytes())).collect();
            let keys_leave = self.kind != Kind::Mope;
            Ok(Learned { labels, epoch: learned.epoch.to_be_bytes(), keys_leave })
        })
    }

    fn places<'a>(&'a self, keys: &'a [Vec<u8>]) -> Pending<'a, Vec<Place>> {
        Box::pin(async move {
            if let Some(known) = self.known_ciphertexts(keys).map_err(|error| self.failure(error))? {
                let exact =
                    |ciphertext| Place { exact: Some(ciphertext), among: None, below: None, above: None };
                return Ok(known.into_iter().map(exact).collect());
            }
            let bounds = self.bounds.read().await;
            let found = self.tree.places(keys).await.map_err(|error| self.failure(error))?;
            let places: Vec<Place> = found.into_iter().map(place).collect();
            if self.kind != Kind::Mope {
                let mut bounds = bounds.lock().unwrap_or_else(PoisonError::into_inner);
                let now = Instant::now();
                places
                    .iter()
                    .flat_map(Place::ciphertexts)
                    .for_each(|ciphertext| bounds.note(ciphertext, now));
            }
            Ok(places)
        })
    }
}

fn noted(bounds: &mut std::sync::Mutex<Lately>) -> &mut Lately {
    bounds.get_mut().unwrap_or_else(PoisonError::into_inner)
}

/// Where a value stands, by ciphertexts alone.
fn place(found: Found) -> Place {
    let bytes = |stored: arras_schemes::mope::Stored| stored.ciphertext.as_slice().to_vec();
    match found {
        Found::At(stored) => Place { exact: Some(bytes(stored)), among: None, below: None, above: None },
        Found::Among { below, first, last, above } => Place {
            exact: None,
            among: Some((bytes(first), bytes(last))),
            below: below.map(bytes),
            above: above.map(bytes),
        },
        Found::Between { below, above } => {
            Place { exact: None, among: None, below: below.map(bytes), above: above.map(bytes) }
        }
    }
}
