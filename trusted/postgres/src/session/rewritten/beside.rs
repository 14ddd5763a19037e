//! What the proxy runs beside the client's statements.

use super::Requests;
use crate::fields::Bind;
use crate::pipeline::Asked;
use crate::session::physical::{self, HIDDEN, close, close_portal, execute, parse};
use crate::session::reading::Reading;

impl Requests<'_> {
    /// Runs statements beside the client's, in its transaction.
    pub(in crate::session) fn hidden(&mut self, statements: &[String]) {
        // The portal is closed first: where something failed before it was closed, it is there still, and outlives its statement.
        for text in statements {
            let holds = crate::is_holding(text);
            if holds && self.shared.state().holds(text) {
                continue;
            }
            self.hidden_message(Asked::Close, |out| close_portal(out, HIDDEN));
            if !self.may_keep || !self.beside.is_there(|known| known == text) {
                self.hidden_message(Asked::Close, |out| close(out, HIDDEN));
                parse(&mut self.out, HIDDEN, text, &[]);
                let reading = self.beside.begin(text.clone());
                self.sent(Asked::Parse, reading, None);
            }
            let bound =
                Bind { portal: HIDDEN, statement: HIDDEN, formats: vec![], values: vec![], results: vec![] };
            self.hidden_message(Asked::Bind, |out| physical::bind(out, &bound, &[]));
            execute(&mut self.out, HIDDEN);
            let reading = if holds { Reading::Holding(text.clone()) } else { Reading::Hidden };
            self.sent(Asked::Execute, reading, None);
            self.hidden_message(Asked::Close, |out| close_portal(out, HIDDEN));
        }
    }

    pub(in crate::session) fn hidden_message(&mut self, asked: Asked, encode: impl FnOnce(&mut Vec<u8>)) {
        encode(&mut self.out);
        self.sent(asked, Reading::Hidden, None);
    }
}
