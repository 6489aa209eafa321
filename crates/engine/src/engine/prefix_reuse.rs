//! Appends tokens without reading them, where another sequence has read the same prefix.

use crate::prefixes::Content;
use crate::{Append, Engine, Error, Output, SeqId, Want};

impl Engine {
    /// Lets all sequences find the tokens of their items that were read before. Tokens that several
    /// items share and none has read, such as a system prompt, are read once.
    pub(super) fn reuse_prefixes(&mut self, items: &[Append<'_>]) {
        self.find_prefixes(items);
        // In each round, two items or more that differed only later find the same pages.
        for _ in 0..items.len() {
            let shared = self.shared_prefixes(items);
            // Without memory for a prefix of its own, every item reads it.
            if shared.is_empty() || self.read_shared(items, &shared).is_err() {
                break;
            }
        }
    }

    /// Appends to each sequence the pages that have its next tokens, up to the first token whose
    /// row is wanted, and counts these tokens in `found`.
    fn find_prefixes(&mut self, items: &[Append<'_>]) {
        for (at, item) in items.iter().enumerate() {
            while let Some((before, tokens)) = self.next_page(item, self.found[at])
                && let Some(page) = self
                    .prefixes
                    .as_ref()
                    .and_then(|prefixes| prefixes.find(before, tokens))
                && self.pages.adopt(page)
            {
                self.expect_mut(item.seq).pages.push(page);
                self.found[at] += self.page_size;
            }
        }
        self.publish_idle();
    }

    /// Returns the tokens that fill the sequence's next page, after `found` tokens of the item, and
    /// the content before them; `None` if that page is begun already, will not be full, or has a
    /// wanted row.
    fn next_page<'a>(&self, item: &Append<'a>, found: usize) -> Option<(Content, &'a [u32])> {
        let sequence = self.expect(item.seq);
        let end = found + self.page_size;
        if end > item.want.first(item.tokens.len()) || !sequence.len.is_multiple_of(self.page_size)
        {
            return None;
        }
        let prefixes = self.prefixes.as_ref()?;
        let page = (sequence.len + found) / self.page_size;
        let before = prefixes.before(&sequence.pages, page);
        Some((before, &item.tokens[found..end]))
    }

    /// Returns an item and a number of its tokens for each group of items whose sequences get the
    /// same tokens, a page or more, that no sequence has. Empty if all items differ.
    fn shared_prefixes(&self, items: &[Append<'_>]) -> Vec<(usize, usize)> {
        let pages = items.iter().enumerate().filter_map(|(at, item)| {
            let (before, page) = self.next_page(item, self.found[at])?;
            Some((before, page, at))
        });
        let mut pages: Vec<(Content, &[u32], usize)> = pages.collect();
        pages.sort_unstable();
        let groups = pages.chunk_by(|a, b| (a.0, a.1) == (b.0, b.1));
        let shared = groups.filter(|group| group.len() > 1);
        shared
            .map(|group| {
                let first = group[0].2;
                let rest = |at: usize| {
                    let Append { tokens, want, .. } = &items[at];
                    &tokens[self.found[at]..want.first(tokens.len())]
                };
                let common = group[1..].iter().map(|&(_, _, at)| {
                    let pairs = rest(first).iter().zip(rest(at));
                    pairs.take_while(|(a, b)| a == b).count()
                });
                let common = common.min().unwrap_or(0);
                (first, common - common % self.page_size)
            })
            .collect()
    }

    /// Reads the tokens of `shared` once, and lets all items find them.
    fn read_shared(
        &mut self,
        items: &[Append<'_>],
        shared: &[(usize, usize)],
    ) -> Result<(), Error> {
        let readers: Vec<Append<'_>> = shared
            .iter()
            .map(|&(at, count)| {
                let Append { seq, tokens, .. } = items[at];
                let found = self.found[at];
                Append {
                    seq: self.fork_to(seq, self.len(seq) + found),
                    tokens: &tokens[found..found + count],
                    want: Want::None,
                }
            })
            .collect();
        let found = std::mem::take(&mut self.found);
        let read = self.forward(&readers, Output::Hidden);
        self.found = found;
        if read.is_ok() {
            self.find_prefixes(items);
        }
        for reader in readers {
            self.free(reader.seq);
        }
        self.recycle(read?);
        Ok(())
    }

    /// Takes the pages that were found, and new ones, from the sequences again.
    pub(super) fn undo_pages(&mut self, items: &[Append<'_>]) {
        for item in items {
            self.truncate(item.seq, self.len(item.seq));
        }
    }

    /// Creates a sequence with the first `len` tokens that the pages of `seq` hold.
    fn fork_to(&mut self, seq: SeqId, len: usize) -> SeqId {
        let fork = self.fork(seq);
        self.expect_mut(fork).len = len;
        fork
    }
}
