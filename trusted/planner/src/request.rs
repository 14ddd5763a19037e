//! What a `createIndexes` request becomes.
//!
//! Without a schema the queries are not known, so the request's promise is kept whole: a regular index serves
//! equality on any prefix of its fields, a range or order on the field after it. An encrypted index does not
//! serve all of that, hence
//! * `{a: 1}`: ArxEq(a) for equality and ArxRange(a) for ranges and order;
//! * `{a: 1, b: 1}`: ArxEq(a), ArxEq(a, b) (which, matching completely, does not serve `a` alone), and
//!   ArxRange(a, b), which serves ranges and order on `a`, and on `b` after equality on `a`: k + 1 indexes for k
//!   fields;
//! * `unique`: EQunique on the fields together, instead of their ArxEq;
//! * `{a: "hashed"}`: ArxEq(a) alone, as a hashed index serves equality alone;
//! * `{_id: 1}`: ArxRange(_id); equality needs no index, as documents are stored by their `_id`.
//!
//! A schema that declares queries narrows this to what they need, if they can use the index at all: the two stages of
//! [`crate::indexes`] with the request as one more regular index. So does the option `storageEngine: {arras: {…}}`, which drivers let
//! through, with `operations: ["eq", "range", "order"]`, `sums: ["field", …]`, `count: true` (partial aggregates
//! for counts, or sums of fields), `widthBits: 32 | 64 | 128`, and `order: "auto" | "arx_range" | …`: the protocol that
//! serves ranges and the order of the last field, in place of what the schema declares of it.
//!
//! A partial index is built over all documents, which changes no result, unless it is unique. Directions are not
//! kept: an index is walked from either end, and mixed directions are settled within runs of equal first fields.

use crate::indexes::{needs_with, ordered, physical_indexes, physical_with};
use crate::kinds::{Need, OrderChoice, OrderProtocol, obstacle};
use crate::physical::{KeyWidth, PhysicalIndex, minimise};
use crate::schema::{CollectionSchema, Operation};
use crate::text;
use arras_service::store::IndexDefinition;
use arras_service::{Fault, ID_INDEX, ServiceError};
use bson::{Bson, Document};

/// A `createIndexes` request that cannot be honoured.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// A kind of index there is no encrypted form of.
    #[error(
        "cannot make index '{name}': kind {kind} on field '{field}' is not supported over encrypted data; use 1, -1, \"hashed\" or \"text\""
    )]
    Kind {
        /// What the application called the index.
        name: String,
        /// The path of the field, as the key pattern has it.
        field: String,
        /// What was asked for.
        kind: String,
    },
    /// The key pattern is empty or names an impossible path.
    #[error("cannot make index '{name}': its key pattern {what}")]
    Key {
        /// What the application called the index.
        name: String,
        /// What is wrong with it.
        what: &'static str,
    },
    /// The name of the index on `_id`, for another.
    #[error(
        "The index name '_id_' is reserved for the _id index, which must have key pattern {{_id: 1}}, found {0}"
    )]
    Reserved(Document),
    /// Keys the index on `_id` cannot have.
    #[error("The field 'key' for an _id index must be {{_id: 1}}, but got {0}")]
    IdKey(Document),
    /// An option the index on `_id` cannot have.
    #[error("The field '{0}' is not valid for an _id index specification")]
    IdOption(&'static str),
    /// The protocol that is to give its order cannot.
    #[error("cannot make index '{name}': order = \"{order}\" of field '{field}': {why}")]
    Order {
        /// What the application called the index.
        name: String,
        /// The path of the field, as the key pattern has it.
        field: String,
        /// The protocol that was asked for, or the default.
        order: String,
        /// Why not.
        why: String,
    },
    /// An option that would change results, or a malformed one of ours.
    #[error("cannot make index '{name}': option {option} {what}")]
    Option {
        /// What the application called the index.
        name: String,
        /// The option's key in the request.
        option: &'static str,
        /// What is wrong, and what is allowed.
        what: &'static str,
    },
}

impl From<RequestError> for ServiceError {
    fn from(error: RequestError) -> Self {
        let fault = match error {
            RequestError::Option { .. } => Fault::InvalidOptions,
            RequestError::Kind { .. } | RequestError::Key { .. } | RequestError::Order { .. } => {
                Fault::CannotCreateIndex
            }
            RequestError::Reserved(_) | RequestError::IdKey(_) => Fault::BadValue,
            RequestError::IdOption(_) => Fault::InvalidIdIndexOption,
        };
        Self::new(fault, error.to_string())
    }
}

/// What is asked for by an index's own options.
#[derive(Debug, Default)]
struct Wishes {
    operations: Option<Vec<Operation>>,
    aggregates: Option<Vec<String>>,
    width: Option<KeyWidth>,
    order: Option<OrderChoice>,
}

impl Wishes {
    fn serves(&self, operation: Operation) -> bool {
        self.operations.as_ref().is_none_or(|operations| operations.contains(&operation))
    }
}

/// The request with the name and keys that MongoDB gives it: those of the index on `_id`, whatever it is called, and those of a
/// text index.
///
/// # Errors
/// It is not what an index on `_id` can be, or has its name and is another.
pub fn normalised(request: IndexDefinition) -> Result<IndexDefinition, RequestError> {
    if text::asks_for_text(&request) {
        return if request.name == ID_INDEX {
            Err(RequestError::Reserved(request.key))
        } else {
            text::normalised(request)
        };
    }
    let directed = request.key.get("_id").filter(|kind| request.key.len() == 1 && is_direction(kind));
    let Some(direction) = directed else {
        return if request.name == ID_INDEX { Err(RequestError::Reserved(request.key)) } else { Ok(request) };
    };
    if arras_documents::order::as_exact_i64(direction) != Some(1) {
        return Err(RequestError::IdKey(request.key));
    }
    if request.unique || request.sparse {
        return Err(RequestError::IdOption(if request.unique { "unique" } else { "sparse" }));
    }
    Ok(IndexDefinition { name: ID_INDEX.to_owned(), key: bson::doc! { "_id": 1 }, ..request })
}

/// The encrypted indexes a request needs, whether or not they are there already: [`missing`] says which are not.
///
/// Of a schema's own indexes only those are among them that are on the request's fields: `createIndexes` on one
/// field builds nothing for another. If none of the queries the schema declares could use the index, the request is
/// taken at its word, as if there were no schema.
///
/// # Errors
/// The application asked for an index that cannot be built.
pub fn indexes_for(
    request: &IndexDefinition,
    schema: Option<&CollectionSchema>,
) -> Result<Vec<PhysicalIndex>, RequestError> {
    if text::is_text(request) {
        return Ok(Vec::new());
    }
    let fields: Vec<String> = request.key.keys().cloned().collect();
    let hashed = check_key(request)?;
    check_options(request)?;
    let wishes = wishes(request)?;
    let wished = wishes.order.and_then(|order| with_order(schema, fields.last()?, order));
    let schema = wished.as_ref().or(schema);
    check_order(request, &fields, hashed, &wishes, schema)?;
    if fields == ["_id"] {
        let mut indexes = full_promise(&fields, hashed, &wishes, schema);
        indexes.retain(|index| matches!(index, PhysicalIndex::Range { .. }));
        return Ok(indexes);
    }
    let mut indexes = Vec::new();
    if request.unique {
        indexes.push(PhysicalIndex::Unique { fields: fields.clone() });
    }
    let narrowed = match schema {
        Some(schema) if schema.declares_queries() && wishes.operations.is_none() => {
            let narrowed = narrowed(&fields, schema);
            // A constraint alone is a purpose, too.
            (request.unique || !narrowed.is_empty()).then_some(narrowed)
        }
        _ => None,
    };
    indexes.extend(narrowed.unwrap_or_else(|| full_promise(&fields, hashed, &wishes, schema)));
    Ok(minimise(indexes))
}

/// What the queries of a schema make of one more regular index.
fn narrowed(fields: &[String], schema: &CollectionSchema) -> Vec<PhysicalIndex> {
    let own = physical_indexes(schema);
    let mut indexes = physical_with(schema, &[fields.to_vec()]);
    indexes.retain(|index| {
        let on_its_fields = index.fields().iter().all(|field| fields.iter().any(|own| own == field));
        on_its_fields || !own.iter().any(|other| other.implies(index))
    });
    indexes
}

/// Those of `wanted` that nothing which is there stands for. `there` are the indexes there are, and whether each
/// leaves out documents without its fields; `sparse`: the wanted ones do.
#[must_use]
pub fn missing<'i>(
    wanted: Vec<PhysicalIndex>,
    sparse: bool,
    there: impl Iterator<Item = (&'i PhysicalIndex, bool)> + Clone,
) -> Vec<PhysicalIndex> {
    let stands_for = |(index, is_sparse): (&PhysicalIndex, bool), wanted: &PhysicalIndex| {
        // A constraint is no stand-in for what constrains nothing: it would outlive its own index.
        let constrains = |index: &PhysicalIndex| matches!(index, PhysicalIndex::Unique { .. });
        index.implies(wanted)
            && constrains(index) == constrains(wanted)
            && serves_sparse(index, is_sparse, sparse)
    };
    let mut missing = wanted;
    missing.retain(|wanted| !there.clone().any(|index| stands_for(index, wanted)));
    missing
}

/// Whether an index that is sparse or not can stand for one that is to be, or not. A search in one that holds more
/// finds all the same; but a unique index over all documents refuses what a sparse one allows.
fn serves_sparse(index: &PhysicalIndex, is_sparse: bool, wanted: bool) -> bool {
    match index {
        PhysicalIndex::Unique { .. } => is_sparse == wanted,
        PhysicalIndex::Eq { .. } | PhysicalIndex::Range { .. } => wanted || !is_sparse,
    }
}

fn full_promise(
    fields: &[String],
    hashed: bool,
    wishes: &Wishes,
    schema: Option<&CollectionSchema>,
) -> Vec<PhysicalIndex> {
    let mut indexes = Vec::new();
    if wishes.serves(Operation::Eq) {
        let prefixes = (1..=fields.len()).filter_map(|length| fields.get(..length));
        indexes.extend(prefixes.map(|prefix| PhysicalIndex::Eq { fields: prefix.to_vec() }));
    }
    let ranged = wishes.serves(Operation::Range) || wishes.serves(Operation::Order);
    if ranged && !hashed {
        let undeclared = CollectionSchema::default();
        indexes.extend(ordered(schema.unwrap_or(&undeclared), &promised(fields, wishes, schema)));
    }
    indexes
}

/// What a regular index on fields promises of ranges and order.
fn promised(fields: &[String], wishes: &Wishes, schema: Option<&CollectionSchema>) -> Need {
    let declared =
        fields.iter().map(|field| schema.map_or(KeyWidth::Bits128, |schema| schema.key_width(field)));
    let tagged = wishes.width.or_else(|| declared.max()).unwrap_or(KeyWidth::Bits128);
    let last = fields.last().and_then(|last| schema?.fields.get(last));
    Need {
        kind: last.and_then(|field| field.kind),
        width: wishes.width.or_else(|| last?.width),
        aggregates: wishes.aggregates.clone(),
        ..Need::new(fields.to_vec(), tagged)
    }
}

/// The schema, with another order of a field.
fn with_order(
    schema: Option<&CollectionSchema>,
    field: &str,
    order: OrderChoice,
) -> Option<CollectionSchema> {
    let mut schema = schema.cloned().unwrap_or_default();
    schema.fields.entry(field.to_owned()).or_default().order = order;
    Some(schema)
}

/// Can the protocol that gives the order of the last field, if one is named, serve what is asked of the index?
fn check_order(
    request: &IndexDefinition,
    fields: &[String],
    hashed: bool,
    wishes: &Wishes,
    schema: Option<&CollectionSchema>,
) -> Result<(), RequestError> {
    let Some((last, schema)) = fields.last().zip(schema) else { return Ok(()) };
    let OrderChoice::Protocol(protocol) = schema.order(last) else { return Ok(()) };
    let refused = |why: String| RequestError::Order {
        name: request.name.clone(),
        field: last.clone(),
        order: protocol.name().to_owned(),
        why,
    };
    let ranged = wishes.serves(Operation::Range) || wishes.serves(Operation::Order);
    if hashed || !ranged {
        let asked = wishes.order.is_some();
        return if asked { Err(refused("the index is for equality alone".to_owned())) } else { Ok(()) };
    }
    let narrowed = schema.declares_queries() && wishes.operations.is_none();
    let needs = match narrowed {
        true => needs_with(schema, std::slice::from_ref(&fields.to_vec())),
        false => Vec::new(),
    };
    let of_queries: Vec<Need> = needs.into_iter().filter(|need| need.fields.last() == Some(last)).collect();
    let needs = if of_queries.is_empty() { vec![promised(fields, wishes, Some(schema))] } else { of_queries };
    needs.iter().find_map(|need| obstacle(protocol.kind(), need)).map_or(Ok(()), |why| Err(refused(why)))
}

/// A field whose ranges and order one protocol serves, where another is called for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProtocolChange {
    /// The path of the field, with dots.
    pub field: String,
    /// Which one serves it.
    pub there: OrderProtocol,
    /// Which one is called for.
    pub wanted: OrderProtocol,
}

impl ProtocolChange {
    /// Why it does not happen by itself, and how it is done. `index`: the name of the index that is there.
    #[must_use]
    pub fn refusal(&self, index: &str) -> String {
        let Self { field, there, wanted } = self;
        format!(
            "index '{index}' has the order of field '{field}' by {}, and order = \"{}\" is called for: an index does not change \
             its protocol; drop it (dropIndex(\"{index}\")) and create it again",
            there.name(),
            wanted.name()
        )
    }
}

/// The first of `wanted` that an index which is there has the very fields of, in order, by another protocol.
#[must_use]
pub fn changed_protocol(wanted: &[PhysicalIndex], there: &PhysicalIndex) -> Option<ProtocolChange> {
    let order = |index: &PhysicalIndex| match index {
        PhysicalIndex::Range { protocol, range, .. } => Some((*protocol, range.clone())),
        PhysicalIndex::Unique { .. } | PhysicalIndex::Eq { .. } => None,
    };
    let (there_by, field) = order(there)?;
    let same = wanted.iter().filter(|wanted| wanted.fields() == there.fields());
    let wanted =
        same.filter_map(order).map(|(protocol, _)| protocol).find(|protocol| *protocol != there_by)?;
    Some(ProtocolChange { field, there: there_by, wanted })
}

/// Checks the key pattern; true if it is a hashed one.
fn check_key(request: &IndexDefinition) -> Result<bool, RequestError> {
    let name = || request.name.clone();
    if request.key.is_empty() {
        return Err(RequestError::Key { name: name(), what: "has no field" });
    }
    let mut hashed = false;
    for (field, kind) in &request.key {
        let wildcard = field.split('.').any(|part| part == "$**");
        if field.split('.').any(str::is_empty) || (field.starts_with('$') && !wildcard) {
            return Err(RequestError::Key { name: name(), what: "has a malformed field path" });
        }
        match kind {
            Bson::String(kind) if kind == "hashed" && !wildcard => hashed = true,
            _ if is_direction(kind) && !wildcard => {}
            _ => {
                let kind = if wildcard { "wildcard".to_owned() } else { kind.to_string() };
                return Err(RequestError::Kind { name: name(), field: field.clone(), kind });
            }
        }
    }
    if hashed && request.unique {
        return Err(RequestError::Key {
            name: name(),
            what: "is hashed, and hashed indexes cannot be unique",
        });
    }
    Ok(hashed)
}

fn is_direction(kind: &Bson) -> bool {
    match kind {
        Bson::Int32(direction) => *direction != 0,
        Bson::Int64(direction) => *direction != 0,
        Bson::Double(direction) => *direction != 0.0 && direction.is_finite(),
        _ => false,
    }
}

/// Options under which results would differ from those of the index built.
fn check_options(request: &IndexDefinition) -> Result<(), RequestError> {
    let refused = |option, what| Err(RequestError::Option { name: request.name.clone(), option, what });
    if request.unique && request.options.contains_key("partialFilterExpression") {
        return refused("partialFilterExpression", "is not supported with unique");
    }
    match request.options.get("collation") {
        None => Ok(()),
        Some(Bson::Document(collation))
            if collation.get_str("locale").is_ok_and(|locale| locale == "simple") =>
        {
            Ok(())
        }
        Some(_) => refused("collation", "is not supported over encrypted data; only {locale: \"simple\"} is"),
    }
}

fn wishes(request: &IndexDefinition) -> Result<Wishes, RequestError> {
    let mut wishes = Wishes::default();
    let Some(storage_engine) = request.options.get("storageEngine") else {
        return Ok(wishes);
    };
    let refused = |what| RequestError::Option { name: request.name.clone(), option: "storageEngine", what };
    let Bson::Document(engines) = storage_engine else {
        return Err(refused("is not a document"));
    };
    let Some(own) = engines.get("arras") else {
        return Ok(wishes);
    };
    let Bson::Document(own) = own else {
        return Err(refused("has an 'arras' that is not a document"));
    };
    for (option, value) in own {
        match option.as_str() {
            "count" if value.as_bool() == Some(true) => {
                wishes.aggregates.get_or_insert_default();
            }
            "count" if value.as_bool() == Some(false) => {}
            "order" => {
                let name = value.as_str().ok_or_else(|| refused("has an 'order' that is not a string"))?;
                wishes.order = Some(order(request, name)?);
            }
            "operations" => wishes.operations = Some(operations(own).ok_or_else(|| refused(OPERATIONS))?),
            "sums" => {
                let sums =
                    strings(own, "sums").ok_or_else(|| refused("has 'sums' that is not a list of fields"))?;
                wishes.aggregates.get_or_insert_default().extend(sums);
            }
            "widthBits" => {
                let bits =
                    arras_documents::order::as_exact_i64(value).and_then(|bits| u32::try_from(bits).ok());
                let width = bits.and_then(KeyWidth::from_bits);
                wishes.width =
                    Some(width.ok_or_else(|| refused("has 'widthBits' other than 32, 64 or 128"))?);
            }
            _ => return Err(refused(ALLOWED)),
        }
    }
    Ok(wishes)
}

fn order(request: &IndexDefinition, name: &str) -> Result<OrderChoice, RequestError> {
    if name == OrderChoice::Auto.name() {
        return Ok(OrderChoice::Auto);
    }
    OrderProtocol::named(name).map(OrderChoice::Protocol).map_err(|error| RequestError::Order {
        name: request.name.clone(),
        field: request.key.keys().last().cloned().unwrap_or_default(),
        order: name.to_owned(),
        why: format!("{error}, and \"auto\" for the one that leaks least"),
    })
}

const ALLOWED: &str = "has something else under 'arras' than count (a boolean), operations, sums (lists of strings), order (a string), widthBits (a number)";
const OPERATIONS: &str = "has 'operations' that is not a list of \"eq\", \"range\" and \"order\"";

fn operations(own: &Document) -> Option<Vec<Operation>> {
    let operation = |name: String| match name.as_str() {
        "eq" => Some(Operation::Eq),
        "range" => Some(Operation::Range),
        "order" => Some(Operation::Order),
        _ => None,
    };
    strings(own, "operations")?.into_iter().map(operation).collect()
}

fn strings(own: &Document, option: &str) -> Option<Vec<String>> {
    own.get_array(option).ok()?.iter().map(|value| value.as_str().map(str::to_owned)).collect()
}

#[cfg(test)]
mod tests;
