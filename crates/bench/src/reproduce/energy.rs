//! Joules, where the processor counts them and this user may read it: RAPL in sysfs
//! (`Documentation/power/powercap/powercap.rst` of Linux).

use std::fs;
use std::path::{Path, PathBuf};

const POWERCAP: &str = "/sys/class/powercap";

/// The packages' counters.
#[derive(Debug)]
pub(super) struct Meter(Vec<Package>);

#[derive(Debug)]
struct Package {
    counter: PathBuf,
    /// Microjoules after which the counter begins anew.
    range: u64,
}

/// What the counters had counted.
#[derive(Clone, Debug)]
pub(super) struct Reading(Vec<u64>);

impl Meter {
    /// The counters of this machine; `None` where there are none, or they may not be read.
    pub(super) fn open() -> Option<Meter> {
        Meter::of(Path::new(POWERCAP))
    }

    fn of(powercap: &Path) -> Option<Meter> {
        let mut packages = Vec::new();
        for zone in fs::read_dir(powercap).ok()?.flatten() {
            // `intel-rapl:0` may be a package (of AMD's processors, too), `intel-rapl:0:0` a part.
            let name = zone.file_name();
            let number = name
                .to_str()
                .and_then(|name| name.strip_prefix("intel-rapl:"));
            if number.is_none_or(|number| number.contains(':')) {
                continue;
            }
            // `psys` is the whole machine, and has the packages in it.
            let name = fs::read_to_string(zone.path().join("name"));
            if !name.is_ok_and(|name| name.starts_with("package")) {
                continue;
            }
            packages.push(Package {
                counter: zone.path().join("energy_uj"),
                range: read(&zone.path().join("max_energy_range_uj"))?,
            });
        }
        let meter = Meter(packages);
        meter.read().filter(|reading| !reading.0.is_empty())?;
        Some(meter)
    }

    /// What they have counted now.
    pub(super) fn read(&self) -> Option<Reading> {
        let counters = self.0.iter().map(|package| read(&package.counter));
        counters.collect::<Option<_>>().map(Reading)
    }

    /// Joules from one reading to another, of all packages.
    pub(super) fn joules(&self, from: &Reading, to: &Reading) -> f64 {
        let ends = from.0.iter().zip(&to.0);
        let each = self.0.iter().zip(ends).map(|(package, (from, to))| {
            let again = if to < from { package.range } else { 0 };
            (to + again).saturating_sub(*from)
        });
        each.sum::<u64>() as f64 * 1e-6
    }
}

fn read(path: &Path) -> Option<u64> {
    fs::read_to_string(path).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_of_packages_are_added_and_go_round() {
        let folder = std::env::temp_dir().join(format!("rhythm-rapl-{}", std::process::id()));
        let set = |zone: &str, name: &str, energy: u64| {
            fs::create_dir_all(folder.join(zone)).unwrap();
            fs::write(folder.join(zone).join("name"), format!("{name}\n")).unwrap();
            fs::write(folder.join(zone).join("max_energy_range_uj"), "9000000\n").unwrap();
            fs::write(folder.join(zone).join("energy_uj"), format!("{energy}\n")).unwrap();
        };
        assert!(Meter::of(&folder).is_none());
        set("intel-rapl:0", "package-0", 8_000_000);
        set("intel-rapl:0:0", "core", 1);
        set("intel-rapl:1", "package-1", 1_000_000);
        set("intel-rapl:2", "psys", 0);
        let meter = Meter::of(&folder).unwrap();
        let from = meter.read().unwrap();
        set("intel-rapl:0", "package-0", 1_000_000);
        set("intel-rapl:1", "package-1", 1_500_000);
        set("intel-rapl:2", "psys", 7_000_000);
        let to = meter.read().unwrap();
        assert!((meter.joules(&from, &to) - 2.5).abs() < 1e-9);
        fs::remove_dir_all(&folder).unwrap();
    }
}
