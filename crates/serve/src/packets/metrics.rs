//! The metrics of a packet receiver.

use super::received::{QueueReceived, Received};
use crate::metrics::PREFIX;
use corelane_measure::metric::{Metric, Sample, Show};
use corelane_report::exposition::{Exposed, Exposition};

static FRAMES: Metric<QueueReceived> = Metric::more("received_frames_total", "received", Show::Count)
    .about("Frames received from a queue of the link, of any kind.")
    .read(|queue| Sample::count(queue.received));

static DROPPED: Metric<QueueReceived> = Metric::less("dropped_frames_total", "ring full", Show::Count)
    .about("Frames that found a queue's receive ring full.")
    .read(|queue| Sample::count(queue.receive_dropped));

impl Exposed for Received {
    /// Loss, order and latency are computed at the end.
    fn expose(&self, exposition: &mut Exposition) {
        for metric in [&FRAMES, &DROPPED] {
            let queues = self.queues.iter();
            let labelled = queues.map(|queue| (vec![("queue", queue.queue.to_string())], queue));
            exposition.add(PREFIX, metric, labelled);
        }
    }
}
