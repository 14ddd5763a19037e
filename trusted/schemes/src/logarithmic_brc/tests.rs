use super::build::{Builder, rounded, worst_sizes};
use super::fences::Fences;
use super::instance::{InstanceKeys, Part, Room, part_records, token_input};
use super::record::{Operation, Record, newest};
use super::{Cover, Node, Packing, Padding, Parameters};
use arras_keys::Key;
use arras_primitives::prg::{self, Prg};
use arras_protocol::RowId;
use arras_protocol::logarithmic_brc::InstanceId;
use arras_protocol::logarithmic_brc::cjjkrs::{Label, mask_records};
use arras_protocol::ore::Width;
use proptest::prelude::*;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

fn vectors() -> Value {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../kat/logarithmic_brc.json");
    serde_json::from_str(&std::fs::read_to_string(path).expect("the vectors are there")).expect("JSON")
}

fn number(value: &Value) -> u64 {
    u64::from_str_radix(value.as_str().expect("text"), 16).expect("hexadecimal")
}

fn bytes<const N: usize>(value: &Value) -> [u8; N] {
    let text = value.as_str().expect("text");
    std::array::from_fn(|at| u8::from_str_radix(&text[2 * at..2 * at + 2], 16).expect("hexadecimal"))
}

#[test]
fn covers_are_those_of_the_second_implementation() {
    for case in vectors()["covers"].as_array().expect("cases") {
        let nodes = case["nodes"].as_array().expect("nodes").iter().map(|node| Node {
            level: u8::try_from(node[0].as_u64().expect("a level")).expect("a level"),
            prefix: number(&node[1]),
        });
        let found = Cover::Best.of(number(&case["lower"]), number(&case["upper"]));
        assert_eq!(found, nodes.collect::<Vec<_>>(), "{}", case["name"]);
    }
}

#[test]
fn labels_are_those_of_the_second_implementation() {
    for case in vectors()["labels"].as_array().expect("cases") {
        let [keywords, seals] = InstanceKeys::roots(&Key::take_from(&mut bytes(&case["index_key"])));
        let keys = InstanceKeys::new(&keywords, &seals, InstanceId(bytes(&case["instance"])));
        let level = u8::try_from(case["level"].as_u64().expect("a level")).expect("a level");
        let mut token = [token_input(Node { level, prefix: number(&case["prefix"]) })];
        keys.tokens(&mut token);
        assert_eq!(token[0], bytes(&case["token"]), "{}", case["name"]);
        let mut stream = [[0; 16]; 4];
        prg::stream(&token[0], &mut stream);
        assert_eq!(stream[0], bytes(&case["mask"]));
        let labels: Vec<[u8; 16]> = case["labels"].as_array().expect("labels").iter().map(bytes).collect();
        assert_eq!(stream[1..], labels);
        let masked = u64::from(mask_records(&stream[0], 1000));
        assert_eq!(Some(masked), case["masked_1000_records"].as_u64());
        let bin = u64::from(Label(stream[1]).bin(1000));
        assert_eq!(Some(bin), case["bin_of_first_label_of_1000"].as_u64());
    }
}

fn keys(number: u8) -> InstanceKeys {
    let [keywords, seals] = InstanceKeys::roots(&Key::take_from(&mut [5; 32]));
    InstanceKeys::new(&keywords, &seals, InstanceId([number; 16]))
}

fn record(value: u64, row: u8) -> Record {
    Record { value, row: RowId([row; 16]), operation: Operation::Insert }
}

fn small(packing: Packing, padding: Padding) -> Parameters {
    Parameters { domain_bits: 10, page_bytes: 256, packing, padding, ..Parameters::new(Width::Bits32) }
}

/// An instance as the server holds it.
struct Built {
    bins: BTreeMap<u32, Vec<u8>>,
    blocks: BTreeMap<Label, Vec<u8>>,
    shape: arras_protocol::logarithmic_brc::cjjjkrs::Shape,
}

impl Built {
    fn cells(&self) -> u64 {
        (self.bins.values().map(Vec::len).sum::<usize>() / self.shape.cell_bytes()) as u64
    }
}

fn build(parameters: &Parameters, keys: &InstanceKeys, records: &[Record]) -> Built {
    let builder =
        Builder::new(parameters, keys, false, records, &mut Prg::new(&[1; 16])).expect("not too many");
    let mut built = Built { bins: BTreeMap::new(), blocks: BTreeMap::new(), shape: builder.shape };
    let mut ended = false;
    for (batch, is_last) in builder.batches() {
        assert!(!std::mem::replace(&mut ended, is_last), "nothing after the last batch");
        for bin in batch.bins {
            assert!(built.bins.insert(bin.place, bin.cells.0).is_none(), "a bin is sent once");
        }
        built.blocks.extend(batch.blocks.into_iter().map(|block| (block.label, block.sealed.0)));
    }
    assert!(ended, "the last batch is marked");
    built
}

fn records_of(pairs: &[(u64, u8)]) -> Vec<Record> {
    newest(pairs.iter().map(|(value, row)| record(*value, *row)).collect())
}

fn pairs() -> impl Strategy<Value = Vec<(u64, u8)>> {
    let value = prop_oneof![3 => 0_u64..1024, 2 => 0_u64..8, 1 => Just(1023_u64)];
    proptest::collection::vec((value, any::<u8>()), 1..300)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(48) })]

    /// Each list that should be there is found label by label, in a bin at or behind its home with only full ones
    /// between, and opens to the records below its node.
    #[test]
    fn an_instance_holds_every_list(pairs in pairs(), basic in any::<bool>(), padded in any::<bool>()) {
        let records = records_of(&pairs);
        let packing = if basic { Packing::Basic } else { Packing::Packed };
        let parameters = small(packing, if padded { Padding::Rounded } else { Padding::None });
        let keys = keys(1);
        let built = build(&parameters, &keys, &records);
        let cells: BTreeMap<Label, (u32, &[u8])> = built.bins.iter().flat_map(|(place, bin)| {
            prop_sorted(bin, built.shape.cell_bytes());
            bin.chunks_exact(built.shape.cell_bytes()).map(|cell| {
                (Label(cell[..16].try_into().expect("16 bytes")), (*place, &cell[16..]))
            })
        }).collect();
        let mut seen = 0;
        for level in 0..=parameters.domain_bits {
            for prefix in records.iter().map(|record| record.value >> level).collect::<BTreeSet<_>>() {
                let node = Node { level, prefix };
                let expected: Vec<Record> =
                    records.iter().filter(|record| node.covers(record.value)).copied().collect();
                let count = u32::try_from(expected.len()).expect("few");
                let layout = built.shape.layout(count).expect("few");
                let mut token = [token_input(node)];
                keys.tokens(&mut token);
                let mut stream = vec![[0; 16]; layout.parts() as usize + 1];
                prg::stream(&token[0], &mut stream);
                let mut found = Vec::new();
                let mut fences = None;
                for position in 0..layout.parts() {
                    let label = Label(stream[position as usize + 1]);
                    let part = Part { node, records: count, position };
                    let (first, until) = part_records(&built.shape, &layout, count, position);
                    let room = Room::of(Width::Bits32, &built.shape, &layout, position);
                    let sealed = if position < layout.cells {
                        let (place, cell) = cells[&label];
                        for between in label.bin(built.shape.bins)..place {
                            let full = built.bins[&between].len() / built.shape.cell_bytes();
                            prop_assert_eq!(full, built.shape.bin_cells as usize);
                        }
                        if position == 0 {
                            let header = u32::from_le_bytes(cell[..4].try_into().expect("4 bytes"));
                            prop_assert_eq!(mask_records(&stream[0], header), count);
                        }
                        seen += 1;
                        &cell[4..]
                    } else {
                        &built.blocks[&label][..]
                    };
                    let held = (until - first) as usize;
                    let opened = keys.open(room, part, held, sealed, &mut found).expect("opens");
                    prop_assert_eq!(opened.is_some(), position == 0);
                    fences = fences.or(opened);
                    let elsewhere = Part { position: position + 1, ..part };
                    prop_assert!(keys.open(room, elsewhere, held, sealed, &mut Vec::new()).is_err());
                    let longer = Part { records: count + 1, ..part };
                    prop_assert!(keys.open(room, longer, held, sealed, &mut Vec::new()).is_err());
                }
                // What is next to the parent's other half comes first.
                if node.prefix & 1 == 0 {
                    found.reverse();
                }
                prop_assert_eq!(found, expected);
                let values = || records.iter().map(|record| record.value);
                let below = values().filter(|value| *value < node.least()).max();
                let above = values().find(|value| *value >> level > prefix);
                prop_assert_eq!(fences, Some(Fences { below, above }));
            }
        }
        let expected_cells = if padded { rounded(seen) } else { seen };
        prop_assert_eq!(built.cells(), expected_cells);
    }

    /// With the basic packing, or padded to the worst case, sizes are a function of the number of records.
    #[test]
    fn sizes_say_the_number_of_records_only(left in pairs(), right in pairs()) {
        let (mut left, mut right) = (records_of(&left), records_of(&right));
        let count = left.len().min(right.len());
        left.truncate(count);
        right.truncate(count);
        for (packing, padding) in [
            (Packing::Basic, Padding::None),
            (Packing::Basic, Padding::Worst),
            (Packing::Packed, Padding::Worst),
        ] {
            let parameters = small(packing, padding);
            let [left, right] = [&left, &right].map(|records| build(&parameters, &keys(1), records));
            prop_assert_eq!(left.cells(), right.cells());
            prop_assert_eq!(left.blocks.len(), right.blocks.len());
            prop_assert_eq!(left.shape, right.shape);
        }
        let worst = worst_sizes(&left_shape(), 0..11, 10, count as u64);
        let built = build(&small(Packing::Packed, Padding::None), &keys(1), &left);
        prop_assert!(built.cells() <= worst.cells && built.blocks.len() as u64 <= worst.blocks);
    }
}

fn left_shape() -> arras_protocol::logarithmic_brc::cjjjkrs::Shape {
    small(Packing::Packed, Padding::None).shape().expect("the page is large enough")
}

fn prop_sorted(bin: &[u8], cell_bytes: usize) {
    let labels: Vec<&[u8]> = bin.chunks_exact(cell_bytes).map(|cell| &cell[..16]).collect();
    assert!(labels.is_sorted(), "a bin is ordered by label");
}

#[test]
fn the_same_records_look_different_in_another_instance() {
    let records = records_of(&[(1, 1), (1, 2), (900, 3)]);
    let parameters = small(Packing::Packed, Padding::None);
    let labels = |number| {
        let built = build(&parameters, &keys(number), &records);
        let bins: Vec<u8> = built.bins.into_values().flatten().collect();
        bins.chunks_exact(built.shape.cell_bytes()).map(<[u8]>::to_vec).collect::<BTreeSet<_>>()
    };
    assert_eq!(labels(1), labels(1));
    assert!(labels(1).is_disjoint(&labels(2)));
}

#[test]
fn the_newest_record_of_an_entry_counts() {
    let removed = Record { operation: Operation::Remove, ..record(5, 1) };
    assert_eq!(newest(vec![removed, record(4, 1), record(5, 1)]), [record(4, 1), removed]);
    assert_eq!(newest(vec![record(5, 1), removed, record(5, 1)]), [record(5, 1)]);
}

#[test]
fn rounded_numbers_are_little_larger() {
    for number in 0..5000_u64 {
        let padded = rounded(number);
        assert!(padded >= number && padded <= number + number / 8);
        assert_eq!(rounded(padded), padded);
    }
}
