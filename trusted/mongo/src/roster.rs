//! Who is connected, and who gives way when there are too many.
//!
//! A newcomer at the limit is admitted in the place of the connection that has kept this server waiting for the
//! longest: one that never sent a whole message before one that did, and never one whose command is being worked on. So
//! idle sockets shut nobody out, and a flood of silent ones pushes out its own before it reaches those that speak.
//! Cursors belong to the server, not to the connection: a client whose connection gave way connects again and goes on.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use tokio::sync::Notify;

/// One connection.
struct Seat {
    /// It has sent a whole message.
    spoken: bool,
    /// Since when this server waits for its peer (to send a message or its next part, or to take a reply or its next
    /// part); `None` while a command of it is worked on.
    waiting: Option<Instant>,
    given_up: Arc<Notify>,
}

/// The connections of a server.
pub(crate) struct Roster {
    count_max: usize,
    seats: Mutex<HashMap<u64, Seat>>,
}

impl Roster {
    pub(crate) fn new(count_max: usize) -> Self {
        Self { count_max, seats: Mutex::new(HashMap::new()) }
    }

    /// Admits connection `number`, at the cost of another if need be; `None` if every other one is being worked for.
    pub(crate) fn admit(&self, number: u64) -> Option<Place<'_>> {
        let mut seats = self.lock();
        if seats.len() >= self.count_max {
            let longest = seats
                .iter()
                .filter_map(|(number, seat)| Some((seat.spoken, seat.waiting?, *number)))
                .min()
                .map(|(_, _, number)| number)?;
            if let Some(seat) = seats.remove(&longest) {
                seat.given_up.notify_one();
            }
        }
        let given_up = Arc::new(Notify::new());
        let seat = Seat { spoken: false, waiting: Some(Instant::now()), given_up: Arc::clone(&given_up) };
        seats.insert(number, seat);
        Some(Place { roster: self, number, given_up })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<u64, Seat>> {
        // Nothing panics while the lock is held, and the map is consistent between any two statements.
        self.seats.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection's place. Dropped, it is free.
pub(crate) struct Place<'a> {
    roster: &'a Roster,
    number: u64,
    given_up: Arc<Notify>,
}

impl Place<'_> {
    /// A whole message has come: until [`Place::wait`] the place is not given to another. False if it already was.
    pub(crate) fn work(&self) -> bool {
        match self.roster.lock().get_mut(&self.number) {
            Some(seat) => {
                (seat.spoken, seat.waiting) = (true, None);
                true
            }
            None => false,
        }
    }

    /// It is the peer's turn: the command is done, or a part of a message has passed and the rest has not.
    pub(crate) fn wait(&self) {
        if let Some(seat) = self.roster.lock().get_mut(&self.number) {
            seat.waiting = Some(Instant::now());
        }
    }

    /// Completes when the place was given to another.
    pub(crate) async fn given_up(&self) {
        self.given_up.notified().await;
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        self.roster.lock().remove(&self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(roster: &Roster) -> Vec<u64> {
        let mut numbers: Vec<u64> = roster.lock().keys().copied().collect();
        numbers.sort_unstable();
        numbers
    }

    #[test]
    fn the_one_that_waits_longest_gives_way_and_silent_ones_before_those_that_spoke() {
        let roster = Roster::new(3);
        let places: Vec<Place<'_>> = (1..=3).map(|number| roster.admit(number).expect("room")).collect();
        // 1 spoke and waits, 2 has been silent for longer than 3.
        assert!(places[0].work());
        places[0].wait();
        let fourth = roster.admit(4).expect("2 gives way");
        assert_eq!(numbers(&roster), [1, 3, 4]);
        assert!(!places[1].work(), "2 has lost its place");
        assert!(places[2].work(), "3 is worked for");
        let fifth = roster.admit(5).expect("4 was silent");
        assert_eq!(numbers(&roster), [1, 3, 5]);
        assert!(fifth.work());
        let sixth = roster.admit(6).expect("1 waits");
        assert_eq!(numbers(&roster), [3, 5, 6]);
        assert!(sixth.work());
        assert!(roster.admit(7).is_none(), "all are worked for");
        places[2].wait();
        drop(fourth);
        assert!(roster.admit(8).is_some(), "3 waits again");
    }
}
