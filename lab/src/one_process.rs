//! The whole system in one process, without sockets: an engine over a server's half.

use arras_engine::channel::ServerChannel;
use arras_engine::{Engine, OpenError, Settings};
use arras_keys::{Keyring, Unlock, create_key_file};
use arras_protocol::hello::{self, Hello};
use arras_protocol::limits::PROTOCOL_VERSION;
use arras_protocol::{Channel, ChannelError};
use arras_storage::Storage;
use std::path::Path;
use std::sync::Arc;

/// Why there is no engine.
#[derive(Debug, thiserror::Error)]
pub enum Failed {
    /// The keyring cannot be made or opened.
    #[error(transparent)]
    Keyring(#[from] arras_keys::KeyringError),
    /// The server's half does not greet.
    #[error(transparent)]
    Channel(#[from] ChannelError),
    /// The engine does not start.
    #[error(transparent)]
    Engine(#[from] OpenError),
}

/// Opens an engine whose own state is in `local` and whose keyring is in `directory` (made there at first).
///
/// # Errors
/// [`Failed`].
pub async fn open<S: Storage, C: ServerChannel + Channel<Hello>>(
    directory: &Path,
    local: S,
    channel: Arc<C>,
    settings: Settings,
) -> Result<Engine<S, C>, Failed> {
    let (keyring, key_file) = (directory.join("keyring"), directory.join("key"));
    let unlock = || Unlock::KeyFile(key_file.clone());
    let keyring = if keyring.exists() {
        Keyring::open(&keyring, unlock())?
    } else {
        create_key_file(&key_file)?;
        Keyring::create(&keyring, unlock(), 0)?
    };
    let request = hello::Request { protocol_version: PROTOCOL_VERSION, purpose: hello::Purpose::Observe };
    let server = Channel::<Hello>::call(&*channel, request).await?;
    Ok(Engine::open(local, keyring, channel, &server, settings).await?)
}
