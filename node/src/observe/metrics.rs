//! The status as Prometheus metrics, all named `atoll_*`.

use std::fmt;
use std::sync::Arc;

use atoll_protocol::frontier::Standing;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, NoLabelSet, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;

use super::observer::Observer;
use super::status::{How, Status, YesNo};
use super::written::Written;

/// The metrics at this moment, in the OpenMetrics text format.
pub(super) fn render(observer: &Observer) -> Result<String, fmt::Error> {
    let mut registry = Registry::with_prefix("atoll");
    registry.register_collector(Box::new(Snapshot(observer.clone())));
    let mut page = String::new();
    text::encode(&mut page, &registry)?;
    Ok(page)
}

/// What a scraper is to be told it gets.
pub(super) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

#[derive(Debug)]
struct Snapshot(Observer);

impl Collector for Snapshot {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut page = Page(encoder);
        let faults: Vec<_> =
            self.0.faults().map(|(fault, count)| ([("fault", fault.write())], count)).collect();
        page.counters("faults", "What peers did wrong", &faults)?;
        page.counter("events_dropped", "Events that the event log lost", self.0.events_dropped())?;
        let Some(status) = self.0.latest() else { return Ok(()) };
        identity(&mut page, &status)?;
        gauges(&mut page, &status)?;
        fragments(&mut page, &status)?;
        training(&mut page, &status)?;
        resources(&mut page, &status)
    }
}

fn identity(page: &mut Page<'_>, status: &Arc<Status>) -> fmt::Result {
    let labels = vec![
        ("run", status.run.to_hex()),
        ("name", status.name.clone()),
        ("node", status.node.to_hex()),
        ("program", status.program.clone()),
    ];
    let info = Info::new(labels);
    let encoder = page.0.encode_descriptor(
        "node",
        "Which node of which run this is",
        None,
        MetricType::Info,
    )?;
    info.encode(encoder)?;
    page.gauge("uptime_seconds", "Time since the start", status.uptime_s as f64)?;
    page.gauge("incarnation", "How often the node was started", status.incarnation as f64)?;
    let standings = [Standing::Joining, Standing::CaughtUp, Standing::Muted].map(|standing| {
        ([("standing", standing.write())], f64::from(u8::from(standing == status.standing)))
    });
    page.gauges("standing", "1 for the node's standing, 0 for the others", &standings)
}

fn gauges(page: &mut Page<'_>, status: &Status) -> fmt::Result {
    let gauges = &status.gauges;
    page.gauge("peers_alive", "Peers heard from lately", f64::from(gauges.alive))?;
    page.gauge("peers_connected", "Peers connected", status.peers.len() as f64)?;
    let reachable = match gauges.reachable.answer {
        YesNo::Yes => 1.0,
        YesNo::No => 0.0,
        YesNo::Unknown => f64::NAN,
    };
    let how = match gauges.reachable.how {
        Some(How::Direct) => "direct",
        Some(How::Relayed) => "relayed",
        Some(How::HolePunched) => "hole_punched",
        None => "none",
    };
    page.gauges(
        "reachable",
        "1 if others can begin a connection to this node, 0 if not, NaN if unknown",
        &[([("how", how.to_owned())], reachable)],
    )?;
    page.gauge(
        "merged_share",
        "Share of the fragments whose last closed round holds a contribution of this node",
        gauges.merged_in_last_round.share,
    )?;
    page.gauge(
        "staleness_versions",
        "Versions behind the newest frontier seen",
        f64::from(gauges.staleness),
    )?;
    page.gauge("warnings", "Warnings that status shows", status.warnings.len() as f64)
}

fn fragments(page: &mut Page<'_>, status: &Status) -> fmt::Result {
    let merged = &status.gauges.merged_in_last_round.fragments;
    let label = |fragment: usize| [("fragment", fragment.to_string())];
    let each = |value: &dyn Fn(&super::status::Fragment) -> u32| -> Vec<_> {
        let fragments = status.fragments.iter();
        fragments.map(|it| (label(it.fragment.index()), f64::from(value(it)))).collect()
    };
    let merged: Vec<_> = merged
        .iter()
        .enumerate()
        .map(|(fragment, merged)| (label(fragment), f64::from(u8::from(*merged))))
        .collect();
    page.gauges(
        "fragment_merged_in_last_round",
        "1 if the last closed round holds a contribution of this node",
        &merged,
    )?;
    page.gauges("fragment_version", "Newest version", &each(&|it| it.version))?;
    page.gauges("fragment_base", "Version up to which nothing changes", &each(&|it| it.base))?;
    page.gauges("fragment_staleness_versions", "Versions behind", &each(&|it| it.staleness))
}

fn training(page: &mut Page<'_>, status: &Status) -> fmt::Result {
    let (loss, training, fates) = (&status.loss, &status.training, &status.fates);
    let kinds = [("last", loss.last), ("smoothed", loss.smoothed), ("held_out", loss.held_out)];
    let losses: Vec<_> = kinds
        .into_iter()
        .filter_map(|(kind, loss)| Some(([("kind", kind.to_owned())], loss?)))
        .collect();
    page.gauges("loss", "Loss in nats per token", &losses)?;
    page.counter("steps", "Steps of the island", training.step)?;
    page.counter("tokens", "Tokens the island learned from", training.tokens)?;
    page.gauge("tokens_per_second", "Tokens per second, lately", training.tokens_per_s)?;
    page.gauge("step_seconds", "Time of a step, lately", training.step_ms / 1000.0)?;
    page.gauge("training_share", "Share of the time spent in steps", training.training_share)?;
    let fates = [
        ("merged", fates.merged),
        ("pending", fates.pending),
        ("fresh", fates.fresh),
        ("reissued", fates.reissued),
        ("orphaned", fates.orphaned),
    ];
    let fates = fates.map(|(fate, tokens)| ([("fate", fate.to_owned())], tokens as f64));
    page.gauges("token_fates", "Where own tokens are, summed over the fragments", &fates)
}

fn resources(page: &mut Page<'_>, status: &Status) -> fmt::Result {
    let (bytes, disk) = (&status.bytes, &status.disk);
    let lanes = [
        ("control", "up", bytes.control.up),
        ("control", "down", bytes.control.down),
        ("content", "up", bytes.content.up),
        ("content", "down", bytes.content.down),
    ];
    let lanes = lanes.map(|(lane, direction, bytes)| {
        ([("lane", lane.to_owned()), ("direction", direction.to_owned())], bytes)
    });
    page.counters("bytes", "Bytes over the network", &lanes)?;
    let parts = [
        ("contents", disk.contents),
        ("bases", disk.bases),
        ("records", disk.records),
        ("checkpoint", disk.checkpoint),
        ("total", disk.used),
    ];
    let parts = parts.map(|(part, bytes)| ([("part", part.to_owned())], bytes as f64));
    page.gauges("disk_bytes", "Bytes on disk", &parts)?;
    match disk.budget {
        Some(budget) => page.gauge("disk_budget_bytes", "Bytes allowed on disk", budget as f64),
        None => Ok(()),
    }
}

type Labels<const N: usize> = [(&'static str, String); N];

struct Page<'a>(DescriptorEncoder<'a>);

impl Page<'_> {
    fn gauge(&mut self, name: &str, help: &str, value: f64) -> fmt::Result {
        let encoder = self.0.encode_descriptor(name, help, None, MetricType::Gauge)?;
        ConstGauge::new(value).encode(encoder)
    }

    fn counter(&mut self, name: &str, help: &str, value: u64) -> fmt::Result {
        let mut encoder = self.0.encode_descriptor(name, help, None, MetricType::Counter)?;
        encoder.encode_counter::<NoLabelSet, _, u64>(&value, None)
    }

    fn gauges<const N: usize>(
        &mut self,
        name: &str,
        help: &str,
        values: &[(Labels<N>, f64)],
    ) -> fmt::Result {
        let mut encoder = self.0.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for (labels, value) in values {
            ConstGauge::new(*value).encode(encoder.encode_family(labels)?)?;
        }
        Ok(())
    }

    fn counters<const N: usize>(
        &mut self,
        name: &str,
        help: &str,
        values: &[(Labels<N>, u64)],
    ) -> fmt::Result {
        let mut encoder = self.0.encode_descriptor(name, help, None, MetricType::Counter)?;
        for (labels, value) in values {
            ConstCounter::new(*value).encode(encoder.encode_family(labels)?)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use atoll_protocol::fault::Fault;
    use atoll_protocol::id::NodeId;

    use super::*;
    use crate::observe::status::example;
    use crate::observe::{Clock, Event};

    #[test]
    fn the_status_becomes_metrics() {
        let observer = Observer::new(Clock::system(), None);
        let early = render(&observer).unwrap();
        assert!(early.contains("atoll_faults_total{fault=\"flood\"} 0\n"), "{early}");
        assert!(!early.contains("atoll_loss"), "{early}");
        let node = NodeId([1; 32]);
        observer.event(Event::Fault { node, fault: Fault::Flood, penalty: 5 });
        observer.publish(example::status());
        let page = render(&observer).unwrap();
        for line in [
            "# TYPE atoll_faults counter",
            "atoll_faults_total{fault=\"flood\"} 1",
            "atoll_events_dropped_total 0",
            "atoll_uptime_seconds 8040.0",
            "atoll_standing{standing=\"caught_up\"} 1.0",
            "atoll_standing{standing=\"joining\"} 0.0",
            "atoll_peers_alive 8.0",
            "atoll_reachable{how=\"direct\"} 1.0",
            "atoll_merged_share 0.5",
            "atoll_fragment_merged_in_last_round{fragment=\"1\"} 0.0",
            "atoll_staleness_versions 1.0",
            "atoll_fragment_version{fragment=\"0\"} 41.0",
            "atoll_loss{kind=\"held_out\"} 3.3",
            "atoll_steps_total 12345",
            "atoll_step_seconds 0.412",
            "atoll_token_fates{fate=\"pending\"} 600000.0",
            "atoll_bytes_total{lane=\"content\",direction=\"up\"} 12345678901",
            "atoll_disk_budget_bytes 20000000000.0",
            "# EOF",
        ] {
            assert!(page.lines().any(|it| it == line), "{line} in\n{page}");
        }
        assert!(page.contains("atoll_node_info{run=\"3f3f"), "{page}");
        let named = page.lines().filter(|line| !line.starts_with('#'));
        assert!(named.clone().count() > 40);
        named.for_each(|line| assert!(line.starts_with("atoll_"), "{line}"));
    }
}
