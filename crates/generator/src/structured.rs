//! Texts that follow a grammar: the tokens that a chain may sample next, from the crate
//! `llguidance`.

use std::sync::Arc;

use beamgen_engine::Tokenizer;
use beamgen_search::{GenError, Grammar};
use llguidance::api::TopLevelGrammar;
use llguidance::toktrie::{ApproximateTokEnv, TokEnv, TokRxInfo, TokTrie};
use llguidance::{JsonCompileOptions, Matcher, ParserFactory};
use serde_json::{Value, json};

use crate::error::Error;
use crate::prompts::Prompt;

/// White space between the parts of a value. Unbounded white space would let a chain at a high
/// temperature write nothing else.
const WHITE_SPACE: &str = r"[ \t]{1,8}|[ \t]{0,8}\r?\n[ \t]{0,64}";

/// The most bytes of a token that is used. The crate panics at tokens of more than 1024.
const LONGEST: usize = 512;

/// The key of a schema with which it could change how it is followed.
const OPTIONS: &str = "x-guidance";

/// The tokens of a generator, in the form in which grammars are compiled for them.
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
            // Special tokens are never part of a text, and a token without bytes is in no grammar.
            let is_text = !tokenizer.is_special(id)
                && !tokenizer.is_eos(id)
                && bytes.len() <= LONGEST
                // No text has this byte, with which the crate marks special tokens.
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
        // Messages with the state of a parser would have the text of a chain in them.
        factory.limits_mut().verbose_errors = false;
        Ok(Self(factory))
    }

    /// Compiles a grammar.
    ///
    /// # Errors
    /// The schema is wrong, too large, or has a keyword that cannot be followed.
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

/// The place of a chain's text in its grammar.
pub(crate) struct Constraint {
    matcher: Matcher,
    /// The tokens that may come next, one bit each. Forks share it until their next token.
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
    /// Returns the place of a second chain with the same text.
    pub(crate) fn fork(&self) -> Self {
        Self {
            // A plain clone would share the parser's memory with its original.
            matcher: self.matcher.deep_clone(),
            allowed: Arc::clone(&self.allowed),
        }
    }

    /// Returns the place after the steps that a problem gives, from the beginning of the text.
    ///
    /// # Errors
    /// The steps do not fit, or the prompt opens a thought, whose text has no such form.
    pub(crate) fn after(&self, prompt: &Prompt) -> Result<Self, GenError> {
        if let Some(tag) = prompt.thought {
            return Err(GenError::Settings(format!(
                "generator setting `grammar` would apply to the thought that the chat template opens with {tag}: \
                 leave it out, or use a model that answers without a thought"
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

    /// The tokens that may come next, one bit each.
    pub(crate) fn allowed(&self) -> &[u32] {
        &self.allowed
    }

    /// Moves on by a token, which is not an end of the text.
    ///
    /// # Errors
    /// The token does not fit, or the grammar needs more work at this place than is allowed.
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

/// Checks a grammar without a generator.
///
/// # Errors
/// The schema is wrong, too large, or has a keyword that cannot be followed.
pub fn check_grammar(grammar: &Grammar) -> Result<(), Error> {
    Vocabulary::of(ApproximateTokEnv::single_byte_env())?
        .compile(grammar)
        .map(drop)
}

fn first_line(error: &impl std::fmt::Display) -> String {
    let message = error.to_string();
    message.lines().next().unwrap_or_default().to_owned()
}
