//! Reads the fields that control sampling. Many clients send fixed values, which must not replace
//! the settings of a search with several chains: at temperature 0, all chains of a beam would be
//! the same.

use beamgen::Settings;
use beamgen::generator::{GeneratorConfig, SamplingSettings};

use crate::fields::Fields;
use crate::refusal::Refusal;

/// The sampling fields of a request, outside of its object `beamgen`.
#[derive(Debug, Default)]
pub(crate) struct Sampling {
    values: SamplingSettings,
    /// The names of the fields in the request. Each is also the last part of its setting's key.
    pub given: Vec<&'static str>,
}

impl Sampling {
    /// Reads and checks the sampling fields of a request.
    ///
    /// # Errors
    /// Returns a refusal of a value with the wrong type or out of range.
    pub(crate) fn read(fields: &mut Fields) -> Result<Self, Refusal> {
        let mut read = Self::default();
        let values = &mut read.values;
        for (key, field) in [
            ("temperature", &mut values.temperature),
            ("top_p", &mut values.top_p),
            ("min_p", &mut values.min_p),
            ("repetition_penalty", &mut values.repetition_penalty),
        ] {
            if let Some(value) = fields.number(key)? {
                *field = Some(value as f32);
                read.given.push(key);
            }
        }
        values.top_k = if fields.is_off("top_k") {
            Some(0)
        } else {
            fields.count("top_k")?
        };
        read.given.extend(values.top_k.map(|_| "top_k"));
        // All values are checked, even those that a search will ignore: an invalid value is a
        // mistake in any case.
        let alone = GeneratorConfig {
            sampling: *values,
            ..GeneratorConfig::default()
        };
        alone.validate().map_err(|error| {
            let key = error.setting().unwrap_or("temperature");
            fields.wrong(key, &error.to_string())
        })?;
        Ok(read)
    }

    /// Copies the value of field `key` to the settings.
    pub(crate) fn apply(&self, key: &str, settings: &mut Settings) {
        let (to, from) = (&mut settings.generator.sampling, &self.values);
        match key {
            "temperature" => to.temperature = from.temperature,
            "top_p" => to.top_p = from.top_p,
            "min_p" => to.min_p = from.min_p,
            "top_k" => to.top_k = from.top_k,
            _ => to.repetition_penalty = from.repetition_penalty,
        }
    }
}

/// Whether a search ignores the sampling fields, because it has several chains.
pub(crate) fn is_pinned(settings: &Settings) -> bool {
    settings.search.chains() > 1
}
