use crate::AttentionRow;

/// The size of pages, the window and the sharing of heads, on which a plan depends besides its
/// rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AttentionReach {
    /// Positions of a page.
    pub page_size: usize,
    /// The most positions that a row attends to, its own included. `None` means all.
    pub window: Option<usize>,
    /// Query heads that share a head of keys and values.
    pub group: usize,
}

impl AttentionReach {
    /// The segments that a row with `len` positions attends to.
    fn segments(&self, len: usize) -> std::ops::Range<usize> {
        self.first(len) / AttentionPlan::SEGMENT..len.div_ceil(AttentionPlan::SEGMENT)
    }

    /// The first position that a row with `len` positions attends to.
    fn first(&self, len: usize) -> usize {
        self.window.map_or(0, |window| len.saturating_sub(window))
    }
}

/// A segment of positions with rows that see the same pages there.
#[derive(Clone, Copy, Debug)]
struct Item {
    table: usize,
    from: usize,
    to: usize,
    count: usize,
}

impl Item {
    /// The first page of the item's positions, and the page after the last.
    fn pages(&self, page_size: usize) -> (usize, usize) {
        (self.from / page_size, self.to.div_ceil(page_size))
    }
}

/// A grouping of rows for attention on a device. Positions are split into segments. Rows with the
/// same pages in a segment (branches of a tree, tokens of a prompt) share an item. Each row has a
/// partial result for each of its segments. Segments are batch-invariant: they do not depend on
/// other rows.
///
/// A plan keeps its memory, so building it again allocates only if it grows.
#[derive(Clone, Debug, Default)]
pub struct AttentionPlan {
    pub(super) reach: AttentionReach,
    /// One more than the highest page.
    pub(super) pages: usize,
    /// The items in the layout of `kernels/attention.cu`, which reads the words as signed numbers.
    pub(super) items: Vec<[u32; 6]>,
    /// Pages of each item.
    pub(super) tables: Vec<u32>,
    pub(super) members: Vec<u32>,
    pub(super) lens: Vec<u32>,
    pub(super) row_first: Vec<u32>,
    pub(super) row_parts: Vec<u32>,
    /// Items that may still get further rows. [`items`](Self::items) has their final form.
    growing: Vec<Item>,
    /// The item of each segment that the next row may join.
    open: Vec<Option<usize>>,
}

impl AttentionPlan {
    /// Positions of a segment.
    pub const SEGMENT: usize = 256;
    /// The most queries of an item: its rows times the heads of a group.
    const QUERIES: usize = 64;

    /// Plans for these rows, whose pages are in `tables`. A row of no positions (padding) attends
    /// to nothing.
    ///
    /// # Panics
    /// If a row's pages are not all in `tables`, a size is 0, or positions do not fit an `int`.
    pub fn build(&mut self, tables: &[u32], rows: &[AttentionRow], reach: AttentionReach) {
        let page_size = reach.page_size;
        assert!(page_size > 0 && reach.group > 0 && reach.window != Some(0));
        assert!(i32::try_from(tables.len()).is_ok());
        self.reach = reach;
        self.growing.clear();
        self.open.clear();
        self.lens.clear();
        self.row_first.clear();
        self.row_parts.clear();
        for row in rows {
            let len = row.len as usize;
            let table = row.table as usize;
            assert!(i32::try_from(len).is_ok());
            assert!(
                table + len.div_ceil(page_size) <= tables.len(),
                "pages are missing"
            );
            self.lens.push(row.len);
            self.row_first.push(self.row_parts.len() as u32);
            for segment in reach.segments(len) {
                let from = reach.first(len).max(segment * Self::SEGMENT);
                let to = len.min((segment + 1) * Self::SEGMENT);
                let row = Item {
                    table,
                    from,
                    to,
                    count: 1,
                };
                let item = self.place(tables, segment, row);
                self.row_parts.push(item as u32);
            }
        }
        self.row_first.push(self.row_parts.len() as u32);
        self.number(tables);
    }

    /// Adds a row's segment to an item, and returns the item's index. The row joins the segment's
    /// open item if that has room, the same pages, and positions without a gap to the row's;
    /// otherwise a new item begins.
    fn place(&mut self, tables: &[u32], segment: usize, row: Item) -> usize {
        if self.open.len() <= segment {
            self.open.resize(segment + 1, None);
        }
        let (page_size, group) = (self.reach.page_size, self.reach.group);
        if let Some(index) = self.open[segment] {
            let item = &mut self.growing[index];
            let (first, end) = item.pages(page_size);
            let (row_first, row_end) = row.pages(page_size);
            let (first, common) = (first.min(row_first), end.min(row_end));
            let common_pages = |table: usize| &tables[table + first..table + common];
            // Without gaps: every position of an item is one that some row sees.
            let joins = row.from <= item.to && item.from <= row.to;
            let room = item.count < (Self::QUERIES / group).max(1);
            let same =
                item.table == row.table || common_pages(item.table) == common_pages(row.table);
            if joins && room && same {
                if row.to > item.to {
                    item.table = row.table;
                }
                item.from = item.from.min(row.from);
                item.to = item.to.max(row.to);
                item.count += 1;
                return index;
            }
        }
        self.open[segment] = Some(self.growing.len());
        self.growing.push(row);
        self.growing.len() - 1
    }

    /// Lists the rows of each item (`members`), and numbers the partial results item by item.
    fn number(&mut self, tables: &[u32]) {
        self.items.clear();
        self.tables.clear();
        self.pages = 0;
        let page_size = self.reach.page_size;
        let mut first = 0;
        for item in &self.growing {
            let (from, to) = (item.from, item.to);
            let skipped = from / page_size;
            let pages = &tables[item.table + skipped..item.table + to.div_ceil(page_size)];
            let highest = pages.iter().max().expect("an item has a page");
            self.pages = self.pages.max(*highest as usize + 1);
            // The number may be negative, in two's complement: the kernel adds the page's index to
            // it.
            let page_0 = (self.tables.len() as u32).wrapping_sub(skipped as u32);
            self.tables.extend_from_slice(pages);
            // The fifth number counts the members. It reaches `item.count` in the loop below.
            self.items
                .push([page_0, from as u32, to as u32, first, 0, first]);
            first += item.count as u32;
        }
        self.members.clear();
        self.members.resize(first as usize, 0);
        for row in 0..self.lens.len() {
            let parts = self.row_first[row] as usize..self.row_first[row + 1] as usize;
            for part in &mut self.row_parts[parts] {
                let item = &mut self.items[*part as usize];
                *part = item[5] + item[4];
                self.members[(item[3] + item[4]) as usize] = row as u32;
                item[4] += 1;
            }
        }
    }

    /// The number of rows of the plan, also rows of no positions.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.lens.len()
    }

    /// The number of items. A launch has as many blocks for each key-value head.
    #[must_use]
    pub fn items(&self) -> usize {
        self.items.len()
    }

    /// The most pages that an item can have, which depends on the page size only.
    pub(super) fn most_pages(&self) -> usize {
        let page_size = self.reach.page_size.max(1);
        match Self::SEGMENT % page_size {
            0 => Self::SEGMENT / page_size,
            // A segment may begin and end inside a page.
            _ => Self::SEGMENT / page_size + 2,
        }
    }

    /// The number of partial results: the segments of all rows, added up.
    #[must_use]
    pub fn partials(&self) -> usize {
        self.members.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(tables: &[u32], rows: &[(u32, u32)], reach: AttentionReach) -> AttentionPlan {
        let rows: Vec<_> = rows
            .iter()
            .map(|&(table, len)| AttentionRow { table, len })
            .collect();
        let mut plan = AttentionPlan::default();
        // The plan is first built for other rows, which must not influence the next build.
        plan.build(
            &[9; 100],
            &[AttentionRow {
                table: 1,
                len: 1500,
            }; 7],
            AttentionReach { group: 2, ..reach },
        );
        plan.build(tables, &rows, reach);
        plan
    }

    const REACH: AttentionReach = AttentionReach {
        page_size: 64,
        window: None,
        group: 4,
    };

    #[test]
    fn branches_share_what_they_have_in_common() {
        // 256 positions in common, then pages of their own.
        let tables = [0, 1, 2, 3, 4, 0, 1, 2, 3, 5];
        let plan = plan(&tables, &[(0, 300), (5, 310)], REACH);
        assert_eq!(
            plan.items,
            [
                [0, 0, 256, 0, 2, 0],
                [0, 256, 300, 2, 1, 2],
                [1, 256, 310, 3, 1, 3]
            ]
        );
        assert_eq!(plan.tables, [0, 1, 2, 3, 4, 5]);
        assert_eq!(plan.members, [0, 1, 0, 1]);
        assert_eq!(plan.row_first, [0, 2, 4]);
        assert_eq!(plan.row_parts, [0, 2, 1, 3]);
        assert_eq!((plan.rows(), plan.partials(), plan.pages), (2, 4, 6));
    }

    #[test]
    fn a_longer_row_brings_its_table() {
        // The second row continues the first row's positions in the same pages.
        let tables = [0, 1, 0, 1, 2];
        let plan = plan(&tables, &[(0, 100), (2, 140), (0, 80)], REACH);
        assert_eq!(plan.items, [[0, 0, 140, 0, 3, 0]]);
        assert_eq!(plan.tables, [0, 1, 2]);
        assert_eq!(plan.members, [0, 1, 2]);
    }

    #[test]
    fn items_are_not_too_large() {
        let rows: Vec<_> = (1..=40).map(|len| (0, len)).collect();
        let plan = plan(&[3], &rows, REACH);
        let counts: Vec<_> = plan.items.iter().map(|item| item[4]).collect();
        assert_eq!(counts, [16, 16, 8]);
        assert_eq!(plan.items[2][1..3], [0, 40]);
    }

    #[test]
    fn windows_and_padding() {
        let reach = AttentionReach {
            window: Some(100),
            ..REACH
        };
        let tables = [u32::MAX, u32::MAX, 2, 3, 4, 5];
        let plan = plan(&tables, &[(0, 240), (0, 0), (0, 330)], reach);
        let from_page_2 = 0u32.wrapping_sub(2);
        assert_eq!(
            plan.items,
            [
                [from_page_2, 140, 256, 0, 2, 0],
                [from_page_2, 256, 330, 2, 1, 2]
            ]
        );
        assert_eq!(plan.tables, [2, 3, 4, 5]);
        assert_eq!(plan.row_first, [0, 1, 1, 3]);
        assert_eq!(plan.row_parts, [0, 1, 2]);
    }
}
