//! Each rule with an example that breaks it, and a workspace that breaks none.
#![allow(clippy::unwrap_used)]

use super::{built, judge, shipped};
use crate::metadata::Metadata;
use crate::report::Report;
use serde_json::{Value, json};

/// A package in `folder` with dependencies `(folder, kind)`.
fn package(folder: &str, dependencies: &[(&str, Option<&str>)]) -> Value {
    let dependencies: Vec<Value> = dependencies.iter().map(|(to, kind)| dependency(to, *kind)).collect();
    json!({"name": name(folder), "manifest_path": format!("/r/{folder}/Cargo.toml"), "dependencies": dependencies})
}

fn dependency(folder: &str, kind: Option<&str>) -> Value {
    json!({"name": name(folder), "kind": kind, "path": format!("/r/{folder}")})
}

fn name(folder: &str) -> String {
    format!("arras-{}", folder.rsplit('/').next().unwrap())
}

fn judged(packages: &[Value]) -> Report {
    let workspace: Metadata =
        serde_json::from_value(json!({"workspace_root": "/r", "packages": packages})).unwrap();
    judge(&workspace)
}

/// The workspace as the architecture wants it.
fn sound() -> Vec<Value> {
    let (primitives, protocol, keys) =
        (("shared/primitives", None), ("shared/protocol", None), ("trusted/keys", None));
    vec![
        package("shared/primitives", &[]),
        package("shared/protocol", &[]),
        package("trusted/keys", &[primitives]),
        package("trusted/schemes", &[primitives, protocol, keys]),
        package("trusted/planner", &[protocol]),
        package("trusted/mongo", &[("trusted/planner", None)]),
        package("trusted/proxy", &[keys, ("trusted/schemes", None), ("trusted/mongo", None)]),
        package("enclave/iee", &[keys, protocol]),
        package("untrusted/server", &[primitives, protocol]),
        package("lab", &[keys, ("trusted/proxy", None), ("untrusted/server", None)]),
        package("fuzz", &[protocol, ("trusted/mongo", None), keys]),
        package("xtask", &[]),
        package("trusted/search", &[protocol, ("trusted/schemes", None)]),
    ]
}

/// The sound workspace with one more dependency.
fn with_edge(from: &str, to: &str, kind: Option<&str>) -> Report {
    let mut packages = sound();
    let package = packages.iter_mut().find(|package| package["name"] == name(from)).unwrap();
    package["dependencies"].as_array_mut().unwrap().push(dependency(to, kind));
    judged(&packages)
}

fn breaks(report: &Report, rule: &str) {
    assert!(report.findings.iter().any(|finding| finding.rule == rule), "{rule} not found in {report:#?}");
}

#[test]
fn a_sound_workspace_has_no_findings() {
    let report = judged(&sound());
    assert_eq!(report.findings, []);
    assert_eq!((report.passed(), report.failed()), (11, 0));
}

#[test]
fn a_contract_that_knows_keys_is_found() {
    let report = with_edge("shared/protocol", "trusted/keys", None);
    breaks(&report, "protocol-keyless");
    breaks(&report, "shared-reaches-shared");
    breaks(&report, "holders-of-keys");
}

#[test]
fn shared_code_that_reaches_the_lab_is_found() {
    breaks(&with_edge("shared/primitives", "lab", Some("dev")), "shared-reaches-shared");
}

#[test]
fn a_server_with_a_trusted_dependency_of_any_kind_is_found() {
    for kind in [None, Some("dev"), Some("build")] {
        breaks(&with_edge("untrusted/server", "trusted/schemes", kind), "untrusted-keyless");
        breaks(&with_edge("untrusted/server", "enclave/iee", kind), "untrusted-keyless");
        breaks(&with_edge("untrusted/server", "lab", kind), "untrusted-keyless");
    }
}

#[test]
fn a_server_that_reaches_keys_through_another_crate_is_found_with_the_way() {
    let report = with_edge("shared/protocol", "trusted/schemes", Some("dev"));
    let finding = report.findings.iter().find(|finding| finding.rule == "untrusted-keyless").unwrap();
    assert_eq!(finding.place, "untrusted/server -> shared/protocol -> trusted/schemes (dev-dependency)");
}

#[test]
fn a_front_end_or_planner_that_sees_keys_is_found() {
    for to in ["trusted/keys", "trusted/schemes", "shared/primitives"] {
        breaks(&with_edge("trusted/mongo", to, None), "front-ends-keyless");
        breaks(&with_edge("trusted/planner", to, Some("dev")), "front-ends-keyless");
    }
    breaks(&with_edge("trusted/mongo", "trusted/proxy", None), "front-ends-keyless");
}

#[test]
fn search_reaches_what_schemes_declare_and_is_no_way_around_for_others() {
    breaks(&with_edge("trusted/search", "trusted/keys", None), "holders-of-keys");
    breaks(&with_edge("trusted/mongo", "trusted/search", None), "front-ends-keyless");
}

#[test]
fn a_new_trusted_crate_is_keyless_until_it_is_listed() {
    let mut packages = sound();
    packages.push(package("trusted/newcomer", &[("trusted/keys", None)]));
    breaks(&judged(&packages), "front-ends-keyless");
    breaks(&judged(&packages), "holders-of-keys");
}

#[test]
fn an_enclave_that_reaches_its_host_or_the_proxy_is_found() {
    breaks(&with_edge("enclave/iee", "untrusted/server", None), "enclave-small");
    breaks(&with_edge("enclave/iee", "trusted/proxy", Some("dev")), "enclave-small");
}

#[test]
fn a_trusted_crate_that_links_the_server_or_the_lab_is_found() {
    breaks(&with_edge("trusted/proxy", "untrusted/server", None), "halves-meet-in-lab");
    breaks(&with_edge("trusted/schemes", "lab", Some("dev")), "halves-meet-in-lab");
}

#[test]
fn xtask_with_keys_is_found() {
    breaks(&with_edge("xtask", "trusted/keys", None), "holders-of-keys");
}

#[test]
fn an_optional_dependency_on_ours_is_found() {
    let mut packages = sound();
    let mut optional = dependency("shared/protocol", None);
    optional["optional"] = json!(true);
    packages[10]["dependencies"].as_array_mut().unwrap().push(optional);
    breaks(&judged(&packages), "features-widen-nothing");
}

#[test]
fn a_dependency_that_is_there_unless_it_is_left_out_is_none_of_these() {
    let mut packages = sound();
    let mut optional = dependency("shared/protocol", None);
    optional["optional"] = json!(true);
    packages[10]["dependencies"].as_array_mut().unwrap().push(optional);
    packages[10]["features"] = json!({"default": ["whole"], "whole": ["dep:arras-protocol"]});
    assert_eq!(judged(&packages).findings, []);
    packages[10]["features"] = json!({"default": [], "whole": ["dep:arras-protocol"]});
    breaks(&judged(&packages), "features-widen-nothing");
}

#[test]
fn a_feature_that_forwards_into_ours_is_found() {
    for part in ["dep:arras-protocol", "arras-protocol/extra", "arras-protocol?/extra"] {
        let mut packages = sound();
        packages[10]["features"] = json!({"extra": [part]});
        breaks(&judged(&packages), "features-widen-nothing");
    }
    for sound_features in [
        json!({"extra": ["other"], "other": []}),
        json!({"lab": ["arras-protocol/lab"]}),
        json!({"cloz": ["arras-protocol/cloz"]}),
    ] {
        let mut packages = sound();
        packages[10]["features"] = sound_features;
        assert_eq!(judged(&packages).findings, []);
    }
    for widening in [json!({"lab": ["arras-protocol?/lab"]}), json!({"cloz": ["arras-protocol/lab"]})] {
        let mut packages = sound();
        packages[10]["features"] = widening;
        breaks(&judged(&packages), "features-widen-nothing");
    }
}

#[test]
fn what_only_the_lab_runs_is_found_in_what_ships() {
    for (from, sound_there) in [("untrusted/server", false), ("trusted/proxy", false), ("lab", true)] {
        let mut packages = sound();
        let package = packages.iter_mut().find(|package| package["name"] == name(from)).unwrap();
        let mut asked = dependency("shared/protocol", None);
        asked["features"] = json!(["lab"]);
        package["dependencies"].as_array_mut().unwrap().push(asked);
        let report = judged(&packages);
        assert_eq!(report.findings.is_empty(), sound_there, "{from}: {report:#?}");
    }
    let mut packages = sound();
    packages[10]["features"] = json!({"default": ["lab"], "lab": []});
    breaks(&judged(&packages), "lab-features-in-lab");
}

#[test]
fn what_cargo_would_build_is_read_from_its_tree() {
    let sound = "arras-server default,process\narras-primitives \naes zeroize\n";
    assert_eq!(shipped::judge_tree("arras-server", sound), []);
    for (line, named) in [("blst default,portable", "blst"), ("arras-protocol lab", "arras-protocol [lab]")] {
        let findings = shipped::judge_tree("arras-server", &format!("{sound}{line}\n"));
        assert_eq!(findings.len(), 1, "{line}");
        assert_eq!(findings[0].place, format!("arras-server: {named}"));
    }
    // No tree is no proof.
    assert_eq!(shipped::judge_tree("arras-server", "").len(), 1);
}

#[test]
fn a_lab_protocol_outside_of_its_feature_is_found() {
    let sound = "mod arx_eq;\n#[cfg(feature = \"lab\")]\npub mod path_oram;\n";
    assert_eq!(shipped::judge_modules("lib.rs", sound, &["path_oram"]), []);
    assert_eq!(
        shipped::judge_modules("lib.rs", "mod arx_eq;\npub mod path_oram;\n", &["path_oram"]).len(),
        1
    );
    assert_eq!(
        shipped::judge_modules("lib.rs", "#[cfg(feature = \"process\")]\nmod path_oram;\n", &["path_oram"])
            .len(),
        1
    );
}

#[test]
fn features_of_ones_own_widen_nothing() {
    let mut packages = sound();
    packages[10]["features"] = json!({"extra": ["other"], "other": []});
    assert_eq!(judged(&packages).findings, []);
}

#[test]
fn a_crate_outside_the_zones_is_found() {
    for folder in ["tools/sneaky", "sneaky", "untrusted", "trusted/keys/inner"] {
        let mut packages = sound();
        packages.push(package(folder, &[]));
        breaks(&judged(&packages), "known-zones");
    }
}

#[test]
fn a_dependency_from_elsewhere_is_found() {
    let elsewhere = [
        json!({"name": "x", "path": "/elsewhere/x"}),
        json!({"name": "x", "source": "git+https://example.org/x"}),
    ];
    for dependency in elsewhere {
        let mut packages = sound();
        packages[0]["dependencies"] = json!([dependency]);
        breaks(&judged(&packages), "known-sources");
    }
    let mut packages = sound();
    packages[0]["dependencies"] = json!([{"name": "x", "source": "registry+https://example.org/index"}]);
    assert_eq!(judged(&packages).findings, []);
}

#[test]
fn what_a_room_must_do_without_is_found_in_what_cargo_would_build() {
    for room in &built::ROOMS {
        let sound =
            format!("{} v0.1.0 (/r) \narras-primitives v0.1.0 (/r) \ntokio v1.0.0 sync\n", room.package);
        assert_eq!(built::judge(room, &sound), [], "{}", room.rule);
        let lines = room.packages.iter().map(|name| (format!("{name} v1.0.0 default"), (*name).to_owned()));
        let runtime =
            room.runtime.iter().map(|it| (format!("tokio v1.0.0 {it},sync (*)"), format!("tokio [{it}]")));
        for (line, named) in lines.chain(runtime) {
            let findings = built::judge(room, &format!("{sound}{line}\n"));
            let places: Vec<&str> = findings.iter().map(|finding| finding.place.as_str()).collect();
            assert_eq!(places, [format!("{}: {named}", room.package)]);
        }
        // No tree is no proof.
        assert_eq!(built::judge(room, "").len(), 1);
    }
}

#[test]
fn what_an_enclave_may_link_is_listed_whole_and_is_little() {
    let list = "# Ours.\narras-iee\n\naes\n";
    let tree = "arras-iee v0.1.0 (/r)\n\naes v0.9.0\naes v0.9.0 (*)\n";
    assert_eq!(built::judge_enclave(list, tree), []);
    for (list, tree) in [(list, format!("{tree}serde v1.0.0\n")), ("arras-iee\naes\nserde", tree.into())] {
        let findings = built::judge_enclave(list, &tree);
        assert!(findings.len() == 1 && findings[0].place.ends_with(": serde"), "{findings:?}");
    }
    // Two versions of a package are twice as much to read.
    let many: String = (0..58).map(|version| format!("aes v{version}.0.0\n")).collect();
    assert_eq!(built::judge_enclave(list, &format!("arras-iee v0.1.0\n{many}")), []);
    let more = format!("arras-iee v0.1.0\naes v58.0.0\n{many}");
    assert_eq!(built::judge_enclave(list, &more)[0].place, "60 packages");
}
