//! Threads for what nobody waits for yet.

use std::io;
use std::thread::Builder;

/// How far they stand back (`nice`): a caller that wants a processor has it before them. Not as far as can be: they hold locks of
/// the file that callers want, and callers wait for them once twice a memtable is in memory.
const NICE: i32 = 10;

/// Begins one.
///
/// # Errors
/// There is no thread to be had.
pub(super) fn begin(name: &str, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let behind = move || {
        // Of the calling thread alone. Where it is refused, it is as fast as others.
        let own = rustix::process::getpriority_process(None).unwrap_or_default();
        let _ = rustix::process::setpriority_process(None, own.max(NICE));
        work();
    };
    Builder::new().name(name.into()).spawn(behind).map(drop)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use rustix::process::getpriority_process;
    use std::sync::mpsc;

    #[test]
    fn what_is_begun_stands_back_and_who_begins_it_does_not() {
        let before = getpriority_process(None).unwrap();
        let (tell, told) = mpsc::channel();
        begin("test", move || tell.send(getpriority_process(None).unwrap()).unwrap()).unwrap();
        assert_eq!(told.recv().unwrap(), NICE.max(before));
        assert_eq!(getpriority_process(None).unwrap(), before);
    }
}
