//! `beamgen calibrate`: fits a calibration, which turns a reward model's scores into probabilities.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use beamgen::Aggregation;
use beamgen::eval::calibrate::{Calibration, LEVELS};
use beamgen::eval::quality::Measure;
use beamgen::scorer::ScorerKind;
use beamgen_labels::{LabelRule, Neutral, RolloutLabel};
use beamgen_measure::calibrate::{self, Fitted, Hidden, Observed, Options, Output, Runs};

use crate::args::CalibrateArgs;
use crate::data;
use crate::failure::{Failure, refuse};
use crate::output;
use crate::printable;
use crate::printed;
use crate::settings;
use crate::table::{Table, counted};
use crate::watch::Shown;
use crate::write::create_folder;

pub(crate) fn main(args: &CalibrateArgs) -> Result<(), Failure> {
    if !(args.held_out > 0.0 && args.held_out < 1.0) {
        return refuse(format!(
            "--held-out {}: use a share between 0 and 1",
            args.held_out
        ));
    }
    // Outputs are opened first, so that one that cannot be written fails before the scoring.
    let path = out(args)?;
    let mut to = Output::open(&path)?;
    if let Some(folder) = &args.plots {
        create_folder(folder)?;
    }
    let calibration = if args.data.is_empty() {
        // Without --data, the runs are added to the existing calibration.
        calibrate::read(&path)?
    } else {
        fit(args, &path, &mut to)?
    };
    if args.runs.is_empty() {
        Ok(())
    } else {
        add_runs(args, &path, calibration, &mut to)
    }
}

/// Returns the path of the calibration file to write.
fn out(args: &CalibrateArgs) -> Result<PathBuf, Failure> {
    let config = settings::prm_config(&args.prm)?;
    match (&args.out, &config.models.prm) {
        (Some(out), _) => Ok(out.clone()),
        (None, Some(prm)) if prm.is_dir() => Ok(prm.join("calibration.json")),
        (None, _) => refuse(
            "the reward model is not a local folder, so the calibration needs a file: add --out FILE",
        ),
    }
}

/// Fits a calibration, writes it, and prints how well it fits.
fn fit(args: &CalibrateArgs, path: &Path, to: &mut Output) -> Result<Calibration, Failure> {
    let config = settings::prm_config(&args.prm)?;
    let options = Options {
        method: args.method,
        // A search takes an outcome model's score at the end of a chain, so the rule is always
        // `last`.
        aggregation: match config.models.scorer {
            ScorerKind::Orm => Aggregation::Last,
            _ => args.aggregation,
        },
        held_out: args.held_out,
    };
    let rule = LabelRule {
        // A hard label would hide the share of right rollouts, which the calibration has to
        // predict.
        rollouts: args.labels.rollouts.unwrap_or(RolloutLabel::Soft),
        ..args.labels.rule(Neutral::Positive)
    };
    let sources = data::sources(&args.data, &args.part, args.prm.given.offline())?;
    let chosen = calibrate::open(&sources, args.policy.as_deref(), rule)?;
    let hidden = Hidden::default();
    let (mut model, fingerprint) =
        settings::observed_reward_model(config, chosen.problems(), Some(hidden.observer()))?;
    let watch = &mut Shown::default();
    let fitted = calibrate::fit(&chosen, &options, &mut *model, fingerprint, &hidden, watch)?;
    // The calibration is written before the plots, whose failure must not lose the result of the
    // scoring.
    to.write(&fitted.calibration)?;
    if let Some(folder) = &args.plots {
        fitted.draw(folder)?;
    }
    show(args, path, &fitted)?;
    Ok(fitted.calibration)
}

fn show(args: &CalibrateArgs, path: &Path, fitted: &Fitted) -> Result<(), Failure> {
    let (calibration, measured) = (&fitted.calibration, &fitted.figures);
    let mut out = io::stdout().lock();
    if args.json {
        let figures: serde_json::Map<String, serde_json::Value> = measured
            .iter()
            .map(|(name, figures)| ((*name).to_owned(), serde_json::json!(figures)))
            .collect();
        let line = serde_json::json!({
            "policy": calibration.policy, "data": calibration.data, "held_out": calibration.held_out,
            "figures": figures,
        });
        output::json_line(&mut out, &line)?;
        return Ok(out.flush()?);
    }
    let held = &calibration.held_out;
    writeln!(
        out,
        "policy {}: fitted to {} of {}, held out {} of {}\n",
        printable::line(&calibration.policy.to_string()),
        counted(calibration.data.steps, "step", "steps"),
        counted(calibration.data.problems, "problem", "problems"),
        counted(held.steps, "step", "steps"),
        counted(held.problems, "problem", "problems"),
    )?;
    let mut table = Table::new(&[
        "held out",
        "Brier",
        "95 %",
        "ECE, equal mass",
        "95 %",
        "ECE, equal width",
        "95 %",
    ]);
    for (name, figures) in measured {
        let mut row = vec![(*name).to_owned()];
        for measure in [Measure::Brier, Measure::EceMass, Measure::EceWidth] {
            let figure = figures.get(measure);
            let interval = figure.and_then(|figure| figure.interval);
            row.push(figure.map_or("-".to_owned(), |figure| format!("{:.4}", figure.value)));
            row.push(interval.map_or("-".to_owned(), |(low, high)| format!("{low:.4}-{high:.4}")));
        }
        table.row(row);
    }
    table.write(&mut out)?;
    if let Some(shares) = held.at_or_below {
        let shares = LEVELS.iter().zip(shares);
        let shares =
            shares.map(|(level, share)| format!("{:.0} %: {:.1} %", level * 100.0, share * 100.0));
        let shares: Vec<String> = shares.collect();
        writeln!(
            out,
            "\n  targets at or below the quantiles: {}",
            shares.join(", ")
        )?;
    }
    writeln!(
        out,
        "  intervals over problems; written to {}",
        printable::line(&path.display().to_string())
    )?;
    Ok(out.flush()?)
}

/// Adds a risk curve from runs to the calibration, and tests the threshold on the runs of --check.
fn add_runs(
    args: &CalibrateArgs,
    path: &Path,
    mut calibration: Calibration,
    to: &mut Output,
) -> Result<(), Failure> {
    let runs = Runs::read(&args.runs)?;
    // The whole curve is stored, so that a later search can ask for any share of wrong answers.
    let curve = runs.curve();
    let mut curves = vec![("fitted", curve.clone())];
    let mut out = io::stdout().lock();
    show_margin(&mut out, args.json, &runs)?;
    let point = curve.point(args.max_error);
    if !args.json {
        let all = curve.points.last();
        let wrong = all.map_or(0.0, |all| 100.0 * all.risk());
        writeln!(
            out,
            "{}: {wrong:.1} % of all answers are wrong",
            counted(curve.problems, "problem", "problems")
        )?;
        match point {
            Some(point) => writeln!(
                out,
                "at most {:.1} % wrong: a threshold of {:.4} returns {}, {} of them wrong",
                100.0 * args.max_error,
                point.threshold,
                counted(point.given, "answer", "answers"),
                point.wrong
            )?,
            None => writeln!(out, "no threshold keeps {:.1} %", 100.0 * args.max_error)?,
        }
    }
    if !args.check.is_empty() {
        let checked = Runs::read(&args.check)?;
        // A curve is valid for one search only, so runs of another search cannot test it.
        if checked.search != runs.search {
            return refuse(
                "--check and --runs are different searches: use run files with the same settings and models",
            );
        }
        let Some(point) = point else {
            return refuse(format!(
                "no threshold keeps the share of wrong answers at {} on the runs: raise --max-error",
                args.max_error
            ));
        };
        let observed = checked.above(point.threshold);
        curves.push(("checked", checked.curve()));
        if args.json {
            let line = checked_json(&observed, args.max_error, point.threshold);
            output::json_line(&mut out, &line)?;
        } else {
            show_checked(&mut out, &observed)?;
        }
    }
    if let Some(folder) = &args.plots {
        calibrate::draw_risk(folder, &curves, args.max_error)?;
    }
    calibrate::add(&mut calibration, curve);
    to.write(&calibration)?;
    if !args.json {
        writeln!(
            out,
            "written to {}",
            printable::line(&path.display().to_string())
        )?;
    }
    Ok(out.flush()?)
}

/// Prints the margin of early rejection, if the runs tell one.
fn show_margin(out: &mut dyn Write, json: bool, runs: &Runs) -> Result<(), Failure> {
    let Some((steps, margin)) = runs.margin() else {
        return Ok(());
    };
    if json {
        let line = serde_json::json!({"paused_below_the_last_slot": steps, "margin": margin.map(|margin| {
            serde_json::json!({"logits": margin.logits, "steps": margin.steps, "kept": margin.kept})
        })});
        output::json_line(out, &line)?;
        return Ok(());
    }
    let steps = counted(steps, "beginning", "beginnings");
    match margin {
        Some(margin) => writeln!(
            out,
            "early rejection: of {steps} below the last slot, {} lie {} logits or more below it, of which {} reached a slot (less than 5 %): use search.beam.margin = {}",
            margin.steps, margin.logits as f32, margin.kept, margin.logits as f32
        )?,
        None => writeln!(
            out,
            "early rejection: {steps} below the last slot, and no margin beyond which less than 5 % reach a slot"
        )?,
    }
    Ok(())
}

/// Prints the share of wrong answers above the threshold, as observed on other problems.
fn show_checked(out: &mut dyn Write, observed: &Observed) -> io::Result<()> {
    let share = |part: usize, all: usize| 100.0 * part as f64 / all.max(1) as f64;
    let interval = observed.interval.map_or(String::new(), |interval| {
        format!(" ({})", printed::in_percent(interval))
    });
    writeln!(
        out,
        "checked on {}: {} returned ({:.1} %), {} of them wrong = {:.1} %{interval}",
        counted(observed.problems, "problem", "problems"),
        counted(observed.given, "answer", "answers"),
        share(observed.given, observed.problems),
        observed.wrong,
        share(observed.wrong, observed.given)
    )
}

fn checked_json(observed: &Observed, wanted: f64, threshold: f32) -> serde_json::Value {
    serde_json::json!({
        "wanted": wanted, "threshold": threshold, "problems": observed.problems,
        "given": observed.given, "wrong": observed.wrong,
        "interval": observed.interval.map(|interval| (interval.low, interval.high)),
    })
}
