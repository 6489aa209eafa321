//! The texts of a problem's chains, as a trie. The scorer's handles and scores belong to texts and
//! not to nodes, so a text that several nodes have is read and paid for once.

use std::collections::{BTreeMap, HashMap};

use crate::finish::Finish;
use crate::generator::Memory;
use crate::scorer::{ScoreId, Scorer};
use crate::stream::hash_bytes;
use crate::tree::{ChainTree, Node, NodeId, State};

/// The index of a text in the trie; a text is a sequence of steps from the root.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct ContentId(u32);

impl ContentId {
    /// The problem without steps.
    pub(super) const ROOT: Self = Self(0);

    fn index(self) -> usize {
        self.0 as usize
    }
}

/// A text of the trie. Its parent is the text without the last step.
#[derive(Debug)]
pub(super) struct Content {
    parent: Option<ContentId>,
    /// The first node that has this text.
    node: NodeId,
    /// Whether the last step is complete, not paused in the middle.
    whole: bool,
    /// The scorer's cache of the whole text.
    pub handle: Option<ScoreId>,
    pub scored: Option<StepScore>,
}

/// The scorer's reply about a step.
#[derive(Debug, Clone, Default)]
pub(super) struct StepScore {
    /// The combined score; `None` if the scorer abstained.
    pub score: Option<f32>,
    /// The scores of the judges that were asked, by name; empty with a single scorer.
    pub judges: BTreeMap<String, Option<f32>>,
    pub quantiles: Option<[f32; 3]>,
}

/// The trie of texts of one problem.
#[derive(Debug)]
pub(super) struct Contents {
    contents: Vec<Content>,
    by_hash: HashMap<(ContentId, u64), ContentId>,
    /// The number of pending batches that contain steps of this problem.
    pub batches: usize,
}

impl Contents {
    /// Makes a trie that contains only the problem, which the scorer knows as `handle`.
    pub(super) fn new(handle: Option<ScoreId>) -> Self {
        let root = Content {
            parent: None,
            node: ChainTree::ROOT,
            whole: true,
            handle,
            scored: None,
        };
        Self {
            contents: vec![root],
            by_hash: HashMap::new(),
            batches: 0,
        }
    }

    /// Returns the text of the chain up to a closed or paused node, where `above` is the text up to
    /// its parent. An empty step adds nothing to the text.
    pub(super) fn intern(&mut self, tree: &ChainTree, above: ContentId, id: NodeId) -> ContentId {
        let node = tree.node(id);
        if node.is_empty_step() {
            return above;
        }
        // A paused and a closed step are different texts even if equal: a part is scored
        // differently from a whole.
        let whole = node.state != State::Paused;
        let key = (above, fingerprint(node, whole));
        if let Some(&known) = self.by_hash.get(&key) {
            // A hash only finds a candidate. If different texts have the same hash, the map keeps
            // the last.
            let content = &self.contents[known.index()];
            if content.whole == whole && same_step(tree.node(content.node), node) {
                return known;
            }
        }
        let new = ContentId(self.contents.len() as u32);
        self.contents.push(Content {
            parent: Some(above),
            node: id,
            whole,
            handle: None,
            scored: None,
        });
        self.by_hash.insert(key, new);
        new
    }

    /// Returns the reply about the last step of a text; `None` before the scorer was asked.
    pub(super) fn scored(&self, id: ContentId) -> Option<&StepScore> {
        self.contents[id.index()].scored.as_ref()
    }

    pub(super) fn at(&mut self, id: ContentId) -> &mut Content {
        &mut self.contents[id.index()]
    }

    pub(super) fn handle(&self, id: ContentId) -> Option<ScoreId> {
        self.contents[id.index()].handle
    }

    pub(super) fn node(&self, id: ContentId) -> NodeId {
        self.contents[id.index()].node
    }

    /// Returns the longest prefix of a text that the scorer has cached, and the steps after it.
    pub(super) fn unread(&self, id: ContentId) -> (ContentId, Vec<ContentId>) {
        let mut steps = Vec::new();
        let mut at = id;
        // Walks up to the nearest text with a cache: only the steps after that text have to be
        // read.
        while self.handle(at).is_none()
            && let Some(parent) = self.contents[at.index()].parent
        {
            steps.push(at);
            at = parent;
        }
        steps.reverse();
        (at, steps)
    }

    /// Releases all handles, except those from which the texts in `wanted` will be read.
    pub(super) fn keep(&mut self, wanted: &[ContentId], scorer: &mut dyn Scorer) {
        let mut needed = vec![false; self.contents.len()];
        for &id in wanted {
            // A text that is not cached will be read from its nearest cached prefix.
            needed[self.unread(id).0.index()] = true;
        }
        for (content, needed) in self.contents.iter_mut().zip(needed) {
            if let Some(handle) = content.handle.take_if(|_| !needed) {
                scorer.release(handle);
            }
        }
    }

    /// Returns the bytes of the distinct tokens in the scorer's cache; 0 if nothing is cached.
    pub(super) fn bytes(&self, tree: &ChainTree, prompt_tokens: usize, memory: Memory) -> u64 {
        let held = self.contents.iter().filter(|c| c.handle.is_some());
        let ends: Vec<NodeId> = held.map(|content| content.node).collect();
        if ends.is_empty() {
            return 0;
        }
        // Forked caches share the tokens of their common beginning, so these count once.
        let tokens = prompt_tokens + tree.distinct_tokens(&ends);
        tokens as u64 * memory.bytes_per_token
    }
}

/// Whether a scorer reads the same for both nodes: text, tokens, and an end-of-text token.
fn same_step(a: &Node, b: &Node) -> bool {
    fn ended(node: &Node) -> bool {
        node.finish() == Some(Finish::EndOfText)
    }
    a.read_text() == b.read_text() && tokens_read(a) == tokens_read(b) && ended(a) == ended(b)
}

/// Returns the tokens that a scorer with the generator's tokens may read; none for a step of which
/// it reads another text.
fn tokens_read(node: &Node) -> &[u32] {
    if node.read.is_none() {
        &node.tokens
    } else {
        &[]
    }
}

fn fingerprint(node: &Node, whole: bool) -> u64 {
    let tokens = tokens_read(node).iter();
    let tokens = tokens.fold(u64::from(whole), |hash, token| {
        hash_bytes(&token.to_le_bytes(), hash)
    });
    hash_bytes(node.read_text().as_bytes(), tokens)
}
