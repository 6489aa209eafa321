use super::*;
use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};

const D: Difficulty = Difficulty {
    min_people: 2,
    max_people: 8,
    dependency_distance: 3,
};

fn example() -> WorldProblem {
    fn fact(name: &str, relation: Relation) -> Fact {
        let person = NAMES.iter().position(|n| *n == name).unwrap();
        Fact { person, relation }
    }
    WorldProblem::new(
        0,
        vec![
            fact("Mia", Relation::Given(34)),
            fact("Leo", Relation::More(8, 0)),
            fact("Tom", Relation::Half(1)),
            fact("Ana", Relation::Together(0, 2)),
        ],
    )
    .unwrap()
}

#[test]
fn a_problem_reads_and_solves_as_written() {
    let p = example();
    assert_eq!(
        p.text(),
        "Mia has 34 pens. Leo has 8 more pens than Mia. Tom has half as many pens as Leo. \
         Ana has as many pens as Mia and Tom together. How many pens does Ana have?"
    );
    assert_eq!(
        p.solution(),
        [
            "Mia has 34 pens: 34.",
            "Leo has 8 more pens than Mia: 34 + 8 = 42.",
            "Tom has half as many pens as Leo: 42 / 2 = 21.",
            "Ana has as many pens as Mia and Tom together: 34 + 21 = 55.",
            "The answer is 55.",
        ]
    );
}

#[test]
fn parse_gives_back_every_drawn_problem() {
    let mut rng = ChaCha8Rng::seed_from_u64(3);
    for _ in 0..500 {
        let p = problem(&mut rng, D, Split::Train);
        assert_eq!(parse(&p.text()), Some(p));
    }
}

#[test]
fn a_twin_has_the_structure_and_other_numbers() {
    fn shape(p: &WorldProblem) -> (usize, Vec<(usize, Relation)>) {
        let facts = p.facts.iter().map(|fact| {
            let relation = match fact.relation {
                Relation::Given(_) => Relation::Given(0),
                Relation::More(_, p) => Relation::More(0, p),
                Relation::Fewer(_, p) => Relation::Fewer(0, p),
                Relation::Times(_, p) => Relation::Times(0, p),
                other => other,
            };
            (fact.person, relation)
        });
        (p.item, facts.collect())
    }
    let mut rng = ChaCha8Rng::seed_from_u64(5);
    for split in [Split::Train, Split::Test] {
        for _ in 0..200 {
            let p = problem(&mut rng, D, split);
            let [first, again] = [7; 2].map(|seed| twin(&mut ChaCha8Rng::seed_from_u64(seed), &p));
            assert_eq!(again, first, "the same seed, another twin");
            let first = first.expect("a twin");
            assert_eq!(shape(&first), shape(&p));
            assert_ne!(first.answer(), p.answer());
            assert_eq!(split_of(&first.text()), split);
        }
    }
}

#[test]
fn the_bundled_dials_cover_what_they_draw_and_nothing_else() {
    fn covered(text: &str) -> bool {
        Difficulty::BUNDLED.covers(&parse(text).unwrap())
    }
    let mut rng = ChaCha8Rng::seed_from_u64(3);
    for _ in 0..200 {
        let p = problem(&mut rng, Difficulty::BUNDLED, Split::Test);
        assert!(Difficulty::BUNDLED.covers(&p), "{}", p.text());
    }
    assert!(covered(
        "Mia has 34 pens. Leo has 8 more pens than Mia. Kim has half as many pens as Leo. \
         How many pens does Kim have?"
    ));
    for text in [
        "Mia has 34 pens. Leo has 8 more pens than Mia. How many pens does Leo have?",
        "Mia has 34 pens. Leo has 8 more pens than Mia. Kim has half as many pens as Mia. \
         How many pens does Kim have?",
    ] {
        assert!(!covered(text), "{text}");
    }
}

#[test]
fn parse_refuses_what_is_not_of_the_world() {
    for text in [
        "",
        "What is 2 + 2?",
        "Mia has 34 pens.",
        "Mia has 34 pens. How many pens does Leo have?",
        "Mia has 34 pens. How many books does Mia have?",
        "Mia has 340 pens. How many pens does Mia have?",
        "Leo has 8 more pens than Mia. Mia has 3 pens. How many pens does Mia have?",
    ] {
        assert_eq!(parse(text), None, "{text}");
    }
}

#[test]
fn splits_are_disjoint_and_depend_on_the_text_alone() {
    let mut rng = ChaCha8Rng::seed_from_u64(4);
    let [train, test] = [Split::Train, Split::Test]
        .map(|split| Vec::from_iter((0..200).map(|_| problem(&mut rng, D, split).text())));
    assert!(train.iter().all(|t| split_of(t) == Split::Train));
    assert!(test.iter().all(|t| split_of(t) == Split::Test));
}

#[test]
fn the_right_solution_is_right_and_every_corruption_wrong() {
    let mut rng = ChaCha8Rng::seed_from_u64(5);
    for _ in 0..300 {
        let p = problem(&mut rng, D, Split::Train);
        let lines = p.solution();
        for done in 0..lines.len() {
            let mut c = Checker::new(&p);
            for line in &lines[..done] {
                assert_eq!(c.next(line), Verdict::Right);
            }
            let bad = corrupt(&mut rng, &p, done);
            assert_ne!(c.next(&bad), Verdict::Right, "{bad}");
            // After a wrong line even the right line counts as wrong.
            assert_ne!(c.next(&lines[done]), Verdict::Right);
        }
    }
}

#[test]
fn the_checker_knows_where_a_line_departs() {
    let p = example();
    let mut c = Checker::new(&p);
    assert_eq!(c.next("Mia has 34 pens: 34."), Verdict::Right);
    assert_eq!(
        c.clone().next("Leo has 8 more pens than Mia: 34 + 8 = 43."),
        Verdict::Wrong {
            from: "Leo has 8 more pens than Mia: 34 + 8 = 4".len()
        }
    );
    // A repeated line, an unknown person, a premature answer, and an empty line.
    for line in [
        "Mia has 34 pens: 34.",
        "Hugo has 34 pens: 34.",
        "The answer is 55.",
        "",
    ] {
        assert_eq!(c.clone().next(line), Verdict::Wrong { from: 0 });
    }
}

#[test]
fn mistakes_are_named_by_where_a_line_departs() {
    let p = example();
    for (line, kind) in [
        (
            "Hugo has 8 more pens than Mia: 34 + 8 = 42.",
            "wrong person",
        ),
        ("Leo has 9 more pens than Mia: 34 + 9 = 43.", "wrong fact"),
        (
            "Leo has 8 more pens than Mia: 43 + 8 = 51.",
            "wrong operand",
        ),
        (
            "Leo has 8 more pens than Mia: 34 - 8 = 26.",
            "wrong operation",
        ),
        (
            "Leo has 8 more pens than Mia: 34 + 9 = 43.",
            "wrong operand",
        ),
        ("Leo has 8 more pens than Mia: 34 + 8 = 52.", "wrong result"),
        ("The answer is 34.", "premature answer"),
    ] {
        let mut c = Checker::new(&p);
        c.next("Mia has 34 pens: 34.");
        let verdict = c.next(line);
        assert_eq!(mistake(line, verdict, true), kind, "{line}");
    }
}

#[test]
fn noisy_solutions_go_wrong_as_often_as_asked() {
    let mut rng = ChaCha8Rng::seed_from_u64(6);
    let careful = ErrorRates::default().scaled(0.0);
    let mut right = 0;
    for _ in 0..300 {
        let p = problem(&mut rng, D, Split::Train);
        assert_eq!(noisy_solution(&mut rng, &p, &careful), p.solution());
        right += usize::from(noisy_solution(&mut rng, &p, &ErrorRates::default()) == p.solution());
    }
    assert!(
        (30..200).contains(&right),
        "{right} of 300 noisy solutions right"
    );
}
