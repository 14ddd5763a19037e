//! What `Bind`, `Describe` and `Execute` name.

use super::Requests;
use crate::fields::Target;
use crate::plan::ParameterType;
use crate::replies;
use crate::session::BothWays;
use crate::session::End;
use crate::session::names::cut;
use crate::session::physical::holding;
use crate::session::reading::{Reading, Statement, Texts};
use std::sync::{Arc, Mutex};

impl Requests<'_> {
    /// Waits until what is named in SQL is known: when what names it is complete.
    async fn named_so_far(&mut self) -> Result<(), End> {
        let will_name =
            |shared: &BothWays| shared.state().pipeline.entries().any(|entry| entry.note.reading.will_name());
        if self.names_in_sql && will_name(self.shared) {
            replies::message(&mut self.out, b'H', |_| ());
            self.write().await?;
            self.shared.at_most(0).await;
        }
        Ok(())
    }

    /// The rewritten statement of a name: one of the protocol, or one of `PREPARE`, which the protocol binds as well.
    pub(super) async fn statement(&mut self, name: &[u8]) -> Result<Option<Arc<Statement>>, End> {
        if let Some(found) = self.shared.state().names.statement(name) {
            return Ok(Some(Arc::clone(found)));
        }
        if name.is_empty() || !self.names_in_sql {
            return Ok(None);
        }
        self.named_so_far().await?;
        let name = std::str::from_utf8(cut(name)).ok();
        let prepared = name.and_then(|name| self.shared.state().names.named.prepared.get(name).cloned());
        let Some(prepared) = prepared else { return Ok(None) };
        let mut rewritten = prepared.rewritten.clone();
        // Those that are declared and not used are bound, too.
        rewritten.parameters.resize(prepared.parameters, ParameterType::Unused);
        let texts = Texts {
            client: prepared.text.clone(),
            span: 0..prepared.text.len(),
            sent: rewritten.extended_text(),
        };
        // As long as it is bound; what PREPARE keeps is bounded for each session.
        let _share =
            self.rewriting.kept.passing(self.kept, 4 * (prepared.text.len() + texts.sent.len())).await.ok();
        Ok(Some(Arc::new(Statement {
            texts,
            before: holding(&rewritten).into_iter().collect(),
            after: Vec::new(),
            program: None,
            naming: None,
            shape: Mutex::default(),
            told: Mutex::default(),
            types: Vec::new(),
            rewritten,
            _share,
        })))
    }

    /// How replies about a statement or a portal are read.
    pub(super) async fn target(&mut self, target: &Target<'_>) -> Result<Reading, End> {
        if target.kind == b'S' {
            return Ok(self.statement(target.name).await?.map(Reading::Statement).unwrap_or_default());
        }
        if let Some(found) = self.shared.state().names.portal(target.name) {
            return Ok(Reading::Portal(Arc::clone(found)));
        }
        if target.name.is_empty() {
            return Ok(Reading::Plain);
        }
        // A portal that no message has made may be a cursor of SQL.
        self.named_so_far().await?;
        let state = self.shared.state();
        let name = std::str::from_utf8(target.name).ok();
        let cursor = name.and_then(|name| state.names.named.cursors.get(name));
        Ok(cursor.map(|outputs| Reading::Cursor(Arc::clone(outputs))).unwrap_or_default())
    }
}
