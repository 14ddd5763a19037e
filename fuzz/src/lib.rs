//! What the fuzz targets share: writing seeds, the law every decoder obeys, and a server that is sent requests.

use arras_protocol::{Protocol, ProtocolId, codec};
use arras_server::Backend;
use arras_storage::Memory;
use std::path::Path;

/// Names the folder that seeds are written to; the target then ends instead of fuzzing.
const SEEDS_VARIABLE: &str = "ARRAS_FUZZ_SEEDS";

/// Writes the seeds of a target and ends, if asked to by the environment. Called before the first input.
pub fn seed<I: IntoIterator<Item = Vec<u8>>>(seeds: impl FnOnce() -> I) {
    let Some(folder) = std::env::var_os(SEEDS_VARIABLE) else {
        return;
    };
    let folder = Path::new(&folder);
    std::fs::create_dir_all(folder).expect("the folder for seeds can be made");
    for (number, bytes) in seeds().into_iter().enumerate() {
        std::fs::write(folder.join(format!("seed-{number:03}")), bytes).expect("a seed can be written");
    }
    std::process::exit(0);
}

/// A message that decodes says the same after a round trip.
pub fn decodes_stably<T>(bytes: &[u8])
where
    T: serde::Serialize + serde::de::DeserializeOwned + PartialEq + std::fmt::Debug,
{
    if let Ok(message) = arras_protocol::codec::decode::<T>(bytes) {
        let again = arras_protocol::codec::encode(&message);
        assert_eq!(arras_protocol::codec::decode::<T>(&again).as_ref(), Ok(&message));
    }
}

/// The document in `bytes`, if they hold one within the limits.
#[must_use]
pub fn document(bytes: &[u8]) -> Option<bson::Document> {
    arras_documents::limits::check_document(bytes).ok()?;
    bson::Document::from_reader(bytes).ok()
}

/// The documents as seeds.
#[must_use]
pub fn encoded(documents: impl IntoIterator<Item = bson::Document>) -> Vec<Vec<u8>> {
    documents.into_iter().map(|document| document.to_vec().expect("a document that encodes")).collect()
}

/// Requests as [`serve`] reads them: each is `protocol: u8 | length: u16 LE | body`.
#[must_use]
pub fn framed<P: Protocol>(requests: &[P::Request]) -> Vec<u8> {
    let frame = |request| {
        let body = codec::encode(request);
        let length = u16::try_from(body.len()).expect("a short request").to_le_bytes();
        [vec![P::ID.0], length.to_vec(), body].concat()
    };
    requests.iter().flat_map(frame).collect()
}

/// Sends requests to a server with an empty store. It answers or refuses; only a panic is a fault.
pub fn serve(bytes: &[u8]) {
    let backend = Backend::open(Memory::new(), [0; 16]).expect("an empty store opens");
    let mut rest = bytes;
    while let Some(([protocol, low, high], after)) = rest.split_first_chunk::<3>() {
        let (body, after) = after.split_at(usize::from(u16::from_le_bytes([*low, *high])).min(after.len()));
        rest = after;
        let _ = backend.handle(ProtocolId(*protocol), body);
    }
}
