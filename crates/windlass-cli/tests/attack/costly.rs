//! One costly manifest does not hold up the others, and none ends the daemon (I-6).

use std::fmt::Write as _;

use windlass_testing::daemon::Case;

use crate::attacks;
use crate::victim::{canaries_live, log, pod, start};

attacks!["costly":
    a_manifest_of_separators,
    a_pod_of_twenty_thousand_volumes,
    a_bomb_of_aliases,
    nested_maps,
    a_flood_of_small_manifests,
];

/// With this manifest there, another is in force soon, also at the next start.
fn others_do_not_wait(case: &Case, file: &str, text: &str) {
    let daemon = start(case);
    case.manifest(file, text);
    case.manifest("other.yaml", &pod("other"));
    let output = case.output(&["wait", "--timeout", "10s", "other"]);
    assert!(output.status.success(), "another pod waits: {}\n{}", String::from_utf8_lossy(&output.stderr), log(case));
    canaries_live(case, file);
    daemon.kill();
    case.manifest("third.yaml", &pod("third"));
    let daemon = case.start();
    let output = case.output(&["wait", "--timeout", "10s", "third"]);
    assert!(output.status.success(), "another pod waits at the start\n{}", log(case));
    canaries_live(case, &format!("a start with {file}"));
    daemon.kill();
}

fn a_manifest_of_separators(case: &Case) {
    others_do_not_wait(case, "costly.yaml", &"---\n".repeat(1 << 20));
}

fn a_pod_of_twenty_thousand_volumes(case: &Case) {
    let mut text =
        "apiVersion: v1\nkind: Pod\nmetadata: {name: many, uid: many-1}\nspec:\n  containers:\n  - name: main\n    \
                    volumeMounts:\n"
            .to_owned();
    for number in 0..20_000 {
        writeln!(text, "    - {{name: v{number}, mountPath: /v{number}}}").unwrap();
    }
    text.push_str("  volumes:\n");
    for number in 0..20_000 {
        writeln!(text, "  - {{name: v{number}, emptyDir: {{}}}}").unwrap();
    }
    others_do_not_wait(case, "costly.yaml", &text);
}

fn a_bomb_of_aliases(case: &Case) {
    let mut text =
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: bomb}\na0: &a0 [x, x, x, x, x, x, x, x, x]\n".to_owned();
    for number in 1..12 {
        let before = number - 1;
        writeln!(text, "a{number}: &a{number} [{}]", vec![format!("*a{before}"); 9].join(", ")).unwrap();
    }
    others_do_not_wait(case, "costly.yaml", &text);
}

fn nested_maps(case: &Case) {
    for depth in [60, 200, 5000] {
        let yaml = format!(
            "apiVersion: v1\nkind: Pod\nmetadata: {{name: deep}}\nspec: {}{}\n",
            "{a: ".repeat(depth),
            "}".repeat(depth)
        );
        others_do_not_wait(case, "costly.yaml", &yaml);
        let json = format!(
            "{{\"apiVersion\": \"v1\", \"kind\": \"Pod\", \"metadata\": {{\"name\": \"deep\"}}, \"spec\": {}1{}}}",
            "{\"a\": ".repeat(depth),
            "}".repeat(depth)
        );
        others_do_not_wait(case, "costly.json", &json);
        // Nor the command that is asked before anything is put there.
        std::fs::write(case.path("deep.yaml"), yaml).unwrap();
        let output = case.output(&["validate", &case.path("deep.yaml").display().to_string()]);
        assert!(output.status.code().is_some(), "windlass validate was ended by a signal at {depth}");
        std::fs::remove_file(case.path("manifests/other.yaml")).unwrap();
        std::fs::remove_file(case.path("manifests/third.yaml")).unwrap();
    }
}

fn a_flood_of_small_manifests(case: &Case) {
    let daemon = start(case);
    for number in 0..500 {
        case.manifest(&format!("flood-{number}.yaml"), "apiVersion: v1\nkind: List\nitems: []\n");
    }
    for number in 0..500 {
        case.remove_manifest(&format!("flood-{number}.yaml"));
    }
    crate::victim::pass_the_delay(case, &case.path("manifests"));
    canaries_live(case, "a flood");
    assert!(daemon.stop().success());
}
