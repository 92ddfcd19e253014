//! Scenarios: facts in, trace out. Each is named by what it shows and cites the rule it shows.

mod language;

mod attach;
mod behind_our_back;
mod expansion;
mod labels;
mod life;
mod nonsense;
mod outcomes;
mod reasons;
mod retries;
mod sharing;
mod sources;
mod start;
mod waits;
