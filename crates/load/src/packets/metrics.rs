//! The metrics of a running packet generator.

use crate::metrics::failures;
use corelane_measure::metric::{Metric, Sample, Show};

pub(super) static WORKER: [Metric<u64>; 1] = [Metric::more("sent_frames_total", "sent", Show::Count)
    .about("Frames that the link accepted.")
    .read(|sent| Sample::count(*sent))];

pub(super) static FAILURES: Metric<u64> = failures().about("Frames not sent, by cause.");
