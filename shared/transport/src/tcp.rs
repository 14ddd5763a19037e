//! What a TCP connection between our processes is set to.

use socket2::{SockRef, TcpKeepalive};
use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

/// A peer that is gone without a word is noticed within about half a minute.
const KEEPALIVE: TcpKeepalive =
    TcpKeepalive::new().with_time(Duration::from_secs(15)).with_interval(Duration::from_secs(5));

/// Sets what the traffic needs: small frames leave at once, dead peers are noticed, and what was sent waits for
/// `unacknowledged` at most (on Linux), if that is said. A peer that lives and reads nothing for so long is cut as well: say it
/// only of one that always reads.
///
/// # Errors
/// What the operating system says.
pub fn tune(stream: &impl AsFd, unacknowledged: Option<Duration>) -> io::Result<()> {
    let socket = SockRef::from(stream);
    socket.set_tcp_nodelay(true)?;
    #[cfg(target_os = "linux")]
    socket.set_tcp_user_timeout(unacknowledged)?;
    #[cfg(not(target_os = "linux"))]
    let _ = unacknowledged;
    socket.set_tcp_keepalive(&KEEPALIVE)
}
