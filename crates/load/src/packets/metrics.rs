//! The metrics of a running packet generator.

use crate::report::number;
use corelane_measure::metric::{Metric, Show};

pub(super) static WORKER: [Metric<u64>; 1] = [Metric::more("sent_frames_total", "sent", Show::Count)
    .about("Frames that the link accepted.")
    .read(|sent| number(*sent))];
