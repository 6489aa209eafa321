//! The fields that say how tokens are sampled. A search of several chains has settings of its own, which
//! clients' usual values must not replace: at temperature 0, all chains of a beam would be the same.

use beamgen::Settings;
use beamgen::generator::{GeneratorConfig, SamplingSettings};

use crate::fields::Fields;
use crate::refusal::Refusal;

/// The values of a request outside of its object `beamgen`.
#[derive(Debug, Default)]
pub(crate) struct Sampling {
    values: SamplingSettings,
    /// The names of the given fields, which are also the last parts of their settings' keys.
    pub given: Vec<&'static str>,
}

impl Sampling {
    /// # Errors
    /// Returns the refusal of a value of the wrong type, or out of its range.
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
        // A value that will have no effect may be a mistake, too.
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

    /// Sets the setting of a given field.
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

/// Whether the settings of a search keep clients' values of [`Sampling`] out.
pub(crate) fn is_pinned(settings: &Settings) -> bool {
    settings.search.chains() > 1
}
