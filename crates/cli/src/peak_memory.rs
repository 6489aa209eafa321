//! Reads the peak of this process's resident memory.

/// Returns the peak so far in MiB; `None` if the system does not report it, as outside of Linux.
pub(crate) fn mib() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: f64 = line.trim().trim_end_matches(" kB").parse().ok()?;
    Some((100.0 * kib / 1024.0).round() / 100.0)
}
