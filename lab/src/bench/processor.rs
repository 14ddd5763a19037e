//! Processor time of processes that are measured: what rates do not say where processors are shared with others.

use nix::errno::Errno;
use nix::time::{ClockId, clock_getcpuclockid, clock_gettime};
use nix::unistd::Pid;
use std::fs;
use std::path::Path;
use std::time::Duration;

/// Of the numbers in `/proc`: Linux has shown a hundred ticks a second whatever its clock's are.
const TICKS_PER_SECOND: f64 = 100.0;

/// Seconds of the processor that a process has taken, its ended threads' with it.
pub(super) fn taken(process: Pid) -> Result<f64, Errno> {
    let clock: ClockId = clock_getcpuclockid(process)?;
    Ok(Duration::from(clock_gettime(clock)?).as_secs_f64())
}

/// Seconds that a PostgreSQL has taken, by its data directory: the postmaster's, its processes', and those of its processes
/// that have ended.
pub(super) fn taken_by_postgres(data: &Path) -> std::io::Result<f64> {
    let file = fs::read_to_string(data.join("postmaster.pid"))?;
    let postmaster = file.lines().next().unwrap_or_default().trim().to_owned();
    let list = fs::read_to_string(format!("/proc/{postmaster}/task/{postmaster}/children"))?;
    // One that ends meanwhile is its parent's from then on: the parent is read last.
    let running: u64 =
        list.split_whitespace().filter_map(|child| ticks(child).ok()).map(|(own, _)| own).sum();
    let (own, ended) = ticks(&postmaster)?;
    Ok((running + own + ended) as f64 / TICKS_PER_SECOND)
}

/// Ticks of the clock that a process has taken, and those that its children had which have ended.
fn ticks(process: &str) -> std::io::Result<(u64, u64)> {
    let stat = fs::read_to_string(format!("/proc/{process}/stat"))?;
    // Behind the name, which may have anything in it: the state is the third field, `utime` the fourteenth.
    let behind = stat.rsplit(") ").next().unwrap_or_default();
    let mut numbers = behind.split(' ').skip(11).map(|number| number.parse().unwrap_or(0));
    let mut two = || numbers.next().unwrap_or(0) + numbers.next().unwrap_or(0);
    Ok((two(), two()))
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn what_a_process_does_is_counted() {
        let before = taken(Pid::this()).unwrap();
        let (own, _) = ticks("self").unwrap();
        let mut number = 1_u64;
        while taken(Pid::this()).unwrap() - before < 0.1 {
            number = std::hint::black_box(number.wrapping_mul(3));
        }
        assert!(ticks("self").unwrap().0 >= own + 5, "a tenth of a second is ten ticks");
    }
}
