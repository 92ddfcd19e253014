//! Who is registered: the sockets that are there, and to which of them each name belongs. Waits for nothing.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::introduction::{self, BackOff, Introduced, Refusal};
use super::socket::{Entry, EntryState, File};
use super::{News, Settings, Word};

pub(super) struct Ledger {
    settings: Arc<Settings>,
    words: mpsc::UnboundedSender<Word>,
    sockets: BTreeMap<PathBuf, Socket>,
    names: BTreeMap<Arc<str>, Holder>,
    /// The stamp of the socket that was found last.
    stamp: u64,
    news: VecDeque<News>,
}

/// Something in the directory.
struct Socket {
    /// None: it could not be looked at.
    file: Option<File>,
    /// Later ones have greater stamps, and a socket that is made anew is another.
    stamp: u64,
    state: State,
    /// What was told last of why it is not accepted.
    told: Option<String>,
}

enum State {
    /// It is being asked, and has not failed.
    Asked(Task),
    /// It is asked again and again, or never will be.
    Refused(#[expect(dead_code, reason = "the task goes on as long as it is held")] Option<Task>),
    /// It has introduced a driver. Whether the name is its own stands in `names`.
    Introduced(Introduced),
}

/// A task that ends when nobody holds it.
struct Task(AbortHandle);

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// To whom a name belongs.
struct Holder {
    socket: PathBuf,
    stamp: u64,
    /// Its socket is gone; until then another may come in its place.
    leaves: Option<Instant>,
}

impl Ledger {
    pub(super) fn new(settings: Settings, words: mpsc::UnboundedSender<Word>) -> Self {
        Self {
            settings: Arc::new(settings),
            words,
            sockets: BTreeMap::new(),
            names: BTreeMap::new(),
            stamp: 0,
            news: VecDeque::new(),
        }
    }

    /// The waits of somebody who begins to wait.
    pub(super) fn back_off(&self) -> BackOff {
        BackOff::new(self.settings.back_off, self.settings.back_off_max)
    }

    /// What there is to be told.
    pub(super) fn news(&mut self) -> VecDeque<News> {
        std::mem::take(&mut self.news)
    }

    /// When [`Ledger::pass`] has something to do.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.names.values().filter(|it| !self.has_successor(it)).filter_map(|it| it.leaves).min()
    }

    /// Time has passed: names that nobody came for are given up.
    pub(super) fn pass(&mut self, now: Instant) {
        let is_over = |it: &Holder| it.leaves.is_some_and(|at| at <= now) && !self.has_successor(it);
        let over: Vec<_> = self.names.iter().filter(|(_, it)| is_over(it)).map(|(name, _)| name.clone()).collect();
        for name in over {
            self.give_up(name);
        }
    }

    /// Takes in what one look has found.
    pub(super) fn found(&mut self, mut found: Vec<Entry>) {
        let there: BTreeSet<_> =
            found.iter().filter(|it| !matches!(it.what, EntryState::Nothing)).map(|it| it.path.clone()).collect();
        for it in found.iter().filter(|it| matches!(it.what, EntryState::Nothing)) {
            let is_gone = |path: &&PathBuf| path.starts_with(&it.path) && !there.contains(*path);
            let gone: Vec<_> = self.sockets.keys().filter(is_gone).cloned().collect();
            gone.into_iter().for_each(|it| self.vanish(it));
        }
        // In the order in which they were made, for the last one wins.
        found.sort_by_key(Entry::made);
        for Entry { path, what } in found {
            match what {
                EntryState::Nothing => {}
                EntryState::Socket(file) => self.ask(path, file),
                EntryState::Unfit(file, text) => {
                    if !self.is_known(&path, &file) {
                        self.refuse(path, Some(file), text);
                    }
                }
                // What is known of it is as good as before.
                EntryState::Trouble(text) if self.sockets.get(&path).is_none_or(|it| it.file.is_none()) => {
                    self.refuse(path, None, text);
                }
                EntryState::Trouble(_) => {}
            }
        }
    }

    /// Nothing can be seen any more, so nobody is there.
    pub(super) fn directory_lost(&mut self, error: &io::Error) {
        let directory = self.settings.directory.clone();
        let gone: Vec<_> = self.sockets.keys().filter(|it| **it != directory).cloned().collect();
        gone.into_iter().for_each(|it| self.vanish(it));
        self.refuse(directory, None, format!("the directory cannot be watched: {error}"));
    }

    /// Takes in what a socket's task has to say.
    pub(super) fn said(&mut self, path: &Path, stamp: u64, said: Result<Introduced, Refusal>) {
        // A task that was ended may have spoken just before.
        let Some(socket) = self.sockets.get_mut(path).filter(|it| it.stamp == stamp) else { return };
        match said {
            Ok(introduced) => {
                socket.told = None;
                let name = introduced.driver.name().into();
                socket.state = State::Introduced(introduced);
                self.claim(&name, path, stamp);
            }
            Err(Refusal { name, text, .. }) => {
                // The task goes on, as long as it is held.
                socket.state = match std::mem::replace(&mut socket.state, State::Refused(None)) {
                    State::Asked(task) => State::Refused(Some(task)),
                    other @ (State::Refused(_) | State::Introduced(_)) => other,
                };
                if socket.told.as_ref() != Some(&text) {
                    socket.told = Some(text.clone());
                    self.news.push_back(News::Refused { socket: path.to_path_buf(), name, text });
                }
            }
        }
        self.pass(Instant::now());
    }

    /// Asks a socket, unless it is known.
    fn ask(&mut self, path: PathBuf, file: File) {
        if self.is_known(&path, &file) {
            return;
        }
        self.remove(&path);
        self.stamp += 1;
        let stamp = self.stamp;
        let (words, socket) = (self.words.clone(), path.clone());
        // When nobody hears it, everything ends.
        let tell = move |said| drop(words.send(Word { socket: socket.clone(), stamp, said }));
        let task = tokio::spawn(introduction::introduce(path.clone(), file.clone(), self.settings.clone(), tell));
        let state = State::Asked(Task(task.abort_handle()));
        self.sockets.insert(path, Socket { file: Some(file), stamp, state, told: None });
    }

    fn refuse(&mut self, path: PathBuf, file: Option<File>, text: String) {
        let told = self.sockets.get(&path).and_then(|it| it.told.as_ref()) == Some(&text);
        self.remove(&path);
        self.stamp += 1;
        let socket = Socket { file, stamp: self.stamp, state: State::Refused(None), told: Some(text.clone()) };
        self.sockets.insert(path.clone(), socket);
        if !told {
            self.news.push_back(News::Refused { socket: path, name: None, text });
        }
    }

    /// A socket is gone for good, and not only to make way for another of the same path.
    fn vanish(&mut self, path: PathBuf) {
        let was_refused = self.sockets.get(&path).is_some_and(|it| it.told.is_some());
        self.remove(&path);
        if was_refused {
            self.news.push_back(News::Vanished { socket: path });
        }
    }

    /// A socket is gone. Its driver stays for a moment, unless another of the same name is there.
    fn remove(&mut self, path: &Path) {
        let Some(socket) = self.sockets.remove(path) else { return };
        let State::Introduced(introduced) = socket.state else { return };
        let name: Arc<str> = introduced.driver.name().into();
        let Some(holder) = self.names.get_mut(&name).filter(|it| it.stamp == socket.stamp) else { return };
        holder.leaves = Some(Instant::now() + self.settings.grace);
        let introduced_too = |it: &Socket| matches!(&it.state, State::Introduced(it) if it.driver.name() == &*name);
        let others = self.sockets.iter().filter(|(_, it)| introduced_too(it));
        if let Some((path, stamp)) = others.max_by_key(|(_, it)| it.stamp).map(|(path, it)| (path.clone(), it.stamp)) {
            self.claim(&name, &path, stamp);
        }
    }

    /// A socket has introduced a driver of this name.
    fn claim(&mut self, name: &Arc<str>, path: &Path, stamp: u64) {
        // Whatever was introduced at this path before, under another name, is not any more.
        let is_other = |(other, it): &(&Arc<str>, &Holder)| *other != name && it.socket == path && it.stamp != stamp;
        let others: Vec<_> = self.names.iter().filter(is_other).map(|(other, _)| other.clone()).collect();
        for other in others {
            self.give_up(other);
        }
        let is_newest = self.names.get(name).is_none_or(|it| it.leaves.is_some() || it.stamp < stamp);
        let Some(Socket { state: State::Introduced(introduced), .. }) = self.sockets.get(path) else { return };
        if is_newest {
            let Introduced { driver, info, capabilities } = introduced.clone();
            self.news.push_back(News::Registered { driver, info, capabilities, socket: path.to_path_buf() });
            self.names.insert(name.clone(), Holder { socket: path.to_path_buf(), stamp, leaves: None });
        }
    }

    fn give_up(&mut self, name: Arc<str>) {
        if let Some(Holder { socket, .. }) = self.names.remove(&name) {
            self.news.push_back(News::Unregistered { name, socket });
        }
    }

    /// Whether somebody at the holder's path is being asked, and has not failed yet.
    fn has_successor(&self, holder: &Holder) -> bool {
        self.sockets.get(&holder.socket).is_some_and(|it| matches!(it.state, State::Asked(_)))
    }

    fn is_known(&self, path: &Path, file: &File) -> bool {
        self.sockets.get(path).and_then(|it| it.file.as_ref()).is_some_and(|it| it.is(file))
    }
}
