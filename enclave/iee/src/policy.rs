//! Who may do what.

use arras_keys::Key;
use arras_protocol::codec::encoded_bytes;
use arras_schemes::bisen::message::{Group, Groups, Refused, Request, Rights};
use arras_schemes::bisen::query::{Attribute, Filter, Ranking, Search};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Most bytes of it in memory, about; sealed it has fewer, and is in one piece of a checkpoint.
pub(crate) const POLICY_BYTES_MAX: usize = 1 << 20;

/// Bytes that a serial number takes beside its own; a right takes three times as many.
const PLACE_BYTES: usize = 64;

/// Who may do everything, and the hash of its authority; zeros where channels are none of ours.
pub(crate) type Owner = (String, [u8; 32]);

/// Rights by identity and collection. Who is not named has none.
#[derive(Clone, Default, Serialize, Deserialize)]
pub(crate) struct Policy {
    /// Said at the first launch, and the same for ever.
    pub(crate) owner: Owner,
    /// Serial numbers of certificates that are no longer taken.
    pub(crate) revoked: BTreeSet<Vec<u8>>,
    /// By the two names.
    grants: BTreeMap<(String, String), Rights>,
}

/// What the administrator may do.
fn all_rights() -> Rights {
    Rights { search: true, update: true, rank: true, fields: u8::MAX, groups: Groups::All }
}

impl Policy {
    /// Refuses a change for which there is no room.
    pub(crate) fn has_room(&self, change: &Request) -> Result<(), Refused> {
        let mut changed = self.clone();
        changed.apply(change);
        let each = changed.grants.values().map(|rights| 3 * PLACE_BYTES + groups_bytes(&rights.groups));
        let rights = encoded_bytes(&changed.grants) + each.sum::<usize>();
        let bytes = rights + encoded_bytes(&changed.revoked) + changed.revoked.len() * PLACE_BYTES;
        // However many rights there are, a certificate can be revoked.
        let fits = rights <= POLICY_BYTES_MAX / 4 * 3 && bytes <= POLICY_BYTES_MAX;
        if fits { Ok(()) } else { Err(Refused::Bound) }
    }

    /// The root of the collections' keys: with another administrator or authority, whom a host may name where it denies the state
    /// that names these, nothing of them can be had again.
    pub(crate) fn root(&self, root: &Key) -> Key {
        root.derive(&[b"bisen", b"owner", &self.owner.1, self.owner.0.as_bytes()])
    }

    /// Carries out what the administrator asked.
    pub(crate) fn apply(&mut self, request: &Request) {
        match request {
            Request::Grant { identity, collection, rights } => {
                self.grants.insert((identity.clone(), collection.clone()), rights.clone());
                self.grants.retain(|_, rights| rights.search || rights.update);
            }
            Request::Revoke(identity) => self.grants.retain(|(to, _), _| to != identity),
            Request::RevokeCertificate(serial) => _ = self.revoked.insert(serial.0.clone()),
            Request::Create { .. } | Request::Open(_) | Request::Update(_) => {}
            Request::Search(_) | Request::Compact { .. } => {}
        }
    }

    /// The rights of somebody; refused like a collection that is not there.
    pub(crate) fn rights(&self, identity: &str, collection: &str) -> Result<Rights, Refused> {
        if identity == self.owner.0 {
            return Ok(all_rights());
        }
        let rights = self.grants.get(&(identity.to_owned(), collection.to_owned()));
        rights.cloned().ok_or(Refused::NotAllowed)
    }
}

/// Bytes that a list of groups takes, about.
pub(crate) fn groups_bytes(groups: &Groups) -> usize {
    if let Groups::Only(groups) = groups { 16 * groups.len() } else { 0 }
}

/// Whether rights cover a search.
pub(crate) fn may_search(rights: &Rights, search: &Search) -> bool {
    let ranked = search.ranking != Ranking::None;
    let allowed = |filter: &Filter| match filter.of {
        Attribute::Frequency(_) | Attribute::Length => rights.rank,
        Attribute::Field(field) => rights.fields.checked_shr(field.into()).is_some_and(|bits| bits & 1 == 1),
        Attribute::Visibility => true,
    };
    rights.search && (rights.rank || !ranked) && search.filters.iter().all(allowed)
}

/// Whether documents of a group may be seen.
pub(crate) fn sees(groups: &Groups, group: u32) -> bool {
    match groups {
        Groups::All => true,
        Groups::Only(groups) => group == 0 || groups.contains(&Group(group)),
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::state::State;

    /// Of other roots no entry that is stored would be found.
    #[test]
    fn roots_are_those_of_a_second_implementation() {
        let text =
            std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../kat/sealing_keys.txt"));
        let text = text.unwrap();
        let values = |name: &str| -> Vec<Vec<u8>> {
            let values = text.lines().filter_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
            let byte = |pair: &[u8]| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap();
            values.map(|digits| digits.as_bytes().chunks(2).map(byte).collect()).collect()
        };
        let [sealing, authorities, administrators, owners] =
            ["sealing", "authority", "administrator", "owner"].map(values);
        assert_eq!(owners.len(), 2);
        for (place, owner) in owners.iter().enumerate() {
            let administrator = String::from_utf8(administrators[place].clone()).unwrap();
            let owned = (administrator, authorities[place].clone().try_into().unwrap());
            let policy = Policy { owner: owned, ..Policy::default() };
            let sealing = Key::take_from(&mut sealing[place].clone().try_into().unwrap());
            assert_eq!(policy.root(&sealing).expose()[..], owner[..]);
        }
    }

    #[test]
    fn what_is_said_takes_no_more_memory_than_its_bound() {
        let short = |number: u32| Request::RevokeCertificate(number.to_be_bytes()[1..].to_vec().into());
        let has_room = |policy: &Policy| policy.has_room(&short(1 << 20)).is_ok();
        let mut policy = Policy::default();
        (0..20_000).for_each(|number| policy.apply(&short(number)));
        assert!(!has_room(&policy), "each of them is in a place of a set, and in one of its own");
        let named = |number: u32| (number.to_string(), "c".to_owned());
        let grants = |count, groups: Groups| {
            let rights = |number| (named(number), Rights { groups: groups.clone(), ..all_rights() });
            Policy { grants: (0..count).map(rights).collect(), ..Policy::default() }
        };
        assert!(!has_room(&grants(10_000, Groups::All)), "names take more than their bytes");
        assert!(!has_room(&grants(400, Groups::only(0..256))), "groups take more than theirs");
        assert!(has_room(&grants(3072, Groups::All)));
        assert!(State::default().bytes() >= POLICY_BYTES_MAX, "room for it is counted with the state");
    }
}
