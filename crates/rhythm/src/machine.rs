//! What a report was made on.

/// The CPU, its cores and the kernel, as far as the system says.
pub(crate) fn describe() -> String {
    let read = |path| std::fs::read_to_string(path).unwrap_or_default();
    let cpus = read("/proc/cpuinfo");
    let model = cpus
        .lines()
        .find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    let kernel = read("/proc/sys/kernel/osrelease");
    let model = model.map_or("an unknown CPU", |(_, name)| name);
    format!("{model}, {cores} cores, Linux {}", kernel.trim())
}
