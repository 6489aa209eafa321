//! The routes `/v1/models` and `/v1/problems`.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use beamgen::bundled;
use serde_json::{Value, json};

use crate::app::App;
use crate::ask::unknown_model;
use crate::presets::Preset;
use crate::refusal::Refusal;

pub(crate) fn list(app: &App) -> Value {
    let presets = app.presets();
    let presets: Vec<Value> = presets.iter().map(|preset| object(app, preset)).collect();
    json!({"object": "list", "data": presets})
}

pub(crate) fn find(app: &App, name: &str) -> Result<Value, Refusal> {
    let presets = app.presets();
    let preset = presets.find(name);
    let preset = preset.ok_or_else(|| unknown_model(app, name))?;
    Ok(object(app, preset))
}

fn object(app: &App, preset: &Preset) -> Value {
    let search = &preset.settings.search;
    json!({
        "id": preset.name,
        "object": "model",
        "created": app.started,
        "owned_by": "beamgen",
        "beamgen": {
            "summary": preset.summary,
            "models": app.models.names,
            "strategy": search.strategy.name(),
            "n": search.n,
            "m": search.m,
            "settings": preset.settings,
        },
    })
}

/// The route `/v1/problems`: sample problems of the kind that the bundled models know. The list is
/// empty with another generator.
pub(crate) async fn problems(State(app): State<Arc<App>>) -> Json<Value> {
    let problems = if app.models.has_bundled {
        bundled::sample().map(|sample| sample.problems)
    } else {
        Ok(Vec::new())
    };
    Json(json!({"object": "list", "data": problems.unwrap_or_default()}))
}
