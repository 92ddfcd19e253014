//! What was made for claims, on disk: one file for each, which outlasts a power cut as the volume does.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::Mode;
use windlass_linux::name::{Name, Relative};
use windlass_linux::safe_path::{Mounts, Place};
use windlass_linux::whole_file::{self, Survives};

use super::Provision;
use crate::fingerprint::Fingerprint;
use crate::layout;
use crate::objects::Reference;
use crate::plugin::Failure;

/// No object is larger, and there are three in a file.
const BYTES_MAX: usize = 8 << 20;

pub(crate) const DIRECTORY: &str = "provisions";

/// The provisions of a node, below its directory for records.
#[derive(Clone, Debug)]
pub(crate) struct Store(Arc<Place>);

impl Store {
    /// Those in this directory, most of which have none.
    pub(crate) fn new(state: Place) -> Self {
        Self(Arc::new(state))
    }

    /// The same at the same path, where another directory is by now, or is made: there all of this is noted.
    pub(crate) fn renew(&self, noted: &[Provision]) -> Result<(), Failure> {
        let renewed = Self::new(layout::make_root(self.path())?);
        noted.iter().try_for_each(|it| renewed.write(it))
    }

    /// The directory for records.
    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    fn find(&self) -> Result<Option<Place>, Failure> {
        match self.0.directory(&Relative::new("directory", DIRECTORY)?, Mounts::Refuse) {
            Ok(place) => Ok(Some(place)),
            Err(error) if error.is_missing() => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Whether anything is noted for a claim.
    pub(crate) fn has(&self, claim: &Reference) -> Result<bool, Failure> {
        let Some(directory) = self.find()? else { return Ok(false) };
        Ok(whole_file::read(&directory, &name(claim)?, BYTES_MAX)?.is_some())
    }

    /// Why nothing may be made for a claim: what is noted for it makes no sense (I-10).
    pub(crate) fn damage(&self, claim: &Reference) -> Result<Option<Failure>, Failure> {
        let Some(directory) = self.find()? else { return Ok(None) };
        let name = name(claim)?;
        let Some(text) = whole_file::read(&directory, &name, BYTES_MAX)? else { return Ok(None) };
        let read = serde_json::from_slice::<Provision>(&text);
        let path = directory.path().join(name.as_path());
        Ok(read.err().map(|source| Failure::open(&Damaged { path, source })))
    }

    /// Notes one, in place of what is noted for its claim.
    pub(crate) fn write(&self, provision: &Provision) -> Result<(), Failure> {
        let text = serde_json::to_vec(provision).map_err(|error| Failure::open(&error))?;
        let directory = self.0.make_directory(&Name::new("directory", DIRECTORY)?, Mode::RWXU, Mounts::Refuse)?;
        Ok(whole_file::write(&directory, &name(&provision.reference())?, &text, Survives::PowerLoss)?)
    }

    /// Forgets what is noted for a claim. That there is nothing is success.
    pub(crate) fn remove(&self, claim: &Reference) -> Result<(), Failure> {
        match self.find()? {
            Some(directory) => Ok(whole_file::remove(&directory, &name(claim)?)?),
            None => Ok(()),
        }
    }

    /// Another claim for which the same volume is noted as in this.
    pub(crate) fn other_with(&self, made: &Provision) -> Result<Option<Reference>, Failure> {
        let (id, claim, (all, _)) = (made.volume_id(), made.reference(), self.all()?);
        let mut others = all.iter().filter(|it| it.volume_id() == id).map(Provision::reference);
        Ok(others.find(|it| *it != claim))
    }

    /// All of them, and what is wrong with those that cannot be read.
    pub(crate) fn all(&self) -> Result<(Vec<Provision>, Vec<String>), Failure> {
        let (mut all, mut troubles) = (Vec::new(), Vec::new());
        let Some(directory) = self.find()? else { return Ok((all, troubles)) };
        for name in whole_file::swept_names(&directory)? {
            let Some(text) = whole_file::read(&directory, &name, BYTES_MAX)? else { continue };
            match serde_json::from_slice(&text) {
                Ok(provision) => all.push(provision),
                Err(source) => {
                    let path = directory.path().join(name.as_path());
                    troubles.push(crate::plugin::chain(&Damaged { path, source }));
                }
            }
        }
        Ok((all, troubles))
    }
}

/// What is noted for a claim makes no sense. It told of a volume, which another must not take the place of: whoever uses the
/// claim would find it empty.
#[derive(Debug, thiserror::Error)]
#[error(
    "what was made for a claim cannot be read: {}: no other volume is made for it before that file is put right; or find the \
     volume by what is left of the text, write a PersistentVolume for it, and remove the file",
    path.display()
)]
struct Damaged {
    path: PathBuf,
    source: serde_json::Error,
}

/// Whether what is noted for a claim is in a file of this name.
pub(crate) fn is_called(claim: &Reference, file: &OsStr) -> bool {
    name(claim).is_ok_and(|it| it.as_bytes() == file.as_encoded_bytes())
}

/// A number: a claim's name may be as long as a file's.
fn name(claim: &Reference) -> Result<Name, Failure> {
    let half = |key| {
        let mut fingerprint = Fingerprint::new([key, 0]);
        fingerprint.field(claim.namespace().as_bytes());
        fingerprint.field(claim.name().as_bytes());
        fingerprint.finish()
    };
    Ok(Name::new("provision", format!("{:016x}{:016x}", half(1), half(2)))?)
}
