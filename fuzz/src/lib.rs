//! What the fuzz targets share: writing seeds, and the law every decoder obeys.

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
