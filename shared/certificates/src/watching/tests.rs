#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing, clippy::panic)]

use super::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A certificate in a file of `directory` that lasts for so many days from 1970 on.
fn lasting(directory: &std::path::Path, days: i64) -> PathBuf {
    let own = rcgen::KeyPair::generate().unwrap();
    let mut params = rcgen::CertificateParams::new(vec!["a.name".to_owned()]).unwrap();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(rcgen::DnType::CommonName, "somebody\n\u{1b}[2J");
    params.not_before = rcgen::date_time_ymd(1970, 1, 1);
    params.not_after = params.not_before + Duration::from_secs(days.unsigned_abs() * DAY_SECONDS);
    let path = directory.join(format!("{days}.pem"));
    std::fs::write(&path, params.self_signed(&own).unwrap().pem()).unwrap();
    path
}

#[test]
fn the_end_is_said_in_days_from_thirty_days_before_it() {
    let directory = tempfile::tempdir().unwrap();
    let file = [lasting(directory.path(), 1000)];
    let said = |day: u64| ending(&file, day * DAY_SECONDS).concat();
    assert_eq!(said(0), "");
    assert_eq!(said(970), "");
    for (day, words) in
        [(971, "ends in 29 days"), (999, "ends in 1 day,"), (1000, "within a day"), (1001, "ended on")]
    {
        let line = said(day);
        assert!(line.contains(words) && line.contains("1972-09-27"), "{day}: {line}");
        assert!(line.contains("arras certificates renew") && !line.contains(['\n', '\u{1b}']), "{line}");
    }
    std::fs::write(&file[0], "nothing").unwrap();
    assert!(said(0).contains("no certificate in it"), "{}", said(0));
}

#[tokio::test(start_paused = true)]
async fn ends_are_looked_for_at_the_start_and_once_a_day() {
    let looks = AtomicU64::new(0);
    let clock = || looks.fetch_add(1, Ordering::SeqCst);
    let reloading = Reloading::from(Arc::new(()));
    let watched = watch(&reloading, &[], Watching::without_hangup(), clock);
    let three_days = Duration::from_secs(3 * DAY_SECONDS + 60);
    assert!(tokio::time::timeout(three_days, watched).await.is_err(), "it goes on for ever");
    assert_eq!(looks.load(Ordering::SeqCst), 4);
}
