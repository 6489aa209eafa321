//! The table `[pair]` of a pair's file: name, use and needs of the pair.

use beamgen_engine::parse_size;
use serde::{Deserialize, Deserializer, Serialize};
use strum::{Display, IntoStaticStr};

/// The smallest machine that a pair runs on with chains as long as its settings allow. Weights are
/// in bfloat16, unless the pair's settings say int8.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Serialize,
    Deserialize,
    Display,
    IntoStaticStr,
)]
pub enum Fits {
    /// A laptop with 16 GB of memory, 12 of them free.
    #[serde(rename = "laptop")]
    #[strum(serialize = "laptop")]
    Laptop,
    /// A card with 24 GB, 22 of them for the models.
    #[serde(rename = "one card")]
    #[strum(serialize = "one card")]
    OneCard,
    /// Two cards of 24 GB each, or one card of 48 GB.
    #[serde(rename = "two cards")]
    #[strum(serialize = "two cards")]
    TwoCards,
}

impl Fits {
    /// All machines, from the smallest to the largest.
    pub const ALL: [Self; 3] = [Self::Laptop, Self::OneCard, Self::TwoCards];

    /// Returns the machine's name in files and output.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.into()
    }
}

/// The memory for weights, buffers, and the KV cache of one chain in each model, in bytes. There is
/// one figure for each number type of the weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PairMemory {
    /// With the weights in bfloat16.
    #[serde(deserialize_with = "size")]
    pub bf16: u64,
    /// With the weights in 8 bits.
    #[serde(deserialize_with = "size")]
    pub int8: u64,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Header {
    pub name: String,
    pub summary: String,
    pub fits: Option<Fits>,
    pub memory: Option<PairMemory>,
    #[serde(default, deserialize_with = "optional_size")]
    pub download: Option<u64>,
}

/// Reads a size with a unit, such as `"18.3 GB"`.
fn size<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    let bytes = parse_size(&String::deserialize(from)?).map_err(serde::de::Error::custom)?;
    Ok(bytes as u64)
}

fn optional_size<'de, D: Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    size(from).map(Some)
}
