//! `arras search serve`: a page in a browser on this machine.
//!
//! It listens on the loopback address alone. Its paths begin with a token that is drawn at each start and printed to whoever started
//! it: other users of the machine, and pages of other sites in the same browser, do not know it. A request with another `Host` than
//! this address is refused, so that a name that is made to point here (DNS rebinding) is of no use. The page has no script and
//! fetches nothing from elsewhere.

mod access;
mod connections;
mod page;
mod searching;

use crate::ServeArguments;
use crate::failure::Failure;
use crate::querying::ledger;
use crate::store::{COLLECTION, Store};
use access::Access;
use arras_search::service::Collection;
use connections::Answers;
use searching::{Job, Searcher};
use std::io::{self, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::sync::Arc;
use std::thread;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

/// Queries that wait for the one under way; one more is told to come again.
const WAITING_MAX: usize = 16;

pub(crate) fn run(arguments: &ServeArguments) -> Result<(), Failure> {
    let store = Store::existing(&arguments.store)?;
    let wanted = (Ipv4Addr::LOCALHOST, arguments.port);
    let unbound = |what| Failure::Network { address: format!("{}:{}", wanted.0, wanted.1), what };
    let listener = TcpListener::bind(wanted).map_err(unbound)?;
    let address = listener.local_addr().map_err(unbound)?;
    let (host, mut connection) = store.start()?;
    let collection = Collection::existing(&mut connection, COLLECTION)?;
    let ledger = ledger(&store, &collection)?;
    let access = Access::new(address).map_err(|error| Failure::Process(error.to_string()))?;
    writeln!(io::stdout(), "listening on {} (Ctrl-C stops)", access.url())?;
    let (jobs, waiting) = mpsc::channel(WAITING_MAX);
    let serving = thread::spawn(move || serve(listener, Arc::new(Answers { access, jobs })));
    Searcher { host, collection, ledger }.work(waiting);
    // It ends what the searcher waits for, by its end.
    serving.join().unwrap_or_else(|_| Err(io::Error::other("a defect"))).map_err(unbound)
}

/// Serves until the process is asked to stop.
fn serve(listener: TcpListener, answers: Arc<Answers>) -> io::Result<()> {
    listener.set_nonblocking(true)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut terminated = signal(SignalKind::terminate())?;
        let mut interrupted = signal(SignalKind::interrupt())?;
        let listener = tokio::net::TcpListener::from_std(listener)?;
        tokio::select! {
            () = connections::accept(listener, answers) => {}
            _ = terminated.recv() => {}
            _ = interrupted.recv() => {}
        }
        Ok(())
    })
}

/// Who asks waits for the answer.
type Jobs = mpsc::Sender<Job>;
