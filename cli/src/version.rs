//! Version and build information.

use acestep_engine::device::BUILT_IN;

/// The commit of this build, or `unknown` if there was none.
pub(crate) const COMMIT: &str = env!("ACESTEP_COMMIT");

/// Text that `--version` prints after the name: version, commit, built-in features.
pub(crate) fn long() -> String {
    let mut features = BUILT_IN.to_vec();
    features.extend(cfg!(feature = "demo").then_some("demo"));
    features.extend(cfg!(feature = "mp3").then_some("mp3"));
    features.extend(cfg!(feature = "opus").then_some("opus"));
    features.extend(cfg!(feature = "lame").then_some("lame"));
    features.extend(cfg!(feature = "play").then_some("play"));
    features.extend(cfg!(feature = "nats").then_some("nats"));
    format!(
        "{}\ncommit    {COMMIT}\nbuilt for {}, {}\nfeatures  {}",
        env!("CARGO_PKG_VERSION"),
        env!("ACESTEP_TARGET"),
        if cfg!(debug_assertions) { "to be debugged" } else { "to be used" },
        features.join(", ")
    )
}
