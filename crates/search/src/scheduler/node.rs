//! What a node of a problem's tree holds in the models.

use super::contents::ContentId;
use crate::generator::{ChainId, StepOutput};
use crate::strategy::DecodeMode;

/// What a node holds in the models, and how much of it is still owed to its children.
#[derive(Debug, Default)]
pub(super) struct NodeResources {
    pub chain: Option<ChainId>,
    /// What its chain says, once it closed or paused.
    pub content: Option<ContentId>,
    /// What its last token stands for behind the step's end.
    pub leftover: Vec<u8>,
    /// The end of its chain's text, as far as an answer may begin there that is not whole.
    pub unsettled: String,
    /// Whether its tokens stand for its text and nothing else.
    pub tokens_match_text: bool,
    /// How its step grows.
    pub mode: DecodeMode,
    /// Most tokens of its step; after it closed without a limit, those left for what follows.
    pub token_limit: usize,
    /// Children still to be started from `chain`.
    pub unstarted: usize,
    /// Children in the middle of a step.
    pub unclosed: usize,
    /// Closed or paused; waits for its siblings to do so.
    pub waits: bool,
    /// Its first child, begun before anybody asked for it.
    pub speculative: Option<SpeculativeStep>,
}

/// A step that is written before it is known whether it will be wanted.
#[derive(Debug)]
pub(super) struct SpeculativeStep {
    pub chain: ChainId,
    pub mode: DecodeMode,
    /// The step, once it closed or paused.
    pub step: Option<StepOutput>,
}
