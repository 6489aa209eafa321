//! The servers of a role as the user names them, and what they turned out to be.

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

/// Servers of one model, and how they are asked.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Servers {
    /// `http://HOST:PORT`, one or more. Each problem is pinned to one of them.
    pub urls: Vec<String>,
    /// `vllm`, `sglang`, `llama.cpp` or `openai`; absent: as the servers say.
    pub engine: Option<String>,
    /// The model's name on the servers; absent: the one they serve.
    pub model: Option<String>,
    /// Tokens that a chain may have with its prompt; absent: as many as the servers say.
    pub context: Option<usize>,
    /// Sent as `Authorization: Bearer`.
    pub key: Option<ApiKey>,
    /// Lets the key be sent unencrypted to another machine.
    pub plain_http_key: bool,
    /// The certificates by which they are trusted, besides Mozilla's and the system's.
    pub certificates: Certificates,
    /// Most requests at a server at once. It is given fewer when it says that it has too many.
    pub in_flight: usize,
    /// Longest wait for the first byte of an answer, in which a whole step is generated.
    pub first_byte: Duration,
    /// Longest wait for the rest of an answer once it began.
    pub rest: Duration,
    /// How long a request that fails for want of a server is made again and again.
    pub patience: Duration,
}

impl Servers {
    /// Servers at these addresses, with the default settings.
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

/// What the servers of a role are; part of a run's identity.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ServerFacts {
    /// `vllm`, `sglang`, `llama.cpp` or `openai`.
    pub engine: String,
    /// Of the engine, where it says.
    pub version: Option<String>,
    /// The model's name on the servers.
    pub model: String,
    /// Tokens that a chain may have with its prompt.
    pub context: usize,
    /// Whether two equal requests with the same seed gave the same tokens when the run began.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seed_repeats: Option<bool>,
    /// Whether a generator's server gives the log-probabilities of what it samples.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub likelihoods: Option<bool>,
    /// How a reward model is asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub route: Option<String>,
    /// What the engine promises of equal requests.
    pub promise: String,
}

/// Servers that answered.
#[derive(Debug)]
pub struct Connection {
    pub(crate) replicas: Arc<Replicas>,
    pub(crate) dialect: &'static dyn Dialect,
    about: About,
    model: String,
    context: usize,
}

impl Connection {
    /// Finds out what the servers are.
    pub(crate) async fn open(role: &'static str, servers: &Servers) -> Result<Self, Error> {
        let addresses: Vec<Address> = servers
            .urls
            .iter()
            .map(|url| Address::parse(url))
            .collect::<Result<_, _>>()?;
        if addresses.is_empty() {
            return Err(Error::NoServer { role });
        }
        if servers.key.is_some()
            && !servers.plain_http_key
            && let Some(open) = addresses.iter().find(|address| address.is_open())
        {
            let address = open.to_string();
            return Err(Error::OpenKey { address });
        }
        let client = Client::new(servers.first_byte, servers.rest, &servers.certificates)?;
        let unfit = |reason: &str| Error::unfit(&addresses[0], reason);
        let wanted = match &servers.engine {
            None => None,
            Some(name) => Some(named(name).ok_or_else(|| {
                unfit(&format!(
                    "unknown engine {name:?} (known: {}, openai)",
                    names()
                ))
            })?),
        };
        let mut found: Option<(&'static dyn Dialect, About)> = None;
        for address in &addresses {
            let this = recognise(&client, address, servers.key.as_ref(), wanted).await?;
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
            unfit("it does not name its model, or serves several: choose with the setting model of its servers")
        })?;
        let told = about.context.filter(|&context| context > 0);
        let context = servers.context.or(told).ok_or_else(|| {
            unfit("it does not say how many tokens its model takes: give them in the setting context of its servers")
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

    /// `vllm`, `sglang`, `llama.cpp` or `openai`.
    pub fn engine(&self) -> &'static str {
        self.dialect.name()
    }

    /// The model's name on the servers.
    pub fn model(&self) -> &str {
        &self.model
    }

    /// Where the servers have the model from: a folder of theirs, or a name of the hub.
    pub fn source(&self) -> Option<&str> {
        self.about.source.as_deref()
    }

    /// Tokens that a chain may have with its prompt.
    pub fn context(&self) -> usize {
        self.context
    }

    /// The addresses, in order.
    pub fn addresses(&self) -> impl Iterator<Item = &Address> {
        self.replicas.servers.iter().map(|server| &server.address)
    }

    /// The error of servers that do not fit; it names the first.
    pub(crate) fn unfit(&self, reason: impl Into<String>) -> Error {
        Error::unfit(&self.replicas.servers[0].address, reason)
    }

    /// What the servers are.
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

    /// What the servers were asked so far.
    pub fn traffic(&self) -> Traffic {
        self.replicas.traffic().clone()
    }

    fn note(&self, tokens: usize, usage: Usage) {
        let prompt = usage.prompt.unwrap_or(tokens as u64);
        let mut traffic = self.replicas.traffic();
        // Whatever a server says, no sum overflows.
        let add = |sum: &mut u64, more| *sum = sum.saturating_add(more);
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

    /// Samples the rest of a step.
    pub(crate) async fn generate(
        &self,
        session: u64,
        ask: &Ask,
        tokenizer: &Tokenizer,
    ) -> Result<(Generated, u32), CallError> {
        let call = self.dialect.generate(&self.model, ask, tokenizer);
        let read = |answer: Reply<'_>| {
            let generated = self.dialect.generated(answer, ask, tokenizer)?;
            let is_unknown = |token: &&u32| **token as usize >= tokenizer.len();
            match generated.tokens.iter().find(is_unknown) {
                Some(token) => Err(format!("token {token}, which the tokenizer does not have")),
                None => Ok(generated),
            }
        };
        let generated = self.replicas.call(session, &call, read).await?;
        self.note(ask.ids.len(), generated.0.usage);
        Ok(generated)
    }

    /// Scores of the `rows` steps that a route reads of a chain, and how often the request was made
    /// again.
    pub(crate) async fn score(
        &self,
        session: u64,
        route: &Route,
        normaliser: Normaliser,
        ids: &[u32],
        rows: usize,
    ) -> Result<(Vec<f32>, Usage, u32), CallError> {
        let call = route.call(self.dialect, &self.model, ids);
        let read = |answer: Reply<'_>| route.scores(self.dialect, normaliser, rows, answer);
        let ((scores, usage), retries) = self.replicas.call(session, &call, read).await?;
        self.note(ids.len(), usage);
        Ok((scores, usage, retries))
    }

    /// A request to each server, for what every one of them has to do right.
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

fn shown(dialect: &dyn Dialect, about: &About) -> String {
    let model = about.model.as_deref().unwrap_or("a model without a name");
    let context = about.context.unwrap_or(0);
    format!("{} with {model} ({context} tokens)", dialect.name())
}

/// Which engine a server is, and what it says of itself.
async fn recognise(
    client: &Client,
    address: &Address,
    key: Option<&ApiKey>,
    wanted: Option<&'static dyn Dialect>,
) -> Result<(&'static dyn Dialect, About), Error> {
    let mut seen: Vec<(Call, Result<Vec<u8>, Failure>)> = Vec::new();
    for &dialect in DIALECTS {
        // Nobody is served by text who did not ask for it.
        let meant = match wanted {
            Some(wanted) => wanted.name() == dialect.name(),
            None => !dialect.is_text(),
        };
        if !meant {
            continue;
        }
        let call = dialect.about();
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
                let read = |answer: Reply<'_>| Ok(answer.maybe("version"));
                let call = Call::get("/version");
                let version = client.ask(address, key, "", &call, read);
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
