//! ACE-Step 1.5: conditioning, audio codes and the diffusion transformer.
//!
//! Source: upstream `acestep/models/*/modeling_acestep_v15_*.py`.

mod attention_maps;
mod codec;
mod condition;
mod config;
mod dit;
mod encoder;
mod fsq;
mod network;
mod pack;

pub use attention_maps::Heads;
pub use codec::{AudioCodec, AudioTokenizer, Detokenizer};
pub use condition::{ConditionEncoder, ConditionInputs, Conditioner};
pub use config::Config;
pub use dit::{CrossAttended, Dit};
pub use encoder::EncoderShape;
pub use fsq::{Fsq, Quantizer};
pub use network::Network;
pub use pack::{Padded, pack};
