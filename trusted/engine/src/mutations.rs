//! Defects that the simulator switches on, one at a time: each is one that a change of this code could bring in, and each
//! must be found by it. In what ships there is no way to switch one on, and asking for one is a constant.

/// A defect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutation {
    /// A write's intent is struck before the write is sent.
    IntentStruckEarly,
    /// A start does not record its epoch.
    EpochNotRecorded,
    /// Counters of equality indexes that a refused write took are taken again.
    CounterTwice,
    /// What a change leaves to be repaired is repaired before the change is written.
    RepairBeforeWrite,
    /// A server that lacks acknowledged writes is believed at a start.
    SetbackNotNoticed,
    /// Index entries go in a write before that of their documents.
    IndexOutsideTransaction,
    /// What is in doubt is not completed before the next operation.
    DoubtForgotten,
    /// What was recorded with a write is not taken back when the write is refused.
    RefusalNotTakenBack,
    /// An index of an order is not told of what goes: no tombstone, no removal.
    TombstoneForgotten,
    /// What a text index was not told of yet is not recorded with the write.
    UntoldNotRecorded,
    /// How much the service of text indexes has acknowledged is not known behind a start.
    TextSetbackNotNoticed,
}

impl Mutation {
    /// All of them.
    pub const ALL: [Self; 11] = [
        Self::IntentStruckEarly,
        Self::EpochNotRecorded,
        Self::CounterTwice,
        Self::RepairBeforeWrite,
        Self::SetbackNotNoticed,
        Self::IndexOutsideTransaction,
        Self::DoubtForgotten,
        Self::RefusalNotTakenBack,
        Self::TombstoneForgotten,
        Self::UntoldNotRecorded,
        Self::TextSetbackNotNoticed,
    ];
}

/// Which defect is switched on, if one is.
#[derive(Clone, Copy, Debug, Default)]
pub struct Mutations {
    #[cfg(feature = "lab")]
    switched_on: Option<Mutation>,
}

impl Mutations {
    /// This defect, or none.
    #[cfg(feature = "lab")]
    #[must_use]
    pub fn only(mutation: Option<Mutation>) -> Self {
        Self { switched_on: mutation }
    }

    /// True if the engine is to have this defect.
    #[cfg(feature = "lab")]
    pub(crate) fn has(self, mutation: Mutation) -> bool {
        self.switched_on == Some(mutation)
    }

    /// No.
    #[cfg(not(feature = "lab"))]
    #[allow(clippy::unused_self, reason = "the same call as in the laboratory's build")]
    pub(crate) const fn has(self, _mutation: Mutation) -> bool {
        false
    }
}
