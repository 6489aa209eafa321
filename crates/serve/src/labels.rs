//! Names of paths in metrics and logs, from a fixed list: a client cannot create new labels.

const LABELS: [(&str, &str); 11] = [
    ("/", "page"),
    ("/health", "health"),
    ("/metrics", "metrics"),
    ("/ready", "ready"),
    ("/v1/chat/completions", "chat"),
    ("/v1/completions", "completions"),
    ("/v1/guard", "guard"),
    ("/v1/models", "models"),
    ("/v1/problems", "problems"),
    ("/v1/refine", "refine"),
    ("/v1/score", "score"),
];

/// Returns the label of a path.
pub(crate) fn label(path: &str) -> &'static str {
    let known = LABELS.iter().find(|(known, _)| *known == path);
    match known {
        Some((_, label)) => label,
        None if path.starts_with("/v1/models/") => "models",
        None => "other",
    }
}
