//! Models on servers of other engines: their keys, and what they were asked in a run.

use beamgen::SolverBuilder;

use crate::failure::Failure;

/// Gives the builder the servers' keys, which come from the environment.
#[cfg(feature = "remote")]
pub fn with_keys(mut builder: SolverBuilder) -> Result<SolverBuilder, Failure> {
    use beamgen::remote::ApiKey;

    let key = |name: &str| -> Result<Option<ApiKey>, Failure> {
        let Ok(value) = std::env::var(name) else {
            return Ok(None);
        };
        let key = ApiKey::new(&value);
        key.map(Some)
            .map_err(|error| Failure::Input(format!("{name}: {error}")))
    };
    let models = &builder.settings().models;
    let (generator, prm) = (
        models.generator_server.is_some(),
        models.prm_server.is_some(),
    );
    if generator && let Some(key) = key("BEAMGEN_GENERATOR_KEY")? {
        builder = builder.generator_key(key);
    }
    if prm && let Some(key) = key("BEAMGEN_PRM_KEY")? {
        builder = builder.prm_key(key);
    }
    Ok(builder)
}

/// The builder as it is: this build refuses servers.
#[cfg(not(feature = "remote"))]
pub fn with_keys(builder: SolverBuilder) -> Result<SolverBuilder, Failure> {
    Ok(builder)
}

/// What the servers were asked, a line for each role.
#[cfg(feature = "remote")]
pub fn traffic(solver: &beamgen::Solver) -> Vec<String> {
    solver
        .traffic()
        .iter()
        .map(|(role, traffic)| line(role, traffic))
        .collect()
}

#[cfg(not(feature = "remote"))]
pub fn traffic(_: &beamgen::Solver) -> Vec<String> {
    Vec::new()
}

/// Requests before a low share of cached tokens says something.
#[cfg(feature = "remote")]
const ENOUGH: u64 = 50;

#[cfg(feature = "remote")]
fn line(role: &str, traffic: &beamgen::remote::Traffic) -> String {
    let mut line = format!("{role} server: {} requests", traffic.requests);
    if traffic.retries > 0 {
        line += &format!(", {} made again", traffic.retries);
    }
    line += &format!(", {} prompt tokens", traffic.prompt_tokens);
    if let Some(cached) = traffic.cached_tokens {
        let share = 100.0 * cached as f64 / traffic.told_tokens.max(1) as f64;
        line += &format!(", {share:.0} % of them from its cache");
        if share < 50.0 && traffic.requests >= ENOUGH {
            line += " (is its prefix cache off, or too small for this search?)";
        }
    }
    if traffic.discarded_tokens > 0 {
        line += &format!(
            ", {} tokens behind the end of a step dropped",
            traffic.discarded_tokens
        );
    }
    line
}
