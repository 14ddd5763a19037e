//! An enclave at the other end of a stream of bytes, by way of its host.
//!
//! *Framing*: the length of a message as `u32`, little endian, at most [`CLIENT_BYTES_MAX`], then the message as the channel
//! has it.

use crate::patience::until_there_is_room;
use crate::service::{SearchService, Unreachable};
use arras_protocol::iee::CLIENT_BYTES_MAX;
use arras_schemes::bisen::channel::{ClientChannel, Plain};
use arras_schemes::bisen::message::{Answer, Ask, Reply, Request, Whole};
use std::fmt::Display;
use std::io::{Read, Write};

/// A client of an enclave, one request at a time, over a channel.
pub struct Link<S, C = Plain> {
    stream: S,
    channel: C,
    next: u64,
    broken: bool,
}

/// Why there is no channel to the enclave.
#[derive(Debug, thiserror::Error)]
pub enum OpenError<E: std::error::Error + 'static> {
    /// The stream fails, or ends.
    #[error(transparent)]
    Stream(#[from] Unreachable),
    /// The channel: what is at the other end is not trusted, or does not trust this client.
    #[error("{0}")]
    Channel(#[source] E),
}

fn unreachable(why: impl Display) -> Unreachable {
    Unreachable(why.to_string())
}

impl<S: Read + Write> Link<S, Plain> {
    /// Begins a channel that protects nothing: the host reads along. For tests.
    ///
    /// # Errors
    /// [`Unreachable`] if the stream takes nothing.
    pub fn plain(stream: S, identity: &str) -> Result<Self, Unreachable> {
        Self::open(stream, Plain::client(identity)).map_err(unreachable)
    }
}

impl<S: Read + Write, C: ClientChannel> Link<S, C> {
    /// Opens a channel.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open(stream: S, channel: C) -> Result<Self, OpenError<C::Error>> {
        let mut link = Self { stream, channel, next: 0, broken: false };
        loop {
            let flight = link.channel.flight();
            if !flight.is_empty() {
                link.send(&flight).map_err(unreachable)?;
            }
            if link.channel.is_open() {
                return Ok(link);
            }
            let flight = link.receive().map_err(unreachable)?;
            if let Err(error) = link.channel.take(&flight) {
                // The other end is told why, if it still listens.
                let why = link.channel.flight();
                let _ = link.send(&why);
                return Err(OpenError::Channel(error));
            }
        }
    }

    fn send(&mut self, message: &[u8]) -> std::io::Result<()> {
        let length = u32::try_from(message.len()).map_err(std::io::Error::other)?;
        self.stream.write_all(&[&length.to_le_bytes()[..], message].concat())?;
        self.stream.flush()
    }

    fn receive(&mut self) -> std::io::Result<Vec<u8>> {
        let mut length = [0; 4];
        self.stream.read_exact(&mut length)?;
        let length = u32::from_le_bytes(length) as usize;
        if length > CLIENT_BYTES_MAX {
            return Err(std::io::Error::other("a message that is too long"));
        }
        let mut bytes = vec![0; length];
        self.stream.read_exact(&mut bytes)?;
        Ok(bytes)
    }

    fn exchange(&mut self, request: Request) -> Result<Reply, Unreachable> {
        let number = self.next;
        self.next += 1;
        let message = self.channel.wrap(&Ask { number, request }.encode()).map_err(unreachable)?;
        self.send(&message).map_err(unreachable)?;
        let mut whole = Whole::default();
        loop {
            let bytes = self.receive().map_err(unreachable)?;
            let bytes = self.channel.unwrap(&bytes).map_err(unreachable)?;
            let answer = Answer::decode(&bytes).map_err(unreachable)?;
            if answer.number != number {
                return Err(unreachable("an answer to another question"));
            }
            if let Some(reply) = whole.take(answer.reply) {
                return Ok(reply);
            }
        }
    }
}

impl<S: Read + Write, C: ClientChannel> SearchService for Link<S, C> {
    /// What the enclave has no room for is asked again, for two minutes. After a failure the stream is of no more use: what comes later would answer an earlier question.
    fn ask(&mut self, request: Request) -> Result<Reply, Unreachable> {
        if self.broken {
            return Err(unreachable("the connection has failed before"));
        }
        let reply = until_there_is_room(|| self.exchange(request.clone()));
        self.broken = reply.is_err();
        reply
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use arras_schemes::bisen::message::{Hit, PAGE_HITS, Page, Refused};
    use arras_schemes::bisen::update::Update;
    use std::io::{Cursor, Result as IoResult};

    /// What comes, and a place for what goes.
    struct Both(Cursor<Vec<u8>>, Vec<u8>);

    impl Read for Both {
        fn read(&mut self, buffer: &mut [u8]) -> IoResult<usize> {
            self.0.read(buffer)
        }
    }

    impl Write for Both {
        fn write(&mut self, bytes: &[u8]) -> IoResult<usize> {
            self.1.write(bytes)
        }

        fn flush(&mut self) -> IoResult<()> {
            Ok(())
        }
    }

    fn link(messages: &[Vec<u8>]) -> Link<Both, Plain> {
        let framed =
            |message: &Vec<u8>| [&u32::try_from(message.len()).unwrap().to_le_bytes()[..], message].concat();
        let coming = messages.iter().flat_map(framed).collect();
        Link::plain(Both(Cursor::new(coming), Vec::new()), "ada").unwrap()
    }

    fn open() -> Request {
        Request::Open("mail".into())
    }

    fn answers(numbers: &[u64]) -> Vec<Vec<u8>> {
        let mut channel = Plain::default();
        numbers.iter().map(|&number| channel.wrap(&Answer { number, reply: Reply::Done }.encode())).collect()
    }

    #[test]
    fn a_reply_answers_its_own_request() {
        let mut link = link(&answers(&[0, 1]));
        for _ in 0..2 {
            assert_eq!(link.ask(open()).unwrap(), Reply::Done);
        }
        assert!(link.ask(open()).is_err());
    }

    #[test]
    fn pages_are_one_reply() {
        let page =
            |hits, is_last| Reply::Found(Page::new(vec![Hit::default(); hits], PAGE_HITS, 5000, is_last));
        let mut channel = Plain::default();
        let mut message = |reply| channel.wrap(&Answer { number: 0, reply }.encode());
        let messages = [message(page(PAGE_HITS, false)), message(page(904, true))];
        let Reply::Found(found) = link(&messages).ask(open()).unwrap() else { panic!("no page") };
        assert_eq!((found.hits().count(), found.matches()), (5000, 5000));
        // A refusal may come behind a page.
        let mut channel = Plain::default();
        let mut message = |reply| channel.wrap(&Answer { number: 0, reply }.encode());
        let refused = Reply::Refused(Refused::NotAllowed);
        let messages = [message(page(PAGE_HITS, false)), message(refused.clone())];
        assert_eq!(link(&messages).ask(open()).unwrap(), refused);
    }

    #[test]
    fn what_there_is_no_room_for_is_asked_again() {
        let mut channel = Plain::default();
        let replies =
            [Reply::Refused(Refused::Busy), Reply::Refused(Refused::Busy), Reply::Updated, Reply::Done];
        let messages: Vec<Vec<u8>> = replies
            .into_iter()
            .zip(0..)
            .map(|(reply, number)| channel.wrap(&Answer { number, reply }.encode()))
            .collect();
        let mut link = link(&messages);
        assert_eq!(link.ask(Request::Update(Update::new(0))).unwrap(), Reply::Updated);
        assert_eq!(link.ask(open()).unwrap(), Reply::Done);
    }

    #[test]
    fn what_is_no_answer_ends_the_link() {
        let swapped = answers(&[1, 0]).split_off(1);
        for messages in [answers(&[7, 1]), swapped, vec![vec![0; 9]], vec![vec![0; 3]]] {
            let mut link = link(&[messages, answers(&[0, 1])].concat());
            let first = link.ask(open()).unwrap_err();
            assert!(!first.0.contains("before"), "{first}");
            assert!(link.ask(open()).unwrap_err().0.contains("before"));
        }
    }
}
