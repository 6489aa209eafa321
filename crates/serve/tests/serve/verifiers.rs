//! A server whose verifier is a program.

use beamgen::Config;
use beamgen_serve::ServeOptions;
use serde_json::json;

use crate::client::{Running, ask};

const PROBLEM: &str = "Mia has 3 pens. How many pens does Mia have?";

/// Finds a chain right if it is sent the tests `"pens"`, and wrong otherwise.
const TESTED: &str = r#"while IFS= read -r line; do
    id=$(printf '%s' "$line" | sed 's/^{"id":\([0-9]*\).*/\1/')
    case "$line" in
      *'"tests":"pens"}') printf '{"id":%s,"verdict":"right","passed":2,"total":2}\n' "$id" ;;
      *) printf '{"id":%s,"verdict":"wrong","reason":"no tests"}\n' "$id" ;;
    esac
done"#;

#[test]
fn the_program_judges_each_answer_by_what_the_request_brings() {
    let mut config = Config::default();
    config.verifier.run = TESTED.to_owned();
    let server = Running::with(config, ServeOptions::default());
    let own = |own| server.chat(&ask(PROBLEM, own)).ok()["beamgen"].clone();
    let right = own(json!({"tests": "pens"}));
    assert_eq!(right["correct"], true);
    assert_eq!(right["outcome"], json!({"kind": "right", "parts": [2, 2]}));
    let other = json!({"reference": "3", "strategy": "best-of-n", "n": 2});
    let wrong = own(other);
    assert_eq!(wrong["correct"], false);
    assert_eq!(
        wrong["outcome"],
        json!({"kind": "wrong", "reason": "no tests"})
    );
    // The chain that the program calls wrong has the answer that is the reference now.
    let math = own(json!({
        "reference": wrong["answer"], "verifier": "math", "strategy": "best-of-n", "n": 2
    }));
    assert_eq!(
        (&math["correct"], math.get("outcome")),
        (&json!(true), None)
    );

    let unknown = server.chat(&ask(PROBLEM, json!({"verifier": "lean"})));
    assert_eq!(unknown.status, 400);
    let error = &unknown.json()["error"];
    assert_eq!(
        (&error["param"], &error["code"]),
        (&json!("beamgen.verifier"), &json!("invalid_value"))
    );
    let message = error["message"].as_str().expect("a message");
    assert!(message.contains("send math, "), "{message}");
}
