use super::ArxRangeParameters;
use super::aggregate::{Aggregate, PART_BYTES};
use super::directory::{Levels, level};
use super::entry::{Entry, Record, decode_bucket, encode_bucket};
use super::secrets::{Place, Secrets, place_before};
use arras_keys::Key;
use arras_numbers::{Decimal, Number, NumberSum};
use arras_protocol::{IndexId, RowId};

fn parameters(sums: usize) -> ArxRangeParameters {
    ArxRangeParameters { key_bytes: 3, bucket_factor: 4, top_nodes: 8, sums, aggregates: false }
}

fn sum(value: Number) -> NumberSum {
    let mut sum = NumberSum::new();
    sum.add(value);
    sum
}

fn sample(parameters: &ArxRangeParameters, number: u8) -> Entry {
    let sums = vec![sum(Number::Int(i32::from(number))); parameters.sums];
    Entry { place: vec![number; parameters.place_bytes()].into(), row: RowId([number; 16]), sums }
}

#[test]
fn the_place_before_borrows() {
    let place = |bytes: [u8; 3]| -> Place { bytes.into() };
    assert_eq!(place_before(&place([1, 0, 0])), Some(place([0, 255, 255])));
    assert_eq!(place_before(&place([1, 2, 3])), Some(place([1, 2, 2])));
    assert_eq!(place_before(&place([0, 0, 0])), None);
}

#[test]
fn the_lowest_place_is_no_separator_and_one_in_b_others_is() {
    let every = ArxRangeParameters { bucket_factor: 1, ..parameters(0) };
    let secrets = Secrets::new(IndexId([1; 8]), &Key::generate(), every);
    assert!(!secrets.is_separator(&[0; 7]));
    assert!(secrets.is_separator(&[0, 0, 0, 0, 0, 0, 1]));
    let secrets = Secrets::new(IndexId([1; 8]), &Key::take_from(&mut [5; 32]), parameters(0));
    let count = (0..4000_u32).filter(|place| secrets.is_separator(&place.to_be_bytes())).count();
    assert!((800..1200).contains(&count), "{count} of 4000");
}

#[test]
fn places_of_equal_keys_differ_by_row() {
    let secrets = Secrets::new(IndexId([1; 8]), &Key::generate(), parameters(0));
    let one = secrets.place(&[1, 2, 3], RowId([1; 16]));
    let other = secrets.place(&[1, 2, 3], RowId([2; 16]));
    assert_eq!((one.len(), &one[..3]), (7, [1, 2, 3].as_slice()));
    assert_eq!(other[..3], one[..3]);
    assert_ne!(one, other);
}

#[test]
fn the_threshold_is_the_least_level_that_fits() {
    let priority = |level: u32| !(u64::MAX >> level);
    assert_eq!((0..5).map(|l| level(priority(l))).collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
    let mut levels = Levels::new();
    assert_eq!(levels.threshold(0), 0);
    for (at, count) in [(0, 8), (1, 4), (2, 2), (3, 1)] {
        (0..count).for_each(|_| levels.add(priority(at)));
    }
    let thresholds: Vec<usize> = [0, 1, 2, 3, 6, 7, 14, 15].iter().map(|c| levels.threshold(*c)).collect();
    assert_eq!(thresholds, [4, 3, 3, 2, 2, 1, 1, 0]);
    levels.subtract(priority(3));
    assert_eq!(levels.threshold(0), 3);
    let mut encoded = Vec::new();
    levels.encode(&mut encoded);
    assert_eq!(Levels::decode(&encoded).from(0), 14);
}

#[test]
fn a_bucket_is_as_long_as_its_count_says() {
    for sums in [0, 2] {
        let parameters = parameters(sums);
        for count in 0..40 {
            let low: Vec<Entry> = (0..count).map(|number| sample(&parameters, number)).collect();
            let high: Vec<Entry> = (0..count).map(|number| sample(&parameters, 255 - number)).collect();
            let encoded = encode_bucket(&parameters, &low);
            assert_eq!(encoded.len(), encode_bucket(&parameters, &high).len());
            let decoded = decode_bucket(&parameters, &encoded).expect("what was encoded");
            assert!(
                decoded
                    .iter()
                    .zip(&low)
                    .all(|(one, other)| one.rank() == other.rank() && one.sums == other.sums)
            );
            assert_eq!(decoded.len(), low.len());
        }
        let length = |count| encode_bucket(&parameters, &vec![sample(&parameters, 1); count]).len();
        let lengths: std::collections::BTreeSet<usize> = (0..80).map(length).collect();
        assert!(lengths.len() <= 11, "{} lengths of up to 79 entries with {sums} sums", lengths.len());
        let encoded = encode_bucket(&parameters, &[sample(&parameters, 1), sample(&parameters, 2)]);
        let content_bytes = 4 + 2 * (7 + 16 + sums * PART_BYTES);
        for len in 0..content_bytes {
            assert!(decode_bucket(&parameters, &encoded[..len]).is_err(), "{len} bytes");
        }
    }
}

#[test]
fn a_part_has_room_for_any_number() {
    let decimal = Decimal::Finite { negative: true, coefficient: 10_u128.pow(34) - 1, exponent: 6111 };
    let numbers = [
        Number::Int(i32::MIN),
        Number::Long(i64::MIN),
        Number::Double(f64::MIN),
        Number::Double(-f64::MIN_POSITIVE),
        Number::Double(-5e-324),
        Number::Double(-1.0 / 3.0),
        Number::Double(f64::NAN),
        Number::Double(f64::NEG_INFINITY),
        Number::Decimal(decimal),
    ];
    for number in numbers {
        let bytes = sum(number).to_bytes().len();
        assert!(bytes <= PART_BYTES, "{number:?} takes {bytes} bytes");
    }
}

#[test]
fn a_record_comes_back_and_nothing_else_is_one() {
    for sums in [0, 1] {
        let parameters = parameters(sums);
        let aggregate =
            |count: u8| Aggregate::of(&parameters, &vec![sample(&parameters, 3); usize::from(count)]);
        let (own, left, right) = (aggregate(1), aggregate(2), aggregate(3));
        let encoded = Record::encode(&parameters, &[9; 7], &own, &left, &right);
        let record = Record::decode(&parameters, &encoded).expect("what was encoded");
        assert_eq!(*record.separator, [9; 7]);
        assert!(record.own == own && record.left == left && record.right == right);
        for len in 0..encoded.len() {
            assert!(Record::decode(&parameters, &encoded[..len]).is_err());
        }
        assert!(Record::decode(&parameters, &[encoded, vec![0]].concat()).is_err());
    }
}
