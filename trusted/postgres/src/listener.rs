//! Where clients connect: by TCP, or by a socket in a folder of this machine, as PostgreSQL's `unix_socket_directories` has it.

mod socket_file;

pub use socket_file::SocketFile;

use crate::stream::Socket;
use arras_transport::tcp;
use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use tokio::net::{TcpListener, UnixListener};

/// A listener that is open.
#[derive(Debug)]
pub enum Listener {
    /// By TCP.
    Tcp(TcpListener),
    /// By the socket in a file, which goes with it.
    Unix(UnixListener, SocketFile),
}

/// Who is at the other end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Peer {
    /// Somebody at an address.
    Tcp(SocketAddr),
    /// A process of this machine, of the user of that number, as the operating system says.
    Local(Option<u32>),
}

/// Whence a peer comes: those of one origin are held to be one, where there are too many.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Origin {
    Address(IpAddr),
    User(Option<u32>),
}

impl Peer {
    pub(crate) fn origin(self) -> Origin {
        match self {
            Self::Tcp(address) => Origin::Address(address.ip()),
            Self::Local(user) => Origin::User(user),
        }
    }

    /// Does what it sends stay on this machine?
    pub(crate) fn is_local(self) -> bool {
        match self {
            Self::Tcp(address) => address.ip().is_loopback(),
            Self::Local(_) => true,
        }
    }

    /// The operating system's user that it is, where that is known.
    pub(crate) fn user(self) -> Option<u32> {
        match self {
            Self::Tcp(_) => None,
            Self::Local(user) => user,
        }
    }
}

impl fmt::Display for Peer {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(out),
            Self::Local(Some(user)) => write!(out, "user {user} of this machine"),
            Self::Local(None) => write!(out, "this machine"),
        }
    }
}

impl From<TcpListener> for Listener {
    fn from(listener: TcpListener) -> Self {
        Self::Tcp(listener)
    }
}

impl Listener {
    /// Opens the socket of a port in a folder, which is made, for its owner alone, if it is not there. `mode` says who may connect;
    /// without one it is the process's own user.
    ///
    /// # Errors
    /// The socket is used by a process that runs, or cannot be made.
    pub async fn in_folder(folder: &Path, port: u16, mode: Option<u32>) -> io::Result<Self> {
        let (listener, file) = SocketFile::open(folder, port, mode).await?;
        Ok(Self::Unix(listener, file))
    }

    /// Waits for a connection.
    pub(crate) async fn accept(&self) -> io::Result<(Socket, Peer)> {
        match self {
            Self::Tcp(listener) => {
                let (stream, address) = listener.accept().await?;
                // An application may pause for as long as it likes in the middle of what it reads.
                if let Err(error) = tcp::tune(&stream, None) {
                    tracing::debug!(peer = %address, %error, "a PostgreSQL connection could not be set up");
                }
                Ok((Socket::Tcp(stream), Peer::Tcp(address)))
            }
            Self::Unix(listener, _) => {
                let (stream, _) = listener.accept().await?;
                let user = stream.peer_cred().ok().map(|peer| peer.uid());
                Ok((Socket::Unix(stream), Peer::Local(user)))
            }
        }
    }
}

/// The file of a port's socket in a folder, as libpq looks for it.
#[must_use]
pub fn socket_path(folder: &Path, port: u16) -> PathBuf {
    folder.join(format!(".s.PGSQL.{port}"))
}
