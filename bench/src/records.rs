//! Forms that records could have, measured side by side: what the choice of windlass's was made by.
//!
//! Each plays the same life of pods of four volumes: of two the intent is written first, all four are proven, then the pod goes
//! and all of them are marked and forgotten. Lines are as long as windlass's. Nothing is synced, as nothing of this need
//! outlive the machine. Bare system calls by path, so that only the forms differ.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

/// Measure forms of records side by side and print a table
#[derive(clap::Args, Debug)]
pub(crate) struct Compare {
    /// Where to write; on a tmpfs the figures repeat
    #[arg(long, default_value = "/dev/shm")]
    directory: PathBuf,
    /// How many pods
    #[arg(long, default_value_t = 2000)]
    pods: usize,
    /// How many threads write at a time
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// How often each form is measured; the median counts
    #[arg(long, default_value_t = 7)]
    rounds: usize,
}

const VOLUMES: usize = 4;
/// Bytes of a line, as windlass's have.
const LINE: usize = 640;

/// One form: what is done for a pod that comes, and for one that goes.
trait Form: Sync {
    fn up(&self, pod: usize) -> Result<()>;
    fn down(&self, pod: usize) -> Result<()>;
}

impl Compare {
    pub(crate) fn run(self) -> Result<()> {
        println!("| form | µs a pod up | µs a pod down |");
        println!("|---|---:|---:|");
        type Make = fn(&Path) -> Result<Box<dyn Form>>;
        let forms: [(&str, Make); 3] = [
            ("a file a volume", |at| Ok(Box::new(FileAVolume(at.into())))),
            ("a file a pod", |at| Ok(Box::new(FileAPod(at.into())))),
            ("a journal for all", |at| Ok(Box::new(Journal::open(at)?))),
        ];
        for (name, make) in forms {
            let mut measured = Vec::new();
            for _ in 0..self.rounds.max(1) {
                let directory = tempfile::Builder::new().prefix("windlass-records").tempdir_in(&self.directory)?;
                let form = make(directory.path()).with_context(|| name.to_owned())?;
                let up = self.time(|pod| form.up(pod))?;
                measured.push((up, self.time(|pod| form.down(pod))?));
            }
            let each = |of: fn(&(Duration, Duration)) -> Duration| {
                let mut times: Vec<Duration> = measured.iter().map(of).collect();
                times.sort();
                times[times.len() / 2].as_secs_f64() * 1e6 / self.pods as f64
            };
            println!("| {name} | {:.1} | {:.1} |", each(|it| it.0), each(|it| it.1));
        }
        Ok(())
    }

    /// The time until all threads have done it for their share of the pods.
    fn time(&self, work: impl Fn(usize) -> Result<()> + Sync) -> Result<Duration> {
        let begin = Instant::now();
        thread::scope(|scope| {
            let share = |first| (first..self.pods).step_by(self.threads).try_for_each(&work);
            let threads: Vec<_> = (0..self.threads).map(|first| scope.spawn(move || share(first))).collect();
            threads.into_iter().try_for_each(|it| it.join().expect("nothing panics"))
        })?;
        Ok(begin.elapsed())
    }
}

fn line(pod: usize, volume: usize) -> Vec<u8> {
    let mut line = format!("{{\"pod\":{pod},\"volume\":{volume},\"more\":\"").into_bytes();
    line.resize(LINE - 3, b'x');
    line.extend(b"\"}\n");
    line
}

/// Volumes that are recorded before they are mounted.
fn is_announced(volume: usize) -> bool {
    volume.is_multiple_of(2)
}

/// Made in its place, what comes of it added; marked by its mode; removed.
struct FileAVolume(PathBuf);

impl FileAVolume {
    fn path(&self, pod: usize, volume: usize) -> PathBuf {
        self.0.join(format!("00000000-0000-4000-8000-{pod:012}:volumes:kubernetes.io~empty-dir:{volume}"))
    }
}

impl Form for FileAVolume {
    fn up(&self, pod: usize) -> Result<()> {
        for volume in 0..VOLUMES {
            let mut file = File::create_new(self.path(pod, volume))?;
            if is_announced(volume) {
                file.write_all(&line(pod, volume))?;
            }
            file.write_all(&line(pod, volume))?;
        }
        Ok(())
    }

    fn down(&self, pod: usize) -> Result<()> {
        for volume in 0..VOLUMES {
            let path = self.path(pod, volume);
            fs::set_permissions(&path, Permissions::from_mode(0o500))?;
            fs::remove_file(path)?;
        }
        Ok(())
    }
}

/// Lines of all volumes in one file, which is marked and removed once.
struct FileAPod(PathBuf);

impl FileAPod {
    fn path(&self, pod: usize) -> PathBuf {
        self.0.join(format!("00000000-0000-4000-8000-{pod:012}"))
    }
}

impl Form for FileAPod {
    fn up(&self, pod: usize) -> Result<()> {
        let mut file = OpenOptions::new().append(true).create_new(true).open(self.path(pod))?;
        for volume in 0..VOLUMES {
            if is_announced(volume) {
                file.write_all(&line(pod, volume))?;
            }
            file.write_all(&line(pod, volume))?;
        }
        Ok(())
    }

    fn down(&self, pod: usize) -> Result<()> {
        let path = self.path(pod);
        fs::set_permissions(&path, Permissions::from_mode(0o500))?;
        Ok(fs::remove_file(path)?)
    }
}

/// Lines of all pods in one file, each with a check sum, and where those are that count; written anew when most of it does not.
struct Journal {
    path: PathBuf,
    state: Mutex<State>,
}

struct State {
    file: File,
    bytes: u64,
    live: HashMap<(usize, usize), (u64, usize)>,
}

impl Journal {
    const SLACK: u64 = 1 << 20;

    fn open(directory: &Path) -> Result<Self> {
        let path = directory.join("journal");
        let file = OpenOptions::new().read(true).append(true).create_new(true).open(&path)?;
        Ok(Self { path, state: Mutex::new(State { file, bytes: 0, live: HashMap::new() }) })
    }

    fn add(&self, pod: usize, volumes: &[usize], text: &[u8], is_live: bool) -> Result<()> {
        let sum = text
            .iter()
            .fold(0xcbf2_9ce4_8422_2325_u64, |sum, it| (sum ^ u64::from(*it)).wrapping_mul(0x0100_0000_01b3));
        let entry = [&sum.to_le_bytes()[..], text].concat();
        let mut state = self.state.lock().expect("nobody panics");
        state.file.write_all(&entry)?;
        for volume in volumes {
            let at = (state.bytes, entry.len());
            match is_live {
                true => state.live.insert((pod, *volume), at),
                false => state.live.remove(&(pod, *volume)),
            };
        }
        state.bytes += entry.len() as u64;
        let counts: u64 = state.live.len() as u64 * (LINE as u64 + 8);
        if state.bytes > Self::SLACK + 3 * counts { self.compact(&mut state) } else { Ok(()) }
    }

    fn compact(&self, state: &mut State) -> Result<()> {
        let whole = fs::read(&self.path)?;
        let mut text = Vec::new();
        for at in state.live.values_mut() {
            let entry = &whole[usize::try_from(at.0)?..][..at.1];
            at.0 = text.len() as u64;
            text.extend_from_slice(entry);
        }
        let beside = self.path.with_extension("new");
        fs::write(&beside, &text)?;
        fs::rename(&beside, &self.path)?;
        state.file = OpenOptions::new().read(true).append(true).open(&self.path)?;
        state.bytes = text.len() as u64;
        Ok(())
    }
}

impl Form for Journal {
    fn up(&self, pod: usize) -> Result<()> {
        for volume in 0..VOLUMES {
            if is_announced(volume) {
                self.add(pod, &[volume], &line(pod, volume), true)?;
            }
            self.add(pod, &[volume], &line(pod, volume), true)?;
        }
        Ok(())
    }

    fn down(&self, pod: usize) -> Result<()> {
        let all: Vec<usize> = (0..VOLUMES).collect();
        self.add(pod, &[], b"{\"leaving\":\"00000000-0000-4000-8000-000000000000\"}\n", true)?;
        self.add(pod, &all, b"{\"gone\":\"00000000-0000-4000-8000-000000000000\"}\n", false)
    }
}
