//! The order of what is done around the call of an operation, as plain data: make, read, intend, call, look, prove; retire,
//! call, forget.
//!
//! A [`Flight`] says which [`Step`] comes next and is told how it went. It touches nothing: the executor takes the steps on
//! a real disk and with real plugins, the simulator takes the same steps on simulated ones and dies before each of them. So
//! the order that is killed everywhere is the order that is shipped.
//!
//! What the order must bring about is what [`operation`](crate::operation) says is owed to the engine. Each step below says
//! what a process leaves that dies just before it.

use crate::operation::{Action, Earlier, OperationKind};
use core::fmt;

/// What comes next.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// Make the directory of the pod, if it is missing. A death before it leaves nothing at all.
    ///
    /// It comes first: all that is made for a pod is below it, and an empty one goes with its pod.
    Make,
    /// Read what is recorded, and tell it with [`Flight::read`]. A death before it leaves at most an empty directory.
    ///
    /// Before anything is written, because what was recorded decides what is written in its place.
    Read,
    /// See that what is there is what is recorded and may be touched. A death before it leaves things as they were.
    ///
    /// It is the last step at which a refusal is free: nothing has been changed.
    Inspect,
    /// Write down what is going to be made. A death before it leaves things as they were.
    ///
    /// Before the call, because a process that dies in the call leaves perhaps a mount, and this is all that tells of it.
    Intend(Write),
    /// Write down that what a pod has stays, with content that may be the old or the new. A death before it leaves the proof of
    /// the old content, which is still true.
    ///
    /// Before the call, because the call changes content that the record would go on to vouch for. It does not become an
    /// intent: the pod has the volume, and after a restart nothing must be made again (I-11).
    Unsettle(Write),
    /// Make the record prove nothing, by itself or because its pod is gone. A death before it leaves the proof of something
    /// that is still there.
    ///
    /// Before the call, because a process that dies in the call leaves a part of what the record would prove.
    Retire {
        /// Its pod is gone.
        with_pod: bool,
    },
    /// Call the plugin. A death before it leaves an intent, or a record that proves nothing, and nothing done about it.
    Call,
    /// See in the mount table that what the call says it made is there (I-4). A death before it leaves a mount without proof:
    /// it is made again, which finds it, or taken away.
    Look,
    /// Write down what was made. A death before it leaves the same.
    ///
    /// After the look, because the next start believes it; before the engine is told, because what it was told is done must
    /// not be made again after a restart (I-11).
    Prove(Write),
    /// Write the record back that was there, because the call changed nothing. A death before it leaves proof of a content that
    /// nobody has, and the content is compared once more.
    Restore(Write),
    /// Remove the record. A death before it leaves a record of what is not there, which is taken away once more.
    ///
    /// After the call that takes away, never before: until it has ended something may be there that nothing else tells of.
    /// After a refusal only if there was no record before: what there was stands for what may be there since then.
    Forget,
    /// Tell the engine. A death before it leaves all that the operation did, and the next start finds it.
    End(End),
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Make => "make",
            Self::Read => "read",
            Self::Inspect => "inspect",
            Self::Intend(_) => "intend",
            Self::Unsettle(_) => "unsettle",
            Self::Retire { .. } => "retire",
            Self::Call => "call",
            Self::Look => "look",
            Self::Prove(_) => "prove",
            Self::Restore(_) => "restore",
            Self::Forget => "forget",
            Self::End(_) => "end",
        })
    }
}

/// How a flight ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// It did what it should, and that was seen and is recorded.
    Done,
    /// It failed, and nothing is there or recorded that was not before.
    Refused,
    /// Something of it may be there.
    Unknown,
}

/// How a record is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Write {
    /// Where.
    pub how: How,
    /// What it must outlive.
    pub survives: Survives,
}

/// Where a record is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum How {
    /// In its place, where there is none: whatever a death meanwhile leaves is taken for none.
    First,
    /// At the end of the one that this flight wrote first: whatever a death meanwhile leaves, that one still counts. If
    /// something was in the place of that one, it is [`How::Anew`].
    Added,
    /// In place of the one there is: a death meanwhile leaves that one.
    Anew,
}

/// What a record must outlive once it is written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Survives {
    /// The end of the process.
    Crash,
    /// The end of the process; and after the end of the machine it is as it was before, or whole. For what takes the place of a record that
    /// had to outlive the machine, and alone tells that something may be there: torn it would tell nothing.
    CrashWhole,
    /// The end of the machine.
    PowerLoss,
}

/// What tells after a crash that something may be there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Trace {
    /// Nothing, and there is nothing to undo.
    Nothing,
    /// The volume's directory in the pod, which is made before anything else of it.
    Directory,
    /// A record alone.
    Record,
}

/// What is recorded before a flight, as far as its order depends on it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Recorded {
    /// There is no record, or none that makes sense.
    Nothing,
    /// A record that proves nothing: of an intent, of something that was being taken away, of an attachment.
    Unproven,
    /// Proof for another boot.
    Stale,
    /// Proof for this boot.
    Proven,
}

/// What the process knows of the record before it reads it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Known {
    /// Nothing: it must be read.
    Unread,
    /// There is none: all were read at start, and this is made for the first time.
    Unrecorded,
    /// The process remembers what the record says.
    Remembered,
}

/// What a step that failed left behind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Left {
    /// Nothing that was not there before.
    Nothing,
    /// Perhaps something: it must be undone or done again.
    Something,
}

/// The order of one operation, and how far it has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Flight {
    kind: OperationKind,
    after: Earlier,
    with_pod: bool,
    trace: Trace,
    known: Known,
    recorded: Recorded,
    /// How this flight has written the record so far.
    written: Option<How>,
    step: Step,
}

impl Flight {
    /// The flight of an operation.
    pub fn new(action: &Action, trace: Trace, known: Known) -> Self {
        let (kind, mut after, mut with_pod) = (action.kind(), Earlier::Nothing, false);
        match action {
            Action::Stage { after: earlier, .. } | Action::Publish { after: earlier, .. } => after = *earlier,
            Action::Unpublish { with_pod: it, .. } => with_pod = *it,
            Action::Attach | Action::Expand { .. } | Action::Unstage | Action::Detach => {}
        }
        // What is attached or staged nothing but a record tells.
        let trace = if kind == OperationKind::Publish { trace } else { Trace::Record };
        let recorded = Recorded::Nothing;
        let flight = Self { kind, after, with_pod, trace, known, recorded, written: None, step: Step::Make };
        let step = match kind {
            OperationKind::Publish => Step::Make,
            OperationKind::Stage | OperationKind::Attach | OperationKind::Detach | OperationKind::Unpublish => {
                flight.reading()
            }
            // Whatever is recorded, it is taken away.
            OperationKind::Unstage => flight.beginning(),
            OperationKind::Expand => Step::Call,
        };
        Self { step, ..flight }
    }

    /// What comes next.
    pub fn next(&self) -> Step {
        self.step
    }

    /// Tells what [`Step::Read`] found.
    pub fn read(&mut self, recorded: Recorded) {
        self.recorded = recorded;
    }

    /// The plugin is going to mount something that it can name before anybody can see it: this is how that is recorded, in the
    /// middle of [`Step::Call`]. A death between the mount and its proof then leaves a record that says which mount is ours,
    /// and no other is taken for it (I-4).
    pub fn announces(&mut self) -> Write {
        let write = self.write(self.how());
        self.written = Some(write.how);
        write
    }

    /// Tells how the step went that was next.
    pub fn took(&mut self, result: Result<(), Left>) {
        self.step = match result {
            Ok(()) => self.after_success(),
            Err(left) => self.after_failure(left),
        };
    }

    fn after_success(&mut self) -> Step {
        match self.step {
            Step::Make => self.reading(),
            Step::Read => Step::Inspect,
            Step::Inspect => self.beginning(),
            Step::Intend(write) => {
                self.written = Some(write.how);
                Step::Call
            }
            Step::Unsettle(_) | Step::Retire { .. } => Step::Call,
            Step::Call => match self.kind {
                OperationKind::Stage | OperationKind::Publish => Step::Look,
                // Nothing on this node shows what is attached.
                OperationKind::Attach => Step::Prove(Write { how: How::Anew, survives: Survives::PowerLoss }),
                OperationKind::Expand => Step::End(End::Done),
                OperationKind::Unpublish | OperationKind::Unstage | OperationKind::Detach => Step::Forget,
            },
            Step::Look => Step::Prove(self.write(self.how())),
            Step::Prove(_) => Step::End(End::Done),
            Step::Restore(_) => Step::End(End::Refused),
            Step::Forget if self.makes() => Step::End(End::Refused),
            Step::Forget => Step::End(End::Done),
            end @ Step::End(_) => end,
        }
    }

    fn after_failure(&self, left: Left) -> Step {
        match self.step {
            // Nothing has been changed, or nothing that matters: the record says less of the same content.
            Step::Make | Step::Read | Step::Inspect | Step::Unsettle(_) if self.makes() => Step::End(End::Refused),
            Step::Call if self.makes() && left == Left::Nothing => self.nothing_changed(),
            end @ Step::End(_) => end,
            Step::Make
            | Step::Read
            | Step::Inspect
            | Step::Intend(_)
            | Step::Unsettle(_)
            | Step::Retire { .. }
            | Step::Call
            | Step::Look
            | Step::Prove(_)
            | Step::Restore(_)
            | Step::Forget => Step::End(End::Unknown),
        }
    }

    /// The call failed and left nothing behind: neither does this flight.
    fn nothing_changed(&self) -> Step {
        match self.recorded {
            Recorded::Proven if self.is_in_use() => Step::Restore(self.write(How::Anew)),
            Recorded::Nothing if self.written.is_some() => Step::Forget,
            // What was recorded stands for what may be there since then.
            Recorded::Nothing | Recorded::Unproven | Recorded::Stale | Recorded::Proven => Step::End(End::Refused),
        }
    }

    fn reading(&self) -> Step {
        match self.known {
            Known::Unread => Step::Read,
            Known::Unrecorded | Known::Remembered => Step::Inspect,
        }
    }

    /// The first step that changes anything.
    fn beginning(&self) -> Step {
        match self.kind {
            OperationKind::Publish if self.is_in_use() => Step::Unsettle(self.write(How::Anew)),
            // Its directory tells of it, and no record says anything that is about to become untrue.
            OperationKind::Publish
                if self.trace != Trace::Record && matches!(self.recorded, Recorded::Nothing | Recorded::Unproven) =>
            {
                Step::Call
            }
            OperationKind::Attach => Step::Intend(Write { how: How::Anew, survives: Survives::PowerLoss }),
            OperationKind::Publish | OperationKind::Stage => {
                let survives = match self.trace {
                    Trace::Record => Survives::PowerLoss,
                    Trace::Directory | Trace::Nothing => Survives::Crash,
                };
                let how = if self.recorded == Recorded::Nothing { How::First } else { How::Anew };
                Step::Intend(Write { how, survives })
            }
            OperationKind::Expand => Step::Call,
            OperationKind::Unpublish | OperationKind::Unstage | OperationKind::Detach => {
                Step::Retire { with_pod: self.with_pod }
            }
        }
    }

    /// A record that need not outlive the machine itself: proof holds for this boot alone, and is lost with it.
    fn write(&self, how: How) -> Write {
        let survives = match (how, self.trace) {
            (How::Added | How::Anew, Trace::Record) => Survives::CrashWhole,
            (How::First, _) | (_, Trace::Nothing | Trace::Directory) => Survives::Crash,
        };
        Write { how, survives }
    }

    /// How the record is written once the call is under way.
    fn how(&self) -> How {
        match (self.written, self.recorded) {
            (Some(How::First | How::Added), _) => How::Added,
            // Where nothing else tells of it, one that was not finished must not take the place of none.
            (None, Recorded::Nothing) if self.trace != Trace::Nothing => How::First,
            (None | Some(How::Anew), _) => How::Anew,
        }
    }

    /// Does a pod have it, as its record proves, so that it is only brought up to date?
    fn is_in_use(&self) -> bool {
        self.kind == OperationKind::Publish && self.after == Earlier::Success && self.recorded == Recorded::Proven
    }

    fn makes(&self) -> bool {
        match self.kind {
            OperationKind::Attach | OperationKind::Stage | OperationKind::Publish | OperationKind::Expand => true,
            OperationKind::Unpublish | OperationKind::Unstage | OperationKind::Detach => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::Access;
    use alloc::format;
    use alloc::string::String;
    use alloc::vec::Vec;

    fn publish(after: Earlier) -> Action {
        Action::Publish { pod: "p".into(), after, access: Access::ReadWrite, revision: 1, label: None }
    }

    /// The steps of a flight with this record before it, of which the one that begins with `fails` fails.
    fn steps(action: &Action, trace: Trace, recorded: Recorded, fails: &str, left: Left) -> String {
        let mut flight = Flight::new(action, trace, Known::Unread);
        let mut words: Vec<String> = Vec::new();
        loop {
            let step = flight.next();
            words.push(match step {
                Step::Intend(it) | Step::Unsettle(it) | Step::Prove(it) | Step::Restore(it) => {
                    format!("{step} {:?} {:?}", it.how, it.survives)
                }
                Step::End(end) => format!("{end:?}"),
                _ => format!("{step}"),
            });
            if let Step::End(_) = step {
                return words.join(", ").replace("make, read, inspect", "..").replace("read, inspect", "..");
            }
            if step == Step::Read {
                flight.read(recorded);
            }
            let failed = !fails.is_empty() && words.last().is_some_and(|it| it.starts_with(fails));
            flight.took(if failed { Err(left) } else { Ok(()) });
        }
    }

    fn succeeds(action: &Action, trace: Trace, recorded: Recorded) -> String {
        steps(action, trace, recorded, "", Left::Nothing)
    }

    #[test]
    fn what_a_directory_tells_of_needs_no_intent_and_what_a_record_tells_of_has_one_that_outlives_the_machine() {
        let first = publish(Earlier::Nothing);
        let done = succeeds(&first, Trace::Directory, Recorded::Nothing);
        assert_eq!(done, ".., call, look, prove First Crash, Done");
        let done = succeeds(&first, Trace::Nothing, Recorded::Nothing);
        assert_eq!(done, ".., call, look, prove Anew Crash, Done");
        let done = succeeds(&first, Trace::Record, Recorded::Nothing);
        assert_eq!(done, ".., intend First PowerLoss, call, look, prove Added CrashWhole, Done");
        let stage = Action::Stage { after: Earlier::Nothing, label: None };
        let done = succeeds(&stage, Trace::Record, Recorded::Unproven);
        assert_eq!(done, ".., intend Anew PowerLoss, call, look, prove Anew CrashWhole, Done");
        let done = succeeds(&Action::Attach, Trace::Record, Recorded::Nothing);
        assert_eq!(done, ".., intend Anew PowerLoss, call, prove Anew PowerLoss, Done");
    }

    #[test]
    fn proof_of_what_is_not_in_use_becomes_an_intent_before_the_call() {
        for recorded in [Recorded::Stale, Recorded::Proven] {
            let done = succeeds(&publish(Earlier::Unknown), Trace::Directory, recorded);
            assert_eq!(done, ".., intend Anew Crash, call, look, prove Anew Crash, Done");
        }
    }

    #[test]
    fn what_a_pod_has_stays_proven_and_is_as_it_was_if_nothing_changed() {
        let refresh = publish(Earlier::Success);
        let done = succeeds(&refresh, Trace::Directory, Recorded::Proven);
        assert_eq!(done, ".., unsettle Anew Crash, call, look, prove Anew Crash, Done");
        let refused = steps(&refresh, Trace::Directory, Recorded::Proven, "call", Left::Nothing);
        assert_eq!(refused, ".., unsettle Anew Crash, call, restore Anew Crash, Refused");
    }

    #[test]
    fn what_alone_tells_of_a_volume_is_never_replaced_by_something_that_may_be_torn() {
        let refresh = publish(Earlier::Success);
        let done = succeeds(&refresh, Trace::Record, Recorded::Proven);
        assert_eq!(done, ".., unsettle Anew CrashWhole, call, look, prove Anew CrashWhole, Done");
        let refused = steps(&refresh, Trace::Record, Recorded::Proven, "call", Left::Nothing);
        assert_eq!(refused, ".., unsettle Anew CrashWhole, call, restore Anew CrashWhole, Refused");
    }

    #[test]
    fn what_is_taken_away_proves_nothing_before_the_call_and_is_forgotten_after_it() {
        let unpublish = Action::Unpublish { pod: "p".into(), with_pod: true };
        let done = succeeds(&unpublish, Trace::Directory, Recorded::Proven);
        assert_eq!(done, ".., retire, call, forget, Done");
        let done = succeeds(&Action::Unstage, Trace::Record, Recorded::Proven);
        assert_eq!(done, "retire, call, forget, Done");
        for fails in ["retire", "call", "forget"] {
            let unknown = steps(&unpublish, Trace::Directory, Recorded::Proven, fails, Left::Nothing);
            assert!(unknown.ends_with(&format!("{fails}, Unknown")), "{unknown}");
        }
    }

    #[test]
    fn a_refusal_leaves_no_record_where_there_was_none_and_keeps_one_that_there_was() {
        let again = publish(Earlier::Unknown);
        let refused = steps(&again, Trace::Record, Recorded::Nothing, "call", Left::Nothing);
        assert_eq!(refused, ".., intend First PowerLoss, call, forget, Refused");
        let refused = steps(&again, Trace::Record, Recorded::Unproven, "call", Left::Nothing);
        assert_eq!(refused, ".., intend Anew PowerLoss, call, Refused");
        let refused = steps(&again, Trace::Directory, Recorded::Nothing, "call", Left::Nothing);
        assert_eq!(refused, ".., call, Refused");
    }

    #[test]
    fn a_failure_is_a_refusal_only_while_nothing_was_changed() {
        let first = publish(Earlier::Nothing);
        for (fails, end) in [
            ("make", "Refused"),
            ("read", "Refused"),
            ("inspect", "Refused"),
            ("intend", "Unknown"),
            ("call", "Unknown"),
            ("look", "Unknown"),
            ("prove", "Unknown"),
        ] {
            let ended = steps(&first, Trace::Record, Recorded::Nothing, fails, Left::Something);
            assert!(ended.ends_with(end), "{fails}: {ended}");
        }
    }

    #[test]
    fn what_a_plugin_announces_stands_in_the_record_and_goes_with_a_refusal() {
        let mut flight = Flight::new(&publish(Earlier::Nothing), Trace::Directory, Known::Unrecorded);
        while flight.next() != Step::Call {
            flight.took(Ok(()));
        }
        assert_eq!(flight.announces(), Write { how: How::First, survives: Survives::Crash });
        assert_eq!(flight.announces().how, How::Added);
        let mut refused = flight;
        refused.took(Err(Left::Nothing));
        assert_eq!(refused.next(), Step::Forget);
        flight.took(Ok(()));
        flight.took(Ok(()));
        assert_eq!(flight.next(), Step::Prove(Write { how: How::Added, survives: Survives::Crash }));
    }
}
