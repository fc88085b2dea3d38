//! Places and access of the Hugging Face hub, found as its other programs find them.

use std::{ffi::OsString, path::PathBuf};

use ureq::{Proxy, ProxyProtocol, http::Uri};

use super::{Access, remote::ENDPOINT};

/// Variables with a proxy, in the order in which `ureq` takes them.
const PROXIES: [&str; 6] =
    ["ALL_PROXY", "all_proxy", "HTTPS_PROXY", "https_proxy", "HTTP_PROXY", "http_proxy"];

/// Variables with addresses that are reached without a proxy.
const NO_PROXY: [&str; 2] = ["NO_PROXY", "no_proxy"];

/// Variables of the environment, and the user's home directory.
pub struct Environment<'a> {
    /// Returns the value of a variable that is set.
    pub variable: &'a dyn Fn(&str) -> Option<OsString>,
    /// The user's home directory.
    pub home: Option<PathBuf>,
}

impl Environment<'_> {
    /// Returns the hub's cache: HF_HUB_CACHE, else `hub` in HF_HOME, else `huggingface` in the
    /// user's cache directory. `None` if the user has no home.
    pub fn cache(&self) -> Option<PathBuf> {
        let cache = self.path("HF_HUB_CACHE").or_else(|| Some(self.hf_home()?.join("hub")))?;
        std::path::absolute(cache).ok()
    }

    fn hf_home(&self) -> Option<PathBuf> {
        self.path("HF_HOME").or_else(|| {
            // Like the Python library, do not use the native cache directories of macOS and Windows.
            let caches = self.path("XDG_CACHE_HOME");
            let caches = caches.or_else(|| Some(self.home.as_ref()?.join(".cache")))?;
            Some(caches.join("huggingface"))
        })
    }

    /// Returns a path; `~` is the home directory.
    pub fn path(&self, name: &str) -> Option<PathBuf> {
        let path = PathBuf::from((self.variable)(name)?);
        match (path.strip_prefix("~"), &self.home) {
            (Ok(below), Some(home)) => Some(home.join(below)),
            _ => Some(path),
        }
    }

    /// Returns the variable whose proxy cannot be used for `server`. `ureq` takes the first address that it
    /// understands, but SOCKS is not built in, so it would connect directly.
    fn bad_proxy(&self, server: &str) -> Option<&'static str> {
        let given = |name| (self.variable)(name).filter(|value| !value.is_empty());
        let without = NO_PROXY.into_iter().find_map(given).unwrap_or_default();
        let without = without.to_string_lossy();
        let proxy = Proxy::builder(ProxyProtocol::Http);
        let proxy = without.split(',').fold(proxy, |proxy, host| proxy.no_proxy(host)).build();
        let is_direct = |server: Uri| proxy.is_ok_and(|proxy| proxy.is_no_proxy(&server));
        if server.parse::<Uri>().is_ok_and(is_direct) {
            return None;
        }
        let mut unknown = None;
        for name in PROXIES {
            let Some(address) = given(name) else { continue };
            match address.to_str().and_then(|address| Proxy::new(address).ok()) {
                Some(proxy) => {
                    let is_http =
                        matches!(proxy.protocol(), ProxyProtocol::Http | ProxyProtocol::Https);
                    return (!is_http).then_some(name);
                }
                None => unknown = unknown.or(Some(name)),
            }
        }
        unknown
    }

    /// Returns the server and the token: HF_ENDPOINT, and HF_TOKEN or the file of `hf auth login`.
    pub fn access(&self) -> Access {
        let text = |name| Some((self.variable)(name)?.to_str()?.trim().to_owned());
        let token = || {
            let file =
                self.path("HF_TOKEN_PATH").or_else(|| Some(self.hf_home()?.join("token")))?;
            let token = std::fs::read_to_string(file).ok()?;
            let token = token.trim_start_matches('\u{feff}').trim().to_owned();
            (!token.is_empty()).then_some(token)
        };
        let token = text("HF_TOKEN").or_else(token);
        let endpoint = text("HF_ENDPOINT");
        let bad_proxy = self.bad_proxy(endpoint.as_deref().unwrap_or(ENDPOINT));
        Access { endpoint, token, bad_proxy }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_read_as_windows_notepad_writes_it() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(file.path(), "\u{feff}hf_x\r\n").expect("written");
        let variable = |name: &str| (name == "HF_TOKEN_PATH").then(|| file.path().into());
        let environment = Environment { variable: &variable, home: None };
        assert_eq!(environment.access().token.as_deref(), Some("hf_x"));
    }

    #[test]
    fn a_proxy_that_would_be_left_out_is_named() {
        for (address, bad) in [
            ("xx://1", true),
            ("socks9://a:1", true),
            ("socks5://a:1", true),
            ("http://a:1", false),
            ("a:1", false),
            ("", false),
        ] {
            let variable = |name: &str| (name == "HTTPS_PROXY").then(|| OsString::from(address));
            let environment = Environment { variable: &variable, home: None };
            let expected = bad.then_some("HTTPS_PROXY");
            assert_eq!(environment.access().bad_proxy, expected, "{address}");
        }
        for (first, without, bad) in [
            ("xx://1", "", None),
            ("socks5://a:1", "", Some("ALL_PROXY")),
            ("socks5://a:1", "localhost,a.co", Some("ALL_PROXY")),
            ("socks5://a:1", "a.co,huggingface.co", None),
        ] {
            let variable = |name: &str| match name {
                "ALL_PROXY" => Some(first.into()),
                "HTTPS_PROXY" => Some("http://a:1".into()),
                "NO_PROXY" => Some(without.into()),
                _ => None,
            };
            let environment = Environment { variable: &variable, home: None };
            assert_eq!(environment.access().bad_proxy, bad, "{first} {without}");
        }
    }
}
