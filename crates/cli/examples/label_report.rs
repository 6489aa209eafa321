//! Prints the tables of `benches/results/*-labels`: cost and quality of Monte Carlo labels on
//! problems of the bundled world.
//!
//! Run as `cargo run --release -p beamgen-cli --example label_report -- problems.jsonl`, with a
//! file from `beamgen problems`.

use std::ops::ControlFlow;

use beamgen::result::Ledger;
use beamgen::{Problem, Request, Solver};
use beamgen_labels::monte_carlo::{Counts, Labelling, Mode, MonteCarlo, graded_by_answer};
use beamgen_labels::{LabelRule, LabelledChain, Policy, RolloutLabel};
use beamgen_world::{Checker, Verdict};

type Failed = Box<dyn std::error::Error>;

/// A labelling of all problems.
struct Ran {
    chains: Vec<LabelledChain>,
    counts: Counts,
    ledger: Ledger,
    /// Tokens that the generator would compute again if KV caches could not be forked.
    spared: u64,
    seconds: f64,
}

impl Ran {
    /// Returns the number of tokens in rollouts, without those in chains.
    fn rollout_tokens(&self) -> u64 {
        self.ledger.generated_tokens - self.counts.chain_tokens
    }

    /// Returns the number of tokens that the generator computed: the prompt of each problem once,
    /// and all sampled tokens.
    fn read(&self) -> u64 {
        self.ledger.prompt_tokens + self.ledger.generated_tokens
    }
}

fn run(solver: &mut Solver, problems: &[Problem], options: MonteCarlo) -> Result<Ran, Failed> {
    let labelling = |problem: &Problem| {
        options.labelling(graded_by_answer(problem.answer.clone().unwrap_or_default()))
    };
    let labellings: Vec<Labelling> = problems.iter().map(labelling).collect();
    let settings = solver.settings();
    let requests = problems
        .iter()
        .zip(&labellings)
        .map(|(problem, labelling)| {
            let labelling = labelling.clone();
            Request::new(problem, settings.clone())
                .custom_strategy("monte-carlo", move |_| Ok(labelling.strategy()))
        });
    let mut counts = Counts::default();
    let mut chains: Vec<Vec<LabelledChain>> = vec![Vec::new(); problems.len()];
    let (mut read_twice, mut spared) = (0, 0);
    let summary = solver.run_requests(requests, &mut |_| (), &mut |result| {
        let in_tree = result
            .tree
            .nodes()
            .map(|(_, node)| node.tokens.len() as u64);
        read_twice += result.ledger.generated_tokens - in_tree.sum::<u64>();
        let policy = Policy::default();
        let labels = labellings[result.index].labels(&result.problem, 0, &policy);
        counts += labels.counts;
        spared += labels.counts.spared_tokens(result.ledger.prompt_tokens);
        chains[result.index] = labels.chains;
        ControlFlow::Continue(())
    })?;
    if read_twice > 0 || summary.restarts > 0 {
        return Err(format!("{read_twice} tokens were sampled twice").into());
    }
    Ok(Ran {
        chains: chains.into_iter().flatten().collect(),
        counts,
        ledger: summary.ledger,
        spared,
        seconds: summary.elapsed,
    })
}

/// Whether each step of a chain is right, by the exact checker of the world.
fn truth(chain: &LabelledChain) -> Vec<bool> {
    let Some(problem) = beamgen_world::parse(&chain.problem) else {
        return Vec::new();
    };
    let mut checker = Checker::new(&problem);
    let judge = |step: &beamgen_labels::LabelledStep| checker.next(&step.text) == Verdict::Right;
    chain.steps.iter().map(judge).collect()
}

fn percent(part: usize, of: usize) -> String {
    match of {
        0 => "-".to_owned(),
        _ => format!("{:.1} % of {of}", 100.0 * part as f64 / of as f64),
    }
}

/// Counts how many labels are right, over the steps that have rollouts.
#[derive(Default)]
struct Agreement {
    /// Right steps, and those of them that have the label 1.
    right: (usize, usize),
    /// Wrong steps, and those of them that have the label 0.
    wrong: (usize, usize),
    /// Wrong chains, and those of them whose first label 0 is the first wrong step.
    first: (usize, usize),
}

impl Agreement {
    fn of(chains: &[LabelledChain], rule: LabelRule) -> Self {
        let mut sum = Self::default();
        for chain in chains {
            let (labels, truth) = (rule.labels(chain), truth(chain));
            let count = |pair: &mut (usize, usize), agrees: bool| {
                pair.0 += 1;
                pair.1 += usize::from(agrees);
            };
            // The last step of a chain is labelled by the chain's own outcome.
            for (label, &is_right) in labels.iter().zip(&truth).take(truth.len() - 1) {
                match (label, is_right) {
                    (Some(label), true) => count(&mut sum.right, *label == 1.0),
                    (Some(label), false) => count(&mut sum.wrong, *label == 0.0),
                    (None, _) => {}
                }
            }
            if let Some(first) = truth.iter().position(|&is_right| !is_right) {
                let found = labels.iter().position(|&label| label == Some(0.0));
                count(&mut sum.first, found == Some(first));
            }
        }
        sum
    }

    fn row(&self, name: &str) {
        let ((right, kept), (wrong, found), (chains, first)) = (self.right, self.wrong, self.first);
        let all = percent(kept + found, right + wrong);
        println!(
            "| {name} | {all} | {} | {} | {} |",
            percent(kept, right),
            percent(found, wrong),
            percent(first, chains)
        );
    }
}

fn costs(rows: &[(&str, &Ran)]) {
    println!("## Costs\n");
    println!(
        "| mode | chains, distinct | labelled steps | rollouts | rollouts/s | tokens sampled a chain | a label | read with forks | read without forks | a label, with | a label, without |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|");
    for (name, ran) in rows {
        let Counts {
            chains,
            distinct,
            labels,
            rollouts,
            ..
        } = ran.counts;
        let without = ran.read() + ran.spared;
        let each = |tokens: u64| format!("{:.0}", tokens as f64 / labels as f64);
        println!(
            "| {name} | {chains}, {distinct} | {labels} | {rollouts} | {:.0} | {:.0} | {} | {} | {without} | {} | {} |",
            rollouts as f64 / ran.seconds,
            ran.ledger.generated_tokens as f64 / distinct as f64,
            each(ran.ledger.generated_tokens),
            ran.read(),
            each(ran.read()),
            each(without)
        );
    }
}

/// Compares hard labels from binary search with those from rollouts of every step, and the costs.
fn binary(brute: &Ran, binary: &Ran) {
    let rule = LabelRule::default();
    let (mut steps, mut same) = (0, 0);
    let (mut wrong, mut first) = (0, 0);
    let (mut once, mut first_once) = (0, 0);
    for (a, b) in brute.chains.iter().zip(&binary.chains) {
        let (labels, searched) = (rule.labels(a), rule.labels(b));
        for (a, b) in labels.iter().zip(&searched) {
            if let (Some(a), Some(b)) = (a, b) {
                steps += 1;
                same += usize::from(a == b);
            }
        }
        let Some(found) = b.first_error.filter(|&at| at >= 0) else {
            continue;
        };
        wrong += 1;
        let at = labels.iter().position(|&label| label == Some(0.0));
        let agrees = at.is_some_and(|at| at as i64 == found);
        first += usize::from(agrees);
        let falls_once = at.is_some_and(|at| labels[at..].iter().all(|&l| l == Some(0.0)));
        once += usize::from(falls_once);
        first_once += usize::from(falls_once && agrees);
    }
    println!("\n## Binary search beside brute force\n");
    println!(
        "- chains: {}, {wrong} of them wrong and searched",
        brute.chains.len()
    );
    println!(
        "- hard labels that both settle and agree on: {}",
        percent(same, steps)
    );
    println!("- the same first error: {}", percent(first, wrong));
    println!(
        "- the same first error where the labels of brute force fall once: {}",
        percent(first_once, once)
    );
    println!(
        "- rollouts: {} against {}, {:.2} times fewer; their tokens: {} against {}, {:.2} times fewer",
        binary.counts.rollouts,
        brute.counts.rollouts,
        brute.counts.rollouts as f64 / binary.counts.rollouts as f64,
        binary.rollout_tokens(),
        brute.rollout_tokens(),
        brute.rollout_tokens() as f64 / binary.rollout_tokens() as f64
    );
}

fn main() -> Result<(), Failed> {
    let file = std::env::args().nth(1).ok_or("name a file of problems")?;
    let mut solver = Solver::builder().build()?;
    let problems = beamgen::eval::Problems::open(&file)?;
    problems.require_answers(problems.problems.len())?;
    let problems = problems.problems;
    let mut run = |options| run(&mut solver, &problems, options);
    let options = |mode, rollouts| MonteCarlo {
        chains: 4,
        rollouts,
        mode,
        ..MonteCarlo::default()
    };
    println!("# Monte Carlo labels of the bundled generator\n");
    println!(
        "{} problems, 4 chains each, temperature 1.\n",
        problems.len()
    );
    let all = run(options(Mode::All, 8))?;
    let early = run(options(Mode::Early, 8))?;
    let searched = run(options(Mode::Binary, 8))?;
    let reused = run(MonteCarlo {
        searches: 8,
        ..options(Mode::Binary, 8)
    })?;
    let adaptive = run(options(Mode::Adaptive, 8))?;
    costs(&[
        ("all, 8 rollouts", &all),
        ("early, at most 8", &early),
        ("binary, 8", &searched),
        ("binary, 8, and 8 searches of rollouts", &reused),
        ("adaptive, 8 to 32", &adaptive),
    ]);
    binary(&all, &searched);

    println!("\n## Agreement with the exact truth, over the number of rollouts\n");
    println!(
        "| label | agrees | right steps called right | wrong steps called wrong | first error |"
    );
    println!("|---|---|---|---|---|");
    for rollouts in [1, 2, 4, 8, 16, 32] {
        let ran = match rollouts {
            8 => None,
            _ => Some(run(options(Mode::All, rollouts))?),
        };
        let chains = &ran.as_ref().unwrap_or(&all).chains;
        let rules = [
            ("hard", RolloutLabel::Hard),
            ("k/n > 1/8", RolloutLabel::Threshold(0.125)),
            ("ratio 0.8", RolloutLabel::Ratio(0.8)),
        ];
        for (name, rollouts_label) in rules {
            let rule = LabelRule {
                rollouts: rollouts_label,
                ..LabelRule::default()
            };
            Agreement::of(chains, rule).row(&format!("{name}, n = {rollouts}"));
        }
    }
    Ok(())
}
