//! A database that was set back under the proxy.

use super::world::{Model, World};
use arras_postgres::mope::{Column, FileHeads, Heads, Protocol, Watched};
use arras_protocol::mope::{Fetch, Head, TreeStore};
use arras_protocol::{ChannelError, Refusal};
use std::process::Command;
use std::sync::Arc;

fn copy(from: &std::path::Path, to: &std::path::Path) {
    let done = Command::new("cp").arg("-a").arg(from).arg(to).status().unwrap();
    assert!(done.success());
}

#[tokio::test]
async fn a_database_from_a_backup_is_refused_until_it_is_what_was_acknowledged() {
    let folder = tempfile::tempdir().unwrap();
    let mut world = World::new(Protocol::Mope).await;
    let heads = || Arc::new(FileHeads::new(folder.path().to_owned()));
    let watched = |world: &World| Watched::new(world.tables(), world.column, heads());
    let mut model = Model::store(&watched(&world), &[("a", 10)]).await;
    world.server.stop().unwrap();
    let (data, backup) = (world.server.data(), world.server.data().with_extension("backup"));
    copy(&data, &backup);
    world.server.restart().unwrap();
    let proxy = watched(&world);
    // Rounds that change nothing are sent again where the connection of before is gone.
    assert_eq!(proxy.fetch(Fetch::default()).await.unwrap().head, model.head);
    assert!(proxy.commit(model.change(Vec::new(), &[("b", 20)], &[])).await.unwrap());
    world.server.stop().unwrap();
    std::fs::rename(&data, data.with_extension("newer")).unwrap();
    copy(&backup, &data);
    world.server.restart().unwrap();
    // The one that was there, and one that starts now.
    for proxy in [proxy, watched(&world)] {
        let refused = proxy.fetch(Fetch::default()).await.unwrap_err();
        assert!(matches!(refused, ChannelError::Refused(Refusal::SetBack)), "{refused}");
    }
    // Another history up to the same version is another tree.
    let other = world.tables();
    let mut forged = model.clone();
    forged.head.version = 1;
    let mut change = forged.change(Vec::new(), &[("c", 30)], &[]);
    change.head.digest = [99; 32];
    change.head.values = 2;
    assert!(other.commit(change).await.unwrap());
    let refused = watched(&world).fetch(Fetch::default()).await.unwrap_err();
    assert!(refused.to_string().contains("not the one that was acknowledged"), "{refused}");
    world.server.stop().unwrap();
    std::fs::remove_dir_all(&data).unwrap();
    std::fs::rename(data.with_extension("newer"), &data).unwrap();
    world.server.restart().unwrap();
    assert_eq!(watched(&world).fetch(Fetch::default()).await.unwrap().head, model.head);
}

#[test]
fn what_is_kept_comes_back_and_a_damaged_file_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let heads = FileHeads::new(folder.path().to_owned());
    let column = Column::from([7; 8]);
    assert_eq!(heads.load(column).unwrap(), None);
    let of = |version| Head { version, root: 2, next: 3, values: 4, digest: [5; 32] };
    for version in [1, 2, 7, u64::MAX] {
        heads.save(column, &of(version)).unwrap();
        assert_eq!(heads.load(column).unwrap(), Some(of(version)));
    }
    // Another process goes on where this one was, over the older record.
    drop(heads);
    let heads = FileHeads::new(folder.path().to_owned());
    assert_eq!(heads.load(column).unwrap(), Some(of(u64::MAX)));
    let file = std::fs::read_dir(folder.path()).unwrap().next().unwrap().unwrap().path();
    let whole = std::fs::read(&file).unwrap();
    // Of a record that did not get to the disk whole, the one before is left.
    let newest = whole.len() - 68;
    for cut in [newest, newest + 1, newest + 40, whole.len() - 1] {
        std::fs::write(&file, &whole[..cut]).unwrap();
        assert_eq!(heads.load(column).unwrap(), Some(of(7)), "cut at {cut}");
    }
    for altered in [vec![1; 63], vec![1; whole.len()]] {
        std::fs::write(&file, altered).unwrap();
        assert!(heads.load(column).is_err());
    }
}
