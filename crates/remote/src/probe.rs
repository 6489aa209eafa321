//! Tests of a server before the first problem. A server may accept a field and ignore it, so the
//! tests check its behaviour.

use beamgen_engine::{SamplingParams, Tokenizer};
use beamgen_prm::{ChainWriter, Normaliser};
use beamgen_search::ScoreError;

use crate::client::Call;
use crate::dialect::{Ask, End, Generated, chat};
use crate::error::{Error, Failure};
use crate::reply::Reply;
use crate::route::{Asked, Route};
use crate::servers::{Connection, ServerFacts};

/// A text with several scripts, digits, spaces, line breaks and signs. Tokenizers that agree on
/// this text are taken as equal.
const TEXT: &str = "Question: 3.14 + 12345 = ?\n\n  Löwe  naïve 漢字かな 한국어 🦀\tI'll can't\r\n{x}^2 \\frac{1}{2}";
const SEED: u32 = 20_240_611;

/// Checks that the servers have the same tokenizer as `local`.
pub(crate) async fn tokenizer(connection: &Connection, local: &Tokenizer) -> Result<(), Error> {
    if connection.dialect.is_text() {
        return token_count(connection, local).await;
    }
    let call = connection.dialect.tokenize(connection.model(), TEXT);
    let remote = match connection
        .each(&call, |answer: Reply<'_>| {
            answer.list::<u32>("tokens", TEXT.len())
        })
        .await
    {
        Ok(remote) => remote,
        // The server has no such route, so its tokenizer cannot be tested. Token ids in later
        // answers are still compared with the vocabulary.
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
    let [there, here] = [&remote, &own].map(|ids| match ids.get(at) {
        Some(id) => format!("{id}"),
        None => "the end".to_owned(),
    });
    Err(connection.unfit(format!(
            "its model {} has another tokenizer than {}: token {} of a probe text is {there} there and {here} here",
            connection.model(),
            local.checkpoint().display(),
            at + 1,
    )))
}

/// Checks that the servers split the text into the same number of tokens. Some servers report only
/// that number.
async fn token_count(connection: &Connection, local: &Tokenizer) -> Result<(), Error> {
    let call = connection.dialect.tokenize(connection.model(), TEXT);
    let own = [
        local.encode(TEXT, true)?.len() as u64,
        local.encode(TEXT, false)?.len() as u64,
    ];
    let counts = match connection
        .each(&call, |answer: Reply<'_>| {
            Ok(answer.maybe::<u64>("usage.prompt_tokens"))
        })
        .await
    {
        Ok(counts) => counts,
        // The text may be longer than the server's context, or the server may have no such route;
        // then the tokenizer cannot be tested.
        Err(Error::Server {
            failure:
                Failure::Status {
                    status: 400 | 404 | 405,
                    ..
                },
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

/// Tests everything that a generator needs of its servers. Returns facts about them.
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
        alternatives: 0,
    };
    let all = |ask: Ask| async move {
        let dialect = connection.dialect;
        let call = dialect.generate(connection.model(), &ask, local);
        connection
            .each::<Generated>(&call, |answer: Reply<'_>| {
                dialect.generated(answer, &ask, local)
            })
            .await
    };
    let is_text = connection.dialect.is_text();
    let mut likelihoods = true;
    for generated in all(ask(0.0, 2, "\n")).await? {
        let count = generated.tokens.len();
        if !is_text && generated.end == End::Limit && count != 2 {
            return Err(connection.unfit(format!("it gave {count} tokens where 2 were asked for")));
        }
        // If all log-probabilities are exactly 0, the server does not report them.
        likelihoods &= generated.logprobs.iter().any(|logprob| *logprob != 0.0);
    }
    if !likelihoods && !is_text {
        return Err(connection.unfit("it gives no log-probabilities"));
    }
    // Greedy: a second request then samples the same text, and can be told to stop in the middle of
    // it.
    let greedy = all(ask(0.0, 12, "\n")).await?;
    let text = |generated: &Generated| local.decode(&generated.tokens, true);
    // A step includes its boundary, so a server must return the string at which it stops.
    if let Some(stop) = inner_character(&text(&greedy[0])?) {
        for generated in all(ask(0.0, 12, &stop)).await? {
            if generated.end == End::Stop && !text(&generated)?.contains(&stop) {
                return Err(connection.unfit(format!(
                        "it leaves out the string that it stopped at, {stop:?}, so steps would lack their ends"
                )));
            }
        }
    }
    // Seeds that have no effect are only recorded: they merely make a run impossible to repeat.
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

/// Returns the second distinct letter or digit of a text: a server that obeys stop strings must
/// stop there.
fn inner_character(text: &str) -> Option<String> {
    let mut characters = text.chars().filter(|c| c.is_alphanumeric());
    let first = characters.next()?;
    let second = characters.find(|c| *c != first)?;
    Some(second.to_string())
}

/// Tests the scoring of a chain of two steps. If two routes are possible, finds the one that works.
pub(crate) async fn scorer(
    connection: &Connection,
    writer: &ChainWriter,
    normaliser: &Normaliser,
    route: Route,
) -> Result<(Route, ServerFacts), Error> {
    let (problem, steps) = ("What is 1 + 1?", ["1 + 1 is 2.", "The answer is 2."]);
    let refused = |error: ScoreError| connection.unfit(error.to_string());
    let written = writer.written(problem, &steps).map_err(refused)?;
    let mut messages = writer.messages(problem, &steps).map_err(refused)?;
    let mut routes = vec![route];
    // The way in which the server was started decides which route works.
    match &routes[0] {
        Route::Classify => routes.push(Route::Steps),
        Route::Labels(labels) if connection.dialect.is_text() && messages.is_some() => {
            routes.push(Route::Chat(labels.clone()));
        }
        _ => {}
    }
    let mut first = None;
    for route in routes {
        // The route of steps returns a row for each step. The other routes read the chain only up
        // to its last score.
        let end = written.read_at.last().map_or(0, |read| read + 1);
        let ids = match route {
            Route::Steps => written.tokens.clone(),
            Route::Labels(_) | Route::Chat(_) | Route::Classify => {
                [&written.tokens[..end], writer.question()].concat()
            }
        };
        let messages = match route {
            Route::Chat(_) => messages.take().unwrap_or_default(),
            _ => Vec::new(),
        };
        let asked = Asked { ids, messages };
        let call: Call = route.call(connection.dialect, connection.model(), &asked);
        let rows = written.read_at.len();
        match connection
            .each(&call, |answer: Reply<'_>| {
                route.scores(connection.dialect, normaliser, rows, answer)
            })
            .await
        {
            Ok(all) => {
                if chat::is_continued(&asked.messages) {
                    let counts = all.iter().map(|(_, usage)| usage.prompt);
                    continues(connection, asked.ids.len() as u64, counts)?;
                }
                let facts = ServerFacts {
                    route: Some(route.name().to_owned()),
                    ..connection.facts()
                };
                return Ok((route, facts));
            }
            Err(error) => {
                // A route that is there and fails says more than one that is missing.
                if first.is_none() || matches!(route, Route::Chat(_)) && is_missing(&first) {
                    first = Some((route, error));
                }
            }
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

/// Whether a server has not the route that was tried.
fn is_missing(tried: &Option<(Route, Error)>) -> bool {
    let Some((_, Error::Server { failure, .. })) = tried else {
        return false;
    };
    matches!(
        failure,
        Failure::Status {
            status: 400 | 404 | 405,
            ..
        }
    )
}

/// Checks that the servers continue the assistant's message instead of beginning an answer to it:
/// only then do their prompts have the tokens that the chat has here.
fn continues(
    connection: &Connection,
    own: u64,
    counts: impl IntoIterator<Item = Option<u64>>,
) -> Result<(), Error> {
    for count in counts {
        if count == Some(own) {
            continue;
        }
        let there = match count {
            Some(count) => format!(
                "its prompt has {count} tokens, where the chat has {own} here (templates may strip the end of a text)"
            ),
            None => "it does not report the number of tokens of its prompt".to_owned(),
        };
        return Err(connection.unfit(format!(
            "it must continue the assistant's message (continue_final_message), but {there}: use a format without \
             `step.lead`, or a server with /v1/completions",
        )));
    }
    Ok(())
}
