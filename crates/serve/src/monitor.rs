//! Watches the answers of each preset: profiles without texts, their drift from a reference, and searches repeated
//! without the reward model.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::sync::{Mutex, MutexGuard, PoisonError};

use beamgen::eval::Record;
use beamgen::eval::profile::{Drift, FLAGS, Profile, QUANTITIES};
use beamgen::{Choose, ProblemResult, Request, StrategyKind};

use crate::histogram::head;

/// The number of searches after which a window begins. Drift is that of the last one to two windows.
const WINDOW: u64 = 500;

/// Returns a statistic of a drift, or its bound.
type Statistic = fn(&Drift) -> f64;

/// The profiles of the answers of each preset, and the profiles to compare them with.
#[derive(Debug, Default)]
pub(crate) struct Monitor {
    /// The profiles to compare with, by preset.
    references: BTreeMap<String, Profile>,
    /// The share of searches to repeat without the reward model.
    shadow_share: f64,
    watched: Mutex<BTreeMap<String, Watched>>,
}

#[derive(Debug, Default)]
struct Watched {
    all: Profile,
    /// The window that is being filled, and the one before.
    windows: [Profile; 2],
    /// The part of the next search to repeat; it is repeated when this reaches 1.
    due: f64,
    repeated: u64,
    differ: u64,
}

impl Monitor {
    pub(crate) fn new(references: BTreeMap<String, Profile>, shadow_share: f64) -> Self {
        Self {
            references,
            shadow_share,
            watched: Mutex::default(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Watched>> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a search that ended by itself. Returns whether it is to be repeated without the reward model.
    pub(crate) fn searched(&self, model: &str, result: &ProblemResult) -> bool {
        let record = Record::new(result, false);
        let mut watched = self.lock();
        let of_model = watched.entry(model.to_owned()).or_default();
        of_model.all.add(&record);
        if of_model.windows[0].searches == WINDOW {
            of_model.windows.swap(0, 1);
            of_model.windows[0] = Profile::default();
        }
        of_model.windows[0].add(&record);
        if record.answer.is_none() || record.score.is_none() {
            return false;
        }
        of_model.due += self.shadow_share;
        let is_due = of_model.due >= 1.0;
        of_model.due -= f64::from(u8::from(is_due));
        is_due
    }

    /// Counts a repeated search.
    pub(crate) fn repeated(&self, model: &str, differs: bool) {
        let mut watched = self.lock();
        let of_model = watched.entry(model.to_owned()).or_default();
        of_model.repeated += 1;
        of_model.differ += u64::from(differs);
    }

    /// Returns the search to repeat without the reward model: as many sampled chains, and a vote. `None` if nothing
    /// is ever repeated, or if the search uses no scores.
    pub(crate) fn without_scores(&self, request: &Request) -> Option<Request> {
        if self.shadow_share <= 0.0 || !request.settings.search.uses_scores() {
            return None;
        }
        let mut settings = request.settings.clone();
        let search = &mut settings.search;
        search.strategy = StrategyKind::BEST_OF_N;
        search.choose = Some(Choose::Majority);
        (search.beam, search.rollouts) = (None, None);
        (search.threshold, search.confidence, search.sure_score) = (0.0, 0.0, 0.0);
        (search.early_rejection, search.speculate) = (0, false);
        (search.outcome_scores, search.stop_when_verified) = (false, false);
        Some(Request::new(request.problem.clone(), settings))
    }

    /// Writes the metrics in Prometheus' text format.
    pub(crate) fn write(&self, out: &mut String) {
        let watched = self.lock();
        let of_all = |out: &mut String, name: &str, help: &str, value: fn(&Watched) -> u64| {
            head(out, name, help, "counter");
            for (model, of_model) in &*watched {
                let _ = writeln!(out, "{name}{{model={}}} {}", quoted(model), value(of_model));
            }
        };
        of_all(
            out,
            "beamgen_answers_total",
            "searches that ended by themselves",
            |of| of.all.searches,
        );
        of_all(
            out,
            "beamgen_shadow_total",
            "searches repeated without the reward model",
            |of| of.repeated,
        );
        of_all(
            out,
            "beamgen_shadow_differs_total",
            "repeated searches whose answer differs",
            |of| of.differ,
        );
        let name = "beamgen_answer_flags_total";
        head(out, name, "searches with a property", "counter");
        for (model, of_model) in &*watched {
            for flag in FLAGS {
                let count = of_model.all.flags.get(flag.name).copied().unwrap_or(0);
                let _ = writeln!(
                    out,
                    "{name}{{model={},flag=\"{}\"}} {count}",
                    quoted(model),
                    flag.name
                );
            }
        }
        for quantity in QUANTITIES {
            let name = format!("beamgen_answer_{}", quantity.name);
            head(out, &name, quantity.help, "histogram");
            for (model, of_model) in &*watched {
                let model = quoted(model);
                let mut below = 0;
                let bounds = quantity.bounds.iter().map(f64::to_string);
                let bounds = bounds.chain(["+Inf".to_owned()]);
                for (count, bound) in of_model.all.counts(quantity).iter().zip(bounds) {
                    below += count;
                    let _ = writeln!(out, "{name}_bucket{{model={model},le=\"{bound}\"}} {below}");
                }
                let _ = writeln!(
                    out,
                    "{name}_sum{{model={model}}} {}",
                    of_model.all.sum(quantity)
                );
                let _ = writeln!(out, "{name}_count{{model={model}}} {below}");
            }
        }
        self.write_drift(&watched, out);
    }

    fn write_drift(&self, watched: &BTreeMap<String, Watched>, out: &mut String) {
        let mut drifts = Vec::new();
        for (model, reference) in &self.references {
            let Some(of_model) = watched.get(model) else {
                continue;
            };
            let mut recent = of_model.windows[0].clone();
            recent.merge(&of_model.windows[1]);
            let of_recent = recent.drift_from(reference).into_iter();
            drifts.extend(of_recent.map(|drift| (quoted(model), drift)));
        }
        let values: [(&str, &str, Statistic); 5] = [
            (
                "beamgen_drift_psi",
                "population stability index against the reference",
                |of| of.psi,
            ),
            ("beamgen_drift_psi_bound", "bound of the index", |of| {
                of.psi_bound
            }),
            (
                "beamgen_drift_ks",
                "Kolmogorov-Smirnov statistic against the reference",
                |of| of.ks,
            ),
            ("beamgen_drift_ks_bound", "bound of the statistic", |of| {
                of.ks_bound
            }),
            (
                "beamgen_drift_alarm",
                "1 if the index or the statistic exceeds its bound",
                |of| f64::from(u8::from(of.is_alarm())),
            ),
        ];
        for (name, help, value) in values {
            head(out, name, help, "gauge");
            for (model, drift) in &drifts {
                let _ = writeln!(
                    out,
                    "{name}{{model={model},quantity=\"{}\"}} {}",
                    drift.name,
                    value(drift)
                );
            }
        }
    }
}

/// Returns a text as the value of a label.
fn quoted(text: &str) -> String {
    let escaped = text.replace('\\', "\\\\").replace('"', "\\\"");
    format!("\"{}\"", escaped.replace('\n', "\\n"))
}
