//! Simulates how a search scales over many servers, in virtual time.
//!
//! ```text
//! cargo run --release -p beamgen-remote --example simulation [-- PLOT.svg]
//! ```
//!
//! The scheduler and its computing time are real; the servers are simulated. A server decodes all
//! its requests together, one token of each in `TOKEN + ROW * requests` seconds. Its front end
//! spends `REQUEST` seconds of a thread on each request; vLLM 0.32 spent 4.9 to 7.1 ms of two CPU
//! cores on a request to a tiny model. `TOKEN` and `ROW` are assumed for a 7B model on an H100, not
//! measured. Next to each generator's server there is a server with a reward model. It answers a
//! request `SCORE` seconds after the `REQUEST` seconds of its front end. Each problem is pinned to
//! a server.

use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, VecDeque};
use std::ops::ControlFlow;
use std::rc::Rc;
use std::time::{Duration, Instant};

use beamgen_search::{
    Answer, Answers, BatchId, Border, ChainId, Clock, Finish, GenError, Generator, GeneratorConfig,
    Memory, Models, OpenedProblem, PassOutput, Problem, ScoreError, ScoreId, ScoreItem,
    ScoreResult, Scored, Scorer, Settings, Source, StepOutput, StepPlan, StrategyName, Submitted,
};

const TOKEN: f64 = 8e-3;
const ROW: f64 = 3e-5;
const REQUEST: f64 = 5e-3;
const SCORE: f64 = 30e-3;
/// The number of requests that a server decodes at once; further requests wait.
const MOST: usize = 256;

/// Returns a hash of two numbers, used in place of random numbers.
fn hash(a: u64, b: u64) -> u64 {
    let mut x = a ^ b.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

/// A job that is done at some time: a step of a chain, or the scores of a batch's item.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Job {
    Step(u64),
    Score(u64),
}

/// A server that decodes.
#[derive(Default)]
struct Server {
    /// The requests in the front end: the time at which each leaves it, its chain and its tokens.
    front: VecDeque<(f64, u64, usize)>,
    front_free: f64,
    /// The requests that are decoded, by the iteration in which they end.
    running: BinaryHeap<Reverse<(u64, u64)>>,
    waiting: VecDeque<(u64, usize)>,
    iterations: f64,
    now: f64,
    busy: f64,
}

impl Server {
    fn ask(&mut self, now: f64, chain: u64, tokens: usize) {
        self.front_free = self.front_free.max(now) + REQUEST;
        self.front.push_back((self.front_free, chain, tokens));
    }

    fn iteration(&self) -> f64 {
        TOKEN + ROW * self.running.len() as f64
    }

    /// Returns the time of the server's next event; infinity if it is idle.
    fn next(&self) -> f64 {
        let done = self
            .running
            .peek()
            .map_or(f64::INFINITY, |Reverse((end, _))| {
                self.now + (*end as f64 - self.iterations).max(0.0) * self.iteration()
            });
        let through = self.front.front().map_or(f64::INFINITY, |front| front.0);
        done.min(through)
    }

    /// Advances the server to a time at or before its next event, and adds the finished steps to
    /// `done`.
    fn advance(&mut self, to: f64, done: &mut Vec<Job>) {
        let passed = to - self.now;
        if !self.running.is_empty() {
            self.busy += passed;
            self.iterations += passed / self.iteration();
        }
        self.now = to;
        while let Some(&(through, chain, tokens)) = self.front.front() {
            if through > to + 1e-12 {
                break;
            }
            self.front.pop_front();
            self.waiting.push_back((chain, tokens));
        }
        while let Some(&Reverse((end, chain))) = self.running.peek() {
            if end as f64 > self.iterations + 1e-6 {
                break;
            }
            self.running.pop();
            done.push(Job::Step(chain));
        }
        while self.running.len() < MOST
            && let Some((chain, tokens)) = self.waiting.pop_front()
        {
            let end = self.iterations.ceil() as u64 + tokens as u64;
            self.running.push(Reverse((end, chain)));
        }
    }
}

/// All servers and the clock.
struct World {
    now: f64,
    servers: Vec<Server>,
    /// The next event of each busy server: the bits of its time (which sort like the time), and the
    /// server.
    events: BTreeSet<(u64, usize)>,
    /// The time at which the front end of each reward model's server is free.
    scorers: Vec<f64>,
    scores: BTreeSet<(u64, Job)>,
    done: Vec<Job>,
    /// The real time at which the scheduler last took over.
    given: Instant,
    /// The seconds that the scheduler has computed in total.
    scheduler: f64,
    answers_left: BTreeMap<u64, (usize, Vec<Result<Scored, ScoreError>>)>,
    steps: u64,
    most_alive: usize,
}

impl World {
    fn new(replicas: usize) -> Self {
        Self {
            now: 0.0,
            servers: (0..replicas).map(|_| Server::default()).collect(),
            events: BTreeSet::new(),
            scorers: vec![0.0; replicas],
            scores: BTreeSet::new(),
            done: Vec::new(),
            given: Instant::now(),
            scheduler: 0.0,
            answers_left: BTreeMap::new(),
            steps: 0,
            most_alive: 0,
        }
    }

    /// Takes over from the scheduler. Servers work while the scheduler computes, so the virtual
    /// time advances by the real time that it took.
    fn taken(&mut self) {
        let took = self.given.elapsed().as_secs_f64();
        self.scheduler += took;
        self.run_to(self.now + took);
    }

    fn give(&mut self) {
        self.given = Instant::now();
    }

    /// Changes a server and updates its entry in `events`.
    fn change(&mut self, at: usize, how: impl FnOnce(&mut Server, &mut Vec<Job>)) {
        let server = &mut self.servers[at];
        self.events.remove(&(server.next().to_bits(), at));
        how(server, &mut self.done);
        let next = server.next();
        if next.is_finite() {
            self.events.insert((next.to_bits(), at));
        }
    }

    fn next(&self) -> f64 {
        let first = |time: Option<&u64>| time.map_or(f64::INFINITY, |&bits| f64::from_bits(bits));
        let server = first(self.events.first().map(|(time, _)| time));
        server.min(first(self.scores.first().map(|(time, _)| time)))
    }

    fn run_to(&mut self, to: f64) {
        loop {
            let next = self.next();
            if next > to {
                break;
            }
            self.now = self.now.max(next);
            let now = self.now;
            while let Some(&(time, at)) = self.events.first()
                && f64::from_bits(time) <= now
            {
                self.change(at, |server, done| server.advance(now, done));
            }
            while let Some(&(time, job)) = self.scores.first()
                && f64::from_bits(time) <= now
            {
                self.scores.pop_first();
                self.done.push(job);
            }
        }
        self.now = self.now.max(to);
    }

    /// Waits for the next event, unless a job is done already.
    fn wait(&mut self) {
        if self.done.is_empty() {
            let next = self.next();
            if next.is_finite() {
                self.run_to(next);
            }
        }
    }
}

type Shared = Rc<RefCell<World>>;

struct Writer {
    world: Shared,
    /// For each chain: its problem, depth and stream, and whether it is in the middle of a step.
    chains: BTreeMap<u64, (u64, u32, u64, bool)>,
    active: usize,
    next: u64,
}

/// Returns the number of steps of a chain, from 6 to 12.
fn length(stream: u64) -> u32 {
    6 + (hash(stream, 1) % 7) as u32
}

impl Generator for Writer {
    fn open(
        &mut self,
        _: &Problem,
        key: u64,
        _: &GeneratorConfig,
    ) -> Result<OpenedProblem, GenError> {
        self.next += 1;
        self.chains.insert(self.next, (key, 0, key, false));
        Ok(OpenedProblem {
            chain: ChainId(self.next),
            prompt_tokens: 200,
            given: Vec::new(),
            begun: String::new(),
            strategy_seed: key,
            thought: None,
        })
    }

    fn try_start(&mut self, source: Source, plan: StepPlan) -> Option<ChainId> {
        let (id, fork) = match source {
            Source::Itself(id) => (id, false),
            Source::ForkOf(id) => (id, true),
        };
        let (problem, depth, ..) = self.chains[&id.0];
        let id = if fork {
            self.next += 1;
            self.next
        } else {
            id.0
        };
        self.chains.insert(id, (problem, depth, plan.stream, true));
        self.active += 1;
        let mut world = self.world.borrow_mut();
        let tokens = 20 + (hash(plan.stream, 2) % 41) as usize;
        let (now, replicas) = (world.now, world.servers.len() as u64);
        let server = (hash(problem, 3) % replicas) as usize;
        world.change(server, |server, _| server.ask(now, id, tokens));
        world.most_alive = world.most_alive.max(self.chains.len());
        Some(ChainId(id))
    }

    fn release(&mut self, chain: ChainId) -> usize {
        if self.chains.remove(&chain.0).is_some_and(|chain| chain.3) {
            self.active -= 1;
        }
        0
    }

    fn pass(&mut self) -> Result<PassOutput, GenError> {
        let mut world = self.world.borrow_mut();
        world.taken();
        world.wait();
        let mut output = PassOutput::default();
        let (steps, scores): (Vec<_>, Vec<_>) = std::mem::take(&mut world.done)
            .into_iter()
            .partition(|job| matches!(job, Job::Step(_)));
        world.done = scores;
        for job in steps {
            let Job::Step(id) = job else { continue };
            let Some(chain) = self.chains.get_mut(&id) else {
                continue;
            };
            chain.1 += 1;
            chain.3 = false;
            self.active -= 1;
            world.steps += 1;
            let stream = chain.2;
            output.steps.push(StepOutput {
                chain: ChainId(id),
                tokens: vec![1; 20 + (hash(stream, 2) % 41) as usize],
                text: format!(
                    "step {:016x} of a chain, of some forty characters\n",
                    stream
                ),
                leftover: Vec::new(),
                tokens_match_text: true,
                thought: None,
                logprob: -1.0,
                token_logprobs: Vec::new(),
                border: Border::Boundary,
                finish: (chain.1 >= length(chain.0)).then_some(Finish::EndOfText),
                paused: false,
            });
        }
        world.give();
        Ok(output)
    }

    fn active(&self) -> usize {
        self.active
    }

    fn memory(&self) -> Memory {
        Memory::default()
    }
}

struct Judge {
    world: Shared,
    chains: BTreeMap<u64, u64>,
    next: u64,
    parts: BTreeMap<u64, u64>,
    part: u64,
}

impl Scorer for Judge {
    fn open(&mut self, _: &Problem, key: u64) -> Result<ScoreId, ScoreError> {
        self.next += 1;
        self.chains.insert(self.next, key);
        Ok(ScoreId(self.next))
    }

    fn fork(&mut self, id: ScoreId) -> ScoreId {
        self.next += 1;
        self.chains.insert(self.next, self.chains[&id.0]);
        ScoreId(self.next)
    }

    fn release(&mut self, id: ScoreId) {
        self.chains.remove(&id.0);
    }

    fn score(&mut self, _: &[ScoreItem<'_>]) -> ScoreResult {
        Err(ScoreError::Lost("batches are submitted".into()))
    }

    fn submit(&mut self, batch: BatchId, items: &[ScoreItem<'_>]) -> Submitted {
        let mut world = self.world.borrow_mut();
        let mut results = Vec::new();
        for item in items {
            let problem = self.chains[&item.id.0];
            let at = (hash(problem, 4) % world.scorers.len() as u64) as usize;
            let now = world.now;
            let free = world.scorers[at].max(now) + REQUEST * item.steps.len() as f64;
            world.scorers[at] = free;
            self.part += 1;
            self.parts.insert(self.part, batch.0);
            world
                .scores
                .insert(((free + SCORE).to_bits(), Job::Score(self.part)));
            let score = |i: usize| (hash(self.part, i as u64) % 1000) as f32 / 1000.0;
            results.push(Ok(Scored::of((0..item.steps.len()).map(score))));
        }
        world.answers_left.insert(batch.0, (items.len(), results));
        Submitted::Pending
    }

    fn collect(&mut self, wait: bool) -> Vec<(BatchId, ScoreResult)> {
        let mut world = self.world.borrow_mut();
        if wait {
            // No chain is active, so these steps belong to chains that were released.
            world.done.retain(|job| matches!(job, Job::Score(_)));
            world.taken();
            world.wait();
        }
        let (scores, steps): (Vec<_>, Vec<_>) = std::mem::take(&mut world.done)
            .into_iter()
            .partition(|job| matches!(job, Job::Score(_)));
        world.done = steps;
        let mut done = Vec::new();
        for job in scores {
            let Job::Score(part) = job else { continue };
            let Some(batch) = self.parts.remove(&part) else {
                continue;
            };
            let left = world.answers_left.get_mut(&batch).map(|left| {
                left.0 -= 1;
                left.0
            });
            if left == Some(0)
                && let Some((_, results)) = world.answers_left.remove(&batch)
            {
                done.push((BatchId(batch), Ok(results)));
            }
        }
        if wait {
            world.give();
        }
        done
    }

    fn memory(&self) -> Memory {
        Memory::default()
    }
}

struct Time(Shared);

impl Clock for Time {
    fn now(&self) -> Duration {
        Duration::from_secs_f64(self.0.try_borrow().map_or(0.0, |world| world.now))
    }
}

struct NoAnswers;

impl Answers for NoAnswers {
    fn extract(&self, text: &str) -> Option<Answer> {
        Some(Answer::stated(&text[..1]))
    }

    fn class(&self, answer: &str) -> String {
        answer.to_owned()
    }
}

/// The results of a run, a row of the printed table.
struct Row {
    replicas: usize,
    problems: usize,
    in_flight: usize,
    seconds: f64,
    steps: u64,
    alive: usize,
    idle: f64,
    /// The share of the time in which the scheduler computed.
    busy: f64,
    per_step: f64,
}

fn run(replicas: usize, problems: usize, in_flight: usize) -> Row {
    let world: Shared = Rc::new(RefCell::new(World::new(replicas)));
    let mut generator = Writer {
        world: Rc::clone(&world),
        chains: BTreeMap::new(),
        active: 0,
        next: 0,
    };
    let mut scorer = Judge {
        world: Rc::clone(&world),
        chains: BTreeMap::new(),
        next: 0,
        parts: BTreeMap::new(),
        part: 0,
    };
    let clock = Time(Rc::clone(&world));
    let mut settings = Settings::default();
    "beam"
        .parse::<StrategyName>()
        .expect("a strategy")
        .apply(&mut settings.search);
    settings.search.n = 16;
    settings.search.m = 4;
    settings.search.in_flight = in_flight;
    let problem = |i: usize| Problem {
        id: i.to_string(),
        text: "a problem".to_owned(),
        answer: None,
        ..Problem::default()
    };
    world.borrow_mut().give();
    let models = Models {
        verifier: None,
        generator: &mut generator,
        scorer: Some(&mut scorer),
        answers: &NoAnswers,
        clock: &clock,
    };
    let mut done = 0;
    beamgen_search::run(
        models,
        settings,
        (0..problems).map(problem),
        &mut |_| {},
        &mut |result| {
            assert_eq!(result.error, None);
            done += 1;
            ControlFlow::Continue(())
        },
    )
    .expect("a run");
    assert_eq!(done, problems);
    let world = world.borrow();
    let busy: f64 = world.servers.iter().map(|server| server.busy).sum();
    Row {
        replicas,
        problems,
        in_flight,
        seconds: world.now,
        steps: world.steps,
        alive: world.most_alive,
        idle: 1.0 - busy / (world.now * replicas as f64),
        busy: world.scheduler / world.now,
        per_step: world.scheduler / world.steps as f64,
    }
}

fn main() {
    println!(
        "| servers | problems | in flight | chains alive | seconds (virtual) | steps/s | problems/s | servers idle | scheduler busy | its cost, us/step |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|");
    // First, enough problems in flight to fill every server, with 16 chains a problem. Then a
    // hundred thousand chains, more than 64 such servers can decode at once.
    let sizes = [1, 4, 16, 64].into_iter().flat_map(|replicas| {
        [10, 100, 1000, 10_000].map(|problems| (replicas, problems, problems.min(32 * replicas)))
    });
    let mut rows = Vec::new();
    for (replicas, problems, in_flight) in sizes.chain([(64, 10_000, 6300)]) {
        let row = run(replicas, problems, in_flight);
        println!(
            "| {} | {} | {} | {} | {:.0} | {:.0} | {:.2} | {:.0} % | {:.0} % | {:.1} |",
            row.replicas,
            row.problems,
            row.in_flight,
            row.alive,
            row.seconds,
            row.steps as f64 / row.seconds,
            row.problems as f64 / row.seconds,
            100.0 * row.idle,
            100.0 * row.busy,
            1e6 * row.per_step,
        );
        rows.push(row);
    }
    if let Some(path) = std::env::args().nth(1) {
        plot(&path, &rows).expect("a picture");
        println!("\n{path}");
    }
}

fn plot(path: &str, rows: &[Row]) -> Result<(), Box<dyn std::error::Error>> {
    use plotters::prelude::*;

    let font = ttf_noto_sans::REGULAR;
    plotters::style::register_font("sans-serif", FontStyle::Normal, font).map_err(|_| "no font")?;

    let root = SVGBackend::new(path, (720, 440)).into_drawing_area();
    root.fill(&WHITE)?;
    let highest = rows
        .iter()
        .map(|row| row.steps as f64 / row.seconds)
        .fold(1.0, f64::max);
    let mut chart = ChartBuilder::on(&root)
        .margin(12)
        .caption(
            "Steps a second over servers, in virtual time",
            ("sans-serif", 18),
        )
        .x_label_area_size(36)
        .y_label_area_size(64)
        .build_cartesian_2d((0.9..80.0).log_scale(), (10.0..1.5 * highest).log_scale())?;
    chart
        .configure_mesh()
        .x_desc("servers")
        .y_desc("steps/s")
        .draw()?;
    for (i, problems) in [10, 100, 1000, 10_000].into_iter().enumerate() {
        let color = Palette99::pick(i).to_rgba();
        let points = rows
            .iter()
            .filter(|row| row.problems == problems && row.in_flight <= 32 * row.replicas)
            .map(|row| (row.replicas as f64, row.steps as f64 / row.seconds));
        chart
            .draw_series(LineSeries::new(points, color.stroke_width(2)))?
            .label(format!("{problems} problems"))
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], color.stroke_width(2)));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .background_style(WHITE)
        .draw()?;
    root.present()?;
    Ok(())
}
