//! Formats sizes in bytes for people.

/// Formats a number of bytes in units of 1000, such as `23.0 kB` or `999 MB`.
#[must_use]
pub fn human_size(bytes: u64) -> String {
    let units = [("GB", 1e9), ("MB", 1e6), ("kB", 1e3)];
    match units.iter().find(|(_, unit)| bytes as f64 >= *unit) {
        None => format!("{bytes} B"),
        Some((name, unit)) => {
            let number = bytes as f64 / unit;
            let digits = if number >= 100.0 { 0 } else { 1 };
            format!("{number:.digits$} {name}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_their_unit() {
        let shown = [12, 1_500, 23_040, 999_000_000, 14_200_000_000].map(human_size);
        assert_eq!(shown, ["12 B", "1.5 kB", "23.0 kB", "999 MB", "14.2 GB"]);
    }
}
