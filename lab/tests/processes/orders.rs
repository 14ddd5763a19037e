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
/// The field whose order is asked for has a declared type in every collection whose name ends so.
const TYPED: &str = "_typed";

/// Collections and the orders of their indexes.
type Orders = Vec<(String, &'static str)>;

struct Comparison {
    /// The collection that has no index.
    scanned: &'static str,
    /// Those that have: each is compared with a scan of the same documents.
    orders: Orders,
    commands: u64,
    dice: Dice,
    next: i32,
}

fn schema(orders: &Orders) -> String {
    let typed = orders.iter().filter(|(collection, _)| collection.ends_with(TYPED));
    let declared = typed.map(|(collection, _)| {
        format!("[collections.\"orders.{collection}\".fields]\nv = {{ type = \"int32\", operations = [] }}\n")
    });
    declared.collect()
}

/// A number as a filter's bounds around it.
fn range(low: i32, width: i32) -> Document {
    doc! { "v": { "$gte": low, "$lt": low + width } }
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
        match self.dice.below(12) {
            0..=3 => {
                let documents: Vec<Document> = (0..1 + self.dice.roll(3))
                    .map(|_| {
                        self.next += 1;
                        doc! { "_id": self.next, "v": self.dice.roll(VALUES), "w": self.dice.roll(9) }
                    })
                    .collect();
                (doc! { "insert": "", "documents": documents }, true)
            }
            4 => {
                let change = doc! { "$inc": { "v": self.dice.roll(7) - 3 } };
                (doc! { "update": "", "updates": [{ "q": range(low, 3), "u": change, "multi": true }] }, true)
            }
            5 => (doc! { "delete": "", "deletes": [{ "q": range(low, 2), "limit": 0 }] }, true),
            6 | 7 => {
                let direction = if self.dice.below(2) == 0 { 1 } else { -1 };
                // `_id` makes the order of equal values the same everywhere.
                let sort = doc! { "v": direction, "_id": 1 };
                let limit = 1 + self.dice.roll(9);
                (doc! { "find": "", "filter": range(low, width), "sort": sort, "limit": limit }, true)
            }
            8 | 9 => (doc! { "find": "", "filter": range(low, width) }, false),
            10 => (doc! { "count": "", "query": range(low, width) }, true),
            _ => {
                let sum = doc! { "$group": { "_id": Bson::Null, "n": { "$sum": 1 }, "w": { "$sum": "$w" } } };
                let pipeline = vec![doc! { "$match": range(low, width) }, sum];
                (doc! { "aggregate": "", "pipeline": pipeline, "cursor": {} }, true)
            }
        }
    }

    /// Runs half of the commands on every collection.
    fn run_half(&mut self, client: &mut WireClient) {
        for _ in 0..self.commands / 2 {
            let (command, sorted) = self.command();
            let expected = ask(client, self.scanned, &command, sorted);
            for (collection, order) in &self.orders {
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

fn create_index(client: &mut WireClient, collection: &str, order: &str) {
    let options = doc! { "arras": { "order": order, "operations": ["range", "order"] } };
    let index = doc! { "name": "by_v", "key": { "v": 1 }, "storageEngine": options };
    let command = doc! { "createIndexes": collection, "indexes": [index], "$db": "orders" };
    client.command(&command).unwrap();
    let title = kinds::kind_of(order).unwrap().title;
    let find = doc! { "find": collection, "filter": range(1, 1) };
    let explained = client.command(&doc! { "explain": find, "$db": "orders" }).unwrap().to_string();
    assert!(explained.contains(title), "{explained} names {title}");
}

/// The sessions: those with pairings apart.
fn comparisons() -> [Comparison; 2] {
    let available = kinds::of_orders().filter(|order| order.kind().is_available());
    let (few, many): (Vec<_>, Vec<_>) =
        available.map(|order| order.name()).partition(|it| it.ends_with("cloz"));
    let both = |order: &&'static str| [(format!("{order}{TYPED}"), *order), ((*order).to_owned(), *order)];
    let seed = seed();
    let session =
        |scanned, orders, commands| Comparison { scanned, orders, commands, dice: Dice::new(seed), next: 0 };
    [
        session("scanned", many.iter().flat_map(both).collect(), COMMANDS),
        session(
            "scanned_few",
            few.iter().map(|it| (format!("{it}{TYPED}"), *it)).collect(),
            COMMANDS_OF_PAIRINGS,
        ),
    ]
}

#[test]
fn a_session_has_the_same_replies_by_every_order_and_by_scan_before_and_after_kills() {
    let mut sessions = comparisons();
    let available = kinds::of_orders().filter(|order| order.kind().is_available());
    let mut compared: Vec<&str> =
        sessions.iter().flat_map(|session| &session.orders).map(|(_, order)| *order).collect();
    compared.sort_unstable();
    compared.dedup();
    assert_eq!(compared.len(), available.count());
    compare(&mut sessions, 30);
}

#[test]
#[ignore = "its pairings take the better part of an hour"]
fn a_whole_session_has_the_same_replies_by_an_order_of_pairings() {
    let [_, mut pairings] = comparisons();
    pairings.commands = COMMANDS;
    // A search of hundreds of documents compares for minutes.
    compare(&mut [pairings], 3600);
}

/// `deadline_seconds`: how long the proxy waits for an answer of its server.
fn compare(sessions: &mut [Comparison], deadline_seconds: u32) {
    let mut system = System::make(Making::default());
    let declared: String = sessions.iter().map(|session| schema(&session.orders)).collect();
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
        for (collection, order) in &session.orders {
            create_index(&mut client, collection, order);
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
