//! `beamgen problems`: problems of the bundled world, to bench or to train on.

use std::io::Write;

use beamgen_train::gates::drawn;
use beamgen_train::world::{Difficulty, Split};

use crate::args::{ProblemsArgs, SplitFlag};
use crate::failure::Failure;

pub fn main(args: &ProblemsArgs) -> Result<(), Failure> {
    let most = beamgen_train::world::NAMES.len();
    if args.reach == 0
        || args.min_people < 2
        || args.max_people < args.min_people
        || args.max_people > most
    {
        return Err(Failure::Input(format!(
            "--min-people {} --max-people {} --reach {}: needs 2 <= min <= max <= {most} and reach >= 1",
            args.min_people, args.max_people, args.reach
        )));
    }
    let split = match args.split {
        SplitFlag::Test => Split::Test,
        SplitFlag::Train => Split::Train,
    };
    let difficulty = Difficulty {
        min_people: args.min_people,
        max_people: args.max_people,
        reach: args.reach,
    };
    let mut out = std::io::stdout().lock();
    for (i, problem) in drawn(args.seed, args.count, difficulty, split)
        .iter()
        .enumerate()
    {
        let line = serde_json::json!({
            "id": format!("world-{}-{}", args.seed, i + 1),
            "problem": problem.text(),
            "answer": problem.answer().to_string(),
        });
        writeln!(out, "{line}")?;
    }
    Ok(out.flush()?)
}
