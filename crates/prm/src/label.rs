//! Removal of the label, such as `Step 3:`, that a generator may write before a step.

/// Returns `step` without a label such as `Step 3:`, `## Step 3.` or `**Step 3:**` at its
/// beginning. A step that is only a label stays as it is.
pub(crate) fn without_label(step: &str) -> &str {
    match after_label(step) {
        Some(rest) if !rest.trim().is_empty() => rest.trim_start(),
        _ => step,
    }
}

fn after_label(step: &str) -> Option<&str> {
    const WORD: &str = "step";
    let rest = step.trim_start_matches('#').trim_start();
    let rest = rest.strip_prefix("**").unwrap_or(rest);
    let word = rest.get(..WORD.len())?;
    if !word.eq_ignore_ascii_case(WORD) {
        return None;
    }
    let rest = rest[WORD.len()..].trim_start_matches(' ');
    let number = rest.trim_start_matches(|c: char| c.is_ascii_digit());
    if number.len() == rest.len() {
        return None;
    }
    let rest = number.strip_prefix("**").unwrap_or(number);
    let rest = rest.strip_prefix([':', '.'])?;
    Some(rest.strip_prefix("**").unwrap_or(rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_cut() {
        for step in [
            "Step 3: a + b",
            "step 12. a + b",
            "## Step 3: a + b",
            "**Step 3:** a + b",
            "**Step 3**: a + b",
            "Step 3:\na + b",
            "a + b",
        ] {
            assert_eq!(without_label(step), "a + b");
        }
    }

    #[test]
    fn what_is_no_label_stays() {
        for step in [
            "Step 3:",
            "Step by step: a",
            "Steps 3: a",
            "Step 3 is a",
            "ste",
            "é",
            "",
            "## 3: a",
        ] {
            assert_eq!(without_label(step), step);
        }
    }
}
