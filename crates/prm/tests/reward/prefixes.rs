//! Prompts that begin with the same text are read once, and scores stay the same.

use beamgen_search::*;

use crate::models::*;

#[test]
fn a_prefix_of_several_prompts_is_read_once() {
    let texts = ["ab 1+2=?", "ab 1+2=? c", "ab 1+2=7 e", "ab 1+2=?"];
    let scores = |prefix_cache| {
        let mut prm = with_cache(&spec("\n"), 400, prefix_cache);
        let mut all = Vec::new();
        for round in [&texts[..1], &texts[1..], &texts[..]] {
            let ids: Vec<ScoreId> = round
                .iter()
                .map(|text| prm.open(&problem(text), 0).unwrap())
                .collect();
            let step = Step::new("a + 1 = 3\n");
            let items: Vec<ScoreItem<'_>> = ids
                .iter()
                .map(|&id| ScoreItem {
                    id,
                    steps: vec![step.as_ref()],
                })
                .collect();
            for scored in prm.score(&items).unwrap() {
                let scored = scored.unwrap();
                assert_eq!(scored.again_flops, 0);
                all.push((scored.probabilities, scored.flops));
            }
            for id in ids {
                prm.release(id);
            }
        }
        (all, prm.executed())
    };
    let (expected, alone) = scores(false);
    let (found, shared) = scores(true);
    assert_eq!(found, expected);
    assert_eq!(alone.prefix_tokens, 0);
    let counted: u64 = expected.iter().map(|(_, flops)| flops).sum();
    assert_eq!(alone.flops, counted);
    assert!(shared.flops < alone.flops);
    // Whole pages of 4 tokens with which seven of the eight prompts begin as an earlier one did. The
    // tokens of a page that is not full are read again, and so is the step.
    assert_eq!(shared.prefix_tokens, 52);
}

/// Tokens that were forgotten count as read again: without them the operations are those of a model
/// with enough memory.
#[test]
fn forgotten_caches_are_counted() {
    let spent = |pages| {
        let mut prm = with_cache(&spec("\n"), pages, false);
        let ids: Vec<ScoreId> = (0..4)
            .map(|i| prm.open(&problem(&format!("{i}+2=?")), 0).unwrap())
            .collect();
        let (mut all, mut again) = (0, 0);
        for round in 0..3 {
            for &id in &ids {
                let step = Step::new(&format!("a + {round} = 3\n"));
                let scored = score(&mut prm, id, &[step]).unwrap();
                all += scored.flops;
                again += scored.again_flops;
            }
        }
        assert_eq!(prm.executed().flops, all);
        (all, again)
    };
    let roomy = spent(4000);
    assert_eq!(roomy.1, 0);
    // With 24 pages only chains are forgotten, with 14 also prompts.
    for pages in [24, 14] {
        let (all, again) = spent(pages);
        assert!(again > 0);
        assert_eq!(all - again, roomy.0, "{pages} pages");
    }
}
