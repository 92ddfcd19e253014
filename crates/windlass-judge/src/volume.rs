//! What the orchestrator has made of one volume, as far as it can know by the answers it got.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use crate::call::{Asked, Attach, Context, Create, Publish, Reply, Stage};
use crate::fault::Call;

/// Whether something is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// The orchestrator was told so.
    Held,
    /// A call ended without telling.
    Open,
}

/// Something that was made, or may have been.
#[derive(Clone, Debug)]
pub(crate) struct Step<T> {
    pub(crate) standing: Standing,
    /// The call that made it, or may have.
    pub(crate) asked: T,
    /// The calls that show it.
    pub(crate) calls: Vec<u64>,
}

/// One volume.
#[derive(Clone, Debug, Default)]
pub(crate) struct Volume {
    /// That the driver has made it, or may have; none if nobody asked for that.
    pub(crate) made: Option<Step<Create>>,
    /// It is gone, by this call.
    pub(crate) deleted: Option<u64>,
    /// How large it is, as the driver has told, and by which call.
    pub(crate) size: Option<(i64, u64)>,
    /// Calls to make it larger whose outcome is open.
    pub(crate) enlarging: Vec<u64>,
    /// By node.
    pub(crate) attached: BTreeMap<String, Step<Attach>>,
    /// What attaching it has told.
    pub(crate) publish_context: Context,
    /// By staging path.
    pub(crate) stages: BTreeMap<String, Step<Stage>>,
    /// By target path.
    pub(crate) targets: BTreeMap<String, Step<Publish>>,
    /// Calls to grow it whose outcome is open.
    pub(crate) growing: Vec<u64>,
    /// Places for which the driver was asked, ever.
    pub(crate) heard: BTreeSet<String>,
    /// Calls under way that change something.
    pub(crate) running: Vec<u64>,
    /// The last calls that failed, by name and place, since one like it succeeded: which, and when they came.
    pub(crate) failures: BTreeMap<(&'static str, String), VecDeque<(u64, Duration)>>,
    /// How often each call came.
    pub(crate) came: BTreeMap<Call, u32>,
}

impl Volume {
    /// Whether nothing of it is here, may be, or is about to be.
    pub(crate) fn is_gone(&self) -> bool {
        let is_nowhere = self.attached.is_empty() && self.stages.is_empty() && self.targets.is_empty();
        is_nowhere && self.made.is_none() && self.running.is_empty()
    }

    /// Whether it was published and is so nowhere any more, and something of it is here all the same.
    pub(crate) fn is_forgotten(&self) -> bool {
        let is_used = self.targets.values().any(|it| it.standing == Standing::Held);
        self.came.contains_key(&Call::Publish) && !is_used && self.running.is_empty()
    }

    /// How it is attached. There is one node only, for the driver knows no other.
    pub(crate) fn attachment(&self) -> Option<&Step<Attach>> {
        self.attached.values().next()
    }

    /// Takes in the end of a call.
    pub(crate) fn ended(&mut self, number: u64, asked: &Asked, answer: Reply) {
        if let (
            Asked::Detach { .. } | Asked::Unstage { .. } | Asked::Unpublish { .. } | Asked::Delete { .. },
            Reply::Done,
        ) = (asked, answer)
        {
            // Nobody tries any more what was to be there.
            self.failures.retain(|(_, place), _| place != asked.place());
        }
        match asked {
            Asked::Create(it) => self.created(number, it, answer),
            Asked::Delete { .. } => self.removed(number, answer),
            Asked::Grow(_) => match answer {
                Reply::Done | Reply::Refused(_) => self.enlarging.clear(),
                Reply::Open(_) | Reply::Unheard => self.enlarging.push(number),
            },
            Asked::Attach(it) => made(&mut self.attached, it.node.clone(), it, number, answer),
            Asked::Stage(it) => made(&mut self.stages, it.staging.clone(), it, number, answer),
            Asked::Publish(it) => made(&mut self.targets, it.target.clone(), it, number, answer),
            Asked::Detach { node, .. } => {
                // Without a name it is from all of them.
                let all = self.attached.keys().filter(|it| node.is_empty() || *it == node).cloned();
                for node in all.collect::<Vec<_>>() {
                    undone(&mut self.attached, &node, number, answer);
                }
            }
            Asked::Unstage { staging, .. } => undone(&mut self.stages, staging, number, answer),
            Asked::Unpublish { target, .. } => {
                undone(&mut self.targets, target, number, answer);
                if self.targets.is_empty() {
                    // Whoever publishes it again grows it then.
                    self.growing.clear();
                }
            }
            Asked::Expand(_) => match answer {
                Reply::Done | Reply::Refused(_) => self.growing.clear(),
                Reply::Open(_) | Reply::Unheard => self.growing.push(number),
            },
            Asked::RegistrationInfo
            | Asked::RegistrationStatus { .. }
            | Asked::Question(_)
            | Asked::Stats { .. }
            | Asked::Unsupported { .. } => {}
        }
    }
}

impl Volume {
    fn created(&mut self, number: u64, asked: &Create, answer: Reply) {
        match (answer, &mut self.made) {
            (Reply::Done, _) => {
                self.made = Some(Step { standing: Standing::Held, asked: asked.clone(), calls: vec![number] });
                self.deleted = None;
            }
            // What the orchestrator was told before holds.
            (Reply::Open(_) | Reply::Unheard, Some(step)) => {
                if step.standing == Standing::Open {
                    step.calls.push(number);
                }
            }
            (Reply::Open(_) | Reply::Unheard, None) => {
                self.made = Some(Step { standing: Standing::Open, asked: asked.clone(), calls: vec![number] });
            }
            (Reply::Refused(_), _) => {}
        }
    }

    fn removed(&mut self, number: u64, answer: Reply) {
        match (answer, &mut self.made) {
            (Reply::Done, _) => {
                (self.made, self.size, self.deleted) = (None, None, Some(number));
                self.enlarging.clear();
            }
            (Reply::Open(_) | Reply::Unheard, Some(step)) => {
                step.standing = Standing::Open;
                step.calls.push(number);
            }
            (Reply::Refused(_), Some(step)) => step.calls.push(number),
            (_, None) => {}
        }
    }
}

/// The end of a call that makes something.
fn made<T: Clone>(all: &mut BTreeMap<String, Step<T>>, place: String, asked: &T, number: u64, answer: Reply) {
    match answer {
        Reply::Done => {
            all.insert(place, Step { standing: Standing::Held, asked: asked.clone(), calls: vec![number] });
        }
        // What an earlier call may have made is not unmade by this one.
        Reply::Refused(_) => {}
        Reply::Open(_) | Reply::Unheard => {
            let new = || Step { standing: Standing::Open, asked: asked.clone(), calls: Vec::new() };
            let step = all.entry(place).or_insert_with(new);
            step.standing = Standing::Open;
            step.calls.push(number);
        }
    }
}

/// The end of a call that takes something away.
fn undone<T>(all: &mut BTreeMap<String, Step<T>>, place: &str, number: u64, answer: Reply) {
    match answer {
        Reply::Done => {
            all.remove(place);
        }
        Reply::Refused(_) => {
            if let Some(step) = all.get_mut(place) {
                step.calls.push(number);
            }
        }
        Reply::Open(_) | Reply::Unheard => {
            if let Some(step) = all.get_mut(place) {
                step.standing = Standing::Open;
                step.calls.push(number);
            }
        }
    }
}
