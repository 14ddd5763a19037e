//! Statements of the proxy's own that stay prepared, so that one who runs the same again has them neither parsed nor planned.

use super::reading::Reading;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What is prepared under one name, and for what; it is there once the database has said so.
pub(super) struct Kept<T> {
    of: Option<T>,
    /// Number of the last preparation that was sent.
    sent: u64,
    /// Number of the last one that succeeded.
    made: Arc<AtomicU64>,
}

impl<T> Default for Kept<T> {
    fn default() -> Self {
        Self { of: None, sent: 0, made: Arc::default() }
    }
}

impl<T> Kept<T> {
    /// Is it there, for what `is_same` says is the same?
    pub(super) fn is_there(&self, is_same: impl FnOnce(&T) -> bool) -> bool {
        self.of.as_ref().is_some_and(is_same) && self.made.load(Ordering::Acquire) == self.sent
    }

    /// It is prepared anew, for something else: how the reply to that `Parse` is to be read.
    pub(super) fn begin(&mut self, of: T) -> Reading {
        self.of = Some(of);
        self.sent += 1;
        Reading::Kept(Arc::clone(&self.made), self.sent)
    }
}

/// Statements that stay prepared beside one another, at most: beyond it the one that was not used for longest goes.
const SEVERAL_MAX: usize = 16;

/// Several, each under a name of its own.
pub(super) struct Several<T> {
    /// When each was used last, in uses of any.
    kept: Vec<(u64, Kept<T>)>,
    uses: u64,
}

impl<T> Default for Several<T> {
    fn default() -> Self {
        Self { kept: Vec::new(), uses: 0 }
    }
}

impl<T> Several<T> {
    /// The one for what `is_same` says is the same; else one that is to be prepared for it. With it its number.
    pub(super) fn of(&mut self, is_same: impl Fn(&T) -> bool) -> (usize, &mut Kept<T>) {
        self.uses += 1;
        let same = self.kept.iter().position(|(_, kept)| kept.of.as_ref().is_some_and(&is_same));
        let place = same.unwrap_or_else(|| {
            if self.kept.len() < SEVERAL_MAX {
                self.kept.push((0, Kept::default()));
                return self.kept.len() - 1;
            }
            let ages = self.kept.iter().map(|(used, _)| *used).enumerate();
            ages.min_by_key(|(_, used)| *used).map_or(0, |(place, _)| place)
        });
        let (used, kept) = &mut self.kept[place];
        *used = self.uses;
        (place, kept)
    }

    /// The number of the one for what `is_same` says is the same, which was made for it.
    pub(super) fn number(&self, is_same: impl Fn(&T) -> bool) -> usize {
        self.kept.iter().position(|(_, kept)| kept.of.as_ref().is_some_and(&is_same)).unwrap_or_default()
    }

    /// One is not worth keeping: it is the first to go.
    pub(super) fn let_go(&mut self, place: usize) {
        if let Some((used, _)) = self.kept.get_mut(place) {
            *used = 0;
        }
    }
}

/// May a client's text close what is prepared here, now or when it is executed?
pub(super) fn may_be_closed_by(text: &[u8]) -> bool {
    let has = |word: &[u8]| text.windows(word.len()).any(|part| part.eq_ignore_ascii_case(word));
    has(b"discard") || (has(b"deallocate") && !is_of_another(text))
}

/// Is it `DEALLOCATE` of one statement by its name, which is none of the proxy's own? Those have spaces in their names.
fn is_of_another(text: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(text) else { return false };
    let text = text.trim_ascii();
    let mut words = text.strip_suffix(';').unwrap_or(text).split_ascii_whitespace();
    let is = |word: Option<&str>, other: &str| word.is_some_and(|word| word.eq_ignore_ascii_case(other));
    let mut name = is(words.next(), "deallocate").then(|| words.next()).flatten();
    if is(name, "prepare") {
        name = words.next().or(name);
    }
    let is_name = |name: &str| {
        let name = name.strip_prefix('"').and_then(|name| name.strip_suffix('"')).unwrap_or(name);
        name.chars().all(|letter| letter.is_alphanumeric() || letter == '_')
            && !name.eq_ignore_ascii_case("all")
    };
    name.is_some_and(is_name) && words.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn succeed(reading: &Reading) {
        let Reading::Kept(made, number) = reading else { panic!("another reading") };
        made.store(*number, Ordering::Release);
    }

    #[test]
    fn what_was_not_prepared_is_not_there() {
        let mut kept = Kept::default();
        assert!(!kept.is_there(|_: &u8| true));
        let first = kept.begin(1);
        assert!(!kept.is_there(|of| *of == 1), "no reply yet");
        succeed(&first);
        assert!(kept.is_there(|of| *of == 1) && !kept.is_there(|of| *of == 2));
        let _fails = kept.begin(2);
        let again = kept.begin(1);
        succeed(&first);
        assert!(!kept.is_there(|of| *of == 1), "a late reply to an earlier one");
        succeed(&again);
        assert!(kept.is_there(|of| *of == 1));
    }

    #[test]
    fn several_stay_and_the_one_used_longest_ago_goes_for_another() {
        let mut several = Several::default();
        for number in 0..SEVERAL_MAX {
            let (place, kept) = several.of(|of| *of == number);
            assert!(place == number && !kept.is_there(|of| *of == number));
            let reading = kept.begin(number);
            succeed(&reading);
        }
        assert!(several.of(|of| *of == 0).1.is_there(|of| *of == 0), "used again");
        let (place, kept) = several.of(|of| *of == 99);
        assert_eq!(place, 1);
        assert!(!kept.is_there(|of| *of == 99));
        let _ = kept.begin(99);
        assert!(!several.of(|of| *of == 1).1.is_there(|of| *of == 1));
        assert!(several.of(|of| *of == 0).1.is_there(|of| *of == 0));
        several.let_go(5);
        assert_eq!(several.of(|of| *of == 100).0, 5);
    }

    #[test]
    fn what_closes_everything_is_known_wherever_it_stands() {
        for text in ["DISCARD ALL", "/* pool */ Discard Plans", "SELECT 1; deallocate all"] {
            assert!(may_be_closed_by(text.as_bytes()), "{text}");
        }
        assert!(!may_be_closed_by(b"UPDATE discs SET card = 1"));
    }

    #[test]
    fn a_name_of_another_statement_closes_nothing_here() {
        for text in
            ["DEALLOCATE _pg3_0", "deallocate prepare \"S_1\" ;", " Deallocate prepare", "DEALLOCATE p;"]
        {
            assert!(!may_be_closed_by(text.as_bytes()), "{text}");
        }
        let others = [
            "DEALLOCATE all",
            "DEALLOCATE PREPARE ALL;",
            "DEALLOCATE \"arras statement\"",
            "DEALLOCATE PREPARE \"arras asks of parts\"",
            "DEALLOCATE a; DEALLOCATE ALL",
            "DEALLOCATE a;DISCARD ALL",
            "DEALLOCATE/**/all",
            "DEALLOCATE prepare/**/all",
            "DEALLOCATE U&\"arras\\0020statement\"",
            "DO $$ BEGIN EXECUTE 'DEALLOCATE x'; END $$",
        ];
        for text in others {
            assert!(may_be_closed_by(text.as_bytes()), "{text}");
        }
    }
}
