//! The indexes of the workload: one for each thing that an index can be, and for each protocol that can keep an order.

use arras_planner::kinds::{Availability, OrderProtocol, of_orders};
use arras_service::store::IndexDefinition;
use bson::{Document, doc};

/// How many indexes come and go.
pub const OPTIONAL: usize = 5;

/// The index of texts, behind those.
pub const TEXT: usize = OPTIONAL;

fn request(name: &str, key: Document, arras: Document) -> IndexDefinition {
    let options = doc! { "storageEngine": { "arras": arras } };
    IndexDefinition { name: name.into(), key, unique: false, sparse: false, options }
}

/// What makes `u` unique; it is there from the beginning to the end.
#[must_use]
pub fn unique() -> IndexDefinition {
    let options = Document::new();
    IndexDefinition { name: "u".into(), key: doc! { "u": 1 }, unique: true, sparse: false, options }
}

/// The protocols that every build has for a field's order. A seed draws from them, so that it says the same whatever else is
/// built beside the simulator.
#[must_use]
pub fn orders() -> Vec<&'static str> {
    let everywhere = |order: &OrderProtocol| order.kind().availability == Availability::Available;
    of_orders().filter(everywhere).map(|order| order.name()).collect()
}

/// Those and the ones that a build is to be asked for, as the simulator's is: a run by one of pairings takes seconds.
#[must_use]
pub fn all_orders() -> Vec<&'static str> {
    of_orders().filter(|order| order.kind().is_available()).map(|order| order.name()).collect()
}

/// Those that come and go, ordered ones by the protocol `order`.
#[must_use]
pub fn optional(number: usize, order: &str) -> IndexDefinition {
    if number == TEXT {
        let (key, options) = (doc! { "t": "text" }, Document::new());
        return IndexDefinition { name: "t".into(), key, unique: false, sparse: false, options };
    }
    let mut request = usual(number);
    // The first of the table is what the proxy takes unless told otherwise; it can keep sums.
    if orders().first() != Some(&order)
        && number != 1
        && request.key.len() == 1
        && let Ok(storage) = request.options.get_document_mut("storageEngine")
        && let Ok(arras) = storage.get_document_mut("arras")
    {
        arras.insert("order", order);
        arras.remove("sums");
    }
    request
}

fn usual(number: usize) -> IndexDefinition {
    match number {
        0 => request("a", doc! { "a": 1 }, doc! { "operations": ["eq", "range", "order"], "widthBits": 32 }),
        1 => request("b", doc! { "b": 1 }, doc! { "operations": ["eq"] }),
        2 => {
            let arras = doc! { "operations": ["eq", "range"], "widthBits": 32, "sums": ["v"] };
            request("app_a", doc! { "app": 1, "a": 1 }, arras)
        }
        3 => request("v", doc! { "v": 1 }, doc! { "operations": ["range", "order"], "widthBits": 32 }),
        _ => request("b_a", doc! { "b": 1, "a": 1 }, doc! { "operations": ["eq", "range"], "widthBits": 32 }),
    }
}
