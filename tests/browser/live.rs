//! The live page of a server, and the page on which steps are rated.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};

use super::*;

/// A server: of the bundled pair, or of the page on which steps are rated. It ends when this is
/// dropped.
struct Served {
    child: Child,
    address: String,
}

impl Served {
    fn start(place: &Place, args: &[&str]) -> Self {
        let mut child = place
            .command(args)
            .stderr(Stdio::piped())
            .spawn()
            .expect("the binary starts");
        let stderr = BufReader::new(child.stderr.take().expect("a pipe"));
        let mut lines = stderr.lines().map_while(Result::ok);
        let line = lines.find(|line| line.contains("http://"));
        let line = line.expect("it says where it serves");
        let at = line.find("http://").expect("an address");
        let address = format!("{}/", line[at..].trim_end_matches('/'));
        std::thread::spawn(move || lines.for_each(drop));
        Self { child, address }
    }

    fn metric(&self, name: &str) -> f64 {
        let reply = ureq::get(&format!("{}metrics", self.address)).call();
        let text = reply.expect("metrics").body_mut().read_to_string();
        let text = text.expect("text");
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line.expect(name).trim().parse().expect("a number")
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Notes whether steps were there while the search ran; with `cancel`, cancels it then.
fn watch(browser: &Browser, cancel: bool) {
    browser.script(&format!(
        "window.early = 0; clearInterval(window.watching);
         window.watching = setInterval(() => {{
             const stop = document.getElementById('stop');
             const rows = document.querySelectorAll('[role=treeitem]').length;
             if (stop.disabled || rows === 0) return;
             window.early = Math.max(window.early, rows);
             if ({cancel}) stop.click();
         }}, 2);"
    ));
}

fn set(browser: &Browser, key: &str, value: &str) {
    browser.script(&format!(
        "document.querySelector('[data-key={key}]').value = '{value}';"
    ));
}

const STATUS: &str = "return document.getElementById('status').textContent";

#[test]
fn a_search_is_watched_and_another_one_is_cancelled() {
    let Some(browser) = Browser::start() else {
        return;
    };
    let place = Place::new();
    let served = Served::start(&place, &["serve", "--port", "0"]);
    browser.open(&served.address);
    browser.wait("return document.getElementById('samples').options.length > 10");
    assert_accessible(&browser, "the live page");

    browser.script(
        "const samples = document.getElementById('samples'); samples.value = '0';
         samples.dispatchEvent(new Event('change'));",
    );
    set(&browser, "n", "256");
    set(&browser, "m", "4");
    set(&browser, "strategy", "beam");
    watch(&browser, false);
    browser.click("#go");
    browser.wait(&format!("{} === 'Done.'", STATUS));
    let early = browser.script("return window.early");
    assert!(early.as_u64() > Some(0), "steps appeared before the end");
    let verdict = browser.script("return document.querySelector('#result').textContent");
    assert!(
        verdict
            .as_str()
            .is_some_and(|text| text.contains("Answer") && text.contains("right")),
        "{verdict}"
    );
    // The chosen chain stands there, and the search can be replayed.
    let shown = "return [document.querySelectorAll('.detail .steps .chosen').length, document.querySelector('.replay').hidden]";
    let shown = browser.script(shown);
    assert!(shown[0].as_u64() > Some(1), "{shown}");
    assert_eq!(shown[1], false);
    browser.script(
        "[...document.querySelectorAll('.tools button')].find((of) => of.textContent === 'Open all').click()",
    );
    let reasons = browser.script(
        "return [...document.querySelectorAll('.row.pruned .why')].map((why) => why.textContent)",
    );
    let is_told = |why: &Value| {
        why.as_str()
            .is_some_and(|why| why.starts_with("pruned: rank "))
    };
    assert!(
        reasons
            .as_array()
            .is_some_and(|all| all.iter().any(is_told)),
        "{reasons}"
    );
    let votes = browser.script("return document.querySelector('.answers .number').textContent");
    assert!(
        votes
            .as_str()
            .is_some_and(|votes| votes.parse::<u32>().is_ok()),
        "{votes}"
    );
    browser.click(".row.pruned");
    browser.wait("return document.querySelector('.detail .reason.pruned')?.textContent");
    assert_accessible(&browser, "a search");
    for (colours, width, height) in [
        ("light", 1280, 900),
        ("dark", 1280, 900),
        ("light", 390, 844),
    ] {
        browser.emulate(colours, width, height);
        browser.script("scrollTo(0, 0)");
        keep(&browser, &format!("live-{colours}-{width}.png"));
        let wide = browser.script("return document.documentElement.scrollWidth");
        assert!(wide.as_u64() <= Some(u64::from(width)), "{wide} in {width}");
    }
    // On a narrow screen a step that is clicked comes into sight as a whole, and the list is a click away.
    browser.click(".row.pruned");
    let read = browser.wait(
        "const text = [...document.querySelectorAll('.detail .steps .full')].at(-1);
         const box = text.getBoundingClientRect();
         return text.scrollWidth <= text.clientWidth && box.top >= 0 && box.bottom <= innerHeight;",
    );
    assert_eq!(read, true);
    browser.click(".back");
    browser.wait("return document.activeElement.getAttribute('role') === 'treeitem'");
    browser.emulate("light", 1280, 900);

    // A wrong answer comes with the questions that the page of a run has.
    set(&browser, "n", "");
    set(&browser, "m", "");
    set(&browser, "strategy", "greedy");
    // The bundled generator is right on few problems without a search.
    let told = (0..10).find_map(|sample| {
        browser.script(&format!(
            "const samples = document.getElementById('samples'); samples.value = '{sample}';
             samples.dispatchEvent(new Event('change'));"
        ));
        browser.click("#go");
        browser.wait(&format!("{} === 'Done.'", STATUS));
        let told = browser.script(
            "return [document.querySelector('#result .verdict').textContent.includes('wrong'),
                 [...document.querySelectorAll('#result dt')].map((of) => of.textContent)]",
        );
        (told[0] == true).then_some(told)
    });
    let questions = [
        "Which step went wrong?",
        "Did the scorer see it?",
        "Was a better branch pruned?",
    ];
    assert_eq!(told, Some(json!([true, questions])));
    // A step that is asked for ends the replay, if it came later.
    browser.script(
        "const slider = document.querySelector('.replay input'); slider.value = 1;
         slider.dispatchEvent(new Event('input'));",
    );
    browser.click("#result .findings button");
    let chain = browser.script("return document.querySelector('.detail h3').textContent");
    assert!(
        chain
            .as_str()
            .is_some_and(|text| text.starts_with("Chain to step")),
        "{chain}"
    );
    assert_accessible(&browser, "a wrong answer");
    keep(&browser, "live-wrong.png");

    set(&browser, "strategy", "beam");
    set(&browser, "n", "512");
    watch(&browser, true);
    browser.click("#go");
    let status = browser.wait(&format!(
        "{}.startsWith('Cancelled') && document.getElementById('stop').disabled",
        STATUS
    ));
    assert_eq!(status, true);
    assert!(browser.script("return window.early").as_u64() > Some(0));
    browser.script("clearInterval(window.watching)");
    let from = std::time::Instant::now();
    while served.metric("beamgen_in_flight ") > 0.0 {
        assert!(from.elapsed().as_secs() < 60, "the search goes on");
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
    assert_quiet(&browser, &served.address);
}

#[test]
fn what_the_server_refuses_is_said() {
    let Some(browser) = Browser::start() else {
        return;
    };
    let place = Place::new();
    let served = Served::start(&place, &["serve", "--port", "0"]);
    browser.open(&served.address);
    browser.wait("return document.getElementById('samples').options.length > 10");
    // The first sample is there at once.
    let text = "return document.getElementById('text').value";
    assert_ne!(browser.script(text), "");
    browser.script("document.getElementById('text').value = ''");
    browser.click("#go");
    browser.wait(&format!("{}.startsWith('There is no problem yet')", STATUS));
    browser.script("document.getElementById('text').value = 'Mia has 3 pens.'");
    set(&browser, "n", "0");
    // The browser's own check of the form is not the server's.
    browser.script("document.getElementById('ask').noValidate = true");
    browser.click("#go");
    let said = browser.wait(
        "const status = document.getElementById('status');
         return status.className === 'bad' && !status.textContent.startsWith('There') && status.textContent",
    );
    assert!(
        said.as_str().is_some_and(|said| said.contains('n')),
        "{said}"
    );
}

/// The lines of the file that are ratings: rater, step, rating and comment of each.
fn said(place: &Place) -> Vec<[Value; 4]> {
    let lines = place.read("rated.jsonl");
    let events = lines.lines().filter_map(|line| {
        let line: Value = serde_json::from_str(line).expect("JSON");
        let field = |name: &str| line.get(name).cloned().unwrap_or_default();
        line.get("rater")?;
        Some(["rater", "step", "rating", "comment"].map(field))
    });
    events.collect()
}

/// Waits until the page says where it is.
#[track_caller]
fn is_at(browser: &Browser, what: &str) {
    let progress = "document.getElementById('progress').textContent";
    browser.wait(&format!("return {progress}.includes('{what}');"));
}

#[test]
fn two_people_rate_steps_by_keys_and_continue_after_a_restart() {
    let Some(browser) = Browser::start() else {
        return;
    };
    let place = Place::new();
    let chain = |problem: &str, steps: &[&str]| {
        let steps: Vec<Value> = steps.iter().map(|text| json!({"text": text})).collect();
        json!({"problem": problem, "answer": "12", "steps": steps}).to_string()
    };
    let act = "<img src=x onerror=document.title='broken'>";
    let chains = [
        chain("3 <b>times</b> 4?", &["3 * 4 = 12.", act, "So 12."]),
        chain("6 and 6?", &["6 + 6 = 12.", "So 12."]),
    ];
    place.write("chains.jsonl", chains.join("\n"));
    let serve = |rater: &str| {
        let args = ["annotate", "chains.jsonl", "--out", "rated.jsonl"];
        Served::start(&place, &[&args[..], &["--rater", rater]].concat())
    };
    let served = serve("anna");
    browser.open(&served.address);
    is_at(&browser, "anna: chain 1 of 2, step 1 of 3");
    assert_accessible(&browser, "a chain to rate");
    browser.press(&["1"]);
    is_at(&browser, "step 2 of 3");
    // A comment by its key, in which other keys are letters.
    browser.press(&["c"]);
    browser.wait("return document.activeElement.id === 'comment';");
    browser.press(&["u", "1", "0", "\u{e007}"]);
    browser.wait(
        "return document.querySelector('#steps .said.dim:last-child')?.textContent === 'u10';",
    );
    browser.press(&["-"]);
    is_at(&browser, "chain 2 of 2, step 1 of 2. 1 of 2 chains done");
    browser.press(&["u"]);
    is_at(&browser, "chain 1 of 2, step 2 of 3. 0 of 2");
    browser.press(&["0", "\u{e013}", "\u{e013}"]);
    is_at(&browser, "step 1 of 3");
    browser.press(&["\u{e014}"]);
    is_at(&browser, "chain 2 of 2, step 1 of 2");
    browser.press(&["\u{e012}", "\u{e015}", "\u{e015}"]);
    is_at(&browser, "chain 1 of 2, step 3 of 3");
    browser.click("#right");
    is_at(&browser, "chain 2 of 2, step 1 of 2. 1 of 2");
    let anna =
        |step: u32, rating: Value, comment: Value| [json!("anna"), json!(step), rating, comment];
    let ratings = [
        anna(0, json!(1), json!(null)),
        anna(1, json!(null), json!("u10")),
        anna(1, json!(-1), json!("u10")),
        anna(1, json!(null), json!("u10")),
        anna(1, json!(0), json!("u10")),
        anna(2, json!(1), json!(null)),
    ];
    assert_eq!(said(&place), ratings);
    // Text of chains stayed text.
    assert_eq!(
        browser.script("return document.querySelectorAll('img, #problem b').length"),
        0
    );
    assert_ne!(browser.script("return document.title"), "broken");
    for (colours, width, height) in [
        ("light", 1280, 900),
        ("dark", 1280, 900),
        ("light", 390, 844),
    ] {
        browser.emulate(colours, width, height);
        keep(&browser, &format!("annotate-{colours}-{width}.png"));
        let wide = browser.script("return document.documentElement.scrollWidth");
        assert!(wide.as_u64() <= Some(u64::from(width)), "{wide} in {width}");
        assert_accessible(&browser, &format!("rating, {colours}, {width}"));
    }
    assert_quiet(&browser, &served.address);
    drop(served);

    // Anna continues where she was; Ben begins, and sees nothing of hers.
    let served = serve("anna");
    browser.open(&served.address);
    is_at(&browser, "anna: chain 2 of 2, step 1 of 2. 1 of 2");
    browser.press(&["1", "1"]);
    is_at(&browser, "All chains are done");
    drop(served);
    let served = serve("ben");
    browser.open(&served.address);
    is_at(&browser, "ben: chain 1 of 2, step 1 of 3. 0 of 2");
    let rated = "return [...document.querySelectorAll('#steps .said')].map((of) => of.textContent)";
    assert_eq!(
        browser.script(rated),
        json!([
            "step 1: not rated",
            "step 2: not rated",
            "step 3: not rated"
        ])
    );
    // A comment that was typed and not saved is kept by the next rating.
    browser.press(&["c"]);
    browser.wait("return document.activeElement.id === 'comment';");
    browser.press(&["x", "\u{e00c}"]);
    browser.wait("return document.activeElement.id !== 'comment';");
    browser.press(&["1"]);
    is_at(&browser, "step 2 of 3");
    let ben = |rating: Value| [json!("ben"), json!(0), rating, json!("x")];
    assert_eq!(said(&place)[8..], [ben(json!(null)), ben(json!(1))]);
    browser.press(&["-"]);
    is_at(&browser, "chain 2 of 2");
    browser.press(&["1", "1"]);
    is_at(&browser, "All chains are done");
    drop(served);
    let stat = place
        .run(&["labels", "stat", "rated.jsonl", "--json"])
        .ok()
        .json();
    let agreement = &stat[1]["agreement"];
    assert_eq!(agreement["raters"], json!(["anna", "ben"]));
    // 1 and 1, 0 and -1, 1 and 1, 1 and 1: (4 * 3 - 9) / (16 - 9).
    assert_eq!(agreement["steps"]["kappa"], 3.0 / 7.0);
    // None and the second step, none and none: agreement by chance.
    assert_eq!(agreement["first_errors"]["kappa"], 0.0);
}
