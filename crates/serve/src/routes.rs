//! The table of the server's routes, and their handlers.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderName, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{MethodFilter, MethodRouter, on};
use axum::{Json, Router, middleware};
use serde_json::json;

use crate::answer;
use crate::app::App;
use crate::ask::{Ask, Shape};
use crate::body;
use crate::gate::gate;
use crate::mend;
use crate::models;
use crate::openapi::{self, Gives, Schema};
use crate::page;
use crate::parts;
use crate::refusal::Refusal;
use crate::reload;
use crate::reward;
use crate::schema;
use crate::stream::AnswerStream;

/// The HTTP methods that the routes use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Method {
    Get,
    Post,
}

impl Method {
    fn filter(self) -> MethodFilter {
        match self {
            Self::Get => MethodFilter::GET,
            Self::Post => MethodFilter::POST,
        }
    }
}

/// A route: one row of [`ROUTES`], from which the router, the metrics and the OpenAPI document are
/// made.
pub(crate) struct Route {
    pub method: Method,
    /// The path. `{name}` stands for a variable part, which must be the last.
    pub path: &'static str,
    /// The name of the route in metrics and logs.
    pub label: &'static str,
    /// The description in the OpenAPI document, in one line.
    pub summary: &'static str,
    /// The schema of the request's body; `None` if the route reads no body.
    pub takes: Option<Schema>,
    /// The content of the answer if the request succeeds.
    pub gives: Gives,
    handler: fn(MethodFilter) -> MethodRouter<Arc<App>>,
}

impl Route {
    /// Whether the route requires a key if the server has keys.
    pub(crate) fn needs_key(&self) -> bool {
        self.path != WITHOUT_KEY
    }
}

/// The path of the route that never requires a key, so that supervisors can poll it.
pub(crate) const WITHOUT_KEY: &str = "/health";

pub(crate) const ROUTES: &[Route] = &[
    Route {
        method: Method::Get,
        path: "/",
        label: "page",
        summary: "The page, on which a search is watched.",
        takes: None,
        gives: Gives::Text("text/html"),
        handler: |method| on(method, page::page),
    },
    Route {
        method: Method::Get,
        path: "/health",
        label: "health",
        summary: "Whether the engine works. The only route that never asks for a key.",
        takes: None,
        gives: Gives::Json(schema::STATUS),
        handler: |method| on(method, health),
    },
    Route {
        method: Method::Get,
        path: "/ready",
        label: "ready",
        summary: "Whether requests are taken; not while the server stops.",
        takes: None,
        gives: Gives::Json(schema::STATUS),
        handler: |method| on(method, ready),
    },
    Route {
        method: Method::Get,
        path: "/metrics",
        label: "metrics",
        summary: "Metrics in Prometheus' text format.",
        takes: None,
        gives: Gives::Text("text/plain"),
        handler: |method| on(method, metrics),
    },
    Route {
        method: Method::Get,
        path: "/openapi.json",
        label: "openapi",
        summary: "This document.",
        takes: None,
        gives: Gives::Json(schema::DOCUMENT),
        handler: |method| on(method, openapi::document),
    },
    Route {
        method: Method::Post,
        path: "/v1/chat/completions",
        label: "chat",
        summary: "Solves a problem, given as a chat.",
        takes: Some(schema::CHAT),
        gives: Gives::Answer(schema::CHAT_ANSWER),
        handler: |method| on(method, chat),
    },
    Route {
        method: Method::Post,
        path: "/v1/completions",
        label: "completions",
        summary: "Solves a problem, given as a prompt.",
        takes: Some(schema::COMPLETION),
        gives: Gives::Answer(schema::COMPLETION_ANSWER),
        handler: |method| on(method, completion),
    },
    Route {
        method: Method::Get,
        path: "/v1/models",
        label: "models",
        summary: "The presets: the values of a request's `model`.",
        takes: None,
        gives: Gives::Json(schema::MODELS),
        handler: |method| on(method, list_models),
    },
    Route {
        method: Method::Get,
        path: "/v1/models/{name}",
        label: "models",
        summary: "A preset.",
        takes: None,
        gives: Gives::Json(schema::MODEL),
        handler: |method| on(method, one_model),
    },
    Route {
        method: Method::Get,
        path: "/v1/problems",
        label: "problems",
        summary: "The sample problems of the bundled world, if the bundled pair is served.",
        takes: None,
        gives: Gives::Json(schema::PROBLEMS),
        handler: |method| on(method, models::problems),
    },
    Route {
        method: Method::Post,
        path: "/v1/score",
        label: "score",
        summary: "Scores the steps of given chains with the reward model, also in vLLM's form.",
        takes: Some(reward::SCORE.0),
        gives: Gives::Json(reward::SCORE.1),
        handler: |method| on(method, reward::handle),
    },
    Route {
        method: Method::Post,
        path: "/score",
        label: "score",
        summary: "Scores pairs of problem and response, in vLLM's form.",
        takes: Some(reward::PAIRS.0),
        gives: Gives::Json(reward::PAIRS.1),
        handler: |method| on(method, reward::handle),
    },
    Route {
        method: Method::Post,
        path: "/v1/rerank",
        label: "rerank",
        summary: "Ranks responses to a problem, in the form of Jina and vLLM.",
        takes: Some(reward::RERANK.0),
        gives: Gives::Json(reward::RERANK.1),
        handler: |method| on(method, reward::handle),
    },
    Route {
        method: Method::Post,
        path: "/v2/rerank",
        label: "rerank",
        summary: "Ranks responses to a problem, in the form of Cohere.",
        takes: Some(reward::RERANK.0),
        gives: Gives::Json(reward::RERANK.1),
        handler: |method| on(method, reward::handle),
    },
    Route {
        method: Method::Post,
        path: "/rerank",
        label: "rerank",
        summary: "Ranks responses to a problem, in the form of vLLM.",
        takes: Some(reward::RERANK.0),
        gives: Gives::Json(reward::RERANK.1),
        handler: |method| on(method, reward::handle),
    },
    Route {
        method: Method::Post,
        path: "/pooling",
        label: "pooling",
        summary: "Scores each step of a chat's last turn, in the form of vLLM.",
        takes: Some(reward::POOLING.0),
        gives: Gives::Json(reward::POOLING.1),
        handler: |method| on(method, reward::handle),
    },
    Route {
        method: Method::Post,
        path: "/classify",
        label: "classify",
        summary: "Scores a chat's last turn as one class, in the form of vLLM.",
        takes: Some(reward::CLASSIFY.0),
        gives: Gives::Json(reward::CLASSIFY.1),
        handler: |method| on(method, reward::handle),
    },
    Route {
        method: Method::Post,
        path: "/v1/embeddings",
        label: "embeddings",
        summary: "Scores a chat's last turn, in the form of SGLang's classifiers.",
        takes: Some(reward::EMBEDDINGS.0),
        gives: Gives::Json(reward::EMBEDDINGS.1),
        handler: |method| on(method, reward::handle),
    },
    Route {
        method: Method::Post,
        path: "/get_reward",
        label: "get_reward",
        summary: "Scores samples of OpenRLHF and of slime.",
        takes: Some(reward::GET_REWARD.0),
        gives: Gives::Json(reward::GET_REWARD.1),
        handler: |method| on(method, reward::handle),
    },
    Route {
        method: Method::Post,
        path: "/v1/refine",
        label: "refine",
        summary: "Writes given answers again from their weakest steps.",
        takes: Some(schema::REFINE),
        gives: Gives::Json(schema::REFINED),
        handler: |method| on(method, refine_answers),
    },
    Route {
        method: Method::Post,
        path: "/v1/guard",
        label: "guard",
        summary: "Accepts, mends or withholds given answers, with a reason.",
        takes: Some(schema::GUARD),
        gives: Gives::Json(schema::GUARDED),
        handler: |method| on(method, guard_answers),
    },
    Route {
        method: Method::Post,
        path: "/v1/reload",
        label: "reload",
        summary: "Reads the files of presets and keys again. Needs a server with a key.",
        takes: None,
        gives: Gives::Json(schema::RELOADED),
        handler: |method| on(method, reload::handle),
    },
];

pub(crate) fn router(app: Arc<App>) -> Router {
    let routes = ROUTES.iter().fold(Router::new(), |router, route| {
        router.route(route.path, (route.handler)(route.method.filter()))
    });
    routes
        .fallback(not_found)
        .method_not_allowed_fallback(not_allowed)
        .layer(middleware::from_fn_with_state(Arc::clone(&app), gate))
        .with_state(app)
}

/// Returns the route's label for metrics and logs; `other` for an unknown path. Labels come from a
/// fixed list, so clients cannot create new ones.
pub(crate) fn label(path: &str) -> &'static str {
    let is_of = |route: &&Route| match route.path.split_once('{') {
        Some((before, _)) => path.starts_with(before),
        None => path == route.path,
    };
    ROUTES
        .iter()
        .find(is_of)
        .map_or("other", |route| route.label)
}

async fn not_found() -> Refusal {
    Refusal::new(
        StatusCode::NOT_FOUND,
        "not_found",
        "unknown route: docs/reference/http.md lists all routes",
    )
}

async fn not_allowed() -> Refusal {
    let message = "wrong method: use another method for this route";
    Refusal::new(
        StatusCode::METHOD_NOT_ALLOWED,
        "method_not_allowed",
        message,
    )
}

async fn health(State(app): State<Arc<App>>) -> Response {
    // The status stays ok while the server drains: a supervisor must not kill it before it has sent
    // the last answers.
    match app.service.ended() {
        None => Json(json!({"status": "ok"})).into_response(),
        Some(_) => Refusal::engine_lost().into_response(),
    }
}

async fn ready(State(app): State<Arc<App>>) -> Response {
    if app.stop.is_serving() && app.service.ended().is_none() {
        Json(json!({"status": "ready"})).into_response()
    } else {
        Refusal::stopping().into_response()
    }
}

async fn metrics(State(app): State<Arc<App>>) -> Response {
    let kind = "text/plain; version=0.0.4; charset=utf-8";
    ([(CONTENT_TYPE, kind)], app.metrics.text(&app.service)).into_response()
}

async fn list_models(State(app): State<Arc<App>>) -> Response {
    Json(models::list(&app)).into_response()
}

async fn one_model(
    State(app): State<Arc<App>>,
    name: Result<Path<String>, PathRejection>,
) -> Result<Response, Refusal> {
    // A name that is not UTF-8 is read as an empty name, which no model has.
    let name = name.map(|Path(name)| name).unwrap_or_default();
    Ok(Json(models::find(&app, &name)?).into_response())
}

async fn chat(state: State<Arc<App>>, headers: HeaderMap, body: Body) -> Response {
    solve(state, Shape::Chat, headers, body).await
}

async fn completion(state: State<Arc<App>>, headers: HeaderMap, body: Body) -> Response {
    solve(state, Shape::Completion, headers, body).await
}

async fn solve(
    State(app): State<Arc<App>>,
    shape: Shape,
    headers: HeaderMap,
    body: Body,
) -> Response {
    let answer = async {
        let body = body::object(&headers, body, &app.limits).await?;
        let ask = Ask::read(&app, shape, body)?;
        let searches = parts::begin(&app, &ask).await?;
        if ask.stream {
            let stream = AnswerStream::new(&app, ask, searches);
            let head = [
                (CONTENT_TYPE, "text/event-stream"),
                (CACHE_CONTROL, "no-cache"),
                // Without this header, nginx and similar proxies buffer the stream.
                (HeaderName::from_static("x-accel-buffering"), "no"),
            ];
            return Ok((head, Body::new(stream)).into_response());
        }
        let done = parts::results(searches).await?;
        Ok(Json(answer::whole(&app, &ask, done)).into_response())
    };
    answer.await.unwrap_or_else(Refusal::into_response)
}

async fn refine_answers(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Refusal> {
    let body = body::object(&headers, body, &app.limits).await?;
    Ok(Json(mend::refine(&app, body).await?).into_response())
}

async fn guard_answers(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Refusal> {
    let body = body::object(&headers, body, &app.limits).await?;
    Ok(Json(mend::guard(&app, body).await?).into_response())
}
