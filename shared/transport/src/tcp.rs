//! What a TCP connection between our processes is set to.

use socket2::{SockRef, TcpKeepalive};
use std::io;
use std::os::fd::AsFd;
use std::time::Duration;

/// A peer that is gone without a word is noticed within about half a minute.
const KEEPALIVE: TcpKeepalive =
    TcpKeepalive::new().with_time(Duration::from_secs(15)).with_interval(Duration::from_secs(5));

/// Sets what the traffic needs: small frames leave at once, dead peers are noticed, and sent bytes stay unacknowledged
/// for `unacknowledged` at most (on Linux).
///
/// # Errors
/// What the operating system says.
pub fn tune(stream: &impl AsFd, unacknowledged: Duration) -> io::Result<()> {
    let socket = SockRef::from(stream);
    socket.set_tcp_nodelay(true)?;
    #[cfg(target_os = "linux")]
    socket.set_tcp_user_timeout(Some(unacknowledged))?;
    #[cfg(not(target_os = "linux"))]
    let _ = unacknowledged;
    socket.set_tcp_keepalive(&KEEPALIVE)
}
