//! `arras lab serve`: the website.

use super::{Failure, print};
use crate::web::{self, Limits};
use clap::Args;
use std::net::SocketAddr;
use std::time::Duration;

/// Options of `serve`.
#[derive(Debug, Args)]
pub struct ServeArguments {
    /// Where to listen. There is no log-in: whoever reaches it can start runs.
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:8477")]
    listen: SocketAddr,
    /// Most records of a run.
    #[arg(long, value_name = "N", default_value_t = Limits::default().records_max)]
    records_max: usize,
    /// Longest run, in seconds; what it has by then is kept.
    #[arg(long, value_name = "SECONDS", default_value_t = Limits::default().run_time_max.as_secs())]
    run_seconds_max: u64,
    /// Runs that may wait.
    #[arg(long, value_name = "N", default_value_t = Limits::default().queue_max)]
    queue_max: usize,
}

/// Serves until Ctrl-C.
pub(super) fn run(arguments: &ServeArguments) -> Result<(), Failure> {
    let limits = Limits {
        records_max: arguments.records_max,
        run_time_max: Duration::from_secs(arguments.run_seconds_max),
        queue_max: arguments.queue_max,
        ..Limits::default()
    };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let wrong =
            |error: std::io::Error| Failure::Usage(format!("cannot listen on {}: {error}", arguments.listen));
        let listener = tokio::net::TcpListener::bind(arguments.listen).await.map_err(wrong)?;
        print(&format!("listening on http://{}/ (Ctrl-C stops)", listener.local_addr().map_err(wrong)?))?;
        Ok(web::serve(listener, limits, stopped()).await?)
    })
}

/// Ready at Ctrl-C or a polite kill.
async fn stopped() {
    use tokio::signal::unix::{SignalKind, signal};
    let Ok(mut terminated) = signal(SignalKind::terminate()) else {
        // Without a handler the signals simply end the process.
        return std::future::pending().await;
    };
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        _ = terminated.recv() => {}
    }
}
