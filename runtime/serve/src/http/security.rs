//! Access: keys, Host and Origin. One layer over the whole router, WebSocket included.
//!
//! - Without keys the server answers only requests whose `Host` is this machine's own name. A page of
//!   another site that resolves its name to 127.0.0.1 is refused (DNS rebinding).
//! - A request of a browser from another site has an `Origin` that is not the `Host`: refused, unless
//!   that origin is in the list.
//! - Keys are compared in constant time, as their SHA-256. They come in a header, or in the cookie that
//!   the page gets for a key; never in an address.

use std::{net::IpAddr, sync::Arc};

use axum::{
    extract::{Request, State},
    http::{HeaderMap, HeaderValue, Method, StatusCode, Uri, header},
    middleware::Next,
    response::{IntoResponse, Response},
};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use super::{ApiError, Server, keys::is_plain};

/// The name of the cookie of the page.
pub(super) const COOKIE: &str = "acestep_key";

/// Addresses that need no key: they say only that the server is alive, or are the page's own files.
const OPEN: [&str; 5] = ["/health", "/api/health", "/healthz", "/readyz", "/"];
/// Folders of files that need no key.
const OPEN_FOLDERS: [&str; 1] = ["/page/"];

/// The client of a request: the name of its key, or `local` if there are no keys.
#[derive(Debug, Clone)]
pub(super) struct Caller(pub(super) String);

/// A key, by its SHA-256.
#[derive(Debug, Clone)]
pub struct ApiKey {
    name: String,
    sha256: [u8; 32],
}

impl ApiKey {
    /// A key of the client `name`.
    pub fn new(name: &str, key: &str) -> Self {
        Self { name: name.to_owned(), sha256: Sha256::digest(key.as_bytes()).into() }
    }
}

/// The rules of a server.
#[derive(Debug, Clone, Default)]
pub struct Security {
    /// The keys. Without any the server is open to this machine.
    pub keys: Vec<ApiKey>,
    /// Names of this machine that a `Host` may have, besides addresses of loopback.
    pub hosts: Vec<String>,
    /// Origins of other sites that may ask, e.g. `https://example.org`.
    pub origins: Vec<String>,
    /// True: every `Host` is right, for a server behind a proxy or with keys on a network.
    pub any_host: bool,
    /// True: the server listens beyond loopback, so a `Host` may be any address. An address is in no DNS,
    /// so no other site can take it.
    pub on_network: bool,
}

impl Security {
    /// Returns the client of `key`. All keys are compared, whichever is right.
    fn client(&self, key: &str) -> Option<&str> {
        let sum: [u8; 32] = Sha256::digest(key.as_bytes()).into();
        let mut found = None;
        for known in &self.keys {
            if bool::from(known.sha256.ct_eq(&sum)) {
                found = Some(known.name.as_str());
            }
        }
        found
    }

    fn is_own_host(&self, host: &str) -> bool {
        let name = without_port(host);
        let ip: Option<IpAddr> = name.trim_matches(['[', ']']).parse().ok();
        self.any_host
            || ip.is_some_and(|ip| self.on_network || ip.is_loopback())
            || name.eq_ignore_ascii_case("localhost")
            || self.hosts.iter().any(|own| own.eq_ignore_ascii_case(name))
    }

    /// Checks where a request comes from.
    fn check_place(&self, headers: &HeaderMap, uri: &Uri) -> Result<Option<HeaderValue>, ApiError> {
        let header = headers.get(header::HOST).and_then(|host| host.to_str().ok());
        let host = header.or(uri.authority().map(|authority| authority.as_str()));
        let host = host.unwrap_or_default();
        if !self.is_own_host(host) {
            let message = "the Host of the request is not a name of this server";
            let error = ApiError::new(StatusCode::MISDIRECTED_REQUEST, "wrong_host", message);
            return Err(error.hint("the server takes it if its `allow_host` has the name"));
        }
        let Some(origin) = headers.get(header::ORIGIN) else { return Ok(None) };
        let text = origin.to_str().unwrap_or_default();
        let is_same =
            text.split_once("://").is_some_and(|(_, place)| place.eq_ignore_ascii_case(host));
        if is_same {
            return Ok(None);
        }
        if self.origins.iter().any(|known| known.eq_ignore_ascii_case(text)) {
            return Ok(Some(origin.clone()));
        }
        let message = "a page of another site may not use this server";
        let error = ApiError::new(StatusCode::FORBIDDEN, "wrong_origin", message);
        Err(error.hint("the server takes it if its `allow_origin` has the origin"))
    }

    /// Returns the client of a request.
    fn caller(&self, headers: &HeaderMap) -> Result<Caller, ApiError> {
        if self.keys.is_empty() {
            return Ok(Caller("local".to_owned()));
        }
        let key = key_of(headers).ok_or_else(ApiError::no_key)?;
        let hint = "send the header `Authorization: Bearer KEY`";
        let client = self.client(&key).ok_or_else(|| unknown_key().hint(hint))?;
        Ok(Caller(client.to_owned()))
    }
}

fn unknown_key() -> ApiError {
    ApiError::new(StatusCode::UNAUTHORIZED, "invalid_api_key", "the key is not known")
}

fn without_port(host: &str) -> &str {
    match host.rsplit_once(':') {
        // An IPv6 address without a port ends with its bracket.
        Some((name, port)) if !port.ends_with(']') => name,
        _ => host,
    }
}

/// Returns the key of a request: of a header, or of the page's cookie.
fn key_of(headers: &HeaderMap) -> Option<String> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    if let Some(value) = text("authorization") {
        // Upstream takes a key without the word too. Another word, such as `Basic`, is for a proxy.
        match value.trim().split_once(' ') {
            None => return Some(value.trim().to_owned()),
            Some((word, key)) if word.eq_ignore_ascii_case("bearer") => {
                return Some(key.trim().to_owned());
            }
            Some(_) => {}
        }
    }
    if let Some(value) = text("x-api-key") {
        return Some(value.trim().to_owned());
    }
    let mut cookies = text("cookie")?.split(';').filter_map(|one| one.trim().split_once('='));
    cookies.find(|(name, _)| *name == COOKIE).map(|(_, value)| value.to_owned())
}

pub(super) async fn layer(
    State(server): State<Arc<Server>>,
    mut request: Request,
    next: Next,
) -> Response {
    let security = &server.security;
    let allowed = match security.check_place(request.headers(), request.uri()) {
        Ok(allowed) => allowed,
        Err(error) => return error.into_response(),
    };
    let told = |response| with_origin(response, security, allowed.as_ref());
    if allowed.is_some() && request.method() == Method::OPTIONS {
        // Clients have headers of their own, such as those of OpenAI.
        let names = request.headers().get(header::ACCESS_CONTROL_REQUEST_HEADERS).cloned();
        let names = names.map(|names| [(header::ACCESS_CONTROL_ALLOW_HEADERS, names)]);
        return told((names, StatusCode::NO_CONTENT).into_response());
    }
    let path = request.uri().path();
    let is_open = OPEN.contains(&path) || OPEN_FOLDERS.iter().any(|of| path.starts_with(of));
    let is_login = path == "/v1/session" && request.method() == Method::POST;
    match security.caller(request.headers()) {
        Ok(caller) => {
            request.extensions_mut().insert(caller);
        }
        Err(_) if is_open || is_login => {}
        Err(error) => {
            return told(([(header::WWW_AUTHENTICATE, "Bearer")], error).into_response());
        }
    }
    told(next.run(request).await)
}

/// Lets a page of an allowed `origin` read the answer. Other origins get another answer, which a cache must know.
fn with_origin(
    mut response: Response,
    security: &Security,
    origin: Option<&HeaderValue>,
) -> Response {
    let headers = response.headers_mut();
    if !security.origins.is_empty() {
        headers.append(header::VARY, HeaderValue::from_static("Origin"));
    }
    if let Some(origin) = origin {
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
        let methods = HeaderValue::from_static("GET, POST, PATCH, DELETE, OPTIONS");
        headers.insert(header::ACCESS_CONTROL_ALLOW_METHODS, methods);
    }
    response
}

impl Server {
    /// Returns the cookie of a key, for the page.
    /// Errors: 401 for an unknown key.
    pub(super) fn cookie(&self, key: &str) -> Result<HeaderValue, ApiError> {
        if !is_plain(key) || self.security.client(key).is_none() {
            return Err(unknown_key());
        }
        let text = format!("{COOKIE}={key}; Path=/; HttpOnly; SameSite=Strict; Max-Age=31536000");
        HeaderValue::from_str(&text).map_err(|_| ApiError::internal("the key is no header"))
    }
}
