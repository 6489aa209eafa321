//! Statements of arithmetic, true or with one wrong number, in the layouts of prose and LaTeX.

/// A chain whose last step states something.
#[derive(Debug)]
pub(crate) struct Statement {
    pub problem: String,
    pub steps: Vec<String>,
}

/// Random numbers from a key and a counter.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64, number: u64) -> Self {
        Self(seed ^ number.wrapping_mul(0x9E37_79B9_7F4A_7C15))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number from `low` to `high`, both included.
    fn within(&mut self, low: i64, high: i64) -> i64 {
        low + i64::try_from(self.next() % u64::try_from(high - low + 1).unwrap()).unwrap()
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[usize::try_from(self.next() % from.len() as u64).unwrap()]
    }

    fn chance(&mut self, percent: i64) -> bool {
        self.within(1, 100) <= percent
    }
}

/// Returns the number to state: `value`, or for a false statement 1 to 9 more.
fn stated(random: &mut Random, value: i64, is_false: bool) -> i64 {
    let off = random.within(1, 9);
    if is_false { value + off } else { value }
}

/// The signs of one layout.
struct Style {
    times: &'static str,
    latex: bool,
    open: &'static str,
    close: &'static str,
}

impl Style {
    fn of(random: &mut Random) -> Self {
        let (open, close) = random.pick(&[
            ("", ""),
            ("", ""),
            ("$", "$"),
            ("\\(", "\\)"),
            ("\\[", "\\]"),
            ("\\[\n", "\n\\]"),
            ("$$", "$$"),
            ("\\begin{align*}\n", "\n\\end{align*}"),
        ]);
        let latex = !open.is_empty();
        let times = if latex {
            random.pick(&["\\cdot", "\\times", "*"])
        } else {
            random.pick(&["*", "x", "×", "·"])
        };
        Self {
            times,
            latex,
            open,
            close,
        }
    }

    fn blank(&self, random: &mut Random) -> &'static str {
        if self.latex {
            random.pick(&[" ", " ", " ", "", "\n", "\\, ", "  "])
        } else {
            random.pick(&[" ", " ", ""])
        }
    }

    fn fraction(&self, over: &str, under: &str) -> String {
        if self.latex {
            format!("\\frac{{{over}}}{{{under}}}")
        } else {
            format!("({over})/({under})")
        }
    }

    fn brackets(&self, random: &mut Random, inside: &str) -> String {
        if self.latex && random.chance(50) {
            format!("\\left({inside}\\right)")
        } else {
            format!("({inside})")
        }
    }

    fn wrap(&self, inside: &str) -> String {
        format!("{}{inside}{}", self.open, self.close)
    }
}

/// A whole number and an expression for it.
fn expression(random: &mut Random, style: &Style, depth: u32) -> (i64, String) {
    if depth == 0 || random.chance(25) {
        let value = random.within(2, 40);
        return (value, value.to_string());
    }
    let (a, left) = expression(random, style, depth - 1);
    let (b, right) = expression(random, style, depth - 1);
    let (left, right) = (
        style.brackets(random, &left),
        style.brackets(random, &right),
    );
    let gap = style.blank(random);
    match random.within(0, 4) {
        0 => (a + b, format!("{left}{gap}+{gap}{right}")),
        1 => (a - b, format!("{left}{gap}-{gap}{right}")),
        2 if a.abs() < 10_000 && b.abs() < 10_000 => {
            (a * b, format!("{left} {} {right}", style.times))
        }
        3 if a.abs() < 10_000 && b != 0 && b.abs() < 10_000 => {
            let product = (a * b).to_string();
            (a, style.fraction(&product, &b.to_string()))
        }
        _ if style.latex => (4 * 4 + a, format!("4^{{2}}{gap}+{gap}{left}")),
        _ => (4 * 4 + a, format!("4^2{gap}+{gap}{left}")),
    }
}

/// Words around a statement.
fn sentence(random: &mut Random, statement: &str) -> String {
    let before = random.pick(&[
        "",
        "",
        "So ",
        "Therefore, ",
        "We get ",
        "In total she has ",
        "Step 3: ",
        "1. ",
        "- ",
        "* ",
        "**Sum**: ",
        "The answer is ",
        "Since it is a sum, ",
        "Now the left side is ",
    ]);
    let after = random.pick(&[
        "",
        ".",
        ".",
        ", as wanted.",
        " and we are done.",
        "\n\nThat is all.",
    ]);
    format!("{before}{statement}{after}")
}

/// Writes a statement of a random kind; a false one has one wrong number.
pub(crate) fn statement(random: &mut Random, is_false: bool) -> Statement {
    let kinds: &[fn(&mut Random, bool) -> Statement] = &[
        plain,
        plain,
        plain,
        plain,
        chain,
        rows,
        units,
        rounded,
        share, // claims
        exchanged,
        modular,
        based,
        cases,
        functions,
        letters,
        operators,
        exponents,
        other_signs,
    ];
    // What needs more than its own numbers is no proof when it is false.
    let claims = 9;
    let kinds = if is_false { &kinds[..claims] } else { kinds };
    random.pick(kinds)(random, is_false)
}

fn single(step: String) -> Statement {
    Statement {
        problem: "Find the value.".into(),
        steps: vec![step],
    }
}

fn plain(random: &mut Random, is_false: bool) -> Statement {
    let style = Style::of(random);
    let (value, left) = expression(random, &style, 3);
    let (left, value) = if left.contains(|c: char| "+*/^x×·-".contains(c) || c == '\\') {
        (left, value)
    } else {
        (format!("{left} + 3"), value + 3)
    };
    let value = stated(random, value, is_false);
    let gap = style.blank(random);
    let text = style.wrap(&format!("{left}{gap}={gap}{value}"));
    single(sentence(random, &text))
}

fn chain(random: &mut Random, is_false: bool) -> Statement {
    let style = Style::of(random);
    let (a, left) = expression(random, &style, 2);
    let (b, right) = expression(random, &style, 2);
    let sum = stated(random, a + b, is_false);
    let align = if style.close.contains("align") {
        "\\\\\n&= "
    } else {
        "= "
    };
    let text = format!(
        "({left}) + ({right}) {align}{a} + {} {align}{sum}",
        bracketed(b)
    );
    let text = style.wrap(&text);
    single(sentence(random, &text))
}

fn bracketed(value: i64) -> String {
    if value < 0 {
        format!("({value})")
    } else {
        value.to_string()
    }
}

/// Rows of an equation that break before or after an operator.
fn rows(random: &mut Random, is_false: bool) -> Statement {
    let [a, b, c, d] = [(); 4].map(|()| random.within(2, 300));
    let sum = stated(random, a + b + c + d, is_false);
    let text = match random.within(0, 2) {
        0 => format!(
            "\\begin{{align*}}\n{a} + {b} + {c} + {d} &= {a} + {b} \\\\\n&\\qquad + {c} + {d} \\\\\n&= {sum}\n\\end{{align*}}"
        ),
        1 => format!("\\[\n{a} + {b}\n+ {c}\n+ {d}\n= {sum}\n\\]"),
        _ => format!(
            "\\begin{{align}}\n{a} + {b} &= {} \\\\\n{c} + {d} &= {} \\\\\n{a} + {b} + {c} + {d} &= {sum}\n\\end{{align}}",
            a + b,
            c + d
        ),
    };
    single(text)
}

fn units(random: &mut Random, is_false: bool) -> Statement {
    let (a, b) = (random.within(2, 60), random.within(2, 60));
    let unit = random.pick(&["apples", "dollars", "miles", "hours", "square feet", "kg"]);
    let sum = stated(random, a + b, is_false);
    let text = match random.within(0, 2) {
        0 => format!("{a} {unit} + {b} {unit} = {sum} {unit}"),
        1 => {
            format!("\\({a} \\text{{ {unit}}} + {b} \\text{{ {unit}}} = {sum} \\text{{ {unit}}}\\)")
        }
        _ => format!("${a} + ${b} = ${sum}"),
    };
    single(sentence(random, &text))
}

fn rounded(random: &mut Random, is_false: bool) -> Statement {
    let (a, b) = (random.within(2, 500), random.pick(&[3, 6, 7, 9, 11]));
    let hundredths = (a * 200 + b) / (2 * b)
        + if is_false {
            10 * random.within(1, 9)
        } else {
            0
        };
    let text = format!("{a} / {b} = {}.{:02}", hundredths / 100, hundredths % 100);
    single(sentence(random, &text))
}

fn share(random: &mut Random, is_false: bool) -> Statement {
    let (percent, of) = (random.within(1, 19) * 5, random.within(1, 30) * 20);
    let value = stated(random, percent * of / 100, is_false);
    let text = match random.within(0, 1) {
        0 => format!("{percent}% of {of} = {value}"),
        _ => format!("${percent}\\% \\cdot {of} = {value}$"),
    };
    single(sentence(random, &text))
}

fn exchanged(random: &mut Random, _: bool) -> Statement {
    let (a, b) = (random.within(2, 9), random.within(2, 9));
    single(match random.within(0, 8) {
        0 => format!("{a} hours + {b} minutes = {} minutes", 60 * a + b),
        1 => format!("{a} feet + {b} inches = {} inches", 12 * a + b),
        2 => format!("${a} + {b} cents = ${a}.0{b}"),
        3 => format!("{a} dozen + {b} = {} eggs", 12 * a + b),
        4 => "$\\frac{2.54\\text{ cm}}{1\\text{ in}} = 1$".to_owned(),
        5 => format!("{a} hours + {b} = {} minutes in all", 60 * a + b),
        6 => format!("{a} hundred + {b} = {}", 100 * a + b),
        7 => format!("{b}0% off {a}0 + 10 = {}", (a * 10 + 10) * (10 - b) / 10),
        _ => format!("twice {a} + {b} = {}", 2 * (a + b)),
    })
}

fn modular(random: &mut Random, _: bool) -> Statement {
    let (a, b, m) = (
        random.within(2, 30),
        random.within(2, 30),
        random.within(3, 19),
    );
    let (sum, product) = ((a + b) % m, a * b % m);
    let problem = format!("What is the remainder when ${a} \\cdot {b}$ is divided by ${m}$?");
    let step = match random.within(0, 4) {
        0 => format!("$${a} + {b} = {sum} \\pmod{{{m}}}$$"),
        1 => format!(
            "\\[{a} \\cdot {b} = {} = {product} \\pmod{{{m}}}.\\]",
            a * b
        ),
        2 => format!("Here {a} + {b} = {sum}, mod {m}."),
        3 => format!("{a} * {b} = {product}"),
        _ => format!(
            "$({a})({b}) \\equiv {product} \\pmod {{{m}}}$, so ${a} \\cdot {b} = {product}$."
        ),
    };
    Statement {
        problem,
        steps: vec!["We work modulo the divisor.".into(), step],
    }
}

fn in_base(mut value: i64, base: i64) -> String {
    let mut digits = String::new();
    while value > 0 || digits.is_empty() {
        digits.insert(
            0,
            char::from_digit(u32::try_from(value % base).unwrap(), 36).unwrap(),
        );
        value /= base;
    }
    digits
}

fn based(random: &mut Random, _: bool) -> Statement {
    let base = random.within(2, 9);
    let (a, b) = (random.within(2, 90), random.within(2, 90));
    let [x, y, sum, product] = [a, b, a + b, a * b].map(|value| in_base(value, base));
    let step = match random.within(0, 4) {
        0 => format!("$\\ {x}_{{{base}}} + {y}_{{{base}}} = {sum}_{{{base}}}$"),
        1 => format!("In base {base}, {x} + {y} = {sum}."),
        2 => format!("${x}_{base} \\cdot {y}_{base} = {product}_{base}$"),
        3 => format!("${a} + {b} = {sum}_{base}$"),
        _ => format!("{x} * {y} = {product}"),
    };
    let problem =
        format!("Add ${x}_{{{base}}}$ and ${y}_{{{base}}}$. Express your answer in base ${base}$.");
    Statement {
        problem,
        steps: vec![step],
    }
}

fn cases(random: &mut Random, _: bool) -> Statement {
    let name = random.pick(&["x", "k", "K", "N", "n", "A", "B_1"]);
    let first = random.within(2, 30);
    let second = first + random.within(1, 9);
    let steps = [
        random
            .pick(&["", "First, ", "In one case ", "The smaller one is "])
            .to_owned()
            + &format!("${name} = {first}$."),
        format!("Then ${name} + 1 = {}$.", first + 1),
        random
            .pick(&["", "Second, ", "In the other case ", "The larger one is "])
            .to_owned()
            + &format!("${name} = {second}$."),
        format!(
            "Then ${name} + 1 = {}$, and $2 \\cdot {name} - 3 = {}$.",
            second + 1,
            2 * second - 3
        ),
    ];
    let calculated = [
        format!(
            "The first has the area ${name} = {first} \\cdot 3 = {}$.",
            first * 3
        ),
        format!(
            "The second has the area ${name} = {second} \\cdot 3 = {}$.",
            second * 3
        ),
        format!("So ${name} + 1 = {}$.", second * 3 + 1),
    ];
    let steps = if random.chance(50) {
        steps.to_vec()
    } else {
        calculated.to_vec()
    };
    Statement {
        problem: "Find all values.".into(),
        steps,
    }
}

fn functions(random: &mut Random, _: bool) -> Statement {
    let (a, b) = (random.within(2, 12), random.within(2, 12));
    let name = random.pick(&["f", "g", "P", "h", "Q"]);
    let value = 3 * (a + b) + 1;
    single(match random.within(0, 12) {
        0 => format!("${name}({a} + {b}) = {value}$"),
        1 => format!("So ${name} \\left( {a} + {b} \\right) = {value}$."),
        2 => format!("{name} ({a} + {b}) = {value}"),
        3 => format!("$\\sqrt{{{}}} + {b} = {}$", a * a, a + b),
        4 => format!("$\\gcd({}, {}) = {}$", 6 * a, 4 * a, gcd(6 * a, 4 * a)),
        5 => format!("$\\lfloor {a} / {b} \\rfloor + 1 = {}$", a / b + 1),
        6 => format!("$\\binom{{{a}}}{{2}} + {b} = {}$", a * (a - 1) / 2 + b),
        7 => format!("${a}!/{}! = {a}$", a - 1),
        8 => format!("$|{a} - {}| + {b} = {}$", 2 * a, a + b),
        9 => format!("\\[\\log_{{2}}\n\\frac{{1}}{{8}} + {b} = {}\\]", b - 3),
        10 => format!("gcd ({a} + {a}, {a}) = {a}"),
        11 => format!("$\\sum_{{i=1}}^{{{a}}} {b} + {b} = {}$", 2 * a * b),
        _ => format!("the max of {a} + {b} and 1 = {}", a + b),
    })
}

fn gcd(a: i64, b: i64) -> i64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// Letters that are no units and no articles: these hold for some value of theirs.
fn letters(random: &mut Random, _: bool) -> Statement {
    let (a, b, c) = (
        random.within(2, 12),
        random.within(2, 12),
        random.within(20, 90),
    );
    let letter = random.pick(&["a", "b", "h", "m", "s", "x", "bd", "xy", "n"]);
    single(match random.within(0, 7) {
        0 => format!("we get ${letter}\\left(\\frac{{{a}}}{{{b}}}\\right)^2 = {c}$."),
        1 => format!("({a}/{b}) {letter} + ({a}/{b}) {letter} = {c}"),
        2 => format!("$K = \\frac{{{a}}}{{{b}}} {letter} + {a} {letter} = {c}$"),
        3 => format!("\\[\\frac{{{a}}}{{{b}}} {letter} = {c}\\]"),
        4 => format!("${a}{letter} + {b}{letter} = {c}$"),
        5 => format!("$\\frac{{1}}{{2}} [BPD] + {a} = {c}$"),
        6 => format!("$({a} + {b}) {letter} = {c}$"),
        _ => format!("${letter} ({a} + {b}) = {c}$"),
    })
}

fn operators(random: &mut Random, _: bool) -> Statement {
    let (a, b) = (random.within(2, 12), random.within(2, 12));
    let sign = random.pick(&[
        "*",
        "\\ast",
        "@",
        "\\star",
        "\\oplus",
        "#",
        "\\circ",
        "\\#",
        "\\diamond",
    ]);
    let value = 3 * a + 4 * b - a * b;
    let step = match random.within(0, 2) {
        0 => format!("${a} {sign} {b} = 3({a}) + 4({b}) - ({a})({b})$"),
        1 => format!("We have ${a} {sign} {b} = {value}$."),
        _ => format!("{a} {sign} {b} = {} - {} = {value}", 3 * a + 4 * b, a * b),
    };
    let problem = format!("If $a {sign} b = 3a + 4b - ab$, find ${a} {sign} {b}$.");
    Statement {
        problem,
        steps: vec![step],
    }
}

fn exponents(random: &mut Random, _: bool) -> Statement {
    let (a, b) = (random.within(2, 9), random.within(2, 9));
    single(match random.within(0, 4) {
        0 => format!("${} = {a}^1{b}^2$", a * b * b),
        1 => format!("${a}^2{b} + 0 = {}$", a * a * b),
        2 => format!("${a}^{{2}}{b} = {}$", a * a * b),
        3 => format!(
            "$-{a}^2 = {}$",
            if random.chance(50) { a * a } else { -a * a }
        ),
        _ => format!("$2^{{2^{{3}}}} = 256$, ${a}^0 + {b} = {}$", b + 1),
    })
}

fn other_signs(random: &mut Random, _: bool) -> Statement {
    let (a, b) = (random.within(2, 60), random.within(2, 60));
    single(match random.within(0, 6) {
        0 => format!("- \\({a} - {b} = {}\\)", a - b),
        1 => format!("Is ${a} + {b} = {}$?", a + b + 1),
        2 => format!("If {a} + {b} = {}, we are done.", a + b + 1),
        3 => format!("{a} + {b} = {} is wrong", a + b + 1),
        4 => format!("{a} + {b} = {} + 2 = {}", a + b, a + b + 2),
        5 => format!("{a} : {b} + {b} = {} : {}", 2 * a, 4 * b),
        _ => format!("Fifth, K - {b} = {a}"),
    })
}
