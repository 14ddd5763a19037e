//! Which values are numbered anew, by what pieces, and what comes of it.
#![allow(clippy::unwrap_used)]

use super::super::tests::world::{VALUE, World, now, row};
use super::*;
use crate::contract::{EqualityAnswer, EqualitySearch};
use arras_protocol::arx_eq::Response;
use rand::RngExt;
use std::collections::BTreeSet;

/// Entries that came and went, and the counters of those that are there.
fn history(taken: u32, kept: f64) -> (Occurrences, BTreeSet<u32>) {
    let mut rng = rand::rng();
    let (mut occurrences, mut live) = (Occurrences::new(&mut rng), BTreeSet::new());
    for _ in 0..taken {
        live.insert(occurrences.take().unwrap());
    }
    for counter in live.clone() {
        if !rng.random_bool(kept) {
            assert!(occurrences.release(counter) && live.remove(&counter));
        }
    }
    (occurrences, live)
}

/// Counters that a search of a value covers.
fn covered(occurrences: &Occurrences) -> BTreeSet<u32> {
    occurrences.runs().iter().flat_map(|run| run.start..run.end).collect()
}

/// Whether a search that went by the record as it is has anything numbered anew.
fn due_after_search(occurrences: &Occurrences) -> bool {
    !pieces(Some(occurrences), &Occasion::Searched(occurrences.encode())).unwrap().is_empty()
}

/// Whether a removal has, of which not all is known.
fn due_after_removal(occurrences: &Occurrences) -> bool {
    !pieces(Some(occurrences), &Occasion::Released(BTreeSet::new())).unwrap().is_empty()
}

#[test]
fn a_value_is_cleaned_after_a_search_that_met_more_holes_than_entries() {
    let mut rng = rand::rng();
    let mut due = 0;
    for _ in 0..400 {
        let (occurrences, live) = history(rng.random_range(0..200), rng.random());
        let holes = covered(&occurrences).len() - live.len();
        let is_due = holes > live.len() && holes > 16;
        assert_eq!(due_after_search(&occurrences), is_due, "{holes} holes of {}", live.len());
        due += usize::from(is_due);
    }
    assert!(due > 20, "{due}");
}

#[test]
fn a_value_is_cleaned_after_a_removal_if_it_is_not_as_new() {
    let mut rng = rand::rng();
    let (mut as_new, mut due) = (0, 0);
    for _ in 0..300 {
        let (occurrences, live) = history(rng.random_range(0..40), 0.8);
        // As one that never lost an entry: under the first counters, and no others are covered.
        let is_as_new = covered(&occurrences) == (0..live.len() as u32).collect();
        assert_eq!(due_after_removal(&occurrences), !is_as_new, "{occurrences:?}");
        as_new += usize::from(is_as_new && !live.is_empty());
        due += usize::from(!is_as_new);
    }
    assert!(as_new > 0 && due > 0);
    // Of many entries only holes are worth it.
    let (mut many, live) = history(2 * PIECE, 1.0);
    assert!(!due_after_removal(&many));
    assert!(many.release(0));
    assert_eq!(many.holes(), 0);
    assert!(!due_after_removal(&many), "what is gone at an end is not covered");
    live.iter().skip(1).step_by(2).for_each(|counter| assert!(many.release(*counter)));
    assert!(many.live() < u64::from(PIECE) && due_after_removal(&many));
    let (mut many, _) = history(3 * PIECE, 1.0);
    (1..9).for_each(|number| assert!(many.release(number * 100)));
    assert!(many.holes() > 0 && due_after_removal(&many));
}

#[test]
fn it_is_known_how_many_entries_there_are_where_all_counters_have_one() {
    let (occurrences, live) = history(100, 0.5);
    let counters = [3..10, 20..21];
    let entries = |numbering: Numbering| numbering.entries(&occurrences, &counters);
    assert_eq!(entries(Numbering::Whole), Some(live.len() as u64));
    assert_eq!(entries(Numbering::Piece), None);
    assert_eq!(entries(Numbering::Dense), Some(8));
    assert_eq!(entries(Numbering::LastDense { left: vec![0..50, 60..70], next: 100 }), Some(8));
}

#[test]
fn a_value_of_many_entries_is_cut_into_pieces_that_cover_all_that_has_holes() {
    let mut rng = rand::rng();
    for _ in 0..20 {
        let (taken, kept) = (rng.random_range(3 * PIECE..9 * PIECE), rng.random_range(0.5..0.99));
        let (occurrences, live) = history(taken, kept);
        assert!(live.len() > PIECE as usize);
        let pieces = cut(&occurrences);
        assert!(pieces.iter().all(|piece| piece.numbering == Numbering::Piece));
        let pieces: Vec<Range<u32>> = pieces.into_iter().flat_map(|piece| piece.counters).collect();
        assert!(pieces.iter().all(|piece| (1..=PIECE as usize).contains(&piece.len())));
        let counters: Vec<u32> = pieces.into_iter().flatten().collect();
        let sparse = occurrences.runs().iter().filter(|run| run.live < run.end - run.start);
        assert_eq!(counters, sparse.flat_map(|run| run.start..run.end).collect::<Vec<_>>(), "each once");
    }
}

#[test]
fn what_a_search_did_not_show_is_left_as_it_is() {
    let (mut occurrences, live) = history(100, 1.0);
    live.iter().filter(|counter| *counter % 10 > 0).for_each(|gone| assert!(occurrences.release(*gone)));
    assert!(due_after_search(&occurrences));
    let mut later = occurrences.clone();
    later.take().unwrap();
    let searched = Occasion::Searched(occurrences.encode());
    assert_eq!(pieces(Some(&later), &searched).unwrap(), [], "it got an entry since");
    assert_eq!(pieces(Some(&history(100, 0.1).0), &searched).unwrap(), [], "it began anew");
    assert_eq!(pieces(None, &searched).unwrap(), [], "it has no entries");
    assert!(matches!(pieces(Some(&later), &Occasion::Searched(vec![1])), Err(IndexError::State(_))));
}

impl World {
    /// Numbers anew, piece by piece; how many there were.
    fn renumber(&mut self, occasion: Occasion) -> Result<usize, IndexError> {
        let state: Arc<dyn State> = self.state.clone();
        let mut work = Arc::clone(&self.index).renumbering(VALUE.to_vec(), occasion, state).unwrap();
        let mut done = 0;
        while let Some(mut piece) = now(work.next())? {
            let mut headers = Vec::new();
            for row in piece.rows().to_vec() {
                headers.push((row, piece.renumber(row, self.headers[&row])?));
            }
            self.perform(piece.finish());
            self.headers.extend(headers);
            assert_eq!(self.found(), self.headers.keys().copied().collect(), "after each piece");
            done += 1;
        }
        Ok(done)
    }

    /// The rows that a search finds.
    fn found(&self) -> BTreeSet<RowId> {
        let EqualityAnswer::Exact { rows, .. } = self.search().unwrap() else { panic!("it differs") };
        rows.into_iter().collect()
    }

    fn searched(&self) -> Occasion {
        Occasion::Searched(self.occurrences().encode())
    }

    fn labels(&self) -> BTreeSet<arras_protocol::arx_eq::Label> {
        self.server.entries.lock().unwrap().keys().copied().collect()
    }
}

#[test]
fn a_value_of_few_entries_is_numbered_anew_as_a_whole_in_a_random_order() {
    let mut world = World::new();
    world.enter(0..100);
    world.remove((1..99).filter(|number| number % 9 != 0));
    let (before, salt) = (world.labels(), world.occurrences().salt());
    assert_eq!(world.renumber(world.searched()).unwrap(), 1);
    assert!(world.labels().is_disjoint(&before) && world.labels().len() == before.len());
    let now = world.occurrences();
    assert!(now.salt() != salt && now.holes() == 0 && now.next() == 12);
    let counters: Vec<u32> = world.headers.values().map(|held| held.counter).collect();
    assert_eq!(counters.iter().copied().collect::<BTreeSet<_>>(), (0..12).collect());
    assert!(!counters.is_sorted(), "one in half a billion is");
    assert_eq!(world.renumber(world.searched()).unwrap(), 0, "it is as new");
}

#[test]
fn a_value_of_many_entries_is_cleaned_piece_by_piece() {
    let mut world = World::new();
    world.enter(0..4 * PIECE);
    world.remove((1..4 * PIECE - 1).filter(|number| number % 3 != 0));
    assert_eq!(world.headers.len(), PIECE as usize * 4 / 3 + 1);
    let salt = world.occurrences().salt();
    assert!(world.renumber(world.searched()).unwrap() >= 3);
    let now = world.occurrences();
    assert_eq!((now.salt(), now.holes()), (salt, 0));
}

#[test]
fn after_each_removal_the_least_is_moved_until_nothing_is_covered_in_vain() {
    let mut world = World::new();
    world.enter(0..3 * PIECE);
    for first in [100, 150] {
        let released = world.remove((0..12).map(|number| first + number * 200));
        assert!(world.occurrences().holes() > 0);
        let before = world.labels();
        let occurrences = world.occurrences();
        // Where runs were joined over other holes than these, it is not known where the entries are.
        let moved: usize = match occurrences.dense_stretches(&released) {
            Some(stretches) => {
                let inner = stretches.iter().filter(|stretch| stretch.end != occurrences.next());
                let mut lengths: Vec<usize> = inner.map(ExactSizeIterator::len).collect();
                lengths.sort_unstable();
                lengths[..=lengths.len() - RUNS_MAX].iter().sum()
            }
            None => {
                let sparse = occurrences.runs().iter().filter(|run| run.live < run.end - run.start);
                sparse.map(|run| run.live as usize).sum()
            }
        };
        assert!(world.renumber(Occasion::Released(released)).unwrap() > 0);
        assert_eq!(world.occurrences().holes(), 0);
        assert_eq!(world.labels().difference(&before).count(), moved);
    }
}

#[test]
fn a_server_that_lies_about_entries_to_be_moved_is_found_out() {
    let lies: [fn(&mut Response); 4] = [
        |response| response.values[0].rows.truncate(3),
        |response| {
            let first = response.values[0].rows[0];
            response.values[0].rows.push(first);
        },
        |response| response.values[0].rows[0] = response.values[0].rows[1],
        |response| {
            let many = (0..200).map(row);
            response.values[0].rows.extend(many);
        },
    ];
    let worn = || {
        let mut world = World::new();
        world.enter(0..100);
        world.remove((1..99).filter(|number| number % 9 != 0));
        world
    };
    for lie in lies {
        let mut world = worn();
        world.lie(lie);
        let told = world.renumber(world.searched());
        assert!(matches!(told, Err(IndexError::Contradicted(_) | IndexError::Peer(_))), "{told:?}");
    }
    // A header as it was before, under another counter, and one of another document.
    let older = |held: Held| Held { tree: [9; 4], ..held };
    for altered in [older, |held| Held { counter: 5000, ..held }] {
        let mut world = worn();
        world.headers.values_mut().for_each(|held| *held = altered(*held));
        assert!(matches!(world.renumber(world.searched()), Err(IndexError::Contradicted(_))));
    }
    let mut world = worn();
    let one = *world.headers.values().next().unwrap();
    world.headers.values_mut().for_each(|held| *held = one);
    let told = world.renumber(world.searched());
    assert!(matches!(told, Err(IndexError::Contradicted(_))), "{told:?}");
}

#[test]
fn pieces_of_a_value_that_began_anew_are_not_cleaned() {
    let mut world = World::new();
    world.enter(0..4 * PIECE);
    world.remove((1..4 * PIECE - 1).filter(|number| number % 3 != 0));
    let state: Arc<dyn State> = world.state.clone();
    let occasion = world.searched();
    let mut work = Arc::clone(&world.index).renumbering(VALUE.to_vec(), occasion, state).unwrap();
    let rows: Vec<u32> = (0..4 * PIECE).filter(|number| world.headers.contains_key(&row(*number))).collect();
    world.remove(rows);
    world.enter(0..10);
    assert!(now(work.next()).unwrap().is_none());
    assert_eq!(world.server.asked.lock().unwrap().len(), 0);
}
