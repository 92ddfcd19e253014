//! Asks how full volumes are, one question at a time for each: whoever asks before there is an answer waits for the same
//! one. So a volume that hangs costs one thread, however often it is asked about (I-6).
//!
//! How a volume is measured is its plugin's to know; how long to wait for an answer is for whoever asked to say.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;
use windlass_core::ids::{PodUid, VolumeId};
use windlass_linux::workers::{Lane, Workers};

use crate::plugin::{self, Statistics};
use crate::task;

/// More questions than this are not asked at a time: each may hang for as long as it likes, and has a thread. Beside two
/// drivers that hang it must leave threads for everything else.
const OPEN_MAX: usize = 64;

/// How full a volume is, or why that is not known.
pub type Answer = Result<Statistics, String>;

type Key = (VolumeId, PodUid);

/// The questions that are not answered yet.
#[derive(Default)]
pub(crate) struct Questions(Mutex<HashMap<Key, watch::Receiver<Option<Answer>>>>);

/// A question that was asked.
#[must_use]
#[derive(Debug)]
pub struct Asked(Result<watch::Receiver<Option<Answer>>, String>);

impl Asked {
    /// Waits for the answer. To wait no longer is to drop this: the question stays asked, and is not asked again before it
    /// is answered.
    pub async fn answer(self) -> Answer {
        let mut answer = self.0?;
        match answer.wait_for(Option::is_some).await.as_deref() {
            Ok(Some(answer)) => answer.clone(),
            Ok(None) | Err(_) => Err("the question broke off".into()),
        }
    }
}

impl Questions {
    /// Asks on a thread of its own, which it has while it does not wait for a driver, unless that was asked before and is
    /// not answered yet.
    pub(crate) fn ask(
        self: &Arc<Self>,
        workers: &Workers,
        volume: &VolumeId,
        pod: &PodUid,
        question: impl Future<Output = Answer> + Send + 'static,
    ) -> Asked {
        let key = (volume.clone(), pod.clone());
        let mut open = self.open();
        if let Some(asked) = open.get(&key) {
            return Asked(Ok(asked.clone()));
        }
        if open.len() >= OPEN_MAX {
            return Asked(Err(format!(
                "{OPEN_MAX} volumes that were asked before have not answered yet; ask again later"
            )));
        }
        let (sender, answer) = watch::channel(None);
        open.insert(key.clone(), answer.clone());
        drop(open);
        let running = Running { questions: self.clone(), key };
        let work = async move {
            let answer = question.await;
            // Whoever asks from now on asks anew.
            drop(running);
            sender.send_replace(Some(answer));
        };
        let lane = Lane::from(format!("statistics {volume}").as_str());
        let asked = workers.run_job(&lane, task::begins(workers, &lane, || Box::pin(work)));
        Asked(asked.map(|_| answer).map_err(|error| plugin::chain(&error)))
    }

    fn open(&self) -> MutexGuard<'_, HashMap<Key, watch::Receiver<Option<Answer>>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A question is no longer open when this goes, however it ended.
struct Running {
    questions: Arc<Questions>,
    key: Key,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.questions.open().remove(&self.key);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use windlass_linux::workers::Limits;

    use super::*;
    use crate::plugin::Measure;

    fn used(used: u64) -> Answer {
        Ok(Statistics { bytes: Some(Measure { used, ..Measure::default() }), ..Statistics::default() })
    }

    fn wait(asked: Asked) -> Answer {
        tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(asked.answer())
    }

    #[test]
    fn a_volume_that_hangs_is_asked_once_and_all_who_asked_get_its_answer() {
        let (questions, workers) = (Arc::new(Questions::default()), Workers::new("test", Limits::default()));
        let (volume, pod) = (VolumeId::from("hung"), PodUid::from("pod"));
        let (go_on, told) = mpsc::channel();
        let first = questions.ask(&workers, &volume, &pod, async move {
            let _ = told.recv();
            used(1)
        });
        let second = questions.ask(&workers, &volume, &pod, async { used(2) });
        // Another is not held up.
        assert_eq!(wait(questions.ask(&workers, &VolumeId::from("other"), &pod, async { used(3) })), used(3));
        go_on.send(()).unwrap();
        assert_eq!((wait(first), wait(second)), (used(1), used(1)));
        assert_eq!(wait(questions.ask(&workers, &volume, &pod, async { used(4) })), used(4), "it is asked anew");
        workers.stop();
    }

    #[test]
    fn a_question_that_breaks_off_can_be_asked_again() {
        let (questions, workers) = (Arc::new(Questions::default()), Workers::new("test", Limits::default()));
        let (volume, pod) = (VolumeId::from("volume"), PodUid::from("pod"));
        let broken = questions.ask(&workers, &volume, &pod, async { std::panic::resume_unwind(Box::new("broken")) });
        assert_eq!(wait(broken), Err("the question broke off".into()));
        assert_eq!(wait(questions.ask(&workers, &volume, &pod, async { used(1) })), used(1));
        workers.stop();
        let late = wait(questions.ask(&workers, &volume, &pod, async { used(2) }));
        assert_eq!(late, Err("start a job: the workers were stopped".into()));
        assert!(questions.open().is_empty());
    }

    #[test]
    fn only_so_many_volumes_can_hang() {
        let (questions, workers) = (Arc::new(Questions::default()), Workers::new("test", Limits::default()));
        let pod = PodUid::from("pod");
        let (go_on, told) = mpsc::channel::<()>();
        let told = Arc::new(Mutex::new(told));
        let ask = |number: usize| {
            let told = told.clone();
            questions.ask(&workers, &VolumeId::from(format!("{number}").as_str()), &pod, async move {
                let _ = told.lock().unwrap().recv();
                used(0)
            })
        };
        let hung: Vec<Asked> = (0..OPEN_MAX).map(ask).collect();
        assert!(wait(ask(OPEN_MAX)).unwrap_err().contains("have not answered yet"));
        drop(go_on);
        assert!(hung.into_iter().all(|it| wait(it) == used(0)));
        workers.stop();
    }
}
