//! A chain of reasons in words: what is seen first, its deepest cause last (I-7).

use jiff::Timestamp;
use windlass_api::view::{Awaited, Reason};

use super::lines::Lines;
use super::paint::Paint;
use super::{age, plain};

/// How a chain is drawn.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Style {
    pub(crate) now: Timestamp,
    pub(crate) lines: Lines,
    pub(crate) paint: Paint,
}

impl Style {
    /// The chain, two lines a link, each link farther in than the one it is the cause of.
    pub(crate) fn chain(self, reasons: &[Reason], indent: usize) -> String {
        let mut text = String::new();
        for (depth, reason) in reasons.iter().enumerate() {
            let before = " ".repeat(indent + 4 * depth.saturating_sub(1));
            let arrow = if depth == 0 { "" } else { self.lines.arrow() };
            let code = self.paint.text(reason.urgency.into(), &plain(&reason.code));
            text.push_str(&format!("{before}{arrow}{code}: {}\n", plain(&reason.message)));
            let below = " ".repeat(indent + 4 * depth);
            text.push_str(&format!("{below}{}\n", self.details(reason)));
        }
        text
    }

    /// Since when, how often it failed, when it is tried next, what it waits for.
    pub(crate) fn details(self, reason: &Reason) -> String {
        let mut details = vec![format!("for {}", age::age(reason.since, self.now))];
        match reason.attempts {
            0 => {}
            1 => details.push("failed once".into()),
            attempts => details.push(format!("failed {attempts} times")),
        }
        details.extend(reason.next_try.map(|it| format!("next try {}", age::until(it, self.now))));
        details.extend(reason.goes_at.map(|it| format!("goes {}", age::until(it, self.now))));
        details.extend(reason.waits_on.as_ref().and_then(waits_for));
        format!("({})", details.join(", "))
    }
}

fn waits_for(awaited: &Awaited) -> Option<String> {
    let what = match (awaited.kind.as_str(), &awaited.name) {
        // The next try says it.
        ("Time", _) => return None,
        ("Attacher", None) => "the attacher".into(),
        ("Report", None) => "the report of volumes in use".into(),
        ("Disk", None) => "the disk to be read".into(),
        (kind, Some(name)) => format!("{} {}", kind.to_lowercase(), plain(name)),
        (kind, None) => kind.to_lowercase(),
    };
    Some(format!("waits for {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Color, Look};
    use windlass_api::view::Urgency;

    #[test]
    fn a_chain_leads_from_what_is_seen_to_its_cause() {
        let now = Timestamp::from_second(1_000_000).unwrap();
        let reason = |code: &str, message: &str| Reason {
            code: code.into(),
            urgency: Urgency::Trouble,
            message: message.into(),
            remedy: String::new(),
            since: Timestamp::from_second(1_000_000 - 12).unwrap(),
            attempts: 0,
            next_try: None,
            goes_at: None,
            waits_on: None,
        };
        let chain = [
            Reason {
                attempts: 4,
                next_try: Some(Timestamp::from_second(1_000_003).unwrap()),
                waits_on: Some(Awaited { kind: "Time".into(), name: None }),
                ..reason("BackingOff", "publish failed")
            },
            Reason {
                waits_on: Some(Awaited { kind: "Object".into(), name: Some("ConfigMap default/settings".into()) }),
                ..reason("ObjectMissing", "configmap \"settings\"\nnot found")
            },
            reason("Failed", "deepest"),
        ];
        let style = Style { now, lines: Lines::Unicode, paint: Paint::of(&Look { color: Color::Never }) };
        assert_eq!(
            style.chain(&chain, 2),
            [
                "  BackingOff: publish failed",
                "  (for 12s, failed 4 times, next try in 3s)",
                "  └─> ObjectMissing: configmap \"settings\" not found",
                "      (for 12s, waits for object ConfigMap default/settings)",
                "      └─> Failed: deepest",
                "          (for 12s)",
                "",
            ]
            .join("\n")
        );
    }
}
