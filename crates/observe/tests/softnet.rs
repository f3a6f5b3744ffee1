//! This machine's counters of the receive path, read through the parser of the crate `host`.

use std::time::Duration;

use corelane_observe::softnet::{SoftnetReport, SoftnetWatch};

use crate::common::{alone, flood};

#[test]
fn a_flood_is_processed_and_the_rows_tell_on_which_cpus() {
    const DATAGRAMS: u32 = 20_000;
    let _alone = alone();
    let watch = SoftnetWatch::start(Duration::from_millis(10)).unwrap();
    flood(DATAGRAMS);
    let report = watch.finish().unwrap();
    assert!(report.readings >= 2);
    let processed: u64 = report.rows.iter().map(|cpu| cpu.processed).sum();
    let dropped: u64 = report.rows.iter().map(|cpu| cpu.dropped).sum();
    assert!(processed + dropped >= u64::from(DATAGRAMS), "{report:?}");
    let text = serde_json::to_string(&report).unwrap();
    assert_eq!(serde_json::from_str::<SoftnetReport>(&text).unwrap(), report);
}
