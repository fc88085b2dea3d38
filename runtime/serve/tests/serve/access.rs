//! Keys, other sites, other names: who may use the server.

use acestep_serve::http::Security;
use serde_json::json;
use ureq::http::Request;

use crate::web::{agent, body, keys, served, served_with, text};

#[tokio::test(flavor = "multi_thread")]
async fn another_site_and_another_name_are_refused() {
    let api = served().await;
    let with = |name: &str, value: &str| api.get_with("/v1/jobs", name, value).status();
    assert_eq!(with("host", "evil.example"), 421);
    assert_eq!(with("host", "localhost:8001"), 200);
    assert_eq!(with("host", "[::1]:8001"), 200);
    assert_eq!(with("origin", "https://evil.example"), 403);
    assert_eq!(with("origin", "null"), 403);
    assert_eq!(with("origin", &api.url("")), 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_of_a_network_is_reached_by_its_address() {
    let security = Security { on_network: true, ..keys(&[("ann", "secret")]) };
    let served = served_with(1, security, |_| ()).await;
    let api = served.with_key("secret");
    let with = |host: &str, header: (&str, &str)| {
        let call = api.ask("/v1/jobs").header("host", host).header(header.0, header.1);
        call.call().expect("an answer").status()
    };
    for host in ["192.168.1.5:8001", "[fd00::5]:8001", "localhost"] {
        assert_eq!(with(host, ("accept", "*/*")), 200, "{host}");
    }
    assert_eq!(with("evil.example", ("accept", "*/*")), 421);
    // The words of a proxy are not the key.
    assert_eq!(with("localhost", ("authorization", "Basic YTpi")), 200);
    assert_eq!(with("localhost", ("authorization", "Bearer wrong")), 401);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_of_an_allowed_site_may_read_the_id_of_its_job() {
    let origin = "https://example.org";
    let security = Security { origins: vec![origin.to_owned()], ..Security::default() };
    let api = served_with(1, security, |_| ()).await;
    let answer = api.get_with("/v1/jobs", "origin", origin);
    assert_eq!(answer.headers()["access-control-allow-origin"], origin);
    let shown = answer.headers()["access-control-expose-headers"].to_str().expect("names");
    assert!(shown.contains("X-Job-Id") && shown.contains("Retry-After"), "{shown}");
    // An answer without an origin is no answer for that page: a cache keeps both apart.
    assert_eq!(api.get("/v1/jobs").headers()["vary"], "Origin");
    let asked = Request::options(api.url("/v1/jobs")).header("origin", origin);
    let asked = asked.header("access-control-request-headers", "x-stainless-lang").body(());
    let answer = agent().run(asked.expect("a request")).expect("an answer");
    assert_eq!(answer.headers()["access-control-allow-headers"], "x-stainless-lang");
}

/// Every address and method of the description, which the code writes.
#[tokio::test(flavor = "multi_thread")]
async fn no_route_lies_beside_the_key() {
    let api = served_with(1, keys(&[("ann", "secret-a")]), |_| ()).await;
    let described = body(api.with_key("secret-a").get("/openapi.json"));
    let mut number = 0;
    for (path, methods) in described["paths"].as_object().expect("paths") {
        let place = path.replace("{id}", "01a21ff5-8878-74ab-9c0d-a00ce09f1cda");
        let place = place.replace(['{', '}'], "");
        for method in methods.as_object().expect("methods").keys() {
            let is_open = ["/health", "/healthz", "/readyz", "/v1/session"].contains(&&**path);
            let request = Request::builder().method(&*method.to_uppercase());
            let request = request.uri(api.url(&place)).body(()).expect("a request");
            let status = agent().run(request).expect("an answer").status().as_u16();
            assert_eq!(status == 401, !is_open, "{method} {path}: {status}");
            number += 1;
        }
    }
    assert!(number > 40, "only {number} addresses are described");
}

/// A comparison that ends at the first wrong byte tells how much of a key is right.
#[test]
fn keys_are_compared_in_constant_time() {
    let source = include_str!("../../src/http/security.rs");
    assert!(source.contains("known.sha256.ct_eq(&sum)"));
    assert!(!source.contains("sha256 ==") && !source.contains("== known.sha256"));
}

#[tokio::test(flavor = "multi_thread")]
async fn with_keys_every_address_but_the_listed_ones_needs_one() {
    let api = served_with(1, keys(&[("ann", "secret-a"), ("bob", "secret-b")]), |_| ()).await;
    for path in ["/v1/jobs", "/v1/server", "/metrics", "/openapi.json", "/nothing"] {
        let answer = api.get(path);
        assert_eq!(answer.status(), 401, "{path}");
        assert_eq!(answer.headers()["www-authenticate"], "Bearer");
    }
    assert_eq!(api.get("/healthz").status(), 200);
    let with =
        |key: &str, path: &str| api.get_with(path, "authorization", &format!("Bearer {key}"));
    assert_eq!(with("wrong", "/v1/jobs").status(), 401);
    assert_eq!(api.get("/v1/jobs?api_key=secret-a").status(), 401);
    let job = api.sending("/v1/jobs").header("authorization", "Bearer secret-a");
    let job = job.send(r#"{"request": {"caption": "rain"}}"#).expect("an answer");
    let id = text(&body(job)["id"]);
    assert_eq!(with("secret-a", &format!("/v1/jobs/{id}")).status(), 200);
    // Another client's job is as unknown as one that never was.
    let foreign = body(with("secret-b", &format!("/v1/jobs/{id}")));
    let unknown = body(with("secret-b", "/v1/jobs/01890000-0000-7000-8000-000000000000"));
    assert_eq!(foreign, unknown);
    assert_eq!(body(with("secret-b", "/v1/jobs"))["jobs"], json!([]));
    let session = |key: &str| api.post("/v1/session", &json!({ "key": key }));
    assert_eq!(session("wrong").status(), 401);
    let answer = session("secret-b");
    let cookie = answer.headers()["set-cookie"].to_str().expect("text").to_owned();
    assert!(cookie.contains("HttpOnly; SameSite=Strict"), "{cookie}");
    let cookie = cookie.split(';').next().expect("a pair");
    assert_eq!(api.get_with("/v1/jobs", "cookie", cookie).status(), 200);
}
