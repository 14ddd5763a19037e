//! Every protocol that a field may have its order by, over real processes: one random session on a collection for each and
//! on one without an index, the same replies from all, before and after `kill -9` of both sides.

use super::dice::Dice;
use super::system::{Making, System, seed, until_answered};
use arras_lab::wire_client::WireClient;
use arras_planner::kinds;
use bson::{Bson, Document, doc};

/// Commands of a session, half of them before the kill.
const COMMANDS: u64 = 2000;
/// Of one with an order whose comparisons take pairings, each a millisecond.
const COMMANDS_OF_PAIRINGS: u64 = 24;
/// Values of the ordered field: few, so that they repeat.
const VALUES: i32 = 60;
/// Of one whose values are of a type of 64 bits.
const COMMANDS_OF_64_BITS: u64 = 240;

/// What the values of a session are.
#[derive(Clone, Copy)]
enum Values {
    Int32,
    /// Further apart than 32 bits.
    Int64,
    /// Milliseconds after one another, some before 1970.
    Date,
    /// Neighbours in the order of floating-point numbers, either side of zero.
    Double,
}

impl Values {
    /// Its name in a schema.
    fn name(self) -> &'static str {
        match self {
            Self::Int32 => "int32",
            Self::Int64 => "int64",
            Self::Date => "date",
            Self::Double => "double",
        }
    }

    /// The values in their order.
    fn of(self, number: i32) -> Bson {
        let centred = i64::from(number) - i64::from(VALUES / 2);
        match self {
            Self::Int32 => Bson::Int32(number),
            Self::Int64 => Bson::Int64(centred << 57),
            Self::Date => Bson::DateTime(bson::DateTime::from_millis(centred)),
            Self::Double => {
                let near = f64::from_bits(1.0_f64.to_bits() + centred.unsigned_abs());
                Bson::Double(if centred < 0 { -near } else { near })
            }
        }
    }
}

/// A collection, the order of its index, and whether its field has a declared type.
struct Ordered {
    collection: String,
    order: &'static str,
    is_declared: bool,
}

struct Comparison {
    /// The collection that has no index.
    scanned: String,
    /// Those that have: each is compared with a scan of the same documents.
    orders: Vec<Ordered>,
    values: Values,
    commands: u64,
    dice: Dice,
    next: i32,
}

impl Comparison {
    /// A session of as many commands on a collection without an index and one for each order and whether the type is declared.
    fn new(values: Values, orders: &[&'static str], are_declared: &[bool], commands: u64) -> Self {
        let ordered = |order: &&'static str, is_declared: bool| Ordered {
            collection: format!("{order}_{}_{is_declared}", values.name()),
            order,
            is_declared,
        };
        let orders = are_declared.iter().flat_map(|is| orders.iter().map(move |order| ordered(order, *is)));
        let orders: Vec<_> = orders.collect();
        let scanned = format!("scanned_{}_{}", values.name(), orders.len());
        Self { scanned, orders, values, commands, dice: Dice::new(seed()), next: 0 }
    }

    /// The collections' part of the schema.
    fn schema(&self) -> String {
        let kind = self.values.name();
        let declared = self.orders.iter().filter(|ordered| ordered.is_declared);
        let fields = declared.map(|Ordered { collection, .. }| {
            format!(
                "[collections.\"orders.{collection}\".fields]\nv = {{ type = \"{kind}\", operations = [] }}\n"
            )
        });
        fields.collect()
    }

    /// A number as a filter's bounds around it.
    fn range(&self, low: i32, width: i32) -> Document {
        doc! { "v": { "$gte": self.values.of(low), "$lt": self.values.of(low + width) } }
    }
}

/// The reply as far as it is the same for every way of answering.
fn shown(mut reply: Document, sorted: bool) -> Document {
    for name in ["cursor", "operationTime", "$clusterTime"] {
        if let Ok(cursor) = reply.get_document(name) {
            let mut batch = cursor.get_array("firstBatch").cloned().unwrap_or_default();
            if !sorted {
                batch.sort_by_key(|document| document.as_document().and_then(|it| it.get_i32("_id").ok()));
            }
            reply.insert("firstBatch", batch);
        }
        reply.remove(name);
    }
    reply
}

impl Comparison {
    /// A command, without its collection; and whether its answer has an order of its own.
    fn command(&mut self) -> (Document, bool) {
        let (low, width) = (self.dice.roll(VALUES), 1 + self.dice.roll(VALUES / 2));
        let (filter, few) = (self.range(low, width), self.range(low, 2));
        match self.dice.below(12) {
            0..=3 => {
                let documents: Vec<Document> = (0..1 + self.dice.roll(3))
                    .map(|_| {
                        self.next += 1;
                        let v = self.values.of(self.dice.roll(VALUES));
                        doc! { "_id": self.next, "v": v, "w": self.dice.roll(9) }
                    })
                    .collect();
                (doc! { "insert": "", "documents": documents }, true)
            }
            4 => {
                let change = match self.values {
                    Values::Int32 => doc! { "$inc": { "v": self.dice.roll(7) - 3 } },
                    _ => doc! { "$set": { "v": self.values.of(self.dice.roll(VALUES)) } },
                };
                let filter = self.range(low, 3);
                (doc! { "update": "", "updates": [{ "q": filter, "u": change, "multi": true }] }, true)
            }
            5 => (doc! { "delete": "", "deletes": [{ "q": few, "limit": 0 }] }, true),
            6 | 7 => {
                let direction = if self.dice.below(2) == 0 { 1 } else { -1 };
                // `_id` makes the order of equal values the same everywhere.
                let sort = doc! { "v": direction, "_id": 1 };
                let limit = 1 + self.dice.roll(9);
                (doc! { "find": "", "filter": filter, "sort": sort, "limit": limit }, true)
            }
            8 | 9 => (doc! { "find": "", "filter": filter }, false),
            10 => (doc! { "count": "", "query": filter }, true),
            _ => {
                let sum = doc! { "$group": { "_id": Bson::Null, "n": { "$sum": 1 }, "w": { "$sum": "$w" } } };
                let pipeline = vec![doc! { "$match": filter }, sum];
                (doc! { "aggregate": "", "pipeline": pipeline, "cursor": {} }, true)
            }
        }
    }

    /// Runs half of the commands on every collection.
    fn run_half(&mut self, client: &mut WireClient) {
        for _ in 0..self.commands / 2 {
            let (command, sorted) = self.command();
            let expected = ask(client, &self.scanned, &command, sorted);
            for Ordered { collection, order, .. } in &self.orders {
                let reply = ask(client, collection, &command, sorted);
                assert_eq!(reply, expected, "{order}: {command}");
            }
        }
    }
}

fn ask(client: &mut WireClient, collection: &str, command: &Document, sorted: bool) -> Document {
    let mut command = command.clone();
    let (name, _) = command.iter().next().unwrap();
    let name = name.clone();
    command.insert(name, collection);
    command.insert("$db", "orders");
    shown(client.command(&command).unwrap_or_else(|error| panic!("{error}: {collection}: {command}")), sorted)
}

fn create_index(client: &mut WireClient, Ordered { collection, order, .. }: &Ordered, filter: Document) {
    let (collection, order) = (collection.as_str(), *order);
    let options = doc! { "arras": { "order": order, "operations": ["range", "order"] } };
    let index = doc! { "name": "by_v", "key": { "v": 1 }, "storageEngine": options };
    let command = doc! { "createIndexes": collection, "indexes": [index], "$db": "orders" };
    client.command(&command).unwrap();
    let title = kinds::kind_of(order).unwrap().title;
    let find = doc! { "find": collection, "filter": filter };
    let explained = client.command(&doc! { "explain": find, "$db": "orders" }).unwrap().to_string();
    assert!(explained.contains(title), "{explained} names {title}");
}

/// The sessions: that with pairings first.
fn comparisons() -> Vec<Comparison> {
    let available = kinds::of_orders().filter(|order| order.kind().is_available());
    let (few, many): (Vec<_>, Vec<_>) =
        available.map(|order| order.name()).partition(|it| it.ends_with("cloz"));
    let mut sessions = vec![
        Comparison::new(Values::Int32, &few, &[true], COMMANDS_OF_PAIRINGS),
        Comparison::new(Values::Int32, &many, &[true, false], COMMANDS),
    ];
    let wide = [Values::Int64, Values::Date, Values::Double];
    sessions.extend(wide.map(|values| Comparison::new(values, &many, &[true], COMMANDS_OF_64_BITS)));
    sessions
}

#[test]
fn a_session_has_the_same_replies_by_every_order_and_by_scan_before_and_after_kills() {
    let mut sessions = comparisons();
    let available = kinds::of_orders().filter(|order| order.kind().is_available());
    let mut compared: Vec<&str> =
        sessions.iter().flat_map(|session| &session.orders).map(|ordered| ordered.order).collect();
    compared.sort_unstable();
    compared.dedup();
    assert_eq!(compared.len(), available.count());
    compare(&mut sessions, 30);
}

#[test]
#[ignore = "its pairings take the better part of an hour"]
fn a_whole_session_has_the_same_replies_by_an_order_of_pairings() {
    let mut pairings = comparisons().swap_remove(0);
    assert!(pairings.orders.iter().all(|ordered| ordered.order.ends_with("cloz")));
    pairings.commands = COMMANDS;
    // A search of hundreds of documents compares for minutes.
    compare(&mut [pairings], 3600);
}

/// `deadline_seconds`: how long the proxy waits for an answer of its server.
fn compare(sessions: &mut [Comparison], deadline_seconds: u32) {
    let mut system = System::make(Making::default());
    let declared: String = sessions.iter().map(Comparison::schema).collect();
    std::fs::write(system.path("config/schema.toml"), declared).unwrap();
    let configured = std::fs::read_to_string(system.configuration()).unwrap();
    let deadline = format!("deadline_seconds = {deadline_seconds}\n");
    let configured = configured.replace("deadline_seconds = 30\n", &deadline);
    assert!(configured.contains(&deadline), "{configured}");
    std::fs::write(system.configuration(), format!("schema = \"schema.toml\"\n{configured}")).unwrap();
    system.start_server();
    system.start_proxy();
    let mut client = system.client();
    for session in &mut *sessions {
        for ordered in &session.orders {
            create_index(&mut client, ordered, session.range(1, 1));
        }
        session.run_half(&mut client);
    }
    system.kill_server();
    system.kill_proxy();
    system.start_server();
    system.start_proxy();
    let mut client = system.client();
    until_answered(|| client.command(&doc! { "ping": 1, "$db": "orders" }));
    for session in sessions {
        session.run_half(&mut client);
    }
    system.assert_no_panic();
}
