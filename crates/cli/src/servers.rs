//! Models that run on servers of other engines: shows their facts, and the traffic of a run.

#[cfg(feature = "remote")]
use beamgen::hub::Certificates;
#[cfg(feature = "remote")]
use beamgen::remote::{ApiKey, Remote, Servers};

use crate::failure::Failure;
#[cfg(feature = "remote")]
use crate::{output, printable, table::counted};

/// Returns the API key for a role's servers, from `BEAMGEN_GENERATOR_KEY` or `BEAMGEN_PRM_KEY`.
#[cfg(feature = "remote")]
fn key(role: &str) -> Result<Option<ApiKey>, Failure> {
    let name = format!("BEAMGEN_{}_KEY", role.to_uppercase());
    let Some(value) = std::env::var_os(&name) else {
        return Ok(None);
    };
    // A key consists of ASCII characters, so a value that is not UTF-8 is refused by `ApiKey::new`,
    // too.
    let key = ApiKey::new(&value.to_string_lossy());
    key.map(Some)
        .map_err(|error| Failure::Input(format!("{name}: {error}")))
}

/// Returns one line for each role that servers have, with its traffic.
#[cfg(feature = "remote")]
pub(crate) fn traffic(solver: &beamgen::Solver) -> Vec<String> {
    solver
        .traffic()
        .iter()
        .map(|(role, traffic)| line(role, traffic))
        .collect()
}

#[cfg(not(feature = "remote"))]
pub(crate) fn traffic(_: &beamgen::Solver) -> Vec<String> {
    Vec::new()
}

/// The number of requests from which a hint about a low share of cached tokens makes sense: the
/// first requests always meet an empty cache.
#[cfg(feature = "remote")]
const ENOUGH: u64 = 50;

#[cfg(feature = "remote")]
fn line(role: &str, traffic: &beamgen::remote::Traffic) -> String {
    let requests = counted(traffic.requests, "request", "requests");
    let mut line = format!("{role} server: {requests}");
    if traffic.retries > 0 {
        line += &format!(", {} retried", traffic.retries);
    }
    let tokens = counted(traffic.prompt_tokens, "prompt token", "prompt tokens");
    line += &format!(", {tokens}");
    if let Some(cached) = traffic.cached_tokens {
        // Only answers that report cached tokens count, since some servers of the pool may not.
        let share = 100.0 * cached as f64 / traffic.told_tokens.max(1) as f64;
        line += &format!(", {share:.0} % of them from its cache");
        if share < 50.0 && traffic.requests >= ENOUGH {
            line += " (low: check that its prefix cache is on and large enough)";
        }
    }
    if let Some(queued) = traffic.queue_milliseconds {
        let each = queued as f64 / traffic.queue_told.max(1) as f64;
        line += &format!(", {each:.0} ms in its queue per request");
    }
    if traffic.discarded_tokens > 0 {
        let tokens = counted(traffic.discarded_tokens, "token", "tokens");
        line += &format!(", {tokens} after the end of a step dropped");
    }
    line
}

/// Shows engine, model and context of the servers. The servers of a role form one pool, so each
/// role is shown once.
#[cfg(feature = "remote")]
pub(crate) fn show(roles: [(&'static str, &Vec<String>); 2], json: bool) -> Result<(), Failure> {
    use std::io::Write;

    let remote = Remote::new().map_err(beamgen::Error::from)?;
    let mut out = std::io::stdout().lock();
    for (role, urls) in roles {
        if urls.is_empty() {
            continue;
        }
        let mut servers = Servers::at(urls);
        servers.key = key(role)?;
        servers.certificates = Certificates::from_lookup(|name| std::env::var(name).ok());
        let connection = remote
            .connect(role, &servers)
            .map_err(beamgen::Error::from)?;
        let (facts, source) = (connection.facts(), connection.source());
        if json {
            let row = serde_json::json!({
                "role": role, "urls": urls, "server": facts, "source": source,
            });
            output::json_line(&mut out, &row)?;
            continue;
        }
        let version = facts.version.unwrap_or_default();
        writeln!(out, "{role}  {}", urls.join(", "))?;
        for (name, value) in [
            ("engine", format!("{} {version}", facts.engine)),
            ("model", facts.model),
            ("from", source.unwrap_or("not reported").to_owned()),
            ("context", counted(facts.context, "token", "tokens")),
            ("promises", facts.promise),
        ] {
            writeln!(out, "  {name:<9}{}", printable::line(value.trim_end()))?;
        }
    }
    Ok(out.flush()?)
}

/// Returns an error, because this build cannot talk to servers.
#[cfg(not(feature = "remote"))]
pub(crate) fn show(_: [(&'static str, &Vec<String>); 2], _: bool) -> Result<(), Failure> {
    Err(beamgen::Error::NoRemote.into())
}
