//! The server's metrics in Prometheus' text format. Labels come from fixed lists, so they contain
//! no text of a request and stay few.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use beamgen::{ProblemResult, Service};

use crate::histogram::{Histogram, head};
use crate::monitor::Monitor;
use crate::spent;

#[derive(Debug, Default)]
pub(crate) struct Metrics {
    pub connections: AtomicUsize,
    pub missed_events: AtomicU64,
    pub scored_steps: AtomicU64,
    pub monitor: Monitor,
    unsound: AtomicU64,
    counted: Mutex<Counted>,
}

#[derive(Debug, Default)]
struct Counted {
    requests: BTreeMap<(&'static str, u16), u64>,
    refused: BTreeMap<&'static str, u64>,
    ignored: BTreeMap<&'static str, u64>,
    stopped: BTreeMap<&'static str, u64>,
    seconds: BTreeMap<&'static str, Histogram>,
    searches: Histogram,
    queue: Histogram,
}

impl Metrics {
    /// Makes metrics that are all 0.
    pub(crate) fn of(monitor: Monitor) -> Self {
        Self {
            monitor,
            ..Self::default()
        }
    }

    fn lock(&self) -> MutexGuard<'_, Counted> {
        self.counted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts an answered request and its duration.
    pub(crate) fn request(&self, route: &'static str, status: u16, seconds: f64) {
        let mut counted = self.lock();
        *counted.requests.entry((route, status)).or_default() += 1;
        counted.seconds.entry(route).or_default().add(seconds);
    }

    pub(crate) fn refused(&self, code: &'static str) {
        *self.lock().refused.entry(code).or_default() += 1;
    }

    /// Counts a field of a request that has no effect.
    pub(crate) fn ignored(&self, field: &'static str) {
        *self.lock().ignored.entry(field).or_default() += 1;
    }

    /// Counts a search that ended early, by a deadline or a cancellation.
    pub(crate) fn stopped(&self, reason: &'static str) {
        *self.lock().stopped.entry(reason).or_default() += 1;
    }

    /// Counts a finished search. `seconds` is the time since its request was accepted, including
    /// the wait in the queue.
    pub(crate) fn searched(&self, result: &ProblemResult, seconds: f64) {
        spent::count(&result.ledger);
        let mut counted = self.lock();
        counted.searches.add(result.elapsed);
        // Two clocks measure the times, and the search may start before the request's clock, so the
        // difference may be negative.
        counted.queue.add((seconds - result.elapsed).max(0.0));
        drop(counted);
        let unsound = u64::from(result.unsound.is_some());
        self.unsound.fetch_add(unsound, Ordering::Relaxed);
        let scored = result.tree.nodes().filter(|(_, node)| node.score.is_some());
        self.scored_steps
            .fetch_add(scored.count() as u64, Ordering::Relaxed);
    }

    /// Returns an estimate of the seconds until the queue has room, from 1 to 60, for the header
    /// Retry-After.
    pub(crate) fn seconds_to_wait(&self, service: &Service) -> u64 {
        // Before the first search ends, the mean is 0, which gives 1 second.
        let at_work = service.stats().in_flight.max(1) as f64;
        let seconds = self.lock().searches.mean() * service.waiting() as f64 / at_work;
        seconds.ceil().clamp(1.0, 60.0) as u64
    }

    /// Returns all metrics in Prometheus' text format.
    pub(crate) fn text(&self, service: &Service) -> String {
        let (stats, mut out) = (service.stats(), String::new());
        let ledger = stats.ledger;
        for (name, help, value) in [
            (
                "beamgen_queue_waiting",
                "requests in the queue",
                service.waiting() as u64,
            ),
            (
                "beamgen_in_flight",
                "running problems",
                stats.in_flight as u64,
            ),
            (
                "beamgen_connections",
                "open connections",
                self.connections.load(Ordering::Relaxed) as u64,
            ),
            (
                "beamgen_cache_bytes",
                "KV cache of running chains",
                stats.cache_bytes,
            ),
            (
                "beamgen_prompt_tokens_total",
                "prompt tokens read",
                ledger.prompt_tokens,
            ),
            (
                "beamgen_generated_tokens_total",
                "tokens sampled",
                ledger.generated_tokens,
            ),
            (
                "beamgen_scored_tokens_total",
                "tokens read by the reward model",
                ledger.scored_tokens,
            ),
            (
                "beamgen_scored_steps_total",
                "steps with a score in finished searches",
                self.scored_steps.load(Ordering::Relaxed),
            ),
            (
                "beamgen_forward_passes_total",
                "passes of the generator",
                ledger.forward_passes,
            ),
            (
                "beamgen_generate_flops_total",
                "floating-point operations of the generator",
                ledger.flops.generate,
            ),
            (
                "beamgen_score_flops_total",
                "floating-point operations of the scorer",
                ledger.flops.score,
            ),
            (
                "beamgen_executed_flops_total",
                "floating-point operations that the models ran, as far as known",
                ledger.executed.sum(),
            ),
            (
                "beamgen_least_flops_total",
                "the fewest floating-point operations for each request alone, as far as known",
                ledger.least.sum(),
            ),
            (
                "beamgen_rounds_total",
                "steps after which chains of finished searches continued",
                ledger.width.rounds,
            ),
            (
                "beamgen_continued_chains_total",
                "different chains that continued after these steps",
                ledger.width.chains,
            ),
            (
                "beamgen_unsound_total",
                "answers, given or withheld, whose chain is unsound",
                self.unsound.load(Ordering::Relaxed),
            ),
            (
                "beamgen_lost_verdicts_total",
                "verdicts that checker commands did not give",
                stats.lost_verdicts,
            ),
            (
                "beamgen_events_missed_total",
                "events dropped because their reader was slow",
                self.missed_events.load(Ordering::Relaxed),
            ),
        ] {
            head_of(&mut out, name, help);
            let _ = writeln!(out, "{name} {value}");
        }
        self.lock().write(&mut out);
        self.monitor.write(&mut out);
        out
    }
}

/// Writes the lines HELP and TYPE of a metric. By Prometheus' convention, the end of the name gives
/// the type.
fn head_of(out: &mut String, name: &str, help: &str) {
    let kind = if name.ends_with("_total") {
        "counter"
    } else if name.ends_with("_seconds") {
        "histogram"
    } else {
        "gauge"
    };
    head(out, name, help, kind);
}

impl Counted {
    fn write(&self, out: &mut String) {
        let name = "beamgen_requests_total";
        head_of(out, name, "requests answered");
        for ((route, status), count) in &self.requests {
            let _ = writeln!(
                out,
                "{name}{{route=\"{route}\",status=\"{status}\"}} {count}"
            );
        }
        for (name, help, label, counts) in [
            (
                "beamgen_rejected_total",
                "requests refused",
                "code",
                &self.refused,
            ),
            (
                "beamgen_ignored_fields_total",
                "fields of requests that had no effect",
                "field",
                &self.ignored,
            ),
            (
                "beamgen_stopped_total",
                "searches ended before they were done",
                "reason",
                &self.stopped,
            ),
        ] {
            head_of(out, name, help);
            for (value, count) in counts {
                let _ = writeln!(out, "{name}{{{label}=\"{value}\"}} {count}");
            }
        }
        let name = "beamgen_request_seconds";
        head_of(out, name, "from a request to the end of its answer");
        for (route, histogram) in &self.seconds {
            histogram.write(name, &format!("route=\"{route}\","), out);
        }
        for (name, help, histogram) in [
            (
                "beamgen_search_seconds",
                "of a search, from its beginning",
                &self.searches,
            ),
            (
                "beamgen_queue_seconds",
                "of a request in the queue",
                &self.queue,
            ),
        ] {
            head_of(out, name, help);
            histogram.write(name, "", out);
        }
    }
}
