//! What waits for its turn is counted, whatever it is.

use super::host::{ADMINISTRATOR, Disk, Host, To, without};
use arras_protocol::Blob;
use arras_protocol::codec::encoded_bytes;
use arras_protocol::iee::CLIENT_REQUESTS_MAX;
use arras_schemes::bisen::message::{Groups, Refused, Reply, Request, Rights, Settings};
use arras_schemes::bisen::query::Padding;

const MEMORY_BYTES: u64 = 16 << 20;

/// Requests that are longer than clients make them.
fn long() -> [Request; 4] {
    let name = "n".repeat(300_000);
    let settings = Settings { fields: 0, padding: Padding::None, profile: Blob(vec![1; 300_000]) };
    let groups = Groups::only(0..75_000);
    let rights = Rights { search: true, update: true, rank: true, fields: 0, groups };
    [
        Request::Create { name: "mail".into(), settings },
        Request::Grant { identity: "bob".into(), collection: "mail".into(), rights },
        Request::Revoke(name.clone()),
        Request::RevokeCertificate(Blob(name.into_bytes())),
    ]
}

#[test]
fn changes_that_wait_count_with_all_that_is_in_them() {
    for request in long() {
        let mut host = Host::with_memory(Disk::default(), MEMORY_BYTES).start();
        let ada = host.connect(1, ADMINISTRATOR);
        host.lie = without(To::Do);
        // It is under way for as long as the host says nothing.
        assert_eq!(host.try_call(ada, Request::Revoke("bob".into())), Ok(None));
        let (mut taken, mut refused) = (0, 0);
        for number in 2..32 {
            let client = host.connect(number, ADMINISTRATOR);
            for _ in 0..CLIENT_REQUESTS_MAX {
                match host.try_call(client, request.clone()).unwrap() {
                    None => taken += 1,
                    reply => {
                        assert_eq!(reply, Some(Reply::Refused(Refused::Busy)));
                        refused += 1;
                    }
                }
            }
        }
        assert!(taken > 0 && refused > 0, "{taken} of {}", taken + refused);
        assert!(taken * encoded_bytes(&request) < MEMORY_BYTES as usize, "{taken}");
    }
}
