//! `windlass csi judge`: a CSI driver that judges its orchestrator. What it looks at is in `windlass-judge`; here it is
//! started and ended, and its verdict printed.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use tokio::signal::unix::{SignalKind, signal};
use windlass_csi::NodeCapabilities;
use windlass_judge::Verdict;
use windlass_judge::serve::{Bench, Listener, Options, Told};
use windlass_judge::settings::Settings;
use windlass_judge::verdict::Outcome;

use crate::args::{Ability, Judge, TextFormat, Until};
use crate::exit::{self, Failure};
use crate::output;
use crate::paths::Paths;

pub(crate) fn run(command: Judge) -> anyhow::Result<ExitCode> {
    // Sockets are nobody else's, from the first moment on.
    rustix::process::umask(rustix::fs::Mode::RWXG | rustix::fs::Mode::RWXO);
    let (strict, format) = (command.strict, command.output);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("start the runtime")?;
    let verdict = runtime.block_on(judge(command))?;
    let text = match format {
        TextFormat::Text => verdict.to_string(),
        TextFormat::Json => output::json(&verdict)?,
        TextFormat::Yaml => output::yaml(&verdict)?,
    };
    output::data(&text)?;
    Ok(status(&verdict, strict))
}

fn status(verdict: &Verdict, strict: bool) -> ExitCode {
    match verdict.outcome {
        Outcome::Broken => ExitCode::from(exit::FAILED),
        Outcome::Unwise if strict => ExitCode::from(exit::FAILED),
        // What the judge itself has done wrong must not look like praise.
        _ if !verdict.troubles.is_empty() => ExitCode::from(exit::FAILED),
        Outcome::NotSeen => ExitCode::from(exit::NOT_YET),
        Outcome::Passed | Outcome::Unwise => ExitCode::SUCCESS,
    }
}

async fn judge(command: Judge) -> anyhow::Result<Verdict> {
    let mut terminate = signal(SignalKind::terminate()).context("wait for signals")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("wait for signals")?;
    let (until, time) = (command.until, command.time);
    let log = command.log;
    let options = options(command)?;
    let ready = match &options.registry {
        Some(registry) => {
            format!(
                "{} serves on {}, and registers in {}",
                options.name,
                options.endpoint.display(),
                registry.display()
            )
        }
        None => format!("{} serves on {}", options.name, options.endpoint.display()),
    };
    let bench = Bench::bind(options, listener(log)).map_err(explain)?;
    output::note(&ready);
    let idle = bench.idle();
    let ended = async move {
        let idle = async {
            match until {
                Some(Until::Idle) => idle.await,
                None => std::future::pending().await,
            }
        };
        let over = async {
            match time {
                Some(time) => tokio::time::sleep(time).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
            () = idle => {}
            () = over => {}
        }
    };
    Ok(bench.serve(ended).await?)
}

/// What may help, besides the reason.
fn explain(error: windlass_judge::serve::Error) -> anyhow::Error {
    match &error {
        windlass_judge::serve::Error::Volumes { .. } if !rustix::process::geteuid().is_root() => {
            let failure = Failure::new("the judge mounts volumes, and so needs to be root");
            anyhow::Error::from(error).context(failure.hints(["run it with sudo".into()]))
        }
        _ => error.into(),
    }
}

fn options(command: Judge) -> anyhow::Result<Options> {
    let paths = Paths::own();
    let absolute = |path: PathBuf| {
        std::path::absolute(&path).with_context(|| format!("make an absolute path of {}", path.display()))
    };
    let registry = match command.unregistered {
        true => None,
        false => Some(absolute(command.registry.unwrap_or_else(|| paths.root.join("plugins_registry")))?),
    };
    let own = paths.runtime.join("judge");
    let node_id = match command.node_id {
        Some(it) => it,
        None => rustix::system::uname().nodename().to_string_lossy().into_owned(),
    };
    let can = |ability| command.capabilities.contains(&ability);
    if can(Ability::None) && command.capabilities.len() > 1 {
        return Err(Failure::usage("--capabilities has none, and something else beside it").into());
    }
    let capabilities = NodeCapabilities {
        stage_unstage: can(Ability::Stage),
        volume_stats: can(Ability::Stats),
        expand: can(Ability::Expand),
        volume_condition: can(Ability::Condition),
        single_node_multi_writer: can(Ability::SingleNodeMultiWriter),
        volume_mount_group: can(Ability::MountGroup),
    };
    let settings = Settings {
        capabilities,
        attach: command.attach,
        create: command.create,
        grow: command.grow,
        node_id,
        secrets: command.require_secret,
        faults: command.fault,
        slow_by: command.slow_by,
        in_use_allowed: command.in_use_allowed,
    };
    Ok(Options {
        name: command.name,
        endpoint: absolute(command.endpoint.unwrap_or_else(|| own.join("csi.sock")))?,
        registry,
        state: absolute(command.state.unwrap_or(own))?,
        settings,
    })
}

/// Prints what happens, if that is asked for.
fn listener(log: bool) -> Listener {
    if !log {
        return Box::new(|_| {});
    }
    Box::new(|told| match told {
        Told::Begun(it) => {
            output::note(&format!("{} #{} -> {} {}", clock(it.at), it.number, it.method, it.arguments));
        }
        Told::Ended(it, took) => {
            let answer = it.answer.as_deref().unwrap_or_default();
            let (now, took) = (clock(it.at + took), took.as_secs_f64() * 1000.0);
            output::note(&format!("{now} #{} <- {} {answer} ({took:.1} ms)", it.number, it.method));
        }
        Told::Breach(it) => {
            let level = match it.rule.level() {
                windlass_judge::rule::Level::Must => "broken",
                windlass_judge::rule::Level::Should => "unwise",
            };
            output::note(&format!("           #{} !! {level} {}: {}", it.number, it.rule.id(), it.text));
        }
    })
}

fn clock(at: Duration) -> String {
    format!("{:>9.3}s", at.as_secs_f64())
}
