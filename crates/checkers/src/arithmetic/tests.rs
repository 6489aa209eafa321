//! Tests of the arithmetic checker on single steps and on chains.

use super::*;

fn verdict(step: &str) -> Verdict {
    Arithmetic::new("").next(step)
}

#[test]
fn right_equations_pass_in_all_their_dresses() {
    let mut wrong = Vec::new();
    for step in [
        "3 + 4 = 7",
        "So she has 3 + 4 = 7 apples left.",
        "3 apples + 4 apples = 7 apples",
        "Natalia sold 48/2 = <<48/2=24>>24 clips in May.",
        "Weng earns 12/60 = $<<12/60=0.2>>0.2 per minute.",
        "<<20*.01*50=10>>",
        "\\(1/3 \\times 18 = 6\\) flamingos",
        "\\[ \\frac{3}{4} \\times 8 = 6 \\]",
        "\\(2 \\text{ books} \\times 2 \\text{ pounds/book} = 4 \\text{ pounds}\\)",
        "$1,200 - $200 = $1,000",
        "20% of 50 = 10",
        "50 * 20% = 10",
        "0.25 = 25%",
        "3 x 4 = 12 and 2x3 = 6",
        "2 1/2 * 4 = 10",
        "10 / 3 = 3.33",
        "20 / 3 = 6.67 = 7",
        "10/3 ≈ 3.3",
        "199 * 5 is about 199 * 5 ≈ 1000",
        "-9 - 5 - 0 = -14",
        "(7 - -7 * 4) = (7 + 28) = 35",
        "2^10 = 1024, 2**3 = 8, 3² = 9",
        "**Total**: 3 * (4 + 1) = **15**",
        "3 * 4\n= 12",
        "12 = 3 * 4 = 2 * 6",
        "1/2 + 1/3 = 5/6",
        "2(3 + 4) = 14",
        "5 * 0.33 = 1.67",
        "\\[ \\frac{500}{2} = 250 \\] \\[ \\text{Earnings} = 45 \\times 250 \\]",
        "11/18*162 = <<11/18*162=99.00000000000001>>99",
        "580/110 = 5.2727272727272725",
    ] {
        wrong.extend((verdict(step) != Verdict::Pass).then(|| (step, verdict(step))));
    }
    assert_eq!(wrong, []);
}

#[test]
fn wrong_equations_fail_with_the_reason_in_words() {
    let mut wrong = Vec::new();
    for (step, why) in [
        ("So 3 * 4 = 13.", "3 * 4 is 12, not 13"),
        ("She pays $5 * 3 = $16.", "$5 * 3 is 15, not $16"),
        (
            "It is 3 apples + 4 apples = 8 apples.",
            "3 apples + 4 is 7, not 8",
        ),
        (
            "They sold 48/2 = <<48/2=25>>25 clips.",
            "48/2 is 24, not 25",
        ),
        ("3 + 4 = 7 = 8", "7 is 7, not 8"),
        ("10 / 4 = 2.4", "10 / 4 is 2.5, not 2.4"),
        ("10 / 3 = 3.43", "10 / 3 is 3.333333..., not 3.43"),
        ("20% of 50 = 11", "20% of 50 is 10, not 11"),
        (
            "(-6) + (18) = 12 and -6 + 5 - 72 = -67",
            "-6 + 5 - 72 is -73, not -67",
        ),
        (
            "(8 - 9) * 3 = (-1) * 4 = -4",
            "(8 - 9) * 3 is -3, but (-1) * 4 is -4",
        ),
        ("\\(12 \\times 12 = 140\\)", "12 \\times 12 is 144, not 140"),
        ("- 3 * 4 = 13", "- 3 * 4 is -12, not 13"),
        ("$2.99 * 3 = $9.97", "$2.99 * 3 is 8.97, not $9.97"),
        ("2^10 = 1000", "2^10 is 1024, not 1000"),
        ("10/3 ≈ 5", "10/3 is 3.333333..., not about 5"),
    ] {
        let said = verdict(step);
        wrong.extend((said != Verdict::fail(why)).then_some((step, said)));
    }
    assert_eq!(wrong, []);
}

#[test]
fn any_wrong_equation_fails_the_step() {
    assert!(verdict("3 + 4 = 7, 5 + 5 = 11, 1 + 1 = 2").is_fail());
    assert!(verdict("3 + 4 = <<3+4=8>>7").is_fail());
}

#[test]
fn what_proves_nothing_is_abstained_from() {
    let mut wrong = Vec::new();
    for step in [
        "She has many apples.",
        "x + 3 = 10",
        "2x + 3 = 11",
        "2 adults + 3 kids = 35",
        "Day 1 = 5, Day 2 = 7",
        "1 hour = 60 minutes",
        "3 feet = 36 inches",
        "2 dozen * 3 = 72",
        "30 minutes * 4 miles/hour = 2 miles",
        "50 cents * 3 = $1.50",
        "twice 5 + 3 = 13",
        "3 less than 8 + 2 = 7",
        "Week 1 + Week 2 = 30",
        "the total - 3 + 5 = 20",
        "3 + 4 = 7 + 2 = 9",
        "The claim 3 + 4 = 8 is wrong.",
        "10 + 5 = 3 pm",
        "17 / 5 = 3 with a remainder of 2",
        "90 minutes + 30 minutes = 2 hours",
        "100 * 3 = 5 hours and 0 minutes",
        "5! + 1 = 7",
        "11 / 4 = 2",
        "20 / 3 = 6.66",
        "1 + 2 + ... + 10 = 55 + 1",
        "10:30 + 1 = 11",
        "120\n- 20 - 4\n= 96",
        "f(3) = 12",
        "sqrt(16) + 1 = 5",
        "3 @ $5 = $15",
        "A rectangle of 3 by 4 + 1 = 13",
        "16,0000/10 = 16000",
        "14, 400 / 80 = 180",
        "12 x 1 and 1/4 = 15",
        "0900-0130 = 0730",
        "$100+($100*(10/100) = $110",
        ".1(Number of Minutes) + 1 = .15(Number of Minutes)",
        "20 + 10 to the 29 + 24 there = 83",
        ".8 + . 84 + .82 = 2.46",
        "Subtract Weeks 3-4 from Weeks 1-2 = 26",
        "28 / 1/5 = 140",
        "\\begin{pmatrix} 6-2 \\\\ -24-(-14) \\end{pmatrix} = \\begin{pmatrix} 4 \\\\ -10 \\end{pmatrix}",
        "3\\frac{4}{5} = \\frac{19}{5}",
        "\\frac{1}{2} \\text{ inch} = 20 \\text{ miles}",
        "x - 8 = 12 \\quad \\text{or} \\quad x - 8 = -12",
        "60 / 15 = 4 (15 minutes)",
        "1/4 of the tank's capacity = 18000 / 4",
        "$1800 - $2000 = $200 less",
        "Is $3^2 + 4^2 = 6^2$?",
        "If 3 + 4 = 8, they are collinear",
        "we get 5 + 5 = 3 * 5, but 10 ≠ 15",
        "2 dozen + 3 = 27",
        "2 hours + 30 = 150",
        "$2 + 50 cents = $2.50",
        "20% off 50 + 10 = 48",
        "2 : 3 + 1 = 8 : 16",
    ] {
        wrong.extend((verdict(step) != Verdict::Abstain).then(|| (step, verdict(step))));
    }
    assert_eq!(wrong, []);
}

/// Steps that are true, each with what makes it look false.
#[test]
fn letters_of_mathematics_are_variables() {
    abstains(&[
        // No article, but a coefficient.
        "we get $a\\left(\\frac{4}{3}\\right)^2 = 12$.",
        "Then a(4/3) = 12.",
        "So $f \\left( 2 + 1 \\right) = 7$.",
        "\\[g (2 + 1) = 5\\]",
        // No units, but factors.
        "(16/3) h = 32",
        "\\(\\frac{2}{3} s + \\frac{1}{3} s = 834\\)",
        "$\\frac{1}{2} [BPD] + \\frac{1}{2} [BPD] = 5$",
        "\\(\\frac{1}{5} bd + \\frac{1}{5} bd = 4\\)",
        "1/5 bd + 1/5 bd = 4",
        "$3 x (2 + 1) = 18$",
        "we get $xy\\left(2 + 1\\right) = 18$",
    ]);
}

#[test]
fn the_layout_of_latex_is_not_its_meaning() {
    abstains(&[
        // LaTeX raises one token.
        "$75 + 0 = 3^15^2$",
        "$16 + 16 = 2^34$",
        // A row that goes on in the next.
        "\\begin{align*} 3 + 4 + 5 &= 3 + 4 \\\\ &\\qquad + 5 \\\\ &= 12 \\end{align*}",
        "\\[\\begin{aligned} 6 \\cdot 4 \\div 2 &= 6 \\cdot 4 \\\\ &\\quad \\div 2\\end{aligned}\\]",
        // Mathematics that began before the text.
        "5\\cdot 4\\cdot 3 = 2520$ sequences",
        "- \\(48 - 2 = 46\\)",
    ]);
    for right in [
        "The sum is $2(12) - 2(2) = 24\n- 4 = 20$.",
        "\\[\n3\n+ 4\n= 7\n\\]",
        "$5 + $6 = $11 and $3 x 4 = $12",
    ] {
        assert_eq!(verdict(right), Verdict::Pass, "{right}");
    }
    assert!(verdict("\\[\n3\n+ 4\n= 8\n\\]").is_fail());
    assert!(verdict("She pays $3 x 4 = $13").is_fail());
    assert!(verdict("so $4 \\cdot 4 = 8$.").is_fail());
}

#[test]
fn mathematics_may_go_on_from_step_to_step() {
    let mut state = Arithmetic::new("");
    state.next("\\begin{align*} 7 \\cdot 6 \\cdot");
    assert_eq!(
        state.next("5 \\cdot 4 = 840 \\end{align*}"),
        Verdict::Abstain
    );
    assert!(state.next("5 \\cdot 4 = 840").is_fail());
}

#[test]
fn ratios_of_units_and_cases_prove_nothing() {
    abstains(&[
        "$\\frac{2.54\\text{ cm}}{1\\text{ in}} = 1$",
        "7 knicks / 2 knacks = 1",
        "Fifth, K-9 = 8",
        "By the rules 0 + 0 = 0 and 1 + 1 = 0 we find the parity",
    ]);
    let mut state = Arithmetic::new("");
    state.next("In the first case K = 10.");
    assert_eq!(state.next("Then K - 9 = 8."), Verdict::Abstain);
}

#[test]
fn moduli_bases_and_operators_are_taken_from_problem_and_steps() {
    let said = |problem: &str, step: &str| Arithmetic::new(problem).next(step).name();
    for (problem, right, wrong) in [
        ("Find it modulo 17.", "(4^2)^2 = (-1)^2", "(4^2)^2 = (-2)^2"),
        (
            "",
            "\\[4^4 = (4^2)^2 = (-1)^2 = 1 \\pmod{17}\\]",
            "\\[4^4 = (4^2)^2 = (-2)^2 = 4 \\pmod{17}\\]",
        ),
        (
            "What is the remainder when 7^3 is divided by 10?",
            "7^3 = 3 ",
            "7^3 = 4 ",
        ),
        ("What is the units digit of 7^3?", "7^3 = 3", "7^3 = 4"),
        ("What time is it on a clock?", "11 + 3 = 2", "11 + 3 = 4"),
        ("Add in base 7.", "6 + 1 = 10", "6 + 1 = 40"),
        ("Add in base 7.", "6 + 5 = 4", "6 + 5 = 3"),
        ("Find $24_5 + 13_5$.", "24 + 13 = 42", "24 + 13 = 80"),
    ] {
        assert_eq!(said(problem, right), "abstain", "{problem} {right}");
        assert_eq!(said(problem, wrong), "fail", "{problem} {wrong}");
    }
    for (problem, step) in [
        (
            "If $a \\ast b = 3a+4b-ab$, find $5 \\ast 2$.",
            "$5\\ast 2 = 3(5)+4(2)-(5)(2)$",
        ),
        ("Let a * b = a^2 + b^2.", "3 * 2 = 9 + 4"),
        (
            "The operation / is defined by a / b = a + 2b.",
            "3 / 2 = 3 + 4",
        ),
        ("Let #x be (.5x + 1).", "\\#(16)=(.5(16)+1)=9"),
    ] {
        assert!(
            !Arithmetic::new(problem).next(step).is_fail(),
            "{problem} {step}"
        );
    }
    assert_eq!(said("Let a * b = a^2 + b^2.", "3 + 2 = 6"), "fail");
}

fn abstains(steps: &[&str]) {
    let wrong = steps.iter().map(|step| (step, verdict(step)));
    let wrong: Vec<_> = wrong
        .filter(|(_, said)| *said != Verdict::Abstain)
        .collect();
    assert_eq!(wrong, []);
}

#[test]
fn variables_that_were_bound_are_substituted() {
    let mut state = Arithmetic::new("");
    assert_eq!(
        state.next("Let's calculate A = (-9 - 5) = -14."),
        Verdict::Pass
    );
    assert_eq!(state.next("Let's calculate B = 2 * 3 = 6."), Verdict::Pass);
    let mut other = state.clone();
    assert_eq!(state.next("Then A - B = -14 - 6 = -20."), Verdict::Pass);
    assert_eq!(
        other.next("Then A - B = -21."),
        Verdict::fail("A - B is -20, not -21 (with A = -14, B = 6)")
    );
    // Nothing is known of C, and of A nothing any more.
    assert_eq!(other.next("A + C = 3"), Verdict::Abstain);
    other.next("A = 3 or 4");
    assert_eq!(other.next("Then A - B = -21."), Verdict::Abstain);
}

#[test]
fn only_a_name_with_one_calculated_value_is_substituted() {
    let mut state = Arithmetic::new("");
    state.next("So r = 5 * 5 = 25 and S = 5 * 5 = 25 and T = 25.");
    // An unknown has a value in each case, and so may a name that nobody worked out.
    assert_eq!(state.next("2 + r = 28"), Verdict::Abstain);
    assert_eq!(state.next("2 + T = 28"), Verdict::Abstain);
    assert!(state.next("2 + S = 28").is_fail());
    let mut other = state.clone();
    state.next("If S = 75, it is too wide.");
    assert_eq!(state.next("150 - S = 150 - 40 = 110"), Verdict::Pass);
    other.next("For the second square S = 6 * 6 = 36.");
    assert_eq!(other.next("2 + S = 28"), Verdict::Abstain);
}

#[test]
fn a_wrong_calculation_says_what_its_name_stands_for() {
    let mut state = Arithmetic::new("");
    state.next("B = (2 + 3)");
    assert!(state.next("B = (2 + 3) = 6").is_fail());
    assert_eq!(state.next("B + 1 = 6 + 1 = 7"), Verdict::Pass);
    assert!(state.next("B + 1 = 8").is_fail());
}

#[test]
fn a_rounded_number_may_be_used_as_what_it_stands_for() {
    let mut state = Arithmetic::new("");
    assert_eq!(state.next("100 / 3 = 33 people"), Verdict::Pass);
    assert_eq!(state.next("33 * 3 = 100"), Verdict::Pass);
    assert!(verdict("33 * 3 = 100").is_fail());
}

#[test]
fn hostile_steps_never_fail_and_their_work_is_bounded() {
    let deep = format!("{}1{} = 2", "(".repeat(30_000), ")".repeat(30_000));
    let signs = format!("{}1 = 2", "-".repeat(60_000));
    let powers = format!("1 = {}", "-(".repeat(200) + "2" + &"^2)".repeat(200));
    let starts = format!("{} = 3", "1 ".repeat(30_000));
    let sides = "1 = ".repeat(16_000);
    for step in [
        "9^9^9^9 = 1",
        "9^999999999999 = 1",
        "2^-9^9 = 0",
        "1e999 * 1e999 * 1e999 = 5",
        "1 / 0 = 3",
        "0^0 = 7",
        &deep,
        &signs,
        &powers,
        &starts,
        &sides,
        &format!("{} + 1 = 3", "9".repeat(1_000_000)),
        &format!("{} + 1 = 3", "9".repeat(60_000)),
        &"(".repeat(60_000),
        &"3 + 4 = 8 ".repeat(1_000_000),
    ] {
        let name: String = step.chars().take(20).collect();
        assert!(!verdict(step).is_fail(), "{name}");
    }
}

proptest::proptest! {
    #[test]
    fn sums_and_products_are_checked_exactly(a in -999i64..999, b in -999i64..999, off in 1i64..50) {
        for (sign, value) in [("+", a + b), ("-", a - b), ("*", a * b)] {
            let right = format!("So ({a}) {sign} ({b}) = {value}.");
            proptest::prop_assert_eq!(verdict(&right), Verdict::Pass, "{}", right);
            let wrong = format!("So ({a}) {sign} ({b}) = {}.", value + off);
            proptest::prop_assert!(verdict(&wrong).is_fail(), "{}", wrong);
        }
    }

    #[test]
    fn any_text_gets_a_verdict(text in "(\\PC|[0-9x=+*/^$%\\\\{}()._,'\n -]|<<|>>)*") {
        verdict(&text);
    }
}
