use super::*;
use bson::doc;
use rand::SeedableRng;
use rand::rngs::StdRng;

fn sealer() -> (DocumentSealer, StdRng) {
    (DocumentSealer::new(CollectionId([7; 8]), &Key::generate()), StdRng::seed_from_u64(1))
}

fn held(counter: u32) -> Held {
    Held { tree: [5; 4], counter }
}

fn sample() -> Document {
    doc! { "_id": 1, "name": "Ada", "nested": { "list": [1, 2.5, "three"] }, "nothing": Bson::Null }
}

#[test]
fn a_sealed_document_opens_to_itself_in_field_order() {
    let (sealer, mut rng) = sealer();
    let row = sealer.row_id(&Bson::Int32(1));
    let terms = IndexTerms { entries: vec![(IndexId([1; 8]), vec![held(3), held(4)])] };
    let sealed = sealer.seal(row, 42, terms.clone(), &sample(), &mut rng).expect("seals");
    let opened = sealer.open(&sealed).expect("opens");
    let version = opened.version;
    let encoded = sealer.open_encoded(&sealed).expect("opens");
    let bytes = encoded.as_bytes().len();
    assert_eq!(opened, OpenDocument { row, version, sequence: 42, terms, document: sample(), bytes });
    assert_eq!(encoded.into_bytes(), sample().to_vec().expect("BSON"));
}

#[test]
fn a_header_is_replaced_without_the_values() {
    let (sealer, mut rng) = sealer();
    let row = sealer.row_id(&Bson::Int32(1));
    let terms = |counter| IndexTerms { entries: vec![(IndexId([1; 8]), vec![held(counter)])] };
    let mut sealed = sealer.seal(row, 42, terms(3), &sample(), &mut rng).expect("seals");
    let opened = sealer.open(&sealed).expect("opens");
    let header = sealer.header(&opened, terms(4_000_000_000), &mut rng);
    assert_eq!(header.as_slice().len(), sealed.header.as_slice().len());
    sealed.header = header;
    assert_eq!(sealer.open(&sealed), Ok(OpenDocument { terms: terms(4_000_000_000), ..opened.clone() }));
    // Not beside the values of another sealing of the same document.
    let mut later = sealer.seal(row, 42, terms(3), &sample(), &mut rng).expect("seals");
    later.header = sealed.header;
    assert_eq!(sealer.open(&later), Err(OpenFailed));
}

/// As long as the values are together, and no longer for how many they are.
#[test]
fn lengths_show_the_values_together_and_of_the_names_no_more_than_the_header_does() {
    let (sealer, mut rng) = sealer();
    let row = sealer.row_id(&Bson::Int32(1));
    let mut lengths = |document: Document| {
        let sealed = sealer.seal(row, 0, IndexTerms::default(), &document, &mut rng).expect("seals");
        (sealed.header.len(), sealed.values.len())
    };
    let short = lengths(doc! { "_id": 1, "a": "0123456789" });
    assert_eq!(short, lengths(doc! { "_id": 1, "name": "abcdefghij" }));
    assert_eq!(short.1, 28 + 5 + (2 + 4) + (2 + 15));
    // Two small integers are as long as one string of five bytes.
    assert_eq!(lengths(doc! { "_id": 1, "b": 2 }).1, lengths(doc! { "_id": "abcde" }).1);
}

#[test]
fn ids_that_are_equal_across_number_types_share_a_row() {
    let (sealer, _) = sealer();
    assert_eq!(sealer.row_id(&Bson::Int32(1)), sealer.row_id(&Bson::Double(1.0)));
    assert_ne!(sealer.row_id(&Bson::Int32(1)), sealer.row_id(&Bson::String("1".into())));
}

#[test]
fn sealing_twice_repeats_no_ciphertext() {
    let (sealer, mut rng) = sealer();
    let row = sealer.row_id(&Bson::Int32(1));
    let first = sealer.seal(row, 0, IndexTerms::default(), &sample(), &mut rng).expect("seals");
    let second = sealer.seal(row, 0, IndexTerms::default(), &sample(), &mut rng).expect("seals");
    assert_ne!(first.header, second.header);
    assert_ne!(first.values, second.values);
}

#[test]
fn moved_mixed_and_altered_ciphertexts_are_refused() {
    let (sealer, mut rng) = sealer();
    let refused = |sealed: &SealedDocument| {
        sealer.open(sealed).is_err() && sealer.open_encoded(sealed) == Err(OpenFailed)
    };
    let row = sealer.row_id(&Bson::Int32(1));
    let sealed = sealer.seal(row, 0, IndexTerms::default(), &sample(), &mut rng).expect("seals");
    let later = sealer.seal(row, 0, IndexTerms::default(), &sample(), &mut rng).expect("seals");

    let mut elsewhere = sealed.clone();
    elsewhere.row = sealer.row_id(&Bson::Int32(2));
    assert!(refused(&elsewhere));

    let mut swapped = sealed.clone();
    (swapped.header, swapped.values) = (swapped.values, swapped.header);
    assert!(refused(&swapped));

    let mixed = SealedDocument { values: later.values, ..sealed.clone() };
    assert!(refused(&mixed));

    let mut shorter = sealed.clone();
    shorter.values.0.pop();
    assert!(refused(&shorter));

    for position in 0..sealed.header.len() {
        let mut flipped = sealed.clone();
        flipped.header.0[position] ^= 1;
        assert!(refused(&flipped));
    }
    for position in 0..sealed.values.len() {
        let mut flipped = sealed.clone();
        flipped.values.0[position] ^= 1;
        assert!(refused(&flipped));
    }
}

#[test]
fn what_could_not_be_read_again_is_not_sealed() {
    let (sealer, mut rng) = sealer();
    let row = sealer.row_id(&Bson::Int32(1));
    for document in [doc! { "a": { "b\0c": 1 } }, doc! { "a\0b": 1 }, doc! { "a": [{ "\0": 1 }] }] {
        let sealed = sealer.seal(row, 0, IndexTerms::default(), &document, &mut rng);
        assert_eq!(sealed.expect_err("has a null byte in a name"), NotStorable);
    }
}
