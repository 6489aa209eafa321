//! Connects to servers that run models, in place of this process.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use beamgen_engine::{Checkpoint, Tokenizer, Weights};
use beamgen_generator::Prompts;
use beamgen_prm::{PrmSpec, same_tokenizer};
use beamgen_remote::{ApiKey, Connection, Remote, ServerFacts, Servers};
use beamgen_search::Generator;
use serde_json::{Map, Value};

use crate::own::{IdentifiedScorer, Identity, OwnParts, format_identity};
use crate::server_config::ServerConfig;
use crate::source::Finder;
use crate::{Config, Error};

/// The maximum size of a key file, in bytes.
const MOST_KEY: u64 = 1 << 16;

#[derive(Default)]
pub(crate) struct Served {
    /// The client for all servers; `None` if the settings name no server.
    remote: Option<Remote>,
    /// The connections to servers with their roles, and the facts that the servers reported.
    pub(crate) connections: Vec<(&'static str, Arc<Connection>, ServerFacts)>,
}

impl Served {
    pub(crate) fn open(config: &Config) -> Result<Self, Error> {
        let wanted = config.models.names_servers();
        Ok(Self {
            remote: wanted.then(Remote::new).transpose()?,
            connections: Vec::new(),
        })
    }

    /// Replaces the caller's generator by one on servers, if the settings name servers. Returns the
    /// generator's prompts, and the files with its tokenizer.
    pub(crate) fn generator(
        &mut self,
        config: &mut Config,
        own: &mut OwnParts,
        finder: &mut Finder,
    ) -> Result<Option<(Prompts, Checkpoint)>, Error> {
        let (Some(remote), Some(server)) = (&self.remote, &config.models.generator_server) else {
            return Ok(None);
        };
        let servers = servers(server, own.generator_key.clone(), own)?;
        let connection = remote.connect("generator", &servers)?;
        let models = &config.models;
        let name = models.tokenizer.as_ref().or(models.generator.as_ref());
        let name = name.cloned();
        let model = ServedModel::open(&connection, name, "generator", finder)?;
        let context = connection.context();
        let tokenizer = Arc::clone(&model.tokenizer);
        let (generator, facts) = remote.generator(connection, tokenizer, &config.generator)?;
        // The prompts depend on these settings, so they are completed first.
        config.generator = generator.resolve(&config.generator);
        let prompts = Prompts::new(model.tokenizer, context, &config.generator)?;
        let connection = Arc::clone(generator.connection());
        let identity = identity(&facts, &model.fingerprint);
        note_promises(&connection, &facts, &mut finder.notes);
        self.connections.push(("generator", connection, facts));
        own.generator = Some((Identity::Facts(identity), Box::new(generator)));
        Ok(Some((prompts, model.checkpoint)))
    }

    /// Returns a scorer on servers, if the settings name servers for the reward model. The role is
    /// `prm`, or `judge` for a judge.
    pub(crate) fn scorer(
        &mut self,
        role: &'static str,
        config: &Config,
        generator: Option<&Checkpoint>,
        own: &OwnParts,
        finder: &mut Finder,
    ) -> Result<Option<IdentifiedScorer>, Error> {
        let (Some(remote), Some(server)) = (&self.remote, &config.models.prm_server) else {
            return Ok(None);
        };
        // The key is for the reward model's servers. A judge's servers may belong to others, who
        // must not get it.
        let key = own.prm_key.clone().filter(|_| role == "prm");
        let servers = servers(server, key, own)?;
        let connection = remote.connect(role, &servers)?;
        let models = &config.models;
        let name = models.prm_tokenizer.as_ref().or(models.prm.as_ref());
        let name = name.cloned();
        let model = ServedModel::open(&connection, name, role, finder)?;
        let place = model.checkpoint.path().display().to_string();
        let format = config.models.prm_format.as_deref();
        let spec = if let Some(format) = format.filter(|name| *name != "auto") {
            PrmSpec::choose(format)
        } else {
            // If the weights are on this machine, too, the names of their tensors help to recognise
            // the format.
            let weights = Weights::load(model.checkpoint.clone());
            let weights = weights.or_else(|_| Weights::from_tensors([]))?;
            PrmSpec::of(&model.checkpoint, &weights)
        };
        let spec = spec.map_err(|error| Error::from(error).at(place.clone()))?;
        let (mut scorer, facts) = remote.scorer(connection, model.tokenizer, &spec)?;
        if let Some(generator) = generator {
            scorer.share_tokens(same_tokenizer(model.checkpoint, generator.clone())?);
        }
        let route = facts.route.as_deref().unwrap_or_default();
        finder
            .notes
            .push(format!("{place} is read as {}, by {route}", spec.name));
        if route == "/pooling" {
            finder.notes.push(format!(
                "{}: this route reads each chain from its first token for every step; a reward model in this \
                 process reads a step once",
                server.urls.join(", ")
            ));
        }
        let prm = identity(&facts, &model.fingerprint);
        let mut identity = Map::new();
        identity.insert("scorer".into(), config.models.scorer.name().into());
        identity.insert("prm".into(), prm.into());
        format_identity(&spec, &mut identity);
        self.connections
            .push((role, Arc::clone(scorer.connection()), facts));
        Ok(Some((Identity::Facts(identity), Box::new(scorer))))
    }
}

/// A model that servers run. Its tokenizer is on this machine.
struct ServedModel {
    checkpoint: Checkpoint,
    tokenizer: Arc<Tokenizer>,
    fingerprint: String,
}

impl ServedModel {
    /// Opens the files of the model that the settings name. If they name none, takes the servers'
    /// name for the model.
    fn open(
        connection: &Connection,
        name: Option<PathBuf>,
        role: &'static str,
        finder: &mut Finder,
    ) -> Result<Self, Error> {
        let given = name.is_some();
        let name = name
            .unwrap_or_else(|| PathBuf::from(connection.source().unwrap_or(connection.model())));
        let source = match finder.tokenizer(&name) {
            // The servers' name may be a path on their machine, for which the hub's error would
            // mislead.
            Err(_) if !given => Err(Error::NoTokenizer {
                role,
                model: connection.model().to_owned(),
            }),
            source => source,
        }?;
        let checkpoint = source.checkpoint();
        let place = checkpoint.path().display().to_string();
        let tokenizer = Tokenizer::load(checkpoint.clone());
        let tokenizer = tokenizer.map_err(|error| Error::from(error).at(place))?;
        Ok(Self {
            fingerprint: fingerprint(&checkpoint)?,
            tokenizer: Arc::new(tokenizer),
            checkpoint,
        })
    }
}

/// Returns the fingerprint of the files that decide the requests to servers. Weights are left out,
/// since the servers have their own.
fn fingerprint(checkpoint: &Checkpoint) -> Result<String, Error> {
    let mut files = Vec::new();
    for name in [
        "tokenizer.json",
        "tokenizer_config.json",
        "special_tokens_map.json",
        "added_tokens.json",
        "generation_config.json",
        "chat_template.jinja",
    ] {
        if let Some(text) = checkpoint.text(name)? {
            files.push((name, text));
        }
    }
    let files = files.iter().map(|(name, text)| (*name, text.as_bytes()));
    Ok(crate::fingerprint::of_files(files))
}

/// Returns the known facts that the results of a served model depend on.
fn identity(facts: &ServerFacts, tokenizer: &str) -> Map<String, Value> {
    let mut identity = Map::new();
    identity.insert("engine".into(), facts.engine.clone().into());
    if let Some(version) = &facts.version {
        identity.insert("version".into(), version.clone().into());
    }
    identity.insert("model".into(), facts.model.clone().into());
    identity.insert("context".into(), facts.context.into());
    identity.insert("tokenizer".into(), tokenizer.into());
    if let Some(route) = &facts.route {
        identity.insert("route".into(), route.clone().into());
    }
    identity
}

/// Adds notes on guarantees that the generator's servers do not give, such as repeatable sampling.
fn note_promises(connection: &Connection, facts: &ServerFacts, notes: &mut Vec<String>) {
    let first = connection.addresses().next();
    let address = first.map(ToString::to_string).unwrap_or_default();
    notes.push(match facts.seed_repeats {
        Some(false) => format!(
            "{address}: equal requests with equal seeds gave different tokens, so a run cannot be repeated ({} promises: {})",
            facts.engine, facts.promise
        ),
        _ => format!(
            "{address}: results may differ from run to run in rare tokens ({} promises: {})",
            facts.engine, facts.promise
        ),
    });
    if facts.likelihoods == Some(false) {
        notes.push(format!(
            "{address}: it gives no log-probabilities: all tokens count as certain in what reads them (DeepConf, likely-min)"
        ));
    }
}

fn servers(config: &ServerConfig, key: Option<ApiKey>, own: &OwnParts) -> Result<Servers, Error> {
    let key = match (&config.key_file, key) {
        (_, Some(key)) => Some(key),
        (None, None) => None,
        (Some(path), None) => {
            let text = beamgen_files::read_text_file(path, MOST_KEY);
            let text = text.map_err(Error::unreadable(path))?;
            let key = ApiKey::new(&text);
            Some(key.map_err(|error| Error::from(error).at(path.display().to_string()))?)
        }
    };
    let mut servers = Servers::at(config.urls.clone());
    servers.engine.clone_from(&config.engine);
    servers.model.clone_from(&config.model);
    servers.context = config.context;
    servers.key = key;
    servers.plain_http_key = config.plain_http_key;
    servers.certificates = own.certificates.clone();
    servers.in_flight = config.in_flight;
    servers.first_byte = Duration::from_secs(config.first_byte_seconds);
    servers.patience = Duration::from_secs(config.patience_seconds);
    Ok(servers)
}
