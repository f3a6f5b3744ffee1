//! Conditions from the machine's sensors: temperature, fans, throttling and power.
//!
//! Sources: hwmon (`hwmon/sysfs-interface.rst`), the throttle counters of x86 (`thermal_throttle`), and the energy
//! counters of RAPL (`power/powercap/powercap.rst`), which only root may read. Virtual machines have none of them.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::condition::{About, Condition, Severity};
use crate::HostError;
use crate::tree::Tree;

const HWMON: &str = "/sys/class/hwmon";
const POWERCAP: &str = "/sys/class/powercap";
const CPU_DIRECTORY: &str = "/sys/devices/system/cpu";

/// A CPU this close to its limit may throttle, in degrees Celsius.
const NEAR_LIMIT: f64 = 5.0;

/// The time over which a snapshot measures power.
const POWER_INTERVAL: Duration = Duration::from_millis(100);

/// A reading of the counters that grow while the machine runs.
#[derive(Clone, Debug)]
pub struct ThermalCounters {
    at: Instant,
    /// Throttle events of all CPUs since the machine started.
    throttled: Result<u64, String>,
    energy: Result<BTreeMap<String, Energy>, String>,
}

/// The energy counter of one RAPL domain, in microjoules. It wraps to 0 after `range`.
#[derive(Clone, Copy, Debug)]
struct Energy {
    used: u64,
    range: u64,
}

impl ThermalCounters {
    /// Reads the counters. What cannot be read is unknown in the conditions.
    #[must_use]
    pub fn read() -> Self {
        Self::read_in(&Tree::machine())
    }

    pub(super) fn read_in(tree: &Tree) -> Self {
        Self {
            at: Instant::now(),
            throttled: throttled(tree),
            energy: energy(tree),
        }
    }

    /// Throttling and power between an earlier reading and this one; unknown with the reason if the machine does not
    /// count them.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Vec<Condition> {
        let counts = (self.throttled.as_ref()).and_then(|later| Ok((later, earlier.throttled.as_ref()?)));
        let throttling = counts.map(|(later, earlier)| {
            let events = later.saturating_sub(*earlier);
            (format!("{events} events"), Severity::Spoils.when(events > 0))
        });
        let power = self.watts(earlier).map(|value| (value, Severity::Fine));
        vec![
            fine_if_unknown(about_throttling("throttling during").found(throttling)),
            fine_if_unknown(about_power("power during").found(power)),
        ]
    }

    /// Average power of each domain since an earlier reading.
    fn watts(&self, earlier: &Self) -> Result<String, String> {
        let (later, earlier_energy) = (self.energy.as_ref()?, earlier.energy.as_ref()?);
        let seconds = self.at.saturating_duration_since(earlier.at).as_secs_f64();
        let watts = later.iter().filter_map(|(domain, later)| {
            let earlier = earlier_energy.get(domain)?;
            let microjoules = match later.used.checked_sub(earlier.used) {
                Some(used) => used,
                None => (earlier.range - earlier.used.min(earlier.range)) + later.used,
            };
            Some(format!("{domain} {:.1} W", microjoules as f64 / 1e6 / seconds))
        });
        let watts: Vec<String> = watts.collect();
        match watts.is_empty() {
            true => Err("no RAPL domain was readable both before and after".to_owned()),
            false => Ok(watts.join(", ")),
        }
    }
}

/// The conditions now. Temperature, fan and power are fine where they are unknown: if the processor slows down for one
/// of them, it throttles.
pub(super) fn conditions(tree: &Tree) -> Vec<Condition> {
    let chips = chips(tree);
    let throttling = throttled(tree).map(|events| {
        let value = format!("{events} events since the machine started");
        (value, Severity::Explains.when(events > 0))
    });
    vec![
        fine_if_unknown(temperature(&chips)),
        fine_if_unknown(fan(&chips)),
        about_throttling("throttling").found(throttling),
        fine_if_unknown(about_power("power").found(power(tree, &chips).map(|value| (value, Severity::Fine)))),
    ]
}

fn fine_if_unknown(mut condition: Condition) -> Condition {
    if condition.value.is_none() {
        condition.severity = Severity::Fine;
    }
    condition
}

fn about_throttling(name: &str) -> About<'_> {
    About {
        name,
        source: "/sys/devices/system/cpu/cpu*/thermal_throttle/*_throttle_count",
        why: "a processor that is too hot lowers its clock rate",
        fix: "improve the cooling, or set a lower fixed clock rate",
    }
}

fn about_power(name: &str) -> About<'_> {
    About {
        name,
        source: "/sys/class/powercap/intel-rapl*/energy_uj, /sys/class/hwmon/hwmon*/power*",
        why: "at its power limit a processor lowers the clock rate of all its CPUs",
        fix: "",
    }
}

/// One sensor of a chip: its label and its files by suffix, such as `input` and `crit`.
struct Sensor {
    kind: &'static str,
    name: String,
    values: BTreeMap<String, i64>,
}

/// The sensors of all chips, or the reason why there is none.
fn chips(tree: &Tree) -> Result<Vec<Sensor>, String> {
    let mut sensors = Vec::new();
    for chip in tree.names(HWMON).unwrap_or_default() {
        let directory = format!("{HWMON}/{chip}");
        let chip = tree.text(&format!("{directory}/name")).unwrap_or(chip);
        let files = tree.names(&directory).unwrap_or_default();
        let mut found: BTreeMap<&str, Sensor> = BTreeMap::new();
        for (sensor, suffix) in files.iter().filter_map(|file| file.split_once('_')) {
            let Some(kind) = (["temp", "fan", "power"].into_iter()).find(|kind| {
                sensor
                    .strip_prefix(kind)
                    .is_some_and(|rest| rest.parse::<u32>().is_ok())
            }) else {
                continue;
            };
            let entry = found.entry(sensor).or_insert_with(|| {
                let label = tree.text(&format!("{directory}/{sensor}_label"));
                let label = label.unwrap_or_else(|_| sensor.to_owned());
                let name = format!("{chip} {label}");
                let values = BTreeMap::new();
                Sensor { kind, name, values }
            });
            if let Ok(value) = tree.value(&format!("{directory}/{sensor}_{suffix}"), "a number") {
                entry.values.insert(suffix.to_owned(), value);
            }
        }
        sensors.extend(found.into_values());
    }
    match sensors.is_empty() {
        true => Err(format!(
            "no chip with sensors under {HWMON}; a virtual machine has none"
        )),
        false => Ok(sensors),
    }
}

/// The sensors of a kind that have a reading, with the reading.
fn readings<'a>(
    chips: &'a Result<Vec<Sensor>, String>,
    kind: &'static str,
    files: &'a [&str],
) -> Result<Vec<(&'a Sensor, i64)>, String> {
    let sensors = chips.as_ref()?.iter().filter(|sensor| sensor.kind == kind);
    let found: Vec<_> = sensors
        .filter_map(|sensor| Some((sensor, *files.iter().find_map(|file| sensor.values.get(*file))?)))
        .collect();
    match found.is_empty() {
        true => Err(format!("no chip under {HWMON} has {kind}*_{}", files[0])),
        false => Ok(found),
    }
}

/// The sensor nearest to its limit; if none has a limit, the hottest.
fn temperature(chips: &Result<Vec<Sensor>, String>) -> Condition {
    let degrees = |millidegrees: i64| millidegrees as f64 / 1000.0;
    let found = readings(chips, "temp", &["input"]).map(|found| {
        // A chip without a limit reports none, or 0.
        let limit = |sensor: &Sensor| {
            let limits = ["crit", "max"].iter().filter_map(|file| sensor.values.get(*file));
            limits.copied().find(|limit| *limit > 0)
        };
        let nearest = found
            .into_iter()
            .min_by_key(|(sensor, input)| match limit(sensor) {
                Some(limit) => (0, limit - input),
                None => (1, -input),
            });
        let (sensor, input) = nearest.expect("readings are never empty");
        let (input, limit) = (degrees(input), limit(sensor).map(degrees));
        let near = limit.is_some_and(|limit| input > limit - NEAR_LIMIT);
        let limit = limit.map_or_else(String::new, |limit| format!(", limit {limit:.0} °C"));
        let value = format!("{}: {input:.1} °C{limit}", sensor.name);
        (value, Severity::Explains.when(near))
    });
    About {
        name: "temperature",
        source: "/sys/class/hwmon/hwmon*/temp*_input",
        why: "near its limit a processor lowers its clock rate",
        fix: "improve the cooling, or wait until the machine has cooled down",
    }
    .found(found)
}

fn fan(chips: &Result<Vec<Sensor>, String>) -> Condition {
    let found = readings(chips, "fan", &["input"]).map(|found| {
        let failed = |sensor: &Sensor| {
            ["alarm", "fault"]
                .iter()
                .any(|file| sensor.values.get(*file) == Some(&1))
        };
        let value = found
            .iter()
            .map(|(sensor, speed)| format!("{} {speed} rpm", sensor.name));
        let alarm = found.iter().any(|(sensor, _)| failed(sensor));
        (
            value.collect::<Vec<_>>().join(", "),
            Severity::Explains.when(alarm),
        )
    });
    About {
        name: "fan",
        source: "/sys/class/hwmon/hwmon*/fan*_input",
        why: "a fan that is too slow or has failed lets the processor become hot",
        fix: "check the fan: its alarm or fault is set",
    }
    .found(found)
}

/// Power of the RAPL domains over [`POWER_INTERVAL`]; otherwise what hwmon shows.
fn power(tree: &Tree, chips: &Result<Vec<Sensor>, String>) -> Result<String, String> {
    let begun = ThermalCounters::read_in(tree);
    let because = match &begun.energy {
        Ok(_) => {
            std::thread::sleep(POWER_INTERVAL);
            return ThermalCounters::read_in(tree).watts(&begun);
        }
        Err(because) => because,
    };
    let found = readings(chips, "power", &["input", "average"]).map_err(|_| because.clone())?;
    let watts = found.iter().map(|(sensor, microwatts)| {
        let watts = *microwatts as f64 / 1e6;
        format!("{} {watts:.1} W", sensor.name)
    });
    Ok(watts.collect::<Vec<_>>().join(", "))
}

/// Throttle events of all CPUs. Each core counts its own, and each package counts once for all its CPUs.
fn throttled(tree: &Tree) -> Result<u64, String> {
    let cpus = tree.numbers(CPU_DIRECTORY, "cpu");
    // By the kind of the counter, the package and the core.
    let mut events: BTreeMap<(&str, Option<i64>, Option<i64>), u64> = BTreeMap::new();
    for cpu in cpus.map_err(|error| error.to_string())? {
        let directory = format!("{CPU_DIRECTORY}/cpu{cpu}");
        let id = |what: &str| {
            tree.value(&format!("{directory}/topology/{what}_id"), "a number")
                .ok()
        };
        let package = id("physical_package");
        for (kind, core) in [("core", id("core")), ("package", None)] {
            let file = format!("{directory}/thermal_throttle/{kind}_throttle_count");
            if let Ok(count) = tree.value::<u64>(&file, "a count") {
                let known = events.entry((kind, package, core)).or_default();
                *known = count.max(*known);
            }
        }
    }
    match events.is_empty() {
        true => Err("no CPU counts it (thermal_throttle); under a hypervisor the host decides".to_owned()),
        false => Ok(events.into_values().sum()),
    }
}

/// The energy counters by domain, such as `package-0` and `package-0 dram`.
fn energy(tree: &Tree) -> Result<BTreeMap<String, Energy>, String> {
    let zones = tree.names(POWERCAP).unwrap_or_default();
    let zones: Vec<&String> = zones
        .iter()
        .filter(|zone| zone.starts_with("intel-rapl:"))
        .collect();
    if zones.is_empty() {
        return Err(format!(
            "no RAPL domain under {POWERCAP}; a virtual machine has none"
        ));
    }
    let name = |zone: &str| tree.text(&format!("{POWERCAP}/{zone}/name"));
    let read = |zone: &str| -> Result<(String, Energy), HostError> {
        let count = |file: &str| tree.value(&format!("{POWERCAP}/{zone}/{file}"), "a number of microjoules");
        let used = count("energy_uj")?;
        let range = count("max_energy_range_uj")?;
        // A subdomain is intel-rapl:P:S below intel-rapl:P.
        let domain = match zone.rsplit_once(':') {
            Some((parent, _)) if parent.contains(':') => format!("{} {}", name(parent)?, name(zone)?),
            _ => name(zone)?,
        };
        Ok((domain, Energy { used, range }))
    };
    let (mut energies, mut unread) = (BTreeMap::new(), None);
    for zone in zones {
        match read(zone) {
            Ok((domain, energy)) => drop(energies.insert(domain, energy)),
            Err(error) => drop(unread.get_or_insert(error.to_string())),
        }
    }
    match unread.filter(|_| energies.is_empty()) {
        Some(because) => Err(because),
        None => Ok(energies),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::recorded::Recorded;

    /// Two hyperthreads of one core with sensors; the package domain counts `energy` microjoules.
    fn server(energy: u64, throttled: u64) -> Recorded {
        let throttled = throttled.to_string();
        let energy = energy.to_string();
        let rapl = "/sys/class/powercap/intel-rapl:0";
        let mut files = vec![
            ("/sys/class/hwmon/hwmon0/name".to_owned(), "coretemp"),
            ("/sys/class/hwmon/hwmon0/temp1_input".to_owned(), "61000"),
            ("/sys/class/hwmon/hwmon0/temp1_label".to_owned(), "Package id 0"),
            ("/sys/class/hwmon/hwmon0/temp1_crit".to_owned(), "100000"),
            ("/sys/class/hwmon/hwmon0/temp2_input".to_owned(), "58000"),
            ("/sys/class/hwmon/hwmon1/name".to_owned(), "nct6775"),
            ("/sys/class/hwmon/hwmon1/fan1_input".to_owned(), "1250"),
            ("/sys/class/hwmon/hwmon1/fan2_input".to_owned(), "0"),
            (format!("{rapl}/name"), "package-0"),
            (format!("{rapl}/energy_uj"), &energy),
            (format!("{rapl}/max_energy_range_uj"), "1000"),
            (format!("{rapl}:1/name"), "dram"),
            (format!("{rapl}:1/energy_uj"), "7"),
            (format!("{rapl}:1/max_energy_range_uj"), "1000"),
        ];
        for cpu in 0..2 {
            let of_cpu = format!("{CPU_DIRECTORY}/cpu{cpu}");
            files.push((format!("{of_cpu}/topology/core_id"), "0"));
            files.push((format!("{of_cpu}/topology/physical_package_id"), "0"));
            files.push((
                format!("{of_cpu}/thermal_throttle/core_throttle_count"),
                &throttled,
            ));
            files.push((format!("{of_cpu}/thermal_throttle/package_throttle_count"), "0"));
        }
        Recorded::new(files)
    }

    fn values(conditions: &[Condition]) -> Vec<(&str, Option<&str>, Severity)> {
        let values = conditions.iter();
        values
            .map(|one| (one.name.as_str(), one.value.as_deref(), one.severity))
            .collect()
    }

    #[test]
    fn each_sensor_is_read_and_a_core_is_counted_once() {
        assert_eq!(
            values(&conditions(&server(500, 3).tree())),
            [
                (
                    "temperature",
                    Some("coretemp Package id 0: 61.0 °C, limit 100 °C"),
                    Severity::Fine
                ),
                (
                    "fan",
                    Some("nct6775 fan1 1250 rpm, nct6775 fan2 0 rpm"),
                    Severity::Fine
                ),
                (
                    "throttling",
                    Some("3 events since the machine started"),
                    Severity::Explains
                ),
                (
                    "power",
                    Some("package-0 0.0 W, package-0 dram 0.0 W"),
                    Severity::Fine
                ),
            ]
        );
    }

    #[test]
    fn heat_near_the_limit_and_a_failed_fan_explain() {
        let machine = server(0, 0);
        machine.write("/sys/class/hwmon/hwmon0/temp2_input", "96000");
        machine.write("/sys/class/hwmon/hwmon0/temp2_max", "100000");
        // An input that nothing is connected to.
        machine.write("/sys/class/hwmon/hwmon1/temp1_input", "127000");
        machine.write("/sys/class/hwmon/hwmon1/fan2_alarm", "1");
        let conditions = conditions(&machine.tree());
        assert_eq!(
            values(&conditions)[..2],
            [
                (
                    "temperature",
                    Some("coretemp temp2: 96.0 °C, limit 100 °C"),
                    Severity::Explains
                ),
                (
                    "fan",
                    Some("nct6775 fan1 1250 rpm, nct6775 fan2 0 rpm"),
                    Severity::Explains
                ),
            ]
        );
    }

    #[test]
    fn throttling_during_a_run_spoils_it_and_power_is_averaged_over_the_wrap_of_its_counter() {
        let begun = ThermalCounters::read_in(&server(900, 3).tree());
        let mut ended = ThermalCounters::read_in(&server(400, 5).tree());
        // 100 up to the range, and 400 after it, in 10 microseconds.
        ended.at = begun.at + Duration::from_micros(10);
        assert_eq!(
            values(&ended.since(&begun)),
            [
                ("throttling during", Some("2 events"), Severity::Spoils),
                (
                    "power during",
                    Some("package-0 50.0 W, package-0 dram 0.0 W"),
                    Severity::Fine
                ),
            ]
        );
    }

    #[test]
    fn without_sensors_each_condition_has_a_reason_at_one_time_and_over_an_interval() {
        let machine = Recorded::new([("/sys/devices/system/cpu/cpu0/topology/core_id", "0")]);
        let conditions = conditions(&machine.tree());
        assert_eq!(conditions.len(), 4);
        let reading = ThermalCounters::read_in(&machine.tree());
        let during = reading.since(&reading);
        assert_eq!(during.len(), 2);
        for condition in conditions.iter().chain(&during) {
            assert_eq!(condition.value, None);
            assert!(condition.unknown_because.is_some(), "{condition:?}");
        }
    }

    #[test]
    fn power_of_no_common_domain_is_unknown() {
        let begun = ThermalCounters::read_in(&server(900, 3).tree());
        let ended = ThermalCounters {
            energy: Ok(BTreeMap::new()),
            ..begun.clone()
        };
        let power = ended.since(&begun).pop().unwrap();
        assert_eq!(power.value, None);
        assert!(power.unknown_because.unwrap().contains("both before and after"));
    }

    #[test]
    fn a_counter_that_may_not_be_read_names_its_file() {
        let machine = server(0, 0);
        machine.write("/sys/class/powercap/intel-rapl:0:1/max_energy_range_uj", "none");
        let power = conditions(&machine.tree()).pop().unwrap();
        assert_eq!(power.value.as_deref(), Some("package-0 0.0 W"));
        machine.write("/sys/class/powercap/intel-rapl:0/energy_uj", "none");
        let power = conditions(&machine.tree()).pop().unwrap();
        let because = power.unknown_because.unwrap();
        assert!(because.contains("intel-rapl:0/energy_uj"), "{because}");
    }
}
