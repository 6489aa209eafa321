//! Tests of the whole `abacus` pipeline with the small configuration of `TrainConfig::quick`.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::Path;

use beamgen_engine::{Model, Tokenizer, Weights};
use beamgen_train::abacus::config::TrainConfig;
use beamgen_train::abacus::{Evaluation, train};
use beamgen_train::candle_core::Device;
use beamgen_train::tune::Report;

/// Trains in `dir`. Returns the evaluation, and the losses of each stage by its name.
fn run(config: &TrainConfig, dir: &Path) -> (Evaluation, BTreeMap<String, Vec<f64>>) {
    let losses: RefCell<BTreeMap<String, Vec<f64>>> = RefCell::default();
    let mut stage = String::new();
    let evaluation = train(config, dir, &Device::Cpu, &mut |report| match report {
        Report::Note(name) => stage = name,
        Report::Step { loss, .. } => losses
            .borrow_mut()
            .entry(stage.clone())
            .or_default()
            .push(loss),
        _ => {}
    })
    .unwrap();
    (evaluation, losses.into_inner())
}

#[test]
fn the_quick_pipeline_learns_and_writes_checkpoints_that_the_engine_opens() {
    let dir = tempfile::tempdir().unwrap();
    let (evaluation, losses) = run(&TrainConfig::quick(), dir.path());
    for stage in ["body", "prm"] {
        let l = &losses[stage];
        let sum = |some: &[f64]| some.iter().sum::<f64>();
        assert!(sum(&l[l.len() - 20..]) < sum(&l[..20]), "{stage}: {l:?}");
    }
    for stage in ["generator", "prm-hard-1", "prm-hard-2", "orm", "orm-hard-2"] {
        assert!(losses[stage].iter().all(|l| l.is_finite()), "{stage}");
    }
    assert!(evaluation.prm.chains > 0);
    for name in ["generator", "prm", "orm"] {
        let path = dir.path().join(name);
        let model = Model::load(path.as_path()).unwrap();
        Tokenizer::load(path.as_path())
            .unwrap()
            .check(model.config())
            .unwrap();
        let has_score = Weights::load(path.as_path())
            .unwrap()
            .contains("score.weight");
        assert_eq!(has_score, name != "generator", "{name}");
    }
}

/// A run that is interrupted and resumed must write the bytes of an uninterrupted one.
#[test]
fn a_resumed_run_equals_an_uninterrupted_one() {
    let mut config = TrainConfig::quick();
    // The run is short, because it is made twice. Every stage must still save a state before its end.
    config.base.steps = 24;
    config.generator.steps = 6;
    config.prm.steps = 6;
    config.mining.problems = 4;
    config.hard.steps = 24;
    config.orm.steps = 6;
    config.chains = 20;
    config.evaluation_problems = 4;
    config.save_every = 4;
    let whole = tempfile::tempdir().unwrap();
    run(&config, whole.path());

    let cut = tempfile::tempdir().unwrap();
    for (stage, exported) in [("body", false), ("prm-hard-2", true), ("orm-hard-2", true)] {
        let killed = std::panic::catch_unwind(|| {
            let mut now = String::new();
            train(
                &config,
                cut.path(),
                &Device::Cpu,
                &mut |report| match report {
                    Report::Note(name) => now = name,
                    // An update is reported before its state is saved, so the file has the state of step 16.
                    Report::Step { step: 20, .. } if now == stage => panic!("killed"),
                    _ => {}
                },
            )
        });
        assert!(killed.is_err());
        assert_eq!(cut.path().join("generator").exists(), exported);
    }
    run(&config, cut.path());
    for name in ["generator", "prm", "orm"] {
        let bytes = |dir: &Path| std::fs::read(dir.join(name).join("model.safetensors")).unwrap();
        assert!(bytes(whole.path()) == bytes(cut.path()), "{name} differs");
    }
}

#[test]
fn another_configuration_may_not_take_over_a_work_folder() {
    let dir = tempfile::tempdir().unwrap();
    let work = dir.path().join("work");
    std::fs::create_dir(&work).unwrap();
    std::fs::write(work.join("config.json"), "{}").unwrap();
    let error = train(&TrainConfig::quick(), dir.path(), &Device::Cpu, &mut |_| {}).unwrap_err();
    assert!(error.is_input());
    assert!(error.to_string().contains("other settings"), "{error}");
}
