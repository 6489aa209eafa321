//! The most memory that the process had.

/// Most memory that was resident so far, in MiB, where the system says it.
pub(crate) fn mib() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: f64 = line.trim().trim_end_matches(" kB").parse().ok()?;
    Some((100.0 * kib / 1024.0).round() / 100.0)
}
