//! Checkpoints that would take all time or memory, or give no numbers: refused in one line, too.

use crate::bad_checkpoints::{CHAIN, PROBLEM, retensor};
use crate::run::{Place, root};

/// A generator without a reward model.
const ALONE: [&str; 4] = ["solve", "p.jsonl", "--scorer", "none"];

/// A copy of the bundled generator as `m`.
fn abacus() -> Place {
    let place = Place::new();
    place.write("p.jsonl", PROBLEM);
    place.write("chains.jsonl", CHAIN);
    place.copy(&root().join("models/abacus/generator"), "m");
    place
}

#[test]
fn a_generator_whose_weights_are_not_numbers() {
    let place = abacus();
    retensor(&place, |tensors| {
        for (_, _, data) in tensors.values_mut() {
            // NaN in bfloat16.
            data.as_chunks_mut().0.fill([0xC0, 0x7F]);
        }
    });
    let args = [&ALONE[..], &["--generator", "m", "--strategy", "greedy"]].concat();
    let ran = place.run(&args);
    assert_eq!(ran.code, Some(1), "{}", ran.stderr);
    let last = ran.stderr.lines().last().expect("a line");
    for word in [
        "beamgen: ",
        "generator",
        "m: the model's logits are not numbers",
    ] {
        assert!(last.contains(word), "{word}: {}", ran.stderr);
    }
}

#[test]
fn chat_templates_that_would_take_all_time_or_memory() {
    let cases = [
        "{% for i in range(60000) %}{% for j in range(60000) %}x{% endfor %}{% endfor %}",
        "{% set n = namespace(s='ab') %}{% for i in range(99) %}{% set n.s = n.s ~ n.s %}{% endfor %}",
        "{{ '%1000000000d'|format(5) }}",
        "{{ messages[0].content|indent(1000000000) }}",
        "{% set n = 100000000 %}{{ raise_exception('x' * n) }}",
        "{% set n = namespace() %}{% set n.n = n %}{{ n }}",
    ];
    let long = ["+1", ".b", "|upper"].map(|part| format!("{{{{ 1{} }}}}", part.repeat(20_000)));
    let tags = "{%".repeat(2_000_000);
    for source in cases
        .iter()
        .copied()
        .chain(long.iter().map(String::as_str))
        .chain([&*tags])
    {
        let place = abacus();
        place.write("m/chat_template.jinja", source);
        let name = &source[..source.len().min(60)];
        let args = [&ALONE[..], &["--generator", "m", "--strategy", "greedy"]].concat();
        place
            .run_within_a_minute(&args)
            .assert_refused(name, &["the chat template"]);
        std::fs::remove_file(place.path("m/chat_template.jinja")).expect("removed");
        for field in ["first", "text"] {
            let format = format!(
                "normaliser = {{ softmax = 0 }}\n[step]\n{field} = {source:?}\n\
                 [head]\ntokens = [\"1\", \"2\"]\n"
            );
            place.write("m/prm.toml", format);
            place
                .run_within_a_minute(&["score", "chains.jsonl", "--prm", "m"])
                .assert_refused(name, &["m"]);
        }
    }
}

#[test]
fn devices_and_fifos_among_the_files_of_a_checkpoint() {
    for file in [
        "config.json",
        "generation_config.json",
        "model.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
        "chat_template.jinja",
    ] {
        let place = abacus();
        let path = place.path(&format!("m/{file}"));
        let args = [&ALONE[..], &["--generator", "m", "--strategy", "greedy"]].concat();
        for device in ["/dev/zero", "/dev/full", "fifo"] {
            std::fs::remove_file(&path).ok();
            if device == "fifo" {
                let made = std::process::Command::new("mkfifo").arg(&path).status();
                assert!(made.expect("mkfifo runs").success());
            } else {
                std::os::unix::fs::symlink(device, &path).expect("a link");
            }
            place
                .run_within_a_minute(&args)
                .assert_refused(&format!("{file} {device}"), &[file, "not a regular file"]);
        }
    }
    for device in ["/dev/zero", "/dev/full"] {
        let place = abacus();
        std::os::unix::fs::symlink(device, place.path("m.gguf")).expect("a link");
        place
            .run_within_a_minute(
                &[
                    &ALONE[..],
                    &["--generator", "m.gguf", "--strategy", "greedy"],
                ]
                .concat(),
            )
            .assert_refused(device, &["m.gguf", "not a regular file"]);
    }
}
