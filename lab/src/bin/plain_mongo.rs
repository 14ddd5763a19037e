//! Serves the plain store over the MongoDB protocol: `plain_mongo --listen 127.0.0.1:27017`. For driver tests
//! and as the unencrypted side of comparisons; nothing is kept when it ends.
#![forbid(unsafe_code)]

use arras_lab::plain_store::PlainStore;
use arras_mongo::{Options, Server};
use std::io;
use std::sync::Arc;

#[tokio::main]
async fn main() -> io::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let address = match (arguments.next().as_deref(), arguments.next(), arguments.next()) {
        (None, ..) => "127.0.0.1:27017".to_owned(),
        (Some("--listen"), Some(address), None) => address,
        _ => return Err(io::Error::other("usage: plain_mongo [--listen HOST:PORT]")),
    };
    let listener = tokio::net::TcpListener::bind(&address).await?;
    eprintln!("plain MongoDB store listens on {}", listener.local_addr()?);
    let server = Server::new(Arc::new(PlainStore::new()), Options::default());
    server
        .serve(listener, async {
            tokio::signal::ctrl_c().await.ok();
        })
        .await;
    Ok(())
}
