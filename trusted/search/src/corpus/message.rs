//! A message as a document: its headers as fields, its texts one after the other.

use super::html;
use crate::formula::Field;
use mail_parser::{Address, Message, MessageParser, PartType};

/// Messages one within another that are read.
const DEPTH_MAX: usize = 8;

/// What is read of a document: an index takes it, or a search for what to show.
pub(super) trait Reader {
    /// What a field says.
    fn field(&mut self, field: Field, text: &str);
    /// A piece of the text.
    fn feed(&mut self, piece: &str);
    /// The text has ended; another may follow.
    fn end_text(&mut self);
}

/// Reads messages.
#[derive(Default)]
pub(super) struct Messages {
    parser: MessageParser,
}

impl Messages {
    /// Reads a message. When it was sent, in seconds since 1970, if it says so. What is no message is read as text.
    pub(super) fn read(&self, raw: &[u8], reader: &mut impl Reader) -> Option<i64> {
        let Some(message) = self.parser.parse(raw) else {
            reader.feed(&super::decoding::text(raw));
            reader.end_text();
            return None;
        };
        for (field, addresses) in
            [(Field::From, message.from()), (Field::To, message.to()), (Field::Cc, message.cc())]
        {
            addresses.into_iter().for_each(|addresses| people(field, addresses, reader));
        }
        if let Some(subject) = message.subject() {
            reader.field(Field::Subject, subject);
        }
        texts(&message, 0, reader);
        message.date().map(mail_parser::DateTime::to_timestamp)
    }
}

fn people(field: Field, addresses: &Address<'_>, reader: &mut impl Reader) {
    for address in addresses.iter() {
        let (name, address) = (address.name().unwrap_or_default(), address.address().unwrap_or_default());
        reader.field(field, name);
        reader.field(field, address);
    }
}

fn texts(message: &Message<'_>, depth: usize, reader: &mut impl Reader) {
    if let Some(subject) = message.subject() {
        text(subject, reader);
    }
    // Not as the library makes them of HTML: it joins the words of neighbouring blocks.
    for part in message.text_bodies().chain(message.attachments()) {
        match &part.body {
            PartType::Text(body) => text(body, reader),
            PartType::Html(body) => text(&html::text(body), reader),
            PartType::Message(inner) if depth < DEPTH_MAX => texts(inner, depth + 1, reader),
            PartType::Message(_)
            | PartType::Binary(_)
            | PartType::InlineBinary(_)
            | PartType::Multipart(_) => {}
        }
    }
}

fn text(text: &str, reader: &mut impl Reader) {
    reader.feed(text);
    reader.end_text();
}
