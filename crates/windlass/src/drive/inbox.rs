//! What the drive is told, in order.

use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use super::Message;

/// How long the drive lets news gather when the last came sooner than this: many operations that end one after the other
/// then cost one wake-up. Nobody notices the delay, and if nothing came the drive sleeps until it is woken (I-8).
const REST: Duration = Duration::from_micros(200);

pub(super) struct Inbox<'a> {
    messages: &'a Receiver<Message>,
    /// News came sooner than after a [`REST`].
    busy: bool,
}

impl<'a> Inbox<'a> {
    pub(super) fn new(messages: &'a Receiver<Message>) -> Self {
        Self { messages, busy: false }
    }

    /// The next message, if there is one within this time.
    #[expect(
        clippy::disallowed_methods,
        reason = "in a burst a short rest costs less than being woken for each message"
    )]
    pub(super) fn next(&mut self, within: impl FnOnce() -> Option<Duration>) -> Result<Message, RecvTimeoutError> {
        if let Ok(message) = self.messages.try_recv() {
            return Ok(message);
        }
        if self.busy {
            std::thread::sleep(REST);
            if let Ok(message) = self.messages.try_recv() {
                return Ok(message);
            }
        }
        let began = Instant::now();
        let message = match within() {
            None => self.messages.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(within) => self.messages.recv_timeout(within),
        };
        self.busy = began.elapsed() < REST;
        message
    }
}
