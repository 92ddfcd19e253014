//! Scenarios: facts in, trace out. Each is named by what it shows and cites the rule it shows.

mod language;

mod attach;
mod expansion;
mod labels;
mod life;
mod outcomes;
mod retries;
mod sharing;
