//! Grammars, with the crate `llguidance`: the tokens that a chain may sample next.

use std::sync::Arc;

use beamgen_engine::Tokenizer;
use beamgen_search::{GenError, Grammar};
use llguidance::api::TopLevelGrammar;
use llguidance::toktrie::{ApproximateTokEnv, TokEnv, TokRxInfo, TokTrie};
use llguidance::{JsonCompileOptions, Matcher, ParserFactory};
use serde_json::{Value, json};

use crate::error::Error;
use crate::prompts::Prompt;

/// The white space between the parts of a JSON text. It is limited, since a chain at a high
/// temperature could otherwise write nothing but white space.
const WHITE_SPACE: &str = r"[ \t]{1,8}|[ \t]{0,8}\r?\n[ \t]{0,64}";

/// The most bytes of a token that grammars use. `llguidance` panics at tokens of more than 1024
/// bytes.
const LONGEST: usize = 512;

/// The key with which a schema could change how `llguidance` follows it.
const OPTIONS: &str = "x-guidance";

/// The tokens of a generator, in the form in which grammars need them.
pub(crate) struct Vocabulary(ParserFactory);

impl std::fmt::Debug for Vocabulary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Vocabulary").finish_non_exhaustive()
    }
}

impl Vocabulary {
    pub(crate) fn new(tokenizer: &Tokenizer) -> Result<Self, Error> {
        let tokens = (0..tokenizer.len() as u32).map(|id| {
            let bytes = tokenizer.token_bytes(id);
            // Special tokens are never part of a text. A token without bytes fits no grammar.
            let is_text = !tokenizer.is_special(id)
                && !tokenizer.is_eos(id)
                && bytes.len() <= LONGEST
                // No valid text has this byte, with which `llguidance` marks special tokens.
                && !bytes.contains(&TokTrie::SPECIAL_TOKEN_MARKER);
            if is_text { bytes.to_vec() } else { Vec::new() }
        });
        let tokens: Vec<Vec<u8>> = tokens.collect();
        let ends = tokenizer.eos_ids().iter().copied();
        let ends: Vec<u32> = ends.filter(|&id| (id as usize) < tokens.len()).collect();
        let Some(&end) = ends.first() else {
            return Err(Error::NoEndOfText);
        };
        let trie = TokTrie::from(&TokRxInfo::new(tokens.len() as u32, end), &tokens);
        let trie = trie.with_eos_tokens(&ends);
        Self::of(Arc::new(ApproximateTokEnv::new(trie)))
    }

    fn of(tokens: TokEnv) -> Result<Self, Error> {
        let factory = ParserFactory::new_simple(&tokens);
        let mut factory = factory.map_err(|error| Error::Grammar(first_line(&error)))?;
        factory.quiet();
        // Detailed messages would contain the text of a chain.
        factory.limits_mut().verbose_errors = false;
        Ok(Self(factory))
    }

    /// Compiles a grammar for these tokens.
    ///
    /// # Errors
    /// The schema is invalid or too large, or has a keyword that is not supported.
    pub(crate) fn compile(&self, grammar: &Grammar) -> Result<Constraint, Error> {
        let any_object = json!({"type": "object"});
        let mut schema = match grammar {
            Grammar::JsonObject => any_object,
            Grammar::JsonSchema(Value::Object(members)) => {
                let mut schema = members.clone();
                schema.remove(OPTIONS);
                Value::Object(schema)
            }
            Grammar::JsonSchema(_) => {
                return Err(Error::Grammar("the schema must be a JSON object".into()));
            }
        };
        let options = JsonCompileOptions {
            whitespace_pattern: Some(WHITE_SPACE.into()),
            ..JsonCompileOptions::default()
        };
        options.apply_to(&mut schema);
        let parser = self
            .0
            .create_parser(TopLevelGrammar::from_json_schema(schema));
        let parser = parser.map_err(|error| Error::Grammar(first_line(&error)))?;
        let mut constraint = Constraint {
            matcher: Matcher::new(Ok(parser)),
            allowed: Arc::default(),
        };
        constraint.find_allowed().map_err(Error::Grammar)?;
        Ok(constraint)
    }
}

/// The state of a grammar after a text.
pub(crate) struct Constraint {
    matcher: Matcher,
    /// The tokens that may come next, one bit for each. Forks share the list until one gets a
    /// token.
    allowed: Arc<Vec<u32>>,
}

impl std::fmt::Debug for Constraint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let allowed: u32 = self.allowed.iter().map(|word| word.count_ones()).sum();
        f.debug_struct("Constraint")
            .field("allowed", &allowed)
            .finish_non_exhaustive()
    }
}

impl Constraint {
    /// Returns the same state for a second chain with the same text.
    pub(crate) fn fork(&self) -> Self {
        Self {
            // A plain clone would share the parser's state with the original.
            matcher: self.matcher.deep_clone(),
            allowed: Arc::clone(&self.allowed),
        }
    }

    /// Returns the state after the given steps of a problem, starting with an empty text.
    ///
    /// # Errors
    /// The steps do not follow the grammar, or the prompt opens a thought, to which it does not
    /// apply.
    pub(crate) fn after(&self, prompt: &Prompt) -> Result<Self, GenError> {
        if let Some(tag) = &prompt.thought {
            return Err(GenError::Settings(format!(
                "generator setting `grammar` would apply to the thought that the chat template opens with {tag}: \
                 leave it out, or set `thinking.budget` to 0"
            )));
        }
        let mut place = self.fork();
        for &token in prompt.given_ids() {
            place.push(token).map_err(|reason| {
                GenError::Settings(format!(
                    "the given text does not fit generator setting `grammar`: {reason}"
                ))
            })?;
        }
        Ok(place)
    }

    /// Returns the tokens that may come next, one bit for each.
    pub(crate) fn allowed(&self) -> &[u32] {
        &self.allowed
    }

    /// Advances by a token that does not end the text.
    ///
    /// # Errors
    /// The token does not follow the grammar, or the next tokens cannot be found with a limited
    /// effort.
    pub(crate) fn push(&mut self, token: u32) -> Result<(), String> {
        let consumed = self.matcher.consume_token(token);
        consumed.map_err(|error| first_line(&error))?;
        self.find_allowed()
    }

    fn find_allowed(&mut self) -> Result<(), String> {
        let allowed = self.matcher.compute_mask_or_eos();
        let allowed = allowed.map_err(|error| first_line(&error))?;
        self.allowed = Arc::new(allowed.as_slice().to_vec());
        Ok(())
    }
}

/// Checks whether a grammar can be compiled, without a generator.
///
/// # Errors
/// The schema is invalid or too large, or has a keyword that is not supported.
pub fn check_grammar(grammar: &Grammar) -> Result<(), Error> {
    Vocabulary::of(ApproximateTokEnv::single_byte_env())?
        .compile(grammar)
        .map(drop)
}

fn first_line(error: &impl std::fmt::Display) -> String {
    let message = error.to_string();
    message.lines().next().unwrap_or_default().to_owned()
}
