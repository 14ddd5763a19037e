//! What `Describe` and `Execute` name.

use super::Requests;
use crate::fields::Target;
use crate::replies;
use crate::session::End;
use crate::session::reading::Reading;
use std::sync::Arc;

impl Requests<'_> {
    /// How replies about a statement or a portal are read.
    pub(super) async fn target(&mut self, target: &Target<'_>) -> Result<Reading, End> {
        if target.kind == b'S' {
            let state = self.shared.state();
            let found = state.names.statement(target.name);
            return Ok(found.map(|found| Reading::Statement(Arc::clone(found))).unwrap_or_default());
        }
        if let Some(found) = self.shared.state().names.portal(target.name) {
            return Ok(Reading::Portal(Arc::clone(found)));
        }
        if target.name.is_empty() {
            return Ok(Reading::Plain);
        }
        // A portal that no message has made may be a cursor of SQL: what is named is known when what names it is complete.
        let will_name = self.shared.state().pipeline.entries().any(|entry| entry.note.reading.will_name());
        if will_name {
            replies::message(&mut self.out, b'H', |_| ());
            self.write().await?;
            self.shared.at_most(0).await;
        }
        let state = self.shared.state();
        let name = std::str::from_utf8(target.name).ok();
        let cursor = name.and_then(|name| state.names.named.cursors.get(name));
        Ok(cursor.map(|outputs| Reading::Cursor(Arc::clone(outputs))).unwrap_or_default())
    }
}
