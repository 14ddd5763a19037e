#![allow(clippy::unwrap_used)]

use super::*;
use arras_storage::Memory;
use proptest::prelude::*;

const TABLE: Table = Table("t");

/// The cache as its documentation says it, without regard to speed.
struct Naive {
    capacity: usize,
    policy: CachePolicy,
    /// (name, uses, last use), in the order in which they came.
    pages: Vec<((Vec<u8>, usize), u64, u64)>,
    clock: u64,
}

impl Naive {
    fn touch(&mut self, key: &[u8], pages: usize) -> u64 {
        (0..pages).filter(|page| !self.hit((key.to_vec(), *page))).count() as u64
    }

    fn hit(&mut self, name: (Vec<u8>, usize)) -> bool {
        self.clock += 1;
        if let Some(page) = self.pages.iter_mut().find(|page| page.0 == name) {
            (page.1, page.2) = (page.1 + 1, self.clock);
            return true;
        }
        if self.pages.len() == self.capacity {
            let leaves = match self.policy {
                CachePolicy::Fifo => 0,
                CachePolicy::Lfu => self.first_by(|page| (page.1, page.2)),
                CachePolicy::Lru => self.first_by(|page| (0, page.2)),
            };
            self.pages.remove(leaves);
        }
        self.pages.push((name, 1, self.clock));
        false
    }

    fn first_by(&self, order: impl Fn(&((Vec<u8>, usize), u64, u64)) -> (u64, u64)) -> usize {
        (0..self.pages.len()).min_by_key(|at| order(&self.pages[*at])).unwrap()
    }
}

proptest! {
    #[test]
    fn a_cache_is_as_the_naive_one(
        capacity in 1usize..9,
        policy in prop::sample::select(CachePolicy::ALL.to_vec()),
        touches in prop::collection::vec((0u8..14, 1usize..4), 0..400),
    ) {
        let mut cache = Cache::new(capacity, policy);
        let mut naive = Naive { capacity, policy, pages: Vec::new(), clock: 0 };
        for (key, pages) in touches {
            prop_assert_eq!(cache.touch(TABLE, &[key], pages), naive.touch(&[key], pages));
        }
    }
}

fn store(page_bytes: usize, cache_pages: usize) -> Paged<Memory> {
    let settings = PageSettings { page_bytes, cache_pages, policy: CachePolicy::Lru };
    Paged::new(Memory::new(), settings).unwrap()
}

fn filled(page_bytes: usize, cache_pages: usize, values: &[(u8, usize)]) -> Paged<Memory> {
    let store = store(page_bytes, cache_pages);
    let mut writer = store.write().unwrap();
    for (key, value_bytes) in values {
        writer.put(TABLE, &[*key], &vec![0; *value_bytes]).unwrap();
    }
    writer.commit(Durability::Relaxed).unwrap();
    store
}

#[test]
fn a_value_is_as_many_pages_as_it_fills() {
    let store = filled(100, 50, &[(1, 0), (2, 100), (3, 101)]);
    assert_eq!(store.tally().counts(), PageCounts { reads: 0, writes: 4 });
    let reader = store.read().unwrap();
    assert_eq!(reader.get(TABLE, &[3]).unwrap().unwrap().len(), 101);
    assert_eq!(store.tally().counts(), PageCounts { reads: 0, writes: 4 }, "in the cache");
    assert_eq!(reader.get(TABLE, &[4]).unwrap(), None);
    assert_eq!(store.tally().counts(), PageCounts { reads: 1, writes: 4 }, "an absent value is looked for");
    assert_eq!(store.stored_bytes().unwrap(), 3 + 201);
}

#[test]
fn what_left_the_cache_costs_again() {
    let store = filled(100, 1, &[(1, 10), (2, 10)]);
    let reader = store.read().unwrap();
    for key in [2, 2, 1, 2] {
        reader.get(TABLE, &[key]).unwrap();
    }
    assert_eq!(store.tally().counts(), PageCounts { reads: 2, writes: 2 });
}

#[test]
fn scanned_entries_share_pages_if_they_are_small() {
    let everything = (Bound::Unbounded, Bound::Unbounded);
    for (values, pages) in
        [(vec![(1, 9), (2, 9), (3, 9)], 1), (vec![(1, 50), (2, 49), (3, 9)], 2), (vec![(1, 51), (2, 51)], 2)]
    {
        let store = filled(100, 1, &values);
        // Something else takes the cache.
        store.read().unwrap().get(TABLE, &[99]).unwrap();
        let before = store.tally().counts();
        let mut seen = 0;
        let reader = store.read().unwrap();
        reader
            .scan(TABLE, everything, Direction::Ascending, &mut |_, _| {
                seen += 1;
                ControlFlow::Continue(())
            })
            .unwrap();
        assert_eq!(seen, values.len());
        assert_eq!(store.tally().counts() - before, PageCounts { reads: pages, writes: 0 }, "{values:?}");
    }
}

#[test]
fn no_page_and_no_cache_are_refused() {
    let settings = PageSettings { page_bytes: 0, cache_pages: 1, policy: CachePolicy::Lru };
    assert_eq!(Paged::new(Memory::new(), settings).unwrap_err(), PageSettingsError::NoPage);
    let settings = PageSettings { page_bytes: 1, cache_pages: 0, policy: CachePolicy::Lru };
    assert_eq!(Paged::new(Memory::new(), settings).unwrap_err(), PageSettingsError::NoCache);
}

#[test]
fn a_wrapped_store_is_a_store() {
    let settings = PageSettings { page_bytes: 64, cache_pages: 3, policy: CachePolicy::Lfu };
    arras_storage::conformance::all(|| Paged::new(Memory::new(), settings).unwrap());
}
