//! Pages in a real browser: the page of a run with a large tree, by mouse, keyboard and for screen
//! readers, and the live page of a server. Skipped where Chromium is not installed.

mod driver;
#[cfg(feature = "serve")]
mod live;

use std::path::Path;

use beamgen_test_support::named_by;
use serde_json::{Value, json};

use self::driver::Browser;
use crate::run::Place;

/// Steps of the large tree, besides the root.
const STEPS: usize = 10_000;

/// A run file with one problem, whose tree has [`STEPS`] steps: 8 chosen by 1250 rounds' worth of
/// siblings. Model text in it tries to act.
fn large_run() -> String {
    let deep = 20;
    let mut nodes = vec![json!({
        "parent": null, "children": [], "depth": 0, "stream": 1, "tokens": [], "text": "",
        "logprob": 0.0, "score": null, "state": "expanded",
    })];
    let mut parent = 0;
    for depth in 1..=deep {
        let siblings = STEPS / deep;
        let first = nodes.len();
        for at in 0..siblings {
            let is_kept = at == 0;
            let score = if is_kept {
                0.99
            } else {
                (at % 90) as f64 / 100.0
            };
            let mut node = json!({
                "parent": parent, "children": [], "depth": depth, "stream": first + at, "tokens": [1, 2],
                "text": format!("{depth}.{at} <img src=x onerror=document.title='broken'>\n"),
                "logprob": -1.5, "score": score, "round": depth, "state": "expanded",
            });
            if !is_kept {
                node["state"] = json!("pruned");
                node["pruned"] = json!({
                    "reason": "not-chosen", "round": depth, "rank": at + 1, "candidates": siblings, "cutoff": 0.95,
                });
            } else if depth == deep {
                node["state"] = json!("finished");
                node["finish"] = json!("answer");
            }
            nodes.push(node);
        }
        nodes[parent]["children"] = (first..first + siblings).collect();
        parent = first;
    }
    let header = json!({"beamgen_run": 1, "problems": "", "settings": {"search": {"strategy": "beam", "n": 500}}});
    let record = json!({
        "id": "large", "problem": "A <b>large</b> search?", "reference": "8", "answer": "7", "correct": false,
        "steps": [{"text": "1.0", "score": 0.99}], "score": 0.99, "finish": "answer",
        "answers": [{"answer": "7", "votes": 1, "weight": 0.99, "score": 0.99, "node": parent}],
        "ledger": {"prompt_tokens": 0, "generated_tokens": 20000, "scored_tokens": 0, "reused_tokens": 0,
            "forward_passes": 0, "peak_kv_bytes": 0, "seconds": 1.5},
        "tree": nodes,
    });
    format!("{header}\n{record}\n")
}

/// The page of a run, and its address.
fn page(place: &Place, run: &str) -> String {
    place.write("run.jsonl", run);
    place.run(&["show", "run.jsonl", "--html", "out.html"]).ok();
    format!("file://{}", place.path("out.html").display())
}

/// No request but for the page itself left, nothing was refused and no script failed.
#[track_caller]
fn assert_quiet(browser: &Browser, own: &str) {
    let outside: Vec<String> = browser
        .requests()
        .into_iter()
        .filter(|url| !url.starts_with(own) && !url.starts_with("data:"))
        .collect();
    assert_eq!(outside, [""; 0], "requests that leave the page");
    assert_eq!(browser.console(), [""; 0], "the console");
}

/// Runs axe-core, if `BEAMGEN_TEST_AXE` names its file (from npm): no serious findings.
#[track_caller]
fn assert_accessible(browser: &Browser, what: &str) {
    let Some(path) = named_by("BEAMGEN_TEST_AXE", "axe.min.js (npm's package axe-core)") else {
        return;
    };
    let axe = std::fs::read_to_string(path).expect("axe-core");
    browser.script(&format!("{axe}; window.axe = axe;"));
    browser.script("window.found = null; axe.run().then((result) => { window.found = result; });");
    let found = browser.wait(
        "return window.found && {passes: window.found.passes.length, violations: window.found.violations
             .map((v) => [v.id, v.impact, v.nodes.map((n) => n.html).slice(0, 3)])};",
    );
    assert!(found["passes"].as_u64() > Some(10), "{what}: {found}");
    let serious = |of: &&Value| [json!("serious"), json!("critical")].contains(&of[1]);
    let all = found["violations"].as_array().expect("a list");
    let serious: Vec<&Value> = all.iter().filter(serious).collect();
    assert!(serious.is_empty(), "{what}: {serious:?}");
}

/// Keeps a screenshot in the folder `BEAMGEN_TEST_SHOTS`, if that is set, to be looked at.
fn keep(browser: &Browser, name: &str) {
    let shot = browser.screenshot();
    assert!(shot.starts_with(b"\x89PNG") && shot.len() > 5_000, "{name}");
    if let Some(folder) = std::env::var_os("BEAMGEN_TEST_SHOTS") {
        std::fs::write(Path::new(&folder).join(name), shot).expect("a file");
    }
}

const FOCUSED: &str = "const row = document.activeElement; return {
    text: row.textContent, level: row.ariaLevel, place: row.ariaPosInSet, of: row.ariaSetSize,
    expanded: row.ariaExpanded, role: row.getAttribute('role'), tab: row.tabIndex};";

#[test]
fn a_report_of_ten_thousand_steps_is_read_by_mouse_and_keyboard() {
    let Some(browser) = Browser::start() else {
        return;
    };
    let place = Place::new();
    let address = page(&place, &large_run());
    browser.open(&address);
    assert_accessible(&browser, "the list");
    keep(&browser, "large-list.png");
    let list = "return [document.getElementById('columns').innerText.split(/\\s+/).join(' '), document.querySelector('.calibration').textContent, document.querySelector('.figures li').textContent]";
    let list = browser.script(list);
    assert_eq!(list[0], "outcome id problem answer score cost");
    assert_eq!(list[2], "1problem");
    let axes = list[1].as_str().expect("text");
    assert!(
        axes.contains("score of the chosen chain") && axes.contains("right answers"),
        "{axes}"
    );

    // Three clicks: the problem, the step that went wrong, the branch that was pruned.
    browser.click("a.problem-link");
    let findings = browser.wait("return document.querySelector('.findings')?.textContent;");
    let findings = findings.as_str().expect("text").to_owned();
    for question in [
        "Which step went wrong?",
        "Did the scorer see it?",
        "Was a better branch pruned?",
    ] {
        assert!(findings.contains(question), "{findings}");
    }
    browser.click(".findings button");
    let chain = browser.wait("return document.querySelector('.detail .steps')?.children.length;");
    assert!(chain.as_u64() >= Some(1), "{chain}");
    assert!(
        browser
            .script("return document.querySelector('.counts').textContent")
            .as_str()
            .is_some_and(|text| text.replace('\u{202f}', "").contains("10000 steps"))
    );

    // The search is replayed by keys.
    browser.script("document.querySelector('.replay input').focus()");
    let standing = "return [document.querySelector('.replay .dim').textContent, document.querySelector('.counts b').textContent]";
    for (key, text, steps) in [
        ("\u{e012}", "after round 19 of 20", "9\u{202f}500"),
        ("\u{e011}", "after round 1 of 20", "500"),
        ("\u{e010}", "the result", "10\u{202f}000"),
    ] {
        browser.press(&[key]);
        assert_eq!(browser.script(standing), json!([text, steps]));
    }
    assert_accessible(&browser, "a replay");

    // Of 10,000 rows those in sight are elements; the last is reached by a key.
    browser.script("document.querySelector('.scroller').scrollTop = 0; document.querySelector('[role=treeitem][tabindex=\"0\"]').focus();");
    browser.press(&["\u{e010}"]);
    let group = browser.script(FOCUSED);
    assert!(
        group["text"]
            .as_str()
            .is_some_and(|text| text.contains("499 pruned steps")),
        "{group}"
    );
    assert_eq!(
        (&group["expanded"], &group["of"]),
        (&json!("false"), &json!("2"))
    );
    browser.press(&["\u{e014}", "\u{e010}"]);
    let last = browser.script(FOCUSED);
    assert_eq!(
        (&last["role"], &last["tab"]),
        (&json!("treeitem"), &json!(0))
    );
    assert_eq!(
        (&last["of"], &last["place"]),
        (&json!("499"), &json!("499"))
    );
    assert!(
        last["text"]
            .as_str()
            .is_some_and(|text| { text.contains("pruned: rank 500 of 500, cut-off 0.950, round") }),
        "{last}"
    );
    let rows = browser.script("return document.querySelectorAll('[role=treeitem]').length");
    assert!(rows.as_u64() < Some(100), "{rows} rows are elements");
    browser.press(&["\u{e011}"]);
    let first = browser.script(FOCUSED);
    assert_eq!(
        (&first["level"], &first["expanded"]),
        (&json!("1"), &json!("true"))
    );
    browser.press(&["\u{e014}"]);
    assert_eq!(browser.script(FOCUSED)["level"], "2");
    browser.press(&["\u{e012}", "\u{e012}"]);
    assert_eq!(
        browser.script(FOCUSED)["level"],
        "1",
        "left goes to the parent"
    );
    // Type-ahead goes to the next step that begins so.
    browser.press(&["1", ".", "7"]);
    let typed = browser.script(FOCUSED);
    assert!(
        typed["text"]
            .as_str()
            .is_some_and(|text| text.contains("1.7")),
        "{typed}"
    );
    // Enter reads it, Space pins it, and the next one stands beside it.
    browser.press(&["\u{e007}", " ", "\u{e015}", "\u{e007}"]);
    let two = browser.wait("return document.querySelector('.compare')?.textContent;");
    let two = two.as_str().expect("text").to_owned();
    assert!(
        two.contains("1.7 <img") && two.contains("1.8 <img"),
        "{two}"
    );

    // Model text stayed text.
    assert_eq!(
        browser.script("return document.querySelectorAll('img, b.large').length"),
        0
    );
    assert_ne!(browser.script("return document.title"), "broken");
    assert_accessible(&browser, "a problem");
    for (colours, width, height) in [
        ("light", 1280, 900),
        ("dark", 1280, 900),
        ("light", 390, 844),
    ] {
        browser.emulate(colours, width, height);
        keep(&browser, &format!("large-{colours}-{width}.png"));
        let wide = browser.script("return document.documentElement.scrollWidth");
        assert!(wide.as_u64() <= Some(u64::from(width)), "{wide} in {width}");
        assert_accessible(&browser, &format!("{colours}, {width}"));
    }
    assert_quiet(&browser, &address);
}

#[test]
fn filters_and_folds_leave_what_is_asked_for() {
    let Some(browser) = Browser::start() else {
        return;
    };
    let place = Place::new();
    let place_of = [
        "solve", "--limit", "1", "-n", "8", "--tree", "--quiet", "--out", "of.jsonl",
    ];
    place.run(&place_of).ok();
    let run = place.read("of.jsonl");
    let address = page(&place, &run);
    browser.open(&format!("{address}#0"));
    browser.wait("return document.querySelectorAll('[role=treeitem]').length");
    let pruned = "return [...document.querySelectorAll('.row.pruned')].length";
    assert!(browser.script(pruned).as_u64() > Some(0));
    let record: Value = serde_json::from_str(run.lines().nth(1).expect("a record")).expect("JSON");
    replay(&browser, &record["tree"]);
    let choose = |value: &str| {
        browser.script(&format!(
            "const select = document.querySelector('.tools select'); select.value = '{value}';
             select.dispatchEvent(new Event('change'));"
        ));
    };
    choose("alive");
    assert_eq!(browser.script(pruned), 0);
    choose("chosen");
    let rows = browser.script(
        "return [...document.querySelectorAll('.row .text')].map((row) => row.textContent)",
    );
    let rows: Vec<&str> = rows
        .as_array()
        .expect("rows")
        .iter()
        .filter_map(Value::as_str)
        .collect();
    let steps = record["steps"].as_array().expect("steps").iter();
    let steps: Vec<&str> = steps.filter_map(|step| step["text"].as_str()).collect();
    assert_eq!(
        rows.iter()
            .filter(|row| **row != "(no text)")
            .copied()
            .collect::<Vec<_>>(),
        steps
    );
    assert_quiet(&browser, &address);
}

#[test]
fn a_bench_begins_with_its_result_and_its_plots_are_readable_on_a_narrow_screen() {
    let Some(browser) = Browser::start() else {
        return;
    };
    let place = Place::new();
    let problems = place.run(&["problems", "--count", "3", "--seed", "5"]).ok();
    place.write("p.jsonl", problems.stdout);
    let bench = [
        "bench",
        "p.jsonl",
        "--strategies",
        "beam,majority",
        "--n",
        "4",
        "--out",
        "b",
    ];
    place.run(&bench).ok();
    let address = format!("file://{}", place.path("b/index.html").display());
    for (colours, width, height) in [("light", 1280, 900), ("dark", 390, 844)] {
        browser.emulate(colours, width, height);
        browser.open(&address);
        let seen = browser.script(
            "const plot = document.querySelector('.picture');
             return [document.querySelector('h1 + p').textContent, plot.firstChild.clientWidth, plot.clientWidth,
                 document.documentElement.scrollWidth];",
        );
        let result = seen[0].as_str().expect("text");
        assert!(
            result.starts_with("On p, ")
                && result.contains("beam@4")
                && result.contains("majority@4"),
            "{result}"
        );
        // Letters of 11 px in plots of 1,080 px.
        assert!(seen[1].as_u64() >= Some(860), "{seen}");
        assert!(seen[2].as_u64() <= Some(u64::from(width)), "{seen}");
        // The page itself does not scroll sideways.
        assert!(seen[3].as_u64() <= Some(u64::from(width)), "{seen}");
        assert_accessible(&browser, &format!("a bench, {colours}, {width}"));
        keep(&browser, &format!("bench-{colours}-{width}.png"));
    }
    assert_quiet(&browser, &address);
}

/// At each place of the slider the page counts what the tree says was known after that round.
fn replay(browser: &Browser, tree: &Value) {
    let nodes = tree.as_array().expect("a tree");
    let by = |turn: u64, round: &Value| round.as_u64().is_some_and(|round| round <= turn);
    let turns = nodes.iter().filter_map(|node| node["round"].as_u64()).max();
    let turns = turns.expect("rounds");
    assert!(turns > 2);
    for turn in 1..=turns {
        let there = nodes.iter().filter(|node| by(turn, &node["round"]));
        let pruned = there
            .clone()
            .filter(|node| by(turn, &node["pruned"]["round"]));
        let counts = browser.script(&format!(
            "const slider = document.querySelector('.replay input'); slider.value = {turn};
             slider.dispatchEvent(new Event('input'));
             return [...document.querySelectorAll('.counts b')].slice(0, 2).map((of) => Number(of.textContent));"
        ));
        assert_eq!(
            counts,
            json!([there.count(), pruned.count()]),
            "round {turn} of {turns}"
        );
    }
}
