//! Requests to score given chains, in the formats of the clients that ask reward models.
//!
//! A format is a row of [`FORMATS`], with a file below `reward/` that reads chains from the body
//! and writes their scores into the answer. The scoring in between is the same for all formats.

mod chain;
mod classify;
mod embeddings;
mod get_reward;
mod markup;
mod ours;
mod pairs;
mod parse;
mod pooling;
mod rerank;
mod sample;
mod schemas;
mod scores;
mod split;
mod vllm;

use std::sync::Arc;

use axum::body::Body;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderMap, Uri};
use axum::response::{IntoResponse, Response};
use beamgen::Aggregation;
use serde_json::{Map, Value};

use self::chain::{Chain, Cutter};
use self::scores::Answered;
use crate::app::App;
use crate::body;
use crate::fields::Fields;
use crate::refusal::Refusal;

pub(crate) use self::schemas::{CLASSIFY, EMBEDDINGS, GET_REWARD, PAIRS, POOLING, RERANK, SCORE};

/// A format of requests for scores, and the routes that accept it.
struct Format {
    /// The paths of the routes that accept the format.
    routes: &'static [&'static str],
    /// The fields that identify the format on a route with several formats: a body of the format
    /// has at least one. Errors about the number of chains name the first.
    marks: &'static [&'static str],
    /// Whether an answer has a place for the error of a single chain. If not, a request is refused
    /// when none of its chains can be scored.
    tells_errors: bool,
    read: fn(&App, &mut Fields) -> Result<Asked, Refusal>,
}

/// All formats. If a body has no mark of any of its route's formats, the route's first format reads
/// it.
const FORMATS: &[Format] = &[
    ours::FORMAT,
    pairs::FORMAT,
    rerank::FORMAT,
    pooling::FORMAT,
    classify::FORMAT,
    embeddings::FORMAT,
    get_reward::FORMAT,
    sample::FORMAT,
];

/// The chains of a request, and how to answer it.
struct Asked {
    /// The chains in the order of the request; an error for a chain that cannot be read.
    chains: Vec<Result<Chain, String>>,
    /// The rule that turns a chain's step scores into one score; `None` for the server's rule.
    aggregation: Option<Aggregation>,
    /// The reward for a chain that cannot be scored; `None` if such a chain gets no reward.
    unscored: Option<f32>,
    write: Write,
}

impl Asked {
    fn new(
        chains: Vec<Result<Chain, String>>,
        write: impl FnOnce(Answered) -> Value + Send + 'static,
    ) -> Self {
        Self {
            chains,
            aggregation: None,
            unscored: None,
            write: Box::new(write),
        }
    }
}

/// Turns the scores into the JSON of the answer.
type Write = Box<dyn FnOnce(Answered) -> Value + Send>;

impl Format {
    /// Returns the format of a body on a route, by the marks in the body.
    fn of(route: &str, body: &Map<String, Value>) -> &'static Self {
        let mut formats = FORMATS.iter().filter(|f| f.routes.contains(&route));
        let is_marked = |format: &&Self| format.marks.iter().any(|mark| body.contains_key(*mark));
        let marked = formats.clone().find(is_marked);
        marked.or_else(|| formats.next()).unwrap_or(&FORMATS[0])
    }
}

/// Handles a request for scores, in any format.
pub(crate) async fn handle(
    State(app): State<Arc<App>>,
    uri: Uri,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Refusal> {
    let body = body::of_chains(&headers, body, &app.limits, &app.large_bodies).await?;
    // The body's texts stay in memory until the answer is written, so the place of a large body is
    // held until then.
    let _turn = body.turn;
    let length = body.bytes.len();
    let reader = Arc::clone(&app);
    let read = move || read(&reader, &uri, body.bytes);
    let (format, mut asked) = app.long_texts.run(length, read).await??;
    let chains = std::mem::take(&mut asked.chains);
    let answered = scores::score(&app, chains, asked.aggregation, asked.unscored).await?;
    if !format.tells_errors
        && let Some(refusal) = answered.refusal()
    {
        return Err(refusal);
    }
    let write = move || (asked.write)(answered).to_string();
    let answer = app.long_texts.run(length, write).await?;
    Ok(([(CONTENT_TYPE, "application/json")], answer).into_response())
}

/// Parses a body, and checks the number of chains.
fn read(app: &App, uri: &Uri, bytes: Vec<u8>) -> Result<(&'static Format, Asked), Refusal> {
    let mut body = parse::object(bytes)?;
    let format = Format::of(uri.path(), &body);
    parse::add_address(&mut body, uri.query());
    let mut fields = Fields::new(body, "");
    let mut asked = (format.read)(app, &mut fields)?;
    asked.aggregation = parse::aggregation(&mut fields)?;
    fields.end()?;
    let most = app.limits.chains_to_score;
    if asked.chains.is_empty() || asked.chains.len() > most {
        let (field, count) = (format.marks[0], asked.chains.len());
        let reason = format!("{count} chains to score: send 1 to {most}");
        return Err(Refusal::field("invalid_value", field, &reason));
    }
    if !app.models.has_scorer {
        let message = "this server has no reward model, which this route needs";
        return Err(Refusal::input("no_reward_model", message));
    }
    Ok((format, asked))
}
