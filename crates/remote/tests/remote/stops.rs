//! Stops and prefixes over servers: the text is cut locally, by the rules of the local generator.

use beamgen_remote::Remote;
use beamgen_search::{Finish, Problem};

use crate::brain::ENGINES;
use crate::runs::*;

#[test]
fn chains_with_stops_and_prefixes_are_those_of_the_local_model() {
    let prefixes = ["", "ab", "1\n2", "é+", "\n"];
    let problems: Vec<Problem> = problems(20)
        .into_iter()
        .zip(prefixes.iter().cycle())
        .map(|(problem, prefix)| Problem {
            prefix: (*prefix).to_owned(),
            ..problem
        })
        .collect();
    let mut ends = Vec::new();
    for plays in ENGINES {
        let server = brain(plays);
        let remote = Remote::new().unwrap();
        let mut generator = connect(&remote, &servers([server.url()])).unwrap();
        for (stop, include) in [
            (vec![], false),
            (vec!["3"], false),
            (vec!["\n\n", "d+"], true),
            (vec!["db", "é"], false),
            // Nearly every text contains one of these.
            (
                vec!["0", "2", "4", "6", "8", "a", "c", "e", "=", "?"],
                false,
            ),
        ] {
            let mut settings = settings("greedy", 1, 0.0);
            settings.generator.stop = stop.iter().map(|&stop: &&str| stop.to_owned()).collect();
            settings.generator.include_stop = include;
            let (expected, outcome) = run(&mut local(), &settings, &problems);
            outcome.unwrap();
            let (found, outcome) = run(&mut generator, &settings, &problems);
            outcome.unwrap();
            for (expected, found) in expected.iter().zip(&found) {
                assert_eq!(expected.error, None);
                assert_eq!(chains(expected), chains(found), "{plays:?} {stop:?}");
                ends.extend(chains(found).iter().filter_map(|chain| chain.2));
            }
        }
    }
    assert!(ends.contains(&Finish::Stop), "{ends:?}");
}
