//! Metrics in the text format of Prometheus: the lines before a metric, and a histogram of seconds with fixed buckets.

use std::fmt::Write;

/// The upper bounds of the buckets, in seconds; the last bucket is unbounded.
const BOUNDS: [f64; 15] = [
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0, 600.0,
];

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Histogram {
    counts: [u64; BOUNDS.len() + 1],
    sum: f64,
}

impl Histogram {
    pub(crate) fn add(&mut self, seconds: f64) {
        let bucket = BOUNDS.partition_point(|&bound| bound < seconds);
        self.counts[bucket] += 1;
        self.sum += seconds;
    }

    pub(crate) fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Returns the mean in seconds; 0 if the histogram is empty.
    pub(crate) fn mean(&self) -> f64 {
        self.sum / self.count().max(1) as f64
    }

    /// Writes the histogram in Prometheus' text format. `labels` is empty, or a list that ends with
    /// a comma, such as `route="score",`.
    pub(crate) fn write(&self, name: &str, labels: &str, out: &mut String) {
        // Buckets of Prometheus are cumulative.
        let mut below = 0;
        for (count, bound) in self.counts.iter().zip(BOUNDS) {
            below += count;
            let _ = writeln!(out, "{name}_bucket{{{labels}le=\"{bound}\"}} {below}");
        }
        let all = self.count();
        let _ = writeln!(out, "{name}_bucket{{{labels}le=\"+Inf\"}} {all}");
        let labels = labels.trim_end_matches(',');
        let labelled = |end: &str| match labels {
            "" => format!("{name}_{end}"),
            labels => format!("{name}_{end}{{{labels}}}"),
        };
        let _ = writeln!(out, "{} {}", labelled("sum"), self.sum);
        let _ = writeln!(out, "{} {all}", labelled("count"));
    }
}

/// Writes the lines HELP and TYPE of a metric of a kind.
pub(crate) fn head(out: &mut String, name: &str, help: &str, kind: &str) {
    let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_hold_what_is_at_or_below_their_bound() {
        let mut histogram = Histogram::default();
        for seconds in [0.001, 0.0011, 0.3, 700.0] {
            histogram.add(seconds);
        }
        let mut text = String::new();
        histogram.write("t", "route=\"a\",", &mut text);
        for line in [
            "t_bucket{route=\"a\",le=\"0.001\"} 1",
            "t_bucket{route=\"a\",le=\"0.0025\"} 2",
            "t_bucket{route=\"a\",le=\"0.5\"} 3",
            "t_bucket{route=\"a\",le=\"600\"} 3",
            "t_bucket{route=\"a\",le=\"+Inf\"} 4",
            "t_count{route=\"a\"} 4",
        ] {
            assert!(text.lines().any(|l| l == line), "{line} is not in\n{text}");
        }
        let mut plain = String::new();
        histogram.write("t", "", &mut plain);
        assert!(
            plain.contains("t_bucket{le=\"+Inf\"} 4\nt_sum 700.30"),
            "{plain}"
        );
        assert!(plain.ends_with("t_count 4\n"), "{plain}");
    }
}
