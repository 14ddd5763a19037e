//! A server that lies about the tree, or about entries.

use super::Encoded;
use crate::body::{Item, Pair, entries};
use crate::world::{INDEX, Reply, World, memory, run};
use arras_protocol::Order;
use arras_protocol::mope::index::{Mope, Request, Response};
use arras_protocol::mope::{Fetch, Head};
use arras_protocol::ore::Width;
use arras_protocol::{Channel, codec};
use arras_schemes::IndexError;
use arras_schemes::mope::Kind;
use arras_schemes::ore::domain::plaintext_key;
use arras_schemes::traits::RangeIndex;
use arras_storage::{Failing, Memory};
use std::sync::{Arc, Mutex};

const FORMS: [Encoded; 2] =
    [Encoded(Kind::Mope, Width::Bits32, true), Encoded(Kind::Stope, Width::Bits32, true)];

type Store = Failing<Memory>;
type Grown = Pair<arras_schemes::mope::index::Index<crate::world::Wire<Store>>>;

/// Values enough for a root and some leaves.
async fn grown(form: &Encoded) -> (World<Store>, Grown) {
    let world = memory();
    let pair = Pair::open(form, &world).await;
    let items: Vec<Item> = (0..150).map(|number| (u64::from(number) * 7 % 151, number)).collect();
    pair.insert(&items).await;
    (world, pair)
}

async fn head(world: &World<Store>) -> Head {
    let request = Request::Fetch { index: INDEX, fetch: Fetch::default() };
    match Channel::<Mope>::call(&world.wire, request).await.expect("a server") {
        Response::Fetched(fetched) => fetched.head,
        _ => panic!("not the answer to a fetch"),
    }
}

async fn found<I: RangeIndex>(
    index: &I,
    range: (u64, u64),
) -> Result<Vec<(Vec<u8>, arras_protocol::RowId)>, IndexError> {
    let [low, high] = [range.0, range.1].map(|value| plaintext_key(Width::Bits32, value));
    index.search(low, high, Order::Ascending, None).await
}

/// Tampers with replies about the tree; how many there were.
fn tamper(
    world: &World<Store>,
    mut lie: impl FnMut(usize, Response) -> Option<Vec<u8>> + Send + 'static,
) -> Arc<Mutex<usize>> {
    let count = Arc::new(Mutex::new(0));
    let counted = Arc::clone(&count);
    world.wire.set_tamper(Some(Box::new(move |reply| {
        let response: Response = codec::decode(&reply).expect("the server's own reply");
        if !matches!(response, Response::Fetched(_)) {
            return Reply::Bytes(reply);
        }
        let mut count = counted.lock().expect("no test panicked here");
        *count += 1;
        Reply::Bytes(lie(*count - 1, response).unwrap_or(reply))
    })));
    count
}

#[test]
fn every_byte_of_the_tree_is_verified() {
    run(async {
        for form in &FORMS {
            let (world, pair) = grown(form).await;
            let acknowledged = head(&world).await;
            let mut found_out = 0;
            'reply: for which in 0.. {
                for byte in 0.. {
                    let last = Arc::new(Mutex::new(false));
                    let is_last = Arc::clone(&last);
                    let replies = tamper(&world, move |count, response| {
                        let mut bytes = codec::encode(&response);
                        if count == which {
                            *is_last.lock().expect("no test panicked here") = byte + 1 >= bytes.len();
                            if let Some(altered) = bytes.get_mut(byte) {
                                *altered ^= 1 << (byte % 8);
                            }
                        }
                        Some(bytes)
                    });
                    let index =
                        form.reopen(world.wire.clone(), Some(acknowledged)).await.expect("no request");
                    match found(&index, (70, 80)).await {
                        Ok(found) => pair.compare(&found, (70, 80), Order::Ascending, None).await,
                        Err(_) => found_out += 1,
                    }
                    if *replies.lock().expect("no test panicked here") <= which {
                        break 'reply;
                    }
                    if *last.lock().expect("no test panicked here") {
                        break;
                    }
                }
            }
            world.wire.set_tamper(None);
            assert!(found_out > 1000, "{found_out}");
            pair.check_all().await;
        }
    });
}

#[test]
fn nodes_that_are_old_swapped_or_left_out_are_found_out() {
    run(async {
        for form in &FORMS {
            let (world, pair) = grown(form).await;
            let old = head(&world).await;
            let kept = Arc::new(Mutex::new(Vec::new()));
            let keep = Arc::clone(&kept);
            let _ = tamper(&world, move |_, response| {
                keep.lock().expect("no test panicked here").push(codec::encode(&response));
                None
            });
            // Two leaves in one reply.
            let index = form.reopen(world.wire.clone(), Some(old)).await.expect("no request");
            pair.compare(
                &found(&index, (3, 140)).await.expect("an honest server"),
                (3, 140),
                Order::Ascending,
                None,
            )
            .await;
            let kept = std::mem::take(&mut *kept.lock().expect("no test panicked here"));
            let lies: [fn(&mut Vec<Option<arras_protocol::Blob>>); 3] = [
                |nodes| nodes.reverse(),
                |nodes| nodes.iter_mut().for_each(|node| *node = None),
                |nodes| drop(nodes.pop()),
            ];
            for (number, lie) in lies.into_iter().enumerate() {
                let _ = tamper(&world, move |_, response| {
                    let Response::Fetched(mut fetched) = response else { return None };
                    lie(&mut fetched.nodes);
                    Some(codec::encode(&Response::Fetched(fetched)))
                });
                let index = form.reopen(world.wire.clone(), Some(old)).await.expect("no request");
                let lied_to = found(&index, (3, 140)).await;
                assert!(lied_to.is_err(), "lie {number}: {lied_to:?}");
                assert!(
                    index.insert(entries(Width::Bits32, &[(5, 240), (139, 241)])).await.is_err(),
                    "lie {number}"
                );
            }
            world.wire.set_tamper(None);
            // Another version, then the old one again, whole.
            pair.insert(&[(200, 250)]).await;
            let newer = head(&world).await;
            let mut replies = kept.into_iter().cycle();
            let _ = tamper(&world, move |_, _| replies.next());
            let index = form.reopen(world.wire.clone(), Some(newer)).await.expect("no request");
            assert!(found(&index, (3, 140)).await.is_err());
            assert!(index.insert(entries(Width::Bits32, &[(201, 251)])).await.is_err());
            world.wire.set_tamper(None);
            pair.check_all().await;
        }
    });
}

#[test]
fn entries_that_are_moved_repeated_or_out_of_order_are_found_out() {
    run(async {
        for form in &FORMS {
            let (world, pair) = grown(form).await;
            // A second row, so that an entry can be moved to where its value has another.
            pair.insert(&[(70, 201), (71, 202)]).await;
            type Lie = fn(&mut Vec<arras_protocol::mope::index::Group>);
            let lies: [Lie; 6] = [
                |groups| groups.reverse(),
                |groups| groups.push(groups[groups.len() - 1].clone()),
                |groups| {
                    let sealed = groups[0].sealed.clone();
                    groups[0].sealed = std::mem::replace(&mut groups[1].sealed, sealed);
                },
                |groups| {
                    let moved = groups[0].sealed.0.split_off(32);
                    groups[1].sealed.0.extend(moved);
                },
                |groups| groups[0].sealed.0.rotate_left(32),
                |groups| groups[0].sealed.0.truncate(31),
            ];
            for (number, lie) in lies.into_iter().enumerate() {
                world.wire.set_tamper(Some(Box::new(move |reply| {
                    let response: Response = codec::decode(&reply).expect("the server's own reply");
                    let Response::Found { mut groups, more } = response else { return Reply::Bytes(reply) };
                    lie(&mut groups);
                    Reply::Bytes(codec::encode(&Response::Found { groups, more }))
                })));
                let lied_to = found(&pair.index, (70, 80)).await;
                assert!(lied_to.is_err(), "lie {number}: {lied_to:?}");
            }
            world.wire.set_tamper(None);
            pair.check_all().await;
        }
    });
}
