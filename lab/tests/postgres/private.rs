//! A private PostgreSQL is what its users take it for.

use arras_lab::private_postgres::PrivatePostgres;
use std::path::Path;

/// What a statement returns, as `psql` prints it.
fn query(server: &PrivatePostgres, statement: &str) -> String {
    let run = server.command("psql").args(["-XAtqc", statement, &server.uri("postgres")]).output().unwrap();
    assert!(run.status.success(), "{statement}: {}", String::from_utf8_lossy(&run.stderr));
    String::from_utf8(run.stdout).unwrap().trim().to_owned()
}

#[test]
fn what_was_committed_outlives_a_kill_and_the_folder_goes_in_the_end() {
    let mut server = PrivatePostgres::start().unwrap();
    query(&server, "CREATE TABLE kept (n int); INSERT INTO kept VALUES (7)");
    server.kill().unwrap();
    assert!(
        server
            .command("psql")
            .args(["-c", "SELECT 1", &server.uri("postgres")])
            .output()
            .is_ok_and(|run| !run.status.success())
    );
    server.restart().unwrap();
    assert_eq!(query(&server, "SELECT n FROM kept"), "7");
    let backend = "SELECT pid FROM pg_stat_activity WHERE backend_type = 'walwriter'";
    server.kill_backend(query(&server, backend).parse().unwrap()).unwrap();
    server.restart().unwrap();
    assert_eq!(query(&server, "SELECT n FROM kept"), "7");
    let folder = server.socket_folder().to_owned();
    drop(server);
    assert!(!Path::new(&folder).exists());
}

/// A number of the segment of shared memory by which a server knows that another one has its folder.
fn segment(server: &PrivatePostgres) -> String {
    let file = std::fs::read_to_string(server.data().join("postmaster.pid")).unwrap();
    file.lines().nth(6).unwrap().split_whitespace().nth(1).unwrap().to_owned()
}

fn is_there(segment: &str) -> bool {
    let segments = std::fs::read_to_string("/proc/sysvipc/shm").unwrap();
    segments.lines().any(|line| line.split_whitespace().nth(1) == Some(segment))
}

/// A machine has a few thousand of them, and none goes by itself.
#[test]
fn no_shared_memory_is_left_of_one_that_ran_and_of_one_that_was_killed() {
    for is_killed in [false, true] {
        let mut server = PrivatePostgres::start().unwrap();
        let segment = segment(&server);
        assert!(is_there(&segment));
        if is_killed {
            server.kill().unwrap();
        }
        drop(server);
        assert!(!is_there(&segment), "killed: {is_killed}");
    }
}

#[test]
fn several_run_beside_one_another() {
    let servers = [PrivatePostgres::start().unwrap(), PrivatePostgres::start().unwrap()];
    let ports = servers.each_ref().map(|server| query(server, "SHOW port"));
    assert_ne!(ports[0], ports[1]);
    assert_eq!(ports[0], servers[0].port().to_string());
}
