//! PostgreSQL's own programs through the proxy: what they print is what they print without it.

use crate::proxy::{Proxy, outputs};
use arras_lab::private_postgres::PrivatePostgres;
use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

/// Statements as a person types them, mistakes among them. Errors, notices and positions are PostgreSQL's.
const SESSION: &str = r"
\set VERBOSITY verbose
\set SHOW_CONTEXT always
CREATE TABLE people (id int PRIMARY KEY, name text NOT NULL, born date);
CREATE INDEX ON people (name);
\d people
\d
INSERT INTO people VALUES (1, 'Ann', '1970-01-02'), (2, 'Bob', NULL) RETURNING *;
INSERT INTO people VALUES (1, 'Eve', NULL);
SELECT nam FROM people;
SELECT 1; SELECT 1/0; SELECT 2;
SELECT * FROM people ORDER BY id \gx
DO $$ BEGIN RAISE NOTICE 'noticed %', 7 USING HINT = 'a hint'; END $$;
\copy people FROM PROGRAM 'printf ''3\tCid\t\\N\n4\tDan\t1999-12-31\n'''
\copy people FROM PROGRAM 'printf ''5\tEli\tnever\n'''
\copy people TO STDOUT CSV HEADER
COPY people (id) TO STDOUT;
BEGIN;
UPDATE people SET name = upper(name) WHERE id < 3;
SAVEPOINT s;
SELECT broken;
SELECT 1;
ROLLBACK TO s;
COMMIT;
SELECT count(*), string_agg(name, ',' ORDER BY id) FROM people;
SET application_name = 'other';
SHOW application_name;
PREPARE p (int) AS SELECT name FROM people WHERE id = $1;
EXECUTE p (2);
EXECUTE p ('x');
DECLARE c CURSOR FOR SELECT 1;
SELECT E'\n' || repeat('x', 100000) AS long \g /dev/null
SELECT;
;
\bind 4
SELECT name FROM people WHERE id = $1 \g
\echo :SQLSTATE :ROW_COUNT
DROP TABLE people;
";

/// What psql ends with and prints, on its two streams, of a session that it shows as it goes.
pub(crate) fn typed(server: &PrivatePostgres, uri: &str, session: &str) -> (Option<i32>, String, String) {
    let mut psql = server.command("psql");
    psql.args(["-X", "-a", "-f", "-", uri]);
    let mut child = psql.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(session.as_bytes()).unwrap();
    let ended = child.wait_with_output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (ended.status.code(), text(ended.stdout), text(ended.stderr))
}

#[test]
fn psql_prints_what_it_prints_without_the_proxy() {
    let server = PrivatePostgres::start().unwrap();
    let proxy = Proxy::start(&server);
    let direct = typed(&server, &server.uri("postgres"), SESSION);
    let through = typed(&server, &proxy.uri("postgres"), SESSION);
    assert!(direct.1.contains(" born   | date"), "{}", direct.1);
    for part in
        ["LINE 1: SELECT nam FROM people", "22P02", "division by zero", "noticed 7", "invalid input syntax"]
    {
        assert!(direct.2.contains(part), "{part}: {}", direct.2);
    }
    assert_eq!(through, direct);
}

/// pgbench's own tables and script, in each of its protocols.
#[test]
fn pgbench_runs_its_own_script_in_every_protocol() {
    let server = PrivatePostgres::start().unwrap();
    let proxy = Proxy::start(&server);
    let mut fill = server.command("pgbench");
    fill.args(["-i", "-q", "-s", "1", &proxy.uri("postgres")]);
    let (filled, _, errors) = outputs(fill);
    assert!(filled, "{errors}");
    for protocol in ["simple", "extended", "prepared"] {
        for script in [&["-S"][..], &[]] {
            let mut run = server.command("pgbench");
            run.args(["-n", "-c", "4", "-t", "50", "-M", protocol]).args(script).arg(proxy.uri("postgres"));
            let (ended, said, errors) = outputs(run);
            assert!(ended, "{protocol} {script:?}: {errors}");
            assert!(said.contains("number of transactions actually processed: 200/200"), "{said}");
            assert!(!said.contains("number of failed transactions: 1"), "{said}");
        }
    }
    let mut sums = server.command("psql");
    let invariant = "SELECT (SELECT sum(delta) FROM pgbench_history) = (SELECT sum(abalance) FROM pgbench_accounts), \
        (SELECT count(*) FROM pgbench_history)";
    sums.args(["-XAtc", invariant, &server.uri("postgres")]);
    assert_eq!(outputs(sums).1.trim(), "t|600");
}

/// Ctrl-C ends the statement.
#[test]
fn an_interrupt_cancels_what_psql_runs() {
    let server = PrivatePostgres::start().unwrap();
    let proxy = Proxy::start(&server);
    let mut psql = server.command("psql");
    psql.args(["-X", "-A", "-t", &proxy.uri("postgres")]);
    let mut child = psql.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let mut said = BufReader::new(child.stdout.take().unwrap()).lines();
    writeln!(input, "SELECT 'begun';").unwrap();
    assert_eq!(said.next().unwrap().unwrap(), "begun");
    writeln!(input, "SELECT pg_sleep(3600);").unwrap();
    let sleeping = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep'";
    let ask = || {
        let mut ask = server.command("psql");
        ask.args(["-XAtc", sleeping, &server.uri("postgres")]);
        outputs(ask).1.trim().to_owned()
    };
    while ask() != "1" {
        std::thread::yield_now();
    }
    let id = nix::unistd::Pid::from_raw(child.id().cast_signed());
    nix::sys::signal::kill(id, nix::sys::signal::Signal::SIGINT).unwrap();
    drop(input);
    let ended = child.wait_with_output().unwrap();
    let errors = String::from_utf8(ended.stderr).unwrap();
    // A psql that reads from no terminal ends with that.
    assert!(errors.contains("canceling statement due to user request"), "{errors}");
    assert_eq!(ask(), "0");
}
