//! `windlass get`: lists objects, and goes on with what changes.

use std::path::Path;
use std::process::ExitCode;

use jiff::Timestamp;
use windlass_api::view::{self, Kind, List, WatchKind};

use crate::args::{Format, Get, Look, Resource};
use crate::client::{self, Client};
use crate::exit::{self, Failure};
use crate::output;
use crate::output::columns::{Listed, Names, Scene};
use crate::output::paint::Paint;
use crate::output::table::{Cell, Table};

pub(crate) async fn run(command: &Get, socket: Option<&Path>, look: &Look) -> anyhow::Result<ExitCode> {
    let client = client::connect(socket);
    let question = Question {
        names: command.target.names(&command.names),
        must_exist: true,
        namespace: command.namespaces.one(),
        output: command.output,
        headings: !command.no_headers,
        with_kinds: command.output_watch_events,
        paint: Paint::of(look),
    };
    if command.output_watch_events && command.output != Format::Json {
        return Err(Failure::usage("--output-watch-events goes with -o json").into());
    }
    match (command.target.resource, command.watch) {
        (Resource::Pods, watch) => question.ask::<view::Pod>(&client, watch).await,
        (Resource::Claims, watch) => question.ask::<view::Claim>(&client, watch).await,
        (Resource::Volumes, watch) => question.ask::<view::Volume>(&client, watch).await,
        (Resource::Mounts, watch) => question.ask::<view::Mount>(&client, watch).await,
        (Resource::Drivers, watch) => question.ask::<view::Driver>(&client, watch).await,
        (Resource::Operations, watch) => question.ask::<view::Operation>(&client, watch).await,
        (Resource::Events, watch) => question.ask::<view::Event>(&client, watch).await,
        (Resource::Node, false) => question.node(&client).await,
        (Resource::Node, true) => {
            Err(Failure::usage("the node cannot be watched; watch pods, volumes or events").into())
        }
    }
}

/// What to list, and how to print it.
pub(crate) struct Question<'a> {
    /// Only these, if there are any.
    pub(crate) names: Vec<&'a str>,
    /// That there is nothing of a name is a failure.
    pub(crate) must_exist: bool,
    /// Only of this namespace; for kinds that live in one.
    pub(crate) namespace: Option<&'a str>,
    pub(crate) output: Format,
    pub(crate) headings: bool,
    /// What happened with an object is told with it.
    pub(crate) with_kinds: bool,
    pub(crate) paint: Paint,
}

impl Question<'_> {
    /// Asks once, or for ever.
    pub(crate) async fn ask<T: Listed>(&self, client: &Client, watch: bool) -> anyhow::Result<ExitCode> {
        let path = client::list(self.namespace.filter(|_| T::NAMESPACED), T::PLURAL);
        match watch {
            true => self.follow::<T>(client, &path).await,
            false => {
                let list: List<T> = client.get(&path).await?;
                self.print(client, list.items).await
            }
        }
    }

    /// There is one node, and it is no list.
    async fn node(&self, client: &Client) -> anyhow::Result<ExitCode> {
        let node: view::Node = client.get(&client::node()).await?;
        match self.output {
            Format::Json if self.names.is_empty() => output::data(&output::json(&node)?)?,
            Format::Yaml if self.names.is_empty() => output::data(&output::yaml(&node)?)?,
            _ => return self.print(client, vec![node]).await,
        }
        Ok(ExitCode::SUCCESS)
    }

    async fn print<T: Listed>(&self, client: &Client, mut items: Vec<T>) -> anyhow::Result<ExitCode> {
        items.retain(|it| self.wants(it));
        T::sort(&mut items);
        let is_missing = |name: &&&str| self.must_exist && !items.iter().any(|it| it.is_called(name));
        let missing: Vec<_> = self.names.iter().filter(is_missing).collect();
        let nothing = items.is_empty();
        // One that was asked for by its name is printed as it is, as kubectl does.
        let alone = items.len() == 1 && self.names.len() == 1 && self.must_exist;
        let text = match self.output {
            Format::Table | Format::Wide => {
                let mut rows = Rows::<T>::new(self);
                rows.learn(client, &items).await?;
                rows.text(&items, false)
            }
            _ if nothing && !missing.is_empty() => String::new(),
            Format::Json if alone => output::json(&items[0])?,
            Format::Yaml if alone => output::yaml(&items[0])?,
            Format::Json => output::json(&List::new(items))?,
            Format::Yaml => output::yaml(&List::new(items))?,
            Format::Name => items.iter().map(name).collect(),
        };
        output::data(&text)?;
        if nothing && missing.is_empty() && matches!(self.output, Format::Table | Format::Wide) {
            output::note(&self.nothing::<T>());
        }
        for name in &missing {
            output::note(&format!("error: {}", self.not_found::<T>(name)));
        }
        Ok(if missing.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(exit::FAILED) })
    }

    /// Prints what is there, and then everything that changes until the daemon ends or somebody has seen enough.
    async fn follow<T: Listed>(&self, client: &Client, path: &str) -> anyhow::Result<ExitCode> {
        let mut watch = client.watch::<T>(path).await?;
        let mut rows = Rows::<T>::new(self);
        // What is there at the beginning is one table; its columns have the same width.
        let mut first = Some(Vec::new());
        loop {
            let event = watch.next().await?;
            if self.with_kinds && event.object.as_ref().is_none_or(|it| self.wants(it)) {
                output::data(&format!("{}\n", serde_json::to_string(&event)?))?;
            }
            if self.with_kinds {
                continue;
            }
            let Some(object) = event.object.filter(|it| self.wants(it)) else {
                if event.kind == WatchKind::Bookmark
                    && let Some(mut items) = first.take()
                {
                    T::sort(&mut items);
                    self.print_changes(client, &mut rows, &items, false).await?;
                }
                continue;
            };
            match &mut first {
                Some(items) => items.push(object),
                // An old event that is forgotten did not happen once more.
                None if event.kind == WatchKind::Deleted && T::KIND == view::Event::KIND => {}
                None => self.print_changes(client, &mut rows, &[object], event.kind == WatchKind::Deleted).await?,
            }
        }
    }

    async fn print_changes<T: Listed>(
        &self,
        client: &Client,
        rows: &mut Rows<'_, T>,
        items: &[T],
        gone: bool,
    ) -> anyhow::Result<()> {
        let text = match self.output {
            Format::Table | Format::Wide => {
                rows.learn(client, items).await?;
                rows.text(items, gone)
            }
            Format::Json => items.iter().map(output::json_line).collect::<Result<_, _>>()?,
            Format::Yaml => {
                let document = |it| Ok(format!("---\n{}", output::yaml(it)?));
                items.iter().map(document).collect::<anyhow::Result<_>>()?
            }
            Format::Name => items.iter().map(name).collect(),
        };
        Ok(output::data(&text)?)
    }

    fn wants<T: Listed>(&self, item: &T) -> bool {
        self.names.is_empty() || self.names.iter().any(|it| item.is_called(it))
    }

    fn nothing<T: Listed>(&self) -> String {
        match self.namespace.filter(|_| T::NAMESPACED) {
            Some(namespace) => format!("No {} found in {namespace} namespace.", T::PLURAL),
            None => format!("No {} found.", T::PLURAL),
        }
    }

    fn not_found<T: Listed>(&self, name: &str) -> String {
        let kind = T::KIND.to_lowercase();
        match self.namespace.filter(|_| T::NAMESPACED) {
            Some(namespace) => format!("{kind} {name:?} not found in {namespace} namespace"),
            None => format!("{kind} {name:?} not found"),
        }
    }
}

/// Kind and name, as other verbs take them.
fn name<T: Listed>(item: &T) -> String {
    format!("{}/{}\n", T::KIND.to_lowercase(), output::plain(&item.metadata().name))
}

/// A table of objects of one kind.
struct Rows<'a, T> {
    question: &'a Question<'a>,
    table: Table,
    names: Names,
    kind: std::marker::PhantomData<T>,
}

impl<'a, T: Listed> Rows<'a, T> {
    fn new(question: &'a Question<'a>) -> Self {
        let mut headings = Vec::new();
        if T::NAMESPACED && question.namespace.is_none() {
            headings.push("NAMESPACE");
        }
        headings.extend(T::HEADINGS);
        if question.output == Format::Wide {
            headings.extend(T::WIDE);
        }
        let table = match question.headings {
            true => Table::new(&headings, question.paint),
            false => Table::bare(question.paint),
        };
        Self { question, table, names: Names::default(), kind: std::marker::PhantomData }
    }

    /// Asks for the names of pods that these objects know by their UID alone.
    async fn learn(&mut self, client: &Client, items: &[T]) -> anyhow::Result<()> {
        if items.iter().filter_map(T::pod_uid).any(|it| !self.names.knows(it)) {
            let pods: List<view::Pod> = client.get(&client::list(None, "pods")).await?;
            self.names = Names::of(&pods.items);
        }
        Ok(())
    }

    fn text(&mut self, items: &[T], gone: bool) -> String {
        let scene = Scene { now: Timestamp::now(), gone, names: &self.names };
        let narrow = T::HEADINGS.len();
        let rows = items.iter().map(|item| {
            let mut cells = item.row(&scene);
            if self.question.output != Format::Wide {
                cells.truncate(narrow);
            }
            if T::NAMESPACED && self.question.namespace.is_none() {
                cells.insert(0, Cell::from(item.metadata().namespace.as_deref().unwrap_or("<none>")));
            }
            cells
        });
        self.table.rows(rows.collect::<Vec<_>>())
    }
}
