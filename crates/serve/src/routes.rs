//! The routes of the server, and their handlers.

use std::sync::Arc;

use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::http::{HeaderMap, HeaderName, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router, middleware};
use serde_json::json;

use crate::answer::{Head, Solved};
use crate::app::App;
use crate::ask::{Ask, Shape};
use crate::body;
use crate::gate::gate;
use crate::mend;
use crate::models;
use crate::page;
use crate::refusal::Refusal;
use crate::score;
use crate::search::Search;
use crate::stream::AnswerStream;

/// Returns the router of all routes.
pub(crate) fn router(app: Arc<App>) -> Router {
    Router::new()
        .route("/", get(page::page))
        .route("/health", get(health))
        .route("/ready", get(ready))
        .route("/metrics", get(metrics))
        .route("/v1/chat/completions", post(chat))
        .route("/v1/completions", post(completion))
        .route("/v1/models", get(list_models))
        .route("/v1/models/{name}", get(one_model))
        .route("/v1/problems", get(models::problems))
        .route("/v1/score", post(scores))
        .route("/v1/refine", post(refine_answers))
        .route("/v1/guard", post(guard_answers))
        .fallback(not_found)
        .method_not_allowed_fallback(not_allowed)
        .layer(middleware::from_fn_with_state(Arc::clone(&app), gate))
        .with_state(app)
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
    // A name that is not UTF-8 becomes an empty name, which no model has.
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
        let mut search = Search::begin(&app, &ask).await?;
        if ask.stream {
            let stream = AnswerStream::new(&app, ask, search);
            let head = [
                (CONTENT_TYPE, "text/event-stream"),
                (CACHE_CONTROL, "no-cache"),
                // Without this header, nginx and similar proxies buffer the stream.
                (HeaderName::from_static("x-accel-buffering"), "no"),
            ];
            return Ok((head, Body::new(stream)).into_response());
        }
        let result = search.result().await?;
        let solved = Solved::new(&app, &ask, &result, search.seconds());
        Ok(Json(solved.whole(&Head::new(&app, &ask))).into_response())
    };
    answer.await.unwrap_or_else(Refusal::into_response)
}

async fn scores(
    State(app): State<Arc<App>>,
    headers: HeaderMap,
    body: Body,
) -> Result<Response, Refusal> {
    let body = body::object(&headers, body, &app.limits).await?;
    Ok(Json(score::score(&app, body).await?).into_response())
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
