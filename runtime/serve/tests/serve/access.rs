//! Keys, other sites, other names: who may use the server.

use acestep_serve::http::{Key, Security};
use serde_json::json;
use ureq::http::Request;

use crate::{
    support::Running,
    web::{agent, body, client, get, post, served},
};

#[tokio::test(flavor = "multi_thread")]
async fn another_site_and_another_name_are_refused() {
    served(move |url| {
        let url = url + "/v1/jobs";
        let with = |name: &str, value: &str| {
            let answer = agent().get(&url).header(name, value).call().expect("an answer");
            answer.status().as_u16()
        };
        assert_eq!(with("host", "evil.example"), 421);
        assert_eq!(with("host", "localhost:8001"), 200);
        assert_eq!(with("host", "[::1]:8001"), 200);
        assert_eq!(with("origin", "https://evil.example"), 403);
        assert_eq!(with("origin", "null"), 403);
        let own = url.trim_end_matches("/v1/jobs").to_owned();
        assert_eq!(with("origin", &own), 200);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_of_a_network_is_reached_by_its_address() {
    let folder = tempfile::tempdir().expect("a folder");
    let keys = vec![Key::new("ann", "secret")];
    let security = Security { keys, on_network: true, ..Security::default() };
    let running = Running::start(folder.path(), security, 0).await;
    let url = running.url("/v1/jobs");
    client(move || {
        let with = |host: &str, header: (&str, &str)| {
            let call = agent().get(&url).header("host", host).header("x-api-key", "secret");
            call.header(header.0, header.1).call().expect("an answer").status().as_u16()
        };
        for host in ["192.168.1.5:8001", "[fd00::5]:8001", "localhost"] {
            assert_eq!(with(host, ("accept", "*/*")), 200, "{host}");
        }
        assert_eq!(with("evil.example", ("accept", "*/*")), 421);
        // The words of a proxy are not the key.
        assert_eq!(with("localhost", ("authorization", "Basic YTpi")), 200);
        assert_eq!(with("localhost", ("authorization", "Bearer wrong")), 401);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_of_an_allowed_site_may_read_the_id_of_its_job() {
    let folder = tempfile::tempdir().expect("a folder");
    let origin = "https://example.org";
    let security = Security { origins: vec![origin.to_owned()], ..Security::default() };
    let running = Running::start(folder.path(), security, 0).await;
    let url = running.url("/v1/jobs");
    client(move || {
        let answer = agent().get(&url).header("origin", origin).call().expect("an answer");
        assert_eq!(answer.headers()["access-control-allow-origin"], origin);
        let shown = answer.headers()["access-control-expose-headers"].to_str().expect("names");
        assert!(shown.contains("X-Job-Id") && shown.contains("Retry-After"), "{shown}");
        // An answer without an origin is no answer for that page: a cache keeps both apart.
        assert_eq!(get(&url).headers()["vary"], "Origin");
        let asked = Request::options(&url).header("origin", origin);
        let asked = asked.header("access-control-request-headers", "x-stainless-lang").body(());
        let answer = agent().run(asked.expect("a request")).expect("an answer");
        assert_eq!(answer.headers()["access-control-allow-headers"], "x-stainless-lang");
    })
    .await;
}

/// Every address and method of the description, which the code writes.
#[tokio::test(flavor = "multi_thread")]
async fn no_route_lies_beside_the_key() {
    let folder = tempfile::tempdir().expect("a folder");
    let security = Security { keys: vec![Key::new("ann", "secret-a")], ..Security::default() };
    let running = Running::start(folder.path(), security, 0).await;
    let url = running.url("");
    client(move || {
        let described = agent().get(format!("{url}/openapi.json")).header("x-api-key", "secret-a");
        let api = body(described.call().expect("an answer"));
        let mut number = 0;
        for (path, methods) in api["paths"].as_object().expect("paths") {
            let place = path.replace("{id}", "01a21ff5-8878-74ab-9c0d-a00ce09f1cda");
            let place = place.replace(['{', '}'], "");
            for method in methods.as_object().expect("methods").keys() {
                let is_open = ["/health", "/healthz", "/readyz", "/v1/session"].contains(&&**path);
                let request = Request::builder().method(&*method.to_uppercase());
                let request = request.uri(format!("{url}{place}")).body(()).expect("a request");
                let status = agent().run(request).expect("an answer").status().as_u16();
                assert_eq!(status == 401, !is_open, "{method} {path}: {status}");
                number += 1;
            }
        }
        assert!(number > 40, "only {number} addresses are described");
    })
    .await;
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
    let folder = tempfile::tempdir().expect("a folder");
    let keys = vec![Key::new("ann", "secret-a"), Key::new("bob", "secret-b")];
    let security = Security { keys, ..Security::default() };
    let running = Running::start(folder.path(), security, 0).await;
    let url = running.url("");
    client(move || {
        for path in ["/v1/jobs", "/v1/server", "/metrics", "/openapi.json", "/nothing"] {
            let answer = get(&format!("{url}{path}"));
            assert_eq!(answer.status(), 401, "{path}");
            assert_eq!(answer.headers()["www-authenticate"], "Bearer");
        }
        assert_eq!(get(&format!("{url}/healthz")).status(), 200);
        let with = |key: &str, path: &str| {
            let key = format!("Bearer {key}");
            agent()
                .get(format!("{url}{path}"))
                .header("authorization", key)
                .call()
                .expect("an answer")
        };
        assert_eq!(with("wrong", "/v1/jobs").status(), 401);
        assert_eq!(get(&format!("{url}/v1/jobs?api_key=secret-a")).status(), 401);
        let job = agent()
            .post(format!("{url}/v1/jobs"))
            .header("authorization", "Bearer secret-a")
            .send(r#"{"request": {"caption": "rain"}}"#)
            .expect("an answer");
        let id = body(job)["id"].as_str().expect("an id").to_owned();
        assert_eq!(with("secret-a", &format!("/v1/jobs/{id}")).status(), 200);
        // Another client's job is as unknown as one that never was.
        let foreign = body(with("secret-b", &format!("/v1/jobs/{id}")));
        let unknown = body(with("secret-b", "/v1/jobs/01890000-0000-7000-8000-000000000000"));
        assert_eq!(foreign, unknown);
        assert_eq!(body(with("secret-b", "/v1/jobs"))["jobs"], json!([]));
        let session = |key: &str| post(&format!("{url}/v1/session"), &json!({ "key": key }));
        assert_eq!(session("wrong").status(), 401);
        let answer = session("secret-b");
        let cookie = answer.headers()["set-cookie"].to_str().expect("text").to_owned();
        assert!(cookie.contains("HttpOnly; SameSite=Strict"), "{cookie}");
        let cookie = cookie.split(';').next().expect("a pair").to_owned();
        let answer = agent().get(format!("{url}/v1/jobs")).header("cookie", cookie).call();
        assert_eq!(answer.expect("an answer").status(), 200);
    })
    .await;
}
