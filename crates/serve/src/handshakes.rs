//! TLS handshakes of a server of connections.

use crate::metrics::PREFIX;
use corelane_measure::counters;
use corelane_measure::metric::{Metric, Sample, Show};
use corelane_report::exposition::Exposition;
use corelane_worker::Counter;
use corelane_worker::tls::HandshakeKind;
use serde::{Deserialize, Serialize};

/// Completed handshakes of one bucket: written by its worker, readable by any thread.
#[derive(Debug, Default)]
pub(crate) struct Handshakes {
    full: Counter,
    resumed: Counter,
}

counters! {
    /// Completed handshakes.
    #[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
    pub struct HandshakeCounts {
        /// With a certificate.
        #[serde(default, rename = "handshakes_full")]
        pub full: u64,
        /// Of sessions that were resumed.
        #[serde(default, rename = "handshakes_resumed")]
        pub resumed: u64,
    }
}

static FULL: Metric<HandshakeCounts> = Metric::explaining("full_handshakes_total", "full", Show::Count)
    .about("TLS handshakes with a certificate.")
    .read(|counts| Sample::count(counts.full));

static RESUMED: Metric<HandshakeCounts> =
    Metric::explaining("resumed_handshakes_total", "resumed", Show::Count)
        .about("TLS handshakes that resumed an earlier session.")
        .read(|counts| Sample::count(counts.resumed));

impl Handshakes {
    pub(crate) fn count(&self, kind: HandshakeKind) {
        match kind {
            HandshakeKind::Resumed => self.resumed.add(1),
            _ => self.full.add(1),
        }
    }

    pub(crate) fn counts(&self) -> HandshakeCounts {
        HandshakeCounts {
            full: self.full.get(),
            resumed: self.resumed.get(),
        }
    }
}

impl HandshakeCounts {
    /// Whether there were none, as without TLS.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    pub(crate) fn expose(&self, exposition: &mut Exposition) {
        for metric in [&FULL, &RESUMED] {
            exposition.add(PREFIX, metric, [(Vec::new(), self)]);
        }
    }
}
