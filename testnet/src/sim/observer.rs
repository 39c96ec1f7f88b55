//! Watches a run: checkers, the trace and its hash. The first violation ends it.

use std::io::Write;

use atoll_protocol::engine::{Input, Output};
use atoll_protocol::message::Message;
use atoll_protocol::time::Time;
use atoll_protocol::wire;

use super::packet::Packet;
use super::{Phase, Violation};
use crate::check::{Checker, Event, NodeIndex, World};

/// Whoever looks at a run.
pub(super) struct Observer<'t> {
    pub(super) checkers: Vec<Box<dyn Checker>>,
    trace: Option<&'t mut dyn Write>,
    hasher: blake3::Hasher,
    pub(super) violation: Option<Violation>,
    pub(super) phase: Phase,
}

impl<'t> Observer<'t> {
    pub(super) fn new(checkers: Vec<Box<dyn Checker>>, trace: Option<&'t mut dyn Write>) -> Self {
        let hasher = blake3::Hasher::new();
        Self { checkers, trace, hasher, violation: None, phase: Phase::Safety }
    }

    /// Shows an event to the checkers and the trace.
    pub(super) fn see(&mut self, world: &dyn World, event: &Event<'_>) {
        match event {
            Event::Input(node, input) => self.hash_input(world.now(), *node, input),
            Event::Output(node, output) => self.hash_output(world.now(), *node, output),
            Event::Started(node) => self.hash(world.now(), *node, b"started", &[]),
            Event::Crashed(node) => self.hash(world.now(), *node, b"crashed", &[]),
            _ => {}
        }
        self.write(world.now(), event);
        for index in 0..self.checkers.len() {
            if let Err(message) = self.checkers[index].observe(world, event) {
                let checker = self.checkers[index].name();
                self.fail(world.now(), checker, message);
            }
        }
    }

    /// Asks every checker for its last word.
    pub(super) fn finish(&mut self, world: &dyn World) {
        for index in 0..self.checkers.len() {
            if let Err(message) = self.checkers[index].finish(world) {
                let checker = self.checkers[index].name();
                self.fail(world.now(), checker, message);
            }
        }
    }

    /// Notes a violation, if it is the first.
    pub(super) fn fail(&mut self, at: Time, checker: &'static str, message: String) {
        if self.violation.is_none() {
            if let Some(trace) = &mut self.trace {
                // A trace that cannot be written must not change the run.
                let _ = writeln!(trace, "{at} VIOLATION {checker}: {message}");
            }
            self.violation = Some(Violation { checker, message, at, phase: self.phase });
        }
    }

    /// Adds something to the hash that is neither input nor output.
    pub(super) fn hash(&mut self, at: Time, node: NodeIndex, what: &[u8], bytes: &[u8]) {
        self.hasher.update(&at.0.to_le_bytes());
        self.hasher.update(&(node as u64).to_le_bytes());
        self.hasher.update(what);
        self.hasher.update(bytes);
    }

    /// The hash of everything so far.
    pub(super) fn trace_hash(&self) -> [u8; 32] {
        *self.hasher.finalize().as_bytes()
    }

    /// Adds a message by its hash, which is there already.
    pub(super) fn hash_packet(&mut self, at: Time, node: NodeIndex, packet: &Packet) {
        self.hash(at, node, b"packet", &packet.hash.0);
    }

    fn hash_input(&mut self, at: Time, node: NodeIndex, input: &Input) {
        // The bytes of a message are hashed once for all receivers, see `hash_packet`.
        match input {
            Input::Received { from, receipt, .. } => {
                self.hash(at, node, b"received", &from.0);
                self.hasher.update(&receipt.to_le_bytes());
            }
            other => self.hash(at, node, b"input", &wire::encode(other)),
        }
    }

    fn hash_output(&mut self, at: Time, node: NodeIndex, output: &Output) {
        match output {
            Output::Publish(bytes) => self.hash(at, node, b"publish", bytes),
            other => self.hash(at, node, b"output", &wire::encode(other)),
        }
    }

    fn write(&mut self, at: Time, event: &Event<'_>) {
        // What is decided is written when it is executed.
        let Some(trace) = self.trace.as_mut().filter(|_| !matches!(event, Event::Decided(..)))
        else {
            return;
        };
        let message = |bytes: &[u8]| match Message::decode(bytes) {
            Ok(message) => format!("{message:?}"),
            Err(error) => format!("{} bytes, {error}", bytes.len()),
        };
        // A trace that cannot be written must not change the run.
        let _ = match event {
            Event::Input(node, Input::Received { from, bytes, .. }) => {
                writeln!(trace, "{at} n{node} < from {from}: {}", message(bytes))
            }
            Event::Input(node, input) => writeln!(trace, "{at} n{node} < {input:?}"),
            Event::Output(node, Output::Publish(bytes)) => {
                writeln!(trace, "{at} n{node} > publish {}", message(bytes))
            }
            Event::Output(node, Output::Send { to, bytes }) => {
                writeln!(trace, "{at} n{node} > to {to}: {}", message(bytes))
            }
            Event::Output(node, output) => writeln!(trace, "{at} n{node} > {output:?}"),
            Event::Folded(node, fragment, _) => writeln!(trace, "{at} n{node} = folded {fragment}"),
            other => writeln!(trace, "{at} {other:?}"),
        };
    }
}
