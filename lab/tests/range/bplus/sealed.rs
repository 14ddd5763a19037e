//! Rows beside ciphertexts: a copy of the store shows none, and a server that gives an entry another one's is found out.

use super::{Over, OverStateful};
use crate::body::Subject;
use crate::world::{INDEX, Wire, key, memory, prg, run};
use arras_protocol::Order;
use arras_protocol::bplus::{BPlus as Protocol, Request, Response, SealedEntry};
use arras_protocol::ore::{Scheme, Width};
use arras_protocol::{Channel, ChannelError, RowId};
use arras_schemes::IndexError;
use arras_schemes::arx_range::RangeEntry;
use arras_schemes::bplus::{BPlus, StatefulBPlus};
use arras_schemes::ore::clww::Clww;
use arras_schemes::ore::domain::plaintext_key;
use arras_schemes::ore::fh_ope::FhOpe;
use arras_schemes::ore::lewi_wu::{BlockBits, LewiWu};
use arras_schemes::traits::RangeIndex;
use arras_storage::{Direction, Failing, Memory, Read, Storage, Table};
use std::ops::{Bound, ControlFlow};
use std::sync::{Arc, Mutex};

/// Bytes beside a ciphertext.
const BESIDE: usize = SealedEntry::BYTES;

/// Rows as documents have them.
fn listed(count: u64) -> Vec<RangeEntry> {
    let mut random = prg(31);
    let mut entry = |number: u64| {
        let mut row = RowId([0; RowId::BYTES]);
        random.fill(&mut row.0);
        RangeEntry { value: plaintext_key(Width::Bits32, number / 3), row, sums: Vec::new() }
    };
    (0..count).map(&mut entry).collect()
}

fn over<F>(make: F) -> Over<F> {
    Over { width: Width::Bits32, page_bytes: 1 << 12, make }
}

/// All pages of a tree of these entries.
fn stored(subject: &impl Subject, list: &[RangeEntry]) -> Vec<u8> {
    run(async {
        let world = memory();
        subject
            .open(world.wire.clone())
            .await
            .expect("an empty index")
            .insert(list.to_vec())
            .await
            .expect("inserts");
        let reader = world.wire.backend().store().read().expect("memory does not fail");
        let mut bytes = Vec::new();
        let everything = (Bound::Unbounded, Bound::Unbounded);
        reader
            .scan(Table("bplus_pages"), everything, Direction::Ascending, &mut |_, page| {
                bytes.extend_from_slice(page);
                ControlFlow::Continue(())
            })
            .expect("memory does not fail");
        bytes
    })
}

#[test]
fn a_copy_of_the_store_shows_no_row() {
    let list = listed(40);
    let shows = |bytes: Vec<u8>| {
        list.iter().filter(|entry| bytes.windows(RowId::BYTES).any(|part| part == entry.row.0)).count()
    };
    assert_eq!(shows(stored(&over(|width| Clww::new(&key(), width)), &list)), 0);
    assert_eq!(shows(stored(&over(|width| LewiWu::new(&key(), width, BlockBits::Four)), &list)), 0);
    assert_eq!(shows(stored(&OverStateful(over(FhOpe::new)), &list)), 0);
}

/// What a lying server does with the entries it found.
#[derive(Clone, Copy, Debug)]
enum Lie {
    /// What lies beside the first ciphertext and the last, exchanged.
    Exchange,
    /// What lies beside the first, altered at this byte.
    Alter(usize),
    /// The first entry's ciphertext, altered at this byte.
    Ciphertext(usize),
}

struct Lying<S> {
    wire: Wire<S>,
    lie: Arc<Mutex<Option<Lie>>>,
    stored_bytes: usize,
}

impl<S: Storage> Channel<Protocol> for Lying<S> {
    async fn call(&self, request: Request) -> Result<Response, ChannelError> {
        let mut response = Channel::<Protocol>::call(&self.wire, request).await?;
        let lie = *self.lie.lock().expect("no test panicked here");
        if let (Response::Found { entries, .. }, Some(lie)) = (&mut response, lie) {
            let (stored, entry) = (self.stored_bytes, self.stored_bytes + BESIDE);
            match lie {
                Lie::Exchange => {
                    // Of the first and the last: of two values.
                    let last = entries.0.len() - entry;
                    let (first, last) = entries.0.split_at_mut(last);
                    first[stored..entry].swap_with_slice(&mut last[stored..]);
                }
                Lie::Alter(place) => entries.0[stored + place] ^= 1,
                Lie::Ciphertext(place) => entries.0[place] ^= 1,
            }
        }
        Ok(response)
    }
}

fn lied_to<I: RangeIndex>(
    scheme: Scheme,
    create: impl AsyncFn(Lying<Failing<Memory>>) -> Result<I, IndexError>,
) {
    run(async {
        let world = memory();
        let lie = Arc::new(Mutex::new(None));
        let stored_bytes = scheme.stored_bytes().expect("a scheme's own parameters");
        let channel = Lying { wire: world.wire.clone(), lie: lie.clone(), stored_bytes };
        let index = create(channel).await.expect("an empty index");
        index.insert(listed(30)).await.expect("inserts");
        let [low, high] = [0, 9].map(|value| plaintext_key(Width::Bits32, value));
        let search = async || index.search(low.clone(), high.clone(), Order::Ascending, None).await;
        assert_eq!(search().await.expect("an honest server").len(), 30);
        let lies = std::iter::once(Lie::Exchange)
            .chain((0..BESIDE).map(Lie::Alter))
            // Of a Lewi-Wu ciphertext only one slot a block is looked at: others are no part of the content.
            .chain((0..stored_bytes).map(Lie::Ciphertext));
        let truth = search().await.expect("an honest server");
        for told in lies {
            *lie.lock().expect("no test panicked here") = Some(told);
            match search().await {
                Err(IndexError::Open(_) | IndexError::Peer(_)) => {}
                Ok(found) if matches!(told, Lie::Ciphertext(_)) => assert_eq!(found, truth),
                other => panic!("{told:?}: {other:?}"),
            }
        }
    });
}

#[test]
fn a_row_that_is_another_entrys_is_found_out() {
    let width = Width::Bits32;
    lied_to(Scheme::Clww(width), async |channel| {
        BPlus::new(channel, INDEX, &key(), Clww::new(&key(), width), prg(1)).create(1 << 12).await
    });
    lied_to(Scheme::LewiWu { width, block_bits: 4 }, async |channel| {
        let scheme = LewiWu::new(&key(), width, BlockBits::Four);
        BPlus::new(channel, INDEX, &key(), scheme, prg(1)).create(1 << 12).await
    });
    lied_to(Scheme::FhOpe(width), async |channel| {
        StatefulBPlus::new(channel, INDEX, &key(), FhOpe::new(width), prg(1)).create(1 << 12).await
    });
}
