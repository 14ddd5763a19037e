//! The PostgreSQL listener in this process, in front of a private PostgreSQL.

use arras_lab::private_postgres::PrivatePostgres;
use arras_postgres::{Access, Options, Server, Upstream};
use std::net::SocketAddr;
use std::process::Command;
use std::thread::JoinHandle;
use tokio::net::TcpListener;
use tokio::sync::oneshot;

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

    pub(crate) fn with(upstream: &str, access: Access, options: Options) -> Self {
        let upstream = Upstream::parse(upstream, None).unwrap();
        let (stop, stopped) = oneshot::channel();
        let (tell, told) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async {
                let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
                tell.send(listener.local_addr().unwrap()).unwrap();
                let shutdown = async {
                    let _ = stopped.await;
                };
                Server::new(upstream, access, options).serve(listener, shutdown).await;
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
