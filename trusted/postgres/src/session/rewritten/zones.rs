//! The session's time zone: whether the server's rules of it are the proxy's is asked once, before the first statement that it matters to.

use super::Requests;
use super::asked_parts::begins_with;
use super::questions::{Question, array};
use super::tables::holds_word;
use crate::codec::{Samples, Zone};
use crate::column_type::ColumnType;
use crate::error::SqlError;
use crate::plan::{Planned, Rewritten, Value};
use crate::session::reading::Statement;
use crate::session::settings::shows_dates;
use chrono_tz::Tz;

/// May a statement hang on the session's time zone: does it show days or moments, or take some?
fn may_need_zone(rewritten: &Rewritten) -> bool {
    let takes = |value: &Value| {
        value.sent_as.is_some_and(ColumnType::is_time)
            || value.form.encryption().is_some_and(|of| of.kind.is_time())
    };
    shows_dates(&rewritten.outputs) || rewritten.values.iter().any(takes)
}

/// The same of what was prepared.
pub(super) fn prepared_may_need_zone(statement: &Statement) -> bool {
    let of_program = statement.program.as_deref().is_some_and(|program| program.any(may_need_zone));
    of_program || may_need_zone(&statement.rewritten)
}

impl Requests<'_> {
    /// Has the session's time zone be known if it can be and some of these statements may hang on it.
    pub(super) async fn learn_zone(&mut self, may_need: impl FnOnce() -> bool) -> Result<(), SqlError> {
        let rules = {
            let mut state = self.shared.state();
            // What is asked of a transaction that has failed is not answered.
            if state.status == b'E' { None } else { state.settings.look_up_zone(&self.rewriting.zones) }
        };
        let Some(rules) = rules.filter(|_| may_need()) else { return Ok(()) };
        let samples = Samples::of(rules);
        let moments: Vec<String> = samples.at.iter().map(i64::to_string).collect();
        let asked = [array(moments.iter().map(String::as_str))];
        let rows = self.ask_of(Question::Zone, &asked).await?;
        let Some([Some(name), Some(ahead)]) = rows.first().map(Vec::as_slice) else { return Ok(()) };
        if name.parse() != Ok(rules) {
            // Another one was set on the way.
            return Ok(());
        }
        let ahead: Vec<i64> = ahead.split(',').filter_map(|seconds| seconds.parse().ok()).collect();
        self.note_zone(rules, samples.compared(&ahead));
        Ok(())
    }

    fn note_zone(&self, rules: Tz, zone: Zone) {
        if zone == Zone::Unknown {
            tracing::warn!(zone = %rules, "the database has other rules of this time zone than the proxy, which does not use its own");
        }
        self.rewriting.zones.learned(rules, zone);
        self.shared.state().settings.look_up_zone(&self.rewriting.zones);
    }
}

/// Does one of the statements of a text need it? Where one sets what a transaction is nothing is asked before.
pub(super) fn planned_may_need_zone(text: &str, planned: &[Planned]) -> bool {
    let sets_one = |one: &Planned| {
        let own = text.get(one.span.clone()).unwrap_or_default();
        begins_with(own, &["set"]) && holds_word(own, "transaction")
    };
    planned.iter().any(|one| one.action.any(may_need_zone)) && !planned.iter().any(sets_one)
}
