//! The receive path's counters of this machine, read through the parser of another room.

use std::error::Error;
use std::time::Duration;

use corelane_host::counters::Softnet;
use corelane_observe::softnet::{SoftnetReading, SoftnetReport, SoftnetWatch};

use crate::common::{alone, flood};

fn read() -> Result<Vec<SoftnetReading>, Box<dyn Error + Send + Sync>> {
    let table = Softnet::read()?;
    let readings = table.cpus.iter().map(|line| SoftnetReading {
        cpu: line.cpu,
        processed: line.counters.processed,
        dropped: line.counters.dropped,
        time_squeeze: line.counters.time_squeeze,
        received_rps: line.counters.received_rps,
        flow_limit: line.counters.flow_limit,
        backlog: line.backlog,
    });
    Ok(readings.collect())
}

#[test]
fn a_flood_is_processed_and_the_table_tells_on_which_cpus() {
    let _alone = alone();
    const DATAGRAMS: u32 = 20_000;
    let watch = SoftnetWatch::start(Duration::from_millis(10), read).unwrap();
    flood(DATAGRAMS);
    let report = watch.finish().unwrap();
    assert!(report.readings >= 2);
    let processed: u64 = report.cpus.iter().map(|cpu| cpu.processed).sum();
    let dropped: u64 = report.cpus.iter().map(|cpu| cpu.dropped).sum();
    assert!(processed + dropped >= u64::from(DATAGRAMS), "{report:?}");
    let table = report.table().render(100);
    assert_eq!(table.lines().count(), 1 + report.cpus.len(), "{table}");
    let text = serde_json::to_string(&report).unwrap();
    assert_eq!(serde_json::from_str::<SoftnetReport>(&text).unwrap(), report);
}
