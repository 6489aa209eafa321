//! Counts references to pages. This module has only page numbers; the runners own the memory.

use std::collections::VecDeque;

/// The reference counts of all pages, and the lists of free pages.
#[derive(Debug)]
pub(crate) struct PagePool {
    /// The number of references to every page that was ever used; 0 for a free page.
    refs: Vec<u32>,
    /// Free pages that still have memory. The page that was freed last is taken first.
    warm: VecDeque<u32>,
    /// Free pages whose memory went back to the system.
    cold: Vec<u32>,
    /// The most free pages that keep their memory, to be taken without a system call.
    most_warm: usize,
    /// The most pages that may be in use. If more are in use already, no page is free.
    pub(crate) total: usize,
    peak: usize,
}

impl PagePool {
    /// A pool of `total` pages, of which at most `most_warm` keep their memory when they are free.
    pub(crate) fn new(total: usize, most_warm: usize) -> Self {
        Self {
            refs: Vec::new(),
            warm: VecDeque::new(),
            cold: Vec::new(),
            most_warm,
            total,
            peak: 0,
        }
    }

    /// The number of pages in use. A page in neither list of free pages is in use.
    pub(crate) fn used(&self) -> usize {
        self.refs.len() - self.warm.len() - self.cold.len()
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

    /// Takes a free page. The page then has one reference.
    ///
    /// # Panics
    /// If no page is free. Callers check [`free`](Self::free) first.
    pub(crate) fn take(&mut self) -> u32 {
        assert!(self.free() > 0, "pages are reserved before they are taken");
        // The page that was freed last is likely still in the processor's caches. A cold page is
        // better than a new number: small page numbers keep the memory small.
        let free = self.warm.pop_back().or_else(|| self.cold.pop());
        let page = free.unwrap_or_else(|| {
            self.refs.push(0);
            (self.refs.len() - 1) as u32
        });
        self.refs[page as usize] = 1;
        self.peak = self.peak.max(self.used());
        page
    }

    pub(crate) fn share(&mut self, page: u32) {
        debug_assert!(self.refs[page as usize] > 0);
        self.refs[page as usize] += 1;
    }

    /// Drops a reference to `page`. Without further references the page becomes free. If more than
    /// `most_warm` free pages then have memory, returns the page whose memory the caller must give
    /// back.
    #[must_use]
    pub(crate) fn release(&mut self, page: u32) -> Option<u32> {
        let refs = &mut self.refs[page as usize];
        assert!(*refs > 0, "a page is released once for each reference");
        *refs -= 1;
        if *refs > 0 {
            return None;
        }
        self.warm.push_back(page);
        // The page that has been free for the longest time goes cold, because it is taken last.
        let cold = (self.warm.len() > self.most_warm).then(|| self.warm.pop_front());
        self.cold.extend(cold.flatten());
        cold.flatten()
    }

    pub(crate) fn is_shared(&self, page: u32) -> bool {
        self.refs[page as usize] > 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts() {
        let mut pool = PagePool::new(3, 8);
        let (a, b) = (pool.take(), pool.take());
        assert_ne!(a, b);
        pool.share(a);
        assert!(pool.is_shared(a));
        assert_eq!(pool.release(a), None);
        assert!(!pool.is_shared(a));
        assert_eq!((pool.used(), pool.free(), pool.touched()), (2, 1, 2));
        assert_eq!(pool.release(a), None);
        assert_eq!(pool.take(), a, "the page freed last is warm");
        pool.take();
        assert_eq!((pool.free(), pool.peak()), (0, 3));
        pool.total = 2;
        assert_eq!((pool.free(), pool.used()), (0, 3));
    }

    #[test]
    fn few_free_pages_keep_their_memory_and_those_are_used_first() {
        let mut pool = PagePool::new(9, 2);
        let pages = [(); 4].map(|()| pool.take());
        let cold = pages.map(|page| pool.release(page));
        assert_eq!(cold, [None, None, Some(pages[0]), Some(pages[1])]);
        let again = [(); 5].map(|()| pool.take());
        assert_eq!(again, [pages[3], pages[2], pages[1], pages[0], 4]);
        assert_eq!((pool.used(), pool.touched()), (5, 5));
    }
}
