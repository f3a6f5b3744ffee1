//! The metrics of a packet receiver.

use super::received::Received;
use crate::metrics::{PREFIX, number};
use corelane_measure::metric::{Metric, Show};
use corelane_report::exposition::{Exposed, Exposition, Labels};

static FRAMES: Metric<Received> = Metric::more("received_frames_total", "received", Show::Count)
    .about("Frames received, of any kind.")
    .read(|received| number(received.received));

impl Exposed for Received {
    /// Loss, order and latency are computed at the end.
    fn expose(&self, exposition: &mut Exposition) {
        exposition.add(PREFIX, &FRAMES, [(Labels::new(), self)]);
    }
}
