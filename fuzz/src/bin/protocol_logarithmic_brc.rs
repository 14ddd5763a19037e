//! Messages of `logarithmic_brc`, from whichever peer, and shapes: one that passes the check has layouts that add up.
#![no_main]

use arras_fuzz::{decodes_stably, seed};
use arras_protocol::codec::{decode, encode};
use arras_protocol::logarithmic_brc::cjjjkrs::Shape;
use arras_protocol::logarithmic_brc::cjjkrs::{Label, SearchToken};
use arras_protocol::logarithmic_brc::{
    Asked, Bin, Block, InstanceId, Others, RECORDS_MAX, Request, Response,
};
use arras_protocol::{Blob, IndexId};
use libfuzzer_sys::fuzz_target;

fn seeds() -> Vec<Vec<u8>> {
    let (index, instance) = (IndexId([1; 8]), InstanceId([2; 16]));
    let shapes = [Shape::packed(4096, 21), Shape::basic(256, 25)].into_iter().flatten();
    let builds = shapes.clone().map(|shape| {
        encode(&Request::Build {
            index,
            instance,
            shape,
            bins: vec![Bin { place: 3, cells: Blob(vec![4; 80]) }],
            blocks: vec![Block { label: Label([5; 16]), sealed: Blob(vec![6; 40]) }],
            others: Some(Others { kept: vec![instance], replaced: vec![instance] }),
        })
    });
    let asked = vec![Asked { instance, tokens: vec![SearchToken([7; 16]); 2] }];
    let others = [
        encode(&Request::Retain { index, instances: vec![instance; 2] }),
        encode(&Request::Search { index, asked: asked.clone(), skip: 300 }),
        encode(&Request::Heads { index, asked }),
        encode(&Response::Found { records: vec![0, 8], sealed: Blob(vec![9; 50]) }),
    ];
    builds.chain(others).chain(shapes.map(|shape| encode(&(shape, 1000_u32)))).collect()
}

fuzz_target!(init: seed(seeds), |bytes: &[u8]| {
    decodes_stably::<Request>(bytes);
    decodes_stably::<Response>(bytes);
    if let Ok((shape, records)) = decode::<(Shape, u32)>(bytes)
        && let Some(shape) = shape.checked()
        && let Some(layout) = shape.layout(records)
    {
        assert!(layout.in_cells <= records && records <= RECORDS_MAX);
        let cells = u64::from(layout.cells) * u64::from(shape.cell_records);
        let blocks = u64::from(layout.blocks) * u64::from(shape.block_records);
        assert!(u64::from(layout.in_cells) <= cells && u64::from(records - layout.in_cells) <= blocks);
    }
});
