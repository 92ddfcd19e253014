//! Manifests in, files out. Files and texts of errors are the kubelet's own, taken from runs of it.

use super::*;
use crate::defaults;
use crate::objects::ObjectKind;
use k8s_openapi::serde::de::DeserializeOwned;
use k8s_openapi::serde_json::{self, Value};
use proptest::prelude::*;
use std::cell::RefCell;
use std::fmt::Write;
use std::time::SystemTime;

/// A world of objects and pods.
struct World {
    memory: Memory,
    pods: Vec<Pod>,
    provider: bool,
}

impl World {
    /// Reads manifests as a source would, with the API server's defaults.
    fn new(manifests: &str) -> Self {
        let mut world = Self { memory: Memory::new([1, 2]), pods: Vec::new(), provider: true };
        let documents: Vec<Value> = serde_saphyr::from_multiple(manifests).unwrap();
        for document in documents.into_iter().filter(|it| !it.is_null()) {
            let object = match document["kind"].as_str().unwrap() {
                "Pod" => {
                    world.pods.push(filled(document, defaults::pod));
                    continue;
                }
                "Node" => filled::<Node>(document, |_| ()).into(),
                "ConfigMap" => filled(document, |it: &mut ConfigMap| defaults::namespace(&mut it.metadata)).into(),
                "Secret" => filled(document, defaults::secret).into(),
                other => panic!("no {other} here"),
            };
            world.memory.put(object);
        }
        world
    }

    fn contents(&self, pod: &Pod, volume: &Volume) -> Result<Contents, Error> {
        let tokens: &dyn Fn(&token::Request) -> Result<Token, token::Error> = &|request| {
            let token::Request { namespace, service_account, audiences, .. } = request;
            let text = format!("token/{namespace}/{service_account}/[{}]", audiences.join(" "));
            let token = Token::new(&text, SystemTime::UNIX_EPOCH, SystemTime::UNIX_EPOCH);
            if self.provider { Ok(token) } else { Err(token::Error::NoProvider) }
        };
        let direct = contents(pod, volume, Surroundings { node: "node-1", sources: &self.memory, tokens });
        let namespace = pod.metadata.namespace.as_deref().unwrap();
        let snapshot = Snapshot::of(&self.memory, namespace, "node-1", volume);
        let later = contents(pod, volume, Surroundings { node: "node-1", sources: &snapshot, tokens });
        assert_eq!(format!("{direct:?}"), format!("{later:?}"), "a snapshot has all that is needed");
        direct
    }

    /// The result for the only volume of the only pod.
    fn only(&self) -> Result<Contents, Error> {
        let [pod] = self.pods.as_slice() else { panic!("one pod") };
        let [volume] = volumes(pod) else { panic!("one volume") };
        self.contents(pod, volume)
    }

    /// All volumes in words: a line per file, or what is wrong.
    fn trace(&self) -> String {
        let mut text = String::new();
        for pod in &self.pods {
            for volume in volumes(pod) {
                write!(text, "{}", volume.name).unwrap();
                match self.contents(pod, volume) {
                    Ok(contents) => {
                        let group = contents.group.map_or("-".into(), |it| it.to_string());
                        writeln!(text, ": directories {:04o}, group {group}", contents.directory_mode).unwrap();
                        for (path, file) in contents.files() {
                            let owner = file.owner.map_or("-".into(), |it| it.to_string());
                            let bytes = file.contents.escape_ascii();
                            writeln!(text, "  {path} {:04o} {owner} {bytes}", file.mode).unwrap();
                        }
                    }
                    Err(error) => {
                        let waits_on = error.waits_on().map(|it| format!(" <- {it}")).unwrap_or_default();
                        writeln!(text, ": {error}{waits_on}").unwrap();
                    }
                }
            }
        }
        text
    }
}

fn volumes(pod: &Pod) -> &[Volume] {
    pod.spec.as_ref().unwrap().volumes.as_deref().unwrap_or_default()
}

fn filled<T: DeserializeOwned>(document: Value, fill: fn(&mut T)) -> T {
    let mut object = serde_json::from_value(document).unwrap();
    fill(&mut object);
    object
}

const OBJECTS: &str = "
kind: Node
metadata: {name: node-1}
status: {allocatable: {cpu: '4', memory: 8Gi, ephemeral-storage: 100Gi}}
---
kind: ConfigMap
metadata: {name: settings}
data: {a: A, b: B, c: C}
binaryData: {bytes: AAECA/7/}
---
kind: Secret
metadata: {name: keys}
data: {s: Uw==}
stringData: {t: T}
";

/// The objects above and a pod with these volumes, each `name: source`.
fn world(volumes: &[&str]) -> World {
    world_with("", volumes)
}

/// The same, with more in the pod's spec.
fn world_with(spec: &str, volumes: &[&str]) -> World {
    let volumes: Vec<String> = volumes.iter().map(|it| format!("{{name: {}}}", it.replacen(": ", ", ", 1))).collect();
    World::new(&format!(
        "{OBJECTS}
---
kind: Pod
metadata: {{name: web, uid: uid-1, namespace: default, labels: {{tier: front, a: '1'}}}}
spec:
  containers: [{{name: main, resources: {{limits: {{cpu: 1500m, memory: 100Mi}}}}}}]
  volumes: [{}]
  {spec}
",
        volumes.join(", ")
    ))
}

/// T-16, P-102.
#[test]
fn keys_become_files_with_their_bytes_and_modes() {
    insta::assert_snapshot!(world(&[
        "all: configMap: {name: settings}",
        "narrow: configMap: {name: settings, defaultMode: 0}",
        "some: configMap: {name: settings, defaultMode: 256, items: [{key: a, path: a}, {key: a, path: x/./y//a, mode: 493}, {key: bytes, path: bytes}]}",
        "none: configMap: {name: settings, items: []}",
        "secret: secret: {secretName: keys}",
        "secrets: secret: {secretName: keys, items: [{key: t, path: deep/t, mode: 384}]}",
    ]).trace(), @r"
    all: directories 0755, group -
      a 0644 - A
      b 0644 - B
      bytes 0644 - \x00\x01\x02\x03\xfe\xff
      c 0644 - C
    narrow: directories 0755, group -
      a 0000 - A
      b 0000 - B
      bytes 0000 - \x00\x01\x02\x03\xfe\xff
      c 0000 - C
    some: directories 0755, group -
      a 0400 - A
      bytes 0400 - \x00\x01\x02\x03\xfe\xff
      x/y/a 0755 - A
    none: directories 0755, group -
      a 0644 - A
      b 0644 - B
      bytes 0644 - \x00\x01\x02\x03\xfe\xff
      c 0644 - C
    secret: directories 0755, group -
      s 0644 - S
      t 0644 - T
    secrets: directories 0755, group -
      deep/t 0600 - T
    ");
}

/// T-17, T-18, P-104, P-105, P-107, P-108.
#[test]
fn what_is_missing_matters_unless_it_is_optional() {
    insta::assert_snapshot!(world(&[
        "map: configMap: {name: absent}",
        "secret: secret: {secretName: absent}",
        "map-key: configMap: {name: settings, items: [{key: a, path: a}, {key: absent, path: b}, {key: gone, path: c}]}",
        "secret-key: secret: {secretName: keys, items: [{key: absent, path: b}]}",
        "optional-map: configMap: {name: absent, optional: true, items: [{key: a, path: a}]}",
        "optional-secret: secret: {secretName: absent, optional: true}",
        "optional-key: configMap: {name: settings, optional: true, items: [{key: a, path: a}, {key: absent, path: b}]}",
    ]).trace(), @r#"
    map: configmap "absent" not found <- ConfigMap default/absent
    secret: secret "absent" not found <- Secret default/absent
    map-key: configmap references non-existent config key: absent <- ConfigMap default/settings
    secret-key: references non-existent secret key: absent <- Secret default/keys
    optional-map: directories 0755, group -
    optional-secret: directories 0755, group -
    optional-key: directories 0755, group -
      a 0644 - A
    "#);
}

/// P-106.
#[test]
fn what_cannot_be_looked_up_may_exist_even_if_it_is_optional() {
    let mut world = world(&[
        "map: configMap: {name: absent, optional: true}",
        "mixed: projected: {sources: [{secret: {name: keys, optional: true}}]}",
    ]);
    world.memory.fail(&Reference::new(ObjectKind::ConfigMap, "default", "absent"), "timed out");
    world.memory.fail(&Reference::new(ObjectKind::Secret, "default", "keys"), "forbidden");
    insta::assert_snapshot!(world.trace(), @r"
    map: look up ConfigMap default/absent: timed out <- ConfigMap default/absent
    mixed: look up Secret default/keys: forbidden <- Secret default/keys
    ");
}

/// T-22, P-115, P-116.
#[test]
fn a_pod_shows_its_metadata() {
    insta::assert_snapshot!(World::new(r#"
kind: Pod
metadata:
  name: web
  namespace: shop
  uid: uid-1
  labels: {tier: front, app.kubernetes.io/name: web, empty: ""}
  annotations: {example.com/Said: "\"hi\"\n", alpha: "naïve \u00a0"}
spec:
  containers: []
  volumes:
  - name: info
    downwardAPI:
      items:
      - {path: name, fieldRef: {fieldPath: metadata.name}}
      - {path: namespace, fieldRef: {fieldPath: metadata.namespace}}
      - {path: uid, fieldRef: {fieldPath: metadata.uid}}
      - {path: labels, fieldRef: {fieldPath: metadata.labels}, mode: 256}
      - {path: annotations, fieldRef: {fieldPath: metadata.annotations}}
      - {path: one//label, fieldRef: {fieldPath: "metadata.labels['app.kubernetes.io/name']"}}
      - {path: one/annotation, fieldRef: {fieldPath: "metadata.annotations['example.com/Said']"}}
      - {path: one/absent, fieldRef: {fieldPath: "metadata.labels['absent']"}}
"#).trace(), @r#"
    info: directories 0755, group -
      annotations 0644 - alpha=\"na\xc3\xafve \\u00a0\"\nexample.com/Said=\"\\\"hi\\\"\\n\"
      labels 0400 - app.kubernetes.io/name=\"web\"\nempty=\"\"\ntier=\"front\"
      name 0644 - web
      namespace 0644 - shop
      one/absent 0644 - 
      one/annotation 0644 - \"hi\"\n
      one/label 0644 - web
      uid 0644 - uid-1
    "#);
}

/// P-117..P-119: container, resource and divisor in, text out.
#[test]
fn a_container_shows_its_resources_divided_and_rounded_up() {
    let shown = |container: &str, resource: &str, divisor: &str| {
        let world = World::new(&format!(
            "
kind: Node
metadata: {{name: node-1}}
status: {{allocatable: {{cpu: '3500m', memory: 8Gi, ephemeral-storage: 100Gi, hugepages-2Mi: 1Gi}}}}
---
kind: Pod
metadata: {{name: p}}
spec:
  resources: {{limits: {{memory: 1Gi}}}}
  initContainers: [{{name: first, resources: {{limits: {{memory: 7Mi}}}}}}]
  containers:
  - name: main
    resources:
      limits: {{cpu: 1500m, memory: 100Mi, hugepages-2Mi: 4Mi}}
      requests: {{cpu: 250m, memory: 64Mi}}
  - {{name: bare}}
  - {{name: zero, resources: {{limits: {{cpu: '0', memory: '0'}}}}}}
  volumes:
  - name: info
    downwardAPI:
      items:
      - {{path: f, resourceFieldRef: {{containerName: {container}, resource: {resource}, divisor: '{divisor}'}}}}
"
        ));
        let contents = world.only().unwrap();
        let text = contents.files().next().unwrap().1.contents.clone();
        String::from_utf8(text).unwrap()
    };
    for (container, resource, divisor, expected) in [
        ("main", "limits.cpu", "0", "2"),
        ("main", "limits.cpu", "1", "2"),
        ("main", "limits.cpu", "1m", "1500"),
        ("main", "requests.cpu", "1", "1"),
        ("main", "requests.cpu", "1m", "250"),
        ("main", "limits.memory", "0", "104857600"),
        ("main", "limits.memory", "1Ki", "102400"),
        ("main", "limits.memory", "1M", "105"),
        ("main", "limits.memory", "1G", "1"),
        ("main", "requests.memory", "1Mi", "64"),
        ("main", "limits.ephemeral-storage", "1k", "107374183"),
        ("main", "limits.hugepages-2Mi", "1Mi", "4"),
        ("first", "limits.memory", "1Mi", "7"),
        ("bare", "limits.cpu", "0", "4"),
        ("bare", "limits.cpu", "1m", "3500"),
        ("bare", "limits.memory", "0", "8589934592"),
        ("bare", "limits.hugepages-2Mi", "0", "0"),
        ("bare", "requests.cpu", "0", "0"),
        ("bare", "requests.memory", "0", "0"),
        ("zero", "limits.cpu", "0", "4"),
        ("zero", "limits.memory", "1Gi", "8"),
        ("zero", "requests.memory", "1Gi", "0"),
    ] {
        assert_eq!(shown(container, resource, divisor), expected, "{resource} of {container} by {divisor}");
    }
}

/// P-114, P-115, P-117: everything that is wrong is told, each thing once.
#[test]
fn items_that_cannot_be_shown_are_all_named() {
    let item = |reference: &str| format!("info: downwardAPI: {{items: [{{path: f, {reference}}}]}}");
    let two = "{path: f, resourceFieldRef: {containerName: nobody, resource: limits.cpu}}";
    insta::assert_snapshot!(world(&[
        &format!("twice: downwardAPI: {{items: [{two}, {two}]}}"),
        &format!("two: downwardAPI: {{items: [{two}, {{path: f, fieldRef: {{fieldPath: metadata.nothing}}}}]}}"),
        &item("resourceFieldRef: {containerName: main, resource: limits.luck}"),
        &item("resourceFieldRef: {containerName: main, resource: luck}"),
        &item("resourceFieldRef: {containerName: main, resource: wishes.cpu}"),
        &item("resourceFieldRef: {containerName: main, resource: limits.cpu, divisor: x}"),
        &item("fieldRef: {fieldPath: status.podIP}"),
        &item("fieldRef: {fieldPath: \"metadata.name['a']\"}"),
        &item("fieldRef: {fieldPath: \"metadata.labels['a b']\"}"),
        &item("mode: 420"),
    ]).trace(), @r#"
    twice: container nobody not found
    two: [container nobody not found, unsupported fieldPath: metadata.nothing]
    info: unsupported container resource : limits.luck
    info: unsupported container resource : luck
    info: unsupported container resource : wishes.cpu
    info: spec.volumes[info].downwardAPI.items[0].resourceFieldRef.divisor: quantity "x" does not begin with a number
    info: unsupported fieldPath: status.podIP
    info: fieldPath "metadata.name['a']" does not support subscript
    info: invalid key subscript in metadata.labels['a b']: it is not a qualified name
    info: spec.volumes[info].downwardAPI.items[0]: neither fieldRef nor resourceFieldRef is set
    "#);
}

/// P-118: a node that is not known stands in for nothing, and is not missed where nothing stands in.
#[test]
fn the_node_is_needed_only_where_its_resources_stand_in() {
    let mut world = world(&[
        "needed: downwardAPI: {items: [{path: f, resourceFieldRef: {containerName: main, resource: limits.ephemeral-storage}}]}",
        "given: downwardAPI: {items: [{path: f, resourceFieldRef: {containerName: main, resource: limits.cpu}}]}",
    ]);
    world.memory.remove(&Reference::new(ObjectKind::Node, "", "node-1"));
    insta::assert_snapshot!(world.trace(), @r#"
    needed: node "node-1" not found <- Node node-1
    given: directories 0755, group -
      f 0644 - 2
    "#);
}

/// P-121, P-123, P-125.
#[test]
fn sources_are_put_together_and_the_later_one_wins() {
    insta::assert_snapshot!(world_with("serviceAccountName: robot", &[
        "all: projected: {defaultMode: 288, sources: [
          {configMap: {name: settings, items: [{key: a, path: conf/a}]}}, {secret: {name: keys}},
          {downwardAPI: {items: [{path: labels, fieldRef: {fieldPath: metadata.labels}}]}},
          {serviceAccountToken: {path: token, audience: vault}}]}",
        "wins: projected: {sources: [{configMap: {name: settings, items: [{key: a, path: s, mode: 256}]}}, {secret: {name: keys}}]}",
        "loses: projected: {sources: [{secret: {name: keys}}, {configMap: {name: settings, items: [{key: a, path: ./s, mode: 256}]}}]}",
        "optional: projected: {sources: [{configMap: {name: absent, optional: true}}, {secret: {name: keys}}]}",
        "empty: projected: {}",
        "missing: projected: {sources: [
          {configMap: {name: absent}}, {secret: {name: absent}}, {configMap: {name: settings, items: [{key: absent, path: a}]}},
          {downwardAPI: {items: [{path: cpu, resourceFieldRef: {containerName: nobody, resource: limits.cpu}}]}}]}",
        "unknown: projected: {sources: [{clusterTrustBundle: {path: a, optional: true}}]}",
    ]).trace(), @r#"
    all: directories 0755, group -
      conf/a 0440 - A
      labels 0440 - a=\"1\"\ntier=\"front\"
      s 0440 - S
      t 0440 - T
      token 0440 - token/default/robot/[vault]
    wins: directories 0755, group -
      s 0644 - S
      t 0644 - T
    loses: directories 0755, group -
      s 0400 - A
      t 0644 - T
    optional: directories 0755, group -
      s 0644 - S
      t 0644 - T
    empty: directories 0755, group -
    missing: [configmap "absent" not found, secret "absent" not found, configmap references non-existent config key: absent, container nobody not found] <- ConfigMap default/absent
    unknown: spec.volumes[unknown].projected.sources[0]: none of configMap, secret, downwardAPI and serviceAccountToken is set
    "#);
}

/// T-23, P-124, P-212, P-213.
#[test]
fn a_group_and_a_shared_user_decide_modes_and_owners() {
    let trace = |spec: &str| {
        let token = "v: projected: {sources: [{serviceAccountToken: {path: token}}, {configMap: {name: settings, items: [{key: a, path: a}, {key: b, path: d/b, mode: 384}]}}]}";
        world_with(spec, &[token]).trace()
    };
    insta::assert_snapshot!(trace(""), @r"
    v: directories 0755, group -
      a 0644 - A
      d/b 0600 - B
      token 0644 - token/default//[]
    ");
    insta::assert_snapshot!(trace("securityContext: {runAsUser: 1000}"), @r"
    v: directories 0755, group -
      a 0644 - A
      d/b 0600 - B
      token 0600 1000 token/default//[]
    ");
    insta::assert_snapshot!(trace("securityContext: {fsGroup: 3000}"), @r"
    v: directories 2755, group 3000
      a 0644 - A
      d/b 0640 - B
      token 0640 - token/default//[]
    ");
    insta::assert_snapshot!(trace("securityContext: {fsGroup: 3000, runAsUser: 1000}"), @r"
    v: directories 2755, group 3000
      a 0644 - A
      d/b 0640 - B
      token 0640 1000 token/default//[]
    ");
    insta::assert_snapshot!(trace("securityContext: {fsGroup: -1}"), @"v: spec.securityContext.fsGroup: -1 is no user or group");
    insta::assert_snapshot!(trace("securityContext: {runAsUser: 4294967295}"), @"v: securityContext.runAsUser: 4294967295 is no user or group");
}

/// P-70, P-212: the volume's own directory, on a disk and on a tmpfs.
#[test]
fn a_group_sets_bits_on_the_directory_of_the_volume() {
    let mut contents = Contents::default();
    let modes = |it: &Contents| [0o777, 0o1777, 0o755].map(|mode| directory_mode(it, mode));
    assert_eq!(modes(&contents), [0o777, 0o1777, 0o755]);
    contents.group = Some(1);
    assert_eq!(modes(&contents), [0o2777, 0o3777, 0o2755]);
}

/// P-83, P-97, P-100.
#[test]
fn a_path_that_could_do_harm_is_refused_by_its_place_in_the_pod() {
    let refused = |path: &str| {
        let path = serde_json::to_string(path).unwrap();
        let error = world(&[&format!("cfg: configMap: {{name: settings, items: [{{key: a, path: {path}}}]}}")]).only();
        error.unwrap_err().to_string()
    };
    let field = "spec.volumes[cfg].configMap.items[0].path: ";
    for (path, why) in [
        ("", "path \"\" cannot be used: it is empty"),
        ("/etc/passwd", "path \"/etc/passwd\" cannot be used: it is absolute"),
        ("..", "path \"..\" cannot be used: it contains \"..\""),
        ("a/../../b", "path \"a/../../b\" cannot be used: it contains \"..\""),
        ("a\0b", "path \"a\\x00b\" cannot be used: it contains a NUL byte"),
        ("..data", "write ..data: names that begin with \"..\" are reserved"),
        ("./..data", "write ..data: names that begin with \"..\" are reserved"),
        (".//..data_tmp/x", "write ..data_tmp/x: names that begin with \"..\" are reserved"),
    ] {
        assert_eq!(refused(path), format!("{field}{why}"));
    }
    assert!(refused(&"x".repeat(300)).ends_with("it is longer than 255 bytes"));
    assert!(refused(&"x/".repeat(3000)).ends_with("it is longer than 4096 bytes"));
    insta::assert_snapshot!(world(&[
        "unicode: configMap: {name: settings, items: [{key: a, path: Grüße/世界}]}",
        "inner: configMap: {name: settings, items: [{key: a, path: a/..data}]}",
        "third: projected: {sources: [{secret: {name: keys}}, {}, {secret: {name: keys, items: [{key: s, path: ../s}]}}]}",
        "token: projected: {sources: [{serviceAccountToken: {path: ..token}}]}",
        "mode: configMap: {name: settings, items: [{key: a, path: a, mode: 2541}]}",
        "default: configMap: {name: settings, defaultMode: -1}",
    ]).trace(), @r#"
    unicode: directories 0755, group -
      Gr\xc3\xbc\xc3\x9fe/\xe4\xb8\x96\xe7\x95\x8c 0644 - A
    inner: directories 0755, group -
      a/..data 0644 - A
    third: [spec.volumes[third].projected.sources[1]: none of configMap, secret, downwardAPI and serviceAccountToken is set, spec.volumes[third].projected.sources[2].secret.items[0].path: path "../s" cannot be used: it contains ".."]
    token: spec.volumes[token].projected.sources[0].serviceAccountToken.path: write ..token: names that begin with ".." are reserved
    mode: spec.volumes[mode].configMap.items[0].mode: 2541 is no mode, which is from 0 to 0777 (511)
    default: spec.volumes[default].configMap.defaultMode: -1 is no mode, which is from 0 to 0777 (511)
    "#);
}

/// P-100.
#[test]
fn a_key_that_the_api_would_not_take_is_refused_by_its_object() {
    for key in ["", ".", "..", "..data", "a/b", "./a", "/a", "a\0b", "ä", "a b", &"x".repeat(300)] {
        let mut world = world(&["cfg: configMap: {name: bad}"]);
        let mut map = ConfigMap { data: Some(BTreeMap::from([(key.into(), String::new())])), ..ConfigMap::default() };
        map.metadata.name = Some("bad".into());
        map.metadata.namespace = Some("default".into());
        world.memory.put(map.into());
        let error = world.only().unwrap_err();
        assert!(error.to_string().starts_with("ConfigMap default/bad: key \""), "{error}");
        assert_eq!(error.waits_on().unwrap().name(), "bad", "it may be corrected there");
        assert!(error.to_string().len() < 300, "{error}");
    }
    for key in ["a", ".hidden", "a..b", "-_.", &"x".repeat(253)] {
        assert!(is_key(key), "{key}");
    }
}

#[test]
fn a_token_that_nobody_gives_is_told_apart() {
    let mut world = world(&["v: projected: {sources: [{serviceAccountToken: {path: token}}]}"]);
    world.provider = false;
    let error = world.only().unwrap_err();
    assert!(error.wants_token());
    assert_eq!(error.to_string(), "no provider of service account tokens is configured");
    world.provider = true;
    let contents = world.only().unwrap();
    assert!(!format!("{contents:?}").contains("token/default"), "I-12");
}

/// P-125.
#[test]
fn a_token_is_asked_for_by_pod_account_audience_and_life() {
    let token = |rest: &str| format!("{{serviceAccountToken: {{path: t{rest}}}}}");
    let sources = [token(""), token(", audience: vault, expirationSeconds: 600"), token(", audience: ''")].join(", ");
    let world = world_with("serviceAccountName: robot", &[&format!("v: projected: {{sources: [{sources}]}}")]);
    let [pod] = world.pods.as_slice() else { panic!("one pod") };
    let plain = token::Request {
        namespace: "default".into(),
        service_account: "robot".into(),
        audiences: Vec::new(),
        expiration_seconds: 3600,
        pod_name: "web".into(),
        pod_uid: "uid-1".into(),
    };
    let vault = token::Request { audiences: vec!["vault".into()], expiration_seconds: 600, ..plain.clone() };
    let asked = RefCell::new(Vec::new());
    let tokens = |request: &token::Request| {
        asked.borrow_mut().push(request.clone());
        Err(token::Error::NoProvider)
    };
    let surroundings = Surroundings { node: "node-1", sources: &world.memory, tokens: &tokens };
    assert!(contents(pod, &volumes(pod)[0], surroundings).is_err());
    assert_eq!(asked.into_inner(), [plain.clone(), vault, plain]);
}

#[test]
fn a_volume_of_another_kind_has_no_contents() {
    let error = world(&["v: emptyDir: {}"]).only().unwrap_err();
    assert_eq!(error.to_string(), "volume \"v\" has no configMap, secret, downwardAPI or projected source");
}

/// P-99: whoever forgets the defaults hears of it.
#[test]
fn a_volume_without_a_default_mode_is_refused() {
    let mut world = world(&["v: configMap: {name: settings}"]);
    let volumes = world.pods[0].spec.as_mut().unwrap().volumes.as_mut().unwrap();
    volumes[0].config_map.as_mut().unwrap().default_mode = None;
    let text = "spec.volumes[v].configMap.defaultMode: no defaultMode used, not even the default value for it";
    assert_eq!(world.only().unwrap_err().to_string(), text);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever stands in a manifest: there is an error, or paths stay where they belong.
    #[test]
    fn no_manifest_makes_it_panic_or_leave_the_volume(
        path in "(\\.{1,2}|[a-z/\\x00]|/){0,12}", key in "[.a/]{0,3}", field in "(metadata\\.|labels|'|\\[|\\]|[a-z.]){0,8}",
        divisor in "[0-9mk.-]{0,4}", mode in any::<i32>(),
    ) {
        let text = |it: &str| serde_json::to_string(it).unwrap();
        let world = world(&[
            &format!("a: configMap: {{name: settings, items: [{{key: a, path: {}, mode: {mode}}}, {{key: {}, path: b}}]}}", text(&path), text(&key)),
            &format!("b: downwardAPI: {{items: [{{path: {}, fieldRef: {{fieldPath: {}}}}}]}}", text(&path), text(&field)),
            &format!("c: downwardAPI: {{items: [{{path: c, resourceFieldRef: {{containerName: main, resource: limits.cpu, divisor: {}}}}}]}}", text(&divisor)),
        ]);
        for volume in volumes(&world.pods[0]) {
            if let Ok(contents) = world.contents(&world.pods[0], volume) {
                for (path, _) in contents.files() {
                    prop_assert!(!path.first().as_bytes().starts_with(b".."), "{path}");
                }
            }
        }
    }
}
