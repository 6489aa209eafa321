//! Reads which layers attend through a sliding window from a model's configuration.

use super::families::Windows;
use super::fields::Fields;
use crate::Error;

const FULL: &str = "full_attention";
const SLIDING: &str = "sliding_attention";

/// Returns the window of each layer, in positions; `None` for a layer that attends to all.
pub(super) fn read(
    fields: &Fields<'_>,
    family: &Windows,
    layers: usize,
    context: usize,
) -> Result<Vec<Option<usize>>, Error> {
    let window = fields.optional_size("sliding_window")?;
    let used = fields.optional_bool("use_sliding_window")?;
    let types = types(fields)?;
    match family {
        Windows::None => {
            // A window that is at least as long as the context changes nothing.
            if window.is_some_and(|w| w < context) && used != Some(false) {
                return Err(fields.unsupported("sliding_window", "this family has no window"));
            }
            refuse_type(fields, &types, SLIDING, "this family has no window")?;
            Ok(vec![None; layers])
        }
        // In these families a `null` window means no window, but an absent field means the default.
        Windows::All { default } => {
            let window = if fields.has("sliding_window") {
                window
            } else {
                *default
            };
            if used == Some(false) && window.is_some() {
                let always = "this family always uses its sliding_window";
                return Err(fields.unsupported("use_sliding_window", always));
            }
            let (other, all) = match window {
                Some(_) => (FULL, "this family has its window in all layers"),
                None => (SLIDING, "sliding_window is null"),
            };
            refuse_type(fields, &types, other, all)?;
            Ok(vec![window; layers])
        }
        Windows::Listed => {
            let window = match used {
                Some(true) if fields.has("sliding_window") => window,
                // The default of `sliding_window` in `transformers`.
                Some(true) => Some(4096),
                _ => None,
            };
            let Some(types) = types else {
                let first = match fields.get("max_window_layers") {
                    Some(value) => value
                        .as_u64()
                        .ok_or_else(|| fields.bad("max_window_layers", "a number of layers"))?,
                    // The default of `max_window_layers` in `transformers`.
                    None => 28,
                };
                return Ok((0..layers as u64)
                    .map(|i| window.filter(|_| i >= first))
                    .collect());
            };
            if types.len() != layers {
                return Err(fields.bad("layer_types", &format!("a list of {layers} layers")));
            }
            if window.is_none() {
                let none = "sliding_attention needs use_sliding_window and sliding_window";
                refuse_type(fields, &Some(types), SLIDING, none)?;
                return Ok(vec![None; layers]);
            }
            Ok(types
                .iter()
                .map(|t| window.filter(|_| *t == SLIDING))
                .collect())
        }
    }
}

/// Reads `layer_types`. Each entry must be `full_attention` or `sliding_attention`.
fn types<'a>(fields: &Fields<'a>) -> Result<Option<Vec<&'a str>>, Error> {
    let Some(value) = fields.get("layer_types") else {
        return Ok(None);
    };
    let list = value
        .as_array()
        .ok_or_else(|| fields.bad("layer_types", "a list"))?;
    list.iter()
        .map(|t| match t.as_str() {
            Some(t) if t == FULL || t == SLIDING => Ok(t),
            _ => {
                Err(fields.unsupported("layer_types", "only full_attention and sliding_attention"))
            }
        })
        .collect::<Result<_, _>>()
        .map(Some)
}

fn refuse_type(
    fields: &Fields<'_>,
    types: &Option<Vec<&str>>,
    refused: &str,
    reason: &str,
) -> Result<(), Error> {
    match types {
        Some(types) if types.contains(&refused) => Err(fields.unsupported("layer_types", reason)),
        _ => Ok(()),
    }
}
