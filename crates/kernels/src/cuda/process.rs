//! Remembers the process that started CUDA. The driver does not work in a process that is forked
//! later.

use std::sync::OnceLock;

use super::CudaError;

/// The process that started the driver; unset if no process has.
static STARTED: OnceLock<u32> = OnceLock::new();

/// Notes that this process has started the driver.
pub(super) fn started() {
    STARTED.get_or_init(std::process::id);
}

/// Refuses a process that was forked after the driver had started. The driver's own calls might
/// never return, or would fail for another reason.
///
/// # Errors
/// [`CudaError::Forked`]
pub fn check_process() -> Result<(), CudaError> {
    check(STARTED.get().copied(), std::process::id())
}

fn check(started: Option<u32>, now: u32) -> Result<(), CudaError> {
    match started {
        Some(process) if process != now => Err(CudaError::Forked {
            process: Some(process),
        }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_process_is_refused() {
        assert_eq!(check(None, 7), Ok(()));
        assert_eq!(check(Some(7), 7), Ok(()));
        let process = Some(7);
        let error = check(process, 8).unwrap_err();
        assert_eq!(error, CudaError::Forked { process });
        assert!(error.to_string().contains("process 7"), "{error}");
    }
}
