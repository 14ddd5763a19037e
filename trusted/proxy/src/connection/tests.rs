#![allow(clippy::unwrap_used)]

use super::*;

#[test]
fn pauses_grow_to_a_limit() {
    let pauses: Vec<u128> = (1..=8).map(|failures| pause_after(failures).as_millis()).collect();
    assert_eq!(pauses, [50, 100, 200, 400, 800, 1600, 2000, 2000]);
    assert_eq!(pause_after(u32::MAX), PAUSE_MAX);
}

/// What the message below waits for while it is decoded.
static WAITING: Mutex<Option<std::sync::mpsc::Receiver<()>>> = Mutex::new(None);

/// A message that is decoded only once something else was done.
struct Waits;

impl<'de> serde::Deserialize<'de> for Waits {
    fn deserialize<D: serde::Deserializer<'de>>(decoder: D) -> Result<Self, D::Error> {
        Vec::<u8>::deserialize(decoder)?;
        let waiting = WAITING.lock().unwrap().take().unwrap();
        // As long as this runs, the only worker is somewhere else, or the other task would never be.
        waiting.recv_timeout(Duration::from_secs(60)).map_err(serde::de::Error::custom)?;
        Ok(Self)
    }
}

#[test]
fn a_large_reply_that_is_decoded_keeps_no_thread_from_others() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
    let (done, waiting) = std::sync::mpsc::channel();
    *WAITING.lock().unwrap() = Some(waiting);
    let large = codec::encode(&vec![7_u8; DECODED_AT_ONCE_BYTES]);
    let met = runtime.block_on(async {
        let decoding = async move {
            tokio::spawn(async move { done.send(()).unwrap() });
            decoded::<Waits>(large).await
        };
        tokio::spawn(decoding).await.unwrap()
    });
    assert!(met.is_ok(), "{:?}", met.err());
}
