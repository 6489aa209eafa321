//! Reward models that cannot be read as they are said to be: one clear line each, exit code 2.

use crate::bad_checkpoints::{place, refused_prm};
use crate::run::root;

#[test]
fn formats_of_reward_models() {
    const HEAD: &str = "[head]\ntokens = [\"+\", \"-\"]\n";
    let linear = |name: &str| format!("[[head.linear]]\nweight = \"{name}\"\n");
    let cases: [(&str, String, &[&str]); 13] = [
        (
            "a key",
            format!("nomaliser = \"sigmoid\"\n{HEAD}"),
            &["prm.toml:1", "nomaliser"],
        ),
        ("not TOML", "normaliser = \n".to_owned(), &["prm.toml:1"]),
        (
            "no head",
            "normaliser = \"sigmoid\"\n".to_owned(),
            &["prm.toml", "head"],
        ),
        (
            "a tag of many tokens",
            format!(
                "normaliser = {{ softmax = 0 }}\n[step]\ntext = \"{{{{ step }}}} the end\"\ntag = \"the end\"\n{HEAD}"
            ),
            &["prm.toml", "step.tag", "the end", "not one"],
        ),
        (
            "a step without its tag",
            format!(
                "normaliser = {{ softmax = 0 }}\n[step]\ntext = \"{{{{ step }}}}\"\ntag = \"+\"\n{HEAD}"
            ),
            &["prm.toml", "step.tag", "+"],
        ),
        (
            "a class too many",
            format!("normaliser = {{ softmax = 2 }}\n{HEAD}"),
            &["prm.toml", "normaliser", "names class 2"],
        ),
        (
            "a tensor that is missing",
            format!("normaliser = \"sigmoid\"\n{}", linear("value.weight")),
            &["prm.toml", "head.linear", "value.weight"],
        ),
        (
            "a tensor of another shape",
            format!(
                "normaliser = \"sigmoid\"\n{}",
                linear("model.layers.0.self_attn.k_proj.bias")
            ),
            &["prm.toml", "head.linear", "k_proj.bias", "[16]"],
        ),
        (
            "a word that is many tokens",
            "normaliser = { softmax = 0 }\n[head]\ntokens = [\"certainly\", \"-\"]\n".to_owned(),
            &["prm.toml", "head.tokens", "certainly", "not one"],
        ),
        (
            "a share of one label",
            "normaliser = { softmax = 0 }\n[head]\ntokens = [\"+\"]\n".to_owned(),
            &["prm.toml", "head.tokens", "always 1"],
        ),
        (
            "a label twice",
            "normaliser = { softmax = 0 }\n[head]\ntokens = [\"+\", \"+\"]\n".to_owned(),
            &["prm.toml", "head.tokens", "twice"],
        ),
        (
            "a factor of 0",
            "normaliser = \"sigmoid\"\n[head.log-ratio]\nbeta = 0.0\n".to_owned(),
            &["prm.toml", "head.log-ratio.beta", "other than 0"],
        ),
        (
            "a text that is no Jinja",
            format!("normaliser = {{ softmax = 0 }}\n[step]\ntext = \"{{{{ step\"\n{HEAD}"),
            &["prm.toml", "step.text"],
        ),
    ];
    for (name, toml, words) in cases {
        let here = place("prm/reference");
        here.write("m/prm.toml", &toml);
        refused_prm(&here, name, words);
        // The same file by its path.
        std::fs::rename(here.path("m/prm.toml"), here.path("prm.toml")).expect("renamed");
        let args = [
            "score",
            "chains.jsonl",
            "--prm",
            "m",
            "--prm-format",
            "prm.toml",
        ];
        here.run(&args).assert_refused(name, words);
    }
    let here = place("prm/reference");
    refused_prm(
        &here,
        "not recognised",
        &["m:", "not recognised", "math-shepherd", "prm.toml"],
    );
    let args = ["score", "chains.jsonl", "--prm", "m", "--prm-format"];
    let format = |format: &str, words: &[&str]| {
        here.run(&[&args[..], &[format]].concat())
            .assert_refused(format, words);
    };
    format("math-sheperd", &["math-sheperd", "math-shepherd", "TOML"]);
    format("none.toml", &["none.toml", "No such file"]);
    format(
        "implicit-prm",
        &["beamgen: m:", "implicit-prm", "prm_reference"],
    );
    format(
        "qwen2.5-math-prm",
        &["does not fit m:", "qwen2.5-math-prm", "score.0.weight"],
    );
}

#[test]
fn references() {
    let here = place("prm/EurusPRM-Stage2");
    std::fs::rename(here.path("m"), here.path("EurusPRM")).expect("renamed");
    here.copy(
        &root().join("tests/fixtures/prm/math-shepherd-mistral-7b-prm"),
        "other",
    );
    here.copy(
        &root().join("tests/fixtures/prm/trl-token-classification"),
        "headless",
    );
    let args = ["score", "chains.jsonl", "--prm"];
    let refused = |prm: &[&str], words: &[&str]| {
        here.run(&[&args[..], prm].concat())
            .assert_refused(&prm.join(" "), words);
    };
    refused(
        &["EurusPRM"],
        &["EurusPRM", "implicit-prm", "prm_reference"],
    );
    refused(
        &["EurusPRM", "--prm-reference", "none"],
        &["none", "ORG/NAME"],
    );
    refused(
        &["EurusPRM", "--prm-reference", "other"],
        &["EurusPRM", "reference", "tokenizer"],
    );
    refused(
        &["EurusPRM", "--prm-reference", "headless"],
        &["EurusPRM", "language-model head"],
    );
    refused(
        &[
            "other",
            "--prm-format",
            "math-shepherd",
            "--prm-reference",
            "EurusPRM",
        ],
        &["EurusPRM", "math-shepherd", "leave prm_reference out"],
    );
}
