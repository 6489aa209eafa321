//! `beamgen annotate`: a person rates the steps of chains, on a page or in the terminal.

mod terminal;

use beamgen::generator::GeneratorConfig;
use beamgen::mend;
use beamgen_labels::annotate::{Annotation, Options};
use beamgen_labels::open_any;

use crate::args::AnnotateArgs;
use crate::failure::Failure;
use crate::output;
use crate::table::counted;

pub(crate) fn main(args: &AnnotateArgs) -> Result<(), Failure> {
    // The command names no model with settings of its own, so answers are split by the default
    // settings.
    let input = open_any(&args.file, &|text: &str| {
        mend::steps_of(text, &GeneratorConfig::default())
    })?;
    if let Some(left_out) = input.left_out() {
        output::note(format_args!("note: {left_out}"));
    }
    let options = Options {
        rater: args.rater.clone(),
        order: args.order,
        seed: args.seed,
        stops: !args.through,
    };
    let annotation = Annotation::open(input.chains, &args.out, options)?;
    let done = if args.terminal {
        terminal::run(annotation)?
    } else {
        page(annotation)?
    };
    output::note(format_args!(
        "{} of {} done; ratings are in {}",
        done.0,
        counted(done.1, "chain", "chains"),
        args.out.display()
    ));
    Ok(())
}

/// Returns the number of finished chains and the number of all chains.
fn progress(annotation: &Annotation) -> (usize, usize) {
    let view = annotation.view();
    (view.done, view.chains)
}

/// Serves the page until a signal comes.
#[cfg(feature = "serve")]
fn page(annotation: Annotation) -> Result<(usize, usize), Failure> {
    use std::sync::{Arc, Mutex, PoisonError};

    use beamgen_labels::annotate::Act;
    use beamgen_serve::{LocalPage, Stop};

    let server = LocalPage::bind()?;
    let stop = Stop::new();
    crate::serve::stop_on_signals(&stop, "stopping: all ratings are saved")?;
    // The server owns the closure, so a second handle is kept to read the counts when it has ended.
    let shared = Arc::new(Mutex::new(annotation));
    let annotation = Arc::clone(&shared);
    let answer = move |message| {
        let acts: Vec<Act> = serde_json::from_value(message).map_err(|error| error.to_string())?;
        // Ratings are in the file at once, so a panic during an earlier message must not end the
        // session.
        let mut annotation = annotation.lock().unwrap_or_else(PoisonError::into_inner);
        for act in acts {
            annotation.act(act).map_err(|error| error.to_string())?;
        }
        serde_json::to_value(annotation.view()).map_err(|error| error.to_string())
    };
    output::note(format_args!("Ctrl-C ends; rate at {}", server.url()?));
    server.run(beamgen_view::annotate_page(), Box::new(answer), &stop)?;
    let annotation = shared.lock().unwrap_or_else(PoisonError::into_inner);
    Ok(progress(&annotation))
}

#[cfg(not(feature = "serve"))]
fn page(_: Annotation) -> Result<(usize, usize), Failure> {
    crate::failure::refuse(
        "this build has no server: rate with --terminal, or build one with cargo build --release --features serve",
    )
}
