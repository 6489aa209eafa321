use super::*;

/// Judges both ways round.
fn judged(a: &str, b: &str) -> Verdict {
    let verdict = compare(a, b);
    assert_eq!(verdict, compare(b, a), "{a} against {b} both ways");
    verdict
}

fn all_judged(want: Verdict, pairs: &[(&str, &str)]) {
    let wrong: Vec<String> = pairs
        .iter()
        .filter(|(a, b)| judged(a, b) != want)
        .map(|(a, b)| {
            let got = compare(a, b);
            format!("{a} against {b}: {got:?}, {} and {}", class(a), class(b))
        })
        .collect();
    assert!(wrong.is_empty(), "not {want:?}:\n{}", wrong.join("\n"));
}

#[test]
fn equal_numbers() {
    all_judged(
        Verdict::Same,
        &[
            ("42", "42.0"),
            ("0042", "42"),
            ("+7", "7"),
            ("- 7", "-7"),
            ("-0", "0"),
            ("3.", "3"),
            (".5", "\\frac{1}{2}"),
            ("1,200", "1200"),
            ("1,234,567.50", "1234567.5"),
            ("10{,}000", "10,000"),
            ("11,\\! 111,\\! 111,\\! 100", "11111111100"),
            ("$18", "18"),
            ("18 dollars", "\\$18.00"),
            ("\\$32,\\!348", "32348"),
            ("\\dfrac12", "1/2"),
            ("\\frac 59", "5/9"),
            ("\\frac{270}7\\text{ degrees}", "270/7"),
            ("0.50", "\\frac{3}{6}"),
            ("-\\frac{35}{9}", "\\frac{-35}{9}"),
            ("-\\frac{35}{9}", "\\frac{35}{-9}"),
            ("2\\frac{1}{2}", "5/2"),
            ("-1 3/4", "-1.75"),
            ("2\\cdot\\frac{1}{2}", "1"),
            ("0.\\overline{3}", "1/3"),
            ("50%", "50"),
            ("50\\%", "0.5"),
            ("0.5", "50 percent"),
            ("12\\text{ cm}", "12"),
            ("12 square meters", "12 \\text{ m}^2"),
            ("5\\text{ km/h}", "5"),
            ("90^\\circ", "90"),
            ("90^{\\circ}", "90 \\text{ degrees}"),
            ("-3", "\u{2212}3"),
            ("\\(7\\)", "7"),
            ("**7**", "7"),
            ("1.5 \\times 10^{3}", "1500"),
            ("6.72 \\times 10^{-5}", ".0000672"),
            ("1.5e3", "1,500"),
            ("2^{10}", "1024"),
            ("5!", "120"),
            ("\\binom{5}{2}", "10"),
            ("3 million", "3,000,000"),
            ("x = 5", "5"),
            ("AB = 5", "5"),
            ("f(3) = 5", "5"),
            ("a + b = 2 + 3 = 5", "5"),
            ("\\text{Area} = 5", "5"),
            ("2 + 3 = 5", "5"),
            ("|{-5}|", "5"),
            ("2^{1000}\\cdot 2^{-999}", "2"),
        ],
    );
}

#[test]
fn equal_expressions() {
    all_judged(
        Verdict::Same,
        &[
            ("2x+3", "3+2x"),
            ("(x+1)(x-1)", "x^2-1"),
            ("\\frac{x^2-1}{x-1}", "x+1"),
            ("\\frac{1}{x}+\\frac{1}{y}", "\\frac{x+y}{xy}"),
            ("\\frac{1}{\\sqrt2}", "\\frac{\\sqrt{2}}{2}"),
            (
                "\\frac{1}{1+\\sqrt{2}+\\sqrt{3}}",
                "\\frac{2+\\sqrt2-\\sqrt6}{4}",
            ),
            ("\\sqrt{12}", "2\\sqrt{3}"),
            ("\\sqrt{6}\\sqrt{2}", "2\\sqrt3"),
            ("\\sqrt[3]{16}", "2\\sqrt[3]{2}"),
            ("2^{1/2}", "\\sqrt 2"),
            ("√13", "\\sqrt{13}"),
            ("sqrt(13)", "\\sqrt{13}"),
            ("\\sqrt{-4}", "2i"),
            ("(1+i)^2", "2i"),
            ("\\frac{1}{i}", "-i"),
            ("288 \\pi", "288π"),
            ("2 pi", "2\\pi"),
            ("\\frac{\\pi}{6}", "\\pi/6"),
            ("\\sqrt{x^2+1}\\sqrt{x^2+1}", "1+x^2"),
            ("\\frac{1}{\\sqrt{x+1}}", "\\frac{\\sqrt{x+1}}{x+1}"),
            ("\\sqrt{4x+8}", "2\\sqrt{x+2}"),
            ("2^{n+1}", "2\\cdot 2^n"),
            ("4^n", "2^{2n}"),
            ("e^{x}e^{y}", "e^{x+y}"),
            ("\\log_2 8", "3"),
            ("\\ln 8", "3\\ln 2"),
            ("\\log_{10} 100", "2"),
            ("\\sin 2x", "\\sin(2x)"),
            ("\\sin^2 x", "(\\sin x)^2"),
            ("\\sin x \\cos x", "\\cos(x)\\sin(x)"),
            ("\\cot x", "\\cot(x)"),
            ("\\sin^2 x + \\cos^2 x", "1"),
            ("\\csc^2 x", "\\frac{1}{1-\\cos^2 x}"),
            ("\\sin(y-x)", "-\\sin(x-y)"),
            ("\\sqrt{3+2\\sqrt2}", "1+\\sqrt{2}"),
            ("\\sqrt{7-4\\sqrt3}", "2-\\sqrt{3}"),
            ("x_1+x_2", "x_{2}+x_{1}"),
            (
                "x=\\frac{-1\\pm\\sqrt{5}}{2}",
                "\\frac{-1+\\sqrt5}{2}, \\frac{-1-\\sqrt5}{2}",
            ),
            ("y = 2x+3", "2x+3"),
            ("y = 2x+3", "2x - y + 3 = 0"),
            ("2x - y = -3", "y = 2x + 3"),
            ("f(x) = x^2", "y = x^2"),
            ("y = \\frac{1}{x}", "xy = 1"),
            ("5x - 7y + 11z + 4 = 0", "7y - 5x = 11z + 4"),
            ("(a+5)(b+2)", "ab+2a+5b+10"),
            ("p - q", "-q+p"),
            ("xy", "yx"),
            ("ab", "b a"),
        ],
    );
}

#[test]
fn equal_collections_and_words() {
    all_judged(
        Verdict::Same,
        &[
            ("\\left( 3, \\frac{\\pi}{2} \\right)", "(3,\\frac{\\pi}{2})"),
            ("(x,y) = (1,2)", "(1, 2)"),
            ("\\langle 1,2\\rangle", "(1,2)"),
            ("1,-2", "-2, 1"),
            ("3, 5, 7", "7, 3 \\text{ and } 5"),
            ("x = 1 or x = -2", "1,-2"),
            ("x = 1, y = 2", "y = 2, x = 1"),
            ("\\{1,2\\}", "\\{2, 1\\}"),
            ("\\{1,2\\}", "1, 2"),
            ("\\pm 3", "3, -3"),
            ("1 \\pm \\sqrt{19}", "1+\\sqrt{19},1-\\sqrt{19}"),
            ("\\{1 \\pm \\sqrt{2}\\}", "1 \\pm \\sqrt 2"),
            ("(1,2),(3,4)", "(3,4), (1,2)"),
            ("\\emptyset", "\\{\\}"),
            ("(3,4]", "\\left(3, 4\\right]"),
            ("(2,\\infty)", "x > 2"),
            ("3 < x \\le 4", "(3,4]"),
            ("x \\in [1,2]", "1 \\le x \\leq 2"),
            ("4 \\ge x > 3", "(3,4]"),
            ("(-\\infty,1)\\cup(2,3]", "(2,3] \\cup (-\\infty, 1)"),
            ("x < 1 \\text{ or } x > 2", "(-\\infty,1)\\cup(2,\\infty)"),
            ("x + y < 3", "2x + 2y < 6"),
            ("11_8", "11_{8}"),
            ("52_8", "52"),
            ("5 < 3 - x", "x < -2"),
            (
                "\\begin{pmatrix} -1/3 \\\\ 2/3 \\end{pmatrix}",
                "\\begin{bmatrix} -\\frac13 \\\\ \\frac23 \\end{bmatrix}",
            ),
            (
                "\\begin{pmatrix} -1 & 0 \\\\ 0 & -1 \\end{pmatrix}",
                "\\left(\\begin{array}{cc}-1&0\\\\0&-1\\\\\\end{array}\\right)",
            ),
            ("3:2", "3 : 2"),
            ("\\text{Evelyn}", "evelyn"),
            ("William Shakespeare", "\\text{william  shakespeare.}"),
            ("(A)", "A"),
            ("\\text{(C)}", "c"),
            ("\\textbf{(E)}", "E"),
            ("10\\%, 20\\%", "0.2, 0.1"),
        ],
    );
}

#[test]
fn different_answers() {
    all_judged(
        Verdict::Different,
        &[
            ("42", "43"),
            ("1,2", "12"),
            ("(1,200)", "1200"),
            ("3x", "3"),
            ("3 x", "3"),
            ("2\\pi", "2"),
            ("2 pi", "2"),
            ("0.333", "1/3"),
            ("3.14", "\\pi"),
            ("1.41421356", "\\sqrt2"),
            ("5%", "500%"),
            ("5 km", "5\\text{ m}"),
            ("5 dollars", "5 cents"),
            ("3 m^2", "3\\text{ m}"),
            ("11\\sqrt{2}", "11"),
            ("2 + 3i", "2"),
            ("3 million", "3"),
            ("(1,2)", "(2,1)"),
            ("(1,2]", "[1,2)"),
            ("(1,2)", "[1,2]"),
            ("(1,2,3)", "(1,2)"),
            ("1, 2", "1, 2, 3"),
            ("1, 1, 2", "1, 2, 2"),
            ("x > 2", "x \\ge 2"),
            ("x > 2", "x < 2"),
            ("", "0"),
            ("11_8", "12_8"),
            ("11_8", "23"),
            ("x = 5", "y = 5"),
            ("x + y = 5", "6"),
            ("x^2 + y^2 = 25", "5"),
            ("2x + 3", "3x + 2"),
            ("\\sqrt{x^2+1}", "x+1"),
            ("\\sin x", "\\cos x"),
            ("\\cot x", "5"),
            ("2^n", "n^2"),
            ("a^2", "A^2"),
            ("east", "west"),
            ("east", "4"),
            ("A", "B"),
            (
                "\\begin{pmatrix} 1 & 2 \\end{pmatrix}",
                "\\begin{pmatrix} 2 & 1 \\end{pmatrix}",
            ),
            (
                "\\begin{pmatrix} 1 \\\\ 2 \\end{pmatrix}",
                "\\begin{pmatrix} 2 \\\\ 1 \\end{pmatrix}",
            ),
            ("3:2", "2:3"),
            ("y = x^2", "y = x^3"),
            (
                "170141183460469231731687303715884105728",
                "-170141183460469231731687303715884105728",
            ),
            ("2^{1000}", "2^{1001}"),
        ],
    );
}

#[test]
fn what_cannot_be_told() {
    all_judged(
        Verdict::CannotTell,
        &[
            // not understood
            ("\\int_0^1 x\\,dx", "1/2"),
            ("1/0", "0"),
            ("5 if x > 0", "5"),
            // equal as far as floating point can see, which proves nothing
            ("\\sqrt{x^2}", "x"),
            ("\\sqrt[3]{7+5\\sqrt2}", "1+\\sqrt2"),
            ("\\sin(2x)", "2\\sin x\\cos x"),
            // too large
            ("10^{10^{10}}", "5"),
            ("(a+b+c+d+e)^{99}", "5"),
            ("\\sqrt{1000000000000000000000000000057}", "5"),
            // meant one way or another
            ("52_8", "42"),
            ("101_2", "5_8"),
            ("(1,-2)", "1,-2"),
            ("12 m", "12"),
            ("all real numbers", "\\mathbb{R}"),
            ("x > 1 \\text{ and } x < 2", "(1,2)"),
            ("a + b = 7", "7"),
            ("2:4", "1:2"),
            ("none", "\\emptyset"),
        ],
    );
}

#[test]
fn calls_are_no_products() {
    all_judged(
        Verdict::Different,
        &[
            ("f(0)", "0"),
            ("g(0)", "0"),
            ("N(0)e^{-kt}", "0"),
            ("V(0)+at", "at"),
            ("f'(0)", "0"),
            ("f'(x+1)", "f'(x)+f'(1)"),
            ("f^{-1}(0)", "0"),
            ("f^{-1}(2)", "\\frac{2}{f}"),
            ("N(0)^2", "0"),
            ("P(1)", "P"),
            ("P(1)", "P(2)"),
            ("F(1)", "f(1)"),
            ("a_1(2)", "2a_1"),
            ("\\phi(12)", "12\\phi"),
            ("f(2x+2)", "2f(x+1)"),
            ("f(a+b)", "f(a)+f(b)"),
            ("f(x+1)-f(x)", "f"),
            ("P(x+1)-P(x)", "P"),
        ],
    );
    all_judged(
        Verdict::Same,
        &[
            ("f(4-x)", "f(-x+4)"),
            ("f(1)+f(2)", "f(2)+f(1)"),
            ("f\\left(0\\right)", "f(0)"),
            ("f(x, y)", "f(x,y)"),
            ("0 < g(x) < 2", "(0,2)"),
            ("f(-1) = 5", "5"),
            // products
            ("x(x+1)", "x^2+x"),
            ("2x(x+3)", "2x^2+6x"),
            ("\\frac{n(n+1)}{2}", "\\frac{n^2+n}{2}"),
            ("a(b+c)", "ab+ac"),
            ("n(-1)^n", "n(-1)^n"),
            ("x^2(x+1)", "x^3+x^2"),
            ("P(1+r)^2", "P+2Pr+Pr^2"),
            ("2\\pi(3)", "6\\pi"),
            // an h and a g that are variables elsewhere
            ("\\frac{h(a+b)}{2}", "\\frac12 (a+b)h"),
            ("g(m-n)", "mg-ng"),
        ],
    );
    // a point
    all_judged(Verdict::CannotTell, &[("P(3,4)", "(3,4)")]);
}

#[test]
fn words_after_a_number() {
    all_judged(
        Verdict::Same,
        &[
            ("5 apples", "5"),
            ("5 \\text{ red apples}", "5\\text{ apples}"),
            ("5 \\text{ cats and dogs}", "5"),
            ("5 cats and dogs", "5"),
            ("14 \\text{ right triangles}", "14"),
            ("5 in all", "5"),
            ("5 times", "5"),
            ("5 \\text{ more than Bob}", "5"),
            ("60 mph", "60 miles per hour"),
            ("34\\text{ sq. units}", "34 \\text{ square units}"),
            ("10\\text{ N}", "10"),
            ("3/4 of a pie", "3/4"),
            ("\\frac34 of the pie", "0.75"),
            ("5 \\text{ or fewer}", "5 or fewer"),
            ("7 is impossible", "7 \\text{ is impossible}"),
            ("5 \\text{ million dollars}", "5000000"),
            ("50 \\text{ percent of the total}", "0.5"),
            ("2 dozen", "24"),
            ("2 dozen", "2"),
            ("\\text{A and B}", "B, A"),
            ("21st", "21"),
            ("12th", "12"),
            ("111^{\\text{th}}", "111"),
            ("7:45\\text{ PM}", "7:45 PM"),
            ("7:45 pm", "\\text{7:45 p.m.}"),
        ],
    );
    all_judged(
        Verdict::Different,
        &[
            ("5 \\text{ or fewer}", "5 \\text{ or more}"),
            ("5 \\text{ or fewer}", "5"),
            ("1 \\text{ and all odd primes}", "1"),
            (
                "1 \\text{ and all odd primes}",
                "1\\text{ and every even number}",
            ),
            ("5 dollars", "5 euros"),
            ("7:45 AM", "7:45 PM"),
            ("5st", "5"),
        ],
    );
    all_judged(
        Verdict::CannotTell,
        &[
            ("4 \\text{ if n is odd}", "4 \\text{ if n is even}"),
            ("4 \\text{ if n is odd}", "4"),
            ("7 \\text{ is impossible}", "7"),
            ("5 \\text{ at most}", "5"),
            ("5 degrees below zero", "5"),
            ("5 squared", "5"),
            ("5 apples", "5 oranges"),
            ("40\\%", "40^\\circ"),
            ("40\\%", "40 cm"),
            ("\\$2", "2 euros"),
            ("21\\text{ units}", "21 cm"),
            ("20\\%", "20\\text{ square units}"),
            ("4\\text{ feet}", "4\\text{ units}"),
            ("2\\text{ pieces}", "2\\text{ euros}"),
            ("\u{20ac}2", "\\$2"),
            ("5 apples", "5 miles"),
            ("3 hundredth", "3"),
            ("7:45", "7:45 PM"),
        ],
    );
}

#[test]
fn fractions_in_words() {
    all_judged(
        Verdict::Same,
        &[
            ("3 \\text{ and a half}", "3.5"),
            ("3 and a half hours", "3.5"),
            ("-3 and a half", "-3.5"),
            ("3 \\text{ hours and a half}", "7/2"),
            ("two and three quarters", "2.75"),
            ("3 \\text{ hundredths}", "\\frac{3}{100}"),
            ("7 thousandths", "0.007"),
            ("1 third", "1/3"),
            ("half", "0.5"),
            ("one half", "1/2"),
            ("\\text{two-thirds}", "2/3"),
            ("two thirds of the cake", "2/3"),
            ("half an hour", "1/2"),
            // coins, or parts
            ("3 quarters", "3"),
            ("3 quarters", "3/4"),
            ("20 fifth graders", "20"),
        ],
    );
    all_judged(
        Verdict::Different,
        &[
            ("3 \\text{ and a half}", "3"),
            ("3 \\text{ hundredths}", "3"),
            ("two thirds", "2"),
        ],
    );
}

#[test]
fn upright_letters_and_choices() {
    all_judged(
        Verdict::Same,
        &[
            ("\\text{e}", "e"),
            ("\\text{i}", "i"),
            ("1-\\frac{1}{\\text{e}}", "1-e^{-1}"),
            ("3+2\\,\\text{i}", "3+2i"),
            ("3\\text{x}", "3x"),
            ("\\text{e}", "\\text{(E)}"),
            ("(B)", "B. 23"),
            ("\\textbf{(B)}\\ 23", "B"),
            ("\\textbf{(B) } 23", "23"),
            ("B) 23", "(B) 23"),
            ("B: 23", "B"),
            ("(C) -3", "-3"),
            ("option B", "B"),
            ("\\text{Option (B)}", "b"),
            ("(A) \\text{ and } (C)", "A, C"),
            ("(D) - 3", "D - 3"),
            ("(A) + 1", "1 + A"),
        ],
    );
    all_judged(
        Verdict::Different,
        &[
            ("2\\text{i}", "2"),
            ("(B) 23", "(C) 23"),
            ("B. 23", "A"),
            ("B. 23", "24"),
        ],
    );
    all_judged(Verdict::CannotTell, &[("(B) 23", "(B) 24")]);
}

#[test]
fn points_intervals_and_names() {
    all_judged(
        Verdict::Same,
        &[
            ("(13,5) \\text{ or } (5,13)", "(5,13),(13,5)"),
            ("(13,5) \\text{ or } (5,13)", "(5,13) \\text{ and } (13,5)"),
            ("(1,2) or (3,4)", "(1,2) \\cup (3,4)"),
            ("(1,2) or (3,4)", "(3,4), (1,2)"),
            ("(1,2,3) or (3,2,1)", "(3,2,1),(1,2,3)"),
            ("P = (13,5) or (5,13)", "(5,13),(13,5)"),
            ("x \\in (1,2) or (3,4)", "(1,2) \\cup (3,4)"),
            ("1 < x < 2 or 3 < x < 4", "(1,2) \\cup (3,4)"),
            (
                "(-\\infty,1) or (2,\\infty)",
                "(-\\infty,1)\\cup(2,\\infty)",
            ),
            ("[1,2) or (3,4)", "[1,2)\\cup(3,4)"),
            ("V_1:V_2 = 13:24", "13:24"),
            ("|CD| = 3", "3"),
        ],
    );
    all_judged(
        Verdict::Different,
        &[
            ("x = 3", "a = 3"),
            ("x < 1", "a < 1"),
            ("1 < x < 2", "1 < a < 2"),
            ("x \\ne 1", "a \\ne 1"),
            // a comma separates, and decimals are exact
            ("2,74", "2.74"),
            ("0.0714285714285714", "1/14"),
        ],
    );
    all_judged(
        Verdict::CannotTell,
        &[
            ("(1,2), (3,4)", "(1,2) \\cup (3,4)"),
            ("(0,5)", "0,5"),
            ("|x| = 3", "3"),
        ],
    );
}

#[test]
fn one_vote_for_each_value() {
    for (answers, want) in [
        (
            &["$1,200.50", "2401/2 dollars", "1200\\frac12"][..],
            "2401/2",
        ),
        (&["x=5", "5.0", "5 cm", "y = 5", "5%"], "5"),
        (&["3+2x", "2x + 3", "y=2x+3"], "3+2*x"),
        (&["\\frac{1}{\\sqrt2}", "\\frac{\\sqrt2}{2}"], "1/2*2^(1/2)"),
        (&["1,-2", "\\{-2, 1\\}", "x = -2 or x = 1"], "{-2,1}"),
        (&["(A)", "a", "\\text{A}"], "a"),
        (&["\\frac{2x+2}{x^2-1}", "\\frac{2}{x-1}"], "(2)/(-1+x)"),
        (&["f(1+x)", "f(x+1)"], "f(1+x)"),
        (&["(B) 23", "B", "option b"], "b"),
        (&["5 if odd", "5 \\text{ if odd}"], "5 if odd"),
        (&["\\int x dx", "$\\int xdx$"], "\\intxdx"),
    ] {
        for answer in answers {
            assert_eq!(class(answer), want, "{answer}");
        }
    }
}

/// Every answer here once took, or could take, time or stack that grows with its size.
#[test]
fn a_megabyte_of_anything_returns() {
    let pieces = [
        "(",
        "[",
        "{",
        "\\{",
        "|",
        "\\frac",
        "\\frac{",
        "\\sqrt",
        "\\sqrt{",
        "^",
        "x^",
        "-",
        "\\pm",
        "\\pm(",
        "1,",
        "1+",
        "(x+1)",
        "\\text{",
        "\\text{(",
        "=",
        "x=",
        "<",
        "\\sin",
        "\\begin{pmatrix}",
        "!",
        "9",
        "9!",
        ".",
        "\\overline{",
        "_",
        "x_",
        "%",
        "a b ",
        "\\",
        "é",
        "\\boxed{",
    ];
    for piece in pieces {
        // As long as answers are read at all, and far longer.
        for size in [MAX_BYTES, 1 << 20] {
            let text = piece.repeat(size / piece.len());
            assert_eq!(compare(&text, &text), Verdict::Same);
            assert_ne!(compare(&text, "5"), Verdict::Same, "{piece}");
            class(&text);
        }
    }
    let nested = format!("{}5{}", "(".repeat(100_000), ")".repeat(100_000));
    assert_eq!(judged(&nested, "5"), Verdict::CannotTell);
    let nested = format!("{}5{}", "(".repeat(900), ")".repeat(900));
    assert_eq!(judged(&nested, "5"), Verdict::CannotTell);
}

proptest::proptest! {
    #[test]
    fn any_text_is_handled(text in "(\\PC|\n|</?think>|\\\\boxed\\{|\\}|####|answer is|\\\\text\\{|%|\\\\frac)*") {
        if let Some(found) = extract(&text) {
            class(&found.text);
        }
        reference(&text);
        proptest::prop_assert!(equal(&text, &text));
    }

    #[test]
    fn any_mathematics_is_handled(
        a in "([0-9xyie]|[-+*/^_(){}\\[\\],.=<>|!%&: ]|\\\\(frac|sqrt|pi|pm|text|left|sin|log|infty|cup|\\{|\\}|\\\\)|sqrt|and){0,24}",
        b in "([0-9x]|[-+*/^(),.=]|\\\\(frac|sqrt|pm)){0,8}",
    ) {
        proptest::prop_assert_eq!(compare(&a, &a), Verdict::Same);
        proptest::prop_assert_eq!(compare(&a, &b), compare(&b, &a));
        if class(&a) == class(&b) {
            proptest::prop_assert_ne!(compare(&a, &b), Verdict::CannotTell);
        }
    }
}
