//! Fields that list a value for each layer. candle implements only regular patterns, in which every
//! n-th layer is of another kind.

use serde_json::Value;

use crate::error::Error;
use crate::fields::{Fields, MOST, refuse};

const FULL: &str = "full_attention";

/// Returns the period of Gemma 3's pattern: the last layer of a period has full attention, the
/// others a sliding window.
pub(crate) fn window_pattern(fields: &Fields<'_>, layers: u64) -> Result<Option<u64>, Error> {
    let Some(kinds) = list(fields, "layer_types", layers)? else {
        return fields.optional("sliding_window_pattern", MOST);
    };
    let first = (1..).zip(kinds).find(|(_, kind)| **kind == FULL);
    let every = first.map_or(layers + 1, |(place, _)| place);
    check_full(fields, layers, |i| (i + 1).is_multiple_of(every))?;
    Ok(Some(every))
}

/// Refuses `layer_types` unless exactly the layers with `is_full` have full attention.
pub(crate) fn check_full(
    fields: &Fields<'_>,
    layers: u64,
    is_full: impl Fn(u64) -> bool,
) -> Result<(), Error> {
    for (i, kind) in (0..).zip(list(fields, "layer_types", layers)?.into_iter().flatten()) {
        let expected = if is_full(i) {
            FULL
        } else {
            "sliding_attention"
        };
        if *kind != *expected {
            let reason = "layer_types must repeat a few layers, one of them with full_attention \
                          and the others with sliding_attention";
            return Err(refuse(fields.path, reason.to_owned()));
        }
    }
    Ok(())
}

/// Reads a list that must have an entry for each layer; `None` if the field is absent.
pub(crate) fn list<'a>(
    fields: &Fields<'a>,
    name: &str,
    layers: u64,
) -> Result<Option<&'a Vec<Value>>, Error> {
    match fields.map.get(name).filter(|value| !value.is_null()) {
        None => Ok(None),
        Some(Value::Array(list)) if list.len() as u64 == layers => Ok(Some(list)),
        Some(_) => {
            let reason = format!("{name} must be a list of {layers} layers");
            Err(refuse(fields.path, reason))
        }
    }
}
