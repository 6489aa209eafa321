//! A note on problems of a kind that the bundled models were not trained on. The models' answers
//! and scores mean nothing for such problems, and nothing else in the output shows that.

use beamgen::bundled;

use crate::output;

/// Prints how many of `problems` the bundled models do not know, if any. Prints nothing unless one
/// of the models `is_bundled`. `unit` is the plural noun for the count, such as "problems".
pub(crate) fn note(is_bundled: bool, unit: &str, problems: impl Iterator<Item = impl AsRef<str>>) {
    if !is_bundled {
        return;
    }
    let (mut foreign, mut all) = (0, 0);
    for problem in problems {
        all += 1;
        foreign += usize::from(!bundled::knows(problem.as_ref()));
    }
    if foreign > 0 {
        output::note_once(format_args!(
            "note: {foreign} of {all} {unit} are not of the world that the bundled models know (who has how many of \
             something, 3 to 7 people; `beamgen problems` writes some): their answers and scores mean nothing there; \
             `beamgen models` lists pairs of published models; --pair NAME takes one"
        ));
    }
}
