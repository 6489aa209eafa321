//! The token budget of a problem. Every token that is sampled was allowed to a step before, so the
//! budget is never exceeded, and what a step is allowed follows from the tree alone.

use super::active::ActiveProblem;
use crate::strategy::Action;

/// What may still be sampled, and how it is given to steps.
#[derive(Debug, Clone, Copy)]
pub(super) enum TokenBudget {
    Unlimited,
    Limited {
        total: usize,
        /// Of a strategy that works in rounds: what each step of this round gets, and how many
        /// steps get one token more. `None`: a chain's children share what it has left.
        round: Option<(usize, usize)>,
        /// Tokens of the longest step so far.
        longest: usize,
    },
}

impl TokenBudget {
    /// `total` tokens; 0 means no limit.
    pub fn new(total: usize) -> Self {
        match total {
            0 => Self::Unlimited,
            total => Self::Limited {
                total,
                round: None,
                longest: 1,
            },
        }
    }

    pub fn total(&self) -> usize {
        match *self {
            Self::Unlimited => usize::MAX,
            Self::Limited { total, .. } => total,
        }
    }

    pub fn note_step(&mut self, tokens: usize) {
        if let Self::Limited { longest, .. } = self {
            *longest = tokens.max(*longest);
        }
    }

    /// Most tokens of each of `count` new steps of a chain that has `left`. Fewer than `count` if
    /// there is not a token for each.
    pub fn token_limits(&mut self, left: usize, count: usize) -> Vec<usize> {
        match self {
            Self::Unlimited => vec![usize::MAX; count],
            Self::Limited { round: None, .. } => {
                let share = |i| left / count + usize::from(i < left % count);
                (0..count.min(left)).map(share).collect()
            }
            Self::Limited {
                round: Some((each, extra)),
                ..
            } => {
                let mut next = || {
                    let one_more = usize::from(*extra > 0);
                    *extra -= one_more;
                    *each + one_more
                };
                let shares = (0..count).map(|_| next());
                shares.filter(|&share| share > 0).collect()
            }
        }
    }
}

impl ActiveProblem {
    /// Cuts what a strategy asks for down to what the budget allows. In rounds, what is left is
    /// shared evenly, but among no more steps than it can bring to their end, were they as
    /// long as the longest so far: it is better spent on the first, which are the best.
    pub(super) fn afford(&mut self, actions: Vec<Action>) -> Vec<Action> {
        let in_rounds = self.strategy.in_rounds();
        let TokenBudget::Limited {
            total,
            round,
            longest,
        } = &mut self.budget
        else {
            return actions;
        };
        if !in_rounds {
            return actions;
        }
        let left = total.saturating_sub(self.bill.ledger.generated_tokens as usize);
        let steps = |action: &Action| match action {
            Action::Expand { count, .. } => *count,
            Action::Resume(_) => 1,
            _ => 0,
        };
        let asked: usize = actions.iter().map(steps).sum();
        let affordable = asked.min((left / *longest).max(1)).min(left);
        *round = Some(match affordable {
            0 => (0, 0),
            steps => (left / steps, left % steps),
        });
        if affordable == 0 {
            return actions;
        }
        let mut remaining = affordable;
        let afford = |mut action: Action| {
            let granted = steps(&action).min(remaining);
            remaining -= granted;
            match &mut action {
                Action::Expand { node, .. } | Action::Resume(node) if granted == 0 => {
                    // A kept node that was expanded before stays as it is.
                    let is_leaf = self.tree.node(*node).children.is_empty();
                    return is_leaf.then_some(Action::Prune(*node));
                }
                Action::Expand { count, .. } => *count = granted,
                _ => {}
            }
            Some(action)
        };
        actions.into_iter().filter_map(afford).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chain_shares_what_it_has_left_among_its_children() {
        let mut budget = TokenBudget::new(10);
        assert_eq!(budget.token_limits(10, 4), [3, 3, 2, 2]);
        assert_eq!(budget.token_limits(2, 4), [1, 1]);
        assert!(budget.token_limits(0, 1).is_empty());
    }

    #[test]
    fn a_round_gives_out_what_is_left_and_no_more() {
        let mut budget = TokenBudget::Limited {
            total: 11,
            round: Some((3, 2)),
            longest: 1,
        };
        assert_eq!(budget.token_limits(0, 2), [4, 4]);
        assert_eq!(budget.token_limits(0, 1), [3]);
    }

    #[test]
    fn without_a_budget_nothing_is_limited() {
        assert_eq!(TokenBudget::new(0).token_limits(0, 2), [usize::MAX; 2]);
    }
}
