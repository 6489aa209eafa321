//! The caches of prompts and chains, and the tokens to fill a cache again after it was forgotten.

use std::collections::{BTreeMap, BTreeSet};

use beamgen_search::{Prefix, ScoreId};

use crate::engines::{Engines, Seq};

/// The prompt of a problem, shared by its chains.
#[derive(Debug)]
pub(crate) struct Prompt {
    pub text: String,
    pub tokens: Vec<u32>,
    pub seq: Seq,
    /// Whether the prompt was read into `seq`; otherwise `seq` is empty.
    pub read: bool,
    /// Whether the prompt was forgotten, so that the next read is not the first one.
    pub forgotten: bool,
    chains: usize,
    used: u64,
}

#[derive(Debug)]
pub(crate) struct Chain {
    pub prompt: u64,
    /// The chain's tokens after the prompt.
    pub tokens: Prefix,
    /// Steps scored so far.
    pub steps: usize,
    /// The lowest score of the steps so far.
    pub lowest: f32,
    /// The cache of prompt and tokens; `None` before the first step is scored, or if it was
    /// forgotten.
    pub seq: Option<Seq>,
    used: u64,
}

#[derive(Debug, Default)]
pub(crate) struct Chains {
    // Ordered maps: if two caches are equally old, hashing must not decide which is forgotten.
    prompts: BTreeMap<u64, Prompt>,
    chains: BTreeMap<ScoreId, Chain>,
    next: u64,
    clock: u64,
}

impl Chains {
    fn next(&mut self) -> u64 {
        // Prompts and chains are numbered together, so a prompt and a chain never have the same
        // number.
        self.next += 1;
        self.next
    }

    pub(crate) fn open(
        &mut self,
        text: String,
        tokens: Vec<u32>,
        engines: &mut Engines,
    ) -> ScoreId {
        let id = self.next();
        let prompt = Prompt {
            text,
            tokens,
            seq: engines.create(),
            read: false,
            forgotten: false,
            chains: 1,
            used: self.clock,
        };
        self.prompts.insert(id, prompt);
        self.insert(Chain {
            prompt: id,
            tokens: Prefix::default(),
            steps: 0,
            lowest: f32::INFINITY,
            seq: None,
            used: self.clock,
        })
    }

    fn insert(&mut self, chain: Chain) -> ScoreId {
        let id = ScoreId(self.next());
        self.chains.insert(id, chain);
        id
    }

    pub(crate) fn fork(&mut self, id: ScoreId, engines: &mut Engines) -> ScoreId {
        let chain = self.chain(id);
        let copy = Chain {
            prompt: chain.prompt,
            tokens: chain.tokens.clone(),
            steps: chain.steps,
            lowest: chain.lowest,
            seq: chain.seq.map(|seq| engines.fork(seq)),
            used: chain.used,
        };
        self.prompt_mut(copy.prompt).chains += 1;
        self.insert(copy)
    }

    pub(crate) fn release(&mut self, id: ScoreId, engines: &mut Engines) {
        let chain = self.chains.remove(&id).expect("no such scored chain");
        if let Some(seq) = chain.seq {
            engines.free(seq);
        }
        let prompt = self.prompt_mut(chain.prompt);
        prompt.chains -= 1;
        if prompt.chains == 0 {
            engines.free(prompt.seq);
            self.prompts.remove(&chain.prompt);
        }
    }

    /// # Panics
    /// If the chain was released or is another scorer's: a mistake of the caller.
    pub(crate) fn chain(&self, id: ScoreId) -> &Chain {
        self.chains.get(&id).expect("no such scored chain")
    }

    pub(crate) fn chain_mut(&mut self, id: ScoreId) -> &mut Chain {
        self.chains.get_mut(&id).expect("no such scored chain")
    }

    pub(crate) fn prompt(&self, id: u64) -> &Prompt {
        &self.prompts[&id]
    }

    pub(crate) fn prompt_mut(&mut self, id: u64) -> &mut Prompt {
        self.prompts.get_mut(&id).expect("a chain holds its prompt")
    }

    /// Marks a chain and its prompt as used now.
    pub(crate) fn touch(&mut self, id: ScoreId) {
        self.clock += 1;
        let clock = self.clock;
        let chain = self.chain_mut(id);
        chain.used = clock;
        let prompt = chain.prompt;
        // A prompt is as recent as the most recent of its chains.
        self.prompt_mut(prompt).used = clock;
    }

    /// Forgets the least recently used cache that none of `pinned` needs: the cache of a chain or,
    /// if there is none, that of a prompt. Returns whether a cache was forgotten.
    pub(crate) fn forget_oldest(
        &mut self,
        pinned: &BTreeSet<ScoreId>,
        engines: &mut Engines,
    ) -> bool {
        let oldest = self
            .chains
            .iter_mut()
            .filter(|(id, chain)| chain.seq.is_some() && !pinned.contains(id))
            .min_by_key(|(_, chain)| chain.used);
        if let Some(seq) = oldest.and_then(|(_, chain)| chain.seq.take()) {
            engines.free(seq);
            return true;
        }
        // Prompts come last, because every chain of a problem forks its prompt's cache.
        let needed: BTreeSet<u64> = pinned.iter().map(|id| self.chains[id].prompt).collect();
        let oldest = self
            .prompts
            .iter_mut()
            .filter(|(id, prompt)| prompt.read && !needed.contains(id))
            .min_by_key(|(_, prompt)| prompt.used);
        let Some((_, prompt)) = oldest else {
            return false;
        };
        // Emptied, not freed: when the prompt is read again, chains fork the same sequence.
        engines.truncate(prompt.seq, 0);
        (prompt.read, prompt.forgotten) = (false, true);
        true
    }
}
