//! Reads presets and keys again while the server runs. If one of them is invalid, none changes.

use std::fmt;
use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use serde_json::{Value, json};
use tokio::sync::Notify;

use crate::access::Key;
use crate::app::App;
use crate::log::Event;
use crate::presets::Presets;
use crate::refusal::Refusal;

/// The settings that a running server can read again.
#[derive(Debug, Clone)]
pub struct Loaded {
    /// The presets, which requests select by `model`.
    pub presets: Presets,
    /// The accepted API keys.
    pub keys: Vec<Key>,
}

/// The caller's function that reads presets and keys, or returns the fault in one line.
type Read = dyn Fn() -> Result<Loaded, String> + Send + Sync;

/// A handle by which any thread makes a server read its presets and keys again. Clones share the
/// same server.
#[derive(Clone)]
pub struct Reload(Arc<Inner>);

struct Inner {
    read: Box<Read>,
    asked: Notify,
}

impl Reload {
    /// Returns a handle. `read` reads presets and keys, or returns the fault in one line; it may
    /// block.
    pub fn new(read: impl Fn() -> Result<Loaded, String> + Send + Sync + 'static) -> Self {
        Self(Arc::new(Inner {
            read: Box::new(read),
            asked: Notify::new(),
        }))
    }

    /// Asks the server to read again. If the server does not run yet, it reads again as soon as it
    /// runs.
    pub fn begin(&self) {
        self.0.asked.notify_one();
    }
}

impl fmt::Debug for Reload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Reload")
    }
}

/// Reads presets and keys again whenever [`Reload::begin`] was called. Never returns.
pub(crate) async fn heed(app: Arc<App>, reload: Reload) {
    loop {
        reload.0.asked.notified().await;
        // `read_again` has reported the outcome to the log.
        let _ = read_again(&app, &reload).await;
    }
}

/// The handler of `/v1/reload`.
pub(crate) async fn handle(State(app): State<Arc<App>>) -> Result<Json<Value>, Refusal> {
    if app.keys().is_empty() {
        return Err(Refusal::new(
            StatusCode::FORBIDDEN,
            "reload_refused",
            "this server has no key, so anyone could reload it: send SIGUSR1 to its process, or start it with a key",
        ));
    }
    let Some(reload) = &app.options.reload else {
        let message = "this server has nothing to read again: start another one";
        return Err(Refusal::new(
            StatusCode::FORBIDDEN,
            "reload_refused",
            message,
        ));
    };
    let done = read_again(&app, reload).await;
    done.map_err(|fault| {
        let message = format!("nothing was reloaded: {fault}");
        Refusal::input("reload_failed", message)
    })?;
    let presets = app.presets();
    let names: Vec<&str> = presets.iter().map(|preset| preset.name.as_str()).collect();
    Ok(Json(json!({
        "object": "reload",
        "models": names,
        "keys": app.keys().len(),
    })))
}

/// Reads presets and keys, puts them into effect if all are valid, and reports the outcome to the
/// log.
async fn read_again(app: &Arc<App>, reload: &Reload) -> Result<(), String> {
    let turn = app.reloading.lock().await;
    let reload = reload.clone();
    // The files may be on a slow disk, and this thread serves all requests.
    let read = tokio::task::spawn_blocking(move || (reload.0.read)()).await;
    let read = read.unwrap_or_else(|_| Err("the files could not be read".to_owned()));
    let done = read.and_then(|loaded| take(app, loaded));
    drop(turn);
    match &done {
        Ok(()) => app.tell(&Event::Reloaded {
            presets: app.presets().iter().count(),
            keys: app.keys().len(),
        }),
        Err(reason) => app.tell(&Event::NotReloaded { reason }),
    }
    done
}

/// Puts presets and keys into effect. Refuses to remove the last key of a server that has keys.
fn take(app: &App, mut loaded: Loaded) -> Result<(), String> {
    if loaded.keys.is_empty() && !app.keys().is_empty() {
        return Err("no key is left, which would let anyone in: write one".to_owned());
    }
    if !app.models.has_scorer {
        loaded.presets = loaded.presets.without_scorer();
    }
    app.replace(loaded);
    Ok(())
}
