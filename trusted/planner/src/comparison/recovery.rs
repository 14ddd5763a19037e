//! What the lab's attacks recovered, as it was measured.

use crate::adversary::Adversary;
use bson::{Document, doc};
use std::sync::LazyLock;

/// Written by the lab; the file says how.
const MEASURED: &str = include_str!("../../measured/recovery.csv");

/// What one attack recovered of one set of data from one protocol. Shares of the records, 0 to 1.
#[derive(Clone, Debug, PartialEq)]
pub struct Recovery {
    /// The data set.
    pub data: String,
    /// The kind of index that was attacked, as [`crate::kinds`] names it.
    pub protocol: String,
    /// What was carried out, as `arras lab attack` names it.
    pub attack: String,
    /// Who carries it out.
    pub adversary: Adversary,
    /// In what it is left free (`rotation`, `reflection`), if it is; it is scored by the best of these.
    pub up_to: Option<String>,
    /// Values that it found.
    pub exact: f64,
    /// Values that it found to within 1 % of the span, where the span is so wide that this means something.
    pub close: Option<f64>,
    /// What the best constant guess finds.
    pub guess_exact: f64,
    /// What the best constant guess finds to within 1 %.
    pub guess_close: Option<f64>,
}

static ALL: LazyLock<Vec<Recovery>> = LazyLock::new(|| {
    let lines = MEASURED.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    lines.filter_map(read).collect()
});

fn read(line: &str) -> Option<Recovery> {
    let cells: Vec<&str> = line.split(',').collect();
    let [data, protocol, attack, adversary, up_to, exact, close, guess_exact, guess_close] = cells.as_slice()
    else {
        return None;
    };
    Some(Recovery {
        data: (*data).to_owned(),
        protocol: (*protocol).to_owned(),
        attack: (*attack).to_owned(),
        adversary: [Adversary::Snapshot, Adversary::Persistent]
            .into_iter()
            .find(|known| known.name() == *adversary)?,
        up_to: (!up_to.is_empty()).then(|| (*up_to).to_owned()),
        exact: exact.parse().ok()?,
        close: close.parse().ok(),
        guess_exact: guess_exact.parse().ok()?,
        guess_close: guess_close.parse().ok(),
    })
}

/// Everything that was measured of a protocol by attacks that an adversary can carry out: who watches has the store, too.
pub(super) fn of(protocol: &str, adversary: Adversary) -> impl Iterator<Item = &'static Recovery> {
    let can =
        move |attacker: Adversary| adversary == Adversary::Persistent || attacker == Adversary::Snapshot;
    ALL.iter().filter(move |recovery| recovery.protocol == protocol && can(recovery.adversary))
}

/// The data sets, each once, in the order of the file.
pub(super) fn data_sets() -> Vec<&'static str> {
    let mut sets: Vec<&str> = Vec::new();
    for recovery in ALL.iter() {
        if !sets.contains(&recovery.data.as_str()) {
            sets.push(&recovery.data);
        }
    }
    sets
}

impl Recovery {
    pub(super) fn to_document(&self) -> Document {
        doc! {
            "data": &self.data,
            "attack": &self.attack,
            "attacker": self.adversary.name(),
            "upTo": self.up_to.as_deref(),
            "exact": self.exact,
            "within1Percent": self.close,
            "guessExact": self.guess_exact,
            "guessWithin1Percent": self.guess_close,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::kind_of;
    use arras_protocol::leakage::Leakage;

    #[test]
    fn every_line_of_the_file_is_read_and_is_of_a_kind_that_names_the_attack() {
        let lines = MEASURED.lines().filter(|line| !line.starts_with('#')).count();
        assert_eq!(ALL.len(), lines);
        for recovery in ALL.iter() {
            let kind = kind_of(&recovery.protocol).unwrap_or_else(|| panic!("{recovery:?}"));
            let shape = crate::kinds::Shape { key_bytes: 4, tuning: crate::kinds::Tuning::default() };
            let Leakage { attacks, .. } = (kind.leakage)(&shape);
            let named = format!("{}:", recovery.attack);
            assert!(attacks.iter().any(|attack| attack.starts_with(&named)), "{recovery:?}");
            let shares =
                [Some(recovery.exact), recovery.close, Some(recovery.guess_exact), recovery.guess_close];
            assert!(shares.into_iter().flatten().all(|share| (0.0..=1.0).contains(&share)), "{recovery:?}");
        }
        assert!(data_sets().len() >= 4);
    }

    #[test]
    fn every_kind_of_order_that_the_labs_attacks_are_named_for_was_attacked() {
        let shape = crate::kinds::Shape { key_bytes: 4, tuning: crate::kinds::Tuning::default() };
        for order in crate::kinds::of_orders() {
            let Leakage { attacks, .. } = (order.kind().leakage)(&shape);
            let by_name = attacks.iter().filter_map(|attack| attack.split_once(": "));
            let of_the_lab = by_name.filter(|(name, _)| !name.contains(' ')).count();
            let measured = of(order.name(), Adversary::Persistent).count();
            // The head of the file says which one is left out, and why.
            let is_left_out = MEASURED.contains(&format!("# `all` is all but {},", order.name()));
            let is_due = of_the_lab > 0 && !is_left_out;
            assert_eq!(
                is_due,
                measured > 0,
                "{}: {of_the_lab} attacks, {measured} measurements",
                order.name()
            );
        }
    }

    #[test]
    fn who_has_one_copy_carries_no_attack_out_that_watches() {
        let snapshot: Vec<&Recovery> = of("bplus_lewi_wu", Adversary::Snapshot).collect();
        assert!(!snapshot.is_empty());
        assert!(snapshot.iter().all(|recovery| recovery.adversary == Adversary::Snapshot));
        assert!(of("bplus_lewi_wu", Adversary::Persistent).count() > snapshot.len());
        assert_eq!(of("arx_range", Adversary::Snapshot).count(), 0);
    }
}
