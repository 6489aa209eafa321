//! Replaced-token detection on right solutions (ELECTRA, arXiv 2003.10555), the common start of the reward models.
//! About a tenth of the tokens are wrong here, but a sampled chain has only one labelled wrong token. The model thus
//! learns faster to compare each token with the expected one. No sampled chains are needed.

use super::config::TrainConfig;
use super::lm::{length, of_size, people};
use super::stage::Schedule;
use super::tokenizer::{BEGIN, encode, encode_chain};
use crate::Result;
use crate::tune::Example;
use beamgen_world::{self as world, MAX_NUMBER, NAMES, Split};
use rand::Rng;
use tokenizers::Tokenizer;

/// The probability that a replaceable token is replaced.
const REPLACED: f64 = 0.12;
/// The weight of the label of an unchanged token. A replaced token has weight 1, because it is rarer.
const KEPT: f32 = 0.3;

/// Classes of tokens. A token is only replaced by a token of its class, so that a replacement is wrong but plausible.
pub struct Classes {
    numbers: Vec<u32>,
    /// Four classes: names inside a line, names at the start of a line, arithmetic signs, the words "more" and
    /// "fewer".
    others: [Vec<u32>; 4],
}

impl Classes {
    /// Collects the classes from the words of the world.
    ///
    /// # Errors
    /// The tokenizer fails.
    pub fn new(tok: &Tokenizer) -> Result<Self> {
        let numbers = first_tokens(tok, (0..=MAX_NUMBER).map(|n| format!(" {n}")))?;
        let others = [
            first_tokens(tok, NAMES.map(|name| format!(" {name}")))?,
            first_tokens(tok, NAMES.map(str::to_owned))?,
            first_tokens(tok, [" +", " -", " *", " /"].map(str::to_owned))?,
            first_tokens(tok, [" more", " fewer"].map(str::to_owned))?,
        ];
        Ok(Self { numbers, others })
    }

    /// Returns a random replacement of the token `id` after the text `context`; `None` if the token belongs to no
    /// class or the sampled token is `id`.
    fn replacement(&self, rng: &mut impl Rng, id: u32, context: &[u32]) -> Option<u32> {
        let new = if let Some(n) = self.numbers.iter().position(|x| *x == id) {
            // Half of the numbers change by 1, 2 or 10, like a mistake in arithmetic.
            if rng.random_bool(0.5) {
                let near = n as i64 + [-10, -10, -2, -1, 1, 2, 10][rng.random_range(0..7)];
                self.numbers[near.clamp(1, MAX_NUMBER) as usize]
            } else {
                other_of(rng, &self.numbers, id, context)
            }
        } else {
            let class = self.others.iter().find(|class| class.contains(&id))?;
            other_of(rng, class, id, context)
        };
        (new != id).then_some(new)
    }
}

/// Returns the token of each word; the tokenizer has every word of the world as a single token.
fn first_tokens(tok: &Tokenizer, words: impl IntoIterator<Item = String>) -> Result<Vec<u32>> {
    words
        .into_iter()
        .map(|word| Ok(encode(tok, &word)?[0]))
        .collect()
}

/// Samples a token of `class`. Half of the time the token occurs in `context`: the model then has to check the place
/// of a token, not only its presence.
fn other_of(rng: &mut impl Rng, class: &[u32], id: u32, context: &[u32]) -> u32 {
    let near: Vec<u32> = context
        .iter()
        .copied()
        .filter(|c| *c != id && class.contains(c))
        .collect();
    if !near.is_empty() && rng.random_bool(0.5) {
        near[rng.random_range(0..near.len())]
    } else {
        class[rng.random_range(0..class.len())]
    }
}

/// The rule for the label at a line's newline, which is never replaced itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LineEnd {
    /// The newline is judged as a token: always right, since newlines are never replaced.
    Token,
    /// The newline is judged like a PRM's step end: wrong if any token of the line was replaced.
    Line,
}

/// Makes a batch of right solutions with some tokens replaced and a label at every token of a solution.
///
/// # Errors
/// The tokenizer fails.
pub fn batch(
    tok: &Tokenizer,
    classes: &Classes,
    config: &TrainConfig,
    schedule: &Schedule,
    step: usize,
    line_end: LineEnd,
) -> Result<Vec<Example>> {
    let mut rng = world::rng(config.seed, 6, step);
    let n = people(&mut rng, config.difficulty, 1, 1);
    let d = of_size(config.difficulty, n);
    let mut examples = Vec::new();
    for _ in 0..(schedule.batch_tokens / length(n)).max(1) {
        let p = world::problem(&mut rng, d, Split::Train);
        let chain = encode_chain(tok, &p, &p.solution(), false)?;
        let mut ids = chain.ids.clone();
        for id in &mut ids[chain.prompt..] {
            if rng.random_bool(REPLACED)
                && let Some(new) = classes.replacement(&mut rng, *id, &chain.ids)
            {
                *id = new;
            }
        }
        let mut example = Example::of(ids);
        for (t, right) in chain.ids.iter().enumerate().skip(chain.prompt) {
            // The language-model target is the original token, even at a replaced one.
            example.predict(t, *right);
            let line = chain.lines.iter().find(|l| l.end == t + 1);
            let judged = match (line_end, line) {
                (LineEnd::Line, Some(line)) => line.clone(),
                _ => t..t + 1,
            };
            let is_right = example.ids[judged.clone()] == chain.ids[judged];
            example.judge(t, is_right, if is_right { KEPT } else { 1.0 });
        }
        examples.push(example);
    }
    Ok(examples)
}

/// The probability that a sum gets a wrong result, so that right and wrong are about equally frequent.
const WRONG_SUMS: f64 = 0.4;

/// Makes a batch of bare sums, some with a wrong result, with labels at results and line ends. Sums have a result in
/// every seven tokens, but problems only one in 24.
///
/// # Errors
/// The tokenizer fails.
pub fn sums(
    tok: &Tokenizer,
    classes: &Classes,
    seed: u64,
    step: usize,
    schedule: &Schedule,
) -> Result<Vec<Example>> {
    const SUMS: usize = 16;
    let mut rng = world::rng(seed, 8, step);
    let mut examples = Vec::new();
    for _ in 0..(schedule.batch_tokens / (SUMS * 7 + 1)).max(1) {
        let mut example = Example::of(encode(tok, BEGIN)?);
        for _ in 0..SUMS {
            let ids = &mut example.ids;
            ids.extend(encode(tok, &format!("{}\n", world::sum(&mut rng)))?);
            // A line ends with three tokens: result, full stop, newline.
            let (result, end) = (ids.len() - 3, ids.len() - 1);
            let right = ids[result];
            if rng.random_bool(WRONG_SUMS)
                && let Some(wrong) = classes.replacement(&mut rng, right, ids)
            {
                ids[result] = wrong;
            }
            let is_right = ids[result] == right;
            example.predict(result, right);
            example.judge(result, is_right, 1.0);
            example.judge(end, is_right, 1.0);
        }
        examples.push(example);
    }
    Ok(examples)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tune::Rows;
    use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};

    #[test]
    fn replacements_stay_in_their_class_and_differ() {
        let tok = crate::abacus::tokenizer::train().unwrap();
        let classes = Classes::new(&tok).unwrap();
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let id = |s: &str| encode(&tok, s).unwrap()[0];
        let context = [id(" 34"), id(" 8"), id(" Mia"), id(" Leo")];
        for _ in 0..200 {
            let n = classes.replacement(&mut rng, id(" 34"), &context);
            assert!(n.is_none_or(|n| n != id(" 34") && classes.numbers.contains(&n)));
            let m = classes.replacement(&mut rng, id(" +"), &context);
            assert!(m.is_none_or(|m| m != id(" +") && classes.others[2].contains(&m)));
            assert_eq!(classes.replacement(&mut rng, id(" has"), &context), None);
        }
    }

    #[test]
    fn a_sum_is_labelled_wrong_where_its_result_is() {
        let tok = crate::abacus::tokenizer::train().unwrap();
        let classes = Classes::new(&tok).unwrap();
        let schedule = crate::abacus::config::TrainConfig::quick().detector;
        let batch = sums(&tok, &classes, 0, 0, &schedule).unwrap();
        let (mut right, mut wrong) = (0, 0);
        let pairs = batch.iter().flat_map(|example| {
            let pairs = example.labels.chunks(2);
            pairs.map(|pair| (&example.ids, pair))
        });
        for (ids, pair) in pairs {
            let [result, end] = pair else {
                panic!("a result and a line end");
            };
            let label = result.right;
            assert_eq!((end.row, end.right), (result.row + 2, label));
            let (from, to) = (result.row as usize - 4, end.row as usize);
            let text = tok.decode(&ids[from..to], false).unwrap();
            let words: Vec<&str> = text.trim_end_matches('.').split_whitespace().collect();
            let [x, sign, y, "=", z] = words[..] else {
                panic!("{text:?} is not a sum");
            };
            let n = |s: &str| s.parse::<i64>().unwrap();
            let truth = match sign {
                "+" => n(x) + n(y),
                "-" => n(x) - n(y),
                "*" => n(x) * n(y),
                _ => n(x) / n(y),
            };
            assert_eq!(label == 1.0, truth == n(z), "{text:?}");
            right += usize::from(label == 1.0);
            wrong += usize::from(label == 0.0);
        }
        assert!(
            right > wrong && wrong > right / 4,
            "{right} right, {wrong} wrong"
        );
    }

    #[test]
    fn a_line_end_is_labelled_with_its_line_only_when_asked_for() {
        let tok = crate::abacus::tokenizer::train().unwrap();
        let classes = Classes::new(&tok).unwrap();
        let config = crate::abacus::config::TrainConfig::quick();
        let labels = |line_end| {
            let batch = batch(&tok, &classes, &config, &config.detector, 0, line_end).unwrap();
            let rows = Rows::of(batch.iter());
            (rows.ids, rows.labels)
        };
        let (ids, by_token) = labels(LineEnd::Token);
        let (same, by_line) = labels(LineEnd::Line);
        assert_eq!(ids, same);
        let newline = encode(&tok, "\n").unwrap()[0];
        // True if a token after the last newline was replaced.
        let mut wrong = false;
        let mut wrong_ends = 0;
        for (by_token, by_line) in by_token.iter().zip(&by_line) {
            let (token_label, line_label) = (by_token.right, by_line.right);
            if ids[by_token.row as usize] == newline {
                assert_eq!((token_label, line_label == 0.0), (1.0, wrong));
                wrong_ends += usize::from(wrong);
                wrong = false;
            } else {
                assert_eq!(token_label, line_label);
                wrong |= token_label == 0.0;
            }
        }
        assert!(wrong_ends > 0);
    }
}
