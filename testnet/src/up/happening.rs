//! What happens in a swarm, in words, with islands by their number.

use serde_json::Value;

/// Something that happened.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Happening {
    /// Seconds since the swarm was started.
    pub(super) at: f64,
    /// To which island; none if it concerns the whole.
    pub(super) island: Option<usize>,
    /// What, in words.
    pub(super) words: String,
    /// How much it matters.
    pub(super) weight: Weight,
}

/// How much something matters to a person who watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Weight {
    /// One of many.
    Usual,
    /// Changes what the swarm is.
    Notable,
    /// Was done on purpose.
    Inflicted,
    /// Something is wrong.
    Wrong,
}

/// What nodes are called.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Names<'a> {
    /// The node of each island, where it is known.
    pub(super) islands: &'a [Option<String>],
    /// Those of liars.
    pub(super) liars: &'a [Option<String>],
}

/// The words for a line of an event log; none for what is not worth a line.
pub(super) fn words(event: &Value, names: Names<'_>) -> Option<(String, Weight)> {
    let text = |key: &str| event[key].as_str().unwrap_or_default();
    let whole = |key: &str| event[key].as_u64().unwrap_or_default();
    let who = |key: &str| names.of(text(key));
    let usual = |words: String| Some((words, Weight::Usual));
    let notable = |words: String| Some((words, Weight::Notable));
    let wrong = |words: String| Some((words, Weight::Wrong));
    match text("event") {
        "started" if whole("incarnation") > 1 => notable("goes on".into()),
        "started" => notable("begins".into()),
        "stopped" => notable(format!("stopped: {}", text("reason"))),
        "standing" => match text("standing") {
            "caught_up" => notable("has caught up and trains".into()),
            "muted" => wrong("is muted: its key was revoked or signed twice".into()),
            _ => None,
        },
        "closed" => usual(format!(
            "round {} closed with {} contributions: {}",
            text("round"),
            whole("have"),
            because(&event["because"])
        )),
        "admitted" if event["late"] == true => usual(format!(
            "contribution of {} to {} came late: folded again",
            who("author"),
            text("round")
        )),
        "diverged" => wrong(format!("{} has another history", who("peer"))),
        "bits_differ" => wrong(format!("{} has other bits at v{}", who("peer"), whole("version"))),
        "installed" => notable(format!(
            "took version {} of f{} from peers",
            whole("version"),
            whole("fragment")
        )),
        "equivocated" => wrong(format!("{} signed twice for one slot", who("node"))),
        "same_key" => wrong("another node runs with its key".into()),
        "withheld" => wrong(format!("nobody serves a payload of {}", who("author"))),
        "peer_up" => usual(format!("meets {}", who("node"))),
        "peer_down" => notable(format!("lost {}", who("node"))),
        // That is told by itself.
        "fault" if text("fault") == "equivocation" => None,
        "fault" if whole("penalty") > 0 => {
            wrong(format!("{} is at fault: {}", who("node"), text("fault").replace('_', " ")))
        }
        "held_out" => {
            let loss = event["loss"].as_f64()?;
            usual(format!("held-out loss {loss:.3} at step {}", whole("step")))
        }
        "recovered" => notable(text("what").into()),
        "warning" => wrong(text("message").into()),
        "dropped" => wrong(format!("{} events are missing in its log", whole("events"))),
        _ => None,
    }
}

fn because(because: &Value) -> String {
    match because["reason"].as_str().unwrap_or_default() {
        "everyone" => "every live island was there".into(),
        "grace" => "the grace window was over".into(),
        "peers" => "peers had closed it".into(),
        other => other.replace('_', " "),
    }
}

impl Names<'_> {
    /// An island's name, a liar's, or the beginning of a node's id where it is none of ours.
    fn of(&self, node: &str) -> String {
        let find =
            |nodes: &[Option<String>]| nodes.iter().position(|it| it.as_deref() == Some(node));
        match (find(self.islands), find(self.liars)) {
            (Some(index), _) => island(index),
            (None, Some(index)) => format!("liar {}", index + 1),
            (None, None) => format!("node {}", node.get(..8).unwrap_or(node)),
        }
    }
}

/// The name of island `index`.
pub(super) fn island(index: usize) -> String {
    format!("island {}", index + 1)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn islands_have_numbers_and_strangers_their_id() {
        let (one, other) = ("ab".repeat(32), "cd".repeat(32));
        let nodes = [None, Some(one.clone())];
        let liars = [Some("ef".repeat(32))];
        let names = Names { islands: &nodes, liars: &liars };
        let said = |event: Value| words(&event, names);
        let up = said(json!({ "event": "peer_up", "node": one })).unwrap();
        assert_eq!(up, ("meets island 2".into(), Weight::Usual));
        let down = said(json!({ "event": "peer_down", "node": other })).unwrap();
        assert_eq!(down, ("lost node cdcdcdcd".into(), Weight::Notable));
        let twice = said(json!({ "event": "equivocated", "node": liars[0] })).unwrap();
        assert_eq!(twice, ("liar 1 signed twice for one slot".into(), Weight::Wrong));
    }

    #[test]
    fn rounds_say_why_they_closed() {
        let event = json!({
            "at": "T", "event": "closed", "round": "f3/r41", "have": 4, "need": 3,
            "because": { "reason": "everyone" },
        });
        let (words, _) = words(&event, Names::default()).unwrap();
        assert_eq!(words, "round f3/r41 closed with 4 contributions: every live island was there");
    }

    #[test]
    fn what_is_usual_in_great_numbers_is_left_out() {
        for kind in ["opened", "contributed", "materialised", "stable", "steps", "network", "new"] {
            assert_eq!(words(&json!({ "event": kind }), Names::default()), None, "{kind}");
        }
        assert_eq!(words(&json!({ "event": "admitted", "late": false }), Names::default()), None);
        let fault = json!({ "event": "fault", "fault": "bad_payload", "penalty": 100 });
        assert_eq!(words(&fault, Names::default()).unwrap().1, Weight::Wrong);
    }
}
