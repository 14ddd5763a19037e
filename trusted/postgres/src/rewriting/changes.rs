//! Which tables' columns sessions have changed, and when, or are changing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Of names of declared tables only: as many as there are.
#[derive(Default)]
pub(crate) struct Changes(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    /// The number of each table's last change.
    changed: BTreeMap<String, u64>,
    /// How many sessions are changing each.
    changing: BTreeMap<String, usize>,
}

impl Changes {
    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A session is about to change a table.
    pub(super) fn begin(&self, name: &str) {
        *self.inner().changing.entry(name.to_owned()).or_default() += 1;
    }

    /// What a session was changing is changed, or as it was.
    pub(super) fn end(&self, names: &BTreeSet<String>, number: impl FnOnce() -> u64) {
        let mut inner = self.inner();
        let number = number();
        for name in names {
            inner.changed.insert(name.clone(), number);
            if let Some(sessions) = inner.changing.get_mut(name) {
                *sessions -= 1;
            }
        }
        inner.changing.retain(|_, sessions| *sessions > 0);
    }

    /// What was changed behind the change of a number, or is being changed by another than who changes `own`.
    pub(crate) fn behind(&self, number: u64, own: Option<&BTreeSet<String>>) -> BTreeSet<String> {
        let inner = self.inner();
        let is_own = |name: &str| usize::from(own.is_some_and(|own| own.contains(name)));
        let changed = inner.changed.iter().filter(|(_, last)| **last > number).map(|(name, _)| name);
        let by_others = |(name, sessions): &(&String, &usize)| **sessions > is_own(name);
        changed.chain(inner.changing.iter().filter(by_others).map(|(name, _)| name)).cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_change_or_have_changed_since_is_known() {
        let changes = Changes::default();
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<_>>();
        assert!(changes.behind(0, None).is_empty());
        changes.begin("a");
        assert_eq!(changes.behind(9, None), names(&["a"]));
        assert!(changes.behind(9, Some(&names(&["a"]))).is_empty());
        changes.begin("a");
        assert_eq!(changes.behind(9, Some(&names(&["a"]))), names(&["a"]));
        changes.end(&names(&["a"]), || 4);
        changes.end(&names(&["a"]), || 5);
        assert!(changes.behind(5, None).is_empty());
        assert_eq!(changes.behind(4, None), names(&["a"]));
    }
}
