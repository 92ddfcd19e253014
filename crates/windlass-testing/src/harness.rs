//! The `main` of a test program that must do something before there is a second thread, or that may have to skip tests.
//!
//! A test that cannot run here is reported as ignored, and why is said on standard error.

use std::fmt::Display;
use std::fs::File;
use std::path::Path;

use libtest_mimic::{Arguments, Trial};
use rustix::thread::{CapabilitySet, capabilities};
use windlass_linux::tools::Tool;

/// The right to resize an ext4 that is mounted; a container can have root and not this.
pub const RESIZE: &str = "CAP_SYS_RESOURCE";

/// File systems that a program serves.
pub const FUSE: &str = "/dev/fuse";

/// That nobody but the test opens its loop devices, as udev does with every new device for a moment.
pub const UNDISTURBED: &str = "no udev";

/// Why a test that needs this cannot run here, if it cannot: a program, [`RESIZE`], [`FUSE`] or [`UNDISTURBED`].
pub fn lacking(need: &str) -> Option<String> {
    match need {
        RESIZE => {
            let has = capabilities(None).is_ok_and(|it| it.effective.contains(CapabilitySet::SYS_RESOURCE));
            (!has).then(|| format!("this root is without {RESIZE}"))
        }
        FUSE => File::options().read(true).write(true).open(FUSE).err().map(|error| format!("{FUSE}: {error}")),
        UNDISTURBED => Path::new("/run/udev/control").exists().then(|| "udev opens every new device".into()),
        tool => Tool::new(tool, None).find().err().map(|it| it.to_string()),
    }
}

/// The tests of a program.
pub struct Tests {
    arguments: Arguments,
    impossible: Option<String>,
    trials: Vec<Trial>,
}

impl Tests {
    /// None yet, with what the command line says.
    pub fn from_args() -> Self {
        Self { arguments: Arguments::from_args(), impossible: None, trials: Vec::new() }
    }

    /// Runs so many at a time, whatever the command line says.
    pub fn threads(mut self, count: usize) -> Self {
        self.arguments.test_threads = Some(count);
        self
    }

    /// Runs so many at a time, unless the command line says otherwise.
    pub fn threads_by_default(mut self, count: usize) -> Self {
        self.arguments.test_threads = self.arguments.test_threads.or(Some(count));
        self
    }

    /// Prepares this process for all tests: for example enters a namespace, for which there must be no other thread yet.
    /// If that fails all tests are skipped, and why is said. Listing needs none of it, and must not fail for want of it.
    pub fn after(mut self, prepare: impl FnOnce() -> Result<(), String>) -> Self {
        if !self.arguments.list && self.impossible.is_none() {
            self.impossible = prepare().err();
            if let Some(reason) = &self.impossible {
                eprintln!("all tests are skipped: {reason}");
            }
        }
        self
    }

    /// Adds a test, which is ignored where something that it needs is missing (see [`lacking`]).
    ///
    /// It runs on a thread of its own: the harness uses its threads again, and namespaces would pile up on them.
    pub fn add<Ended: Outcome>(&mut self, name: &str, needs: &[&str], body: impl FnOnce() -> Ended + Send + 'static) {
        let missing = match &self.impossible {
            Some(_) => None,
            None => needs.iter().find_map(|it| lacking(it)),
        };
        if let Some(reason) = &missing
            && !self.arguments.list
        {
            eprintln!("{name} is skipped: {reason}");
        }
        let trial = Trial::test(name, move || {
            let thread = std::thread::spawn(move || body().result());
            thread.join().unwrap_or_else(|panic| {
                let text = panic.downcast_ref::<String>().map(String::as_str).or(panic.downcast_ref::<&str>().copied());
                Err(text.unwrap_or("panicked").to_owned())
            })?;
            Ok(())
        });
        self.trials.push(trial.with_ignored_flag(self.impossible.is_some() || missing.is_some()));
    }

    /// Adds the tests of each file.
    pub fn parts(mut self, parts: &[fn(&mut Self)]) -> Self {
        for part in parts {
            part(&mut self);
        }
        self
    }

    /// Runs them, and ends this process.
    pub fn run(self) -> ! {
        libtest_mimic::run(&self.arguments, self.trials).exit()
    }
}

/// How a test can end, other than by a panic.
pub trait Outcome {
    /// The reason why it failed, if it did.
    fn result(self) -> Result<(), String>;
}

impl Outcome for () {
    fn result(self) -> Result<(), String> {
        Ok(())
    }
}

/// Why a test failed, from anything that can be printed.
pub struct Failure(String);

impl<Error: Display> From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self(error.to_string())
    }
}

impl Outcome for Result<(), Failure> {
    fn result(self) -> Result<(), String> {
        self.map_err(|Failure(text)| text)
    }
}

/// The tests of a file as `fn tests`, each by the name of its function, with what it needs in parentheses. The test program
/// has a function `add` that makes what its tests are given.
#[macro_export]
#[expect(clippy::crate_in_macro_def, reason = "`add` is the test program's own")]
macro_rules! tests {
    ($($test:ident $(($($need:expr),*))?),* $(,)?) => {
        pub(crate) fn tests(tests: &mut $crate::harness::Tests) {
            $(crate::add(tests, stringify!($test), &[$($($need),*)?], $test);)*
        }
    };
}
