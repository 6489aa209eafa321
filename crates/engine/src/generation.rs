//! Reads the sampling settings that a checkpoint's authors recommend (`generation_config.json`).

use serde_json::Value;

use crate::json_file::JsonFile;
use crate::{Error, SamplingParams};

/// [`SamplingParams`] whose fields may be unset (`None`), so that several sources can be combined.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SamplingSettings {
    /// See [`SamplingParams::temperature`].
    pub temperature: Option<f32>,
    /// See [`SamplingParams::top_k`].
    pub top_k: Option<usize>,
    /// See [`SamplingParams::top_p`].
    pub top_p: Option<f32>,
    /// See [`SamplingParams::min_p`].
    pub min_p: Option<f32>,
    /// See [`SamplingParams::repetition_penalty`].
    pub repetition_penalty: Option<f32>,
}

impl SamplingSettings {
    /// Returns these settings; `others` replaces each one that is unset.
    #[must_use]
    pub fn or(self, others: Self) -> Self {
        Self {
            temperature: self.temperature.or(others.temperature),
            top_k: self.top_k.or(others.top_k),
            top_p: self.top_p.or(others.top_p),
            min_p: self.min_p.or(others.min_p),
            repetition_penalty: self.repetition_penalty.or(others.repetition_penalty),
        }
    }

    /// Returns these settings; [`SamplingParams::default`], the model's own distribution, replaces
    /// each one that is unset.
    #[must_use]
    pub fn params(self) -> SamplingParams {
        let plain = SamplingParams::default();
        SamplingParams {
            temperature: self.temperature.unwrap_or(plain.temperature),
            top_k: self.top_k.unwrap_or(plain.top_k),
            top_p: self.top_p.unwrap_or(plain.top_p),
            min_p: self.min_p.unwrap_or(plain.min_p),
            repetition_penalty: self.repetition_penalty.unwrap_or(plain.repetition_penalty),
        }
    }
}

/// The contents of `generation_config.json`, except the end-of-text tokens.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GenerationDefaults {
    /// The file's sampling settings. If the file does not set `do_sample`, it describes greedy
    /// decoding, and only its repetition penalty is used.
    pub sampling: SamplingSettings,
    /// One line for each field that would change the text and that this engine ignores.
    pub notes: Vec<String>,
}

/// Fields that change the text, with the value at which they do nothing. null, false, 0 and an
/// empty list do nothing either.
const NOT_FOLLOWED: [(&str, f64); 19] = [
    ("bad_words_ids", 0.0),
    ("begin_suppress_tokens", 0.0),
    ("diversity_penalty", 0.0),
    ("encoder_no_repeat_ngram_size", 0.0),
    ("encoder_repetition_penalty", 1.0),
    ("epsilon_cutoff", 0.0),
    ("eta_cutoff", 0.0),
    ("exponential_decay_length_penalty", 0.0),
    ("forced_bos_token_id", 0.0),
    ("forced_eos_token_id", 0.0),
    ("guidance_scale", 1.0),
    ("min_length", 0.0),
    ("min_new_tokens", 0.0),
    ("no_repeat_ngram_size", 0.0),
    ("num_beams", 1.0),
    ("penalty_alpha", 0.0),
    ("sequence_bias", 0.0),
    ("suppress_tokens", 0.0),
    ("typical_p", 1.0),
];

impl GenerationDefaults {
    pub(crate) fn read(file: &JsonFile) -> Result<Self, Error> {
        let mut sampling = SamplingSettings {
            repetition_penalty: file.number("repetition_penalty")?,
            ..SamplingSettings::default()
        };
        // `transformers` ignores these settings unless `do_sample` is true.
        if file.value.get("do_sample") == Some(&Value::Bool(true)) {
            sampling.temperature = file.number("temperature")?;
            sampling.top_k = file.count("top_k")?;
            sampling.top_p = file.number("top_p")?;
            sampling.min_p = file.number("min_p")?;
        }
        // The values are checked here, so that the error names the file and not a setting that the
        // user never gave.
        if let Err(Error::Sampling {
            field, expected, ..
        }) = sampling.params().validate()
        {
            return Err(file.bad(field, expected));
        }
        let notes = NOT_FOLLOWED.iter().filter_map(|(field, neutral)| {
            let value = file.value.get(field)?;
            let does_nothing = match value {
                Value::Null | Value::Bool(false) => true,
                Value::Array(list) => list.is_empty(),
                value => value.as_f64().is_some_and(|x| x == 0.0 || x == *neutral),
            };
            let path = file.path.display();
            (!does_nothing).then(|| format!("{path}: `{field}` = {value} is not followed"))
        });
        Ok(Self {
            sampling,
            notes: notes.collect(),
        })
    }
}
