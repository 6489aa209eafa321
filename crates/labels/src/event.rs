//! Ratings as separate lines of a file, each after the chain that it refers to.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{LabelledChain, LabelledStep, Rated, Reason};

/// A line that replaces a person's opinion on a step. Rating and remark are both replaced.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Event {
    /// The [key](LabelledChain::key) of the rated chain, which is on an earlier line.
    pub chain: String,
    /// The index of the rated step in its chain, from 0.
    pub step: usize,
    /// The name of the person who rated.
    pub rater: String,
    /// 1 for right, 0 for neutral, -1 for wrong; `None` removes the earlier rating.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rating: Option<i8>,
    /// A remark in the person's own words; `None` removes the earlier remark.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
}

impl Event {
    /// Reads a record as an event; `None` if the record is not an event but a chain.
    pub(crate) fn of(record: &Value) -> Option<Result<Self, Reason>> {
        // No chain has the fields `chain` and `rater`.
        record.get("chain").and(record.get("rater"))?;
        let event = Self::deserialize(record);
        Some(event.map_err(|error| Reason::with("not a rating of a step", error.to_string())))
    }

    /// Applies the event to the chain that it refers to. `places` maps keys to indices in `chains`.
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
        // A field that the event lacks was removed by the person, so nothing is merged.
        step.set_rated(&self.rater, rated);
        Ok(())
    }
}

impl LabelledStep {
    /// Replaces a person's opinion on the step. An opinion without rating and remark removes the
    /// entry.
    pub(crate) fn set_rated(&mut self, rater: &str, rated: Rated) {
        if rated == Rated::default() {
            self.ratings.remove(rater);
        } else {
            self.ratings.insert(rater.to_owned(), rated);
        }
    }
}
