//! Tables as hypervisors write them, and bytes that are none.
#![allow(clippy::indexing_slicing, clippy::unwrap_used)]

use super::*;
use proptest::prelude::*;

/// A table of entries, each with a certificate's bytes behind the entries.
pub(in crate::tsm) fn table(entries: &[([u8; 16], &[u8])]) -> Vec<u8> {
    let mut offset = ENTRY_BYTES * (entries.len() + 1);
    let (mut head, mut certificates) = (Vec::new(), Vec::new());
    for (guid, certificate) in entries {
        head.extend(entry(*guid, offset as u32, certificate.len() as u32));
        certificates.extend_from_slice(certificate);
        offset += certificate.len();
    }
    head.extend([0; ENTRY_BYTES]);
    head.extend(certificates);
    head
}

fn entry(guid: [u8; 16], offset: u32, length: u32) -> Vec<u8> {
    [&guid[..], &offset.to_le_bytes(), &length.to_le_bytes()].concat()
}

/// A table of entries as they are given, with bytes behind it.
fn raw(entries: &[Vec<u8>], behind: usize) -> Vec<u8> {
    [entries.concat(), vec![0; ENTRY_BYTES], vec![7; behind]].concat()
}

#[test]
fn certificates_are_found_by_their_guids() {
    let whole = table(&[(ARK, b"root"), (VCEK, b"chip"), ([9; 16], b"else"), (ASK, b"between")]);
    let found = read(&whole).unwrap();
    assert_eq!((found.vcek, found.ask, found.vlek), (Some(&b"chip"[..]), Some(&b"between"[..]), None));
    let cloud = table(&[(VLEK, b"cloud")]);
    assert_eq!(read(&cloud).unwrap().vlek, Some(&b"cloud"[..]));
}

/// As AMD's own tools have them: the digits in the order in which they are written.
#[test]
fn a_guid_stands_as_it_is_written() {
    let written = |guid: [u8; 16]| crate::hexadecimal::written(&guid);
    assert_eq!(written(VCEK), "63da758de6644564adc5f4b93be8accd");
    assert_eq!(written(VLEK), "a8074bc2a25a483eaae639c045a0b8a1");
    assert_eq!(written(ASK), "4ab7b379bbac4fe4a02f05aef327c782");
    assert_eq!(written(ARK), "c0b406a4a803495297433fb6014cd0ae");
}

#[test]
fn there_may_be_none() {
    let none = Ok(Certificates::default());
    assert_eq!(read(b""), none);
    assert_eq!(read(&table(&[])), none);
    // What a hypervisor leaves of a place that it has not filled.
    assert_eq!(read(&raw(&[entry(VCEK, 48, 0), entry(VCEK, 0, 0)], 0)), none);
}

#[test]
fn what_is_no_table_is_refused() {
    let whole = table(&[(VCEK, b"chip"), (ASK, b"between")]);
    for length in 1..whole.len() {
        // An entry that names bytes which are not there is noticed before the missing end of the entries.
        let refused = read(&whole[..length]).unwrap_err();
        let expected = if length < ENTRY_BYTES { TableError::Truncated } else { TableError::Outside };
        assert_eq!(refused, expected, "{length}");
    }
    let endless = [entry([9; 16], 0, 0), entry(VCEK, 0, 0)].concat();
    assert_eq!(read(&endless), Err(TableError::Truncated));
    for (offset, length) in [(u32::MAX, u32::MAX), (u32::MAX, 1), (48, u32::MAX), (56, 1), (55, 2)] {
        let refused = read(&raw(&[entry(VCEK, offset, length)], 8)).err();
        assert_eq!(refused, Some(TableError::Outside), "{offset} {length}");
    }
    // Of the entries themselves, or the end of them.
    for offset in [0, 24, 47] {
        let refused = read(&raw(&[entry(VCEK, offset, 4)], 8)).err();
        assert_eq!(refused, Some(TableError::Overlapping), "{offset}");
    }
    let (chip, between) = (entry(VCEK, 72, 6), entry([9; 16], 77, 3));
    for entries in [[chip.clone(), between.clone()], [between, chip]] {
        assert_eq!(read(&raw(&entries, 8)), Err(TableError::Overlapping));
    }
    let twice = read(&raw(&[entry(VCEK, 72, 4), entry(VCEK, 76, 4)], 8)).err();
    assert_eq!(twice, Some(TableError::Twice));
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = read(&bytes);
    }

    /// Entries near what is right, so that some are.
    #[test]
    fn what_is_found_lies_behind_the_entries_and_apart(
        entries in prop::collection::vec((0..5_usize, 0..300_u32, 0..60_u32), 0..6), behind in 0..200_usize,
    ) {
        let guids = [VCEK, VLEK, ASK, ARK, [9; 16]];
        let entries: Vec<Vec<u8>> =
            entries.into_iter().map(|(guid, offset, length)| entry(guids[guid], offset, length)).collect();
        let bytes = raw(&entries, behind);
        if let Ok(found) = read(&bytes) {
            let all: Vec<&[u8]> = [found.vcek, found.vlek, found.ask].into_iter().flatten().collect();
            prop_assert!(all.iter().map(|one| one.len()).sum::<usize>() <= behind);
        }
    }

    #[test]
    fn what_is_written_is_found(
        chip in prop::collection::vec(any::<u8>(), 1..50), between in prop::collection::vec(any::<u8>(), 1..50),
    ) {
        let bytes = table(&[([9; 16], &between), (ASK, &between), (VCEK, &chip)]);
        let found = read(&bytes).unwrap();
        prop_assert_eq!((found.vcek, found.ask), (Some(&chip[..]), Some(&between[..])));
    }
}
