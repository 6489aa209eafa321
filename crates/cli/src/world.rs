//! `beamgen problems`: problems of the bundled world, to bench or to train on.

use std::io::Write;

use beamgen::Problem;
use beamgen_train::gates::drawn;
use beamgen_train::world::{Difficulty, Split};

use crate::args::{ProblemsArgs, SplitFlag};
use crate::failure::Failure;

pub fn main(args: &ProblemsArgs) -> Result<(), Failure> {
    let problems = problems(args)?;
    let mut out = std::io::stdout().lock();
    for problem in problems {
        let line = serde_json::json!({
            "id": problem.id,
            "problem": problem.text,
            "answer": problem.answer,
        });
        writeln!(out, "{line}")?;
    }
    Ok(out.flush()?)
}

/// The problems themselves, with their answers.
pub fn problems(args: &ProblemsArgs) -> Result<Vec<Problem>, Failure> {
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
    let drawn = drawn(args.seed, args.count, difficulty, split);
    Ok(drawn
        .iter()
        .enumerate()
        .map(|(i, problem)| Problem {
            id: format!("world-{}-{}", args.seed, i + 1),
            text: problem.text(),
            answer: Some(problem.answer().to_string()),
        })
        .collect())
}
