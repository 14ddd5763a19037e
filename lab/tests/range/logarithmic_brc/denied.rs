//! A server that denies lists: each one in turn, and all of an instance.

use super::{Parameters, loaded, small};
use crate::body::entries;
use crate::world::{INDEX, Wire, World, key, memory, prg, run};
use arras_protocol::Order;
use arras_protocol::logarithmic_brc::cjjkrs::SearchToken;
use arras_protocol::logarithmic_brc::{InstanceId, LogarithmicBrc as Protocol, Request, Response};
use arras_protocol::ore::Width;
use arras_protocol::{Channel, ChannelError, RowId};
use arras_schemes::IndexError;
use arras_schemes::logarithmic_brc::{Cover, LogarithmicBrc, Packing, Padding};
use arras_schemes::ore::domain::plaintext_key;
use arras_schemes::traits::{RangeIndex, SortedList};
use arras_storage::Storage;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

/// Which lists are denied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Denied {
    Nothing,
    /// The list asked for after so many others.
    List(usize),
    /// All lists of an instance.
    Instance(InstanceId),
    Everything,
}

#[derive(Debug)]
struct Denials {
    denied: Denied,
    /// Lists asked for.
    asked: usize,
    /// Instances asked for lists.
    instances: BTreeSet<InstanceId>,
}

/// A server that says of some lists that they are not there. It looks for others in their place, which it does not find.
struct Denying<S> {
    wire: Wire<S>,
    denials: Mutex<Denials>,
}

impl<S> Denying<S> {
    fn over(world: &World<S>) -> Arc<Self> {
        let denials = Denials { denied: Denied::Nothing, asked: 0, instances: BTreeSet::new() };
        Arc::new(Self { wire: world.wire.clone(), denials: Mutex::new(denials) })
    }

    /// What was asked for since the last time; from here on the server denies so much.
    fn deny(&self, denied: Denied) -> (usize, BTreeSet<InstanceId>) {
        let mut denials = self.denials.lock().expect("no test holds it and fails");
        denials.denied = denied;
        (std::mem::take(&mut denials.asked), std::mem::take(&mut denials.instances))
    }
}

impl<S: Storage> Channel<Protocol> for Denying<S> {
    async fn call(&self, mut request: Request) -> Result<Response, ChannelError> {
        let asked = match &mut request {
            Request::Search { asked, .. } | Request::Heads { asked, .. } => Some(asked),
            Request::Build { .. } | Request::Retain { .. } => None,
        };
        for lists in asked.into_iter().flatten() {
            let mut denials = self.denials.lock().expect("no test holds it and fails");
            denials.instances.insert(lists.instance);
            for token in &mut lists.tokens {
                let is_denied = match denials.denied {
                    Denied::Nothing => false,
                    Denied::List(number) => number == denials.asked,
                    Denied::Instance(instance) => instance == lists.instance,
                    Denied::Everything => true,
                };
                if is_denied {
                    *token = SearchToken([0xdd; 16]);
                }
                denials.asked += 1;
            }
        }
        Channel::<Protocol>::call(&self.wire, request).await
    }
}

/// Variants whose cells and covers differ.
fn variants() -> [Parameters; 4] {
    let basic = Parameters { packing: Packing::Basic, cover: Cover::Uniform, ..small(Width::Bits32) };
    [
        Parameters { domain_bits: 10, ..small(Width::Bits32) },
        small(Width::Bits64),
        Parameters { domain_bits: 12, padding: Padding::None, ..basic },
        Parameters { padding: Padding::Worst, domain_bits: 9, ..small(Width::Bits32) },
    ]
}

type Found = Vec<(Vec<u8>, RowId)>;

/// Searches with each denial in turn: an error or the true answer. How many were errors.
async fn deny_all<S: Storage>(
    width: Width,
    index: &LogarithmicBrc<Denying<S>>,
    server: &Denying<S>,
    truth: &SortedList,
) -> usize {
    let mut errors = 0;
    for (lower, upper) in [(0, 511), (1, 510), (3, 3), (100, 131), (17, 300), (255, 256), (64, 90), (5, 7)] {
        let [low, high] = [lower, upper].map(|value| plaintext_key(width, value));
        let search = async |order| index.search(low.clone(), high.clone(), order, None).await;
        let expected: Found =
            truth.search(low.clone(), high.clone(), Order::Ascending, None).await.expect("a list");
        server.deny(Denied::Nothing);
        assert_eq!(search(Order::Ascending).await.expect("an honest server"), expected);
        let (asked, instances) = server.deny(Denied::Nothing);
        let denials = (0..asked).map(Denied::List);
        let denials = denials.chain(instances.into_iter().map(Denied::Instance)).chain([Denied::Everything]);
        for denied in denials {
            server.deny(denied);
            match search(Order::Ascending).await {
                Ok(found) => assert_eq!(found, expected, "{denied:?} of {lower}..={upper}"),
                Err(IndexError::Peer(_)) => errors += 1,
                Err(other) => panic!("{denied:?}: {other:?}"),
            }
            assert!(denied != Denied::Everything || search(Order::Ascending).await.is_err());
        }
    }
    server.deny(Denied::Nothing);
    errors
}

#[test]
fn no_list_of_a_static_index_is_denied_unnoticed() {
    run(async {
        for parameters in variants() {
            let world = memory();
            let server = Denying::over(&world);
            let index = LogarithmicBrc::new(INDEX, parameters, &key(), Arc::clone(&server), prg(1));
            let index = index.expect("an empty index");
            let items: Vec<_> = (0..90).map(|number| (number * number % 389, number as u8)).collect();
            let truth = SortedList::default();
            truth.insert(entries(parameters.width, &items)).await.expect("a list does not fail");
            index.bulk_load(entries(parameters.width, &items)).await.expect("loads");
            let errors = deny_all(parameters.width, &index, &server, &truth).await;
            assert!(errors > 20, "{errors} of the denials were found out");
        }
    });
}

/// The newest instances have removals: denied, they would bring entries back.
#[test]
fn no_instance_is_denied_unnoticed() {
    run(async {
        for parameters in variants() {
            let width = parameters.width;
            let world = memory();
            let server = Denying::over(&world);
            let index = LogarithmicBrc::new(INDEX, parameters, &key(), Arc::clone(&server), prg(1));
            let index = index.expect("an empty index");
            let truth = SortedList::default();
            let items: Vec<_> = (0..160).map(|number| (number * 37 % 401, number as u8)).collect();
            let (kept, removed) = items.split_at(120);
            for part in [&items[..], &kept[..3]] {
                index.insert(entries(width, part)).await.expect("inserts");
                truth.insert(entries(width, part)).await.expect("a list does not fail");
            }
            for part in [&removed[..30], &removed[30..]] {
                index.remove(entries(width, part)).await.expect("removes");
                truth.remove(entries(width, part)).await.expect("a list does not fail");
            }
            assert!(index.instance_count().await > 1, "instances of lists beside each other");
            let errors = deny_all(width, &index, &server, &truth).await;
            assert!(errors > 40, "{errors} of the denials were found out");
        }
    });
}

/// What is denied of an index that has nothing in a range shows by the records beside the range.
#[test]
fn an_empty_range_is_shown_to_be_empty_in_one_more_trip() {
    run(async {
        let world = memory();
        let parameters = Parameters { domain_bits: 16, ..small(Width::Bits32) };
        let items: Vec<_> = (0..64).map(|number| (1000 + number * 64, number as u8)).collect();
        let pair = loaded(parameters, &world, &items).await;
        for (lower, upper) in
            [(0, 999), (1001, 1063), (1010, 1010), (3000, 3001), (6000, 65_535), (1032, 1040)]
        {
            world.wire.set_tamper(None);
            pair.check(lower, upper, Order::Ascending, None).await;
            assert!((1..=2).contains(&world.wire.calls()), "{} calls", world.wire.calls());
        }
    });
}
