//! Compares the speed of decoding by the engine and by candle-transformers: chains that branch from
//! one prompt, each with one greedy step of 64 tokens.
//!
//!     cargo run --release -p beamgen-candle-backend --example speed -- MODEL.gguf 1 16 64
//!
//! Both compute in float32 on all cores, and they take turns. A row is the median of three runs in
//! tokens/s, with the lowest and the highest.

use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use beamgen_candle_backend::CandleModel;
use beamgen_engine::{Checkpoint, Engine, EngineConfig, Model, Tokenizer, WeightType};
use beamgen_generator::LmGenerator;
use beamgen_search::{DecodeMode, Generator, GeneratorConfig, Problem, Source, StepPlan};

const TOKENS: usize = 64;
const TURNS: usize = 3;

/// Returns tokens per second, and the tokens of the first chain, to compare the two generators.
fn decode(
    generator: &mut dyn Generator,
    chains: usize,
    settings: &GeneratorConfig,
) -> Result<(f64, Vec<u32>), Box<dyn Error>> {
    let problem = Problem {
        id: "p".into(),
        text: "Natalia sold clips to 48 of her friends in April, and then she sold half as many clips in May. \
               How many clips did Natalia sell altogether in April and May?"
            .into(),
        answer: None,
        ..Problem::default()
    };
    let opened = generator.open(&problem, 0, settings)?;
    let plan = |stream| StepPlan {
        stream,
        mode: DecodeMode::Greedy,
        token_limit: TOKENS,
    };
    let started: Option<Vec<_>> = (0..chains as u64)
        .map(|stream| generator.try_start(Source::ForkOf(opened.chain), plan(stream)))
        .collect();
    let ids = started.ok_or("no memory for so many chains")?;
    let begin = Instant::now();
    let mut steps = Vec::new();
    while generator.active() > 0 {
        steps.extend(generator.pass()?.steps);
    }
    let seconds = begin.elapsed().as_secs_f64();
    for id in ids {
        generator.release(id);
    }
    generator.release(opened.chain);
    let tokens: usize = steps.iter().map(|step| step.tokens.len()).sum();
    let first = steps.swap_remove(0).tokens;
    Ok((tokens as f64 / seconds, first))
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let path = args.next().ok_or("name a model, then numbers of chains")?;
    let checkpoint = Checkpoint::from(Path::new(&path));
    let tokenizer = Arc::new(Tokenizer::load(checkpoint.clone())?);
    let settings = GeneratorConfig {
        boundaries: Vec::new(),
        starts: Vec::new(),
        step_tokens: TOKENS,
        ..GeneratorConfig::default()
    };
    let pool = beamgen_engine::ThreadPool::new(0);
    let (config, weights) = beamgen_engine::ModelConfig::load_with_weights(checkpoint.clone())?;
    let cpu = beamgen_engine::Compute::Cpu;
    let model = Model::on(&cpu, config, &weights, WeightType::F32, &pool)?;
    let engine = Engine::with_pool(Arc::new(model), EngineConfig::default(), pool)?;
    let mut ours = LmGenerator::new(engine, Arc::clone(&tokenizer), settings.clone())?;
    let mut candle = CandleModel::open(&checkpoint, tokenizer, &settings)?.load(8 << 30)?;
    println!("chains  engine tokens/s            candle tokens/s            ratio  equal");
    for chains in args {
        let chains: usize = chains.parse()?;
        let mut rates = [Vec::new(), Vec::new()];
        let mut equal = true;
        for _ in 0..TURNS {
            let (rate, one) = decode(&mut ours, chains, &settings)?;
            rates[0].push(rate);
            let (rate, two) = decode(&mut candle, chains, &settings)?;
            rates[1].push(rate);
            equal &= one == two;
        }
        let shown = rates.each_mut().map(|rates| {
            rates.sort_by(f64::total_cmp);
            format!("{:>8.0} ({:.0} to {:.0})", rates[1], rates[0], rates[2])
        });
        let ratio = rates[0][1] / rates[1][1];
        println!(
            "{chains:>6}  {:<25}  {:<25}  {ratio:>5.1}  {equal}",
            shown[0], shown[1]
        );
    }
    Ok(())
}
