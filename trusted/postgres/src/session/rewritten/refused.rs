//! What is sent behind what was refused, and given to statements that were: it was meant for encrypted columns.

use super::Requests;
use crate::error::SqlError;
use crate::fields::Bind;
use crate::pipeline::Asked;
use crate::plan::Planned;
use crate::replies;
use crate::session::late_rows::LateRows;
use crate::session::physical::{self, parse};
use crate::session::reading::{REFUSED, Reading};

/// Something of the extended protocol was refused: the database passes over what comes until the client synchronises, and does not
/// get it.
#[derive(Default)]
pub(in crate::session) struct PassedOver(bool);

impl PassedOver {
    pub(super) fn begin(&mut self) {
        self.0 = true;
    }

    pub(in crate::session) fn end(&mut self) {
        self.0 = false;
    }

    pub(super) fn is_begun(&self) -> bool {
        self.0
    }

    /// Is a message passed over?
    pub(super) fn has(&mut self, kind: u8) -> bool {
        self.0 &= kind != b'S';
        self.0 && matches!(kind, b'P' | b'B' | b'D' | b'E' | b'C')
    }
}

impl Requests<'_> {
    /// Sends what fails in place of a message.
    pub(in crate::session) fn refuse(&mut self, kind: u8, error: SqlError) {
        self.rows = if matches!(kind, b'Q' | b'F') { LateRows::Drop } else { LateRows::DropUntilSync };
        let reading = Reading::Refused(Box::new(error));
        match kind {
            b'Q' | b'F' => {
                self.sent(Asked::Query, reading, None);
                replies::message(&mut self.out, b'Q', |out| replies::string(out, REFUSED.as_bytes()));
            }
            _ => {
                self.passed_over.begin();
                // It never succeeds, so it never takes the place of what has that name.
                self.sent(Asked::Parse, reading, None);
                parse(&mut self.out, b"arras refused", REFUSED, &[]);
            }
        }
    }

    /// Refuses a `Parse`, and what is bound to its name later.
    pub(super) fn refuse_name(&mut self, name: &[u8], error: SqlError) {
        self.shared.state().names.named.went(name);
        self.refuse(b'P', error);
    }

    /// Notes names that a text prepares statements under.
    pub(super) fn note_prepares(&self, planned: &[Planned]) {
        let mut state = self.shared.state();
        planned.iter().for_each(|one| state.names.named.note_prepared(one));
    }

    /// Sends a `Bind` of a statement that reads nothing encrypted; without what it gives where that was for one that does.
    pub(super) fn bind_plain(&mut self, message: &[u8], asked: Bind<'_>) {
        if self.shared.state().names.named.gone.has(asked.statement) {
            physical::bind(&mut self.out, &asked, &[]);
        } else {
            self.out.extend_from_slice(message);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::PassedOver;

    #[test]
    fn what_comes_is_passed_over_until_the_client_synchronises() {
        let mut over = PassedOver::default();
        assert!(!over.has(b'B'));
        over.begin();
        assert!(over.has(b'B') && over.has(b'P') && !over.has(b'H') && !over.has(b'd') && !over.has(b'Q'));
        assert!(!over.has(b'S') && !over.has(b'B'));
    }
}
