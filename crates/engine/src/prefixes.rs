//! Finds the pages that hold given tokens, so that a prefix that was read for one sequence serves
//! others. This is the block-level prefix caching of vLLM (Kwon et al., 2023,
//! <https://arxiv.org/abs/2309.06180>), with comparisons of tokens in place of trust in hashes.

use std::collections::HashMap;
use std::collections::hash_map::{Entry, RandomState};
use std::hash::BuildHasher;

/// The number of a page's content: of the tokens in the page and of all tokens before them. Two
/// pages with one number have the same keys and values. 0 stands for the empty prefix, and for a
/// page that is not full.
pub(crate) type Content = u64;

/// The tokens of all pages, and an index of the full ones.
#[derive(Debug)]
pub(crate) struct Prefixes {
    page_size: usize,
    /// The tokens written to each page, `page_size` for a page.
    tokens: Vec<u32>,
    pages: Vec<Page>,
    /// The full pages by the hash of their tokens and the content before them. If two hashes are
    /// equal by chance, only the first page is found.
    index: HashMap<u64, u32>,
    hasher: RandomState,
    /// The greatest number of a content so far.
    last: Content,
}

#[derive(Debug, Clone, Copy, Default)]
struct Page {
    content: Content,
    /// The content of the page before, if the page is in the index.
    before: Content,
    /// Whether this page and all pages before it were filled at once, as those of a prompt are.
    /// Tokens of steps are rarely read again after their sequence was freed.
    is_prompt: bool,
    /// The key in the index; `None` if the page is not there, as when another page has the same
    /// content.
    key: Option<u64>,
}

impl Prefixes {
    pub(crate) fn new(page_size: usize) -> Self {
        Self {
            page_size,
            tokens: Vec::new(),
            pages: Vec::new(),
            index: HashMap::new(),
            hasher: RandomState::new(),
            last: 0,
        }
    }

    fn content(&self, page: u32) -> Content {
        self.pages[page as usize].content
    }

    /// Returns the content before page `page` of a sequence with these pages.
    pub(crate) fn before(&self, pages: &[u32], page: usize) -> Content {
        match page {
            0 => 0,
            page => self.content(pages[page - 1]),
        }
    }

    /// Whether a page should keep its content when it is freed.
    pub(crate) fn is_kept(&self, page: u32) -> bool {
        let page = self.pages.get(page as usize);
        page.is_some_and(|page| page.is_prompt && page.key.is_some())
    }

    /// Returns the page whose tokens are the first `page_size` of `tokens`, after `before`.
    pub(crate) fn find(&self, before: Content, tokens: &[u32]) -> Option<u32> {
        let tokens = tokens.get(..self.page_size)?;
        let page = *self.index.get(&self.key(before, tokens))?;
        let is_same = self.pages[page as usize].before == before && self.written(page) == tokens;
        is_same.then_some(page)
    }

    /// Makes a page's content unknown, because it will be overwritten.
    pub(crate) fn forget(&mut self, page: u32) {
        let Some(page) = self.pages.get_mut(page as usize) else {
            return;
        };
        if let Some(key) = std::mem::take(page).key {
            self.index.remove(&key);
        }
    }

    /// Notes that a page has the tokens of another one.
    pub(crate) fn copy(&mut self, from: u32, to: u32) {
        self.grow(to);
        let from = from as usize * self.page_size;
        let to = to as usize * self.page_size;
        self.tokens.copy_within(from..from + self.page_size, to);
    }

    /// Notes that `tokens` were written to page `at` of a sequence, from `offset` on. `pages` are the
    /// sequence's pages. A page that is full now can be found.
    pub(crate) fn write(&mut self, pages: &[u32], at: usize, offset: usize, tokens: &[u32]) {
        let (page, before) = (pages[at], self.before(pages, at));
        self.grow(page);
        let end = offset + tokens.len();
        let first = page as usize * self.page_size;
        self.tokens[first + offset..first + end].copy_from_slice(tokens);
        if end < self.page_size {
            return;
        }
        let key = self.key(before, self.written(page));
        let same = self.find(before, self.written(page));
        let content = same.map_or(self.last + 1, |same| self.content(same));
        self.last = self.last.max(content);
        let vacant = match self.index.entry(key) {
            Entry::Vacant(entry) => {
                entry.insert(page);
                true
            }
            Entry::Occupied(_) => false,
        };
        self.pages[page as usize] = Page {
            content,
            before,
            is_prompt: offset == 0 && (at == 0 || self.pages[pages[at - 1] as usize].is_prompt),
            key: vacant.then_some(key),
        };
    }

    fn grow(&mut self, page: u32) {
        let pages = self.pages.len().max(page as usize + 1);
        self.pages.resize(pages, Page::default());
        self.tokens.resize(pages * self.page_size, 0);
    }

    fn written(&self, page: u32) -> &[u32] {
        &self.tokens[page as usize * self.page_size..][..self.page_size]
    }

    fn key(&self, before: Content, tokens: &[u32]) -> u64 {
        self.hasher.hash_one((before, tokens))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_is_found_by_its_tokens_and_those_before() {
        let mut prefixes = Prefixes::new(2);
        prefixes.write(&[0], 0, 0, &[5]);
        assert_eq!(prefixes.find(0, &[5, 6]), None, "not full");
        prefixes.write(&[0], 0, 1, &[6]);
        let first = prefixes.content(0);
        prefixes.write(&[0, 3], 1, 0, &[5, 6]);
        assert_eq!(prefixes.find(0, &[5, 6, 7]), Some(0));
        assert_eq!(prefixes.find(first, &[5, 6]), Some(3));
        assert_eq!(prefixes.find(prefixes.content(3), &[5, 6]), None);
        assert_eq!(prefixes.find(0, &[5]), None);
        assert_eq!(prefixes.find(0, &[5, 7]), None);
    }

    #[test]
    fn a_page_with_equal_content_is_not_indexed_and_one_that_was_forgotten_is_not_found() {
        let mut prefixes = Prefixes::new(2);
        prefixes.write(&[0], 0, 0, &[1, 2]);
        prefixes.write(&[1], 0, 0, &[1, 2]);
        assert_eq!(prefixes.content(0), prefixes.content(1));
        assert!(prefixes.is_kept(0) && !prefixes.is_kept(1) && !prefixes.is_kept(9));
        prefixes.forget(1);
        assert_eq!(prefixes.find(0, &[1, 2]), Some(0));
        let old = prefixes.content(0);
        prefixes.forget(0);
        assert_eq!(prefixes.find(0, &[1, 2]), None);
        prefixes.write(&[0], 0, 0, &[1, 2]);
        assert_ne!(
            prefixes.content(0),
            old,
            "what followed the old one may be gone"
        );
        prefixes.copy(0, 4);
        prefixes.write(&[4], 0, 1, &[3]);
        assert_eq!(prefixes.find(0, &[1, 3]), Some(4));
    }

    #[test]
    fn only_prompts_are_kept() {
        let mut prefixes = Prefixes::new(2);
        prefixes.write(&[0], 0, 0, &[1, 2]);
        prefixes.write(&[0, 1], 1, 0, &[3, 4]);
        prefixes.write(&[0, 2], 1, 0, &[5]);
        prefixes.write(&[0, 2], 1, 1, &[6]);
        prefixes.write(&[0, 2, 3], 2, 0, &[7, 8]);
        let kept = [0, 1, 2, 3].map(|page| prefixes.is_kept(page));
        assert_eq!(
            kept,
            [true, true, false, false],
            "a step came after token 5"
        );
    }
}
