//! Starting programs: the only place in windlass that does (style rule, W-10).
//!
//! Only what no system call can do is left to programs: recognising, making, checking and growing file systems, and
//! the helpers that some of them need to be mounted. A program is looked for in fixed directories and gets an
//! environment of two fixed variables, so neither the caller's `PATH` nor its locale changes what happens. It runs in
//! a process group of its own, and is killed with all it started when its time is over. What it prints
//! is read all the time, so it never waits for us, and only the end of it is kept.
//!
//! What an exit status means is the caller's to know.

use std::ffi::{OsStr, OsString};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, ExitStatus, Stdio};
use std::time::{Duration, Instant};
use std::{fmt, io};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal};

/// Why a program did not do what it was started for.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It is not installed.
    #[error("find the program {tool} in {SEARCH_PATH}: it is not installed{}", hint(*package))]
    Missing {
        /// The program.
        tool: String,
        /// What Debian calls the package that has it, if that is known.
        package: Option<&'static str>,
    },
    /// There is no program at the path that was named.
    #[error("{} is no program", path.display())]
    NoProgram {
        /// The path.
        path: PathBuf,
    },
    /// It could not be started.
    #[error("start {command}")]
    Start {
        /// The program and its arguments, secrets masked.
        command: String,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// It was started, and then lost sight of. What of it still ran has been killed.
    #[error("wait for {command}")]
    Wait {
        /// The program and its arguments, secrets masked.
        command: String,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// It took too long and was killed.
    #[error("run {command}: killed after {limit:?}{}", if *remains { ", but something that it started still runs" } else { "" })]
    Deadline {
        /// The program and its arguments, secrets masked.
        command: String,
        /// How long it was given.
        limit: Duration,
        /// Something it started has left its process group and still runs.
        remains: bool,
    },
    /// It ended, and said that it failed.
    #[error("run {command}: {end}{}", after_colon(said))]
    Failed {
        /// The program and its arguments, secrets masked.
        command: String,
        /// How it ended.
        end: End,
        /// The last lines that it printed, secrets masked.
        said: String,
    },
}

impl Error {
    /// Whether the program was never started, so that nothing was changed.
    #[must_use]
    pub fn is_missing(&self) -> bool {
        matches!(self, Self::Missing { .. } | Self::NoProgram { .. })
    }
}

fn hint(package: Option<&str>) -> String {
    package.map_or_else(String::new, |it| format!("; it comes with the package {it}"))
}

fn after_colon(said: &str) -> String {
    if said.is_empty() { String::new() } else { format!(": {said}") }
}

/// Where programs are looked for, and what they get as `PATH`.
pub const SEARCH_PATH: &str = "/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/sbin:/usr/local/bin";

/// What is written in place of a secret.
const MASK: &str = "<masked>";

/// A program, by name, or by its path if a person has named one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tool {
    name: String,
    package: Option<&'static str>,
    path: Option<PathBuf>,
}

impl Tool {
    /// A program, and what Debian calls the package that has it.
    pub fn new(name: impl Into<String>, package: Option<&'static str>) -> Self {
        Self { name: name.into(), package, path: None }
    }

    /// The program at this path, which must be absolute.
    pub fn at(path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        Self { name: path.display().to_string(), package: None, path: Some(path) }
    }

    /// Where it is installed.
    pub fn find(&self) -> Result<PathBuf, Error> {
        let missing = || Error::Missing { tool: self.name.clone(), package: self.package };
        if let Some(path) = &self.path {
            let found = path.is_absolute() && is_program(path);
            return if found { Ok(path.clone()) } else { Err(Error::NoProgram { path: path.clone() }) };
        }
        // A name with a slash would be a path, and lead out of the fixed directories.
        if self.name.is_empty() || self.name.contains('/') {
            return Err(missing());
        }
        let mut places = SEARCH_PATH.split(':').map(|it| Path::new(it).join(&self.name));
        places.find(|it| is_program(it)).ok_or_else(missing)
    }
}

fn is_program(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|it| it.is_file() && it.permissions().mode() & 0o111 != 0)
}

#[derive(Clone, PartialEq, Eq)]
enum Argument {
    Plain(OsString),
    Secret(OsString),
}

impl Argument {
    fn text(&self) -> &OsStr {
        match self {
            Self::Plain(text) | Self::Secret(text) => text,
        }
    }
}

impl fmt::Debug for Argument {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plain(text) => text.fmt(formatter),
            Self::Secret(_) => formatter.write_str(MASK),
        }
    }
}

/// How a program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// By itself, with this status.
    Exit(i32),
    /// By this signal.
    Signal(i32),
}

impl From<ExitStatus> for End {
    fn from(status: ExitStatus) -> Self {
        // wait(2) reports nothing but these two of a program that ended.
        status.code().map_or_else(|| Self::Signal(status.signal().unwrap_or_default()), Self::Exit)
    }
}

impl fmt::Display for End {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exit(status) => write!(formatter, "exit status {status}"),
            Self::Signal(number) => write!(formatter, "ended by signal {number}"),
        }
    }
}

/// What a program did, once it has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Output {
    /// The program and its arguments, secrets masked.
    pub command: String,
    /// How it ended.
    pub end: End,
    /// The end of its standard output, secrets masked.
    pub stdout: String,
    /// The end of its standard error, secrets masked.
    pub stderr: String,
}

impl Output {
    /// An error unless the exit status is 0.
    pub fn success(self) -> Result<Self, Error> {
        if self.end == End::Exit(0) { Ok(self) } else { Err(self.failed()) }
    }

    /// Its end as a failure.
    #[must_use]
    pub fn failed(self) -> Error {
        Error::Failed { said: self.said(), end: self.end, command: self.command }
    }

    /// The last lines that it printed, as one line: of standard error, or of standard output if that is empty.
    #[must_use]
    pub fn said(&self) -> String {
        const LINES_MAX: usize = 8;
        const CHARACTERS_MAX: usize = 1000;
        let text = if self.stderr.trim().is_empty() { &self.stdout } else { &self.stderr };
        let lines: Vec<_> = text.lines().map(str::trim).filter(|it| !it.is_empty()).collect();
        let said = lines[lines.len().saturating_sub(LINES_MAX)..].join("; ");
        let skipped = said.chars().count().saturating_sub(CHARACTERS_MAX);
        said.chars().skip(skipped).collect()
    }
}

/// A program that is to be run, with its arguments and the time it is given.
#[derive(Debug, Clone)]
pub struct Call {
    tool: Tool,
    arguments: Vec<Argument>,
    input: Vec<u8>,
    limit: Duration,
}

impl fmt::Display for Call {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}", self.tool.name)?;
        for argument in &self.arguments {
            match argument {
                Argument::Plain(text) => write!(formatter, " {}", text.as_bytes().escape_ascii())?,
                Argument::Secret(_) => write!(formatter, " {MASK}")?,
            }
        }
        Ok(())
    }
}

impl Call {
    /// A call without arguments, which is killed after `limit`.
    #[must_use]
    pub fn new(tool: Tool, limit: Duration) -> Self {
        Self { tool, arguments: Vec::new(), input: Vec::new(), limit }
    }

    /// What it reads on its standard input: at most [`Call::INPUT_MAX`] bytes, what is more fails the call.
    #[must_use]
    pub fn input(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.input = bytes.into();
        self
    }

    /// What fits into every pipe, so that it is written before the program reads and nobody waits.
    pub const INPUT_MAX: usize = 4096;

    /// Adds an argument.
    #[must_use]
    pub fn argument(mut self, text: impl Into<OsString>) -> Self {
        self.arguments.push(Argument::Plain(text.into()));
        self
    }

    /// Adds an argument that is masked wherever the call or what it printed is shown.
    ///
    /// While the program runs, others can see its arguments in `/proc`: only for what it takes in no other way.
    #[must_use]
    pub fn secret(mut self, text: impl Into<OsString>) -> Self {
        self.arguments.push(Argument::Secret(text.into()));
        self
    }

    /// Runs the program and waits until it has ended, however it ends.
    ///
    /// A program that the kernel itself holds up cannot be killed, and then this waits on: whoever asked must not take
    /// for ended what may still write to a device (promise I-10).
    pub fn run(&self) -> Result<Output, Error> {
        let path = self.tool.find()?;
        let mut running = Running::start(&path, self)?;
        match running.attend(self.limit) {
            Ok(Some(end)) => Ok(Output {
                command: self.to_string(),
                end: end.into(),
                stdout: running.stdout.text(&self.secrets()),
                stderr: running.stderr.text(&self.secrets()),
            }),
            Ok(None) => {
                let remains = running.end().map_err(|source| self.lost(source))?;
                Err(Error::Deadline { command: self.to_string(), limit: self.limit, remains })
            }
            Err(source) => Err(self.lost(source)),
        }
    }

    fn lost(&self, source: io::Error) -> Error {
        Error::Wait { command: self.to_string(), source }
    }

    /// The secrets, longest first: one that contains another would be left in parts.
    fn secrets(&self) -> Vec<&[u8]> {
        let secrets = self.arguments.iter().filter(|it| matches!(it, Argument::Secret(_)));
        let mut secrets: Vec<_> = secrets.map(|it| it.text().as_bytes()).filter(|it| !it.is_empty()).collect();
        secrets.sort_by_key(|it| std::cmp::Reverse(it.len()));
        secrets
    }
}

/// What a program reads, written before it is started.
fn stdin(input: &[u8]) -> io::Result<Stdio> {
    if input.is_empty() {
        return Ok(Stdio::null());
    }
    if input.len() > Call::INPUT_MAX {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "its input is too long"));
    }
    let (reader, writer) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    rustix::io::retry_on_intr(|| rustix::io::write(&writer, input))?;
    Ok(Stdio::from(reader))
}

/// A program that was started. Dropped, it is killed with its group.
struct Running {
    child: Child,
    group: Pid,
    reaped: bool,
    stdout: Captured,
    stderr: Captured,
}

impl Running {
    #[expect(clippy::disallowed_methods, reason = "the one place where programs start")]
    fn start(path: &Path, call: &Call) -> Result<Self, Error> {
        let mut command = std::process::Command::new(path);
        command.args(call.arguments.iter().map(Argument::text));
        command.env_clear().env("PATH", SEARCH_PATH).env("LC_ALL", "C");
        // The working directory must not keep a mount busy.
        command.current_dir("/").process_group(0);
        let failed = |source| Error::Start { command: call.to_string(), source };
        command.stdin(stdin(&call.input).map_err(failed)?).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = {
            let _usual = crate::working_directory::usual_umask();
            command.spawn().map_err(failed)?
        };
        let group = Pid::from_child(&child);
        let stdout = Captured::new(child.stdout.take().map(OwnedFd::from));
        let stderr = Captured::new(child.stderr.take().map(OwnedFd::from));
        Ok(Self { child, group, reaped: false, stdout, stderr })
    }

    /// Reads what it prints until it ends, or until the time is over. One thread and no wake-up without a cause: the
    /// process is a descriptor like its two outputs.
    fn attend(&mut self, limit: Duration) -> io::Result<Option<ExitStatus>> {
        let process = rustix::process::pidfd_open(self.group, PidfdFlags::empty())?;
        for captured in [&self.stdout, &self.stderr] {
            if let Some(stream) = &captured.stream {
                rustix::fs::fcntl_setfl(stream, OFlags::NONBLOCK)?;
            }
        }
        // A limit beyond what the clock can count is none.
        let deadline = Instant::now().checked_add(limit);
        loop {
            let Some(ended) = wait(Some(&process), [&mut self.stdout, &mut self.stderr], deadline)? else {
                return Ok(None);
            };
            if ended {
                break;
            }
        }
        self.stdout.read_rest()?;
        self.stderr.read_rest()?;
        let status = self.child.wait()?;
        self.reaped = true;
        Ok(Some(status))
    }

    /// Kills the group and waits for the program. Whether something still has its outputs open, which can only be what
    /// has left the group.
    fn end(&mut self) -> io::Result<bool> {
        // How long killed processes are given to be gone once the program itself is.
        const GRACE: Duration = Duration::from_secs(5);
        self.kill()?;
        let deadline = Instant::now().checked_add(GRACE);
        while self.stdout.stream.is_some() || self.stderr.stream.is_some() {
            if wait(None, [&mut self.stdout, &mut self.stderr], deadline)?.is_none() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn kill(&mut self) -> io::Result<()> {
        // Not reaped, so the number is still its own. ESRCH: all of the group has ended.
        match rustix::process::kill_process_group(self.group, Signal::KILL) {
            Ok(()) | Err(Errno::SRCH) => {}
            Err(errno) => return Err(errno.into()),
        }
        self.reaped = true;
        self.child.wait().map(drop)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        if !self.reaped {
            let _ = self.kill();
        }
    }
}

/// Waits until the process ends or something was printed, and reads that. Whether the process has ended; `None` if the
/// time is over.
fn wait(
    process: Option<&OwnedFd>,
    outputs: [&mut Captured; 2],
    deadline: Option<Instant>,
) -> Result<Option<bool>, Errno> {
    let left = deadline.map(|it| it.saturating_duration_since(Instant::now()));
    if left.is_some_and(|it| it.is_zero()) {
        return Ok(None);
    }
    let left = left.and_then(|it| Timespec::try_from(it).ok());
    let streams = outputs.iter().filter_map(|it| it.stream.as_ref());
    let mut polled: Vec<_> = process.into_iter().chain(streams).map(|it| PollFd::new(it, PollFlags::IN)).collect();
    match rustix::event::poll(&mut polled, left.as_ref()) {
        Ok(0) | Err(Errno::INTR) => return Ok(Some(false)),
        Ok(_) => {}
        Err(errno) => return Err(errno),
    }
    let ended = process.is_some() && !polled[0].revents().is_empty();
    for captured in outputs {
        captured.read()?;
    }
    Ok(Some(ended))
}

/// The end of what a program prints.
struct Captured {
    /// Until the other end is closed.
    stream: Option<OwnedFd>,
    bytes: Vec<u8>,
    /// The beginning was dropped.
    cut: bool,
}

impl Captured {
    /// How much is kept.
    const BYTES_MAX: usize = 64 * 1024;

    fn new(stream: Option<OwnedFd>) -> Self {
        Self { stream, bytes: Vec::new(), cut: false }
    }

    /// Reads what is there, but not more than a buffer: a program that never stops printing must not keep us from
    /// looking at the clock. Whether there may be more.
    fn read(&mut self) -> Result<bool, Errno> {
        let Some(stream) = &self.stream else { return Ok(false) };
        let mut buffer = [0; 16 * 1024];
        match rustix::io::read(stream.as_fd(), &mut buffer) {
            Ok(0) => self.stream = None,
            Ok(length) => {
                self.bytes.extend_from_slice(&buffer[..length]);
                if self.bytes.len() > 2 * Self::BYTES_MAX {
                    self.bytes.drain(..self.bytes.len() - Self::BYTES_MAX);
                    self.cut = true;
                }
                return Ok(true);
            }
            Err(Errno::INTR) => return Ok(true),
            Err(Errno::AGAIN) => {}
            Err(errno) => return Err(errno),
        }
        Ok(false)
    }

    /// Reads what a program that has ended left in the pipe. Something it started may still print, so not for ever.
    fn read_rest(&mut self) -> Result<(), Errno> {
        // More than the largest pipe holds, in reads of a page.
        const READS_MAX: usize = 1024;
        for _ in 0..READS_MAX {
            if !self.read()? {
                break;
            }
        }
        Ok(())
    }

    fn text(&self, secrets: &[&[u8]]) -> String {
        let mut bytes = self.bytes.as_slice();
        if self.cut {
            // What is left of a secret that was cut through could not be recognised.
            let longest = secrets.first().map_or(0, |it| it.len());
            bytes = &bytes[longest.min(bytes.len())..];
        }
        let masked = masked(bytes, secrets);
        String::from_utf8_lossy(&masked[masked.len().saturating_sub(Self::BYTES_MAX)..]).into_owned()
    }
}

/// The bytes with every secret replaced. The secrets are not empty, and the longest comes first.
fn masked(bytes: &[u8], secrets: &[&[u8]]) -> Vec<u8> {
    let mut text = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Some(first) = rest.first() {
        match secrets.iter().find(|it| rest.starts_with(it)) {
            Some(secret) => {
                text.extend_from_slice(MASK.as_bytes());
                rest = &rest[secret.len()..];
            }
            None => {
                text.push(*first);
                rest = &rest[1..];
            }
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LONG: Duration = Duration::from_secs(600);

    fn shell(script: &str, limit: Duration) -> Call {
        Call::new(Tool::new("sh", Some("dash")), limit).argument("-c").argument(script)
    }

    #[test]
    fn what_a_program_prints_and_how_it_ends_is_told() {
        let output = shell("echo out; echo err >&2; exit 3", LONG).run().unwrap();
        assert_eq!((output.end, output.stdout.as_str(), output.stderr.as_str()), (End::Exit(3), "out\n", "err\n"));
        let error = output.success().unwrap_err();
        assert_eq!(error.to_string(), "run sh -c echo out; echo err >&2; exit 3: exit status 3: err");
        let output = shell("kill -9 $$", LONG).run().unwrap();
        assert_eq!(output.end, End::Signal(9));
        assert!(shell("exit 0", LONG).run().unwrap().success().is_ok());
    }

    #[test]
    fn a_program_gets_two_variables_no_input_and_a_group() {
        let output = shell("cat; env", LONG).run().unwrap();
        assert!(output.stdout.contains("LC_ALL=C\n"), "{}", output.stdout);
        assert!(output.stdout.contains(&format!("PATH={SEARCH_PATH}\n")), "{}", output.stdout);
        assert!(!output.stdout.contains("CARGO"), "{}", output.stdout);
        let group = shell("read -r _ _ _ _ group _ < /proc/$$/stat; test $group = $$", LONG).run().unwrap();
        assert_eq!(group.end, End::Exit(0));
    }

    #[test]
    fn a_program_that_takes_too_long_is_killed_with_what_it_started() {
        let error = shell("sleep 1000 & sleep 1000", Duration::from_millis(20)).run().unwrap_err();
        assert!(matches!(error, Error::Deadline { remains: false, .. }), "{error:?}");
        assert_eq!(error.to_string(), "run sh -c sleep 1000 & sleep 1000: killed after 20ms");
    }

    #[test]
    fn a_program_that_prints_without_end_is_killed_too() {
        let error = shell("while :; do echo y; done", Duration::from_millis(20)).run().unwrap_err();
        assert!(matches!(error, Error::Deadline { .. }), "{error:?}");
    }

    #[test]
    fn what_stays_behind_does_not_hold_up_the_answer() {
        // What stays has both outputs open, and is left alone: it is ended here.
        let output = shell("sleep 1000 & echo $!", LONG).run().unwrap();
        let left: i32 = output.stdout.trim().parse().unwrap();
        rustix::process::kill_process(Pid::from_raw(left).unwrap(), Signal::KILL).unwrap();
        assert_eq!(output.end, End::Exit(0));
    }

    #[test]
    fn only_the_end_of_a_long_output_is_kept() {
        let script = "i=0; while [ $i -lt 30000 ]; do i=$((i+1)); echo line $i; done";
        let output = shell(script, LONG).run().unwrap();
        assert!(output.stdout.len() <= Captured::BYTES_MAX);
        assert!(output.stdout.ends_with("line 29999\nline 30000\n"));
        let said = output.said();
        assert!(said.starts_with("line 29993; ") && said.ends_with("; line 30000"), "{said}");
    }

    #[test]
    fn a_missing_program_is_named_with_its_package() {
        let call = Call::new(Tool::new("mkfs.nosuch", Some("nosuchfs-progs")), LONG);
        let error = call.run().unwrap_err();
        assert!(error.is_missing());
        let text = error.to_string();
        assert!(text.starts_with("find the program mkfs.nosuch in /usr/sbin:"), "{text}");
        assert!(text.ends_with(": it is not installed; it comes with the package nosuchfs-progs"), "{text}");
        assert!(Tool::new("../bin/sh", None).find().unwrap_err().is_missing(), "a path is no name");
        assert!(Tool::new("", None).find().unwrap_err().is_missing());
    }

    #[test]
    fn a_secret_is_in_no_text() {
        let call = shell("echo got $1 and $2; exit 1", LONG).argument("sh").secret("hunter").secret("hunter2");
        let output = call.run().unwrap();
        assert_eq!(output.stdout, "got <masked> and <masked>\n");
        let shown = format!("{call} {call:?} {output:?}");
        let error = output.success().unwrap_err();
        let shown = format!("{shown} {error} {error:?}");
        assert!(!shown.contains("hunter"), "{shown}");
        let error = Call::new(Tool::new("sleep", None), Duration::from_millis(1)).argument("9").secret("8").run();
        assert_eq!(error.unwrap_err().to_string(), "run sleep 9 <masked>: killed after 1ms");
    }

    #[test]
    fn a_secret_that_was_cut_through_is_in_no_text() {
        let captured = Captured { stream: None, bytes: b"nter2 and hunter2".to_vec(), cut: true };
        assert_eq!(captured.text(&[b"hunter2"]), "nd <masked>");
        assert_eq!(Captured { stream: None, bytes: b"nt".to_vec(), cut: true }.text(&[b"hunter2"]), "");
    }

    #[test]
    fn a_limit_without_end_is_none() {
        assert_eq!(shell("exit 0", Duration::MAX).run().unwrap().end, End::Exit(0));
    }

    proptest! {
        #[test]
        fn no_secret_survives_masking(
            bytes in prop::collection::vec(0u8..3, 0..60),
            mut secrets in prop::collection::vec(prop::collection::vec(0u8..3, 1..4), 0..3),
        ) {
            secrets.sort_by_key(|it| std::cmp::Reverse(it.len()));
            let secrets: Vec<_> = secrets.iter().map(Vec::as_slice).collect();
            let masked = masked(&bytes, &secrets);
            for secret in secrets {
                prop_assert!(!masked.windows(secret.len()).any(|it| it == secret));
            }
        }
    }
}
