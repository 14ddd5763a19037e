//! `arras-search serve` as a browser meets it: who is let in, what a page says, and a thousand who say nothing.

use crate::command::{index, search, write};
use crate::process::Process;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;

/// The page of a store: its process, address and the path that begins with the token.
fn serve(folder: &Path) -> (Process, String, String) {
    let (process, said) = Process::start(search(folder, "serve", &[]), &folder.join("log"));
    let url = said.split(' ').next().unwrap().strip_prefix("http://").unwrap().to_owned();
    let (address, token) = url.split_once('/').unwrap();
    (process, address.to_owned(), format!("/{token}"))
}

/// What is said to a request, its head with it.
fn ask(address: &str, host: &str, method: &str, path: &str) -> String {
    let mut stream = TcpStream::connect(address).unwrap();
    write!(stream, "{method} {path} HTTP/1.1\r\nHost: {host}\r\n\r\n").unwrap();
    let mut said = String::new();
    stream.read_to_string(&mut said).unwrap();
    said
}

fn store(folder: &Path) {
    write(folder, "moby.txt", "Call me Ishmael.\nThe white whales swam by the <b>ship</b>.\n");
    write(folder, "captain.md", "The captain and a whale.");
    write(folder, "other.md", "Nothing of the kind.");
    let indexed = index(folder, &[]);
    assert_eq!(indexed.code, Some(0), "{}", indexed.stderr);
}

#[test]
fn a_page_shows_what_is_found_and_what_the_server_saw_of_it() {
    let folder = tempfile::tempdir().unwrap();
    store(folder.path());
    let (mut process, address, path) = serve(folder.path());
    let get = |query: &str| ask(&address, &address, "GET", &format!("{path}?q={query}"));
    let empty = get("");
    assert!(empty.starts_with("HTTP/1.1 200") && empty.contains("<label for=\"q\">"), "{empty}");
    assert!(empty.contains("default-src 'none'") && !empty.contains("<script"), "{empty}");
    let found = get("whale");
    assert!(found.contains("2 documents match") && found.contains("moby.txt</h3>"), "{found}");
    assert!(found.contains("<mark>whales</mark> swam by the &lt;b&gt;ship"), "{found}");
    // One entry for each document that has the word, of 32 bytes beside the label, in one batch; one request, one page.
    for seen in [
        "touched</dt><dd>2</dd>",
        "bytes</dt><dd>64</dd>",
        "asked for in</dt><dd>1</dd>",
        "results</dt><dd>1, ",
    ] {
        assert!(found.contains(seen), "{seen}: {found}");
    }
    let both = get("whale+AND+NOT+captain");
    assert!(both.contains("1 document matches") && both.contains("touched</dt><dd>3</dd>"), "{both}");
    let wrong = get("whale+AND+(ship");
    assert!(wrong.starts_with("HTTP/1.1 422") && wrong.contains("column 11: this parenthesis"), "{wrong}");
    assert!(wrong.contains("<pre>whale AND <mark>(</mark>ship</pre>"), "{wrong}");
    process_stops(&mut process);
}

/// A polite kill ends it, and with it host and enclave: the store can be used at once.
fn process_stops(process: &mut Process) {
    process.signal("TERM");
    assert_eq!(process.ended(crate::process::PATIENCE).unwrap().code(), Some(0));
}

#[test]
fn who_has_no_token_or_another_name_for_the_address_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    store(folder.path());
    let (_process, address, path) = serve(folder.path());
    let port = address.rsplit(':').next().unwrap();
    assert!(ask(&address, &format!("localhost:{port}"), "GET", &path).starts_with("HTTP/1.1 200"));
    let other_token = format!("/{}/", "0".repeat(32));
    for (host, method, path, said) in [
        (address.as_str(), "GET", "/", "403"),
        (&address, "GET", &other_token, "403"),
        (&address, "GET", "/style.css", "403"),
        ("evil.example", "GET", &path, "403"),
        (&format!("evil.example:{port}"), "GET", &path, "403"),
        (&address, "POST", &path, "405"),
        (&address, "GET", &format!("{path}nothing"), "404"),
    ] {
        let answer = ask(&address, host, method, path);
        assert!(answer.starts_with(&format!("HTTP/1.1 {said}")), "{method} {path} at {host}: {answer}");
        assert!(!answer.contains(path.trim_matches('/')) || path == "/", "{answer}");
    }
    // It listens on this machine's own address alone: a second use of the store is refused, and says why.
    let second = crate::process::run(search(folder.path(), "query", &["whale"]));
    assert_eq!(second.code, Some(4), "{}", second.stderr);
}

#[test]
fn a_thousand_who_say_nothing_or_half_hold_nobody_up() {
    let folder = tempfile::tempdir().unwrap();
    store(folder.path());
    let (_process, address, path) = serve(folder.path());
    let slow: Vec<TcpStream> = (0..1000)
        .map_while(|number| {
            let mut stream = TcpStream::connect(&address).ok()?;
            if number % 2 == 0 {
                // What it says is cut off where it was given up already.
                let _ = stream.write_all(b"GET / HTTP/1.1\r\nHost: ");
            }
            Some(stream)
        })
        .collect();
    assert!(slow.len() > 500, "{}", slow.len());
    for _ in 0..3 {
        let found = ask(&address, &address, "GET", &format!("{path}?q=whale"));
        assert!(found.contains("2 documents match"), "{found}");
    }
}
