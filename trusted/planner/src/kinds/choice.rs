//! Which kind of index a range or an order is served by: what serves it, what that costs and tells, and what is taken.

use super::{Availability, IndexKind, OrderProtocol, Search, Serves, Shape, Tuning, of_orders};
use crate::adversary::{self, Adversary};
use crate::cost::{self, Cost, Statistics};
use crate::physical::{KeyWidth, PhysicalIndex};
use crate::schema::FieldType;
use arras_protocol::leakage::{Leakage, Pattern};
use std::collections::BTreeSet;

/// How many times the cost of the cheapest one that leaks less may have.
const COST_RATIO: u64 = 4;

/// What a schema or a request says of the protocol that gives a field's order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OrderChoice {
    /// What leaks least.
    #[default]
    Auto,
    /// This one.
    Protocol(OrderProtocol),
}

impl OrderChoice {
    /// As a schema writes it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Protocol(protocol) => protocol.name(),
        }
    }
}

/// How many documents a query of an index reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// So many, if there are.
    Limit(u64),
    /// Those of a value of each of these fields, and of these a range's share.
    Range(Vec<String>),
}

impl Found {
    /// About how many of a collection's.
    #[must_use]
    pub fn documents(&self, statistics: &Statistics) -> u64 {
        match self {
            Self::Limit(limit) => statistics.document_count.min(*limit),
            Self::Range(equal) => {
                let shares = equal.iter().map(|field| statistics.equal_share(field));
                let share = shares.product::<f64>() * cost::interval_share(true);
                (statistics.document_count as f64 * share) as u64
            }
        }
    }
}

/// What an index of an order is to serve.
#[derive(Clone, Debug, PartialEq)]
pub struct Need {
    /// Its fields; the last is the one that is ordered.
    pub fields: Vec<String>,
    /// The type that is declared of the last.
    pub kind: Option<FieldType>,
    /// The width that is asked for.
    pub width: Option<KeyWidth>,
    /// The width that the fields' parts have where types count.
    pub tagged: KeyWidth,
    /// The partial aggregates it is to carry.
    pub aggregates: Option<Vec<String>>,
    /// How many documents each query reads.
    pub searches: Vec<Found>,
}

impl Need {
    /// One for these fields, with nothing known of queries.
    #[must_use]
    pub fn new(fields: Vec<String>, tagged: KeyWidth) -> Self {
        Self { fields, kind: None, width: None, tagged, aggregates: None, searches: Vec::new() }
    }

    /// The index by a protocol; `None` if it has no field, or the protocol cannot have it ([`obstacle`]).
    #[must_use]
    pub fn index(&self, protocol: OrderProtocol) -> Option<PhysicalIndex> {
        let keys = protocol.keys();
        if !keys.typed {
            return PhysicalIndex::range(&self.fields, self.tagged, self.aggregates.clone());
        }
        let (range, equal) = self.fields.split_last()?;
        let own = match self.kind {
            Some(FieldType::Bool | FieldType::Int32) => KeyWidth::Bits32,
            _ => KeyWidth::Bits64,
        };
        let width = self.width.unwrap_or(own);
        (equal.len() < keys.fields_max && keys.widths.contains(&width)).then(|| PhysicalIndex::Range {
            protocol,
            equal: equal.to_vec(),
            range: range.clone(),
            width,
            typed: self.kind,
            aggregates: None,
        })
    }
}

/// Why a kind of index cannot be what is needed; `None` if it can.
#[must_use]
pub fn obstacle(kind: &IndexKind, need: &Need) -> Option<String> {
    if let Availability::Refused(reason) = kind.availability {
        return Some(reason.to_owned());
    }
    let Serves::Order(keys) = kind.serves else {
        return Some("it gives no order".to_owned());
    };
    if need.fields.len() > keys.fields_max {
        return Some(format!(
            "its keys have room for one field, and here is an index on {}",
            need.fields.join(", ")
        ));
    }
    if need.aggregates.is_some() && !keys.aggregates {
        return Some("it keeps no counts and sums".to_owned());
    }
    let bits = |width: &KeyWidth| width.bits().to_string();
    match need.width {
        Some(width) if !keys.widths.contains(&width) => Some(format!(
            "its keys have {} bits, and {} are asked for",
            keys.widths.iter().map(bits).collect::<Vec<_>>().join(" or "),
            width.bits()
        )),
        _ => None,
    }
}

/// A kind of index beside the others for one need.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// What a field's `order` would name.
    pub protocol: OrderProtocol,
    /// Why it cannot be taken, if it cannot.
    pub obstacle: Option<String>,
    /// What it leaks.
    pub leakage: Leakage,
    /// What the adversary learns in time.
    pub learned: BTreeSet<Pattern>,
    /// What each query costs, in the order of [`Need::searches`], its documents included.
    pub searches: Vec<Cost>,
    /// What an insertion costs.
    pub insertion: Cost,
}

impl Candidate {
    fn weight(&self) -> u64 {
        let of_searches = self.searches.iter().map(Cost::weight);
        of_searches.fold(self.insertion.weight(), u64::saturating_add)
    }
}

/// All kinds that give an order, and what speaks for each, where settings and statistics are these.
#[must_use]
pub fn candidates(
    need: &Need,
    adversary: Adversary,
    (tuning, statistics): (Tuning, &Statistics),
) -> Vec<Candidate> {
    let candidate = |protocol: OrderProtocol| {
        let kind = protocol.kind();
        let key_bytes = need.index(protocol).and_then(|index| index.key_bytes());
        // One that cannot be taken is shown with the longest of its keys.
        let key_bytes = key_bytes.unwrap_or(protocol.keys().bytes_max);
        let shape = Shape { key_bytes, tuning };
        let leakage = (kind.leakage)(&shape);
        let search = |found: &Found| {
            let found = found.documents(statistics);
            let search = (kind.cost)(&shape, statistics, Search { values: 1, found });
            cost::then(search, cost::fetch(found, statistics))
        };
        Candidate {
            protocol,
            obstacle: obstacle(kind, need),
            learned: adversary.learns(&leakage),
            leakage,
            searches: need.searches.iter().map(search).collect(),
            insertion: (kind.insertion)(&shape, statistics),
        }
    };
    of_orders().map(candidate).collect()
}

/// The one that `auto` takes: of those without an obstacle and of comparable cost the one that tells the adversary
/// least; of those that tell the same the cheapest, and the first of the table.
///
/// It goes by what the schema declares, and not by what data there are: an index does not change its protocol because
/// it grows.
#[must_use]
pub fn choose(candidates: &[Candidate]) -> Option<&Candidate> {
    let open = || candidates.iter().filter(|candidate| candidate.obstacle.is_none());
    let least = open().map(Candidate::weight).min()?;
    let comparable = open().filter(|candidate| candidate.weight() <= least.saturating_mul(COST_RATIO));
    comparable.min_by(|left, right| {
        adversary::compare(&left.learned, &right.learned).then_with(|| left.weight().cmp(&right.weight()))
    })
}
