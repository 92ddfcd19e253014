//! The rules as questions to one call: each file has one kind of them. What is known is only looked at here.

mod again;
mod arguments;
mod capability;
mod order;
mod place;

use std::collections::BTreeMap;

use windlass_csi::Code;

use crate::call::Asked;
use crate::judge::Refusal;
use crate::rule::Rule;
use crate::settings::Settings;
use crate::volume::Volume;

/// What is known when a call comes.
pub(crate) struct Scene<'a> {
    pub(crate) settings: &'a Settings,
    pub(crate) volumes: &'a BTreeMap<String, Volume>,
    /// The volume that the call is about, as it is before the call.
    pub(crate) volume: &'a Volume,
    /// Somebody asked the driver who it is.
    pub(crate) introduced: bool,
    /// Somebody asked what it can do.
    pub(crate) capabilities_asked: bool,
}

/// Something that is not as a rule says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Breach {
    /// What.
    pub(crate) text: String,
    /// The calls that show it, besides the one that is judged.
    pub(crate) calls: Vec<u64>,
}

/// What comes out for one call.
#[derive(Default)]
pub(crate) struct Hearing {
    /// The rules that were looked at, and what was found.
    pub(crate) opinions: Vec<(Rule, Option<Breach>)>,
    /// How a driver would answer.
    pub(crate) refusal: Option<Refusal>,
}

impl Hearing {
    /// Looks at a rule. The call goes on even if it is broken.
    fn look(&mut self, rule: Rule, kept: bool, calls: &[u64], text: impl FnOnce() -> String) {
        let breach = (!kept).then(|| Breach { text: text(), calls: calls.to_vec() });
        self.opinions.push((rule, breach));
    }

    /// Looks at a rule; a driver refuses the call if it is broken.
    fn insist(&mut self, rule: Rule, kept: bool, code: Code, calls: &[u64], text: impl FnOnce() -> String) {
        let breach = (!kept).then(|| Breach { text: text(), calls: calls.to_vec() });
        if let (Some(breach), None) = (&breach, &self.refusal) {
            self.refusal = Some(Refusal { code, text: breach.text.clone() });
        }
        self.opinions.push((rule, breach));
    }
}

/// Holds a call against every rule that one call can break.
pub(crate) fn hear(scene: &Scene<'_>, asked: &Asked) -> Hearing {
    let mut hearing = Hearing::default();
    arguments::check(scene, asked, &mut hearing);
    capability::check(scene, asked, &mut hearing);
    place::check(scene, asked, &mut hearing);
    order::check(scene, asked, &mut hearing);
    again::check(scene, asked, &mut hearing);
    hearing
}
