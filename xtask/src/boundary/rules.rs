//! The boundary rules, one table.

use super::graph::{Crate, Graph};
use crate::report::Finding;
use std::collections::BTreeMap;

/// A rule.
pub(super) struct Rule {
    /// Its name in messages.
    pub(super) name: &'static str,
    /// Every breach of it.
    pub(super) check: fn(&Graph) -> Vec<Finding>,
}

/// Every rule. The first six forbid that one crate reach another by any number of edges of any kind.
pub(super) const RULES: [Rule; 11] = [
    Rule { name: "protocol-keyless", check: protocol_keyless },
    Rule { name: "shared-reaches-shared", check: shared_reaches_shared },
    Rule { name: "untrusted-keyless", check: untrusted_keyless },
    Rule { name: "front-ends-keyless", check: front_ends_keyless },
    Rule { name: "enclave-small", check: enclave_small },
    Rule { name: "halves-meet-in-lab", check: halves_meet_in_lab },
    Rule { name: "holders-of-keys", check: holders_of_keys },
    Rule { name: "features-widen-nothing", check: features_widen_nothing },
    Rule { name: "lab-features-in-lab", check: lab_features_in_lab },
    Rule { name: "known-zones", check: known_zones },
    Rule { name: "known-sources", check: known_sources },
];

/// The zones: every crate's path begins with one.
const ZONES: [&str; 7] = ["shared", "trusted", "enclave", "untrusted", "lab", "xtask", "fuzz"];

/// Crates that may depend on `trusted/keys`. Whoever is in neither list below `trusted/` is held keyless.
const HOLDERS: [&str; 11] = [
    "trusted/schemes",
    "trusted/records",
    "trusted/engine",
    "trusted/text",
    "trusted/proxy",
    "trusted/searcher",
    "enclave/iee",
    "lab",
    "lab/opponents",
    "lab/simulator",
    "fuzz",
];

/// Crates that see keys in use: nothing keyless reaches them.
const KEYED: [&str; 5] =
    ["trusted/keys", "trusted/schemes", "trusted/records", "trusted/engine", "shared/primitives"];

/// Clients of the enclave. They say what keywords' hashes and the enclave's messages say, and open its channel, which `trusted/schemes`
/// declares; the keyed halves there are no part of them, as `search-keyless` sees to in what is built. Whoever reaches them is held as
/// strictly as before.
const ENCLAVE_CLIENTS: [&str; 2] = ["trusted/attestation", "trusted/search"];

fn protocol_keyless(graph: &Graph) -> Vec<Finding> {
    reach(
        graph,
        "protocol-keyless",
        "the contract must not know secret types: a message cannot have a key-typed field",
        "move the secret to trusted/schemes and send the server a capability made from it",
        |from, to| from.folder == "shared/protocol" && to.folder == "trusted/keys",
    )
}

fn shared_reaches_shared(graph: &Graph) -> Vec<Finding> {
    reach(
        graph,
        "shared-reaches-shared",
        "what any process may link must not pull in code of a trust zone, the lab or xtask",
        "move the code that needs the dependency into that zone, or a two-party test into lab/",
        |from, to| from.zone() == "shared" && to.zone() != "shared",
    )
}

fn untrusted_keyless(graph: &Graph) -> Vec<Finding> {
    reach(
        graph,
        "untrusted-keyless",
        "the untrusted side holds capabilities it was sent and nothing from which they are made; \
         dev- and build-dependencies count",
        "put what both sides need into shared/, and a test that needs both halves into lab/",
        |from, to| from.zone() == "untrusted" && !["shared", "untrusted"].contains(&to.zone()),
    )
}

fn front_ends_keyless(graph: &Graph) -> Vec<Finding> {
    reach(
        graph,
        "front-ends-keyless",
        "front ends and planner work on values and plans; they see no key, no keyed half and no primitive",
        "declare a trait in trusted/service and implement it in trusted/engine",
        |from, to| {
            let keyless = from.zone() == "trusted"
                && from.folder != "trusted/keys"
                && !ENCLAVE_CLIENTS.contains(&from.folder.as_str())
                && !HOLDERS.contains(&from.folder.as_str());
            keyless && KEYED.contains(&to.folder.as_str())
        },
    )
}

fn enclave_small(graph: &Graph) -> Vec<Finding> {
    reach(
        graph,
        "enclave-small",
        "measured code must stay small enough to read in a day and trust nothing on its host",
        "let it use shared/, trusted/keys, trusted/numbers and trusted/schemes only",
        |from, to| {
            let allowed = ["shared", "enclave"].contains(&to.zone())
                || ["trusted/keys", "trusted/numbers", "trusted/schemes"].contains(&to.folder.as_str());
            from.zone() == "enclave" && !allowed
        },
    )
}

fn halves_meet_in_lab(graph: &Graph) -> Vec<Finding> {
    reach(
        graph,
        "halves-meet-in-lab",
        "the trusted and the untrusted half meet in one process only in lab/ (and fuzz/), and nothing \
         that ships depends on either",
        "move the code or the test that needs both halves into lab/",
        |from, to| from.zone() == "trusted" && !["shared", "trusted"].contains(&to.zone()),
    )
}

/// A breach for every pair of crates that `forbidden` names and some way connects. The longer ways of a
/// breach that a dependency already commits are left out: fixing that one fixes them.
fn reach(
    graph: &Graph,
    rule: &'static str,
    wrong: &str,
    fix: &str,
    forbidden: fn(&Crate, &Crate) -> bool,
) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (start, from) in graph.crates.iter().enumerate() {
        for (end, way) in graph.ways_from(start) {
            if !forbidden(from, &graph.crates[end]) {
                continue;
            }
            let inner = way.split_last().is_some_and(|(_, before)| {
                before.iter().any(|offset| forbidden(from, &graph.crates[graph.edges[*offset].to]))
            });
            if !inner {
                findings.push(Finding {
                    rule,
                    place: graph.describe(&way),
                    wrong: wrong.into(),
                    fix: fix.into(),
                });
            }
        }
    }
    findings
}

fn holders_of_keys(graph: &Graph) -> Vec<Finding> {
    let breach = |edge: &&super::graph::Edge| {
        let (from, to) = (&graph.crates[edge.from], &graph.crates[edge.to]);
        to.folder == "trusted/keys" && !HOLDERS.contains(&from.folder.as_str())
    };
    let finding = |edge: &super::graph::Edge| Finding {
        rule: "holders-of-keys",
        place: format!("{} -> trusted/keys ({})", graph.crates[edge.from].folder, edge.kind),
        wrong: format!("only {} may depend on trusted/keys", HOLDERS.join(", ")),
        fix: "take the operation through a trait that trusted/service declares and trusted/engine implements"
            .into(),
    };
    graph.edges.iter().filter(breach).map(finding).collect()
}

/// A feature that is on unless somebody leaves it out: the other rules judge as if it always were, so it narrows and widens nothing.
fn is_default(features: &BTreeMap<String, Vec<String>>, feature: &str) -> bool {
    features.get("default").is_some_and(|parts| parts.iter().any(|part| part == feature))
}

/// Whether a dependency is one that a feature of that kind brings.
fn on_by_default(features: &BTreeMap<String, Vec<String>>, alias: &str) -> bool {
    let brings = |parts: &Vec<String>| parts.iter().any(|part| part.strip_prefix("dep:") == Some(alias));
    features.iter().any(|(feature, parts)| brings(parts) && is_default(features, feature))
}

fn features_widen_nothing(graph: &Graph) -> Vec<Finding> {
    let rule = "features-widen-nothing";
    let fix = "make it an ordinary dependency that the other rules judge, or a crate of its own";
    let mut findings = Vec::new();
    for edge in graph.edges.iter().filter(|edge| edge.optional) {
        if on_by_default(&graph.crates[edge.from].features, &edge.alias) {
            continue;
        }
        findings.push(Finding {
            rule,
            place: format!(
                "{} -> {} (optional)",
                graph.crates[edge.from].folder, graph.crates[edge.to].folder
            ),
            wrong: "an optional dependency lets a cargo feature widen what a crate reaches".into(),
            fix: fix.into(),
        });
    }
    for (at, member) in graph.crates.iter().enumerate() {
        let aliases: Vec<&str> =
            graph.edges.iter().filter(|edge| edge.from == at).map(|edge| edge.alias.as_str()).collect();
        for (feature, parts) in &member.features {
            for part in parts {
                // Those that are off in all that ships, as two other rules see to, each under its one name.
                let same =
                    part.split_once('/').is_some_and(|(_, name)| name == feature) && !part.contains('?');
                let of_lab = same && FORWARDED.contains(&feature.as_str());
                let left_out = part.starts_with("dep:") && is_default(&member.features, feature);
                let named = part.trim_start_matches("dep:").split(['/', '?']).next().unwrap_or_default();
                if aliases.contains(&named) && !of_lab && !left_out {
                    findings.push(Finding {
                        rule,
                        place: format!("{} [features] {feature} = [\"{part}\"]", member.folder),
                        wrong:
                            "a cargo feature that reaches into another of our crates widens trust by a flag"
                                .into(),
                        fix: fix.into(),
                    });
                }
            }
        }
    }
    findings
}

/// Features that one crate of ours may ask of another under the same name.
const FORWARDED: [&str; 3] = ["lab", "bclo", "cloz"];

/// Features that nothing that ships has unless an administrator asks.
const LAB_FEATURES: [&str; 5] = ["lab", "meter", "demo", "bclo", "cloz"];

fn lab_features_in_lab(graph: &Graph) -> Vec<Finding> {
    let rule = "lab-features-in-lab";
    let mut findings = Vec::new();
    let ours: Vec<&str> = graph.crates.iter().map(|member| member.name.as_str()).collect();
    for member in &graph.crates {
        let asked = member.dependencies.iter().filter(|it| ours.contains(&it.name.as_str()));
        for (dependency, feature) in asked.flat_map(|it| it.features.iter().map(move |feature| (it, feature)))
        {
            if LAB_FEATURES.contains(&feature.as_str()) && !["lab", "fuzz"].contains(&member.zone()) {
                findings.push(Finding {
                    rule,
                    place: format!("{} -> {} [{feature}]", member.folder, dependency.name),
                    wrong: "what only the laboratory runs would be built into what ships".into(),
                    fix: format!("ask for {feature} in lab/Cargo.toml only"),
                });
            }
        }
        let defaults = member.features.get("default").into_iter().flatten();
        for feature in defaults.filter(|feature| LAB_FEATURES.contains(&feature.as_str())) {
            findings.push(Finding {
                rule,
                place: format!("{} [features] default = [\"{feature}\"]", member.folder),
                wrong: "what only the laboratory runs would be built into what ships".into(),
                fix: format!("take {feature} out of the default features"),
            });
        }
    }
    findings
}

fn known_zones(graph: &Graph) -> Vec<Finding> {
    let shape = |member: &&Crate| {
        // A comparison with rivals lies inside the crate it is about, in a workspace of its own.
        let folder = member.folder.trim_end_matches("/compare").trim_end_matches("/opponents");
        // The simulator is the lab's, built without it: it is run for hours, and built for each test run.
        let folder = folder.trim_end_matches("/simulator");
        let depth = folder.split('/').count();
        let expected = if ["lab", "xtask", "fuzz"].contains(&member.zone()) { 1 } else { 2 };
        !ZONES.contains(&member.zone()) || depth != expected
    };
    let finding = |member: &Crate| Finding {
        rule: "known-zones",
        place: member.folder.clone(),
        wrong: format!("{} lies in no trust zone", member.name),
        fix: format!("move it directly below one of: {}", ZONES.join("/, ")),
    };
    graph.crates.iter().filter(shape).map(finding).collect()
}

fn known_sources(graph: &Graph) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (at, member) in graph.crates.iter().enumerate() {
        for dependency in &member.dependencies {
            let ours = graph.edges.iter().any(|edge| {
                edge.from == at && dependency.path.is_some() && graph.crates[edge.to].name == dependency.name
            });
            let registry = dependency.source.as_deref().is_some_and(|source| source.starts_with("registry+"));
            if !ours && !registry {
                let from = dependency.source.as_deref().unwrap_or("a folder that is no workspace member");
                findings.push(Finding {
                    rule: "known-sources",
                    place: format!("{} -> {}", member.folder, dependency.name),
                    wrong: format!("it comes from {from}, where no rule judges it"),
                    fix: "depend on a workspace member or on a release in the registry".into(),
                });
            }
        }
    }
    findings
}
