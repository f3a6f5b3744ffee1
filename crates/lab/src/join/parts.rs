//! What a document says of the frames that entered its part.

use super::document::{Part, difference};
use corelane_link::{FrameDirection, LinkSpec};
use corelane_load::packets::PacketsLoadReport;
use corelane_serve::bridge::{Bridged, LinkBridged};
use corelane_serve::packets::Received;
use std::collections::BTreeMap;

/// Faults by name, as documents have them.
type Faults = BTreeMap<String, u64>;

/// A link as its document names it.
struct Named<'a> {
    label: String,
    faults: Option<&'a Faults>,
    /// Whether they apply to what is sent to it.
    on_sent: bool,
}

impl<'a> Named<'a> {
    fn new(specification: &str, faults: Option<&'a Faults>) -> Self {
        let spec = specification.parse::<LinkSpec>();
        let plan = spec.ok().and_then(|spec| spec.faults);
        Named {
            label: specification.split(',').next().unwrap_or_default().to_owned(),
            faults,
            on_sent: plan.is_some_and(|plan| plan.direction == FrameDirection::Sent),
        }
    }

    fn fault(&self, name: &str) -> u64 {
        let faults = self.faults.and_then(|faults| faults.get(name));
        faults.copied().unwrap_or_default()
    }

    /// Frames that arrived at the link, of which so many were received.
    fn arrived(&self, received: u64, lost: u64) -> u64 {
        let before_faults = match self.on_sent {
            true => received,
            false => (received + self.fault("dropped") + self.fault("held"))
                .saturating_sub(self.fault("duplicated")),
        };
        before_faults + lost
    }
}

fn named(link: &LinkBridged) -> Named<'_> {
    Named::new(&link.link, link.faults.as_ref())
}

impl Part {
    /// `load packets`.
    pub(super) fn generator(load: &PacketsLoadReport) -> Part {
        let link = Named::new(&load.link, load.faults.as_ref());
        let counts = &load.counts;
        let not_sent = |cause: &str| counts.dropped.get(cause).copied().unwrap_or_default();
        // What the device refused was sent before.
        let never_sent: u64 = counts.dropped.values().sum::<u64>() - not_sent("refused");
        let mut part = Part {
            part: format!("load packets {}", link.label),
            entered: counts.sent + counts.unsent + never_sent,
            ..Part::default()
        };
        part.end("unsent", counts.unsent);
        for (cause, count) in &counts.dropped {
            part.end(&format!("not sent, {cause}"), *count);
        }
        part.faults(&link);
        part.left = counts.sent + link.fault("duplicated")
            - (link.fault("dropped") + link.fault("held") + not_sent("refused"));
        part.balanced()
    }

    /// `bridge`. Frames enter by the link on which most arrived, and leave by that of the others to which most were sent.
    pub(super) fn bridge(bridged: &Bridged) -> Part {
        let most = |of: fn(&LinkBridged) -> u64, but: Option<usize>| {
            let links = (0..bridged.links.len()).filter(|place| Some(*place) != but);
            links.rev().max_by_key(|place| of(&bridged.links[*place]))
        };
        let from = most(|link| link.tally.received, None);
        let to = most(|link| link.tally.sent, from);
        let label =
            |place: Option<usize>| place.map_or_else(String::new, |place| named(&bridged.links[place]).label);
        let mut part = Part {
            part: format!("bridge {} to {}", label(from), label(to)),
            may_be_foreign: bridged.not_ip + bridged.malformed,
            ..Part::default()
        };
        for (place, link) in bridged.links.iter().enumerate() {
            part.link(link, from == Some(place), to == Some(place));
        }
        // A frame that passes goes to all links but its own.
        let further_links = bridged.links.len().saturating_sub(2) as u64;
        part.add("copies to further links", bridged.passed * further_links);
        part.add("made by stages", bridged.made);
        part.end("used by stages", bridged.used);
        part.end("held by stages", bridged.held);
        for (cause, count) in &bridged.dropped {
            part.end(&format!("dropped, {cause}"), *count);
        }
        let waiting = bridged.dispatch.iter().flat_map(|dispatch| &dispatch.workstreams);
        part.end(
            "waiting for a bucket",
            waiting.map(|stream| stream.row.length).sum(),
        );
        part.balanced()
    }

    /// A link of a bridge, by which frames enter, or leave, or neither.
    fn link(&mut self, link: &LinkBridged, enters: bool, leaves: bool) {
        let (tally, named) = (&link.tally, named(link));
        let label = &named.label;
        let arrived = named.arrived(tally.received, tally.receive_dropped + tally.receive_invalid);
        match enters {
            true => self.entered = arrived,
            false => self.add(&format!("from {label}"), arrived),
        }
        self.end(&format!("{label}: ring full"), tally.receive_dropped);
        self.end(&format!("{label}: invalid"), tally.receive_invalid);
        self.faults(&named);
        for (cause, count) in &link.not_sent {
            self.end(&format!("{label}: not sent, {cause}"), *count);
        }
        // What the device refused was sent before.
        let refused = link.not_sent.get("refused").copied().unwrap_or_default();
        let sent = tally.sent.saturating_sub(refused);
        match leaves {
            true => self.left = sent,
            false => self.end(&format!("to {label}"), sent),
        }
    }

    /// `serve packets`.
    pub(super) fn receiver(received: &Received) -> Part {
        let link = Named::new(&received.link, received.faults.as_ref());
        let (dropped, invalid) = (received.receive_dropped, received.receive_invalid);
        let mut part = Part {
            part: format!("serve packets {}", link.label),
            entered: link.arrived(received.received, dropped + invalid),
            may_be_foreign: received.changed_or_foreign + received.not_udp,
            ..Part::default()
        };
        part.faults(&link);
        for (cause, count) in [
            ("ring full", dropped),
            ("invalid", invalid),
            ("received", received.total.received),
            ("received again", received.total.duplicated),
            ("received too late to classify", received.total.too_late),
            ("received, changed or foreign", received.changed_or_foreign),
            ("received, not UDP", received.not_udp),
        ] {
            part.end(cause, count);
        }
        part.balanced()
    }

    fn add(&mut self, cause: &str, count: u64) {
        *self.added.entry(cause.to_owned()).or_default() += count;
    }

    fn end(&mut self, cause: &str, count: u64) {
        *self.ended.entry(cause.to_owned()).or_default() += count;
    }

    fn faults(&mut self, link: &Named<'_>) {
        if link.faults.is_some() {
            self.add(
                &format!("{}: fault, duplicated", link.label),
                link.fault("duplicated"),
            );
            self.end(&format!("{}: fault, dropped", link.label), link.fault("dropped"));
            self.end(&format!("{}: fault, held", link.label), link.fault("held"));
        }
    }

    fn balanced(mut self) -> Part {
        let [added, ended] = [&self.added, &self.ended].map(|cells| cells.values().sum::<u64>());
        self.unexplained = difference(self.entered + added, ended + self.left);
        self
    }
}
