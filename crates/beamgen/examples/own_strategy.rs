//! A custom strategy, which gets the tree of chains and returns actions.
//!
//! `cargo run --release -p beamgen --example own_strategy`

use beamgen::Solver;
use beamgen::strategy::{Action, ChainTree, NodeId, Start, State, Strategy};

/// Keeps the single best step of `width` samples, over and over.
struct BestStep {
    width: usize,
}

impl Strategy for BestStep {
    fn begin(&mut self, start: Start) -> Vec<Action> {
        vec![Action::expand(start.node, self.width)]
    }

    fn on_steps(&mut self, tree: &ChainTree, nodes: &[NodeId]) -> Vec<Action> {
        let score = |id: NodeId| tree.node(id).score.unwrap_or(0.0);
        let mut best: Vec<NodeId> = nodes.to_vec();
        best.sort_by(|&a, &b| score(b).total_cmp(&score(a)).then(a.cmp(&b)));
        let open = |&&id: &&NodeId| tree.node(id).state == State::Open;
        match best.first() {
            Some(&first) if tree.node(first).state == State::Open => {
                let others = best[1..].iter().filter(open);
                let mut actions: Vec<Action> = others.map(|&id| Action::Prune(id)).collect();
                actions.push(Action::expand(first, self.width));
                actions
            }
            _ => vec![Action::Done],
        }
    }
}

fn main() -> Result<(), beamgen::Error> {
    let mut solver = Solver::builder().build()?;
    for problem in beamgen::bundled::sample()?.problems.iter().take(5) {
        let request = solver
            .request(problem)
            .custom_strategy("best step of 8", |_| Ok(Box::new(BestStep { width: 8 })));
        let result = solver.solve(request)?;
        println!(
            "{}: {} ({} tokens)",
            problem.id,
            result.answer.as_deref().unwrap_or("none"),
            result.ledger.generated_tokens
        );
    }
    Ok(())
}
