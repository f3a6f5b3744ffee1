//! Joins the documents of a generator, of the bridges behind it and of a receiver, so that every frame is in one cell.
//!
//! In: the documents of `load packets`, `bridge` and `serve packets`, in the order in which frames pass. Out: for each, the
//! frames that entered, what was added to them, where frames ended, and what left; and between two of them what nothing
//! explains: what another device, a cable or a kernel between them did.

mod document;
mod page;
mod parts;

pub use document::{Joined, Part, StreamJoined};
pub use page::FIGURES;

use corelane_load::LoadReport;
use corelane_load::packets::PacketsLoadReport;
use corelane_serve::bridge::Bridged;
use corelane_serve::packets::Received;
use document::difference;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;

/// The schema of a generator's document, and those of the others.
const LOAD: &str = PacketsLoadReport::SCHEMA;
const BRIDGE: &str = "corelane/bridge/1";
const RECEIVE: &str = "corelane/received-packets/1";

impl Joined {
    /// Joins these documents: one of `load packets`, then any number of `bridge`, then one of `serve packets`.
    ///
    /// # Errors
    /// The place of the document that is not the one expected there, or cannot be read.
    pub fn of(texts: &[String]) -> Result<Joined, (usize, String)> {
        let last = texts.len().saturating_sub(1);
        let load = texts.first().map_or_else(
            || Err("no document".to_owned()),
            |text| read::<PacketsLoadReport>(text, LOAD, "the first document is that of `load packets`"),
        );
        let load = load.map_err(|error| (0, error))?;
        load.check().map_err(|error| (0, error))?;
        let received = read::<Received>(
            &texts[last],
            RECEIVE,
            "the last document is that of `serve packets`",
        );
        let received = received.map_err(|error| (last, error))?;
        let mut parts = vec![Part::generator(&load)];
        for (place, text) in texts.iter().enumerate().take(last).skip(1) {
            let bridged = read::<Bridged>(
                text,
                BRIDGE,
                "between the first and the last are those of `bridge`",
            );
            let bridged = bridged.map_err(|error| (place, error))?;
            parts.push(Part::bridge(&bridged));
        }
        parts.push(Part::receiver(&received));
        for place in 1..parts.len() {
            parts[place].unexplained_before = difference(parts[place - 1].left, parts[place].entered);
        }
        Ok(Joined {
            parts,
            streams: streams(&load, &received),
        })
    }
}

/// Reads a document of this schema.
fn read<D: DeserializeOwned>(text: &str, schema: &str, expected: &str) -> Result<D, String> {
    #[derive(Deserialize)]
    struct Kind {
        schema: String,
    }
    let kind: Kind = serde_json::from_str(text).map_err(|error| format!("{error}: {expected}"))?;
    match kind.schema == schema {
        true => serde_json::from_str(text).map_err(|error| error.to_string()),
        false => Err(format!("its schema is {}, not {schema}: {expected}", kind.schema)),
    }
}

/// The streams that the generator sent, and others that arrived.
fn streams(load: &PacketsLoadReport, received: &Received) -> Vec<StreamJoined> {
    let mut streams = BTreeMap::<u16, StreamJoined>::new();
    for sent in &load.streams {
        let Some(number) = sent.stream else {
            return Vec::new();
        };
        streams.entry(number).or_default().sent += sent.sent;
    }
    for came in &received.streams {
        let stream = streams.entry(came.stream.unwrap_or_default()).or_default();
        stream.received += came.received;
        stream.duplicated += came.duplicated;
        stream.reordered += came.reordered;
        stream.too_late += came.too_late;
    }
    let joined = streams.into_iter().map(|(number, stream)| StreamJoined {
        stream: number,
        lost: difference(stream.sent, stream.received),
        ..stream
    });
    joined.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use corelane_report::page::Rendered;
    use serde_json::{Value, json};

    /// A generator that sent 1,000 frames of one stream, 5 of which its device refused.
    fn load() -> Value {
        json!({ "schema": LOAD, "link": "packet:a", "sending_s": 1.0, "sent": 1000, "sent_bytes": 60_000, "unsent": 7,
            "dropped": { "oversized": 3, "refused": 5 }, "waits_for_room": 0, "sent_cut_short": 0,
            "frames_per_s": 1000.0, "schedule_lag": null, "duration_s": 1.0, "limited_by": "schedule",
            "streams": [{ "stream": 0, "queue": "packet:a", "cpu": 0, "flows": null, "sent": 1000, "sent_bytes": 60_000 }] })
    }

    /// A bridge that received 990 of them by its second link, and as many as `back` by its first.
    fn bridge(back: u64) -> Value {
        let link = |link: &str, received: u64, sent: u64| {
            json!({ "link": link, "queues": 1, "up": true, "lost": 0, "returned": 0, "last_loss": null,
                "received": received, "received_bytes": 0, "sent": sent, "sent_bytes": 0, "receive_dropped": 0,
                "receive_invalid": 0, "not_sent": {} })
        };
        let mut links = [link("packet:c", back, 960), link("packet:b,drop=1%", 990, back)];
        links[1]["faults"] = json!({ "dropped": 4, "duplicated": 3, "held": 0 });
        links[1]["receive_dropped"] = 2.into();
        links[0]["not_sent"] = json!({ "full": 6, "refused": 1 });
        json!({ "schema": BRIDGE, "duration_s": 1.0, "workers": 1, "received": 990 + back, "passed": 966 + back,
            "dropped": { "table": 20, "not_ip": 4 }, "not_ip": 4, "malformed": 0, "links": links, "tables": [] })
    }

    /// A receiver that all came to but one, with a frame of another sender.
    fn receive() -> Value {
        json!({ "schema": RECEIVE, "link": "packet:d", "receiving_s": 1.0, "received": 959, "received_bytes": 0,
            "frames_per_s": null, "marked": 958, "changed_or_foreign": 0, "not_udp": 1, "receive_dropped": 0,
            "total": { "stream": null, "received": 955, "lost": 1, "duplicated": 3, "reordered": 0, "too_late": 0 },
            "streams": [{ "stream": 0, "received": 955, "lost": 1, "duplicated": 3, "reordered": 0, "too_late": 0 }],
            "latency": null, "latency_histogram": null, "latency_unknown": null })
    }

    fn joined(documents: &[Value]) -> Joined {
        let texts: Vec<String> = documents.iter().map(Value::to_string).collect();
        Joined::of(&texts).unwrap()
    }

    #[test]
    fn every_frame_is_in_one_cell() {
        let joined = joined(&[load(), bridge(0), receive()]);
        let counts = |part: &Part| (part.unexplained_before, part.entered, part.left, part.unexplained);
        let counts: Vec<_> = joined.parts.iter().map(counts).collect();
        // 990 received are 991 that arrived, 4 fewer by a fault and 3 more, beside 2 without room.
        assert_eq!(counts, [(0, 1010, 995, 0), (2, 993, 959, 0), (0, 959, 0, 0)]);
        assert_eq!(joined.parts[1].part, "bridge packet:b to packet:c");
        assert_eq!(joined.parts[1].ended["packet:c: not sent, full"], 6);
        assert_eq!((joined.unexplained(), joined.streams[0].lost), (2, 45));
        assert_eq!(joined.proved(), Ok(()));
        let entered: u64 = joined.parts[0].entered
            + joined
                .parts
                .iter()
                .flat_map(|part| part.added.values())
                .sum::<u64>();
        let ended: u64 = joined.parts.iter().flat_map(|part| part.ended.values()).sum();
        assert_eq!(entered, ended + joined.unexplained());
    }

    #[test]
    fn frames_of_the_other_direction_are_apart() {
        let joined = joined(&[load(), bridge(50), receive()]);
        let bridge = &joined.parts[1];
        assert_eq!((bridge.entered, bridge.left, bridge.unexplained), (993, 959, 0));
        assert_eq!(
            (bridge.added["from packet:c"], bridge.ended["to packet:b"]),
            (50, 50)
        );
    }

    #[test]
    fn more_frames_than_there_were_cannot_be() {
        let mut few = load();
        for count in ["/sent", "/streams/0/sent"] {
            *few.pointer_mut(count).unwrap() = 950.into();
        }
        // 48 more entered than left, of which 4 may have another sender; and 955 arrived of 950.
        let error = joined(&[few, bridge(0), receive()]).proved().unwrap_err();
        assert!(
            error.contains("48 more frames entered bridge packet:b to packet:c"),
            "{error}"
        );
        assert!(error.contains("5 more frames of stream 0 arrived"), "{error}");
        let mut foreign = receive();
        (foreign["received"], foreign["not_udp"]) = (1000.into(), 42.into());
        let joined = joined(&[load(), bridge(0), foreign]);
        assert_eq!(
            (joined.parts[2].unexplained_before, joined.proved()),
            (-41, Ok(()))
        );
    }

    #[test]
    fn a_part_whose_own_counts_differ_is_reported() {
        let mut lost = bridge(0);
        lost["dropped"]["table"] = 19.into();
        let lost = joined(&[load(), lost, receive()]);
        assert_eq!(
            (lost.parts[1].unexplained, lost.unexplained(), lost.proved()),
            (1, 3, Ok(()))
        );
        let mut more = bridge(0);
        more["dropped"]["table"] = 21.into();
        let error = joined(&[load(), more, receive()]).proved().unwrap_err();
        assert!(error.contains("1 more frames ended in or left bridge"), "{error}");
    }

    #[test]
    fn documents_in_another_order_are_refused_by_place() {
        for (documents, place) in [
            (vec![bridge(0), load(), receive()], 0),
            (vec![load(), bridge(0)], 1),
            (vec![load(), receive(), receive()], 1),
            (vec![load(), json!(3), receive()], 1),
        ] {
            let texts: Vec<String> = documents.iter().map(Value::to_string).collect();
            assert_eq!(Joined::of(&texts).map_err(|(place, _)| place), Err(place));
        }
    }
}
