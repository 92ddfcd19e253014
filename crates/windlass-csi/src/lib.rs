//! CSI as windlass speaks it.
//!
//! [`proto`] has the messages and services, from definitions of our own with the field numbers of CSI v1.12 and of plugin
//! registration v1. What carries secrets does not show them (I-12).

pub mod proto;
