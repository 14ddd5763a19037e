//! Partial sums as range indexes seal them.
#![no_main]

use arras_documents::accumulate::{self, NumberSum};
use arras_fuzz::seed;
use bson::Bson;
use libfuzzer_sys::fuzz_target;

fn seeds() -> Vec<Vec<u8>> {
    let decimal = "1.5".parse::<bson::Decimal128>().map_or(Bson::Null, Bson::from);
    let values = [Bson::Int32(7), Bson::Int64(i64::MAX), Bson::Double(1e300), decimal];
    let mut sum = NumberSum::default();
    let mut seeds = vec![sum.to_bytes()];
    for value in &values {
        accumulate::add_value(&mut sum, value);
        seeds.push(sum.to_bytes());
    }
    seeds
}

fuzz_target!(init: seed(seeds), |bytes: &[u8]| {
    if let Ok(mut sum) = NumberSum::from_bytes(bytes) {
        let again = NumberSum::from_bytes(&sum.to_bytes()).expect("what was written is read");
        assert_eq!(again.to_bytes(), sum.to_bytes());
        sum.merge(&again);
        sum.finish();
        sum.average();
    }
});
