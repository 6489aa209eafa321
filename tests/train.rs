//! `beamgen train`: what it refuses, with training built in and without.

use crate::run::Place;

#[cfg(not(feature = "train"))]
#[test]
fn a_build_without_training_says_how_to_get_one() {
    for args in [&["train"][..], &["train", "--quick", "--out", "models"]] {
        let place = Place::new();
        let command = "cargo build --release --features train";
        place.run(args).assert_refused("train", &[command]);
        assert!(!place.path("models").exists());
    }
}

#[cfg(feature = "train")]
mod built_in {
    use super::*;

    #[test]
    fn a_wrong_configuration_is_refused_with_its_line() {
        let place = Place::new();
        place.write("train.toml", "seed = 1\nchians = 5\n");
        place
            .run(&["train", "--config", "train.toml"])
            .assert_refused("train --config", &["train.toml:2:", "chians"]);
    }

    #[cfg(unix)]
    #[test]
    fn devices_and_huge_files_are_refused_as_configuration() {
        let place = Place::new();
        for file in ["/dev/zero", "/dev/full"] {
            place
                .run_within_a_minute(&["train", "--config", file])
                .assert_refused(file, &[file, "not a regular file"]);
        }
        let huge = std::fs::File::create(place.path("huge.toml")).expect("a file");
        // Sparse: it takes no room on the disk.
        huge.set_len(1 << 40).expect("a length");
        place
            .run_within_a_minute(&["train", "--config", "huge.toml"])
            .assert_refused("a huge file", &["huge.toml", "larger than 1 MiB"]);
    }

    #[test]
    fn the_folder_of_an_earlier_run_is_not_taken_over() {
        let place = Place::new();
        place.write("models/work/config.json", "{}");
        place
            .run(&["train", "--quick", "--out", "models"])
            .assert_refused("train", &["models/work", "--resume"]);
    }
}
