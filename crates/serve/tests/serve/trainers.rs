//! Tests the examples in `examples/rl`: each is called in the way of its trainer.

use std::process::Command;

use beamgen_serve::{Key, ServeOptions};
use serde_json::{Value, json};

use crate::client::{Running, request};

const KEY: &str = "correct-horse-battery";

/// A Python program that calls the functions of the examples, and prints their return values as
/// JSON.
const DRIVER: &str = r#"
import asyncio, json, os, py_compile, sys, tempfile, threading, urllib.request

problem, right, wrong = json.loads(sys.argv[1])
for name in ("verl_reward", "trl_reward", "openrlhf_reward", "nemo_gym_server"):
    with tempfile.TemporaryDirectory() as folder:
        py_compile.compile(f"{name}.py", cfile=os.path.join(folder, "x.pyc"), doraise=True)
sys.dont_write_bytecode = True
sys.path.insert(0, ".")
import nemo_gym_server, openrlhf_reward, trl_reward, verl_reward

def verl(response):
    return asyncio.run(verl_reward.compute_score("gsm8k", response, "21", {"question": problem}, reward_router_address=None))

user = [{"role": "user", "content": problem}]
chat = f"<|im_start|>user\n{problem}<|im_end|>\n<|im_start|>assistant\n"
step = {
    "responses_create_params": {"input": user},
    "response": {"output": [
        {"type": "reasoning", "summary": []},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": wrong}]},
    ]},
}
server = nemo_gym_server.ThreadingHTTPServer(("127.0.0.1", 0), nemo_gym_server.Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
def gym(path, body):
    request = urllib.request.Request(f"http://127.0.0.1:{server.server_port}{path}", json.dumps(body).encode())
    return json.load(urllib.request.urlopen(request))

print(json.dumps({
    "verl": [verl(right), verl(wrong), verl("")],
    "trl": trl_reward.reward_func([problem] * 3, [right, wrong, " "], solution=["21"] * 3),
    "trl chats": trl_reward.reward_func([user] * 2, [[{"role": "assistant", "content": text}] for text in (right, wrong)]),
    "openrlhf": openrlhf_reward.reward_func([f"{chat}{wrong}<|im_end|>", f"{chat}<|im_end|>"], [chat] * 2, ["21"] * 2),
    "gym": [gym("/reset", {}), gym("/step", step)],
}))
"#;

/// Rounds all numbers to 32 bits. Python formats floats differently, and the JSON parser may change
/// the last bit of a 64-bit number.
fn rounded(value: Value) -> Value {
    match value {
        Value::Number(number) => json!(number.as_f64().map(|number| number as f32)),
        Value::Array(list) => list.into_iter().map(rounded).collect(),
        Value::Object(map) => map
            .into_iter()
            .map(|(key, value)| (key, rounded(value)))
            .collect(),
        other => other,
    }
}

#[test]
fn the_examples_for_trainers_return_the_scores_of_the_server() {
    let Some(python) = beamgen_test_support::python("import asyncio, http.server") else {
        return;
    };
    let server = Running::start(ServeOptions {
        keys: vec![KEY.parse::<Key>().unwrap()],
        ..ServeOptions::default()
    });
    let problem = "Mia has 34 pens. Leo has 8 more pens than Mia. How many pens does Leo have?";
    let (right, wrong) = (
        "Mia has 34 pens: 34.\nLeo has 8 more pens than Mia: 34 + 8 = 42.\nThe answer is 42.",
        "Mia has 34 pens: 34.\nLeo has 8 more pens than Mia: 34 + 8 = 43.\nThe answer is 43.",
    );
    let chains = [right, wrong].map(|text| json!({"problem": problem, "response": text}));
    let key = format!("Authorization: Bearer {KEY}\r\n");
    let body = json!({"chains": chains}).to_string();
    let scored = server
        .send(&request("/v1/score", &body, &key))
        .unwrap()
        .ok();
    let [right_score, wrong_score] = [0, 1].map(|at| rounded(scored["data"][at]["score"].clone()));

    let output = Command::new(python)
        .args(["-c", DRIVER, &json!([problem, right, wrong]).to_string()])
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/rl"))
        .env("BEAMGEN_URL", format!("http://{}", server.address))
        .env("BEAMGEN_KEY", KEY)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let returned = rounded(serde_json::from_slice(&output.stdout).unwrap());
    assert_eq!(returned["verl"][0]["score"], right_score);
    assert_eq!(
        returned["verl"][1],
        rounded(
            json!({"score": wrong_score, "steps": 3, "weakest": returned["verl"][1]["weakest"]})
        )
    );
    assert_eq!(returned["verl"][2]["score"], 0.0);
    assert_eq!(returned["trl"], json!([right_score, wrong_score, null]));
    assert_eq!(returned["trl chats"], json!([right_score, wrong_score]));
    assert_eq!(returned["openrlhf"]["rewards"], json!([wrong_score, 0.0]));
    assert_eq!(
        returned["openrlhf"]["extra_logs"],
        json!({"steps": [3.0, 0.0]})
    );
    assert_eq!(returned["gym"][0], json!({"observation": null, "info": {}}));
    assert_eq!(
        (
            &returned["gym"][1]["reward"],
            &returned["gym"][1]["terminated"]
        ),
        (&wrong_score, &json!(true))
    );
}
