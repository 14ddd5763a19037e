//! What every [`Store`] must do, as assertions: call it from a test of the service.
#![allow(clippy::unwrap_used, clippy::missing_panics_doc, reason = "a broken service is what they are for")]

use super::Store;
use arras_protocol::Blob;
use arras_protocol::iee::{ENTRY_BYTES, LABEL_BYTES, SEALED_BYTES, StateName};

fn label(number: u32) -> [u8; LABEL_BYTES] {
    let mut label = [7; LABEL_BYTES];
    let parts = [number.wrapping_mul(0x9e37_79b1), number].map(u32::to_be_bytes).concat();
    label.iter_mut().zip(parts).for_each(|(place, byte)| *place = byte);
    label
}

fn labels(numbers: impl IntoIterator<Item = u32>) -> Blob {
    numbers.into_iter().flat_map(label).collect::<Vec<u8>>().into()
}

fn entries(numbers: impl IntoIterator<Item = u32>, byte: u8) -> Blob {
    let entry = |number| {
        let mut entry = [byte; ENTRY_BYTES];
        entry.iter_mut().zip(label(number)).for_each(|(place, byte)| *place = byte);
        entry
    };
    numbers.into_iter().flat_map(entry).collect::<Vec<u8>>().into()
}

/// What every service does.
pub async fn a_service_keeps_what_it_is_given<S: Store>(store: &S) {
    store.put(entries(0..1000, 1)).await.unwrap();
    store.put(entries(500..600, 2)).await.unwrap();
    store.remove(labels([3, 3, 5000])).await.unwrap();
    let asked = [999, 550, 3, 7000, 0, 550];
    let expected = [1, 2, 0, 0, 1, 2].map(|byte| [byte; SEALED_BYTES]).concat();
    assert_eq!(store.get(labels(asked)).await.unwrap(), expected);
    assert!(store.get(Blob::default()).await.unwrap().is_empty());
    store.put(Blob::default()).await.unwrap();

    let checkpoint = |generation, piece| StateName::Checkpoint { generation, piece };
    let names = [
        StateName::Head,
        StateName::Log(1),
        StateName::Log(255),
        StateName::Log(256),
        StateName::Log(u64::MAX),
        checkpoint(255, 0),
        checkpoint(255, 9),
        checkpoint(256, 0),
        checkpoint(u64::MAX, u32::MAX),
    ];
    for (place, name) in names.into_iter().enumerate() {
        assert_eq!(store.load(name).await.unwrap(), None);
        store.save(name, vec![9; 5].into()).await.unwrap();
        store.save(name, vec![u8::try_from(place).unwrap(); 40_000].into()).await.unwrap();
    }
    store.forget(256).await.unwrap();
    for (place, name) in names.into_iter().enumerate() {
        let kept = !matches!(place, 1..=3 | 5 | 6);
        let state = kept.then(|| vec![u8::try_from(place).unwrap(); 40_000]);
        assert_eq!(store.load(name).await.unwrap(), state, "{name:?}");
    }
    store.forget(256).await.unwrap();
}
