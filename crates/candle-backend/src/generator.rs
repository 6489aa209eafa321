//! A generator that runs a model of `candle-transformers`.

use beamgen_engine::{SampleRequest, Sampled, Sampler};
use beamgen_generator::ChainBook;
use beamgen_search::{
    Cause, ChainId, GenError, Generator, GeneratorConfig, Memory, OpenedProblem, PassOutput,
    Problem, Source, StepPlan,
};

use crate::decoder::Decoder;
use crate::error::{Error, first_line};

/// A generator whose model is one of `candle-transformers`.
pub struct CandleGenerator {
    /// A model that has read no token; the model of each problem is forked from it.
    pub(crate) model: Box<dyn Decoder>,
    pub(crate) name: String,
    pub(crate) book: ChainBook<Cache>,
    pub(crate) sampler: Sampler,
    pub(crate) bytes_per_token: u64,
    pub(crate) capacity_tokens: usize,
}

/// The tokens of a chain, and the model that has read them.
pub(crate) struct Cache {
    /// The tokens of the prompt and of all steps so far.
    tokens: Vec<u32>,
    /// A model that has read the first `read` of `tokens`.
    decoder: Box<dyn Decoder>,
    read: usize,
    /// The number of tokens for which the chain has reserved memory: its tokens, and the longest
    /// rest of its step.
    reserved: usize,
}

impl std::fmt::Debug for CandleGenerator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CandleGenerator")
            .field("model", &self.name)
            .field("chains", &self.book.chains().count())
            .finish_non_exhaustive()
    }
}

impl CandleGenerator {
    fn reserved(&self) -> usize {
        let chains = self.book.chains();
        chains.map(|chain| chain.cache.reserved).sum()
    }

    /// Lets the chain's model read the tokens after `read`, and samples the next token.
    fn sample(&mut self, id: ChainId) -> Result<Sampled, candle_core::Error> {
        let tokens = self.book.plans().tokenizer.len();
        let cache = self.book.cache(id).expect("active chains exist");
        let logits = cache.decoder.read(&cache.tokens[cache.read..])?;
        cache.read = cache.tokens.len();
        // A model may have more logits than the tokenizer has tokens; ids beyond are not sampled.
        let logits = &logits[..tokens];
        let chain = self.book.chain(id);
        let (params, draw) = chain.sampling();
        let sampled = self.sampler.sample_one(SampleRequest {
            logits,
            history: &chain.cache.tokens,
            params,
            edits: chain.edits(),
            draw,
        });
        if let Err(error) = Sampled::check(&[sampled]) {
            return Err(candle_core::Error::msg(error.to_string()));
        }
        if let Some(count) = chain.plan.config.logprobs {
            let mut likeliest = Vec::new();
            self.sampler.top_log_probs(logits, count, &mut likeliest);
            self.book.keep_logprobs(id, sampled, &likeliest);
        }
        Ok(sampled)
    }
}

impl Generator for CandleGenerator {
    /// Reads the prompt except its last token. Each chain reads that token itself, since the logits
    /// after it give the chain's first token.
    fn open(
        &mut self,
        problem: &Problem,
        key: u64,
        settings: &GeneratorConfig,
    ) -> Result<OpenedProblem, GenError> {
        let (model, name) = (&self.model, &self.name);
        self.book.open(problem, key, settings, |tokens| {
            let mut decoder = model.fork();
            // The last token is left for the first step, which needs the logits after it.
            let (reserved, read) = (tokens.len(), tokens.len().saturating_sub(1));
            if read > 0 {
                decoder
                    .read(&tokens[..read])
                    .map_err(|error| lost(name, &error))?;
            }
            Ok(Cache {
                tokens,
                decoder,
                read,
                reserved,
            })
        })
    }

    fn try_start(&mut self, source: Source, plan: StepPlan) -> Option<ChainId> {
        let (Source::Itself(from) | Source::ForkOf(from)) = source;
        // A step starts only if memory suffices for its longest form: it could not be stopped
        // later.
        let state = self.book.next_state(from, plan);
        let chain = self.book.chain(from);
        let longest = chain.cache.tokens.len() + chain.longest_rest();
        let more = match source {
            Source::Itself(_) => longest.saturating_sub(chain.cache.reserved),
            Source::ForkOf(_) => longest,
        };
        if self.reserved() + more > self.capacity_tokens {
            return None;
        }
        let id = self.book.start(source, state, |cache| Cache {
            tokens: cache.tokens.clone(),
            decoder: cache.decoder.fork(),
            ..*cache
        });
        self.book.cache(id)?.reserved = longest;
        Some(id)
    }

    fn release(&mut self, chain: ChainId) -> usize {
        self.book.release(chain).unfinished()
    }

    /// Samples one token for each chain. Each chain has its own model, so chains are read one by
    /// one.
    fn pass(&mut self) -> Result<PassOutput, GenError> {
        let mut steps = self.book.close_leftovers();
        for step in &steps {
            let cache = self.book.cache(step.chain).expect("active chains exist");
            cache.reserved = cache.tokens.len();
        }
        self.book.drop_idle();
        for id in self.book.active().to_vec() {
            let sampled = self.sample(id).map_err(|error| lost(&self.name, &error))?;
            let (cache, added) = self.book.push(id, sampled);
            // The tokens are read when the chain's next token is sampled.
            cache.tokens.extend(added.tokens(sampled));
            if added.step.is_some() {
                // If the step ended early, the memory reserved for the rest of it is free again.
                cache.reserved = cache.tokens.len();
            }
            steps.extend(added.step);
        }
        self.book.drop_idle();
        Ok(PassOutput {
            steps,
            failed: self.book.take_failed(),
            retried: Vec::new(),
        })
    }

    fn active(&self) -> usize {
        self.book.active().len()
    }

    fn close_thoughts(&mut self, chains: &[ChainId]) {
        self.book.close_thoughts(chains);
    }

    fn memory(&self) -> Memory {
        Memory {
            used_bytes: self.reserved() as u64 * self.bytes_per_token,
            bytes_per_token: self.bytes_per_token,
            capacity_tokens: self.capacity_tokens,
        }
    }

    fn check(&self, problem: &Problem) -> Result<(), GenError> {
        self.book.plans().check(problem)
    }

    fn resolve(&self, settings: &GeneratorConfig) -> GeneratorConfig {
        self.book.plans().resolve(settings)
    }
}

fn lost(model: &str, error: &candle_core::Error) -> GenError {
    GenError::Lost(Cause::new(Error::Candle {
        model: model.to_owned(),
        reason: first_line(error),
    }))
}
