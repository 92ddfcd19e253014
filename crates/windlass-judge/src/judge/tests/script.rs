//! Scripts: a call on each line, in a few words, and what the judge makes of them.

use std::time::Duration;

use windlass_csi::Code;

use crate::Judge;
use crate::call::{
    Access, Asked, AtPath, Attach, Capability, Context, Create, Expand, Grow, Publish, Question, Range, Reply, Secrets,
    Stage,
};
use crate::settings::Settings;

/// The words of a line.
pub(super) struct Words<'a>(pub(super) Vec<&'a str>);

impl<'a> Words<'a> {
    fn has(&self, word: &str) -> bool {
        self.0.contains(&word)
    }

    fn value(&self, key: &str) -> Option<&'a str> {
        self.0.iter().find_map(|it| it.strip_prefix(key)?.strip_prefix('='))
    }

    fn text(&self, key: &str, default: &str) -> String {
        self.value(key).unwrap_or(default).into()
    }

    fn list(&self, key: &str) -> Vec<String> {
        self.value(key).map(|it| it.split(',').map(str::to_owned).collect()).unwrap_or_default()
    }

    fn context(&self, key: &str) -> Context {
        Context(
            self.list(key).iter().map(|it| it.split_once(':').unwrap()).map(|(k, v)| (k.into(), v.into())).collect(),
        )
    }

    fn secrets(&self) -> Secrets {
        let bytes = self.value("secret-bytes").map_or(0, |it| it.parse().unwrap());
        Secrets { names: self.list("secrets").into_iter().collect(), bytes }
    }

    fn capability(&self) -> Capability {
        let mount = || Access::Mount {
            fs_type: self.text("fs", "ext4"),
            flags: self.list("flags"),
            group: self.text("group", ""),
        };
        let access = match (self.has("untyped"), self.has("block")) {
            (true, _) => None,
            (false, true) => Some(Access::Block),
            (false, false) => Some(mount()),
        };
        Capability { access, mode: self.value("mode").map_or(1, |it| it.parse().unwrap()) }
    }

    fn range(&self) -> Range {
        Range {
            required_bytes: self.value("bytes").map_or(1 << 20, |it| it.parse().unwrap()),
            limit_bytes: self.value("limit").map_or(0, |it| it.parse().unwrap()),
        }
    }

    fn found(&self, key: &str, default: AtPath) -> AtPath {
        match self.value(key) {
            None => default,
            Some("nothing") => AtPath::Nothing,
            Some("directory") => AtPath::Directory,
            Some(_) => AtPath::Other,
        }
    }

    pub(super) fn asked(&self, call: &str, volume: &str) -> Asked {
        let path = |default: &str| self.text("path", &format!("/{default}/{volume}"));
        let volume = if volume == "-" { String::new() } else { volume.to_owned() };
        match call {
            "info" => Asked::RegistrationInfo,
            "registered" => Asked::RegistrationStatus { registered: true, error: String::new() },
            "rejected" => Asked::RegistrationStatus { registered: false, error: "no".into() },
            "capabilities" => Asked::Question(Question::NodeCapabilities),
            "attach" => Asked::Attach(Attach {
                volume,
                node: self.text("node", "node-1"),
                capability: self.capability(),
                read_only: self.has("ro"),
                secrets: self.secrets(),
                volume_context: self.context("context"),
            }),
            "detach" => Asked::Detach { volume, node: self.text("node", "node-1") },
            "stage" => Asked::Stage(Stage {
                staging: path("staging"),
                volume,
                found: self.found("found", AtPath::Directory),
                capability: self.capability(),
                secrets: self.secrets(),
                publish_context: self.context("attachment"),
                volume_context: self.context("context"),
            }),
            "unstage" => Asked::Unstage { staging: path("staging"), volume },
            "publish" => Asked::Publish(Publish {
                staging: self.text("staging", &format!("/staging/{volume}")),
                target: path("target"),
                volume,
                found: self.found("found", AtPath::Nothing),
                parent: self.found("parent", AtPath::Directory),
                capability: self.capability(),
                read_only: self.has("ro"),
                secrets: self.secrets(),
                publish_context: self.context("attachment"),
                volume_context: self.context("context"),
            }),
            "unpublish" => Asked::Unpublish { target: path("target"), volume },
            "stats" => Asked::Stats { path: path("target"), staging: self.text("staging", ""), volume },
            "expand" => Asked::Expand(Expand {
                path: path("target"),
                staging: self.text("staging", &format!("/staging/{volume}")),
                volume,
                range: self.range(),
                capability: Some(self.capability()),
                secrets: self.secrets(),
            }),
            "create" => Asked::Create(Create {
                // As if volumes were called by their names, for scripts are read by people.
                name: volume.clone(),
                volume,
                range: self.range(),
                capabilities: if self.has("useless") { Vec::new() } else { vec![self.capability()] },
                parameters: self.context("parameters"),
                is_copy: self.has("copy"),
                secrets: self.secrets(),
            }),
            "delete" => Asked::Delete { volume, secrets: self.secrets() },
            "grow" => Asked::Grow(Grow {
                volume,
                range: self.range(),
                capability: Some(self.capability()),
                secrets: self.secrets(),
            }),
            "snapshot" => Asked::Unsupported { method: "CreateSnapshot", volume },
            other => panic!("{other} is no call"),
        }
    }
}

/// Plays a script. The driver is introduced first, unless it begins with `bare`.
pub(super) fn play(settings: Settings, script: &str) -> Judge {
    let mut judge = Judge::new(settings);
    let mut at = Duration::ZERO;
    let script = match script.trim().strip_prefix("bare") {
        Some(script) => script.to_owned(),
        None => format!("info\nregistered\ncapabilities\n{script}"),
    };
    let mut under_way = Vec::new();
    for line in script.lines().map(str::trim).filter(|it| !it.is_empty()) {
        at += Duration::from_secs(10);
        let (line, answer) = line.split_once("->").map_or((line, "done"), |(line, answer)| (line, answer.trim()));
        let answer = match answer {
            "done" => Reply::Done,
            "refused" => Reply::Refused(Code::Internal),
            "open" => Reply::Open(Code::DeadlineExceeded),
            "unheard" => Reply::Unheard,
            other => panic!("{other} is no answer"),
        };
        let words = Words(line.split_whitespace().collect());
        if words.0[0] == "end" {
            judge.end(under_way.remove(0), answer);
            continue;
        }
        if words.has("hasty") {
            at -= Duration::from_millis(9900);
        }
        let begun = judge.begin(at, words.asked(words.0[0], words.0.get(1).unwrap_or(&"")));
        match begun.refusal {
            Some(refusal) => judge.end(begun.number, Reply::of(refusal.code)),
            None if words.has("begin") => under_way.push(begun.number),
            None => judge.end(begun.number, answer),
        }
    }
    judge
}
