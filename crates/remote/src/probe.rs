//! What is tried before the first problem. A server may take a field and ignore it, so what counts
//! is what it does.

use beamgen_engine::{SamplingParams, Tokenizer};
use beamgen_prm::{ChainWriter, Normaliser};

use crate::client::Call;
use crate::dialect::{Ask, End, Generated};
use crate::error::{Error, Failure};
use crate::reply::Reply;
use crate::route::Route;
use crate::servers::{Connection, ServerFacts};

/// Several scripts, digits, spaces, line breaks and signs. Two tokenizers that agree here are taken
/// to be the same.
const TEXT: &str = "Question: 3.14 + 12345 = ?\n\n  Löwe  naïve 漢字かな 한국어 🦀\tI'll can't\r\n{x}^2 \\frac{1}{2}";
const SEED: u32 = 20_240_611;

/// Refuses a server whose tokens mean something else.
pub(crate) async fn tokenizer(connection: &Connection, local: &Tokenizer) -> Result<(), Error> {
    if connection.dialect.is_text() {
        return token_count(connection, local).await;
    }
    let call = connection.dialect.tokenize(connection.model(), TEXT);
    let read = |answer: Reply<'_>| answer.list::<u32>("tokens", TEXT.len());
    let remote = match connection.each(&call, read).await {
        Ok(remote) => remote,
        // A server without that route: its answers are held against the vocabulary.
        Err(Error::Server {
            failure: Failure::Status { status: 404, .. },
            ..
        }) => return Ok(()),
        Err(error) => return Err(error),
    };
    let own = local.encode(TEXT, false)?;
    let Some(remote) = remote.into_iter().find(|remote| *remote != own) else {
        return Ok(());
    };
    let at = own.iter().zip(&remote).take_while(|(a, b)| a == b).count();
    let shown = |ids: &[u32]| match ids.get(at) {
        Some(id) => format!("{id}"),
        None => "the end".to_owned(),
    };
    Err(connection.unfit(format!(
            "its model {} has another tokenizer than {}: token {} of a probe text is {} there and {} here",
            connection.model(),
            local.checkpoint().display(),
            at + 1,
            shown(&remote),
            shown(&own)
    )))
}

/// Refuses a server that cuts the text into another number of tokens, which is all that some say.
async fn token_count(connection: &Connection, local: &Tokenizer) -> Result<(), Error> {
    let call = connection.dialect.tokenize(connection.model(), TEXT);
    let count = |answer: Reply<'_>| Ok(answer.maybe::<u64>("usage.prompt_tokens"));
    let own = [
        local.encode(TEXT, true)?.len() as u64,
        local.encode(TEXT, false)?.len() as u64,
    ];
    let counts = match connection.each(&call, count).await {
        Ok(counts) => counts,
        // The text is longer than its context, say.
        Err(Error::Server {
            failure: Failure::Status { status: 400, .. },
            ..
        }) => return Ok(()),
        Err(error) => return Err(error),
    };
    for count in counts.into_iter().flatten() {
        if !own.contains(&count) {
            return Err(connection.unfit(format!(
                    "its model {} has another tokenizer than {}: a probe text has {count} tokens there and {} here",
                    connection.model(),
                    local.checkpoint().display(),
                    own[0],
            )));
        }
    }
    Ok(())
}

/// Tries what a generator needs, and notes what was found.
pub(crate) async fn generator(
    connection: &Connection,
    local: &Tokenizer,
) -> Result<ServerFacts, Error> {
    tokenizer(connection, local).await?;
    let ids = local.encode("1, 2, 3, 4, 5, 6, 7, 8,", true)?;
    let ask = |temperature: f32, max_tokens, stop: &str| Ask {
        ids: ids.clone(),
        max_tokens,
        sampling: SamplingParams {
            temperature,
            ..SamplingParams::default()
        },
        seed: SEED,
        stop: vec![stop.into()],
    };
    let all = |ask: Ask| async move {
        let dialect = connection.dialect;
        let call = dialect.generate(connection.model(), &ask, local);
        let read = |answer: Reply<'_>| dialect.generated(answer, &ask, local);
        connection.each::<Generated>(&call, read).await
    };
    let is_text = connection.dialect.is_text();
    let mut likelihoods = true;
    for generated in all(ask(0.0, 2, "\n")).await? {
        let count = generated.tokens.len();
        if !is_text && generated.end == End::Limit && count != 2 {
            return Err(connection.unfit(format!("it gave {count} tokens where 2 were asked for")));
        }
        likelihoods &= generated.logprobs.iter().any(|logprob| *logprob != 0.0);
    }
    if !likelihoods && !is_text {
        return Err(connection.unfit("it gives no log-probabilities"));
    }
    let greedy = all(ask(0.0, 12, "\n")).await?;
    let text = |generated: &Generated| local.decode(&generated.tokens, true);
    if let Some(stop) = inner_character(&text(&greedy[0])?) {
        for generated in all(ask(0.0, 12, &stop)).await? {
            if generated.end == End::Stop && !text(&generated)?.contains(&stop) {
                return Err(connection.unfit(format!(
                        "it leaves out the string that it stopped at, {stop:?}, so steps would lack their ends"
                )));
            }
        }
    }
    let (one, two) = (
        all(ask(1.0, 12, "\n")).await?,
        all(ask(1.0, 12, "\n")).await?,
    );
    let equal = one
        .iter()
        .zip(&two)
        .all(|(one, two)| one.tokens == two.tokens);
    Ok(ServerFacts {
        seed_repeats: Some(equal),
        likelihoods: Some(likelihoods),
        ..connection.facts()
    })
}

/// The second of the different characters of a text that are no white space: the server stops there
/// if it stops at what it is given.
fn inner_character(text: &str) -> Option<String> {
    let mut characters = text.chars().filter(|c| c.is_alphanumeric());
    let first = characters.next()?;
    let second = characters.find(|c| *c != first)?;
    Some(second.to_string())
}

/// Tries to score a chain of two steps, and finds the route if there are two.
pub(crate) async fn scorer(
    connection: &Connection,
    writer: &ChainWriter,
    normaliser: Normaliser,
    route: Route,
) -> Result<(Route, ServerFacts), Error> {
    let written = writer
        .written("What is 1 + 1?", &["1 + 1 is 2.", "The answer is 2."])
        .map_err(|error| connection.unfit(error.to_string()))?;
    let mut routes = vec![route];
    if routes[0] == Route::Classify {
        routes.push(Route::Steps);
    }
    let mut first = None;
    for route in routes {
        // Two tags have two rows; the other routes read the last step alone.
        let end = written.read_at.last().map_or(0, |read| read + 1);
        let ids = match route {
            Route::Steps => &written.tokens[..],
            Route::Labels(_) | Route::Classify => &written.tokens[..end],
        };
        let call: Call = route.call(connection.dialect, connection.model(), ids);
        let rows = written.read_at.len();
        let read = |answer: Reply<'_>| route.scores(connection.dialect, normaliser, rows, answer);
        match connection.each(&call, read).await {
            Ok(_) => {
                let facts = ServerFacts {
                    route: Some(route.name().to_owned()),
                    ..connection.facts()
                };
                return Ok((route, facts));
            }
            Err(error) => first = first.or(Some((route, error))),
        }
    }
    Err(match first {
        Some((
            route @ (Route::Classify | Route::Steps),
            Error::Server {
                failure: Failure::Status { status: 404, .. },
                ..
            },
        )) => connection.unfit(format!(
            "it has no route {}: start it with --runner pooling and --pooler-config for this model",
            route.name()
        )),
        Some((_, error)) => error,
        None => connection.unfit("it gives no scores"),
    })
}
