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
    fn any_text_is_handled(text in "(\\PC|\n|\\\\boxed\\{|\\}|####|answer is|\\\\text\\{|%|\\\\frac)*") {
        if let Some(found) = extract(&text) {
            class(found.text);
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
