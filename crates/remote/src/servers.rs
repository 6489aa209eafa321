//! The servers of a role: the user's settings, and the facts found on connecting.

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
use crate::route::Route;

/// The settings of servers that run the same model.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Servers {
    /// The addresses, `http://HOST:PORT`. Each problem is pinned to one of them.
    pub urls: Vec<String>,
    /// The engine: `vllm`, `sglang`, `llama.cpp` or `openai`. With `None` the server is asked;
    /// `openai` must be named.
    pub engine: Option<String>,
    /// The model's name on the servers; `None` for the only model that they serve.
    pub model: Option<String>,
    /// The largest number of tokens of a chain with its prompt; `None` for the context that the
    /// servers report.
    pub context: Option<usize>,
    /// The key that is sent as `Authorization: Bearer`.
    pub key: Option<ApiKey>,
    /// Whether the key may be sent unencrypted to another machine.
    pub plain_http_key: bool,
    /// Trusted certificates, in addition to Mozilla's and the system's.
    pub certificates: Certificates,
    /// The largest number of concurrent requests to a server. The number falls while a server
    /// reports overload.
    pub in_flight: usize,
    /// The longest wait for the first byte of an answer, in which a whole step is generated.
    pub first_byte: Duration,
    /// The longest wait for the rest of an answer after its first byte.
    pub rest: Duration,
    /// The time in which a request is retried while servers are down or overloaded.
    pub patience: Duration,
}

impl Servers {
    /// Makes settings for servers at these addresses, with defaults for everything else.
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

/// Facts on the servers of a role, part of a run's identity.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ServerFacts {
    /// The engine: `vllm`, `sglang`, `llama.cpp` or `openai`.
    pub engine: String,
    /// The version of the engine; `None` if the server does not report it.
    pub version: Option<String>,
    /// The model's name on the servers.
    pub model: String,
    /// The largest number of tokens of a chain with its prompt.
    pub context: usize,
    /// Whether two equal requests with the same seed returned the same tokens when the run began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed_repeats: Option<bool>,
    /// Whether a generator's server returns the log-probabilities of sampled tokens.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub likelihoods: Option<bool>,
    /// The route by which a reward model is asked for scores.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub route: Option<String>,
    /// The engine's promise on equal requests with equal seeds.
    pub promise: String,
}

/// Servers that answered, with their engine and model.
#[derive(Debug)]
pub struct Connection {
    pub(crate) replicas: Arc<Replicas>,
    pub(crate) dialect: &'static dyn Dialect,
    about: About,
    model: String,
    context: usize,
}

impl Connection {
    /// Connects to servers and asks which engine and which model they run.
    pub(crate) async fn open(role: &'static str, servers: &Servers) -> Result<Self, Error> {
        let addresses: Vec<Address> = servers
            .urls
            .iter()
            .map(|url| Address::parse(url))
            .collect::<Result<_, _>>()?;
        if addresses.is_empty() {
            return Err(Error::NoServer { role });
        }
        // Before the first request, which would already send the key.
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
            // A run mixes the answers of all servers, so they must run the same model.
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
        // A context of 0 means that the server does not know it.
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

    /// The engine: `vllm`, `sglang`, `llama.cpp` or `openai`.
    pub fn engine(&self) -> &'static str {
        self.dialect.name()
    }

    /// The model's name on the servers.
    pub fn model(&self) -> &str {
        &self.model
    }

    /// The source of the model: a folder on the servers, or a name on the hub. `None` if they do
    /// not report it.
    pub fn source(&self) -> Option<&str> {
        self.about.source.as_deref()
    }

    /// The largest number of tokens of a chain with its prompt.
    pub fn context(&self) -> usize {
        self.context
    }

    /// The addresses, in the order of the settings.
    pub fn addresses(&self) -> impl Iterator<Item = &Address> {
        self.replicas.servers.iter().map(|server| &server.address)
    }

    /// Makes an error about servers that do not suit; it names the first address.
    pub(crate) fn unfit(&self, reason: impl Into<String>) -> Error {
        Error::unfit(&self.replicas.servers[0].address, reason)
    }

    /// Returns the facts on the servers.
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

    /// Returns the counts of requests so far.
    pub fn traffic(&self) -> Traffic {
        self.replicas.traffic().clone()
    }

    fn note(&self, tokens: usize, usage: Usage) {
        let prompt = usage.prompt.unwrap_or(tokens as u64);
        let mut traffic = self.replicas.traffic();
        // Saturating: a server may report any number.
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

    /// Samples the rest of a step; returns the number of retries too.
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
                // A head may have more rows than the tokenizer has tokens.
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

    /// Returns the scores of the `rows` steps that a route reads, the server's figures, and the
    /// number of retries.
    pub(crate) async fn score(
        &self,
        session: u64,
        route: &Route,
        normaliser: Normaliser,
        ids: &[u32],
        rows: usize,
    ) -> Result<(Vec<f32>, Usage, u32), CallError> {
        let call = route.call(self.dialect, &self.model, ids);
        let ((scores, usage), retries) = self
            .replicas
            .call(session, &call, |answer: Reply<'_>| {
                route.scores(self.dialect, normaliser, rows, answer)
            })
            .await?;
        self.note(ids.len(), usage);
        Ok((scores, usage, retries))
    }

    /// Makes the same request to each server, to test behaviour that all servers must have.
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

/// Finds the engine of a server and its description of itself.
async fn recognise(
    client: &Client,
    address: &Address,
    key: Option<&ApiKey>,
    wanted: Option<&'static dyn Dialect>,
) -> Result<(&'static dyn Dialect, About), Error> {
    let mut seen: Vec<(Call, Result<Vec<u8>, Failure>)> = Vec::new();
    for &dialect in DIALECTS {
        // Text is less exact than token ids, so engines that exchange text must be asked for.
        let meant = match wanted {
            Some(wanted) => wanted.name() == dialect.name(),
            None => !dialect.is_text(),
        };
        if !meant {
            continue;
        }
        let call = dialect.about();
        // Several engines describe themselves on the same route, which is asked only once.
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
                // The list of models has no version, but some engines have a route for it.
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
