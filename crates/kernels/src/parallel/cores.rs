//! Counts the physical cores that the process may use.

use std::collections::BTreeSet;
use std::num::NonZero;

/// The number of physical cores that the process may use; the number of CPUs if the system does not
/// list which CPUs share a core.
pub(super) fn physical_cores() -> usize {
    // `available_parallelism` respects quotas and affinity, but it counts both hardware threads of
    // a core.
    let cpus = std::thread::available_parallelism().map_or(1, NonZero::get);
    let read = |path: &str| std::fs::read_to_string(path).ok();
    let cores = read("/proc/self/status").and_then(|status| {
        cores(&status, |cpu| {
            read(&format!(
                "/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list"
            ))
        })
    });
    cores.map_or(cpus, |cores| cores.clamp(1, cpus))
}

/// Counts the groups of sibling CPUs among those that `status` (of `/proc/self`) allows. Returns
/// `None` if `status` or the siblings are missing or malformed.
fn cores(status: &str, siblings: impl Fn(usize) -> Option<String>) -> Option<usize> {
    let allowed = status
        .lines()
        .find_map(|line| line.strip_prefix("Cpus_allowed_list:"))?;
    let groups = list(allowed)?.into_iter().map(siblings);
    Some(groups.collect::<Option<BTreeSet<_>>>()?.len())
}

/// The numbers of a list like `0-3,8`.
fn list(text: &str) -> Option<Vec<usize>> {
    let mut all = Vec::new();
    for part in text.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (usize, usize) = (first.parse().ok()?, last.parse().ok()?);
        // No kernel has more CPUs, and a malformed range must not exhaust the memory.
        if last > 1 << 16 {
            return None;
        }
        all.extend(first..=last);
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hardware_threads_of_a_core_count_once() {
        fn count(allowed: &str) -> Option<usize> {
            cores(&format!("Name:\tx\n{allowed}\n"), |cpu| {
                Some(format!("{},{}\n", cpu % 4, cpu % 4 + 4))
            })
        }
        assert_eq!(count("Cpus_allowed_list:\t0-7"), Some(4));
        assert_eq!(count("Cpus_allowed_list:\t0,4"), Some(1));
        assert_eq!(count("Cpus_allowed_list:\t1-2,5,7"), Some(3));
        assert_eq!(count("Cpus_allowed_list:\t0-x"), None);
        assert_eq!(count("Cpus_allowed_list:\t0-99999999999"), None);
        assert_eq!(count("Cpus_allowed:\tff"), None);
        assert_eq!(cores("Cpus_allowed_list:\t0-1", |_| None), None);
        assert!(physical_cores() >= 1);
    }
}
