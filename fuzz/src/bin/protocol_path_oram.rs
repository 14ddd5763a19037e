//! Messages of `path_oram`, from whichever peer, and shapes: the paths of one that is valid are within it.
#![no_main]

use arras_fuzz::{decodes_stably, seed};
use arras_protocol::codec::{decode, encode};
use arras_protocol::path_oram::{BUCKETS_BYTES_MAX, PATHS_MAX, Request, Response, Shape, WriteBack};
use arras_protocol::{Blob, IndexId};
use libfuzzer_sys::fuzz_target;

fn seeds() -> Vec<Vec<u8>> {
    let (index, buckets) = (IndexId([1; 8]), Blob(vec![2; 60]));
    let shape = Shape { levels: 3, cached_levels: 1, bucket_bytes: 20 };
    let write = Some(WriteBack { leaves: vec![5], buckets: buckets.clone() });
    vec![
        encode(&Request::Access { index, epoch: 300, write, read: vec![0, 7], durable: true }),
        encode(&Request::Create { index, shape }),
        encode(&Request::Drop { index }),
        encode(&Request::Grow { index, levels: 4 }),
        encode(&Request::Load { index, first: 2, buckets: buckets.clone() }),
        encode(&Response::Done),
        encode(&Response::Paths(buckets)),
        encode(&(shape, vec![5_u32, 4, 0])),
    ]
}

fuzz_target!(init: seed(seeds), |bytes: &[u8]| {
    decodes_stably::<Request>(bytes);
    decodes_stably::<Response>(bytes);
    if let Ok((shape, mut leaves)) = decode::<(Shape, Vec<u32>)>(bytes)
        && shape.is_valid()
    {
        leaves.truncate(PATHS_MAX);
        let places = shape.places(&leaves);
        assert!(places.is_sorted() && places.len() <= leaves.len() * shape.path_buckets());
        assert!(places.iter().all(|place| (shape.first_place()..shape.end_place()).contains(place)));
        let path_bytes = shape.path_buckets() * shape.bucket_bytes as usize;
        assert!(shape.paths_max() * path_bytes <= BUCKETS_BYTES_MAX);
    }
});
