//! Which pages are used, and by how many sequences. Numbers only; the memory is elsewhere.

/// Reference counts and free pages.
#[derive(Debug)]
pub(crate) struct PagePool {
    /// References of every page that was ever used; 0 is free.
    refs: Vec<u32>,
    /// Free pages among those; the one freed last is used first.
    free: Vec<u32>,
    total: usize,
    peak: usize,
}

impl PagePool {
    pub(crate) fn new(total: usize) -> Self {
        Self {
            refs: Vec::new(),
            free: Vec::new(),
            total,
            peak: 0,
        }
    }

    pub(crate) fn total(&self) -> usize {
        self.total
    }

    pub(crate) fn used(&self) -> usize {
        self.refs.len() - self.free.len()
    }

    pub(crate) fn free(&self) -> usize {
        self.total - self.used()
    }

    /// Most pages used at once so far.
    pub(crate) fn peak(&self) -> usize {
        self.peak
    }

    /// Pages that were ever used: the memory that must exist.
    pub(crate) fn touched(&self) -> usize {
        self.refs.len()
    }

    /// A page with one reference.
    ///
    /// # Panics
    /// If none is free; callers reserve first.
    pub(crate) fn take(&mut self) -> u32 {
        assert!(self.free() > 0, "pages are reserved before they are taken");
        let page = self.free.pop().unwrap_or_else(|| {
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

    /// Drops a reference; the page is free when it was the last.
    pub(crate) fn release(&mut self, page: u32) {
        let refs = &mut self.refs[page as usize];
        assert!(*refs > 0, "a page is released once for each reference");
        *refs -= 1;
        if *refs == 0 {
            self.free.push(page);
        }
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
        let mut pool = PagePool::new(3);
        let (a, b) = (pool.take(), pool.take());
        assert_ne!(a, b);
        pool.share(a);
        assert!(pool.is_shared(a));
        pool.release(a);
        assert!(!pool.is_shared(a));
        assert_eq!((pool.used(), pool.free(), pool.touched()), (2, 1, 2));
        pool.release(a);
        assert_eq!(pool.take(), a, "the page freed last is warm");
        pool.take();
        assert_eq!((pool.free(), pool.peak(), pool.total()), (0, 3, 3));
    }
}
