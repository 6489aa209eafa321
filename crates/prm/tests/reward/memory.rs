//! With little memory, caches are forgotten and filled again; scores stay the same.

use beamgen_prm::RewardModel;
use beamgen_search::*;

use crate::models::*;

const PROBLEMS: usize = 5;
const WIDTH: usize = 4;
const DEPTH: usize = 4;

fn text(problem: usize, chain: usize, depth: usize) -> String {
    format!("{problem} {} + {depth} = {chain}\n", "ab c".repeat(chain))
}

/// The scores of one step of a chain.
type Scores = Result<Vec<Option<f32>>, ScoreError>;

/// Grows `WIDTH` chains of each problem step by step, and forks the chains again in every second
/// round.
fn grow(prm: &mut RewardModel) -> (Vec<Scores>, usize) {
    let mut chains: Vec<(usize, ScoreId)> = Vec::new();
    for p in 0..PROBLEMS {
        let root = prm.open(&problem(&format!("ab {p}?")), p as u64).unwrap();
        chains.extend((0..WIDTH).map(|_| (p, prm.fork(root))));
        prm.release(root);
    }
    let (mut scores, mut read) = (Vec::new(), 0);
    for depth in 0..DEPTH {
        let steps: Vec<Step> = chains
            .iter()
            .enumerate()
            .map(|(i, &(p, _))| Step::new(&text(p, i % WIDTH, depth)))
            .collect();
        let items: Vec<ScoreItem<'_>> = chains
            .iter()
            .zip(&steps)
            .map(|(&(_, id), step)| ScoreItem {
                id,
                steps: vec![step.as_ref()],
            })
            .collect();
        for scored in prm.score(&items).unwrap() {
            read += scored.as_ref().map_or(0, |scored| scored.read_tokens);
            scores.push(scored.map(|scored| scored.probabilities));
        }
        if depth % 2 == 1 {
            for (_, id) in &mut chains {
                let next = prm.fork(*id);
                prm.release(*id);
                *id = next;
            }
        }
    }
    for (_, id) in chains {
        prm.release(id);
    }
    assert!(prm.engine().is_empty());
    (scores, read)
}

#[test]
fn forgotten_caches_are_made_again_and_scores_stay_the_same() {
    let (roomy, least) = grow(&mut reward_model(4000));
    assert!(roomy.iter().all(Result::is_ok));
    let mut most = 0;
    for pages in [40, 60, 90, 200, 300] {
        let (tight, read) = grow(&mut reward_model(pages));
        assert_eq!(tight, roomy, "{pages} pages");
        assert!(read >= least);
        most = most.max(read);
    }
    assert!(most > least, "nothing was ever forgotten");
}

#[test]
fn a_chain_that_does_not_fit_alone_is_refused_alone() {
    let (roomy, _) = grow(&mut reward_model(4000));
    let mut refused = 0;
    for pages in (1..40).step_by(4) {
        let (tight, _) = grow(&mut reward_model(pages));
        for (tight, roomy) in tight.iter().zip(&roomy) {
            match tight {
                Ok(scores) => assert_eq!(scores.len(), roomy.as_ref().unwrap().len()),
                Err(ScoreError::NoMemory { .. }) => refused += 1,
                Err(other) => panic!("{other}"),
            }
        }
    }
    assert!(refused > 0);
}
