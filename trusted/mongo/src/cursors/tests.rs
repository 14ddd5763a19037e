#![allow(clippy::unwrap_used)]

use super::*;
use arras_service::ServiceError;
use bson::doc;

/// Hands out numbered documents, fewer than asked for at a time.
struct Numbers {
    next: i32,
    end: i32,
    text_bytes: usize,
    on_disk: bool,
}

impl Cursor for Numbers {
    fn is_on_disk(&self) -> bool {
        self.on_disk
    }

    async fn next_batch(
        &mut self,
        documents_max: usize,
        _bytes_max: usize,
    ) -> Result<Vec<Document>, ServiceError> {
        let count = i32::try_from(documents_max.min(7)).unwrap().min(self.end - self.next);
        let batch = (self.next..self.next + count)
            .map(|n| doc! { "_id": n, "text": "x".repeat(self.text_bytes) })
            .collect();
        self.next += count;
        Ok(batch)
    }
}

fn numbers(end: i32) -> Numbers {
    Numbers { next: 0, end, text_bytes: 0, on_disk: false }
}

fn block_on<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap().block_on(work)
}

/// Ids of each batch, until one is the last.
fn batches(mut batches: Batches<Numbers>, size: Option<usize>) -> Vec<Vec<i32>> {
    block_on(async {
        let mut all = Vec::new();
        loop {
            let batch = batches.next(size, crate::wire::DOCUMENT_BYTES_MAX).await.unwrap();
            let documents = batch.documents.into_iter().map(|document| document.into_document().unwrap());
            all.push(documents.map(|document| document.get_i32("_id").unwrap()).collect());
            if batch.last {
                return all;
            }
        }
    })
}

#[test]
fn batches_are_filled_from_smaller_ones() {
    let all = batches(Batches::of_store(numbers(25), Shape::Whole, None), Some(10));
    assert_eq!(all, vec![(0..10).collect::<Vec<_>>(), (10..20).collect(), (20..25).collect()]);
}

#[test]
fn a_limit_ends_the_last_batch_without_another_fetch() {
    let all = batches(Batches::of_store(numbers(100), Shape::Whole, Some(20)), Some(10));
    assert_eq!(all, vec![(0..10).collect::<Vec<_>>(), (10..20).collect()]);
    let all = batches(Batches::of_store(numbers(100), Shape::Whole, Some(3)), None);
    assert_eq!(all, vec![vec![0, 1, 2]]);
}

#[test]
fn a_batch_of_zero_fetches_nothing_and_goes_on() {
    let mut source = Batches::of_store(numbers(3), Shape::Whole, None);
    let first = block_on(source.next(Some(0), crate::wire::DOCUMENT_BYTES_MAX)).unwrap();
    assert!(first.documents.is_empty() && !first.last);
    assert_eq!(batches(source, None), vec![vec![0, 1, 2]]);
}

#[test]
fn batches_stay_below_the_byte_limit() {
    let text_bytes = 5_000_000;
    let all = batches(Batches::of_store(Numbers { text_bytes, ..numbers(7) }, Shape::Whole, None), None);
    assert_eq!(all, vec![vec![0, 1, 2], vec![3, 4, 5], vec![6]]);
}

#[test]
fn stages_may_drop_whole_fetches() {
    let stages = [doc! { "$match": { "_id": { "$in": [3, 40] } } }];
    let shape = Shape::Staged(Pipeline::parse(&stages).unwrap());
    assert_eq!(batches(Batches::of_store(numbers(50), shape, None), Some(5)), vec![vec![3, 40]]);
}

fn namespace(collection: &str) -> Namespace {
    Namespace { database: "d".into(), collection: collection.into() }
}

fn open(patient: bool) -> OpenCursor<Numbers> {
    let batches = Batches::of_store(numbers(5), Shape::Whole, None);
    OpenCursor { namespace: namespace("c"), batches, patient, time_left: None }
}

fn table(count_max: usize) -> CursorTable<Numbers> {
    let (idle, at_rest) = (Duration::from_secs(600), Duration::from_secs(10));
    CursorTable::new(CursorLimits { count_max, idle, at_rest })
}

#[test]
fn cursors_are_found_by_number_and_collection() {
    let table = table(10);
    let id = table.open(open(false)).unwrap();
    assert!(id > 0);
    assert_eq!(table.check_out(id + 1, &namespace("c")).err().unwrap().code, 43);
    assert_eq!(table.check_out(id, &namespace("other")).err().unwrap().code, 13);
    let out = table.check_out(id, &namespace("c")).unwrap();
    assert_eq!(table.check_out(id, &namespace("c")).err().unwrap().code, 12051);
    out.give_back();
    assert!(table.check_out(id, &namespace("c")).is_ok());
}

#[test]
fn a_cursor_not_given_back_is_closed() {
    let table = table(10);
    let id = table.open(open(false)).unwrap();
    drop(table.check_out(id, &namespace("c")).unwrap());
    assert_eq!(table.count(), 0);
}

#[test]
fn a_cursor_killed_while_in_use_does_not_come_back() {
    let table = table(10);
    let id = table.open(open(false)).unwrap();
    let out = table.check_out(id, &namespace("c")).unwrap();
    assert!(table.kill(id, &namespace("c")));
    out.give_back();
    assert_eq!(table.count(), 0);
    assert!(!table.kill(id, &namespace("c")));
}

#[test]
fn the_table_is_bounded() {
    let table = table(2);
    let oldest = table.open(open(false)).unwrap();
    let id = table.open(open(false)).unwrap();
    assert!(!table.kill(id, &namespace("other")));
    // The one that has waited longest gives way, unless all are read from.
    let used = table.check_out(table.open(open(false)).unwrap(), &namespace("c")).unwrap();
    assert!(table.check_out(oldest, &namespace("c")).is_err());
    let other = table.check_out(id, &namespace("c")).unwrap();
    assert_eq!(table.open(open(false)).err().unwrap().code, 146);
    other.give_back();
    used.give_back();
    assert!(table.open(open(false)).is_ok());
}

#[test]
fn of_cursors_at_rest_on_the_disk_the_one_that_waited_longest_gives_way() {
    let table = table(10);
    let on_disk = || {
        let batches = Batches::of_store(Numbers { on_disk: true, ..numbers(5) }, Shape::Whole, None);
        OpenCursor { batches, ..open(false) }
    };
    let in_memory = table.open(open(false)).unwrap();
    let read = table.open(on_disk()).unwrap();
    let [first, second] = [(); 2].map(|()| table.open(on_disk()).unwrap());
    let out = table.check_out(read, &namespace("c")).unwrap();
    let later = Instant::now() + Duration::from_secs(11);
    assert!(!table.relieve(), "nobody is at rest yet");
    assert!(table.end_one_on_disk(later) && table.check_out(first, &namespace("c")).is_err());
    assert!(table.end_one_on_disk(later) && table.check_out(second, &namespace("c")).is_err());
    assert!(!table.end_one_on_disk(later), "one is read from, one has nothing there");
    out.give_back();
    assert!(table.check_out(in_memory, &namespace("c")).is_ok());
    assert!(table.check_out(read, &namespace("c")).is_ok());
}

#[test]
fn unused_cursors_are_swept() {
    let table = table(10);
    let plain = table.open(open(false)).unwrap();
    let patient = table.open(open(true)).unwrap();
    let now = Instant::now();
    table.sweep(now + Duration::from_secs(599));
    assert_eq!(table.count(), 2);
    table.sweep(now + Duration::from_secs(601));
    assert!(table.check_out(plain, &namespace("c")).is_err());
    table.check_out(patient, &namespace("c")).unwrap().give_back();
    table.sweep(now + Duration::from_secs(3 * 601));
    assert_eq!(table.count(), 0);
}

#[test]
fn a_batch_of_many_small_documents_is_a_document_of_allowed_length() {
    let bytes_max = 100_000;
    let mut source = Batches::of_store(numbers(20_000), Shape::Whole, None);
    let batch = block_on(source.next(None, bytes_max)).unwrap();
    let count = batch.documents.len();
    let documents = batch.documents.into_iter().map(|document| document.into_document().unwrap());
    let array = bson::doc! { "": documents.map(bson::Bson::Document).collect::<Vec<_>>() };
    let length = array.to_vec().unwrap().len();
    // Beside the elements: the two documents' lengths and ends, and the one's name.
    assert!(count > 1000 && length <= bytes_max + 12 && length > bytes_max - 100, "{length} of {count}");
}
