//! Why a command failed, and its exit code.

use std::fmt;
use std::io;
use std::process::ExitCode;

use beamgen::eval::{ProblemsError, RunFileError, RunFileFault};
use beamgen::hub::{HubError, RequestError};
use beamgen::program::{KNOWN_MODELS, nearest};
use beamgen::scorer::ScoreError;
use beamgen::strategy::ConfigError;
use beamgen_labels::LabelsError;

/// The reason why a command stopped, from which the exit code follows.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The arguments or a named file are wrong: exit code 2. The message is one line.
    Input(String),
    /// The run itself failed: exit code 1.
    Run(anyhow::Error),
    /// A signal ended the run. The text says how to resume; the exit code is 128 plus the signal's
    /// number (130 for Ctrl-C).
    Interrupted(String, u8),
    /// The reader of stdout closed it (`| head`): exit code 0.
    ReaderLeft,
}

/// Returns [`Failure::Input`]. The message is one line: what is wrong, then what to do.
pub(crate) fn refuse<T>(message: impl Into<String>) -> Result<T, Failure> {
    Err(Failure::Input(message.into()))
}

impl Failure {
    pub(crate) fn exit_code(&self) -> ExitCode {
        match self {
            Self::Input(_) => ExitCode::from(2),
            Self::Run(_) => ExitCode::FAILURE,
            Self::Interrupted(_, code) => ExitCode::from(*code),
            Self::ReaderLeft => ExitCode::SUCCESS,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Input(line) | Self::Interrupted(line, _) => f.write_str(line),
            Self::Run(error) => write!(f, "{error:#}"),
            Self::ReaderLeft => f.write_str("the output was closed"),
        }
    }
}

// Only errors of stdout reach this conversion by `?`. Errors of files go through `write::failed`,
// which adds the file's name.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::ReaderLeft,
            _ => Self::Run(anyhow::Error::new(error).context("cannot write the output")),
        }
    }
}

impl From<ProblemsError> for Failure {
    fn from(error: ProblemsError) -> Self {
        Self::Input(error.to_string())
    }
}

impl From<LabelsError> for Failure {
    fn from(error: LabelsError) -> Self {
        Self::Input(error.to_string())
    }
}

impl From<RunFileError> for Failure {
    fn from(error: RunFileError) -> Self {
        let advice = match &error.fault {
            RunFileFault::Exists => ": continue it with --resume, or choose another --out",
            RunFileFault::Locked => ": wait for it, or choose another --out",
            RunFileFault::OtherRun { .. } => ": use the run's value, or choose another --out",
            RunFileFault::Io(_)
            | RunFileFault::Line { .. }
            | RunFileFault::OtherProblem { .. }
            | RunFileFault::Removed => "",
        };
        if error.is_failure() {
            Self::Run(error.into())
        } else {
            Self::Input(format!("{error}{advice}"))
        }
    }
}

impl From<beamgen::Error> for Failure {
    fn from(error: beamgen::Error) -> Self {
        match error {
            beamgen::Error::Setting(ConfigError::NeedsScorer { .. }) => Self::Input(format!(
                "{error}: use another --scorer, or a --strategy that needs none"
            )),
            beamgen::Error::Setting(error @ ConfigError::NeedsOpenVerifier { .. }) => {
                Self::Input(format!(
                    "--outcome-scores, --stop-when-verified and rollouts valued by the verifier need an open one: {error} \
                 (--verifier CMD --verifier-open)"
                ))
            }
            beamgen::Error::NoAnswers { ref path, .. } => {
                let path = path.display();
                Self::Input(format!(
                    "{error}: add a run on other problems with answers (`beamgen solve FILE --out RUN`, then \
                     `beamgen calibrate --runs RUN --out {path}`)"
                ))
            }
            beamgen::Error::UnknownPair { .. } => {
                Self::Input(format!("{error}: `beamgen models` lists all"))
            }
            error if error.is_input() => match similar_model(&error) {
                Some(name) => Self::Input(format!("{error}; did you mean {name}?")),
                None => Self::Input(error.to_string()),
            },
            error => Self::Run(error.into()),
        }
    }
}

// A `ScoreError` stops a command only if the reward model was lost. A chain that cannot be scored
// is counted, and the run continues.
impl From<ScoreError> for Failure {
    fn from(error: ScoreError) -> Self {
        Self::Run(error.into())
    }
}

impl From<beamgen_measure::Error> for Failure {
    fn from(error: beamgen_measure::Error) -> Self {
        use beamgen_measure::Error as Measure;
        let advice = match error {
            Measure::Search(error) => return error.into(),
            Measure::RunFile(error) => return error.into(),
            Measure::Cell { run, n, error } => {
                let failure = Self::from(*error);
                return Self::Input(format!("run \"{run}\" at n = {n}: {failure}"));
            }
            Measure::NoRow { .. } => ": finish the bench with --resume",
            Measure::OtherSettings { .. } => ": use the rows' value, or choose another --out",
            Measure::Exists { .. } => ": choose another --report, or redraw it with --redraw",
            Measure::Policies(names) => {
                let message = "the data have chains of several policies: choose one with --policy";
                return Self::Input(format!("{message}: {names}"));
            }
            Measure::NoResults { .. } => {
                ": give the folder of a `bench --out`, or of an `eval-prm --report`"
            }
            _ => "",
        };
        if error.is_input() {
            Self::Input(format!("{error}{advice}"))
        } else {
            Self::Run(error.into())
        }
    }
}

/// Returns the known model whose name is most similar to the model that was not found.
fn similar_model(error: &beamgen::Error) -> Option<&'static str> {
    let name = match error {
        beamgen::Error::NoModel { name, .. } => name.to_str()?,
        beamgen::Error::Hub(HubError::Offline { id, .. }) => id,
        beamgen::Error::Hub(HubError::Request {
            target,
            error: RequestError::NoRepository | RequestError::Refused { .. },
        }) => &target.repo,
        _ => return None,
    };
    // A revision or a GGUF file after the name would lower the similarity.
    let repo = name.split(['@', ':']).next()?;
    let known = KNOWN_MODELS.iter().map(|model| model.name);
    // If the name is known as it is, the download failed, and the same name would be no advice.
    nearest(repo, known.chain(["bundled"])).filter(|&known| known != repo)
}
