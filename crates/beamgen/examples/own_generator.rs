//! A generator of one's own, in place of a language model in our engine: here one that guesses
//! digits, so that the search has to find the right ones. A remote model would send a request in
//! `try_start` and wait for answers in `pass`.
//!
//! `cargo run --release -p beamgen --example own_generator`

use std::collections::BTreeMap;

use beamgen::{
    Border, ChainId, GenError, Generator, GeneratorConfig, Memory, OpenedProblem, PassOutput,
    Problem, Solver, Source, StepOutput, StepPlan,
};

/// Writes one digit a step, `DIGITS` of them, and then says what it wrote.
#[derive(Default)]
struct Guesser {
    chains: BTreeMap<ChainId, Chain>,
    next: u64,
}

const DIGITS: usize = 3;

#[derive(Clone, Default)]
struct Chain {
    digits: String,
    /// The step that is being written.
    plan: Option<StepPlan>,
}

impl Guesser {
    fn insert(&mut self, chain: Chain) -> ChainId {
        self.next += 1;
        let id = ChainId(self.next);
        self.chains.insert(id, chain);
        id
    }
}

impl Generator for Guesser {
    fn open(
        &mut self,
        _: &Problem,
        key: u64,
        settings: &GeneratorConfig,
    ) -> Result<OpenedProblem, GenError> {
        Ok(OpenedProblem {
            chain: self.insert(Chain::default()),
            prompt_tokens: 0,
            strategy_seed: key ^ settings.seed,
            thought: None,
        })
    }

    fn try_start(&mut self, source: Source, plan: StepPlan) -> Option<ChainId> {
        let id = match source {
            Source::Itself(id) => id,
            Source::ForkOf(id) => self.insert(self.chains[&id].clone()),
        };
        self.chains.get_mut(&id)?.plan = Some(plan);
        Some(id)
    }

    fn release(&mut self, chain: ChainId) -> usize {
        self.chains.remove(&chain);
        0
    }

    fn pass(&mut self) -> Result<PassOutput, GenError> {
        let mut steps = Vec::new();
        for (&id, chain) in &mut self.chains {
            let Some(plan) = chain.plan.take() else {
                continue;
            };
            // All that is random comes from the stream: the same seed, the same chains.
            let digit = plan.stream.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 60;
            let done = chain.digits.len() == DIGITS;
            let text = match done {
                true => format!("The answer is {}.\n", chain.digits),
                false => {
                    chain.digits.push(char::from(b'0' + (digit % 10) as u8));
                    format!("{}\n", chain.digits)
                }
            };
            steps.push(StepOutput {
                chain: id,
                tokens: vec![digit as u32],
                text,
                leftover: Vec::new(),
                tokens_match_text: false,
                logprob: -1.0,
                border: Border::Boundary,
                // The search itself finds the answer that ends a chain.
                finish: None,
                paused: false,
            });
        }
        Ok(steps.into())
    }

    fn active(&self) -> usize {
        self.chains.values().filter(|c| c.plan.is_some()).count()
    }

    fn memory(&self) -> Memory {
        Memory::default()
    }
}

fn main() -> Result<(), beamgen::Error> {
    let secret = "417";
    let mut solver = Solver::builder()
        .own_generator("guesser", Guesser::default())
        .step_scorer("how much is right", move |_: &Problem, steps: &[&str]| {
            let written = steps[steps.len() - 1].trim_end();
            let written = written.trim_start_matches("The answer is ");
            let right = written.chars().zip(secret.chars()).filter(|(a, b)| a == b);
            (right.count() as f32 + 0.5) / (DIGITS as f32 + 1.0)
        })
        .build()?;
    let request = solver.request("Which number am I thinking of?").n(64).m(16);
    let result = solver.solve(request)?;
    println!("found {}", result.answer.as_deref().unwrap_or("nothing"));
    Ok(())
}
