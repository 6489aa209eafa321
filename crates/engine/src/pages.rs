//! Counts references to pages. This module has only page numbers; the runners own the memory.

use std::collections::{BTreeMap, VecDeque};

/// The reference counts of all pages, and the lists of free pages.
#[derive(Debug)]
pub(crate) struct PagePool {
    /// The number of references to every page that was ever used; 0 for a free page.
    refs: Vec<u32>,
    /// Free pages that still have memory. The page that was freed last is taken first.
    warm: VecDeque<u32>,
    /// Free pages that may be used again with their content, by the order in which they were freed.
    /// The page that has been free for the longest time is given up first.
    kept: BTreeMap<u64, u32>,
    /// The key in `kept` of every page in it.
    places: Vec<u64>,
    /// The number of pages that were ever added to `kept`.
    stamp: u64,
    /// Free pages whose memory went back to the system.
    cold: Vec<u32>,
    /// The most pages in `warm`, and the most in `kept`.
    most_warm: usize,
    /// The most pages that may be in use. If more are in use already, no page is free.
    pub(crate) total: usize,
    peak: usize,
}

/// The pages that the release of a page changed.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Released {
    /// A free page whose content is not kept, or no longer.
    pub(crate) void: Option<u32>,
    /// A free page whose memory the caller must give back to the system.
    pub(crate) cold: Option<u32>,
}

impl PagePool {
    /// A pool of `total` pages. When they are free, at most `most_warm` pages keep their memory to be
    /// taken without a system call, and as many more keep their content.
    pub(crate) fn new(total: usize, most_warm: usize) -> Self {
        Self {
            refs: Vec::new(),
            warm: VecDeque::new(),
            kept: BTreeMap::new(),
            places: Vec::new(),
            stamp: 0,
            cold: Vec::new(),
            most_warm,
            total,
            peak: 0,
        }
    }

    /// The number of pages in use. A page in no list of free pages is in use.
    pub(crate) fn used(&self) -> usize {
        self.refs.len() - self.warm.len() - self.kept.len() - self.cold.len()
    }

    pub(crate) fn free(&self) -> usize {
        // `total` falls below `used` if a lender claims its pages.
        self.total.saturating_sub(self.used())
    }

    pub(crate) fn peak(&self) -> usize {
        self.peak
    }

    /// The number of pages that were ever used. The runner must have memory for all of them.
    pub(crate) fn touched(&self) -> usize {
        self.refs.len()
    }

    /// Takes a free page. The page then has one reference, and its old content is void.
    ///
    /// # Panics
    /// If no page is free. Callers check [`free`](Self::free) first.
    pub(crate) fn take(&mut self) -> u32 {
        assert!(self.free() > 0, "pages are reserved before they are taken");
        // The page that was freed last is likely still in the processor's caches. A cold page is
        // better than a new number: small page numbers keep the memory small.
        let mut free = self.warm.pop_back().or_else(|| self.cold.pop());
        if free.is_none() && self.refs.len() >= self.total {
            free = self.kept.pop_first().map(|(_, page)| page);
        }
        let page = free.unwrap_or_else(|| {
            self.refs.push(0);
            self.places.push(0);
            (self.refs.len() - 1) as u32
        });
        self.refs[page as usize] = 1;
        self.peak = self.peak.max(self.used());
        page
    }

    /// Adds a reference to a page that is in use.
    pub(crate) fn share(&mut self, page: u32) {
        debug_assert!(self.refs[page as usize] > 0);
        self.refs[page as usize] += 1;
    }

    /// Adds a reference to a page that is in use or was kept when it was freed. Returns false, and
    /// changes nothing, if the page is free and no page may be taken.
    pub(crate) fn adopt(&mut self, page: u32) -> bool {
        if self.refs[page as usize] == 0 {
            if self.free() == 0 {
                return false;
            }
            self.kept.remove(&self.places[page as usize]);
        }
        self.refs[page as usize] += 1;
        self.peak = self.peak.max(self.used());
        true
    }

    /// Drops a reference to `page`. Without further references the page becomes free, and its
    /// content is kept if `keep` is true.
    pub(crate) fn release(&mut self, page: u32, keep: bool) -> Released {
        let refs = &mut self.refs[page as usize];
        assert!(*refs > 0, "a page is released once for each reference");
        *refs -= 1;
        if *refs > 0 {
            return Released::default();
        }
        let mut void = Some(page);
        if keep {
            self.stamp += 1;
            self.places[page as usize] = self.stamp;
            self.kept.insert(self.stamp, page);
            let is_full = self.kept.len() > self.most_warm;
            let oldest = is_full.then(|| self.kept.pop_first()).flatten();
            void = oldest.map(|(_, page)| page);
        }
        self.warm.extend(void);
        // The page that has been free for the longest time goes cold.
        let is_full = self.warm.len() > self.most_warm;
        let cold = is_full.then(|| self.warm.pop_front()).flatten();
        self.cold.extend(cold);
        Released { void, cold }
    }

    pub(crate) fn is_shared(&self, page: u32) -> bool {
        self.refs[page as usize] > 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn void(page: u32) -> Released {
        Released {
            void: Some(page),
            cold: None,
        }
    }

    #[test]
    fn counts() {
        let mut pool = PagePool::new(3, 8);
        let (a, b) = (pool.take(), pool.take());
        assert_ne!(a, b);
        pool.share(a);
        assert!(pool.is_shared(a));
        assert_eq!(pool.release(a, false), Released::default());
        assert!(!pool.is_shared(a));
        assert_eq!((pool.used(), pool.free(), pool.touched()), (2, 1, 2));
        assert_eq!(pool.release(a, false), void(a));
        assert_eq!(pool.take(), a, "the page freed last is warm");
        pool.take();
        assert_eq!((pool.free(), pool.peak()), (0, 3));
        pool.total = 2;
        assert_eq!((pool.free(), pool.used()), (0, 3));
    }

    #[test]
    fn kept_pages_are_adopted_and_the_oldest_is_taken_first() {
        let mut pool = PagePool::new(5, 3);
        let pages = [(); 4].map(|()| pool.take());
        for page in [3, 1, 0] {
            assert_eq!(pool.release(pages[page], true), Released::default());
        }
        assert!(pool.adopt(pages[1]) && pool.adopt(pages[1]));
        assert_eq!((pool.used(), pool.free()), (2, 3));
        assert_eq!(pool.take(), 4, "a new page, while there are any");
        assert_eq!(pool.take(), pages[3], "the longest free");
        assert_eq!(pool.take(), pages[0]);
        assert!(pool.adopt(pages[3]) && pool.is_shared(pages[3]));
        for _ in 0..2 {
            assert_eq!(pool.release(pages[1], true), Released::default());
        }
        pool.total = 4;
        assert!(!pool.adopt(pages[1]), "four other pages are in use");
    }

    #[test]
    fn few_pages_keep_their_content() {
        let mut pool = PagePool::new(9, 2);
        let pages = [(); 4].map(|()| pool.take());
        let released = pages.map(|page| pool.release(page, true).void);
        assert_eq!(released, [None, None, Some(pages[0]), Some(pages[1])]);
        assert_eq!(pool.take(), pages[1]);
        assert!(pool.adopt(pages[2]) && pool.adopt(pages[3]));
    }

    #[test]
    fn few_free_pages_keep_their_memory_and_those_are_used_first() {
        let mut pool = PagePool::new(9, 2);
        let pages = [(); 4].map(|()| pool.take());
        let cold = pages.map(|page| pool.release(page, false).cold);
        assert_eq!(cold, [None, None, Some(pages[0]), Some(pages[1])]);
        let again = [(); 5].map(|()| pool.take());
        assert_eq!(again, [pages[3], pages[2], pages[1], pages[0], 4]);
        assert_eq!((pool.used(), pool.touched()), (5, 5));
    }
}
