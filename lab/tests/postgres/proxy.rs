//! The PostgreSQL listener in this process, in front of a private PostgreSQL.

use arras_keys::Key;
use arras_lab::private_postgres::PrivatePostgres;
use arras_postgres::{Access, Listener, Options, Rewriting, Schema, Server, Upstream};
use arras_records::column::ColumnSealer;
use arras_service::columns::{ColumnKeys, Columns, Declared, OrderEncoder, OrderTerms};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::thread::JoinHandle;
use tokio::net::TcpListener;
use tokio::sync::oneshot;

/// A root of keys.
pub(crate) struct Keys(Key);

impl Default for Keys {
    fn default() -> Self {
        Self(Key::generate())
    }
}

/// The keys of a schema's columns, none of which has an order.
struct Unordered(HashMap<[u8; 8], Arc<ColumnSealer>>);

impl Columns for Unordered {
    fn keys(&self, column: [u8; 8]) -> Option<Arc<dyn ColumnKeys>> {
        self.0.get(&column).map(|sealer| Arc::clone(sealer) as Arc<dyn ColumnKeys>)
    }

    fn encoder(&self, _: [u8; 8]) -> Option<Arc<dyn OrderEncoder>> {
        None
    }

    fn order_terms(&self, _: [u8; 8]) -> Option<Arc<dyn OrderTerms>> {
        None
    }
}

/// A listener; it stops when dropped.
pub(crate) struct Proxy {
    pub(crate) address: SocketAddr,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Proxy {
    /// Lets in whoever comes, in front of a database of `server`.
    pub(crate) fn start(server: &PrivatePostgres) -> Self {
        Self::with(&server.uri("postgres"), Access::new(None, None), Options::default())
    }

    /// The same, with the columns encrypted that a schema declares, which has no orders.
    pub(crate) fn encrypting(server: &PrivatePostgres, schema: &str, keys: &Keys) -> Self {
        let schema = Arc::new(Schema::parse(schema, "schema").unwrap());
        let mut sealers = HashMap::new();
        for column in schema.columns() {
            for id in [Some(column.id), column.equality].into_iter().flatten() {
                let declared = Declared { id, ..column.declared() };
                sealers.insert(id, Arc::new(ColumnSealer::new(declared, [(1, &keys.0)]).unwrap()));
            }
        }
        let rewriting = Rewriting::new(schema, Arc::new(Unordered(sealers)), 0);
        let access = Access::new(None, None);
        Self::open(&server.uri("postgres"), access, (Options::default(), None), Some(Arc::new(rewriting)))
    }

    pub(crate) fn with(upstream: &str, access: Access, options: Options) -> Self {
        Self::open(upstream, access, (options, None), None)
    }

    /// The same, by a socket in a folder as well.
    pub(crate) fn in_folder(
        upstream: &str,
        access: Access,
        options: Options,
        folder: &Path,
        port: u16,
    ) -> Self {
        Self::open(upstream, access, (options, Some((folder.to_owned(), port))), None)
    }

    fn open(
        upstream: &str,
        access: Access,
        (options, folder): (Options, Option<(PathBuf, u16)>),
        rewriting: Option<Arc<Rewriting>>,
    ) -> Self {
        let upstream = Upstream::parse(upstream, None).unwrap();
        let (stop, stopped) = oneshot::channel();
        let (tell, told) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
                let server = Server::new(upstream, access, options, rewriting);
                if let Some((folder, port)) = folder {
                    let socket = Listener::in_folder(&folder, port, None).await.unwrap();
                    let server = server.clone();
                    // It goes with the runtime.
                    tokio::spawn(async move { server.serve(socket, std::future::pending()).await });
                }
                tell.send(listener.local_addr().unwrap()).unwrap();
                let shutdown = async {
                    let _ = stopped.await;
                };
                server.serve(listener, shutdown).await;
            });
        });
        Self { address: told.recv().unwrap(), stop: Some(stop), thread: Some(thread) }
    }

    /// How a client connects.
    pub(crate) fn uri(&self, database: &str) -> String {
        format!("postgres://postgres@{}/{database}", self.address)
    }

    /// Tells it to stop; it goes on until [`Proxy::stopped`] or it is dropped.
    pub(crate) fn stop(&mut self) {
        self.stop.take().unwrap().send(()).unwrap();
    }

    /// Waits until it has stopped.
    pub(crate) fn stopped(&mut self) {
        self.thread.take().unwrap().join().unwrap();
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// What a program printed, on both of its outputs, and whether it ended well.
pub(crate) fn outputs(mut command: Command) -> (bool, String, String) {
    let run = command.output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (run.status.success(), text(run.stdout), text(run.stderr))
}
