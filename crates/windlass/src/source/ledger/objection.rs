//! What speaks against a version of a file: what it lacks that the good version has, unless its writer is known to have
//! come to its end.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::file::{End, Item, Version};
use super::loss::Cut;
use super::{Key, Ledger};
use crate::view::{Problem, Severity};

impl Ledger {
    /// What a version of a file lacks that the good one has, and that perhaps nobody took away; or why it may not be what
    /// somebody means at all (I-1).
    pub(super) fn lacking(&self, path: &Path, version: &Version) -> Result<Vec<Key>, Box<Problem>> {
        let good = self.files.get(path).and_then(|it| it.good.as_ref());
        let kept = if good.is_some() { "; its last good version stays in force" } else { "" };
        let problem = |line, object, message| {
            Err(Box::new(Problem { severity: Severity::Error, path: self.shown(path), line, object, message }))
        };
        if version.ending.is_blank {
            let nothing = "it says nothing, as files do whose writer was interrupted or found the disk full";
            let meant = "if that is meant, write `{apiVersion: v1, kind: List, items: []}`, or remove it";
            return problem(None, None, format!("{nothing}{kept}; {meant}"));
        }
        let Some(good) = good else { return Ok(Vec::new()) };
        // The first of a name is the one that counts.
        let now: BTreeMap<&Key, &Item> = version.items.iter().rev().map(|it| (&it.key, it)).collect();
        let elsewhere: BTreeSet<&Key> = version.elsewhere.iter().collect();
        let before = good.items.iter().filter(|it| !matches!(it.key, Key::Elsewhere(_)));
        let missing = before.clone().filter(|it| !now.contains_key(&it.key) && !self.is_kept_beside(path, it));
        // Of a pod that is another node's by now nothing is lost.
        let missing: Vec<&Key> = missing.map(|it| &it.key).collect();
        let gone: Vec<&Key> = missing.iter().copied().filter(|it| !elsewhere.contains(it)).collect();
        let other = version.others.iter().find(|(it, _)| !good.others.iter().any(|(other, _)| other == it));
        if let (Some(first), Some((other, line))) = (gone.first(), other) {
            let text = format!("{first} is not here any more, and this, which is not read, is here in its place");
            let meant = format!("if that is meant, take {first} out of the file first");
            return problem(Some(*line), Some(other.to_string()), format!("{text}{kept}; {meant}"));
        }
        if let Some((it, lost)) = version.misspelt(good, &gone) {
            let text = format!("{}: there is no such field, and {lost} is not here any more", it.field);
            let meant = format!("did you mean {}? If not, take the field out", it.nearest);
            return problem(Some(it.line), Some(it.key.to_string()), format!("{text}{kept}; {meant}"));
        }
        if version.origin.moved {
            return Ok(Vec::new());
        }
        if !version.origin.is_at(&good.origin) {
            let less = || before.clone().find_map(|then| now.get(&then.key)?.lost(then, Cut::BetweenLines));
            let Some(lost) = missing.first().map(ToString::to_string).or_else(less) else { return Ok(Vec::new()) };
            let text = format!("another file system is there than before, and its file lacks {lost}, or has another");
            let meant = "put back what was there; if this is meant, move the file into place (mv) once more";
            return problem(None, None, format!("{text}{kept}; {meant}"));
        }
        let lost = match (version.end(good), gone.as_slice(), version.lost(good)) {
            (End::Said, ..) => return Ok(Vec::new()),
            (End::AsBefore, ..) | (End::Unknown, [], None) => {
                let replaced = before.filter(|then| now.get(&then.key).is_some_and(|it| it.replaces(then)));
                return Ok(gone.iter().copied().chain(replaced.map(|it| &it.key)).cloned().collect());
            }
            (End::Unknown, [], Some(lost)) => lost,
            (End::Unknown, [one], _) => one.to_string(),
            (End::Unknown, [one, rest @ ..], _) => format!("{one} and {} more", rest.len()),
        };
        let text = format!("it ends without {lost}, perhaps because its writer was interrupted");
        let meant =
            "if that is meant, move the file into place (mv), end it with a line of three dots (...), or remove it";
        problem(None, None, format!("{text}{kept}; {meant}"))
    }

    /// Whether another file has an object of this one, with all that would go with it.
    pub(super) fn is_kept_beside(&self, path: &Path, item: &Item) -> bool {
        self.beside(path, item).any(|it| it.keeps(item))
    }

    /// What other files say that an object is.
    pub(super) fn beside<'a>(&'a self, path: &'a Path, item: &Item) -> impl Iterator<Item = &'a Item> {
        let places = self.claims.get(&item.key).into_iter().flat_map(|it| it.places());
        places.filter(move |it| *it.file != *path).filter_map(|it| self.item(it))
    }
}
