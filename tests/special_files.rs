//! Devices and FIFOs where a file is read as a whole: one line, at once.
#![cfg(unix)]

use crate::run::{Place, root};

fn place() -> Place {
    let place = Place::new();
    place.write("p.jsonl", "{\"problem\": \"What is 1 + 1?\"}\n");
    for name in ["fifo", "fifo.toml"] {
        let path = place.path(name);
        let made = std::process::Command::new("mkfifo").arg(path).status();
        assert!(made.expect("mkfifo runs").success());
    }
    place
}

#[test]
fn devices_and_fifos_are_refused_where_a_whole_file_is_read() {
    let place = place();
    for file in ["/dev/zero", "/dev/full", "fifo.toml"] {
        let cases: &[&[&str]] = &[
            &["solve", "p.jsonl", "--config", file],
            &["bench", "p.jsonl", "--config", file],
            &["solve", "p.jsonl", "--out", file, "--resume"],
            &["score", file],
            &["eval-prm", "--data", file],
            &["bench", "--pool", file],
        ];
        for args in cases {
            let ran = place.run_within_a_minute(args);
            ran.assert_refused(&format!("{args:?}"), &[file, "not a regular file"]);
        }
        // What is no TOML file by its name is no format.
        place
            .run_within_a_minute(&["solve", "p.jsonl", "--prm-format", file])
            .assert_refused("--prm-format", &[file]);
    }
    std::fs::create_dir(place.path("out")).expect("a folder");
    std::os::unix::fs::symlink("/dev/zero", place.path("out/rows.jsonl")).expect("a link");
    let bench = ["bench", "--limit", "1", "--out", "out", "--resume"];
    place
        .run_within_a_minute(&bench)
        .assert_refused("bench --resume", &["out/rows.jsonl", "not a regular file"]);
    std::os::unix::fs::symlink("/dev/zero", place.path("out/results.json")).expect("a link");
    place
        .run_within_a_minute(&["bench", "--redraw", "out"])
        .assert_refused(
            "bench --redraw",
            &["out/results.json", "not a regular file"],
        );
}

#[test]
fn problem_files_may_be_streams_whose_lines_have_an_end() {
    let place = place();
    for file in ["/dev/zero", "/dev/full"] {
        place
            .run_within_a_minute(&["solve", file])
            .assert_refused(file, &[file, ":1:", "longer than 16 MiB"]);
    }
    let fifo = place.path("fifo");
    let writer = std::thread::spawn(move || {
        std::fs::write(
            fifo,
            "{\"problem\": \"What is 1 + 1?\", \"id\": \"streamed\"}\n",
        )
    });
    let ran = place.run_within_a_minute(&["solve", "fifo", "-n", "1", "-m", "1", "--json"]);
    assert_eq!(ran.ok().json()[0]["id"], "streamed");
    writer.join().expect("no panic").expect("written");
}

#[test]
fn a_file_over_the_cap_is_refused_without_being_held() {
    let place = place();
    let huge = std::fs::File::create(place.path("huge.toml")).expect("a file");
    // Sparse: it takes no room on the disk.
    huge.set_len(1 << 40).expect("a length");
    let cases: &[&[&str]] = &[
        &["solve", "p.jsonl", "--config", "huge.toml"],
        &["solve", "p.jsonl", "--prm-format", "huge.toml"],
    ];
    for args in cases {
        let ran = place.run_within_a_minute(args);
        ran.assert_refused(&format!("{args:?}"), &["huge.toml", "larger than 1 MiB"]);
    }
    let links = root().join("configs/search/default.toml");
    std::os::unix::fs::symlink(links, place.path("link.toml")).expect("a link");
    let solve = [
        "solve",
        "p.jsonl",
        "--config",
        "link.toml",
        "-n",
        "1",
        "-m",
        "1",
    ];
    place.run_within_a_minute(&solve).ok();
}

#[test]
fn json_is_told_by_its_name_where_settings_are_read_and_read_where_formats_are() {
    let place = place();
    place.write("x.json", "{}");
    for command in ["solve", "bench"] {
        let ran = place.run(&[command, "p.jsonl", "--config", "x.json"]);
        ran.assert_refused(command, &["x.json:1", "give a TOML file"]);
    }
    let format = ["solve", "p.jsonl", "--prm-format", "x.json"];
    let ran = place.run(&format);
    ran.assert_refused("an empty format", &["x.json:1", "missing field `format`"]);
}
