//! What a driver does: executes an engine's outputs, one after another.

use std::rc::Rc;

use atoll_protocol::codec::PayloadError;
use atoll_protocol::crypto::content_id;
use atoll_protocol::engine::{Input, Output, Record, in_the_same_write};
use atoll_protocol::fault::{Fault, Verdict};
use atoll_protocol::frontier::Standing;
use atoll_protocol::id::{ContentId, FragmentId, NodeId};
use atoll_protocol::outer::{self, CheckError, Norms, OuterState};
use atoll_protocol::planted::Bug;
use atoll_protocol::time::Time;

use super::agenda::Happening;
use super::island::{Adoption, Errand};
use super::node::{Job, Task};
use super::packet::Packet;
use super::world::Simulation;
use crate::check::{Event, NodeIndex};

impl Simulation<'_> {
    /// Executes one output.
    pub(super) fn execute(&mut self, node: NodeIndex, task: Task) {
        self.observer.see(&self.world, &Event::Output(node, &task.output));
        match task.output {
            Output::Persist(record) => self.persist(node, record),
            Output::Publish(bytes) => self.publish(node, bytes),
            Output::Send { to, bytes } => self.send(node, to, &Rc::new(Packet::new(bytes))),
            Output::Judge { receipt, verdict } => self.judge(node, receipt, verdict),
            Output::Penalise { node: peer, fault } => self.penalise(node, peer, fault),
            Output::Fetch { content, from, bytes_max } => {
                self.fetch(node, content, from, bytes_max);
            }
            Output::Check { payload, fragment } => {
                let life = self.world.nodes[node].life;
                let at = self.world.soon(1, 5);
                self.world.agenda.plan(at, Happening::Checked { node, life, payload, fragment });
            }
            Output::Capture { fragment } => self.errand(node, Errand::Capture(fragment)),
            Output::Materialise { fragment, cuts } => {
                self.enqueue(node, fragment, Job::Materialise(cuts));
            }
            Output::Stabilise { fragment, version } => {
                self.enqueue(node, fragment, Job::Stabilise(version));
            }
            Output::Install { fragment, content } => {
                self.enqueue(node, fragment, Job::Install(content));
            }
            Output::Adopt { fragment, version, pending, reissued } => {
                self.world.tally.reissued += reissued.len() as u64;
                let Some(known) = task.known else { return };
                let (Some(pending), Some(reissued)) =
                    (self.own_payloads(node, &pending), self.own_payloads(node, &reissued))
                else {
                    return;
                };
                let adoption = Adoption { fragment, version, pending, reissued, known };
                self.errand(node, Errand::Adopt(Box::new(adoption)));
            }
            Output::Prune { fragment, through, own_through, payloads } => {
                let node = &mut self.world.nodes[node];
                node.disk.prune(node.id, fragment, through, own_through, &payloads);
                let running = node.running.as_mut();
                if let Some(island) = running.and_then(|running| running.island.as_mut()) {
                    island.forget(fragment, &payloads);
                }
            }
            Output::Report(report) => self.world.tally.report(node, &report),
        }
    }

    /// Writes a record, and all that may be written with it, in one go. Whatever tells anybody
    /// anything waits until they are durable.
    fn persist(&mut self, node: NodeIndex, record: Record) {
        let mut records = vec![record];
        while let Some(running) = &mut self.world.nodes[node].running
            && let Some(place) = in_the_same_write(running.tasks.iter().map(|task| &task.output))
            && let Some(task) = running.tasks.remove(place)
        {
            self.observer.see(&self.world, &Event::Output(node, &task.output));
            if let Output::Persist(record) = task.output {
                records.push(record);
            }
        }
        let done = self.world.soon(1, 10);
        let barrier = !self.world.shared.planted.is(Bug::ForgottenBarrier);
        let now = self.world.now;
        let state = &mut self.world.nodes[node];
        state.disk.write(records);
        if let Some(running) = &mut state.running {
            running.barrier = barrier;
        }
        let life = state.life;
        if let Some(torn) = state.doomed.take() {
            // Before it is durable, but after anything that did not wait for it.
            let at = Time(now.0 + done.since(now).0 / 2);
            self.world.agenda.plan(at, Happening::CrashNow { node, life, torn });
        }
        self.world.agenda.plan(done, Happening::Durable { node, life });
    }

    /// A write reached the disk: what waited for it goes on.
    pub(super) fn durable(&mut self, node: NodeIndex) {
        let state = &mut self.world.nodes[node];
        state.disk.written();
        if let Some(running) = &mut state.running {
            running.barrier = false;
        }
        self.work(node);
    }

    fn judge(&mut self, node: NodeIndex, receipt: u64, verdict: Verdict) {
        let Some(running) = &mut self.world.nodes[node].running else { return };
        let Some((packet, from, gossip)) = running.receipts.remove(&receipt) else {
            let message = format!("node {node} judged receipt {receipt} that is not open");
            self.observer.fail(self.world.now, "driver", message);
            return;
        };
        if gossip && verdict == Verdict::Accept {
            self.relay(node, Some(from), &packet);
        }
    }

    fn penalise(&mut self, node: NodeIndex, peer: NodeId, fault: Fault) {
        let Some(running) = &mut self.world.nodes[node].running else { return };
        let points = running.penalties.entry(peer).or_default();
        *points = points.saturating_add(fault.penalty());
        if running.bans(&peer) {
            for index in self.world.by_id.get(&peer).cloned().unwrap_or_default() {
                let now = self.world.now;
                self.world.agenda.plan(now, Happening::Look { node, peer: index });
            }
        }
    }

    /// Checks a stored payload for real.
    pub(super) fn check_payload(
        &mut self,
        node: NodeIndex,
        payload: ContentId,
        fragment: FragmentId,
    ) {
        let shared = &self.world.shared;
        let (codec, norm_max) = (shared.genesis.codec, shared.genesis.merge.norm_max);
        let disk = &mut self.world.nodes[node].disk;
        let part = shared.fragments.get(fragment.index());
        let outcome = match (disk.content(&payload), part) {
            (Some(bytes), Some(part)) => {
                outer::check(bytes, codec, part, norm_max, shared.pool.as_ref())
            }
            _ => {
                let message = format!("node {node} is to check {payload}, which it does not have");
                self.observer.fail(self.world.now, "driver", message);
                return;
            }
        };
        let outcome = match outcome {
            Ok(norms) => {
                disk.measure(&payload, fragment, norms);
                Ok(())
            }
            Err(error) if is_not_finite(&error) && shared.planted.is(Bug::NanAdmitted) => {
                let pieces = part.map_or(0, |part| part.pieces.len());
                let norms = Norms { total: 1.0, pieces: vec![1.0; pieces] };
                disk.measure(&payload, fragment, norms);
                Ok(())
            }
            Err(_) => Err(Fault::BadPayload),
        };
        self.input(node, Input::Checked { payload, fragment, outcome });
    }

    /// Puts a job behind the others of its fragment.
    fn enqueue(&mut self, node: NodeIndex, fragment: FragmentId, job: Job) {
        let Some(running) = &mut self.world.nodes[node].running else { return };
        let Some(part) = running.parts.get_mut(fragment.index()) else { return };
        part.jobs.push_back(job);
        if part.jobs.len() == 1 {
            self.plan_job(node, fragment);
        }
    }

    fn plan_job(&mut self, node: NodeIndex, fragment: FragmentId) {
        let life = self.world.nodes[node].life;
        let at = self.world.soon(1, self.world.setup.fold_ms_max);
        self.world.agenda.plan(at, Happening::JobDone { node, life, fragment });
    }

    /// Does the front job of a fragment and tells the engine.
    pub(super) fn job_done(&mut self, node: NodeIndex, fragment: FragmentId) {
        let state = &mut self.world.nodes[node];
        let Some(running) = &mut state.running else { return };
        let part = &mut running.parts[fragment.index()];
        let Some(job) = part.jobs.pop_front() else { return };
        let more = !part.jobs.is_empty();
        let done = match job {
            Job::Materialise(mut cuts) => {
                if self.world.shared.planted.is(Bug::ArrivalOrderFold) {
                    let own = self.world.nodes[node].id;
                    cuts.iter_mut().for_each(|cut| own_first(cut, own));
                }
                self.materialise(node, fragment, &cuts)
            }
            Job::Stabilise(version) => self.stabilise(node, fragment, version),
            Job::Install(content) => Ok(self.install(node, fragment, content)),
        };
        if more {
            self.plan_job(node, fragment);
        }
        match done {
            Ok(input) => {
                if let Some(head) = self.world.nodes[node].running.as_ref() {
                    let params = head.parts[fragment.index()].head.clone();
                    self.observer.see(&self.world, &Event::Folded(node, fragment, &params));
                }
                self.input(node, input);
            }
            Err(error) => {
                let message = format!("node {node} cannot fold {fragment}: {error}");
                self.observer.fail(self.world.now, "driver", message);
            }
        }
    }

    fn materialise(
        &mut self,
        node: NodeIndex,
        fragment: FragmentId,
        cuts: &[outer::Cut],
    ) -> Result<Input, outer::FoldError> {
        let state = &mut self.world.nodes[node];
        let running = state.running.as_mut().expect("only running nodes have jobs");
        let part = &mut running.parts[fragment.index()];
        let pool = self.world.shared.pool.as_ref();
        let digest = part.fold.refold(cuts, &state.disk, pool)?;
        part.head = part.fold.head().params().into();
        let members = cuts.iter().flat_map(|cut| &cut.members);
        part.cut_tokens = members.map(|member| member.tokens).sum();
        part.ownership.folded(cuts, state.id);
        Ok(Input::Materialised { fragment, version: part.fold.head().version(), digest })
    }

    fn stabilise(
        &mut self,
        node: NodeIndex,
        fragment: FragmentId,
        version: atoll_protocol::id::Version,
    ) -> Result<Input, outer::FoldError> {
        let state = &mut self.world.nodes[node];
        let running = state.running.as_mut().expect("only running nodes have jobs");
        let part = &mut running.parts[fragment.index()];
        let digest =
            part.fold.advance_base(version, &state.disk, self.world.shared.pool.as_ref())?;
        part.ownership.stabilised(version);
        state.disk.store_base(digest, Rc::new(part.fold.base().clone()));
        Ok(Input::Stabilised { fragment, version, digest })
    }

    fn install(&mut self, node: NodeIndex, fragment: FragmentId, content: ContentId) -> Input {
        let shared = &self.world.shared;
        let state = &mut self.world.nodes[node];
        let running = state.running.as_mut().expect("only running nodes have jobs");
        let part = &mut running.parts[fragment.index()];
        let bytes = state.disk.content(&content);
        let snapshot = bytes.filter(|bytes| content_id(bytes) == content).and_then(|bytes| {
            OuterState::from_bytes(bytes, &shared.fragments[fragment.index()]).ok()
        });
        let good = snapshot.is_some();
        if let Some(snapshot) = snapshot {
            part.fold.install(snapshot.bytes()).expect("checked just now");
            state.disk.store_base(content, Rc::new(snapshot));
            part.head = part.fold.head().params().into();
        }
        Input::Installed { fragment, content, good }
    }

    /// The bytes of own payloads, which must be there.
    fn own_payloads(&mut self, node: NodeIndex, ids: &[ContentId]) -> Option<Vec<Rc<[u8]>>> {
        let disk = &self.world.nodes[node].disk;
        let found: Result<Vec<Rc<[u8]>>, ContentId> =
            ids.iter().map(|id| disk.content(id).cloned().ok_or(*id)).collect();
        if let Err(missing) = &found {
            let message = format!("node {node} no longer has its own payload {missing}");
            self.observer.fail(self.world.now, "driver", message);
        }
        found.ok()
    }

    /// Gives an island something to do after the piece of a step that it is at; at once if it does
    /// not step.
    fn errand(&mut self, node: NodeIndex, errand: Errand) {
        let quiet = self.world.quiet;
        let Some(running) = &mut self.world.nodes[node].running else { return };
        let Some(island) = &mut running.island else {
            // Nothing trains here: adopting is knowing.
            if let Errand::Adopt(adoption) = errand {
                let (fragment, version) = (adoption.fragment, adoption.version);
                running.inbox.push_back(Input::Adopted { fragment, version });
            }
            return;
        };
        island.errands.push_back(errand);
        if quiet || !running.stepping {
            self.boundary(node);
        }
    }

    /// Does everything that waited for a piece of a step to end. The engine hears of it afterwards.
    pub(super) fn boundary(&mut self, node: NodeIndex) {
        loop {
            let state = &mut self.world.nodes[node];
            let Some(running) = &mut state.running else { return };
            let Some(island) = &mut running.island else { return };
            let Some(errand) = island.errands.pop_front() else { return };
            let shared = &self.world.shared;
            match errand {
                Errand::Capture(fragment) => {
                    let Some(bytes) = island.capture(shared, fragment) else {
                        let message = format!("island {node} has left the finite numbers");
                        self.observer.fail(self.world.now, "island", message);
                        return;
                    };
                    let payload = content_id(&bytes);
                    let payload_bytes = u32::try_from(bytes.len()).expect("payloads are small");
                    let part = &shared.fragments[fragment.index()];
                    let codec = shared.genesis.codec;
                    // Its own node trusts it; its peers will judge for themselves.
                    let norms = outer::check(&bytes, codec, part, f32::MAX, shared.pool.as_ref());
                    state.disk.store(payload, bytes);
                    state.disk.measure(&payload, fragment, norms.unwrap_or_default());
                    running.inbox.push_back(Input::Captured {
                        fragment,
                        payload,
                        payload_bytes,
                        steps_since: 0,
                        tokens_since: 0,
                    });
                }
                Errand::Adopt(adoption) => {
                    if let Err(message) = island.adopt(shared, &adoption) {
                        self.observer.fail(self.world.now, "island", message);
                        return;
                    }
                    let (fragment, version) = (adoption.fragment, adoption.version);
                    running.inbox.push_back(Input::Adopted { fragment, version });
                }
            }
        }
    }

    /// Starts an island's steps: once its node is caught up, or at once if it trained before.
    pub(super) fn wake_island(&mut self, node: NodeIndex) {
        if self.world.quiet {
            return;
        }
        let state = &mut self.world.nodes[node];
        let caught_up =
            state.engine().is_some_and(|engine| engine.standing() == Standing::CaughtUp);
        let ready = caught_up || state.disk.checkpoint().is_some();
        let Some(running) = &mut state.running else { return };
        if ready && !running.stepping && running.island.is_some() {
            running.stepping = true;
            self.plan_step(node);
        }
    }

    fn plan_step(&mut self, node: NodeIndex) {
        let state = &mut self.world.nodes[node];
        let mean = u64::from(state.plan.step_ms.max(1));
        let spread = mean * u64::from(state.plan.jitter_percent.min(90)) / 100;
        let span = state.rng.range(mean - spread, mean + spread).max(1);
        let (now, life) = (self.world.now.0, state.life);
        let pieces = self.world.shared.lesson.pieces().max(1);
        for left in (0..pieces).rev() {
            let at = now + (span * u64::from(pieces - left) / u64::from(pieces)).max(1);
            self.world.agenda.plan(Time(at), Happening::Step { node, life, left });
        }
    }

    /// An island finishes a piece of a step that is not the last.
    pub(super) fn piece(&mut self, node: NodeIndex, left: u32) {
        if self.world.quiet {
            return;
        }
        let Some(running) = &mut self.world.nodes[node].running else { return };
        let trained = running.tokens_trained();
        let Some(island) = &mut running.island else { return };
        if let Err(error) = island.piece(&self.world.shared, trained) {
            let message = format!("island {node}, {left} pieces before a step: {error}");
            self.observer.fail(self.world.now, "island", message);
            return;
        }
        self.boundary(node);
        self.work(node);
    }

    /// An island finishes a step.
    pub(super) fn step(&mut self, node: NodeIndex) {
        if self.world.quiet {
            return;
        }
        let state = &mut self.world.nodes[node];
        let step_ms = state.plan.step_ms;
        let Some(running) = &mut state.running else { return };
        let trained = running.tokens_trained();
        let Some(island) = &mut running.island else { return };
        let tokens = match island.step(&self.world.shared, trained) {
            Ok(tokens) => tokens,
            Err(error) => {
                self.observer.fail(self.world.now, "island", format!("island {node}: {error}"));
                return;
            }
        };
        self.input(node, Input::Stepped { tokens, step_ms });
        self.boundary(node);
        self.work(node);
        self.save_checkpoint(node);
        self.plan_step(node);
    }

    /// Writes a checkpoint now and then, but not while the engine's records lag behind it.
    fn save_checkpoint(&mut self, node: NodeIndex) {
        let every = u64::from(self.world.setup.checkpoint_steps.max(1));
        let at = self.world.soon(5, 50);
        let state = &mut self.world.nodes[node];
        let life = state.life;
        let Some(running) = &state.running else { return };
        let Some(island) = &running.island else { return };
        let lags = state.disk.is_writing() || !running.tasks.is_empty();
        if lags || !island.errands.is_empty() || !island.steps().is_multiple_of(every) {
            return;
        }
        match island.checkpoint() {
            Ok(checkpoint) => state.disk.write_checkpoint(checkpoint),
            Err(error) => {
                self.observer.fail(self.world.now, "island", format!("island {node}: {error}"));
                return;
            }
        }
        self.world.agenda.plan(at, Happening::Checkpointed { node, life });
    }
}

/// The order in which a node that has only its own contribution at first hears of the others.
fn own_first(cut: &mut outer::Cut, own: NodeId) {
    let place = cut.members.iter().position(|member| member.author == own);
    cut.members.rotate_left(place.unwrap_or(0));
}

/// Whether values are not finite; codecs with scales see it in a scale.
fn is_not_finite(error: &CheckError) -> bool {
    use CheckError::{NotFinite, Payload};
    matches!(error, NotFinite | Payload(PayloadError::NonFinite(_) | PayloadError::Scale(_)))
}
