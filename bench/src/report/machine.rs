//! What was measured on, and with what.

use std::fs;
use std::process::Command;

use serde::Serialize;

use crate::system;

/// A machine and the versions on it, as far as they are known.
#[derive(Serialize, Debug)]
pub(super) struct Machine {
    date: String,
    processor: String,
    processors: usize,
    memory_gib: u64,
    kernel: String,
    windlass: String,
    rust: String,
    kubelet: String,
}

impl Machine {
    /// This one, now.
    pub(super) fn this() -> Self {
        let field = |file: &str, name: &str| {
            let text = fs::read_to_string(file).unwrap_or_default();
            let value = text.lines().find_map(|it| it.strip_prefix(name)?.trim_start().strip_prefix(':'));
            value.map_or_else(|| "unknown".into(), |it| it.trim().to_owned())
        };
        let memory_kib: u64 =
            field("/proc/meminfo", "MemTotal").split(' ').next().unwrap_or_default().parse().unwrap_or(0);
        let commit = first_line("git", &["describe", "--always", "--dirty"]);
        let kubelet = system::output().map(|it| it.join("kubelet").to_string_lossy().into_owned()).unwrap_or_default();
        Self {
            date: jiff::Zoned::now().strftime("%F").to_string(),
            processor: field("/proc/cpuinfo", "model name"),
            processors: std::thread::available_parallelism().map_or(1, usize::from),
            memory_gib: (memory_kib + (1 << 19)) >> 20,
            kernel: fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned(),
            windlass: format!("{} ({commit})", env!("CARGO_PKG_VERSION")),
            rust: first_line("rustc", &["--version"]),
            kubelet: first_line(&kubelet, &["--version"]),
        }
    }

    /// In a few lines.
    pub(super) fn text(&self) -> String {
        let Self { date, processor, processors, memory_gib, kernel, windlass, rust, kubelet } = self;
        format!(
            "Measured on {date}: {processors} × {processor}, {memory_gib} GiB, Linux {kernel}.\n\
             windlass {windlass}, {rust}; {kubelet}."
        )
    }
}

/// What a program says first.
fn first_line(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output();
    let text = output.ok().filter(|it| it.status.success()).map(|it| String::from_utf8_lossy(&it.stdout).into_owned());
    text.and_then(|it| it.lines().next().map(ToOwned::to_owned)).unwrap_or_else(|| "unknown".into())
}
