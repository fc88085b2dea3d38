//! The tensors of each network in the released archives and in GGUF files.
//!
//! | network | tensors |
//! |---|---|
//! | encoder | `text_embedding.*`, `encoder.*` |
//! | decoder | `audio_embeddings.*`, `baked_context_embedding.*`, `decoder.*`, `final_proj.*` |
//! | local transformer | `local_transformer*` |
//! | codec decoder | `audio_decoder.*` of the codec's archive |
//!
//! In the codec a convolution and an activation lie in wrappers, which have no fields here.

use acestep_model::speech::nanocodec;

use crate::names::TensorNames;

fn same(noun: &'static str, prefixes: &[&'static str]) -> TensorNames {
    let published = prefixes.iter().map(|&prefix| (prefix.into(), prefix.into())).collect();
    TensorNames::of(noun, published)
}

pub(crate) fn encoder() -> TensorNames {
    same("text encoder", &["text_embedding.", "encoder."])
}

/// The decoder of the codes.
pub(crate) fn decoder() -> TensorNames {
    let prefixes = ["audio_embeddings.", "baked_context_embedding.", "decoder.", "final_proj."];
    same("decoder", &prefixes)
}

pub(crate) fn local_transformer() -> TensorNames {
    let prefixes = [
        "local_transformer.",
        "local_transformer_in_projection.",
        "local_transformer_out_projections.",
    ];
    same("local transformer", &prefixes)
}

/// The spelling of the tensors of the codec.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Spelling {
    /// In the archive.
    Released,
    /// In a file with the model: with `codec.` before the released name.
    Whole,
    /// In a file of its own: with abbreviations.
    Short,
}

/// (Part of a released name, its abbreviation), in the order in which they are replaced.
const SHORT: [(&str, &str); 14] = [
    ("audio_decoder.", "dec."),
    ("vector_quantizer.", "vq."),
    (".res_layers.", ".rl."),
    (".res_blocks.", ".rb."),
    (".up_sample_conv_layers.", ".up."),
    (".activations.", ".act."),
    (".input_activation.activation.snake_act.", ".in_act."),
    (".skip_activation.activation.snake_act.", ".sk_act."),
    (".input_conv.conv.", ".in_conv."),
    (".skip_conv.conv.", ".sk_conv."),
    (".post_activation.activation.snake_act.", ".post_act."),
    (".pre_conv.conv.", ".pre."),
    (".post_conv.conv.", ".post."),
    (".conv.", ".c."),
];

impl Spelling {
    /// Returns the name in the file of the tensor that a release calls `name`.
    pub(crate) fn of(self, name: &str) -> String {
        match self {
            Self::Released => name.to_owned(),
            Self::Whole => format!("codec.{name}"),
            Self::Short => {
                let replace =
                    |name: String, (long, short): &(&str, &str)| name.replace(long, short);
                SHORT.iter().fold(name.to_owned(), replace)
            }
        }
    }
}

pub(crate) fn codec_decoder(config: &nanocodec::DecoderConfig, spelling: Spelling) -> TensorNames {
    let mut published = Vec::new();
    let mut add = |file: String, module: String| {
        published.push((spelling.of(&format!("audio_decoder.{file}")).into(), module.into()));
    };
    let mut conv = |name: String| add(format!("{name}.conv."), format!("{name}."));
    conv("pre_conv".into());
    conv("post_conv".into());
    let chains = config.resblock_kernel_sizes.len();
    let blocks = config.resblock_dilation_sizes.len();
    let of_block = |stage: usize| {
        (0..chains).flat_map(move |chain| {
            (0..blocks).map(move |block| {
                format!("res_layers.{stage}.res_blocks.{chain}.res_blocks.{block}.")
            })
        })
    };
    let stages = config.up_sample_rates.len();
    for stage in 0..stages {
        conv(format!("up_sample_conv_layers.{stage}"));
        for block in of_block(stage) {
            conv(format!("{block}input_conv"));
            conv(format!("{block}skip_conv"));
        }
    }
    let mut snake = |name: String| add(format!("{name}.activation.snake_act."), format!("{name}."));
    snake("post_activation".into());
    for stage in 0..stages {
        snake(format!("activations.{stage}"));
        for block in of_block(stage) {
            snake(format!("{block}input_activation"));
            snake(format!("{block}skip_activation"));
        }
    }
    TensorNames::of("codec decoder", published)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Names of the converter's files.
    #[test]
    fn the_names_of_the_codec_are_abbreviated_in_order() {
        let block = "audio_decoder.res_layers.0.res_blocks.1.res_blocks.2.";
        for (long, short) in [
            ("audio_decoder.pre_conv.conv.weight".to_owned(), "dec.pre.weight"),
            ("audio_decoder.up_sample_conv_layers.3.conv.bias".to_owned(), "dec.up.3.c.bias"),
            (
                "audio_decoder.activations.0.activation.snake_act.alpha".to_owned(),
                "dec.act.0.activation.snake_act.alpha",
            ),
            (
                format!("{block}skip_activation.activation.snake_act.alpha"),
                "dec.rl.0.rb.1.rb.2.sk_act.alpha",
            ),
            (format!("{block}input_conv.conv.weight"), "dec.rl.0.rb.1.rb.2.in_conv.weight"),
            ("vector_quantizer.fsqs.0.num_levels".to_owned(), "vq.fsqs.0.num_levels"),
        ] {
            assert_eq!(Spelling::Short.of(&long), short);
            assert_eq!(Spelling::Whole.of(&long), format!("codec.{long}"));
        }
    }
}
