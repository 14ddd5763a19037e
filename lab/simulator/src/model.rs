//! The documents of one application as they must be. While an outcome is in doubt there are several ways they may be.

use crate::texts::{self, Sought, Text};
use bson::{Bson, Document, doc};
use std::collections::{BTreeMap, BTreeSet};

/// A document of the workload.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Item {
    /// `_id`.
    pub id: i32,
    /// A unique value.
    pub u: i32,
    /// Few values, in an order.
    pub a: i32,
    /// Few values.
    pub b: i32,
    /// A number to be summed.
    pub v: i32,
    /// A text; none if it is empty.
    pub t: Text,
}

impl Item {
    /// As a document of `application`.
    #[must_use]
    pub fn document(&self, application: i32) -> Document {
        let Self { id, u, a, b, v, ref t } = *self;
        let mut document = doc! { "_id": id, "app": application, "u": u, "a": a, "b": b, "v": v };
        if !t.is_empty() {
            document.insert("t", texts::written(t));
        }
        document
    }

    /// Back from a document; none if it is no such one.
    #[must_use]
    pub fn read(document: &Document) -> Option<Self> {
        let field = |name: &str| document.get(name).and_then(Bson::as_i32);
        let t = match document.get("t") {
            Some(text) => texts::read(text.as_str()?)?,
            None => Text::new(),
        };
        Some(Self { id: field("_id")?, u: field("u")?, a: field("a")?, b: field("b")?, v: field("v")?, t })
    }
}

/// Which documents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Choice {
    /// All of the application.
    All,
    /// One `_id`.
    Id(i32),
    /// A unique value.
    Unique(i32),
    /// `a` between two, both included.
    A(i32, i32),
    /// Some values of `a`.
    OneOfA(Vec<i32>),
    /// A value of `b`.
    B(i32),
    /// A value of `b`, and `a` from one on.
    Both(i32, i32),
    /// `v` between two, both included.
    V(i32, i32),
    /// What is found in `t`.
    Text(Sought),
}

impl Choice {
    /// Whether it chooses an item.
    #[must_use]
    pub fn takes(&self, item: &Item) -> bool {
        match self {
            Self::All => true,
            Self::Id(id) => item.id == *id,
            Self::Unique(u) => item.u == *u,
            Self::A(low, high) => (*low..=*high).contains(&item.a),
            Self::OneOfA(values) => values.contains(&item.a),
            Self::B(b) => item.b == *b,
            Self::Both(b, a) => item.b == *b && item.a >= *a,
            Self::V(low, high) => (*low..=*high).contains(&item.v),
            Self::Text(sought) => sought.takes(&item.t),
        }
    }

    /// As a filter; of one application's documents, or of everybody's.
    #[must_use]
    pub fn filter(&self, application: Option<i32>) -> Document {
        let mut filter = match self {
            Self::All => Document::new(),
            Self::Id(id) => doc! { "_id": id },
            Self::Unique(u) => doc! { "u": u },
            Self::A(low, high) if low == high => doc! { "a": low },
            Self::A(low, high) => doc! { "a": { "$gte": low, "$lte": high } },
            Self::OneOfA(values) => doc! { "a": { "$in": values.clone() } },
            Self::B(b) => doc! { "b": b },
            Self::Both(b, a) => doc! { "b": b, "a": { "$gte": a } },
            Self::V(low, high) => doc! { "v": { "$gte": low, "$lte": high } },
            Self::Text(sought) => doc! { "$text": { "$search": sought.search() } },
        };
        if let Some(application) = application {
            filter.insert("app", application);
        }
        filter
    }

    /// True if a server may deny what is asked so, and nothing the proxy keeps says otherwise.
    #[must_use]
    pub fn is_deniable(&self) -> bool {
        matches!(self, Self::Id(_) | Self::Unique(_))
    }
}

/// What an update does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Sets `a`.
    A(i32),
    /// Sets `b`.
    B(i32),
    /// Adds to `v`.
    V(i32),
    /// Sets `u`; of one document.
    U(i32),
    /// Sets `t`.
    T(Text),
}

impl Change {
    /// As an update.
    #[must_use]
    pub fn update(&self) -> Document {
        match self {
            Self::A(a) => doc! { "$set": { "a": a } },
            Self::B(b) => doc! { "$set": { "b": b } },
            Self::V(v) => doc! { "$inc": { "v": v } },
            Self::U(u) => doc! { "$set": { "u": u } },
            Self::T(text) => doc! { "$set": { "t": texts::written(text) } },
        }
    }

    fn apply(&self, item: &mut Item) {
        match self {
            Self::A(a) => item.a = *a,
            Self::B(b) => item.b = *b,
            Self::V(v) => item.v += v,
            Self::U(u) => item.u = *u,
            Self::T(text) => item.t.clone_from(text),
        }
    }
}

/// A write of the workload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Writing {
    /// Inserts, not in order: what conflicts fails by itself.
    Insert(Vec<Item>),
    /// Changes all that are chosen.
    Update(Choice, Change),
    /// Changes one.
    UpdateOne(i32, Change),
    /// Removes all that are chosen.
    Delete(Choice),
    /// Changes the chosen one with the least (or greatest) `v`, then `_id`.
    FindAndModify(Choice, bool, Change),
}

/// What a write came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Came {
    /// So many inserted, and the positions that were duplicates.
    Inserted(u64, BTreeSet<usize>),
    /// So many matched, so many changed.
    Updated(u64, u64),
    /// So many removed.
    Deleted(u64),
    /// As it was before.
    Modified(Option<Item>),
    /// A duplicate of a unique value.
    Duplicate,
}

/// Documents, by `_id`.
pub type Items = BTreeMap<i32, Item>;

impl Writing {
    /// What it makes of items, and what it is answered with.
    #[must_use]
    pub fn apply(&self, items: &Items) -> (Items, Came) {
        let mut now = items.clone();
        let came = match self {
            Self::Insert(new) => {
                let mut duplicates = BTreeSet::new();
                for (position, item) in new.iter().enumerate() {
                    if now.contains_key(&item.id) || now.values().any(|other| other.u == item.u) {
                        duplicates.insert(position);
                    } else {
                        now.insert(item.id, item.clone());
                    }
                }
                Came::Inserted((new.len() - duplicates.len()) as u64, duplicates)
            }
            Self::Update(choice, change) => updated(&mut now, |item| choice.takes(item), change),
            Self::UpdateOne(id, change) => {
                let taken = |u: i32| items.values().any(|item| item.u == u && item.id != *id);
                match change {
                    Change::U(u) if items.contains_key(id) && taken(*u) => return (now, Came::Duplicate),
                    Change::U(_) | Change::A(_) | Change::B(_) | Change::V(_) | Change::T(_) => {
                        updated(&mut now, |item| item.id == *id, change)
                    }
                }
            }
            Self::Delete(choice) => {
                now.retain(|_, item| !choice.takes(item));
                Came::Deleted((items.len() - now.len()) as u64)
            }
            Self::FindAndModify(choice, descending, change) => {
                let chosen = sorted(items, choice, *descending).into_iter().next();
                if let Some(item) = chosen.as_ref().and_then(|chosen| now.get_mut(&chosen.id)) {
                    change.apply(item);
                }
                Came::Modified(chosen)
            }
        };
        (now, came)
    }
}

fn updated(items: &mut Items, takes: impl Fn(&Item) -> bool, change: &Change) -> Came {
    let (mut matched, mut modified) = (0, 0);
    for item in items.values_mut().filter(|item| takes(item)) {
        let before = item.clone();
        change.apply(item);
        matched += 1;
        modified += u64::from(before != *item);
    }
    Came::Updated(matched, modified)
}

/// The chosen items in the order of `v`, those of one `v` in that of `_id`.
#[must_use]
pub fn sorted(items: &Items, choice: &Choice, descending: bool) -> Vec<Item> {
    let mut found: Vec<Item> = items.values().filter(|item| choice.takes(item)).cloned().collect();
    found.sort_by_key(|item| (if descending { -item.v } else { item.v }, item.id));
    found
}

/// The documents of one application.
#[derive(Clone, Debug)]
pub struct Model {
    /// As they may be; one of these is true.
    pub ways: Vec<Items>,
}

impl Default for Model {
    fn default() -> Self {
        Self { ways: vec![Items::new()] }
    }
}

impl Model {
    /// A write was answered.
    ///
    /// # Errors
    /// What must have been answered instead.
    pub fn answered(&mut self, writing: &Writing, came: &Came) -> Result<(), String> {
        let before = self.ways.iter().map(|items| writing.apply(items));
        let (fitting, others): (Vec<_>, Vec<_>) = before.partition(|(_, expected)| expected == came);
        if fitting.is_empty() {
            let expected: Vec<Came> = others.into_iter().map(|(_, expected)| expected).collect();
            return Err(format!("{writing:?} came to {came:?}, not to {expected:?} (of {:?})", self.ways));
        }
        self.ways = fitting.into_iter().map(|(items, _)| items).collect();
        // Ways that were different may have become one.
        let mut distinct: Vec<Items> = Vec::with_capacity(self.ways.len());
        for way in std::mem::take(&mut self.ways) {
            if !distinct.contains(&way) {
                distinct.push(way);
            }
        }
        self.ways = distinct;
        Ok(())
    }

    /// A write may have been applied, or not; an insert of several, which is cut where it is too large, up to any of
    /// them.
    pub fn doubted(&mut self, writing: &Writing) {
        let parts: Vec<Writing> = match writing {
            Writing::Insert(items) => (1..=items.len())
                .map(|count| Writing::Insert(items.iter().take(count).cloned().collect()))
                .collect(),
            Writing::Update(..)
            | Writing::UpdateOne(..)
            | Writing::Delete(_)
            | Writing::FindAndModify(..) => {
                vec![writing.clone()]
            }
        };
        let before = self.ways.clone();
        for part in parts {
            for items in &before {
                let way = part.apply(items).0;
                if !self.ways.contains(&way) {
                    self.ways.push(way);
                }
            }
        }
    }

    /// Something was read.
    ///
    /// # Errors
    /// What must have been read instead.
    pub fn read<T: PartialEq + std::fmt::Debug>(
        &mut self,
        what: &str,
        found: &T,
        of: impl Fn(&Items) -> T,
    ) -> Result<(), String> {
        if self.ways.iter().any(|items| of(items) == *found) {
            self.ways.retain(|items| of(items) == *found);
            return Ok(());
        }
        let expected: Vec<T> = self.ways.iter().map(of).collect();
        Err(format!("{what} gave {found:?}, not {expected:?}"))
    }
}
