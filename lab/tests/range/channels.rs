//! Every protocol of the lab over every way to a server, against a sorted list: in this process over both stores,
//! delayed, and over TLS to a real `arras-server` (`cargo build -p arras-server` makes it). Always counted.

use crate::world::{prg, run};
use arras_lab::channel::{Counting, Delaying, Link, ServerMeter, ServerProcess};
use arras_lab::protocols::{ALL, Construction, Driven, Making, ProtocolEntry};
use arras_protocol::RowId;
use arras_schemes::arx_range::RangeEntry;
use arras_schemes::ore::domain::{Domain, plaintext_key};
use arras_schemes::traits::SortedList;
use arras_server::Backend;
use arras_storage::{Embedded, Memory};
use std::sync::Arc;
use std::time::Duration;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Memory,
    Embedded,
    Delayed,
    Network,
}

/// A way to a server, and what must outlive it.
struct Reached {
    link: Link,
    _server: Option<ServerProcess>,
    _directory: Option<tempfile::TempDir>,
}

async fn reach(way: Way) -> Reached {
    let directory = tempfile::tempdir().expect("a directory");
    let (link, server) = match way {
        Way::Memory | Way::Delayed => {
            let backend = Backend::open(Memory::new(), [1; 16]).expect("an empty store");
            (Link::Direct(Arc::new(backend), ServerMeter::default()), None)
        }
        Way::Embedded => {
            let store = Embedded::open(directory.path()).expect("the directory is ours");
            let backend = Backend::open(store, [1; 16]).expect("an empty store");
            (Link::Direct(Arc::new(backend), ServerMeter::default()), None)
        }
        Way::Network => {
            let server = ServerProcess::start().expect("arras-server is built and starts");
            (Link::Network(server.connect().await.expect("it answers")), Some(server))
        }
    };
    Reached { link, _server: server, _directory: Some(directory) }
}

/// How many entries a protocol can bear on this way.
fn entries(protocol: &ProtocolEntry, way: Way) -> u64 {
    match way {
        _ if !protocol.in_all => 4,
        Way::Delayed => 6,
        Way::Memory => 150,
        Way::Embedded | Way::Network => 60,
    }
}

fn plaintext(value: i64) -> Vec<u8> {
    let domain = Domain::I32;
    plaintext_key(domain.width, domain.plaintext(i128::from(value)).expect("within 32 bits"))
}

async fn agree(index: &dyn Driven, list: &SortedList, (lower, upper): (i64, i64), what: &str) {
    let mut found = index.search(plaintext(lower), plaintext(upper)).await.expect(what);
    let mut expected = Driven::search(list, plaintext(lower), plaintext(upper)).await.expect("a list");
    // Values ascend; rows of equal values come in any order.
    assert!(found.is_sorted_by(|one, next| one.0 <= next.0), "{what}: {lower}..={upper} out of order");
    found.sort_unstable();
    expected.sort_unstable();
    assert!(found == expected, "{what}: {lower}..={upper}: {} of {} found", found.len(), expected.len());
}

async fn history(protocol: &ProtocolEntry, way: Way) {
    let what = format!("{} over {way:?}", protocol.name);
    let reached = reach(way).await;
    let round_trip = Duration::from_millis(u64::from(way == Way::Delayed));
    let channel = Counting::new(Delaying::new(reached.link.clone(), round_trip));
    let traffic = channel.tally();
    let count = entries(protocol, way);
    let width = Domain::I32.width;
    let making = Making {
        channel: Arc::new(channel),
        width,
        page_bytes: (protocol.page_bytes_min)(width).max(512),
        records: count as usize,
        seed: 5,
    };
    let made = protocol.make(making).await.expect(&what);
    let (index, list) = (&*made.index, SortedList::default());
    let mut random = prg(way as u64);
    let mut value = |spread: u64| (random.next_u64() % spread) as i64 - (spread / 2) as i64;
    // Negative numbers, equal values, the ends of the domain.
    let mut data: Vec<RangeEntry> = (0..count)
        .map(|row| (value(count / 2 + 2), row))
        .chain([(i64::from(i32::MIN), count), (i64::from(i32::MAX), count + 1)])
        .map(|(value, row)| {
            let row =
                RowId(u128::from(row).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835).to_be_bytes());
            RangeEntry { value: plaintext(value), row, sums: Vec::new() }
        })
        .collect();
    let again =
        |entry: &RangeEntry| RangeEntry { value: entry.value.clone(), row: entry.row, sums: Vec::new() };
    Driven::insert(&list, data.iter().map(again).collect()).await.expect("a list");
    if protocol.construction == Construction::Bulk {
        index.insert(data.iter().map(again).collect()).await.expect(&what);
    } else {
        for entry in &data {
            index.insert(vec![again(entry)]).await.expect(&what);
        }
    }
    let everything = (i64::from(i32::MIN), i64::from(i32::MAX));
    for range in
        [everything, (0, 0), (-2, 3), (3, -2), (1000, 2000), (i64::from(i32::MAX), i64::from(i32::MAX))]
    {
        agree(index, &list, range, &what).await;
    }
    if protocol.construction == Construction::OneByOne {
        data.truncate(count as usize / 2);
        for entry in &data {
            index.remove(vec![again(entry)]).await.expect(&what);
            Driven::remove(&list, vec![again(entry)]).await.expect("a list");
        }
        for range in [everything, (-1, 5), (value(count), value(count))] {
            agree(index, &list, range, &what).await;
        }
    }
    let counted = traffic.traffic();
    assert!(counted.messages > 2 && counted.messages.is_multiple_of(2), "{what}: {counted:?}");
    assert!(
        counted.rounds <= counted.messages / 2 && counted.result_bytes <= counted.received_bytes,
        "{what}"
    );
}

fn all(way: Way) {
    for protocol in ALL {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(history(protocol, way));
    }
}

#[test]
fn in_this_process_in_memory() {
    all(Way::Memory);
}

#[test]
fn in_this_process_on_the_disk() {
    all(Way::Embedded);
}

#[test]
fn with_a_round_trip() {
    all(Way::Delayed);
}

#[test]
fn over_tls_to_a_real_server() {
    all(Way::Network);
}

/// The list is not always right: the comparison notices an entry too many.
#[test]
#[should_panic(expected = "no list")]
fn a_wrong_answer_is_noticed() {
    run(async {
        let (left, right) = (SortedList::default(), SortedList::default());
        let entry = RangeEntry { value: plaintext(1), row: RowId([1; 16]), sums: Vec::new() };
        Driven::insert(&left, vec![entry]).await.expect("a list");
        agree(&left, &right, (0, 2), "no list").await;
    });
}
