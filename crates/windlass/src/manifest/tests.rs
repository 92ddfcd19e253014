use super::*;
use proptest::prelude::*;

/// What was read, a line each.
fn told(text: &str) -> Vec<String> {
    let tell = |it: Document| match it {
        Document::Pod(pod) => format!("Pod {}", pod.metadata.name.unwrap_or_default()),
        Document::Object(object) => object.reference().to_string(),
        Document::Other(other) => other.to_string(),
    };
    read(text.as_bytes()).unwrap().into_iter().map(tell).collect()
}

fn failure(text: &str) -> String {
    read(text.as_bytes()).unwrap_err().to_string()
}

fn pod(volumes: &str) -> Pod {
    let text = format!("{{apiVersion: v1, kind: Pod, metadata: {{name: p}}, spec: {{containers: [], {volumes}}}}}");
    let mut documents = read(text.as_bytes()).unwrap();
    let Some(Document::Pod(pod)) = documents.pop() else { panic!("one pod") };
    *pod
}

fn secret(text: &str) -> std::sync::Arc<Secret> {
    let mut documents = read(text.as_bytes()).unwrap();
    let Some(Document::Object(Object::Secret(secret))) = documents.pop() else { panic!("one secret") };
    secret
}

/// As of what `kubectl get -o yaml` gives: whoever edits the file does not count, so its content is what tells.
#[test]
fn what_a_cluster_counted_is_not_read() {
    for kind in ["Pod", "ConfigMap", "Secret", "PersistentVolumeClaim", "PersistentVolume", "Node"] {
        let text = format!("apiVersion: v1\nkind: {kind}\nmetadata: {{name: a, resourceVersion: '7'}}\n");
        let metadata = match read(text.as_bytes()).unwrap().pop().unwrap() {
            Document::Pod(pod) => pod.metadata,
            Document::Object(object) => object.metadata().clone(),
            Document::Other(other) => panic!("{other}"),
        };
        assert_eq!(metadata.resource_version, None, "{kind}");
    }
}

#[test]
fn modes_are_octal_or_decimal_as_in_yaml_1_1() {
    for (written, mode) in [("0600", 0o600), ("0o600", 0o600), ("384", 384), ("0x180", 384), ("420", 0o644)] {
        let pod = pod(&format!("volumes: [{{name: v, secret: {{secretName: s, defaultMode: {written}}}}}]"));
        let volume = &pod.spec.unwrap().volumes.unwrap()[0];
        assert_eq!(volume.secret.as_ref().unwrap().default_mode, Some(mode), "{written}");
    }
}

#[test]
fn text_is_kept_as_it_is_written() {
    let data = "a: 0600, b: '0600', c: 1e3, d: yes, e: 2001-01-01, f: 'null', g: ~x";
    let text = format!("{{apiVersion: v1, kind: ConfigMap, metadata: {{name: c}}, data: {{{data}}}}}");
    let mut documents = read(text.as_bytes()).unwrap();
    let Some(Document::Object(Object::ConfigMap(map))) = documents.pop() else { panic!("one map") };
    let values: Vec<_> = map.data.as_ref().unwrap().values().map(String::as_str).collect();
    assert_eq!(values, ["0600", "0600", "1e3", "yes", "2001-01-01", "null", "~x"]);
}

#[test]
fn what_an_api_server_fills_in_is_filled_in() {
    let pod = pod("serviceAccount: robot, volumes: [{name: scratch}]");
    assert_eq!(pod.metadata.namespace.as_deref(), Some("default"));
    let spec = pod.spec.unwrap();
    assert!(spec.volumes.unwrap()[0].empty_dir.is_some());
    assert_eq!(spec.service_account_name.as_deref(), Some("robot"));
    let secret =
        secret("{apiVersion: v1, kind: Secret, metadata: {name: s}, data: {a: b2xk}, stringData: {a: new, b: text}}");
    let data: Vec<_> = secret.data.as_ref().unwrap().values().map(|it| it.0.as_slice()).collect();
    assert_eq!((data, secret.string_data.as_ref()), (vec![&b"new"[..], b"text"], None));
}

#[test]
fn documents_that_hold_nothing_are_passed_over() {
    let text =
        "# nothing\n---\n---\n# still nothing\n--- # a node\napiVersion: v1\nkind: Node\nmetadata: {name: n}\n...\n";
    assert_eq!(told(text), ["Node n"]);
    assert_eq!(told("--- {apiVersion: v1, kind: Node, metadata: {name: n}}\n---\n"), ["Node n"]);
    assert_eq!(told("%YAML 1.1\n---\napiVersion: v1\r\nkind: Node\r\nmetadata: {name: n}\r\n---\r\n"), ["Node n"]);
    assert_eq!(told("\u{feff}apiVersion: v1\nkind: Node\nmetadata: {name: n}"), ["Node n"]);
    assert!(told("").is_empty() && told("\n---\n").is_empty() && told("null").is_empty());
}

#[test]
fn hyphens_inside_a_text_separate_nothing() {
    let text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata:\n  a: |\n    ---\n    x\n---x: 1\n";
    assert_eq!(told(text), ["ConfigMap default/c"]);
}

#[test]
fn fields_that_nobody_knows_are_dropped() {
    assert_eq!(told("{apiVersion: v1, kind: Node, metadata: {name: n, colour: red}, extra: [1, {a: b}]}"), ["Node n"]);
}

#[test]
fn kinds_that_no_volume_needs_are_told_and_not_read() {
    let text = "apiVersion: v1\nkind: Node\nmetadata: {name: n}\n---\n\napiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec: 5\n\
                    ---\n{apiVersion: v2, kind: Pod}";
    assert_eq!(
        told(text),
        ["Node n", "line 6: Deployment web of apps/v1 is not read", "line 11: Pod without a name of v2 is not read"]
    );
}

#[test]
fn kinds_of_storage_are_read() {
    let of = |kind: &str, rest: &str| {
        told(&format!("{{apiVersion: storage.k8s.io/v1, kind: {kind}, metadata: {{name: x}}, {rest}}}"))
    };
    assert_eq!(of("CSIDriver", "spec: {}"), ["CSIDriver x"]);
    assert_eq!(of("StorageClass", "provisioner: p"), ["StorageClass x"]);
    let spec = "spec: {attacher: a, nodeName: n, source: {persistentVolumeName: v}}";
    assert_eq!(of("VolumeAttachment", spec), ["VolumeAttachment x"]);
}

#[test]
fn an_object_says_where_it_and_its_fields_stand() {
    let text = "
apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: Node
  metadata:
    name: n
---
apiVersion: v1
kind: ConfigMap
metadata:
  name: c
data:
  a.b: |
    text
  c: d
";
    let written = read_written(text.as_bytes()).unwrap();
    assert_eq!(written.iter().map(|it| it.line).collect::<Vec<_>>(), [5, 10]);
    assert_eq!(written[0].shape.line_of("metadata.name"), Some(8));
    assert_eq!(written[1].shape.line_of("metadata.name"), Some(13));
    assert_eq!(written[1].shape.line_of("data.a.b"), Some(15));
    assert_eq!(written[1].shape.line_of("data.c"), Some(17));
    assert_eq!(written[1].shape.line_of("data.x"), Some(14), "what is missing is missing there");
}

#[test]
fn a_list_is_its_items() {
    let text = "
apiVersion: v1
kind: List
metadata: {resourceVersion: ''}
items:
- {apiVersion: v1, kind: Node, metadata: {name: n}}
- {apiVersion: v1, kind: Pod, metadata: {name: p}, spec: {containers: [], volumes: [{name: v, configMap: {defaultMode: 0400}}]}}
- {apiVersion: batch/v1, kind: Job}
";
    assert_eq!(told(text), ["Node n", "Pod p", "line 8: Job without a name of batch/v1 is not read"]);
    let typed =
        "{apiVersion: v1, kind: SecretList, items: [{metadata: {name: a}}, {metadata: {name: b, namespace: x}}]}";
    assert_eq!(told(typed), ["Secret default/a", "Secret x/b"]);
    for list in ["List", "PodList"] {
        assert!(told(&format!("{{apiVersion: v1, kind: {list}, items: []}}")).is_empty());
        assert!(told(&format!("apiVersion: v1\nkind: {list}\nitems: []\n")).is_empty());
        assert!(told(&format!("{{\"apiVersion\": \"v1\", \"kind\": \"{list}\", \"items\": []}}")).is_empty());
        // It may have been cut, or its items may be called by another name (I-1).
        for cut in
            ["items: ", "metadata: {}", "item: [{apiVersion: v1, kind: Node, metadata: {name: n}}]", "items: null"]
        {
            let error = failure(&format!("{{apiVersion: v1, kind: {list}, {cut}}}"));
            let expected =
                format!("reading document 1 ({list}), line 1: this has no items; a list of nothing says `items: []`");
            assert_eq!(error, expected, "{cut}");
        }
    }
}

#[test]
fn how_a_text_ends_is_told() {
    let ending = |text: &str| read_whole(text.as_bytes()).unwrap().ending;
    let node = "apiVersion: v1\nkind: Node\nmetadata: {name: n}\n";
    let json = r#"{"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}"#;
    for blank in [
        "",
        "\n",
        " \t\n# comment",
        "---",
        "---\n---\n",
        "--- # comment\n...\n",
        "%YAML 1.1\n---\n",
        "\u{feff}",
        "null",
        "~\n",
        "--- null",
    ] {
        assert!(ending(blank).is_blank, "{blank:?}");
    }
    assert_eq!(ending(node), Ending { is_line: true, ..Ending::default() });
    assert_eq!(ending(&format!("{node}---\n# nothing")), Ending { is_open: true, ..Ending::default() });
    assert_eq!(ending(&format!("{node}...\n\n")), Ending { is_marked: true, is_line: true, ..Ending::default() });
    let marks = format!("{node}...\n---\n{node}...");
    assert_eq!(ending(&marks), Ending { is_marked: true, has_marks: true, ..Ending::default() });
    assert_eq!(ending(json), Ending { json: Some("Node n".into()), ..Ending::default() });
    assert_eq!(ending(&format!("{json}\n---\n{json}")).json, None, "without the second it would be one too");
    let list = ending("{apiVersion: v1, kind: List, items: []}");
    assert_eq!(list, Ending { is_empty_list: true, ..Ending::default() });
    assert!(!ending(&format!("apiVersion: v1\nkind: List\nitems: []\n---\n{node}")).is_empty_list);
}

/// As a crash leaves them, or a hole in a file.
#[test]
fn nul_bytes_are_no_end() {
    let node = "apiVersion: v1\nkind: Node\nmetadata: {name: n}\n";
    let expected = "reading document 2, line 5: there is a NUL byte: this is no manifest, or it was cut by a crash; write it again";
    assert_eq!(failure(&format!("{node}---\n\0\0\0\0")), expected);
    assert_eq!(failure("\0"), expected.replace("document 2, line 5", "document 1, line 1"));
}

/// On a stack as small as any thread's, also in a debug build.
#[test]
fn what_lies_too_deep_is_refused_and_never_overflows_the_stack() {
    let around = |open: &str, close: &str, depth: usize| format!("{}1{}", open.repeat(depth), close.repeat(depth));
    let block =
        |depth: usize| (0..depth).fold(String::new(), |text, it| text + "\n" + &" ".repeat(it + 1) + "a:") + " 1";
    let dashes = |depth: usize| "- ".repeat(depth) + "1";
    let deep = move |depth: usize| {
        let values = [
            around("{a: ", "}", depth),
            around("[", "]", depth),
            around("{\"a\": ", "}", depth),
            around("[{\"a\": ", "}]", depth / 2),
        ];
        let places = [
            ("Pod", "spec: {containers: [], extra: ", "}"),
            ("Pod", "spec: ", ""),
            ("Deployment", "spec: ", ""),
            ("ConfigMap", "data: ", ""),
            ("Secret", "data: ", ""),
        ];
        let mut texts = Vec::new();
        for value in &values {
            for (kind, before, after) in places {
                let api_version = if kind == "Deployment" { "apps/v1" } else { "v1" };
                texts.push(format!(
                    "{{apiVersion: {api_version}, kind: {kind}, metadata: {{name: a}}, {before}{value}{after}}}"
                ));
            }
            let fields = format!("[{{\"manager\": \"m\", \"fieldsV1\": {value}}}]");
            texts.push(format!("{{\"apiVersion\": \"v1\", \"kind\": \"Pod\", \"metadata\": {{\"name\": \"a\", \"managedFields\": {fields}}}, \"spec\": {{\"containers\": []}}}}"));
            texts.push(format!("{{apiVersion: v1, kind: List, items: [{{apiVersion: v1, kind: Node, metadata: {{name: a}}, spec: {value}}}]}}"));
        }
        texts.push(format!("apiVersion: v1\nkind: Node\nmetadata: {{name: n}}\nspec:{}", block(depth.min(300))));
        texts.push(format!("apiVersion: v1\nkind: Node\nmetadata: {{name: n}}\nspec:\n  {}", dashes(depth.min(300))));
        texts
    };
    let run = move || {
        for depth in [20, 34, 36, 38, 40, 60, 64, 100, 127, 300, 10_000, 100_000] {
            for text in deep(depth) {
                let read = read(text.as_bytes());
                if depth > DEPTH_MAX {
                    assert!(read.is_err(), "{depth}: {:.100}", text);
                }
                drop(read);
            }
        }
    };
    // As small as threads are made (std::thread).
    std::thread::Builder::new().stack_size(2 << 20).spawn(run).unwrap().join().unwrap();
    let text = format!("apiVersion: v1\nkind: Node\nmetadata: {{name: n}}\nspec: {}", around("[", "]", 50));
    assert_eq!(
        failure(&text),
        format!("reading document 1, line 4: its values lie within each other more than {DEPTH_MAX} deep")
    );
}

#[test]
fn a_few_bytes_do_not_make_much_work() {
    let mut bomb =
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\na0: &a0 [x, x, x, x, x, x, x, x, x, x]\n".to_owned();
    for level in 1..9 {
        let aliases = vec![format!("*a{}", level - 1); 10].join(", ");
        bomb += &format!("a{level}: &a{level} [{aliases}]\n");
    }
    let error = failure(&bomb);
    assert!(
        error.ends_with(&format!("its aliases stand for more than {ALIASED_MAX} values: write them out, or use fewer")),
        "{error}"
    );
    // One long text, often.
    let long = format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: c}}\ndata:\n  a: &a {}\n{}",
        "x".repeat(1 << 20),
        (0..1000).map(|it| format!("  k{it}: *a\n")).collect::<String>(),
    );
    let error = failure(&long);
    assert!(error.contains("values") || error.contains("bytes"), "{error}");
    // A million documents that say nothing are none; ten thousand that say something are enough.
    assert!(told(&"---\n".repeat(1 << 20)).is_empty());
    assert!(told(&"--- # nothing\n\n...\n".repeat(1 << 18)).is_empty());
    let many = "--- {apiVersion: v1, kind: Node, metadata: {name: n}}\n".repeat(DOCUMENTS_MAX + 1);
    let error = failure(&many);
    let expected = format!(
        "reading document {0}, line {0}: there are more than {DOCUMENTS_MAX} objects: make several files of it",
        DOCUMENTS_MAX + 1
    );
    assert_eq!(error, expected);
}

/// What people write is far below every limit.
#[test]
fn a_few_aliases_are_no_bomb() {
    let text = "apiVersion: v1\nkind: Pod\nmetadata: {name: p, labels: &l {a: b}}\nspec:\n  containers:\n  - {name: a, env: &e [{name: X, value: y}]}\n  - {name: b, env: *e}\n  nodeSelector: *l\n";
    assert_eq!(told(text), ["Pod p"]);
}

#[test]
fn json_is_read_too() {
    let text = "{\n\t\"apiVersion\": \"v1\",\n\t\"kind\": \"Node\",\n\t\"metadata\": {\"name\": \"n\"}\n}\n";
    assert_eq!(told(text), ["Node n"]);
}

#[test]
fn an_error_says_which_document_and_line_it_is_about() {
    let good = "apiVersion: v1\nkind: Node\nmetadata: {name: n}\n---\n";
    for (bad, error) in [
        ("kind: Pod", "reading document 2 (Pod), line 5: this has no apiVersion"),
        ("\nmetadata: {name: p}", "reading document 2, line 6: this has no kind"),
        ("apiVersion: v1\nkind: Pod", "reading document 2 (Pod), line 5: this has no metadata.name"),
        (
            "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Secret}",
            "reading document 2 (Secret), line 8: this has no metadata.name",
        ),
    ] {
        assert_eq!(failure(&format!("{good}{bad}")), error);
    }
    let mode = failure(&format!(
        "{good}apiVersion: v1\nkind: Pod\nmetadata: {{name: p}}\nspec:\n  containers: []\n  volumes:\n  - {{name: v, configMap: {{defaultMode: rwx}}}}\n"
    ));
    assert!(mode.starts_with("reading document 2 (Pod), line 11: "), "{mode}");
    let syntax = failure(&format!("{good}kind: Pod\nmetadata: {{name\nspec: [\n"));
    assert!(syntax.starts_with("reading document 2, line "), "{syntax}");
    let bytes = read(b"kind: Pod\n---\n# \xff\n").unwrap_err();
    assert_eq!(bytes.to_string(), "reading document 2, line 3: this is not UTF-8");
}

#[test]
fn one_bad_document_spoils_them_all() {
    failure("{apiVersion: v1, kind: Node, metadata: {name: n}}\n---\nkind: [\n");
    failure("{apiVersion: v1, kind: Node, metadata: {name: n}}\n--- {kind: 1, kind: 2}");
    failure("just text");
    failure("- a\n- b");
}

#[test]
fn an_error_of_the_syntax_is_told_whatever_it_is_in() {
    for (text, error) in [
        ("kind: [", "reading document 1, line 1: expected string scalar"),
        ("a: 1\na: 2", "reading document 1, line 2: the same key is there twice"),
        ("text", "reading document 1, line 1: expected mapping start"),
    ] {
        assert_eq!(failure(text), error);
    }
}

/// I-12.
#[test]
fn an_error_quotes_nothing_of_a_secret() {
    for text in [
        "{apiVersion: v1, kind: Secret, metadata: {name: s}, data: {password: hunter2!}}",
        "{apiVersion: v1, kind: Secret, metadata: {name: s}, immutable: hunter2}",
        "{apiVersion: v1, kind: Secret, metadata: {name: s}, stringData: hunter2}",
        "{apiVersion: v1, kind: SecretList, items: [{metadata: {name: s}, immutable: hunter2}]}",
        "{apiVersion: v1, kind: List, items: [{apiVersion: v1, kind: Secret, metadata: hunter2}]}",
        "{apiVersion: v1, kind: Secret, metadata: {name: s}, stringData: {password: hunter2",
        "apiVersion: v1\nkind: Secret\nstringData:\n  password: hunter2: x\n",
        "apiVersion: v1\nkind: Secret\nstringData:\n  password: \"hunter2\n",
        "apiVersion: v1\nkind: Secret\nstringData:\n  password: *hunter2\n",
        "apiVersion: v1\nkind: Secret\nstringData:\n  password: !hunter2!x y\n",
        "apiVersion: v1\nkind: Secret\nstringData: {hunter2: a, hunter2: b}\n",
        "apiVersion: v1\nkind: Secret\nstringData: {password: hunter2\n",
        "kind: [hunter2]",
        "hunter2",
        "[hunter2]",
    ] {
        let error = read(text.as_bytes()).unwrap_err();
        assert!(!format!("{error} {error:?}").contains("hunter2"), "{error}");
    }
}

/// The golden cases are manifests as people write them.
#[test]
fn every_golden_case_can_be_read() {
    let cases = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/golden");
    let mut count = 0;
    for case in std::fs::read_dir(cases).unwrap() {
        for manifests in ["manifests.yaml", "update/manifests.yaml"] {
            let path = case.as_ref().unwrap().path().join(manifests);
            let Ok(text) = std::fs::read(&path) else { continue };
            let documents = read(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            assert!(!documents.iter().any(|it| matches!(it, Document::Other(_))), "{}", path.display());
            count += 1;
        }
    }
    assert!(count > 50, "{count} manifests");
}

proptest! {
    /// Whatever the bytes, there is an answer.
    #[test]
    fn nothing_makes_it_panic(
        pieces in proptest::collection::vec(prop_oneof![
            Just("---\n".to_owned()), Just("apiVersion: v1\n".into()), Just("kind: Pod\n".into()), Just("kind: List\n".into()),
            Just("items:\n- ".into()), Just("metadata: {name: x}\n".into()), Just("&a ".into()), Just("*a\n".into()), Just("  ".into()),
            Just("spec: {containers: []}\n".into()), "\\PC{0,12}", "[-:{}\\[\\]\n ]{0,6}",
        ], 0..12),
        bytes in proptest::collection::vec(any::<u8>(), 0..8),
    ) {
        let mut text = pieces.concat().into_bytes();
        let _ = read(&text);
        text.extend(bytes);
        let _ = read(&text);
    }

    /// What separates documents changes nothing in them.
    #[test]
    fn lines_are_counted_across_documents(before in 0..20_usize, documents in 0..5_usize) {
        let filler = "# nothing\n".repeat(before);
        let text = format!("{}{filler}kind: Pod", format!("{filler}---\n").repeat(documents));
        let error = read(text.as_bytes()).unwrap_err();
        prop_assert_eq!(error.line as usize, (before + 1) * documents + before + 1);
        // A separator on the first line opens the first document instead of ending it.
        let opened = usize::from(before == 0 && documents > 0);
        prop_assert_eq!(error.document, documents + 1 - opened);
    }
}

/// How objects are written, with everything that does not depend on the form of the text.
fn comparable(written: Vec<Written<'_>>) -> Vec<(Document, u64, String, Vec<Unknown>)> {
    written.into_iter().map(|it| (it.document, it.line, format!("{:?}", it.shape), it.unknown)).collect()
}

/// Text that YAML could take for something else, or that has to be written in a way of its own.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        prop::sample::select(vec![
            "",
            "null",
            "yes",
            "0600",
            "~",
            "1e3",
            "b2xk",
            "2026-01-02T03:04:05Z",
            "1Gi",
            "a: b",
            "- c"
        ])
        .prop_map(str::to_owned),
        "[ -~]{0,12}",
        "\\PC{0,8}",
        "[\"\\\\/\u{8}\n\r\t\u{85}\u{2028}é😀]{0,6}",
    ]
}

fn texts() -> impl Strategy<Value = serde_json::Value> {
    prop::collection::btree_map(text(), text(), 0..4).prop_map(|it| serde_json::json!(it))
}

/// Any JSON, with names of fields as keys, so that it is sometimes of the right type.
fn anything() -> impl Strategy<Value = serde_json::Value> {
    use serde_json::Value;
    let leaf = prop_oneof![
        4 => text().prop_map(Value::from),
        1 => Just(Value::Null),
        1 => any::<bool>().prop_map(Value::from),
        1 => any::<i32>().prop_map(Value::from),
        1 => any::<u64>().prop_map(Value::from),
        1 => any::<f64>().prop_map(Value::from),
    ];
    let names = prop::sample::select(vec!["name", "emptyDir", "medium", "secret", "items", "metadata", "mode", "<<"]);
    leaf.prop_recursive(4, 24, 4, move |inner| {
        let fields = prop::collection::btree_map(
            prop_oneof![names.clone().prop_map(str::to_owned), text()],
            inner.clone(),
            0..4,
        );
        let map = fields.prop_map(|it| Value::Object(it.into_iter().collect()));
        prop_oneof![2 => map, 1 => prop::collection::vec(inner, 0..4).prop_map(Value::Array)]
    })
}

/// Objects that can mostly be read.
fn objects() -> impl Strategy<Value = serde_json::Value> {
    use serde_json::json;
    let volume = prop_oneof![
        (text(), any::<i32>(), any::<bool>()).prop_map(|(name, mode, optional)| json!({
            "name": name, "configMap": {"name": name, "defaultMode": mode, "optional": optional,
                "items": [{"key": name, "path": name, "mode": null}], "defaultmode": mode},
        })),
        (text(), texts()).prop_map(|(medium, other)| json!({
            "name": "v", "emptyDir": {"medium": medium, "sizeLimit": medium}, "unheard": {"of": other},
        })),
        anything(),
    ];
    let pod = (text(), texts(), volume, any::<i64>(), any::<i32>()).prop_map(|(label, labels, volume, number, port)| json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "p", "labels": {label: "x"}, "annotations": labels, "creationTimestamp": "2026-01-02T03:04:05Z"},
        "spec": {
            "containers": [{"name": "c", "livenessProbe": {"httpGet": {"port": port}}, "resources": {"limits": {"cpu": "2"}}}],
            "volumes": [volume], "terminationGracePeriodSeconds": number, "hostNetwork": false, "nodeName": null,
        },
    }));
    let map = (texts(), anything()).prop_map(|(data, extra)| {
        json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "extra": extra}, "data": data,
        })
    });
    let secret = (texts(), "[a-zA-Z0-9+/]{0,2}").prop_map(|(data, bytes)| json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": data, "data": {"a": "b2xk", "b": bytes},
    }));
    let other = anything().prop_map(|spec| json!({"apiVersion": "x/v1", "kind": "Other", "spec": spec}));
    let one = prop_oneof![pod, map, secret, other].boxed();
    let list = prop::collection::vec(one.clone(), 0..3)
        .prop_map(|items| json!({"apiVersion": "v1", "kind": "List", "items": items}));
    prop_oneof![one, list]
}

#[test]
fn json_that_is_read_as_such_is_read_as_yaml_would_be() {
    use proptest::test_runner::{Config, TestRunner};
    let (cases, plain) = (500, std::cell::Cell::new(0));
    let mut runner = TestRunner::new(Config { cases, ..Config::default() });
    let run = runner.run(&(objects(), any::<bool>(), 0..3_usize), |(value, pretty, before)| {
        let text = if pretty { serde_json::to_string_pretty(&value) } else { serde_json::to_string(&value) };
        let text = format!("{}{}\n", "\n".repeat(before), text.unwrap());
        let part = Part { text: &text, number: 1, offset: 10 };
        if let Some(read) = part.read_json() {
            let yaml = part.read_yaml();
            prop_assert!(yaml.is_ok(), "{text}\n{yaml:?}");
            prop_assert_eq!(comparable(read.documents), comparable(yaml.unwrap().documents), "{}", text);
            plain.set(plain.get() + 1);
        }
        Ok(())
    });
    run.unwrap();
    assert!(plain.get() > cases / 3, "{} were read as JSON", plain.get());
}

#[test]
fn what_programs_write_is_read_as_json() {
    let text = r#"{
  "apiVersion": "v1",
  "kind": "Pod",
  "metadata": {"name": "p", "uid": "1", "creationTimestamp": null},
  "spec": {
    "containers": [{"name": "c", "volumeMounts": [{"name": "s", "mountPath": "/s", "readOnly": true}]}],
    "volumes": [
      {"name": "s", "secret": {"secretName": "s", "defaultMode": 420, "items": []}},
      {"name": "e", "emptydir": {}}
    ]
  }
}"#;
    let part = Part { text, number: 1, offset: 0 };
    let read = part.read_json().expect("plain JSON").documents;
    assert_eq!(read[0].unknown[0].field, "spec.volumes[1].emptydir");
    assert_eq!(read[0].shape.line_of("spec.volumes[1].emptydir"), Some(9));
    assert_eq!(comparable(read), comparable(part.read_yaml().unwrap().documents));
}
