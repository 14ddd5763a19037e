//! What stands between proxy and server: one address that stays while the server comes and goes, and a wire tap.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

#[derive(Default)]
struct Forwarding {
    /// Where connections lead; none while the server is down.
    target: Mutex<Option<String>>,
    /// Everything that went over, both directions, if it is kept.
    tapped: Mutex<Option<Vec<u8>>>,
    stopped: AtomicBool,
}

/// A forwarding listener.
pub(crate) struct Forwarder {
    address: SocketAddr,
    shared: Arc<Forwarding>,
}

impl Forwarder {
    pub(crate) fn start(tap: bool) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Forwarding::default());
        *shared.tapped.lock().unwrap() = tap.then(Vec::new);
        thread::spawn({
            let shared = Arc::clone(&shared);
            move || {
                for connection in listener.incoming() {
                    if shared.stopped.load(Ordering::SeqCst) {
                        return;
                    }
                    let shared = Arc::clone(&shared);
                    thread::spawn(move || connection.map(|connection| forward(&connection, &shared)));
                }
            }
        });
        Self { address, shared }
    }

    pub(crate) fn address(&self) -> String {
        self.address.to_string()
    }

    pub(crate) fn lead_to(&self, target: Option<String>) {
        *self.shared.target.lock().unwrap() = target;
    }

    pub(crate) fn tapped(&self) -> Vec<u8> {
        self.shared.tapped.lock().unwrap().clone().unwrap_or_default()
    }
}

impl Drop for Forwarder {
    fn drop(&mut self) {
        self.shared.stopped.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect(self.address);
    }
}

/// Copies both ways until either side closes.
fn forward(from: &TcpStream, shared: &Forwarding) {
    let target = shared.target.lock().unwrap().clone();
    let Some(Ok(to)) = target.map(TcpStream::connect) else {
        return;
    };
    let _ = from.set_nodelay(true);
    let _ = to.set_nodelay(true);
    thread::scope(|scope| {
        scope.spawn(|| copy(from, &to, shared));
        copy(&to, from, shared);
    });
}

fn copy(mut from: &TcpStream, mut to: &TcpStream, shared: &Forwarding) {
    let mut bytes = vec![0; 64 * 1024];
    while let Ok(length) = from.read(&mut bytes)
        && length > 0
    {
        if let Some(tapped) = shared.tapped.lock().unwrap().as_mut() {
            tapped.extend_from_slice(&bytes[..length]);
        }
        if to.write_all(&bytes[..length]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
    let _ = from.shutdown(Shutdown::Read);
}
