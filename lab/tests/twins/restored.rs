//! Twin databases whose both sides were restored from a backup. What happened after the backup is forgotten, but the
//! server has seen it: nothing it sees after the restore may meet that, and the twins still look alike.

use super::observed::{self, Call, RandomBytes};
use super::process;
use super::twins::{Running, both, compare, index, judge, shapes};
use arras_protocol::arx_eq;
use arras_protocol::write::Step;
use bson::doc;
use std::collections::BTreeSet;
use std::path::Path;
use std::thread;

/// Every entry is a separator and every separator a top node: no circuits, whose forms are random.
const ALL_TOP: &str = "\n[range_indexes]\nbucket_factor = 1\ntop_nodes = 100000\n";

fn copy(from: &Path, to: &Path) {
    let _ = std::fs::remove_dir_all(to);
    std::fs::create_dir(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
    }
}

impl Running {
    fn stop(&mut self) {
        self.system.kill_proxy();
        self.system.kill_server();
    }

    fn start_both(&mut self) {
        self.system.start_server();
        self.system.start_proxy();
    }

    /// Copies both data directories aside, or back.
    fn back_up(&self, back: bool) {
        for side in ["proxy", "server"] {
            let (data, backup) = (self.system.path(side), self.system.path(&format!("{side}-backup")));
            if back { copy(&backup, &data) } else { copy(&data, &backup) }
        }
    }

    fn declare_restore(&self) {
        let mut restore = self.system.arras("restore");
        restore.arg("--config").arg(self.system.configuration());
        let ended = process::run(restore);
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    }
}

/// Names of equality entries that the server was shown: the labels of those that were made.
fn labels(calls: &[Call]) -> BTreeSet<arx_eq::Label> {
    let steps = observed::writes(calls).into_iter().flat_map(|request| request.steps);
    steps
        .filter_map(|step| match step {
            Step::ArxEq(arx_eq::Change::Insert { label, .. }) => Some(label),
            _ => None,
        })
        .collect()
}

#[test]
fn a_declared_restore_looks_equal_and_no_label_comes_again() {
    let mut twins = both(ALL_TOP);
    let (mut random, mut failures): ([RandomBytes; 2], _) = (Default::default(), Vec::new());
    let each = |twins: &mut [Running; 2], act: &(dyn Fn(&mut Running) + Sync)| {
        thread::scope(|scope| twins.iter_mut().for_each(|running| drop(scope.spawn(|| act(running)))));
    };
    each(&mut twins, &|running| {
        let serves = doc! { "operations": ["eq"] };
        running.create_index(index("e", doc! { "e": 1 }, false, serves.clone()));
        running.create_index(index("tags", doc! { "tags": 1 }, false, serves.clone()));
        running.create_index(index("u", doc! { "u": 1 }, true, serves));
        running.insert(0..100);
        running.stop();
        running.back_up(false);
        running.start_both();
    });
    // The last of these writes may be sent again by any later start.
    let backed_up = twins.each_mut().map(|running| labels(&running.seen()));
    // After the backup, and forgotten.
    each(&mut twins, &|running| running.insert(100..200));
    let forgotten = twins.each_mut().map(|running| labels(&running.seen()));
    assert!(forgotten.iter().all(|labels| labels.len() == 400), "an entry for each value");
    each(&mut twins, &|running| {
        running.stop();
        running.back_up(true);
        running.declare_restore();
        running.start_both();
        // The same documents again, and others of the same values.
        running.insert(100..200);
        running.insert(200..300);
        assert!(running.find(doc! { "e": running.twin.searched() }).len() > 40);
    });
    let seen = twins.each_mut().map(Running::seen);
    for (side, (calls, random)) in seen.iter().zip(&mut random).enumerate() {
        let (labels, forgotten) = (&labels(calls) - &backed_up[side], &forgotten[side]);
        if labels.len() != 1200 {
            failures.push(format!("{} entries are made, not one for each value", labels.len()));
        }
        let again = labels.intersection(forgotten).count();
        if again > 0 {
            failures.push(format!("{again} labels from before the restore come again"));
        }
        calls.iter().for_each(|call| observed::take_random(call, random));
        // Documents keep their names: with new entries they are stored again, under the same.
        random.remove("rows");
    }
    let [left, right] = seen.map(|calls| shapes(&calls));
    if left != right {
        failures.push("the server tells the twins apart by what it sees after a restore".to_owned());
    }
    compare("nothing more", &mut twins, &mut random, &mut failures);
    judge(&random, &mut failures);
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
