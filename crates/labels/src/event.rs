//! Ratings of people in lines of their own, after the chains that they are of.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{LabelledChain, LabelledStep, Rated, Reason};

/// A line of the file: all that a person says of a step, in place of what they said before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Event {
    /// The [key](LabelledChain::key) of a chain that stands above.
    pub chain: String,
    /// The step, from 0.
    pub step: usize,
    /// The person's name.
    pub rater: String,
    /// The rating; without one the step has none any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rating: Option<i8>,
    /// A remark.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
}

impl Event {
    /// The event of a record, if it is one.
    pub(crate) fn of(record: &Value) -> Option<Result<Self, Reason>> {
        record.get("chain").and(record.get("rater"))?;
        let event = Self::deserialize(record);
        Some(event.map_err(|error| Reason::with("not a rating of a step", error.to_string())))
    }

    /// Takes it into its chain.
    pub(crate) fn apply(
        self,
        chains: &mut [LabelledChain],
        places: &HashMap<String, usize>,
    ) -> Result<(), Reason> {
        let chain = places.get(&self.chain).map(|&at| &mut chains[at]);
        let step = chain.and_then(|chain| chain.steps.get_mut(self.step));
        let step = step.ok_or_else(|| {
            Reason::new(
                "a rating of a step that no chain above it has: keep chains and ratings together",
            )
        })?;
        if self.rating.is_some_and(|of| !(-1..=1).contains(&of)) {
            return Err(Reason::new("field \"rating\": write 1, 0 or -1"));
        }
        let rated = Rated {
            rating: self.rating,
            comment: self.comment,
        };
        step.set_rated(&self.rater, rated);
        Ok(())
    }
}

impl LabelledStep {
    /// Puts what a person says in place of what they said before.
    pub(crate) fn set_rated(&mut self, rater: &str, rated: Rated) {
        if rated == Rated::default() {
            self.ratings.remove(rater);
        } else {
            self.ratings.insert(rater.to_owned(), rated);
        }
    }
}
