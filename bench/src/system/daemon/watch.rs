//! The daemon's API, read with as little work as can be: this runs on the same machine as what is measured.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};

use crate::times::PATIENCE;

/// Bytes that are read at once.
const BUFFER: usize = 256 * 1024;

/// A watch of all pods.
pub(super) struct Watch {
    lines: BufReader<UnixStream>,
    line: Vec<u8>,
}

/// How a pod stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum State {
    /// It is there, and not ready.
    Here,
    /// It has all its volumes.
    Ready,
    /// Nothing of it is there.
    Gone,
}

/// Asks something; what is read first is the body of the answer. HTTP/1.0 has no chunks.
fn ask(socket: &Path, path: &str) -> anyhow::Result<(bool, BufReader<UnixStream>)> {
    let mut stream = UnixStream::connect(socket).with_context(|| format!("connect to {}", socket.display()))?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(format!("GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n").as_bytes())?;
    let mut lines = BufReader::with_capacity(BUFFER, stream);
    let mut line = String::new();
    lines.read_line(&mut line).context("read the status")?;
    let done = line.split_ascii_whitespace().nth(1) == Some("200");
    while line != "\r\n" {
        line.clear();
        ensure!(lines.read_line(&mut line).context("read the head")? > 0, "the answer ends in its head");
    }
    Ok((done, lines))
}

/// Whether the disk and all manifests have been read.
pub(super) fn is_ready(socket: &Path) -> anyhow::Result<bool> {
    let (done, mut body) = ask(socket, "/readyz")?;
    body.read_to_end(&mut Vec::new()).context("read what is not ready")?;
    Ok(done)
}

impl Watch {
    pub(super) fn open(socket: &Path) -> anyhow::Result<Self> {
        let (done, lines) = ask(socket, "/apis/windlass/v1alpha1/pods?watch=true")?;
        ensure!(done, "the daemon does not let its pods be watched");
        Ok(Self { lines, line: Vec::new() })
    }

    /// What is told next of a pod.
    fn next(&mut self) -> anyhow::Result<(usize, State)> {
        loop {
            self.line.clear();
            let count = self.lines.read_until(b'\n', &mut self.line).context("read what happens")?;
            ensure!(count > 0, "the daemon has ended");
            if let Some(told) = understand(&self.line)? {
                return Ok(told);
            }
        }
    }

    /// Waits until this pod is so.
    fn until(&mut self, index: usize, state: State) -> anyhow::Result<()> {
        while self.next()? != (index, state) {}
        Ok(())
    }

    /// Waits until a pod is ready.
    pub(super) fn until_ready(&mut self, index: usize) -> anyhow::Result<()> {
        self.until(index, State::Ready)
    }

    /// Waits until a pod is gone.
    pub(super) fn until_gone(&mut self, index: usize) -> anyhow::Result<()> {
        self.until(index, State::Gone)
    }

    /// How long each of so many pods takes until it is so, from a moment on.
    fn all(&mut self, count: usize, state: State, began: Instant) -> anyhow::Result<Vec<Duration>> {
        let mut times = vec![None; count];
        let mut left = count;
        while left > 0 {
            let (index, told) = self.next()?;
            if let Some(time) = times.get_mut(index)
                && told == state
                && time.is_none()
            {
                *time = Some(began.elapsed());
                left -= 1;
            }
        }
        Ok(times.into_iter().flatten().collect())
    }

    /// How long each of so many pods takes until it is ready.
    pub(super) fn all_ready(&mut self, count: usize, began: Instant) -> anyhow::Result<Vec<Duration>> {
        self.all(count, State::Ready, began)
    }

    /// How long each of so many pods takes until it is gone.
    pub(super) fn all_gone(&mut self, count: usize, began: Instant) -> anyhow::Result<Vec<Duration>> {
        self.all(count, State::Gone, began)
    }
}

/// Which pod a line is about and how it stands; `None` for a bookmark.
fn understand(line: &[u8]) -> anyhow::Result<Option<(usize, State)>> {
    let gone = match line.strip_prefix(b"{\"type\":\"").and_then(|it| it.first()) {
        Some(b'A' | b'M') => false,
        Some(b'D') => true,
        Some(b'B') => return Ok(None),
        _ => bail!("no line of a watch: {}", String::from_utf8_lossy(line)),
    };
    let index = after(line, b"\"uid\":\"").and_then(|it| it.get(..8)).and_then(|it| str::from_utf8(it).ok());
    let index = index.and_then(|it| it.parse().ok()).context("a pod that is not ours")?;
    let wanted = after(line, b"\"phase\":\"").is_some_and(|it| it.starts_with(b"Wanted"));
    let ready = after(line, b"\"type\":\"VolumesMounted\",\"status\":\"").is_some_and(|it| it.starts_with(b"True"));
    let state = match (gone, wanted && ready) {
        (true, _) => State::Gone,
        (false, true) => State::Ready,
        (false, false) => State::Here,
    };
    Ok(Some((index, state)))
}

/// What comes after the first of these.
fn after<'a>(line: &'a [u8], words: &[u8]) -> Option<&'a [u8]> {
    let at = line.windows(words.len()).position(|it| it == words)?;
    line.get(at + words.len()..)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(kind: &str, phase: &str, status: &str) -> String {
        format!(
            "{{\"type\":\"{kind}\",\"object\":{{\"metadata\":{{\"name\":\"pod-7\",\
             \"uid\":\"00000007-0000-4000-8000-000000000000\"}},\"status\":{{\"phase\":\"{phase}\",\
             \"conditions\":[{{\"type\":\"VolumesMounted\",\"status\":\"{status}\"}}]}}}}}}\n"
        )
    }

    #[test]
    fn lines_of_a_watch_are_understood() -> anyhow::Result<()> {
        let cases = [
            ("ADDED", "Wanted", "True", State::Ready),
            ("MODIFIED", "Wanted", "False", State::Here),
            ("MODIFIED", "Leaving", "True", State::Here),
            ("DELETED", "Wanted", "True", State::Gone),
        ];
        for (kind, phase, status, state) in cases {
            assert_eq!(understand(line(kind, phase, status).as_bytes())?, Some((7, state)), "{kind} {phase} {status}");
        }
        assert_eq!(understand(b"{\"type\":\"BOOKMARK\"}\n")?, None);
        Ok(())
    }

    #[test]
    fn what_is_no_line_of_a_watch_is_refused() {
        assert!(understand(b"HTTP").is_err());
        assert!(understand(b"{\"type\":\"ADDED\",\"object\":{}}\n").is_err());
    }
}
