//! Reads the rotary embedding from a model's configuration.

use super::families::Family;
use super::fields::{Fields, MAX_SIZE};
use super::rope::{Rope, RopeScaling};
use crate::Error;

/// Reads the rotation, and returns it with the most positions of a sequence. The older field
/// `rope_scaling` has priority over `rope_parameters` (of transformers 5).
pub(super) fn read(
    config: &Fields<'_>,
    family: &Family,
    head_dim: usize,
) -> Result<(Rope, usize), Error> {
    let max_position_embeddings = config.size("max_position_embeddings")?;
    let object = match config.object("rope_scaling")? {
        Some(object) => Some(object),
        None => config.object("rope_parameters")?,
    };
    let theta = match &object {
        Some(object) if object.get("rope_theta").is_some() => theta(object)?,
        _ => theta(config)?,
    };
    let partial = match &object {
        Some(object) if object.get("partial_rotary_factor").is_some() => {
            partial(object, family, head_dim)?
        }
        _ => partial(config, family, head_dim)?,
    };
    let scaling = match &object {
        Some(object) => scaling(config, object, family, max_position_embeddings)?,
        None => RopeScaling::None,
    };
    let rope = Rope {
        theta: theta.unwrap_or(10_000.0),
        partial_rotary_factor: partial.unwrap_or(1.0),
        scaling,
    };
    let context = rope.context(max_position_embeddings);
    match &object {
        // A factor may push the context beyond the 32-bit positions.
        Some(object) if context > MAX_SIZE => {
            Err(object.bad("factor", "a context of 2^30 at most"))
        }
        _ => Ok((rope, context)),
    }
}

fn theta(fields: &Fields<'_>) -> Result<Option<f64>, Error> {
    // YaRN divides by the logarithm of theta, which is 0 for 1.
    fields.optional_number_if("rope_theta", "a number above 1", |x| {
        x.is_finite() && x > 1.0
    })
}

fn partial(fields: &Fields<'_>, family: &Family, head_dim: usize) -> Result<Option<f64>, Error> {
    let field = "partial_rotary_factor";
    let given = fields.optional_number_if(field, "a share of the head, at most 1", |x| {
        x * head_dim as f64 >= 1.0 && x <= 1.0
    });
    match given? {
        Some(x) if x < 1.0 && !family.partial_rotation => {
            Err(fields.unsupported(field, "this family turns whole heads"))
        }
        x => Ok(x),
    }
}

fn scaling(
    config: &Fields<'_>,
    object: &Fields<'_>,
    family: &Family,
    max_position_embeddings: usize,
) -> Result<RopeScaling, Error> {
    let field = if object.get("rope_type").is_some() {
        "rope_type"
    } else {
        "type"
    };
    let kind = object.optional_string(field)?.unwrap_or("default");
    if kind != "default" && !family.scaled_rotation {
        return Err(object.unsupported(field, "this family has only the default rotation here"));
    }
    let known: &[&str] = match kind {
        "default" => &[],
        "linear" | "dynamic" => &["factor"],
        "llama3" => &[
            "factor",
            "low_freq_factor",
            "high_freq_factor",
            "original_max_position_embeddings",
        ],
        "yarn" => &[
            "factor",
            "original_max_position_embeddings",
            "attention_factor",
            "beta_fast",
            "beta_slow",
            "mscale",
            "mscale_all_dim",
            "truncate",
        ],
        _ => {
            let supported = "default, linear, dynamic, llama3 and yarn";
            return Err(object.unsupported(field, supported));
        }
    };
    let always = ["rope_type", "type", "rope_theta", "partial_rotary_factor"];
    // An unknown key may change the rotation in a way that this engine does not implement.
    for key in object.map.keys() {
        if !always.contains(&key.as_str()) && !known.contains(&key.as_str()) {
            let supported = format!("a {kind} rotation has no such key");
            return Err(object.unsupported(key, &supported));
        }
    }

    let positive = |field: &str| {
        object.optional_number_if(field, "a positive number", |x| x.is_finite() && x > 0.0)
    };
    let required = |field: &str| positive(field)?.ok_or_else(|| object.missing(field));
    // The field next to the object has priority over the field inside it. If both are absent, the
    // whole context is the original one.
    let original = || -> Result<usize, Error> {
        let field = "original_max_position_embeddings";
        let outer = config.optional_size(field)?;
        let inner = object.optional_size(field)?;
        Ok(outer.or(inner).unwrap_or(max_position_embeddings))
    };
    match kind {
        "linear" => Ok(RopeScaling::Linear {
            factor: required("factor")?,
        }),
        "dynamic" => {
            required("factor")?;
            Ok(RopeScaling::None)
        }
        "llama3" => {
            let low_freq_factor = required("low_freq_factor")?;
            let high_freq_factor = required("high_freq_factor")?;
            if high_freq_factor <= low_freq_factor {
                return Err(object.bad("high_freq_factor", "more than low_freq_factor"));
            }
            Ok(RopeScaling::Llama3 {
                factor: required("factor")?,
                low_freq_factor,
                high_freq_factor,
                original: original()?,
            })
        }
        "yarn" => {
            let original = original()?;
            let implied = max_position_embeddings as f64 / original as f64;
            let factor = positive("factor")?.unwrap_or(implied);
            // `transformers` treats 0 like an absent field here.
            let nonzero = |field: &str| {
                let x = object.optional_number_if(field, "a number, not negative", |x| {
                    x.is_finite() && x >= 0.0
                })?;
                Ok::<_, Error>(x.filter(|x| *x > 0.0))
            };
            let beta_fast = nonzero("beta_fast")?.unwrap_or(32.0);
            let beta_slow = nonzero("beta_slow")?.unwrap_or(1.0);
            if beta_fast < beta_slow {
                return Err(object.bad("beta_fast", "at least beta_slow"));
            }
            let temperature = |mscale: f64| {
                if factor <= 1.0 {
                    1.0
                } else {
                    0.1 * mscale * factor.ln() + 1.0
                }
            };
            let (mscale, all) = (nonzero("mscale")?, nonzero("mscale_all_dim")?);
            let attention_factor = match (positive("attention_factor")?, mscale, all) {
                (Some(given), ..) => given,
                (None, Some(mscale), Some(all)) => temperature(mscale) / temperature(all),
                _ => temperature(1.0),
            };
            Ok(RopeScaling::Yarn {
                factor,
                beta_fast,
                beta_slow,
                truncate: object.optional_bool("truncate")?.unwrap_or(true),
                attention_factor,
                original,
            })
        }
        _ => Ok(RopeScaling::None),
    }
}
