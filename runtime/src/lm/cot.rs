//! Metadata as YAML.
