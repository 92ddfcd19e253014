//! Drivers introduce themselves: each makes a socket in a directory that is watched, and is asked there who it is (C-1..C-17).
//!
//! [`watch`] tells of drivers that come and go. Each socket has a task of its own, so one that is stale or hangs delays no
//! other. Nothing is done while no socket comes or goes (I-8).
//!
//! A name belongs to the socket that was made last (W-10). When that one goes and an older one is still there, the name goes
//! back to it. A socket that is made anew is a driver that was restarted: until the new one has spoken, the old registration
//! holds (W-11).
//!
//! What is kept of a driver's introduction, and where it is reported, is for others.

pub(crate) mod introduction;
mod ledger;
mod socket;
mod tree;
pub(crate) mod version;

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::{Driver, Limits, NodeCapabilities, NodeInfo, Observer};
use introduction::Introduced;
use ledger::Ledger;
use tree::Tree;

/// How many news wait for whoever reads them before the watch waits too.
const NEWS_MAX: usize = 64;

/// How registrations are to be watched for.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The directory in which sockets appear. Made, for its owner and group alone, if it is not there.
    pub directory: PathBuf,
    /// What drivers are allowed.
    pub limits: Limits,
    /// How soon a socket is asked again that did not do well; it doubles with each time (C-5).
    pub back_off: Duration,
    /// The longest that a socket is left alone.
    pub back_off_max: Duration,
    /// How long a driver stays registered when its socket is gone, so that one which is only made anew is never away (W-11).
    pub grace: Duration,
    /// Who is told of the calls of drivers, also of those that are made before a driver is registered.
    pub observer: Observer,
}

impl Settings {
    /// The kubelet's times, and half a second for a socket to come back.
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self {
            directory: directory.into(),
            limits: Limits::default(),
            back_off: Duration::from_millis(500),
            back_off_max: Duration::from_secs(122),
            grace: Duration::from_millis(500),
            observer: Observer::default(),
        }
    }
}

/// What has become of drivers and their sockets.
#[derive(Clone, Debug)]
pub enum News {
    /// A driver can be used from now on. If it was registered before, this takes the place of that.
    Registered {
        /// The driver, new with each registration.
        driver: Driver,
        /// What it says about this node.
        info: NodeInfo,
        /// What it can do.
        capabilities: NodeCapabilities,
        /// Where it introduced itself.
        socket: PathBuf,
    },
    /// A driver is away, and no other of its name is there.
    Unregistered {
        /// Its name.
        name: Arc<str>,
        /// Where it had introduced itself.
        socket: PathBuf,
    },
    /// Something in the directory is not accepted. Told once as long as the reason is the same.
    Refused {
        /// What it is about.
        socket: PathBuf,
        /// The name that was given, if it got that far.
        name: Option<Arc<str>>,
        /// Why.
        text: String,
    },
    /// A socket that was refused is not there any more.
    Vanished {
        /// Where it was.
        socket: PathBuf,
    },
}

/// Watches a directory for drivers, until nobody reads the news any more. Tasks run on the runtime of whoever calls.
pub fn watch(settings: Settings) -> io::Result<mpsc::Receiver<News>> {
    let tree = Tree::open(&settings.directory)?;
    let (tell, news) = mpsc::channel(NEWS_MAX);
    let (introduce, introductions) = mpsc::unbounded_channel();
    let ledger = Ledger::new(settings, introduce);
    tokio::spawn(Watch { tree, ledger, introductions, news: tell }.run());
    Ok(news)
}

/// What a socket's task has to say.
struct Word {
    socket: PathBuf,
    /// Which socket of this path.
    stamp: u64,
    said: Result<Introduced, introduction::Refusal>,
}

struct Watch {
    tree: Tree,
    ledger: Ledger,
    introductions: mpsc::UnboundedReceiver<Word>,
    news: mpsc::Sender<News>,
}

impl Watch {
    async fn run(mut self) {
        let mut found = self.tree.look_everywhere();
        let mut back_off = self.ledger.back_off();
        let mut look_again = None;
        loop {
            self.ledger.found(found);
            for it in self.ledger.news() {
                if self.news.send(it).await.is_err() {
                    return;
                }
            }
            found = Vec::new();
            let tree = &mut self.tree;
            tokio::select! {
                () = self.news.closed() => return,
                word = self.introductions.recv() => match word {
                    Some(Word { socket, stamp, said }) => self.ledger.said(&socket, stamp, said),
                    // The ledger keeps a sender, so that there is always one.
                    None => return,
                },
                () = until(self.ledger.deadline()) => self.ledger.pass(Instant::now()),
                touched = async {
                    if let Some(at) = look_again {
                        tokio::time::sleep_until(at).await;
                    }
                    tree.touched().await
                } => match touched {
                    Ok(it) => {
                        found = it;
                        (look_again, back_off) = (None, self.ledger.back_off());
                    }
                    Err(error) => {
                        // The directory is gone and cannot be made: nothing tells when that changes.
                        self.ledger.directory_lost(&error);
                        look_again = Some(Instant::now() + back_off.next());
                    }
                },
            }
        }
    }
}

async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(it) => tokio::time::sleep_until(it).await,
        None => std::future::pending().await,
    }
}
