//! Schema files.
#![no_main]

use arras_fuzz::seed;
use arras_planner::schema::Schema;
use libfuzzer_sys::fuzz_target;

fn seeds() -> Vec<Vec<u8>> {
    let collection =
        "[collections.\"shop.orders\"]\nscan = \"refuse\"\nindexes = [[\"customer\", \"day\"]]\n";
    let fields = "[collections.\"shop.orders\".fields.customer]\noperations = [\"eq\"]\nunique = true\n";
    vec![collection.into(), [collection, fields].concat().into_bytes(), b"collections = 5".to_vec()]
}

fuzz_target!(init: seed(seeds), |bytes: &[u8]| {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Err(error) = Schema::parse(text, "schema.toml") {
        assert!(error.to_string().contains("schema.toml"), "{error}");
    }
});
