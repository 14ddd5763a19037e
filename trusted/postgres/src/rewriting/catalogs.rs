//! What sessions know of the tables, once for all that know the same: in a database of a thousand tables it is two megabytes.

use crate::catalog::Catalog;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// Catalogues that are compared with a new one, at most.
const COMPARED_MAX: usize = 8;

/// Catalogues that sessions use, the newest last.
#[derive(Default)]
pub(crate) struct Catalogs(Mutex<Vec<Weak<Catalog>>>);

impl Catalogs {
    /// A catalogue that was read; the one that is in use, if it is equal. What one that is in use has in part is not there twice, either.
    pub(crate) fn shared(&self, mut read: Catalog) -> Arc<Catalog> {
        // Compared without the lock: two that are read at once may be there twice.
        let in_use: Vec<Arc<Catalog>> = self.in_use().iter().filter_map(Weak::upgrade).collect();
        if let Some(same) = in_use.iter().rev().find(|known| ***known == read) {
            return Arc::clone(same);
        }
        if let Some(last) = in_use.last() {
            read.share_with(last);
        }
        let read = Arc::new(read);
        let mut known = self.in_use();
        known.retain(|known| known.strong_count() > 0);
        if known.len() == COMPARED_MAX {
            known.remove(0);
        }
        known.push(Arc::downgrade(&read));
        read
    }

    fn in_use(&self) -> std::sync::MutexGuard<'_, Vec<Weak<Catalog>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog::{Column, Table};

    fn table(name: &str, columns: &[&str]) -> Table {
        let column = |name: &&str| Column {
            name: (*name).to_owned(),
            encryption: None,
            stored: "bigint".to_owned(),
            default: None,
            is_generated: false,
        };
        let columns = columns.iter().map(column).collect();
        Table { schema: "public".to_owned(), name: name.to_owned(), columns }
    }

    fn catalog(tables: Vec<Table>) -> Catalog {
        Catalog::new(Arc::default(), tables)
    }

    #[test]
    fn what_two_sessions_know_is_there_once() {
        let catalogs = Catalogs::default();
        let first = catalogs.shared(catalog(vec![table("t", &["a"]), table("u", &["a"])]));
        let second = catalogs.shared(catalog(vec![table("t", &["a"]), table("u", &["a"])]));
        assert!(Arc::ptr_eq(&first, &second));
        let changed = catalogs.shared(catalog(vec![table("t", &["a"]), table("u", &["a", "b"])]));
        assert_eq!(*changed, catalog(vec![table("t", &["a"]), table("u", &["a", "b"])]));
        assert!(first.shares(&changed, "t") && !first.shares(&changed, "u"));
        let third = catalogs.shared(catalog(vec![table("t", &["a"]), table("u", &["a"])]));
        assert!(Arc::ptr_eq(&first, &third), "an older one is known as long as a session has it");
        drop((first, second, third, changed));
        assert!(
            catalogs.in_use().iter().all(|known| known.strong_count() == 0),
            "nothing is held for no session"
        );
    }

    #[test]
    fn few_are_compared() {
        let catalogs = Catalogs::default();
        let made = |number: usize| catalogs.shared(catalog(vec![table(&format!("t{number}"), &["a"])]));
        let held: Vec<_> = (0..3 * COMPARED_MAX).map(made).collect();
        assert_eq!(catalogs.in_use().len(), COMPARED_MAX);
        assert!(held.last().is_some_and(|last| Arc::ptr_eq(last, &made(3 * COMPARED_MAX - 1))));
    }
}
