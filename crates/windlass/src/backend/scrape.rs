//! Metrics as they are asked for, and how full claims are.
//!
//! Nothing polls (I-8): a scrape begins to ask volumes of claims in the background, at most once a minute as the kubelet does
//! (E-512), and serves what the last round found. Where nobody scrapes nobody is asked, and a volume that hangs holds up no
//! scrape (I-6).

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use super::statistics;
use crate::Node;
use crate::metrics::{Claims, Metrics};
use crate::node::Ended;

/// How long a volume may take to answer; one that is later is left out of the round.
const PATIENCE: Duration = Duration::from_secs(30);
/// From the beginning of a round to that of the next.
const EVERY: Duration = Duration::from_secs(60);

pub(super) struct Scrape {
    metrics: Arc<Metrics>,
    /// When volumes were last asked.
    asked: Mutex<Option<Instant>>,
}

impl Scrape {
    pub(super) fn new(metrics: Arc<Metrics>) -> Self {
        Self { metrics, asked: Mutex::default() }
    }

    pub(super) async fn text(&self, node: &Node) -> Result<String, Ended> {
        let totals = node.totals().await?;
        if self.is_due() {
            tokio::spawn(ask(self.metrics.clone(), node.clone()));
        }
        Ok(self.metrics.text(&totals))
    }

    fn is_due(&self) -> bool {
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        let is_due = asked.is_none_or(|it| it.elapsed() >= EVERY);
        if is_due {
            *asked = Some(Instant::now());
        }
        is_due
    }
}

/// Asks the volumes of all claims. Those that cannot or do not say how full they are left out, as the kubelet has it.
async fn ask(metrics: Arc<Metrics>, node: Node) {
    let Ok(asked) = node.ask_claims().await else { return };
    let questions = asked.into_iter().map(|(claim, asked)| (claim, asked.answer()));
    let answers = statistics::answers(questions, PATIENCE).await;
    let known: Claims = answers.into_iter().filter_map(|(claim, answer)| Some((claim, answer.ok()?))).collect();
    metrics.set_claims(known);
}
