//! Measures the time to score the steps of a chain one after the other. With its caches, a reward
//! model takes about as long for the tenth step as for the first.
//!
//!     cargo run --release -p beamgen-prm --example steps -- models/abacus/prm chains=64 steps=10 tokens=24
//!
//! `chains` chains of one problem grow by a step of `tokens` tokens each, and each call scores the
//! new step of every chain. The prompt is read before. Times are medians of `repeat` runs. `again`
//! is the time to read all chains of that length from their beginning, as a scorer without a cache
//! does.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Instant;

use beamgen_engine::{EngineConfig, ThreadPool, Tokenizer};
use beamgen_prm::RewardModel;
use beamgen_search::{Problem, ScoreId, ScoreItem, Scorer, StepRef};

const PROBLEM: &str = "Mia has 34 pens. Leo has 8 more pens than Mia. Ana has half as many pens as Leo. \
    Ben has 12 fewer pens than Ana. How many pens does Ben have?";
const WORDS: [&str; 8] = [
    " Mia", " has", " 34", " more", " pens", " than", " Leo", " +",
];

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut numbers: BTreeMap<&str, usize> = [
        ("chains", 64),
        ("steps", 10),
        ("tokens", 24),
        ("repeat", 5),
        ("threads", 0),
    ]
    .into();
    let mut model = "models/abacus/prm".to_owned();
    for arg in std::env::args().skip(1) {
        match arg.split_once('=') {
            None => model = arg,
            Some((name, value)) => {
                let known = numbers.iter_mut().find(|(known, _)| **known == name);
                let (_, number) = known.ok_or(format!("{name}: no such setting"))?;
                *number = value.parse().map_err(|e| format!("{arg}: {e}"))?;
            }
        }
    }
    let [chains, steps, tokens, repeat] =
        ["chains", "steps", "tokens", "repeat"].map(|name| numbers[name].max(1));
    let folder = Path::new(&model);
    let tokenizer = Tokenizer::load(folder)?;
    let pool = ThreadPool::new(numbers["threads"]);
    let mut prm = RewardModel::load(folder, None, None, EngineConfig::default(), pool)?;

    // Every step has the same number of tokens; the words differ from chain to chain.
    let text = |chain: usize, step: usize| -> Result<String, beamgen_engine::Error> {
        let mut text = String::new();
        let mut at = chain + 3 * step;
        while tokenizer.encode(&text, false)?.len() + 1 < tokens {
            text.push_str(WORDS[(at + at / WORDS.len() * (chain + 1)) % WORDS.len()]);
            at += 1;
        }
        text.push('\n');
        Ok(text)
    };
    let texts: Vec<Vec<String>> = (0..chains)
        .map(|chain| (0..steps).map(|step| text(chain, step)).collect())
        .collect::<Result<_, _>>()?;
    let step_ref = |text: &'static str| StepRef {
        text,
        tokens: &[],
        finish: None,
    };

    let mut seconds = vec![Vec::new(); steps];
    let mut again = vec![Vec::new(); steps];
    let mut read = vec![0; steps];
    for _ in 0..repeat {
        let problem = Problem {
            id: "p".into(),
            text: PROBLEM.into(),
            answer: None,
            ..Problem::default()
        };
        let root = prm.open(&problem, 0)?;
        let probe = prm.fork(root);
        let first = ScoreItem {
            id: probe,
            steps: vec![step_ref("So\n")],
        };
        prm.score(&[first])?;
        prm.release(probe);
        let ids: Vec<ScoreId> = (0..chains).map(|_| prm.fork(root)).collect();
        for step in 0..steps {
            let items: Vec<ScoreItem<'_>> = ids
                .iter()
                .zip(&texts)
                .map(|(&id, texts)| ScoreItem {
                    id,
                    steps: vec![StepRef {
                        text: &texts[step],
                        tokens: &[],
                        finish: None,
                    }],
                })
                .collect();
            let start = Instant::now();
            let scored = prm.score(&items)?;
            seconds[step].push(start.elapsed().as_secs_f64());
            read[step] = 0;
            for scored in scored {
                read[step] += scored?.read_tokens;
            }
        }
        for id in ids {
            prm.release(id);
        }
        prm.release(root);
        // Only the first, the middle and the last step: reading all chains again takes as long as
        // all the steps before together.
        for step in [0, steps / 2, steps - 1] {
            let whole: Vec<Vec<&str>> = texts
                .iter()
                .map(|texts| texts[..=step].iter().map(String::as_str).collect())
                .collect();
            let chains: Vec<(&str, &[&str])> = whole.iter().map(|s| (PROBLEM, &s[..])).collect();
            let start = Instant::now();
            prm.whole_chains(&chains)?;
            again[step].push(start.elapsed().as_secs_f64());
        }
    }

    let quantile = |times: &[f64], share: f64| {
        let mut times = times.to_vec();
        times.sort_by(f64::total_cmp);
        1e3 * times[((times.len() - 1) as f64 * share).round() as usize]
    };
    println!("{model}: {chains} chains, {steps} steps, {repeat} runs");
    println!("step | tokens read | ms, median | p10 | p90 | of the first | again, ms");
    println!("---: | ---: | ---: | ---: | ---: | ---: | ---:");
    for step in 0..steps {
        let times = &seconds[step];
        let whole = if again[step].is_empty() {
            String::new()
        } else {
            format!("{:.1}", quantile(&again[step], 0.5))
        };
        println!(
            "{} | {} | {:.2} | {:.2} | {:.2} | {:.2} | {whole}",
            step + 1,
            read[step],
            quantile(times, 0.5),
            quantile(times, 0.1),
            quantile(times, 0.9),
            quantile(times, 0.5) / quantile(&seconds[0], 0.5),
        );
    }
    Ok(())
}
