#![allow(clippy::unwrap_used)]

use super::*;
use crate::adversary::Adversary;
use crate::schema::{CollectionSchema, FieldSchema, FieldType, QueryPattern};
use arras_protocol::leakage::Pattern;
use std::collections::BTreeSet;

fn need(searches: &[u64]) -> Need {
    Need {
        searches: searches.iter().map(|limit| Found::Limit(*limit)).collect(),
        ..Need::new(vec!["a".to_owned()], KeyWidth::Bits128)
    }
}

/// All candidates as if each could be had.
fn open(searches: &[u64], adversary: Adversary) -> Vec<Candidate> {
    let mut all = candidates(&need(searches), adversary, (Tuning::default(), &Statistics::default()));
    all.iter_mut().for_each(|candidate| candidate.obstacle = None);
    all
}

fn without(all: &[Candidate], names: &[&str]) -> Vec<Candidate> {
    all.iter().filter(|candidate| !names.contains(&candidate.protocol.name())).cloned().collect()
}

fn chosen(candidates: &[Candidate]) -> &'static str {
    choose(candidates).unwrap().protocol.name()
}

#[test]
fn names_are_those_of_the_leakage_and_there_is_one_row_each() {
    let shape = Shape { key_bytes: 8, tuning: Tuning::default() };
    let names: BTreeSet<&str> = ALL.iter().map(|kind| kind.name).collect();
    assert_eq!(names.len(), ALL.len());
    for kind in ALL {
        assert_eq!((kind.leakage)(&shape).protocol, kind.name);
        assert_eq!(kind_of(kind.name).map(|found| found.name), Some(kind.name));
    }
    assert!(kind_of("plain").is_none());
    assert_eq!(OrderProtocol::named("arx_eq").unwrap_err(), UnknownProtocol { name: "arx_eq".to_owned() });
    let unknown = OrderProtocol::named("by_hand").unwrap_err().to_string();
    assert!(unknown.contains("\"by_hand\"") && unknown.contains("\"arx_range\""), "{unknown}");
    assert!(!unknown.contains("path_oram"), "what cannot be had is not proposed: {unknown}");
}

#[test]
fn auto_is_arx_range_for_ranges_and_orders_against_either_adversary() {
    for adversary in [Adversary::Snapshot, Adversary::Persistent] {
        for searches in [&[][..], &[100], &[10_000], &[100, 10_000, 1]] {
            let all = candidates(&need(searches), adversary, (Tuning::default(), &Statistics::default()));
            assert_eq!(chosen(&all), "arx_range", "{adversary:?} {searches:?}");
        }
    }
}

#[test]
fn the_choice_goes_by_everything_the_adversary_learns_and_not_by_searches_alone() {
    let persistent = open(&[10_000], Adversary::Persistent);
    assert_eq!(chosen(&persistent), "path_oram");
    // BCLO's searches show no equality that its store does not, FH-OPE's do; but BCLO's store shows half of the bits.
    let of = |name: &str| persistent.iter().find(|candidate| candidate.protocol.name() == name).unwrap();
    let (bclo, cloz) = (of("bplus_bclo"), of("bplus_cloz"));
    assert!(cloz.leakage.search.contains(&Pattern::Frequency));
    assert!(!bclo.leakage.search.contains(&Pattern::Frequency));
    assert_eq!(chosen(&[bclo.clone(), cloz.clone()]), "bplus_cloz");
    // What only watching shows does not count against one who has one copy of the store.
    let snapshot = open(&[10_000], Adversary::Snapshot);
    let trees = ["arx_range", "pope", "logarithmic_brc", "path_oram", "kerschbaum_tueno"];
    let lewi_wu = snapshot.iter().find(|candidate| candidate.protocol.name() == "bplus_lewi_wu").unwrap();
    assert!(!lewi_wu.learned.contains(&Pattern::DifferingBlock));
    assert_eq!(chosen(&without(&snapshot, &trees)), "bplus_fh_ope", "all show the order; it is the cheapest");
}

#[test]
fn what_costs_much_more_is_not_comparable() {
    let two = |searches: &[u64]| {
        let mut two = open(searches, Adversary::Snapshot);
        two.retain(|candidate| ["kerschbaum_tueno", "bplus_fh_ope"].contains(&candidate.protocol.name()));
        two
    };
    assert_eq!(chosen(&two(&[1])), "bplus_fh_ope", "one round for a document beside one for each probe");
    assert_eq!(chosen(&two(&[10_000])), "kerschbaum_tueno", "probes do not count beside so many documents");
}

#[test]
fn obstacles_say_why() {
    let why = |name: &str, need: &Need| {
        let protocol = OrderProtocol::named(name).unwrap();
        // As if the engine kept it.
        let kind = IndexKind { availability: Availability::Available, ..copy(protocol.kind()) };
        obstacle(&kind, need).unwrap_or_default()
    };
    assert_eq!(why("pope", &need(&[])), "");
    let two = Need::new(vec!["a".to_owned(), "b".to_owned()], KeyWidth::Bits64);
    assert!(why("bplus_clww", &two).contains("room for one field"));
    assert_eq!(why("arx_range", &two), "");
    assert!(why("pope", &Need { aggregates: Some(Vec::new()), ..need(&[]) }).contains("counts and sums"));
    assert!(why("pope", &Need { width: Some(KeyWidth::Bits128), ..need(&[]) }).contains("32 or 64"));
    let refused = |name| obstacle(OrderProtocol::named(name).unwrap().kind(), &need(&[])).unwrap();
    assert!(refused("path_oram").contains("transaction of a document"));
    assert!(refused("kerschbaum_tueno").contains("rewrites its array"));
    assert!(refused("logarithmic_brc").contains("loaded in bulk"));
}

fn copy(kind: &IndexKind) -> IndexKind {
    IndexKind { ..*kind }
}

#[test]
fn a_declared_order_has_its_index_with_keys_of_the_declared_type() {
    let mut schema = CollectionSchema::default();
    let order = OrderChoice::Protocol(OrderProtocol::named("pope").unwrap());
    let kinds = [
        ("i", Some(FieldType::Int32), 4, "POPE(i)"),
        ("l", Some(FieldType::Int64), 8, "POPE(l)"),
        ("t", Some(FieldType::Date), 8, "POPE(t)"),
        ("x", None, 8, "POPE(x)"),
    ];
    for (path, kind, _, _) in kinds {
        schema.fields.insert(path.to_owned(), FieldSchema { kind, order, ..FieldSchema::default() });
        let range = vec![path.to_owned()];
        schema.patterns.push(QueryPattern { range, ..QueryPattern::default() });
    }
    let built = crate::indexes::physical_indexes(&schema);
    for (path, kind, bytes, name) in kinds {
        let index = built.iter().find(|index| index.fields() == [path]).unwrap();
        assert_eq!(index.to_string(), name);
        let layout = index.layout().unwrap();
        assert_eq!((layout.part_bytes, layout.typed), (bytes, kind), "{path}");
    }
}
