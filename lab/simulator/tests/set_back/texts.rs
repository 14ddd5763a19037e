//! What the service of text indexes notices, and what it must not take for a set-back.

use super::machine::{Fate, Machine};
use arras_documents::text::TextCondition;
use arras_engine::text::{TextIndex, TextIndexId, TextService};
use arras_planner::text::TextDefinition;
use arras_protocol::RowId;
use arras_service::{Fault, ServiceError};
use arras_text::Service;
use bson::doc;
use std::sync::Arc;

const FIRST: TextIndexId = [1; 8];
const SECOND: TextIndexId = [2; 8];
const NOTHING: [u8; 0] = [];

/// A proxy: its service, and what it has recorded when it starts.
struct Proxy(Service);

impl Proxy {
    fn new(machine: &Machine) -> Self {
        Self::started(machine, 0)
    }

    fn started(machine: &Machine, acknowledged: u128) -> Self {
        let service = Service::new(Arc::new(machine.clone()));
        service.expect(acknowledged, machine.next_start());
        Self(service)
    }

    /// One whose store is as old as that of the first start.
    fn on_a_copy(machine: &Machine) -> Self {
        let service = Service::new(Arc::new(machine.clone()));
        service.expect(0, machine.start_on_a_copy());
        Self(service)
    }

    fn index(&self, id: TextIndexId) -> Arc<dyn TextIndex> {
        let definition = TextDefinition {
            weights: vec![("t".into(), 1.0)],
            default_language: "none".into(),
            language_override: "language".into(),
        };
        self.0.index(id, &definition).unwrap()
    }

    async fn tell(&self, id: TextIndexId, row: u8, text: &str) -> Result<(), ServiceError> {
        let document = Some(doc! { "t": text }).filter(|_| !text.is_empty());
        self.index(id).update(vec![(RowId([row; 16]), document)]).await
    }

    async fn find(&self, id: TextIndexId, word: &str) -> Result<Vec<u8>, ServiceError> {
        let found = self.index(id).search(TextCondition::words(word)).await?;
        let mut found: Vec<u8> = found.iter().map(|row| row.0[0]).collect();
        found.sort_unstable();
        Ok(found)
    }

    async fn remove(&self, id: TextIndexId) -> Result<(), ServiceError> {
        self.0.remove(id).await
    }
}

fn is_set_back<T: std::fmt::Debug>(answer: Result<T, ServiceError>) {
    let error = answer.expect_err("it was set back");
    assert_eq!(error.fault, Fault::Corruption, "{}", error.message);
    assert!(error.message.contains("set back"), "{}", error.message);
}

#[tokio::test]
async fn a_disk_set_back_to_before_an_index_was_dropped_is_noticed() {
    let machine = Machine::new();
    let proxy = Proxy::new(&machine);
    for row in 0..20 {
        proxy.tell(FIRST, row, "whale ship captain").await.unwrap();
    }
    let before = machine.disk();
    proxy.remove(FIRST).await.unwrap();
    proxy.tell(SECOND, 1, "gull").await.unwrap();
    machine.set_disk(before);
    is_set_back(proxy.find(SECOND, "gull").await);
    let started = Proxy::started(&machine, proxy.0.acknowledged());
    is_set_back(started.find(SECOND, "gull").await);
}

#[tokio::test]
async fn a_disk_set_back_while_a_dropped_index_is_removed_is_noticed() {
    // After any message of the enclave during the removal.
    for messages in 0.. {
        let machine = Machine::new();
        let proxy = Proxy::new(&machine);
        proxy.tell(FIRST, 1, "whale ship").await.unwrap();
        let before = machine.disk();
        proxy.tell(SECOND, 2, "gull").await.unwrap();
        machine.end_after(messages, Some(before));
        let removed = proxy.remove(FIRST).await;
        if machine.is_to_end() {
            removed.unwrap();
            assert!(messages > 10, "{messages}");
            return;
        }
        match removed {
            Err(error) => is_set_back::<()>(Err(error)),
            Ok(()) => is_set_back(proxy.find(SECOND, "gull").await),
        }
    }
}

#[tokio::test]
async fn an_update_that_was_held_back_does_not_come_over_a_newer_one() {
    let machine = Machine::new();
    let proxy = Proxy::new(&machine);
    proxy.tell(FIRST, 1, "gull").await.unwrap();
    machine.meets(Fate::HeldBack);
    // Over another connection it is told again.
    proxy.tell(FIRST, 1, "whale").await.unwrap();
    proxy.tell(FIRST, 1, "ship").await.unwrap();
    machine.hand_over();
    assert_eq!(proxy.find(FIRST, "whale").await.unwrap(), NOTHING);
    assert_eq!(proxy.find(FIRST, "ship").await.unwrap(), [1]);
    proxy.tell(FIRST, 1, "captain").await.unwrap();
    assert_eq!(proxy.find(FIRST, "captain").await.unwrap(), [1]);
}

#[tokio::test]
async fn an_update_whose_acknowledgement_was_lost_is_carried_out_once() {
    let machine = Machine::new();
    let proxy = Proxy::new(&machine);
    proxy.tell(FIRST, 1, "gull").await.unwrap();
    let before = machine.puts();
    proxy.tell(FIRST, 2, "whale").await.unwrap();
    let entries = machine.puts() - before;
    machine.meets(Fate::Unacknowledged);
    proxy.tell(FIRST, 3, "whale").await.unwrap();
    assert_eq!(machine.puts() - before, 2 * entries);
    assert_eq!(proxy.find(FIRST, "whale").await.unwrap(), [2, 3]);
}

/// Of many rows, in several updates, the first of which is lost on its way, or its acknowledgement.
#[tokio::test]
async fn an_operation_of_several_updates_goes_on_where_it_was() {
    for fate in [Fate::HeldBack, Fate::Unacknowledged] {
        let machine = Machine::new();
        let proxy = Proxy::new(&machine);
        proxy.tell(FIRST, 0, "gull").await.unwrap();
        machine.meets(fate);
        let row = |number: u16| RowId(std::array::from_fn(|at| number.to_be_bytes()[at % 2]));
        let changes = (1..5000).map(|number| (row(number), Some(doc! { "t": "whale ship" })));
        proxy.index(FIRST).update(changes.collect()).await.unwrap();
        if fate == Fate::HeldBack {
            machine.hand_over();
        }
        let found = proxy.index(FIRST).search(TextCondition::words("whale")).await.unwrap();
        assert_eq!(found.len(), 4999);
    }
}

/// An update of a proxy that died is handed over behind those of its next start, or of another proxy in its place, before or after
/// that has said anything.
#[tokio::test]
async fn an_update_of_a_proxy_that_is_gone_does_not_come_over_those_of_the_next() {
    for (is_recorded, is_first) in [(true, true), (true, false), (false, true), (false, false)] {
        let machine = Machine::new();
        let gone = Proxy::new(&machine);
        gone.tell(FIRST, 1, "gull").await.unwrap();
        machine.meets(Fate::HeldBack);
        machine.meets(Fate::HeldBack);
        gone.tell(FIRST, 1, "whale").await.unwrap_err();
        let next = Proxy::started(&machine, if is_recorded { gone.0.acknowledged() } else { 0 });
        next.0.ready().await.unwrap();
        if is_first {
            machine.hand_over();
        }
        next.tell(FIRST, 1, "ship").await.unwrap();
        if !is_first {
            machine.hand_over();
        }
        assert_eq!(next.find(FIRST, "whale gull").await.unwrap(), NOTHING);
        assert_eq!(next.find(FIRST, "ship").await.unwrap(), [1]);
        // One that is not gone after all is heard, and hears of the other.
        gone.tell(FIRST, 2, "whale").await.unwrap();
        next.tell(FIRST, 3, "whale").await.unwrap();
        assert_eq!(gone.find(FIRST, "whale").await.unwrap(), [2, 3]);
    }
}

/// Two that are at one revision, the update of one of which is handed over before, or after, the other one's.
#[tokio::test]
async fn proxies_that_suppose_the_same_do_not_take_the_other_s_update_for_their_own() {
    for is_first in [true, false] {
        let machine = Machine::new();
        let (one, other) = (Proxy::new(&machine), Proxy::on_a_copy(&machine));
        one.tell(FIRST, 1, "gull").await.unwrap();
        other.0.ready().await.unwrap();
        machine.meets(Fate::HeldBack);
        machine.meets(Fate::Unconnected);
        one.tell(FIRST, 2, "whale").await.unwrap_err();
        if is_first {
            machine.hand_over();
        }
        other.tell(FIRST, 3, "ship").await.unwrap();
        if !is_first {
            machine.hand_over();
        }
        assert_eq!(other.find(FIRST, "ship").await.unwrap(), [3]);
        let found = other.find(FIRST, "whale").await.unwrap();
        assert_eq!(found, if is_first { vec![2] } else { vec![] });
        one.tell(FIRST, 4, "whale").await.unwrap();
        assert!(one.find(FIRST, "whale").await.unwrap().contains(&4));
    }
}

/// On the disk of before, a second enclave takes what the first was told and did not acknowledge; then the first one's disk is back.
#[tokio::test]
async fn a_disk_with_as_many_changes_of_another_history_is_noticed() {
    let machine = Machine::new();
    let proxy = Proxy::new(&machine);
    proxy.tell(FIRST, 1, "gull").await.unwrap();
    let before = machine.disk();
    machine.meets(Fate::Unacknowledged);
    machine.meets(Fate::Unconnected);
    proxy.tell(FIRST, 2, "whale").await.unwrap_err();
    let other = machine.disk();
    machine.set_disk(before);
    proxy.tell(FIRST, 2, "ship").await.unwrap();
    assert_eq!(proxy.find(FIRST, "ship").await.unwrap(), [2]);
    machine.set_disk(other);
    is_set_back(proxy.find(FIRST, "ship").await);
}

#[tokio::test]
async fn what_is_under_way_at_once_is_all_carried_out() {
    let machine = Machine::new();
    let proxy = Arc::new(Proxy::new(&machine));
    let mut under_way = tokio::task::JoinSet::new();
    for row in 1..=40 {
        let proxy = Arc::clone(&proxy);
        let id = if row % 2 == 0 { FIRST } else { SECOND };
        under_way.spawn(async move {
            for word in ["gull", "whale"] {
                proxy.tell(id, row, word).await.unwrap();
            }
            assert!(proxy.find(id, "whale").await.unwrap().contains(&row));
        });
    }
    while let Some(done) = under_way.join_next().await {
        done.unwrap();
    }
    assert_eq!(proxy.find(FIRST, "whale").await.unwrap().len(), 20);
    assert_eq!(proxy.find(SECOND, "gull").await.unwrap(), NOTHING);
}

/// A host that ends in the midst of a removal, compaction included, is honest: whoever goes on, goes on.
#[tokio::test]
async fn a_host_that_ends_in_a_removal_is_not_taken_for_one_that_was_set_back() {
    for messages in 0.. {
        let machine = Machine::new();
        let proxy = Proxy::new(&machine);
        for row in 0..3 {
            proxy.tell(FIRST, row, "whale ship").await.unwrap();
        }
        proxy.tell(SECOND, 7, "gull").await.unwrap();
        machine.end_after(messages, None);
        let removed = proxy.remove(FIRST).await;
        if machine.is_to_end() {
            removed.unwrap();
            assert!(messages > 10, "{messages}");
            return;
        }
        assert!(removed.as_ref().err().is_none_or(|error| error.fault == Fault::Unreachable), "{removed:?}");
        let started = Proxy::started(&machine, proxy.0.acknowledged());
        for proxy in [&proxy, &started] {
            assert_eq!(proxy.find(SECOND, "gull").await.unwrap(), [7], "after {messages} messages");
            proxy.remove(FIRST).await.unwrap();
            assert_eq!(proxy.find(FIRST, "whale").await.unwrap(), NOTHING);
        }
    }
}

#[tokio::test]
async fn what_was_set_back_is_taken_again_once_all_was_forgotten() {
    let machine = Machine::new();
    let proxy = Proxy::new(&machine);
    proxy.tell(FIRST, 1, "gull").await.unwrap();
    let before = machine.disk();
    proxy.tell(FIRST, 2, "whale").await.unwrap();
    machine.set_disk(before);
    is_set_back(proxy.tell(FIRST, 3, "whale").await);
    is_set_back(proxy.0.ready().await);
    proxy.0.expect(0, 0);
    proxy.0.ready().await.unwrap();
    proxy.tell(SECOND, 4, "ship").await.unwrap();
    // From there on, too, nothing may be lost.
    let before = machine.disk();
    proxy.tell(SECOND, 5, "ship").await.unwrap();
    machine.set_disk(before);
    is_set_back(proxy.find(SECOND, "ship").await);
}

#[tokio::test]
async fn what_was_replaced_is_removed_from_the_storage_behind_later_changes() {
    let machine = Machine::new();
    let proxy = Proxy::new(&machine);
    let words: String = (0..40).map(|word| format!("w{word} ")).collect();
    let mut most = 0;
    for round in 0..400_u32 {
        proxy.tell(FIRST, 1, &format!("{words} r{round}")).await.unwrap();
        // What is done beside has its turn.
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        most = most.max(machine.entries());
    }
    // 400 versions of 42 entries were stored.
    assert!(machine.puts() > 16_000, "{}", machine.puts());
    assert!(most < 10_000 && machine.entries() < 8_000, "{most}, {}", machine.entries());
    assert_eq!(proxy.find(FIRST, "w1 r399").await.unwrap(), [1]);
    assert_eq!(proxy.find(FIRST, "r398").await.unwrap(), NOTHING);
    // Another proxy finds what this one has left.
    let other = Proxy::started(&machine, proxy.0.acknowledged());
    assert_eq!(other.find(FIRST, "r399").await.unwrap(), [1]);
}
