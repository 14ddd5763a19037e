//! A proxy's conversations with the enclave of boolean search, over the network of the run.

use crate::disk::Process;
use crate::flag::Flag;
use crate::hosting::{ADMINISTRATOR, Hosting, Searching};
use arras_iee::Channels;
use arras_protocol::iee::ConnectionId;
use arras_schemes::bisen::channel::{ClientChannel, Plain};
use arras_schemes::bisen::message::{Answer, Ask, Reply, Request, Whole};
use arras_search::service::Unreachable;
use arras_service::ServiceError;
use arras_text::talk::{Conversation, Host, Saying, unreachable};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Mutex, mpsc, oneshot};
use tokio::time::{sleep, timeout};

/// Channels of an enclave of the laboratory: nothing of them is protected.
#[must_use]
pub fn channels() -> Channels {
    Channels::Other(Plain::enclave)
}

/// How long an answer may take.
const DEADLINE: Duration = Duration::from_secs(4);
/// How long the host holds back, at most, what was sent over a connection that then was cut.
const HELD_BACK_MS_MAX: u64 = 4000;

/// The way of one proxy to the host.
pub(crate) struct Way {
    pub(crate) searching: Arc<Searching>,
    pub(crate) process: Arc<Process>,
}

impl fmt::Debug for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Way")
    }
}

fn dead() -> Unreachable {
    Unreachable("this process is dead".into())
}

impl Host for Way {
    fn place(&self) -> String {
        "the simulated host".into()
    }

    fn begin(&self) -> Saying<'_, Result<Box<dyn Conversation>, ServiceError>> {
        Box::pin(async move {
            tokio::select! {
                biased;
                () = self.process.dies() => Err(unreachable(&dead())),
                begun = self.dial() => begun,
            }
        })
    }
}

impl Way {
    async fn dial(&self) -> Result<Box<dyn Conversation>, ServiceError> {
        let fate = self.searching.network.fate();
        sleep(fate.there).await;
        let hosting = self.searching.hosting().filter(|_| !fate.cut_there && !fate.lost_there);
        let hosting = hosting.ok_or_else(|| unreachable(&"nobody listens"))?;
        let mut channel = Plain::client(ADMINISTRATOR);
        let (connection, replies) = hosting.connect(channel.flight());
        let link = Link { hosting, connection, closed: Flag::default(), replies: Mutex::new(replies) };
        Ok(Box::new(Talking {
            searching: Arc::clone(&self.searching),
            process: Arc::clone(&self.process),
            link: Arc::new(link),
            channel,
            next: 0,
            is_broken: false,
        }))
    }
}

/// A connection.
struct Link {
    hosting: Arc<Hosting>,
    connection: ConnectionId,
    closed: Flag,
    replies: Mutex<mpsc::UnboundedReceiver<Vec<u8>>>,
}

impl Link {
    /// Closes it: what is on its way is not delivered any more.
    fn close(&self) {
        if !self.closed.raise() {
            self.hosting.gone(self.connection);
        }
    }

    /// To the client it is closed. The host has the message still, and hands it to the enclave after some seconds.
    async fn hold_back(&self, message: Vec<u8>, ms: u64) {
        if self.closed.raise() {
            return;
        }
        sleep(Duration::from_millis(ms)).await;
        self.hosting.hear(self.connection, message);
        sleep(Duration::from_secs(1)).await;
        self.hosting.gone(self.connection);
    }

    fn is_over(&self) -> bool {
        self.closed.is_raised() || self.hosting.process.is_dead()
    }
}

struct Talking {
    searching: Arc<Searching>,
    process: Arc<Process>,
    link: Arc<Link>,
    channel: Plain,
    next: u64,
    is_broken: bool,
}

impl Drop for Talking {
    fn drop(&mut self) {
        self.link.close();
    }
}

fn kind(request: &Request) -> &'static str {
    match request {
        Request::Create { .. } => "create",
        Request::Open(_) => "open",
        Request::Update(_) => "update",
        Request::Search(_) => "search",
        Request::Compact { .. } => "compact",
        Request::Grant { .. } | Request::Revoke(_) | Request::RevokeCertificate(_) => "policy",
    }
}

impl Conversation for Talking {
    fn ask(&mut self, request: Request) -> Saying<'_, Result<Reply, Unreachable>> {
        Box::pin(async move {
            if self.process.is_dead() {
                return Err(dead());
            }
            if self.is_broken {
                return Err(Unreachable("the connection has failed before".into()));
            }
            // So it is, if this is given up.
            self.is_broken = true;
            let kind = kind(&request);
            self.searching.network.trace.note(|| format!("    the enclave is asked: {kind}"));
            let number = self.next;
            self.next += 1;
            let message = self.channel.wrap(&Ask { number, request }.encode());
            let bytes = self.exchange(message).await?;
            let said = self.channel.unwrap(&bytes).map_err(|error| Unreachable(error.to_string()))?;
            let answer = Answer::decode(said).map_err(|error| Unreachable(error.to_string()))?;
            if answer.number != number {
                return Err(Unreachable("an answer to another question".into()));
            }
            self.is_broken = false;
            // Nothing that is looked for is in so many documents that they are more than a page.
            let reply = Whole::default().take(answer.reply);
            let reply = reply.ok_or_else(|| Unreachable("a part of a reply".into()))?;
            if let Reply::Refused(refused) = &reply {
                self.searching.network.trace.note(|| format!("    the enclave refuses: {refused}"));
            }
            Ok(reply)
        })
    }
}

impl Talking {
    /// One message and its reply.
    async fn exchange(&self, message: Vec<u8>) -> Result<Vec<u8>, Unreachable> {
        let (tell, told) = oneshot::channel();
        tokio::spawn(carry(Arc::clone(&self.searching), Arc::clone(&self.link), message, tell));
        let outcome = tokio::select! {
            biased;
            () = self.process.dies() => return Err(dead()),
            answered = timeout(DEADLINE, told) => answered,
            () = self.link.closed.raised() => return Err(Unreachable("the connection was cut".into())),
            () = self.link.hosting.process.dies() => return Err(Unreachable("the host is gone".into())),
        };
        match outcome {
            Ok(Ok(reply)) => Ok(reply),
            Ok(Err(_)) => Err(Unreachable("the connection was cut".into())),
            Err(_) => Err(Unreachable("no answer in time".into())),
        }
    }
}

/// Takes a message to the host and its reply back, whether or not anybody still waits for it.
async fn carry(searching: Arc<Searching>, link: Arc<Link>, message: Vec<u8>, tell: oneshot::Sender<Vec<u8>>) {
    let fate = searching.network.fate();
    sleep(fate.there).await;
    if fate.cut_there {
        return match searching.network.chance(HELD_BACK_MS_MAX) {
            ms if ms % 2 == 0 => link.hold_back(message, ms).await,
            _ => link.close(),
        };
    }
    if fate.lost_there {
        // Nobody hears of it, and the connection stays.
        link.closed.raised().await;
        return drop(tell);
    }
    if link.is_over() {
        return;
    }
    link.hosting.hear(link.connection, message);
    let reply = tokio::select! {
        biased;
        () = link.closed.raised() => return,
        () = link.hosting.process.dies() => return,
        reply = async { link.replies.lock().await.recv().await } => reply,
    };
    let Some(reply) = reply else { return link.close() };
    sleep(fate.back).await;
    if fate.cut_back {
        return link.close();
    }
    if fate.lost_back {
        link.closed.raised().await;
        return drop(tell);
    }
    let _ = tell.send(reply);
}
