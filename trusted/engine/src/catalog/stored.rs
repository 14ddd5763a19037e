//! The catalog's records as bytes: the planner's types know no format, and a protocol is stored by its name.

use super::{COLLECTIONS, CollectionRecord, IndexPartRecord, IndexRecord};
use crate::local::LocalError;
use arras_planner::kinds::OrderProtocol;
use arras_planner::physical::{KeyWidth, PhysicalIndex};
use arras_planner::schema::FieldType;
use arras_protocol::{CollectionId, IndexId};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
pub(super) struct Collection {
    database: String,
    collection: String,
    id: CollectionId,
    key_version: u32,
    indexes: Vec<Index>,
}

#[derive(Serialize, Deserialize)]
struct Index {
    #[serde(with = "serde_bytes")]
    request: Vec<u8>,
    parts: Vec<StoredPart>,
    ready: bool,
}

#[derive(Serialize, Deserialize)]
struct StoredPart {
    id: IndexId,
    physical: Physical,
    sparse: bool,
    bucket_factor: u64,
}

#[derive(Serialize, Deserialize)]
enum Physical {
    Unique { fields: Vec<String> },
    Eq { fields: Vec<String> },
    Range(Range),
}

#[derive(Serialize, Deserialize)]
struct Range {
    protocol: String,
    equal: Vec<String>,
    range: String,
    width_bits: u32,
    typed: Option<String>,
    aggregates: Option<Vec<String>>,
}

impl Collection {
    pub(super) fn of(record: &CollectionRecord) -> Self {
        Self {
            database: record.database.clone(),
            collection: record.collection.clone(),
            id: record.id,
            key_version: record.key_version,
            indexes: record.indexes.iter().map(Index::of).collect(),
        }
    }

    pub(super) fn read(self) -> Result<CollectionRecord, LocalError> {
        let Self { database, collection, id, key_version, indexes } = self;
        let namespace = format!("{database}.{collection}");
        let indexes = indexes.into_iter().map(|index| index.read(&namespace)).collect::<Result<_, _>>()?;
        Ok(CollectionRecord { database, collection, id, key_version, indexes })
    }
}

impl Index {
    fn of(record: &IndexRecord) -> Self {
        let parts = record.parts.iter().map(StoredPart::of).collect();
        Self { request: record.request.clone(), parts, ready: record.ready }
    }

    fn read(self, collection: &str) -> Result<IndexRecord, LocalError> {
        let parts = self.parts.into_iter().map(|part| part.read(collection)).collect::<Result<_, _>>()?;
        Ok(IndexRecord { request: self.request, parts, ready: self.ready })
    }
}

impl StoredPart {
    fn of(record: &IndexPartRecord) -> Self {
        Self {
            id: record.id,
            physical: Physical::of(&record.physical),
            sparse: record.sparse,
            bucket_factor: record.bucket_factor,
        }
    }

    fn read(self, collection: &str) -> Result<IndexPartRecord, LocalError> {
        let physical = self.physical.read(collection)?;
        Ok(IndexPartRecord { id: self.id, physical, sparse: self.sparse, bucket_factor: self.bucket_factor })
    }
}

impl Physical {
    fn of(index: &PhysicalIndex) -> Self {
        match index.clone() {
            PhysicalIndex::Unique { fields } => Self::Unique { fields },
            PhysicalIndex::Eq { fields } => Self::Eq { fields },
            PhysicalIndex::Range { protocol, equal, range, width, typed, aggregates } => Self::Range(Range {
                protocol: protocol.name().to_owned(),
                equal,
                range,
                width_bits: width.bits(),
                typed: typed.map(|kind| kind.name().to_owned()),
                aggregates,
            }),
        }
    }

    fn read(self, collection: &str) -> Result<PhysicalIndex, LocalError> {
        match self {
            Self::Unique { fields } => Ok(PhysicalIndex::Unique { fields }),
            Self::Eq { fields } => Ok(PhysicalIndex::Eq { fields }),
            Self::Range(range) => range.read(collection),
        }
    }
}

impl Range {
    fn read(self, collection: &str) -> Result<PhysicalIndex, LocalError> {
        let damaged = || LocalError::Damaged(COLLECTIONS.0);
        let protocol = OrderProtocol::named(&self.protocol).map_err(|error| LocalError::Protocol {
            collection: collection.to_owned(),
            field: self.range.clone(),
            error,
        })?;
        let kind = |name: &String| FieldType::named(name).ok_or_else(damaged);
        Ok(PhysicalIndex::Range {
            protocol,
            width: KeyWidth::from_bits(self.width_bits).ok_or_else(damaged)?,
            typed: self.typed.as_ref().map(kind).transpose()?,
            equal: self.equal,
            range: self.range,
            aggregates: self.aggregates,
        })
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use arras_planner::kinds::Availability;

    fn collection(protocol: &str, typed: Option<&str>) -> Collection {
        let range = Range {
            protocol: protocol.to_owned(),
            equal: Vec::new(),
            range: "age".to_owned(),
            width_bits: 64,
            typed: typed.map(str::to_owned),
            aggregates: None,
        };
        let physical = Physical::Range(range);
        let part = StoredPart { id: IndexId([1; 8]), physical, sparse: false, bucket_factor: 32 };
        let index = Index { request: Vec::new(), parts: vec![part], ready: true };
        Collection {
            database: "clinic".to_owned(),
            collection: "patients".to_owned(),
            id: CollectionId([2; 8]),
            key_version: 1,
            indexes: vec![index],
        }
    }

    #[test]
    fn every_protocol_and_type_is_read_as_it_was_recorded() {
        let types = [None, Some("int32"), Some("int64"), Some("date"), Some("object_id")];
        for protocol in arras_planner::kinds::of_orders() {
            for typed in types {
                let read = collection(protocol.name(), typed).read().unwrap();
                let again = Collection::of(&read).read().unwrap();
                assert_eq!(read.indexes[0].parts[0].physical, again.indexes[0].parts[0].physical);
                assert!(read.indexes[0].parts[0].physical.to_string().contains("(age)"));
            }
        }
        assert!(matches!(collection("arx_range", Some("int16")).read(), Err(LocalError::Damaged(_))));
    }

    /// Of some protocols no build makes an index of a field, and of some a smaller one does not: what is refused is the same.
    #[test]
    fn a_protocol_that_this_build_was_made_without_is_named_with_its_index() {
        let mut refusals = 0;
        for protocol in arras_planner::kinds::of_orders() {
            let built = collection(protocol.name(), None).read().unwrap().built();
            let Availability::Refused(reason) = protocol.kind().availability else {
                assert!(built.is_ok(), "{}", protocol.name());
                continue;
            };
            let error = built.unwrap_err().to_string();
            for word in ["clinic.patients", "'age'", protocol.name(), reason] {
                assert!(error.contains(word), "{word} is not in: {error}");
            }
            refusals += 1;
        }
        assert!(refusals > 0, "some protocols give no field its order");
    }

    #[test]
    fn a_protocol_this_build_does_not_know_is_named() {
        let error = collection("by_hand", None).read().unwrap_err().to_string();
        for word in ["clinic.patients", "age", "\"by_hand\"", "\"arx_range\""] {
            assert!(error.contains(word), "{word} is not in: {error}");
        }
    }
}
