//! Between the proxy and PostgreSQL: passes bytes on, and keeps them.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// What went both ways over one connection.
#[derive(Clone, Default)]
pub(crate) struct Recorded {
    pub(crate) sent: Vec<u8>,
    pub(crate) answered: Vec<u8>,
}

/// A relay; it goes on until the process ends.
pub(crate) struct Relay {
    pub(crate) address: SocketAddr,
    connections: Arc<Mutex<Vec<Arc<Mutex<Recorded>>>>>,
}

impl Relay {
    pub(crate) fn start(port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let connections = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&connections);
        std::thread::spawn(move || {
            for client in listener.incoming() {
                let (client, server) = (client.unwrap(), TcpStream::connect(("127.0.0.1", port)).unwrap());
                client.set_nodelay(true).unwrap();
                server.set_nodelay(true).unwrap();
                let recorded = Arc::new(Mutex::new(Recorded::default()));
                kept.lock().unwrap().push(Arc::clone(&recorded));
                let (back, forth) = (Arc::clone(&recorded), recorded);
                let (from, to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
                std::thread::spawn(move || pass(from, to, |bytes| forth.lock().unwrap().sent.extend(bytes)));
                std::thread::spawn(move || {
                    pass(server, client, |bytes| back.lock().unwrap().answered.extend(bytes))
                });
            }
        });
        Self { address, connections }
    }

    /// All that went so far, by connections in the order in which they were made.
    pub(crate) fn recorded(&self) -> Vec<Recorded> {
        self.connections.lock().unwrap().iter().map(|one| one.lock().unwrap().clone()).collect()
    }
}

fn pass(mut from: TcpStream, mut to: TcpStream, mut keep: impl FnMut(&[u8])) {
    let mut buffer = vec![0; 64 * 1024];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        keep(&buffer[..count]);
        if to.write_all(&buffer[..count]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
    let _ = from.shutdown(Shutdown::Both);
}
