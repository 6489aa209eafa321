//! Grammars that the text of a chain has to follow.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// The form of a chain's text, from its first sampled or given byte to its end. Only tokens with
/// which the text can still take this form are sampled. A chain that reaches a limit of its length
/// ends before its text is complete.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Grammar {
    /// Any JSON object.
    JsonObject,
    /// A JSON value that fits this JSON Schema. Its members come in the order of the schema's
    /// `properties`.
    JsonSchema(Value),
}
