//! Ratings of people as separate lines, after the chains that they refer to.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{LabelledChain, LabelledStep, Rated, Reason};

/// A line with the complete opinion of a person on a step, which replaces the earlier opinion.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Event {
    /// The [key](LabelledChain::key) of a chain on an earlier line.
    pub chain: String,
    /// The index of the step in the chain, from 0.
    pub step: usize,
    /// The name of the person.
    pub rater: String,
    /// The rating: 1 right, 0 neutral, -1 wrong; `None` removes an earlier rating.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rating: Option<i8>,
    /// The remark on the step; `None` removes an earlier remark.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
}

impl Event {
    /// Reads the event of a record; `None` if the record is not an event.
    pub(crate) fn of(record: &Value) -> Option<Result<Self, Reason>> {
        // A chain has neither of these fields, which tells the two kinds of lines apart.
        record.get("chain").and(record.get("rater"))?;
        let event = Self::deserialize(record);
        Some(event.map_err(|error| Reason::with("not a rating of a step", error.to_string())))
    }

    /// Applies the event to its chain. `places` has the index of each chain by key.
    pub(crate) fn apply(
        self,
        chains: &mut [LabelledChain],
        places: &HashMap<String, usize>,
    ) -> Result<(), Reason> {
        let chain = places.get(&self.chain).map(|&at| &mut chains[at]);
        let step = chain.and_then(|chain| chain.steps.get_mut(self.step));
        let step = step.ok_or_else(|| {
            Reason::new("the rated step is in no chain above: keep chains and ratings together")
        })?;
        if self
            .rating
            .is_some_and(|rating| !(-1..=1).contains(&rating))
        {
            return Err(Reason::new("field \"rating\": write 1, 0 or -1"));
        }
        let rated = Rated {
            rating: self.rating,
            comment: self.comment,
        };
        // Replaced as a whole: an event has the complete opinion, so a missing part was taken back.
        step.set_rated(&self.rater, rated);
        Ok(())
    }
}

impl LabelledStep {
    /// Replaces the opinion of a person on the step; an empty opinion is removed.
    pub(crate) fn set_rated(&mut self, rater: &str, rated: Rated) {
        if rated == Rated::default() {
            self.ratings.remove(rater);
        } else {
            self.ratings.insert(rater.to_owned(), rated);
        }
    }
}
