//! An iterator as an [`Intake`], and two closures as a [`Sink`].

use std::ops::ControlFlow;

use super::Sink;
use crate::event::Event;
use crate::request::{Intake, Next, Request};
use crate::result::ProblemResult;

/// Requests from an iterator; the run ends after the last one.
#[derive(Debug)]
pub struct RequestList<I>(pub I);

impl<I: Iterator<Item = Request>> Intake for RequestList<I> {
    fn next(&mut self, _idle: bool) -> Next {
        self.0
            .next()
            .map_or(Next::Closed, |request| Next::Request(Box::new(request)))
    }
}

/// A sink of two closures.
pub struct Callbacks<'a> {
    /// What [`Sink::event`] calls.
    pub observe: &'a mut dyn FnMut(Event<'_>),
    /// What [`Sink::result`] calls.
    pub deliver: &'a mut dyn FnMut(ProblemResult) -> ControlFlow<()>,
}

impl std::fmt::Debug for Callbacks<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Callbacks")
    }
}

impl Sink for Callbacks<'_> {
    fn event(&mut self, event: Event<'_>) {
        (self.observe)(event);
    }

    fn result(&mut self, result: ProblemResult) -> ControlFlow<()> {
        (self.deliver)(result)
    }
}
