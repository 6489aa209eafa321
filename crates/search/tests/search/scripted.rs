//! A generator and a scorer that follow a script, count their work, and panic on misuse.

use std::cell::Cell;
use std::collections::{BTreeMap, HashMap};
use std::ops::ControlFlow;
use std::rc::Rc;
use std::time::Duration;

use beamgen_search::*;

/// The position of a step that a script is asked to write.
pub(crate) struct Place<'a> {
    pub problem: &'a Problem,
    pub key: u64,
    /// The text of the chain so far.
    pub before: &'a str,
    pub depth: usize,
    pub stream: u64,
    /// The index among the siblings, from 0.
    pub index: u32,
    /// Whether the likeliest step is asked for, which must not depend on the stream.
    pub greedy: bool,
}

impl Place<'_> {
    /// Returns a random number that depends only on the problem, the stream (for a greedy step: the
    /// text before) and `salt`.
    pub(crate) fn draw(&self, salt: u64) -> u64 {
        let stream = if self.greedy {
            self.before.len() as u64
        } else {
            self.stream
        };
        child_stream(self.key ^ stream, salt as u32)
    }
}

/// A scripted step. Each token takes one pass.
pub(crate) struct Said {
    pub text: String,
    pub tokens: usize,
    pub finish: Option<Finish>,
    /// The bytes of the last token that belong to the next step.
    pub leftover: &'static str,
}

impl Said {
    pub(crate) fn step(text: impl Into<String>) -> Self {
        Self {
            text: text.into(),
            tokens: 3,
            finish: None,
            leftover: "",
        }
    }

    pub(crate) fn end(text: impl Into<String>, finish: Finish) -> Self {
        Self {
            finish: Some(finish),
            ..Self::step(text)
        }
    }

    pub(crate) fn answer(value: impl std::fmt::Display) -> Self {
        Self::end(format!("The answer is {value}.\n"), Finish::Answer)
    }
}

pub(crate) const PROMPT_TOKENS: usize = 10;
pub(crate) const MAX_STEP: usize = 8;

/// Some tokens in the cache, shared between forks and counted once in `used`.
struct Segment {
    tokens: usize,
    used: Rc<Cell<usize>>,
}

impl Segment {
    fn new(tokens: usize, used: &Rc<Cell<usize>>) -> Rc<Self> {
        used.set(used.get() + tokens);
        Rc::new(Self {
            tokens,
            used: used.clone(),
        })
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        self.used.set(self.used.get() - self.tokens);
    }
}

#[derive(Clone)]
struct Chain {
    problem: Rc<(Problem, u64)>,
    /// The cache of the prompt, once it was read; shared by all chains of the problem.
    prompt: Rc<Cell<Option<Rc<Segment>>>>,
    segments: Vec<Rc<Segment>>,
    text: String,
    depth: usize,
    stream: u64,
    growing: Option<Growing>,
    paused: Option<Growing>,
}

#[derive(Clone)]
struct Growing {
    plan: StepPlan,
    passes: usize,
    said: Rc<Said>,
}

impl Growing {
    /// Returns the output for the first `tokens` tokens of the step.
    fn stepped(&self, id: u64, tokens: usize, finish: Option<Finish>, paused: bool) -> StepOutput {
        let chars = self.said.text.chars().count();
        let part = (chars * tokens).div_ceil(self.said.tokens);
        StepOutput {
            chain: ChainId(id),
            tokens: vec![7; tokens],
            text: self.said.text.chars().take(part).collect(),
            leftover: self.said.leftover.into(),
            tokens_match_text: self.said.leftover.is_empty(),
            thought: None,
            logprob: if self.said.text.contains("improbable") {
                f32::NAN
            } else {
                -(tokens as f32)
            },
            token_logprobs: Vec::new(),
            border: Border::Boundary,
            finish,
            paused,
        }
    }
}

type Script<'a> = Box<dyn Fn(&Place<'_>) -> Said + 'a>;

pub(crate) struct ScriptedGenerator<'a> {
    script: Script<'a>,
    chains: BTreeMap<u64, Chain>,
    next: u64,
    pub capacity: usize,
    used: Rc<Cell<usize>>,
    pub prompts_read: usize,
    pub tokens_sampled: usize,
    pub passes: usize,
    pub rows: Vec<usize>,
    /// The temperature that each problem was opened with.
    pub temperatures: Vec<Option<f32>>,
}

impl<'a> ScriptedGenerator<'a> {
    pub(crate) fn new(script: impl Fn(&Place<'_>) -> Said + 'a) -> Self {
        Self {
            script: Box::new(script),
            chains: BTreeMap::new(),
            next: 0,
            capacity: usize::MAX,
            used: Rc::new(Cell::new(0)),
            prompts_read: 0,
            tokens_sampled: 0,
            passes: 0,
            rows: Vec::new(),
            temperatures: Vec::new(),
        }
    }

    /// Limits the generator's cache to this many tokens.
    pub(crate) fn with_capacity(mut self, tokens: usize) -> Self {
        self.capacity = tokens;
        self
    }

    /// Makes the models of a run without a scorer.
    pub(crate) fn unscored(&mut self) -> Models<'_> {
        Models {
            verifier: None,
            generator: self,
            scorer: None,
            answers: &Stated,
            clock: &StoppedClock,
        }
    }

    pub(crate) fn chains_held(&self) -> usize {
        self.chains.len()
    }

    fn insert(&mut self, chain: Chain) -> ChainId {
        self.next += 1;
        self.chains.insert(self.next, chain);
        ChainId(self.next)
    }

    fn prompt_is_read(chain: &Chain) -> bool {
        let prompt = chain.prompt.take();
        let read = prompt.is_some();
        chain.prompt.set(prompt);
        read
    }

    fn fork(&mut self, chain: ChainId) -> ChainId {
        let copy = self.chains[&chain.0].clone();
        assert!(
            copy.growing.is_none() && copy.paused.is_none(),
            "forked in the middle of a step"
        );
        self.insert(copy)
    }

    fn can_start(&self, chain: ChainId) -> bool {
        let reserved: usize = self
            .chains
            .values()
            .filter(|c| c.growing.is_some())
            .map(|_| MAX_STEP)
            .sum();
        let mut unread: Vec<*const _> = self
            .chains
            .iter()
            .filter(|(id, c)| (**id == chain.0 || c.growing.is_some()) && !Self::prompt_is_read(c))
            .map(|(_, c)| Rc::as_ptr(&c.prompt))
            .collect();
        unread.dedup();
        let wanted = self.used.get() + reserved + MAX_STEP + unread.len() * PROMPT_TOKENS;
        wanted <= self.capacity
    }

    fn start_step(&mut self, chain: ChainId, plan: StepPlan) {
        let state = &self.chains[&chain.0];
        assert!(state.growing.is_none(), "started twice");
        assert!(plan.token_limit > 0, "nothing to write");
        if let Some(paused) = &state.paused {
            assert_eq!(plan.stream, paused.plan.stream);
            assert!(plan.token_limit > paused.passes);
            let growing = Growing {
                plan,
                ..paused.clone()
            };
            let state = self.chains.get_mut(&chain.0).unwrap();
            state.paused = None;
            state.growing = Some(growing);
            return;
        }
        // Rollouts have the last streams, children the first.
        let rollouts = (u32::MAX - 64..=u32::MAX).rev();
        let index = (0..5000)
            .chain(rollouts)
            .find(|&i| child_stream(state.stream, i) == plan.stream)
            .expect("the stream of a child");
        let said = (self.script)(&Place {
            problem: &state.problem.0,
            key: state.problem.1,
            before: &state.text,
            depth: state.depth,
            stream: plan.stream,
            index,
            greedy: plan.mode == DecodeMode::Greedy,
        });
        assert!((1..=MAX_STEP).contains(&said.tokens));
        let said = Rc::new(said);
        self.chains.get_mut(&chain.0).unwrap().growing = Some(Growing {
            plan,
            passes: 0,
            said,
        });
    }
}

impl Generator for ScriptedGenerator<'_> {
    fn open(
        &mut self,
        problem: &Problem,
        key: u64,
        settings: &GeneratorConfig,
    ) -> Result<OpenedProblem, GenError> {
        self.temperatures.push(settings.sampling.temperature);
        if problem.text.contains("too long") {
            return Err(GenError::PromptTooLong {
                tokens: 9999,
                context: 512,
            });
        }
        let given = problem.steps.iter().map(|step| GivenStep {
            text: step.clone(),
            tokens: vec![7; 2],
            tokens_match_text: true,
            thought: None,
        });
        let root = ChainTree::new().node(ChainTree::ROOT).stream;
        let chain = self.insert(Chain {
            problem: Rc::new((problem.clone(), key)),
            prompt: Rc::default(),
            segments: Vec::new(),
            text: problem.steps.concat(),
            depth: problem.steps.len(),
            stream: problem
                .steps
                .iter()
                .fold(root, |stream, _| child_stream(stream, 0)),
            growing: None,
            paused: None,
        });
        Ok(OpenedProblem {
            chain,
            prompt_tokens: PROMPT_TOKENS,
            given: given.collect(),
            begun: String::new(),
            strategy_seed: key,
            thought: None,
        })
    }

    fn release(&mut self, chain: ChainId) -> usize {
        let chain = self.chains.remove(&chain.0).expect("released once");
        chain.growing.or(chain.paused).map_or(0, |growing| {
            let sampled = growing.passes.min(growing.said.tokens);
            self.tokens_sampled += sampled;
            sampled
        })
    }

    fn try_start(&mut self, source: Source, plan: StepPlan) -> Option<ChainId> {
        let (Source::Itself(chain) | Source::ForkOf(chain)) = source;
        if !self.can_start(chain) {
            return None;
        }
        let chain = match source {
            Source::Itself(chain) => chain,
            Source::ForkOf(chain) => self.fork(chain),
        };
        self.start_step(chain, plan);
        Some(chain)
    }

    fn pass(&mut self) -> Result<PassOutput, GenError> {
        self.passes += 1;
        self.rows.push(self.active());
        let mut closed = Vec::new();
        for (&id, chain) in &mut self.chains {
            let Some(mut growing) = chain.growing.take() else {
                continue;
            };
            if !Self::prompt_is_read(chain) {
                self.prompts_read += 1;
                let prompt = Segment::new(PROMPT_TOKENS, &self.used);
                chain.prompt.set(Some(prompt));
            }
            growing.passes += 1;
            let tokens = growing.passes;
            let whole = tokens >= growing.said.tokens;
            let over_budget = !whole && tokens >= growing.plan.token_limit;
            let paused = !whole && !over_budget && pauses_at(growing.plan.mode) == Some(tokens);
            if !whole && !over_budget && !paused {
                chain.growing = Some(growing);
                continue;
            }
            if paused {
                closed.push(growing.stepped(id, tokens, None, true));
                chain.paused = Some(growing);
                continue;
            }
            let finish = if over_budget {
                Some(Finish::Budget)
            } else {
                growing.said.finish
            };
            let step = growing.stepped(id, tokens, finish, false);
            self.tokens_sampled += tokens;
            chain.segments.push(Segment::new(tokens, &self.used));
            chain.text += &step.text;
            chain.depth += 1;
            chain.stream = growing.plan.stream;
            closed.push(step);
        }
        assert!(
            self.used.get() <= self.capacity,
            "memory was reserved twice"
        );
        Ok(closed.into())
    }

    fn active(&self) -> usize {
        self.chains.values().filter(|c| c.growing.is_some()).count()
    }

    fn memory(&self) -> Memory {
        Memory {
            used_bytes: 2 * self.used.get() as u64,
            bytes_per_token: 2,
            capacity_tokens: self.capacity,
        }
    }
}

/// A function that scores a step by problem, text before, and text of the step.
type Judge<'a> = Box<dyn Fn(&Problem, &str, &str) -> Result<f32, ScoreError> + 'a>;

pub(crate) struct ScriptedScorer<'a> {
    judge: Judge<'a>,
    chains: HashMap<u64, (Problem, String, usize)>,
    next: u64,
    /// The number of times that the last step of a chain was read, by problem and text of the
    /// chain.
    pub reads: BTreeMap<(String, String), usize>,
    pub calls: usize,
    pub tokens_read: usize,
}

impl<'a> ScriptedScorer<'a> {
    pub(crate) fn new(judge: impl Fn(&Problem, &str, &str) -> f32 + 'a) -> Self {
        Self::fallible(move |problem, before, step| Ok(judge(problem, before, step)))
    }

    pub(crate) fn fallible(
        judge: impl Fn(&Problem, &str, &str) -> Result<f32, ScoreError> + 'a,
    ) -> Self {
        Self {
            judge: Box::new(judge),
            chains: HashMap::new(),
            next: 0,
            reads: BTreeMap::new(),
            calls: 0,
            tokens_read: 0,
        }
    }

    pub(crate) fn chains_held(&self) -> usize {
        self.chains.len()
    }

    fn insert(&mut self, chain: (Problem, String, usize)) -> ScoreId {
        self.next += 1;
        self.chains.insert(self.next, chain);
        ScoreId(self.next)
    }
}

impl Scorer for ScriptedScorer<'_> {
    fn open(&mut self, problem: &Problem, _: u64) -> Result<ScoreId, ScoreError> {
        if problem.text.contains("unscorable") {
            return Err(ScoreError::TooLong {
                tokens: 9999,
                context: 512,
            });
        }
        Ok(self.insert((problem.clone(), String::new(), 0)))
    }

    fn fork(&mut self, id: ScoreId) -> ScoreId {
        let copy = self.chains[&id.0].clone();
        self.insert(copy)
    }

    fn release(&mut self, id: ScoreId) {
        self.chains.remove(&id.0).expect("released once");
    }

    fn score(
        &mut self,
        items: &[ScoreItem<'_>],
    ) -> Result<Vec<Result<Scored, ScoreError>>, ScoreError> {
        assert!(!items.is_empty());
        self.calls += 1;
        Ok(items
            .iter()
            .map(|item| {
                assert!(!item.steps.is_empty());
                let (problem, text, cached) = self.chains.get_mut(&item.id.0).unwrap();
                let reused_tokens = *cached;
                let mut scored = Scored {
                    reused_tokens,
                    ..Scored::default()
                };
                for step in &item.steps {
                    assert!(!step.text.trim().is_empty(), "an empty step was scored");
                    let score = (self.judge)(problem, text, step.text)?;
                    scored.probabilities.push(Some(score));
                    scored.read_tokens += step.tokens.len();
                    text.push_str(step.text);
                    let read = (problem.id.clone(), text.clone());
                    *self.reads.entry(read).or_default() += 1;
                }
                *cached += scored.read_tokens;
                self.tokens_read += scored.read_tokens;
                Ok(scored)
            })
            .collect())
    }

    fn memory(&self) -> Memory {
        Memory {
            used_bytes: 0,
            bytes_per_token: 1,
            capacity_tokens: usize::MAX,
        }
    }
}

/// Answers in the form `The answer is X.`, where `X` and `0X` are equal.
pub(crate) struct Stated;

impl Answers for Stated {
    fn extract(&self, text: &str) -> Option<Answer> {
        let (_, rest) = text.rsplit_once("The answer is ")?;
        rest.split_once('.')
            .map(|(answer, _)| Answer::stated(answer))
    }

    fn class(&self, answer: &str) -> String {
        answer.trim_start_matches('0').to_owned()
    }

    // A script decides where its chains end, so the text is not searched.
    fn is_stated(&self, _: &str, _: &[String], _: Border) -> bool {
        false
    }
}

/// A clock that advances by a millisecond whenever it is read.
#[derive(Default)]
pub(crate) struct Ticking(Cell<u64>);

impl Clock for Ticking {
    fn now(&self) -> Duration {
        self.0.set(self.0.get() + 1);
        Duration::from_millis(self.0.get())
    }
}

pub(crate) fn problems(count: usize) -> Vec<Problem> {
    (0..count)
        .map(|i| Problem {
            id: format!("p{i}"),
            text: format!("What is {i}?"),
            answer: None,
            ..Problem::default()
        })
        .collect()
}

pub(crate) fn beam(n: usize, m: usize) -> SearchConfig {
    SearchConfig {
        n,
        m,
        ..SearchConfig::default()
    }
}

pub(crate) fn best_of(n: usize) -> SearchConfig {
    SearchConfig {
        strategy: StrategyKind::BEST_OF_N,
        n,
        ..SearchConfig::default()
    }
}

/// A scripted generator and a scripted scorer for the same run.
pub(crate) struct Scripted<'a> {
    pub generator: ScriptedGenerator<'a>,
    pub scorer: ScriptedScorer<'a>,
}

impl<'a> Scripted<'a> {
    pub(crate) fn new(
        script: impl Fn(&Place<'_>) -> Said + 'a,
        judge: impl Fn(&Problem, &str, &str) -> f32 + 'a,
    ) -> Self {
        Self {
            generator: ScriptedGenerator::new(script),
            scorer: ScriptedScorer::new(judge),
        }
    }

    /// Makes a run of [`random_said`] and [`random_score`].
    pub(crate) fn random() -> Self {
        Self::new(random_said, random_score)
    }

    pub(crate) fn models(&mut self) -> Models<'_> {
        Models {
            verifier: None,
            generator: &mut self.generator,
            scorer: Some(&mut self.scorer),
            answers: &Stated,
            clock: &StoppedClock,
        }
    }

    /// Runs to the end and returns the results in input order.
    pub(crate) fn solve(
        &mut self,
        config: &SearchConfig,
        problems: Vec<Problem>,
    ) -> (Vec<ProblemResult>, RunSummary) {
        solve(
            &mut self.generator,
            Some(&mut self.scorer),
            config,
            problems,
        )
    }

    /// Asserts that neither model holds a chain any more.
    pub(crate) fn assert_empty(&self) {
        let held = (self.generator.chains_held(), self.scorer.chains_held());
        assert_eq!(held, (0, 0));
    }
}

/// Runs to the end and returns the results in input order.
pub(crate) fn solve(
    generator: &mut ScriptedGenerator<'_>,
    scorer: Option<&mut ScriptedScorer<'_>>,
    config: &SearchConfig,
    problems: Vec<Problem>,
) -> (Vec<ProblemResult>, RunSummary) {
    let models = Models {
        verifier: None,
        generator,
        scorer: scorer.map(|scorer| scorer as &mut dyn Scorer),
        answers: &Stated,
        clock: &StoppedClock,
    };
    let count = problems.len();
    let mut results = Vec::new();
    let summary = run(models, config, problems, &mut |_| (), &mut |result| {
        results.push(result);
        ControlFlow::Continue(())
    })
    .unwrap();
    results.sort_by_key(|result| result.index);
    assert_eq!(results.len(), count);
    assert_eq!(summary.problems, count);
    (results, summary)
}

/// Writes random steps with various lengths, repeated texts and every reason to end.
pub(crate) fn random_said(place: &Place<'_>) -> Said {
    let value = place.draw(1) % 5;
    let mut said = match place.draw(2) % 16 {
        0..=2 if place.depth > 1 => Said::answer(value),
        3 if place.depth > 0 => Said::end(format!("so it is {value}"), Finish::EndOfText),
        4 if place.depth > 2 => Said::end("", Finish::EndOfText),
        5 if place.depth > 1 => Said::end(format!("and {value} and"), Finish::StepCap),
        6 if place.depth > 4 => Said::end("and", Finish::ChainCap),
        _ => Said::step(format!("{value} at {}\n", place.depth)),
    };
    said.tokens = 1 + (place.draw(3) % MAX_STEP as u64) as usize;
    said
}

/// Returns a score that depends only on the problem and the text of the chain.
pub(crate) fn random_score(problem: &Problem, before: &str, step: &str) -> f32 {
    let text = Problem {
        id: problem.id.clone(),
        text: format!("{before}|{step}"),
        answer: None,
        ..Problem::default()
    };
    (text.key() % 1000) as f32 / 1000.0
}

fn pauses_at(mode: DecodeMode) -> Option<usize> {
    match mode {
        DecodeMode::PauseAfter(tokens) => Some(tokens),
        DecodeMode::PauseAtOnce => Some(1),
        DecodeMode::Sample | DecodeMode::Greedy => None,
    }
}
