//! `arras-lab` as a person runs it: good input, and every kind of bad input.

#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::process::{Command, Output};

fn lab(directory: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_arras-lab")).current_dir(directory).args(arguments).output().unwrap()
}

/// The one line on standard error, of input that is refused before any work.
fn refused(directory: &Path, arguments: &[&str]) -> String {
    let output = lab(directory, arguments);
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {text}");
    assert!(output.stdout.is_empty(), "{arguments:?}");
    assert_eq!(text.lines().count(), 1, "{arguments:?}: {text}");
    text.trim_end().to_owned()
}

fn small<'a>(more: &[&'a str]) -> Vec<&'a str> {
    let mut arguments = vec!["run", "--protocol", "plain", "--records", "200", "--queries", "5"];
    arguments.extend(more);
    arguments
}

#[test]
fn a_run_prints_tables() {
    let directory = tempfile::tempdir().unwrap();
    let output = lab(directory.path(), &small(&["--dataset", "salaries", "--query-share", "2%"]));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}");
    assert!(text.starts_with("200 records (salaries), 5 queries, pages of 4096 bytes"), "{text}");
    assert!(text.contains("construction") && text.contains("first query"), "{text}");
}

#[test]
fn json_lines_replay_from_the_seed_and_a_plot_is_drawn() {
    let directory = tempfile::tempdir().unwrap();
    let line = || {
        let arguments = small(&["--seed", "7", "--json", "--plot", "costs.svg", "--cache-policy", "lfu"]);
        let output = lab(directory.path(), &arguments);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8(output.stdout).unwrap();
        assert_eq!(text.lines().count(), 1);
        serde_json::from_str::<serde_json::Value>(&text).unwrap()
    };
    let (one, other) = (line(), line());
    assert_eq!(one["request"]["seed"], 7);
    for stage in 0..3 {
        let cost =
            |line: &serde_json::Value, what: &str| line["result"]["stages"][stage]["cost"][what].clone();
        for what in ["pages", "traffic", "client_primitives", "server_primitives", "scheme"] {
            assert_eq!(cost(&one, what), cost(&other, what), "{what}");
        }
        assert!(cost(&one, "traffic")["messages"].as_u64().unwrap() > 0);
    }
    let plot = std::fs::read_to_string(directory.path().join("costs.svg")).unwrap();
    assert!(plot.starts_with("<svg") && plot.contains("No encryption"));
}

#[test]
fn data_and_queries_come_from_files() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("pay.csv"), "name,pay\nA,10.5\nB,-3\nC,7\n").unwrap();
    std::fs::write(directory.path().join("q.csv"), "lower,upper\n-3,7\n8,9\n").unwrap();
    let arguments = ["run", "--protocol", "plain", "--data", "pay.csv", "--column", "pay", "--decimals", "1"];
    let output = lab(directory.path(), &[&arguments[..], &["--ranges", "q.csv", "--json"]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let line: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let found: Vec<u64> = line["result"]["queries"]
        .as_array()
        .unwrap()
        .iter()
        .map(|query| query["results"].as_u64().unwrap())
        .collect();
    assert_eq!(found, [2, 0]);
}

#[test]
fn bad_options_are_one_clear_line() {
    let directory = tempfile::tempdir().unwrap();
    for (more, expected) in [
        (&["--protocol", "plian"][..], "arras lab: protocols: no protocol is named plian; there are: plain,"),
        (&["--cache-pages", "0"], "arras lab: cache_pages: a cache of no page"),
        (
            &["--page-bytes", "10"],
            "arras lab: page_bytes: a page of 10 bytes is smaller than an entry: plain",
        ),
        (&["--dataset", "pareto"], "arras lab: --dataset pareto: there are: uniform, normal,"),
        (&["--numbers", "i8"], "arras lab: --numbers i8: there are: i32, u32, i64, u64"),
        (&["--query-share", "0"], "arras lab: --query-share 0: a share such as 0.5%"),
        (&["--query-share", "101%"], "arras lab: --query-share 101%"),
        (&["--cache-policy", "mru"], "arras lab: --cache-policy mru: there are: lru, lfu, fifo"),
        (&["--store", "tape"], "arras lab: --store tape: there are: memory, embedded"),
        (&["--query-size", "bytes"], "arras lab: --query-size bytes: there are: records, values"),
        (&["--data", "absent.csv"], "arras lab: absent.csv: No such file"),
        (&["--plot", "absent/costs.svg"], "arras lab: --plot: there is no directory absent"),
    ] {
        let line = refused(directory.path(), &small(more));
        assert!(line.starts_with(expected), "{more:?}: {line}");
    }
}

#[test]
fn bad_files_are_named_by_line_and_column() {
    let directory = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(directory.path().join(name), text).unwrap();
    write("d.csv", "a,b\n1,2\n3,x4\n");
    write("big.csv", "1\n5000000000\n");
    write("q.csv", "1,2\n4,3\n");
    let base = ["run", "--protocol", "plain"];
    let line = |more: &[&str]| refused(directory.path(), &[&base, more].concat());
    assert_eq!(line(&["--data", "d.csv", "--column", "b"]), "arras lab: d.csv:3:2: \"x4\" is not a number");
    assert_eq!(
        line(&["--data", "big.csv"]),
        "arras lab: big.csv:2:1: 5000000000 is outside i32 (-2147483648 to 2147483647)"
    );
    assert_eq!(line(&["--ranges", "q.csv"]), "arras lab: q.csv:2: the lower bound is above the upper one");
}

#[test]
fn mistakes_in_usage_are_told() {
    let directory = tempfile::tempdir().unwrap();
    for arguments in [&["run"][..], &["run", "--protocol", "plain", "--records", "many"], &["walk"]] {
        let output = lab(directory.path(), arguments);
        assert_eq!(output.status.code(), Some(2));
        assert!(String::from_utf8_lossy(&output.stderr).contains("try '--help'"));
    }
}

fn attack<'a>(more: &[&'a str]) -> Vec<&'a str> {
    let mut arguments =
        vec!["attack", "--attack", "nkw_sorting", "--protocol", "bplus_clww", "--records", "120"];
    arguments.extend(more);
    arguments
}

#[test]
fn an_attack_prints_rates_beside_a_baseline_and_costs() {
    let directory = tempfile::tempdir().unwrap();
    let output = lab(directory.path(), &attack(&["--dataset", "zipf", "--plot", "rates.svg"]));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.starts_with("120 records (zipf), seed 1"), "{text}");
    assert!(text.contains("nkw_sorting (Naveed, Kamara, Wright, CCS 2015)"), "{text}");
    assert!(text.contains("values from 1 to 40: the records' least and greatest, told to it"), "{text}");
    assert!(
        text.contains("assumes: the least and the greatest value; every value between them occurs"),
        "{text}"
    );
    assert!(!text.contains("within 1%  "), "of 40 values only the right one is within a hundredth: {text}");
    let plot = std::fs::read_to_string(directory.path().join("rates.svg")).unwrap();
    assert!(plot.starts_with("<svg") && plot.contains("nkw_sorting, bplus_clww"));
}

#[test]
fn attacks_on_own_data_with_own_auxiliary_data_give_json_lines() {
    let directory = tempfile::tempdir().unwrap();
    let numbers = |from: i64| (from..from + 40).map(|number| format!("{number}\n")).collect::<String>();
    std::fs::write(directory.path().join("d.csv"), numbers(0)).unwrap();
    std::fs::write(directory.path().join("a.csv"), numbers(5)).unwrap();
    let arguments = ["attack", "--attack", "nkw_sorting,nkw_cumulative", "--protocol", "bplus_bclo"];
    let files = ["--data", "d.csv", "--auxiliary", "a.csv", "--json"];
    let output = lab(directory.path(), &[&arguments[..], &files].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 2);
    assert_eq!(lines[0]["result"]["records"], 40);
    assert_eq!(lines[0]["result"]["score"]["exact"], 1.0);
    assert!(lines[0]["result"]["cost"]["bytes"].as_f64().unwrap() > 0.0);
    assert!(
        lines[1]["result"]["knowledge"].as_str().unwrap().contains("auxiliary data: 40 values, supplied")
    );
}

/// One figure for one cell, wherever it is shown, and one mark for what is up to a reflection.
#[test]
fn tables_plots_and_json_say_the_same() {
    let directory = tempfile::tempdir().unwrap();
    let arguments = [
        "attack",
        "--attack",
        "kkno_access,nkw_sorting",
        "--protocol",
        "bplus_clww,kerschbaum_tueno",
        "--dataset",
        "uniform",
        "--records",
        "600",
        "--queries",
        "40",
        "--plot",
        "rates.svg",
    ];
    let output = |more: &[&str]| {
        let output = lab(directory.path(), &[&arguments[..], more].concat());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let (text, json) = (output(&[]), output(&["--json"]));
    let plot = std::fs::read_to_string(directory.path().join("rates.svg")).unwrap();
    for line in json.lines() {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        let result = &line["result"];
        let percent = |of: &str, name: &str| match result[of][name].as_f64().unwrap() * 100.0 {
            0.0 => "0".to_owned(),
            ..0.1 => panic!("of 600 records one is more"),
            number @ ..1.0 => format!("{number:.2}"),
            number => format!("{number:.1}"),
        };
        let mark = if result["up_to"].is_null() { "" } else { "*" };
        let name = format!("{}{mark}", result["attack"].as_str().unwrap());
        let protocol = result["protocol"].as_str().unwrap();
        let row = text.lines().find(|row| {
            let mut words = row.split_whitespace();
            words.next() == Some(&name) && words.next() == Some(protocol)
        });
        let row = row.unwrap_or_else(|| panic!("{name} {protocol}: {text}"));
        for of in ["exact", "close"] {
            let cell = format!("{} ({})", percent("score", of), percent("baseline", of));
            assert!(row.contains(&cell), "{cell}: {row}");
        }
        let drawn = format!("{name}, {protocol}, attack: {}.", percent("score", "exact"));
        assert!(plot.contains(&drawn), "{drawn}");
        assert_eq!(result["as_guessed"].is_null(), mark.is_empty());
    }
    assert!(text.contains("kkno_access* against bplus_clww: up to reflection; as guessed: exact"), "{text}");
    assert!(
        text.contains("nkw_sorting* against kerschbaum_tueno: up to rotation; as guessed: exact"),
        "{text}"
    );
}

#[test]
fn data_are_split_by_a_column_and_a_warning_says_what_rows_share() {
    let directory = tempfile::tempdir().unwrap();
    let rows: String = (0..300).map(|row| format!("p{},{}\n", row / 3, row / 3 * 5)).collect();
    std::fs::write(directory.path().join("d.csv"), format!("who,pay\n{rows}")).unwrap();
    let run = |more: &[&str]| {
        let arguments = ["attack", "--attack", "nkw_sorting", "--protocol", "bplus_clww", "--data", "d.csv"];
        let output = lab(directory.path(), &[&arguments[..], &["--column", "pay"], more].concat());
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    let (text, told) = run(&["--group", "who"]);
    assert!(text.contains("split by who), seed 1; 0% of them have a value"), "{text}");
    assert!(!told.contains("warning"), "{told}");
    let (_, told) = run(&[]);
    assert!(told.contains("warning: values repeat, and ") && told.contains("(--group)"), "{told}");
    let line = refused(
        directory.path(),
        &["attack", "--attack", "all", "--data", "d.csv", "--column", "pay", "--group", "whom"],
    );
    assert_eq!(line, "arras lab: d.csv:1: no column is named whom; the first line has: who, pay");
}

#[test]
fn bad_attacks_are_one_clear_line() {
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("bad.csv"), "1\nx\n").unwrap();
    for (more, expected) in [
        (
            &["--attack", "guess"][..],
            "arras lab: attacks: no attack is named guess; there are: nkw_frequency,",
        ),
        (&["--protocol", "popes"], "arras lab: protocols: no protocol is named popes; there are: plain,"),
        (&["--dataset", "pareto"], "arras lab: --dataset pareto: there are: uniform, normal,"),
        (&["--numbers", "i8"], "arras lab: --numbers i8: there are: i32, u32, i64, u64"),
        (&["--queries", "0"], "arras lab: queries: 1 to 1000000 queries"),
        (&["--auxiliary", "absent.csv"], "arras lab: absent.csv: No such file"),
        (&["--auxiliary", "bad.csv"], "arras lab: bad.csv:2:1: \"x\" is not a number"),
        (&["--plot", "absent/rates.svg"], "arras lab: --plot: there is no directory absent"),
    ] {
        let line = refused(directory.path(), &attack(more));
        assert!(line.starts_with(expected), "{more:?}: {line}");
    }
    let line = refused(directory.path(), &["attack", "--attack", "grubbs_clww", "--protocol", "pope"]);
    assert_eq!(line, "arras lab: protocols: grubbs_clww works against: bplus_clww");
}

#[test]
fn an_interrupted_run_leaves_what_it_finished() {
    let directory = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_arras-lab"));
    // Comparisons of pairings: it begins at once and takes minutes.
    let arguments =
        ["run", "--protocol", "bplus_cloz", "--records", "5000", "--page-bytes", "8192", "--json"];
    command.current_dir(directory.path()).args(arguments);
    let mut child =
        command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn().unwrap();
    // Long enough for the handler to be there; the run itself takes much longer.
    std::thread::sleep(std::time::Duration::from_secs(8));
    assert!(child.try_wait().unwrap().is_none(), "it is not to have ended by itself");
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    let line: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(line["result"]["ending"], "stopped");
    assert!(line["result"]["stages"][0]["operations"].as_u64().unwrap() > 0);
    assert!(String::from_utf8_lossy(&output.stderr).contains("stopped; what was finished is above"));
}
