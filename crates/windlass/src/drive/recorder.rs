//! Keeps what the engine is told and what it asks for, for whoever looks into a defect: `windlass-sim events` plays it to a
//! fresh engine. A thread of its own writes, so the drive touches no file.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::mpsc::{Sender, channel};
use std::thread::{self, JoinHandle};

use windlass_core::Config;
use windlass_core::recording::Entry;

/// Writes entries to a file, a line of JSON each.
pub(crate) struct Recorder {
    entries: Option<Sender<Entry>>,
    writes: Option<JoinHandle<()>>,
}

impl Recorder {
    /// Begins to record an engine, after what earlier ones left in the file: what was before a crash is what matters. If it
    /// cannot be written any more, that is told.
    pub(crate) fn begin(
        path: &Path,
        config: &Config,
        failed: impl FnOnce(io::Error) + Send + 'static,
    ) -> io::Result<Self> {
        // Names of pods and texts of drivers are nobody else's business.
        let file = File::options().create(true).append(true).mode(0o600).open(path)?;
        let (sender, entries) = channel::<Entry>();
        let began = Entry::began(config);
        let run = move || {
            let mut file = BufWriter::new(file);
            // The last line of a process that was killed may be torn.
            let begun = file.write_all(b"\n");
            let mut write = |entries: &mut dyn Iterator<Item = Entry>| {
                for entry in entries {
                    serde_json::to_writer(&mut file, &entry)?;
                    file.write_all(b"\n")?;
                }
                file.flush()
            };
            let mut written = begun.and_then(|()| write(&mut [began].into_iter()));
            while let (Ok(()), Ok(entry)) = (&written, entries.recv()) {
                written = write(&mut [entry].into_iter().chain(entries.try_iter()));
            }
            written.unwrap_or_else(failed);
        };
        let writes = thread::Builder::new().name("windlass-record".into()).spawn(run)?;
        Ok(Self { entries: Some(sender), writes: Some(writes) })
    }

    /// Keeps this. After a failure, which was told, nothing is kept any more.
    pub(super) fn keep(&self, entry: Entry) {
        if let Some(entries) = &self.entries {
            let _ = entries.send(entry);
        }
    }
}

impl Drop for Recorder {
    /// Waits until all is written: the process may end right after this.
    fn drop(&mut self) {
        drop(self.entries.take());
        let _ = self.writes.take().map(JoinHandle::join);
    }
}
