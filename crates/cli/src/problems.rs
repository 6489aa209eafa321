//! `beamgen problems`: samples problems of the bundled world, for benchmarks and training.

use std::io::Write;

use beamgen::Problem;
use beamgen::eval::twins::TWIN;
use beamgen_world::{
    self as world, Checker, Difficulty, ErrorRates, Verdict, WorldProblem, noisy_solution,
};
use serde_json::{Value, json};

use crate::args::ProblemsArgs;
use crate::failure::{Failure, refuse};
use crate::output;
use crate::table::counted;

/// The random stream of solutions with mistakes. Training uses lower numbers, so it never gets the
/// same samples.
const NOISY_SOLUTIONS: u64 = 100;

/// The random stream of twins. Training uses lower numbers.
const TWINS: u64 = 101;

pub(crate) fn main(args: &ProblemsArgs) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    if args.steps {
        for line in chains(args)? {
            writeln!(out, "{line}")?;
        }
        return Ok(out.flush()?);
    }
    let mut line = |id: String, problem: &WorldProblem| {
        let mut line = json!({
            "id": id,
            "problem": problem.text(),
            "answer": problem.answer().to_string(),
        });
        if args.solutions {
            line["solution"] = solution(problem).into();
        }
        writeln!(out, "{line}")
    };
    let mut alone = 0;
    for (i, problem) in worlds(args)?.enumerate() {
        line(id(args, i), &problem)?;
        if args.twins {
            // Each problem has a random stream of its own, so that its twin does not depend on
            // --count or on other problems.
            match world::twin(&mut world::rng(args.seed, TWINS, i), &problem) {
                Some(twin) => line(format!("{}{TWIN}", id(args, i)), &twin)?,
                None => alone += 1,
            }
        }
    }
    if alone > 0 {
        let problems = counted(alone, "problem", "problems");
        output::note(format_args!(
            "note: {problems} without a twin: no other numbers give a valid problem"
        ));
    }
    Ok(out.flush()?)
}

/// Returns the right solution in the generator's format, in which every line ends with a line
/// break, even the last one.
fn solution(problem: &WorldProblem) -> String {
    let lines = problem.solution();
    lines.iter().map(|line| format!("{line}\n")).collect()
}

/// Returns an iterator that samples problems with answers one at a time.
pub(crate) fn generate(args: &ProblemsArgs) -> Result<impl Iterator<Item = Problem>, Failure> {
    let worlds = worlds(args)?.enumerate();
    Ok(worlds.map(|(i, problem)| Problem {
        id: id(args, i),
        text: problem.text(),
        answer: Some(problem.answer().to_string()),
        ..Problem::default()
    }))
}

/// Returns one solution with random mistakes for each problem, in the format of ProcessBench.
fn chains(args: &ProblemsArgs) -> Result<impl Iterator<Item = Value>, Failure> {
    let mut rng = world::rng(args.seed, NOISY_SOLUTIONS, 0);
    let chain = move |(i, problem): (usize, WorldProblem)| {
        let steps = noisy_solution(&mut rng, &problem, &ErrorRates::default());
        let mut checker = Checker::new(&problem);
        let wrong = steps
            .iter()
            // The label comes from the checker, because a generated mistake may cancel out.
            .position(|line| matches!(checker.next(line), Verdict::Wrong { .. }));
        let answer = WorldProblem::answer_line(problem.answer());
        json!({
            "id": id(args, i),
            "problem": problem.text(),
            "level": level(&problem),
            "final_answer_correct": steps.last() == Some(&answer),
            "label": wrong.map_or(-1, |step| step as i64),
            "steps": steps,
        })
    };
    Ok(worlds(args)?.enumerate().map(chain))
}

/// Returns the problem's level, which is the number of people and so of steps.
fn level(problem: &WorldProblem) -> String {
    format!("{} people", problem.facts.len())
}

fn id(args: &ProblemsArgs, index: usize) -> String {
    format!("world-{}-{}", args.seed, index + 1)
}

fn worlds(args: &ProblemsArgs) -> Result<impl Iterator<Item = WorldProblem> + use<>, Failure> {
    let most = world::NAMES.len();
    if args.dependency_distance == 0
        || args.min_people < 2
        || args.max_people < args.min_people
        || args.max_people > most
    {
        return refuse(format!(
            "--min-people {} --max-people {} --dependency-distance {}: needs 2 <= min <= max <= {most} and dependency_distance >= 1",
            args.min_people, args.max_people, args.dependency_distance
        ));
    }
    let difficulty = Difficulty {
        min_people: args.min_people,
        max_people: args.max_people,
        dependency_distance: args.dependency_distance,
    };
    Ok(world::problems(args.seed, difficulty, args.split).take(args.count))
}
