//! The servers of a role: their settings, and the facts that are found when they are connected.

use std::sync::Arc;
use std::time::Duration;

use beamgen_certificates::Certificates;
use beamgen_engine::Tokenizer;
use beamgen_prm::Normaliser;
use serde::Serialize;

use crate::address::{Address, ApiKey};
use crate::client::{Call, Client};
use crate::dialect::{About, Ask, DIALECTS, Dialect, Generated, Usage, named, names};
use crate::error::{Error, Failure};
use crate::replicas::{CallError, Replicas, Traffic};
use crate::reply::Reply;
use crate::route::{Asked, Route};

/// The settings of one or more servers that run the same model.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Servers {
    /// The addresses, such as `http://HOST:PORT`. Each problem is pinned to one of them.
    pub urls: Vec<String>,
    /// The engine: `vllm`, `sglang`, `llama.cpp` or `openai`. `None`: the engine is recognised by
    /// its answers, except `openai`, which must be named.
    pub engine: Option<String>,
    /// The model's name on the servers; `None` if they serve only one model.
    pub model: Option<String>,
    /// The most tokens of a chain with its prompt; `None`: the context that the servers report.
    pub context: Option<usize>,
    /// The key that is sent in the header `Authorization: Bearer`; `None` if the servers need none.
    pub key: Option<ApiKey>,
    /// Whether the key may be sent unencrypted to another machine.
    pub plain_http_key: bool,
    /// Certificates to trust, in addition to those of Mozilla and of the system.
    pub certificates: Certificates,
    /// The most concurrent requests to a server. While a server reports overload, fewer are sent.
    pub in_flight: usize,
    /// The longest wait for the first byte of an answer. Servers send it when a whole step is
    /// sampled.
    pub first_byte: Duration,
    /// The longest wait for the rest of an answer, after its first byte.
    pub rest: Duration,
    /// The time after its first failure during which a request is retried.
    pub patience: Duration,
}

impl Servers {
    /// Makes settings for servers at these addresses; all other settings have their defaults.
    pub fn at(urls: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self {
            urls: urls.into_iter().map(Into::into).collect(),
            engine: None,
            model: None,
            context: None,
            key: None,
            plain_http_key: false,
            certificates: Certificates::default(),
            in_flight: 256,
            first_byte: Duration::from_secs(300),
            rest: Duration::from_secs(60),
            patience: Duration::from_secs(120),
        }
    }
}

/// Facts about the servers of a role. They are a part of a run's identity.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ServerFacts {
    /// The engine: `vllm`, `sglang`, `llama.cpp` or `openai`.
    pub engine: String,
    /// The engine's version; `None` if the servers do not report it.
    pub version: Option<String>,
    /// The model's name on the servers.
    pub model: String,
    /// The most tokens of a chain with its prompt.
    pub context: usize,
    /// Whether two equal requests with the same seed returned the same tokens, when this was tested
    /// at the start.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed_repeats: Option<bool>,
    /// Whether the servers of a generator report log-probabilities of sampled tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub likelihoods: Option<bool>,
    /// The route by which the servers of a reward model are asked for scores.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub route: Option<String>,
    /// The engine's documented promise about equal requests with equal seeds.
    pub promise: String,
}

/// Connected servers, whose engine and model are known.
#[derive(Debug)]
pub struct Connection {
    pub(crate) replicas: Arc<Replicas>,
    pub(crate) dialect: &'static dyn Dialect,
    about: About,
    model: String,
    context: usize,
}

impl Connection {
    /// Connects to servers and finds out which engine and which model they run.
    pub(crate) async fn open(role: &'static str, servers: &Servers) -> Result<Self, Error> {
        let addresses: Vec<Address> = servers
            .urls
            .iter()
            .map(|url| Address::parse(url))
            .collect::<Result<_, _>>()?;
        if addresses.is_empty() {
            return Err(Error::NoServer { role });
        }
        // Checked before the first request, which would already send the key.
        if servers.key.is_some()
            && !servers.plain_http_key
            && let Some(open) = addresses.iter().find(|address| address.is_open())
        {
            let address = open.to_string();
            return Err(Error::OpenKey { address });
        }
        let client = Client::new(servers.first_byte, servers.rest, &servers.certificates)?;
        let wanted = match &servers.engine {
            None => None,
            Some(name) => Some(named(name).ok_or_else(|| {
                Error::unfit(
                    &addresses[0],
                    format!("unknown engine {name:?}: use {} or openai", names()),
                )
            })?),
        };
        let mut found: Option<(&'static dyn Dialect, About)> = None;
        for address in &addresses {
            let this = recognise(&client, address, servers.key.as_ref(), wanted).await?;
            // The answers of all servers are mixed in a run, so the servers must run the same
            // model.
            match &found {
                None => found = Some(this),
                Some((dialect, about))
                    if dialect.name() != this.0.name()
                        || about.model != this.1.model
                        || about.context != this.1.context =>
                {
                    let reason = format!(
                        "it is {}, and {} is {}: servers of one role have to be alike",
                        shown(this.0, &this.1),
                        addresses[0],
                        shown(*dialect, about)
                    );
                    return Err(Error::unfit(address, reason));
                }
                Some(_) => {}
            }
        }
        let Some((dialect, about)) = found else {
            return Err(Error::NoServer { role });
        };
        let model = servers.model.clone().or_else(|| about.model.clone());
        let model = model.ok_or_else(|| {
            Error::unfit(&addresses[0], "it does not name its model, or serves several: choose with the setting model of its servers")
        })?;
        // A server reports 0 if it does not know its context.
        let told = about.context.filter(|&context| context > 0);
        let context = servers.context.or(told).ok_or_else(|| {
            Error::unfit(&addresses[0], "it does not say how many tokens its model takes: give them in the setting context of its servers")
        })?;
        let replicas = Replicas::new(
            addresses,
            client,
            servers.key.clone(),
            servers.in_flight,
            servers.patience,
            dialect.health(),
        );
        Ok(Self {
            replicas: Arc::new(replicas),
            dialect,
            about,
            model,
            context,
        })
    }

    /// Returns the engine: `vllm`, `sglang`, `llama.cpp` or `openai`.
    pub fn engine(&self) -> &'static str {
        self.dialect.name()
    }

    /// The model's name on the servers.
    pub fn model(&self) -> &str {
        &self.model
    }

    /// Returns the source of the model: a folder on the servers, or a repository on the hub. `None`
    /// if the servers do not report it.
    pub fn source(&self) -> Option<&str> {
        self.about.source.as_deref()
    }

    /// Returns the most tokens of a chain with its prompt.
    pub fn context(&self) -> usize {
        self.context
    }

    /// Iterates over the addresses, in the order of the settings.
    pub fn addresses(&self) -> impl Iterator<Item = &Address> {
        self.replicas.servers.iter().map(|server| &server.address)
    }

    /// Makes the error that the servers cannot be used for `reason`; it names the first address.
    pub(crate) fn unfit(&self, reason: impl Into<String>) -> Error {
        Error::unfit(&self.replicas.servers[0].address, reason)
    }

    /// Returns the facts about the servers that are known without a test.
    pub fn facts(&self) -> ServerFacts {
        ServerFacts {
            engine: self.engine().to_owned(),
            version: self.about.version.clone(),
            model: self.model.clone(),
            context: self.context,
            seed_repeats: None,
            likelihoods: None,
            route: None,
            promise: self.dialect.promise().to_owned(),
        }
    }

    /// Returns a copy of the counts of requests so far.
    pub fn traffic(&self) -> Traffic {
        self.replicas.traffic().clone()
    }

    fn note(&self, tokens: usize, usage: Usage) {
        let prompt = usage.prompt.unwrap_or(tokens as u64);
        let mut traffic = self.replicas.traffic();
        // Saturating sums: a server may report any number.
        add(&mut traffic.prompt_tokens, prompt);
        if let Some(cached) = usage.cached.filter(|_| prompt > 0) {
            add(&mut traffic.told_tokens, prompt);
            add(traffic.cached_tokens.get_or_insert(0), cached.min(prompt));
        }
        if let Some(queued) = usage.queued {
            traffic.queue_told += 1;
            add(traffic.queue_milliseconds.get_or_insert(0), queued);
        }
    }

    /// Samples the rest of a step. Also returns the number of retries.
    pub(crate) async fn generate(
        &self,
        session: u64,
        ask: &Ask,
        tokenizer: &Tokenizer,
    ) -> Result<(Generated, u32), CallError> {
        let call = self.dialect.generate(&self.model, ask, tokenizer);
        let generated = self
            .replicas
            .call(session, &call, |answer: Reply<'_>| {
                let generated = self.dialect.generated(answer, ask, tokenizer)?;
                // A model may have more logits than the tokenizer has tokens, so a server can
                // sample other ids.
                let mut tokens = generated.tokens.iter();
                match tokens.find(|token| **token as usize >= tokenizer.len()) {
                    Some(token) => Err(format!("token {token}, which the tokenizer does not have")),
                    None => Ok(generated),
                }
            })
            .await?;
        self.note(ask.ids.len(), generated.0.usage);
        Ok(generated)
    }

    /// Returns the scores of the `rows` steps that a route reads, the server's numbers about the
    /// request, and the number of retries.
    pub(crate) async fn score(
        &self,
        session: u64,
        route: &Route,
        normaliser: &Normaliser,
        asked: &Asked,
        rows: usize,
    ) -> Result<(Vec<f32>, Usage, u32), CallError> {
        let call = route.call(self.dialect, &self.model, asked);
        let ((scores, usage), retries) = self
            .replicas
            .call(session, &call, |answer: Reply<'_>| {
                route.scores(self.dialect, normaliser, rows, answer)
            })
            .await?;
        self.note(asked.ids.len(), usage);
        Ok((scores, usage, retries))
    }

    /// Sends the same request to each server, to test what all servers must do.
    pub(crate) async fn each<T>(
        &self,
        call: &Call,
        read: impl Fn(Reply<'_>) -> Result<T, String>,
    ) -> Result<Vec<T>, Error> {
        let mut all = Vec::new();
        let replicas = &self.replicas;
        let key = replicas.key.as_ref();
        for server in &replicas.servers {
            let answer = replicas.client.ask(&server.address, key, "", call, &read);
            let answer = answer.await;
            all.push(answer.map_err(|failure| Error::server(&server.address, failure))?);
        }
        Ok(all)
    }
}

fn add(sum: &mut u64, more: u64) {
    *sum = sum.saturating_add(more);
}

fn shown(dialect: &dyn Dialect, about: &About) -> String {
    let model = about.model.as_deref().unwrap_or("a model without a name");
    let context = about.context.unwrap_or(0);
    format!("{} with {model} ({context} tokens)", dialect.name())
}

/// Finds out which engine a server runs, and reads its description of itself.
async fn recognise(
    client: &Client,
    address: &Address,
    key: Option<&ApiKey>,
    wanted: Option<&'static dyn Dialect>,
) -> Result<(&'static dyn Dialect, About), Error> {
    let mut seen: Vec<(Call, Result<Vec<u8>, Failure>)> = Vec::new();
    for &dialect in DIALECTS {
        // Text is less exact than token ids, so an engine that exchanges text is used only if it is
        // named.
        let meant = match wanted {
            Some(wanted) => wanted.name() == dialect.name(),
            None => !dialect.is_text(),
        };
        if !meant {
            continue;
        }
        let call = dialect.about();
        // Several engines have the same route for their description; each route is requested only
        // once.
        if !seen.iter().any(|(known, _)| *known == call) {
            let answer = client.send(address, key, "", &call).await;
            if let Err(
                failure @ (Failure::Unreachable(_) | Failure::Silent(_) | Failure::TooLong(_)),
            ) = answer
            {
                return Err(Error::server(address, failure));
            }
            seen.push((call.clone(), answer));
        }
        let answer = seen.iter().find(|(known, _)| *known == call);
        if let Some((_, Ok(answer))) = answer
            && let Ok(answer) = Reply::parse(answer)
            && let Some(mut about) = dialect.is_about(answer)
        {
            if about.version.is_none() {
                // The list of models contains no version, but some engines have a route for it.
                let call = Call::get("/version");
                let version = client.ask(address, key, "", &call, |answer: Reply<'_>| {
                    Ok(answer.maybe("version"))
                });
                about.version = version.await.ok().flatten();
            }
            return Ok((dialect, about));
        }
    }
    let refused = seen.into_iter().find_map(|(_, answer)| match answer {
        Err(
            failure @ Failure::Status {
                status: 401 | 403 | 500..,
                ..
            },
        ) => Some(failure),
        _ => None,
    });
    let reason = match (refused, wanted) {
        (Some(failure), _) => return Err(Error::server(address, failure)),
        (None, Some(wanted)) => format!("it does not answer as {} does", wanted.name()),
        (None, None) => format!(
            "it answers as none of {}; if it has OpenAI's /v1/completions, set engine = \"openai\" for its \
             servers: text is sent then, and results are near, not exact",
            names()
        ),
    };
    Err(Error::unfit(address, reason))
}
