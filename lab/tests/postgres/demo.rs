//! `arras postgres demo`, as a person runs it: fewer rows, the same statements.

use crate::dev::executable;
use std::process::Command;

#[test]
fn every_statement_has_an_answer_a_plan_what_postgresql_saw_and_what_it_leaks() {
    let run = Command::new(executable("arras")).args(["postgres", "demo", "--rows", "400"]).output().unwrap();
    let text = String::from_utf8_lossy(&run.stdout).into_owned() + &String::from_utf8_lossy(&run.stderr);
    assert!(run.status.success(), "{text}");
    let (_, statements) = text.split_once("  1. ").expect("a first statement");
    let shown: Vec<&str> = statements.split("\n\n").filter(|one| one.contains("answer ")).collect();
    assert!(shown.len() >= 10, "{text}");
    for one in &shown {
        // Refused by the proxy, it never came to the database.
        let is_refused = one.contains("is refused, not guessed");
        let verdict = if is_refused { "refused by the proxy" } else { "= plaintext" };
        assert!(one.contains(verdict) && one.contains(" ms"), "{one}");
        assert_eq!(one.contains("PostgreSQL saw"), !is_refused, "{one}");
        assert_eq!(one.contains("plan "), !is_refused, "{one}");
        assert!(!one.contains("arras.mark") && !one.contains("EXPLAIN"), "{one}");
    }
    let of_all = |what: &str| shown.iter().filter(|one| one.contains(what)).count();
    assert!(of_all("leaks ") >= 5, "{text}");
    assert!(of_all("Index Scan") + of_all("Bitmap") >= 1, "{text}");
    let answered = shown.len() - 1;
    let summary = format!(
        "{answered} of {answered} answers are the plaintext's; 1 of 1 statements that the schema does not allow were refused"
    );
    assert!(text.contains(&summary), "{text}");
    // What is written is seen, and what that shows said.
    let writes = shown.iter().filter(|one| one.contains("statement ") && one.contains("UPDATE people"));
    for one in writes {
        assert!(one.contains("PostgreSQL saw") && one.contains("SET \"visits"), "{one}");
        assert!(one.contains(", by the change: "), "{one}");
    }
    assert!(of_all(", by the change: ") >= 2, "{text}");
}

#[test]
fn where_there_is_no_postgresql_the_demonstration_says_so_and_fails() {
    let mut command = Command::new(executable("arras"));
    let run = command.args(["postgres", "demo"]).env("ARRAS_POSTGRES_BIN", "/nowhere").output().unwrap();
    let text = String::from_utf8_lossy(&run.stderr).into_owned();
    assert!(!run.status.success() && text.contains("ARRAS_POSTGRES_BIN: has no initdb"), "{text}");
}
