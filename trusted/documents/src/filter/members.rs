//! The values of `$in`.

use crate::order::{self, Class};
use bson::Bson;
use std::collections::HashMap;
use std::collections::hash_map::RandomState;
use std::fmt;
use std::hash::BuildHasher;
use std::ops::Deref;
use std::sync::Arc;

/// Fewer values are searched through in their order: a comparison costs less than a hash.
const HASHED_FROM: usize = 16;

/// Values of which one is to be met: sorted, without duplicates or regular expressions. Copies share them.
#[derive(Clone)]
pub struct Members(Arc<Inner>);

struct Inner {
    sorted: Vec<Bson>,
    /// One of them is null or undefined, which a missing field equals.
    nullish: bool,
    /// Places of values by the hash of what equal values have in common, under a key of its own. Of values with one
    /// hash the place of one of them.
    places: HashMap<u64, u32>,
    hasher: RandomState,
}

impl Members {
    /// Sorts values and drops repeated ones.
    #[must_use]
    pub fn new(mut values: Vec<Bson>) -> Self {
        values.sort_by(order::compare);
        values.dedup_by(|left, right| order::equal(left, right));
        let nullish = values.iter().take_while(|value| order::class(value) < Class::Number).any(is_nullish);
        let hasher = RandomState::new();
        let mut places = HashMap::new();
        if values.len() >= HASHED_FROM {
            let numbered = values.iter().zip(0_u32..);
            places.extend(numbered.map(|(value, place)| (hasher.hash_one(order::canonical(value)), place)));
        }
        Self(Arc::new(Inner { sorted: values, nullish, places, hasher }))
    }

    /// Whether a value, or that of a missing field, equals one of them.
    #[must_use]
    pub fn contain(&self, candidate: Option<&Bson>) -> bool {
        let inner = &*self.0;
        let Some(candidate) = candidate.filter(|candidate| !is_nullish(candidate)) else {
            return inner.nullish;
        };
        if !inner.places.is_empty() {
            let hash = inner.hasher.hash_one(order::canonical(candidate));
            let Some(place) = inner.places.get(&hash) else {
                return false;
            };
            let same = usize::try_from(*place).ok().and_then(|place| inner.sorted.get(place));
            if same.is_some_and(|value| order::equal(value, candidate)) {
                return true;
            }
            // Two values of one hash: one in 2^64.
        }
        inner.sorted.binary_search_by(|value| order::compare(value, candidate)).is_ok()
    }
}

fn is_nullish(value: &Bson) -> bool {
    matches!(value, Bson::Null | Bson::Undefined)
}

impl Deref for Members {
    type Target = [Bson];

    fn deref(&self) -> &[Bson] {
        &self.0.sorted
    }
}

impl fmt::Debug for Members {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bson::bson;

    fn many(values: Vec<Bson>) -> Members {
        let members = Members::new((1000..1100).map(Bson::Int32).chain(values).collect());
        assert!(!members.0.places.is_empty());
        members
    }

    #[test]
    fn a_look_up_by_hash_finds_what_comparing_finds() {
        let decimal = |text: &str| Bson::Decimal128(text.parse().expect("a decimal"));
        let values = vec![
            bson!(1),
            bson!(2.5),
            bson!("text"),
            bson!({ "a": 1, "b": [2] }),
            bson!([1, 2]),
            bson!(true),
            decimal("7.0"),
            Bson::Double(f64::NAN),
            Bson::Double(-0.0),
            Bson::Symbol("symbol".into()),
        ];
        let equal = [
            bson!(1.0),
            bson!(1_i64),
            decimal("1.000"),
            decimal("2.5"),
            bson!(7),
            bson!(0),
            Bson::Symbol("text".into()),
            bson!("symbol"),
            Bson::Double(f64::NAN),
            bson!({ "a": 1.0, "b": [2_i64] }),
            bson!([1.0, 2]),
            bson!(1050.0),
        ];
        let other = [
            bson!(1.5),
            bson!(false),
            bson!("Text"),
            bson!([2, 1]),
            bson!({ "b": [2], "a": 1 }),
            bson!(2000),
            Bson::MinKey,
        ];
        let (few, many) = (Members::new(values.clone()), many(values));
        assert!(few.0.places.is_empty());
        for value in &equal[..11] {
            assert!(few.contain(Some(value)) && many.contain(Some(value)), "{value}");
        }
        assert!(many.contain(equal.last()));
        for value in &other {
            assert!(!few.contain(Some(value)) && !many.contain(Some(value)), "{value}");
        }
        for missing in [None, Some(&Bson::Null), Some(&Bson::Undefined)] {
            assert!(!few.contain(missing) && !many.contain(missing));
        }
    }

    #[test]
    fn null_is_met_by_what_is_missing() {
        for null in [Bson::Null, Bson::Undefined] {
            for members in [Members::new(vec![bson!(1), null.clone()]), many(vec![Bson::MinKey, null])] {
                for missing in [None, Some(&Bson::Null), Some(&Bson::Undefined)] {
                    assert!(members.contain(missing));
                }
                assert!(!members.contain(Some(&bson!("x"))));
            }
        }
    }

    #[test]
    fn members_of_one_hash_are_told_apart() {
        let mut members = many(vec![bson!("a"), bson!("b")]);
        let inner = Arc::get_mut(&mut members.0).expect("the only copy");
        let at = |value: &Bson, inner: &Inner| inner.hasher.hash_one(order::canonical(value));
        let (of_b, of_x) = (at(&bson!("b"), inner), at(&bson!("x"), inner));
        let first = *inner.places.get(&of_b).expect("its place") - 1;
        inner.places.extend([(of_b, first), (of_x, first)]);
        assert!(members.contain(Some(&bson!("b"))), "its place is another's");
        assert!(!members.contain(Some(&bson!("x"))), "it has the hash of another");
    }
}
