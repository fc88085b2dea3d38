//! A model with random weights and the tokenizers of a golden.

use std::sync::{Mutex, PoisonError};

use acestep_model::{
    CheckpointError, Place,
    kernel::Precision,
    speech::{
        magpie::{Checkpoint, Config, Decoder, Encoder, Files, LocalTransformer, Sizes, TextFiles},
        nanocodec,
    },
};
use burn::{
    module::{Module as _, ModuleMapper, Param},
    tensor::{Tensor, backend::Backend as _},
};
use burn_flex::{Flex, FlexDevice};
use serde_json::{Value, json};

/// Names of two of the voices; the third has none.
const VOICES: [(&str, usize); 2] = [("Sofia", 1), ("Leo", 0)];

pub(crate) struct Tiny {
    config: Config,
    sizes: Sizes,
    codec_config: nanocodec::Config,
    texts: Texts,
    encoder: Encoder<Flex>,
    decoder: Decoder<Flex>,
    local: LocalTransformer<Flex>,
    codec: nanocodec::Decoder<Flex>,
}

struct Texts(Value);

impl TextFiles for Texts {
    fn artefact(&self, name: &str) -> Result<Vec<u8>, CheckpointError> {
        let text = self.0["artefacts"][name].as_str();
        Ok(text.unwrap_or_else(|| panic!("no file {name}")).into())
    }

    fn speakers(&self) -> Result<Vec<(String, usize)>, CheckpointError> {
        Ok(VOICES.map(|(name, row)| (name.to_owned(), row)).into())
    }
}

fn stack(taps: usize, positions: usize) -> Value {
    json!({
        "n_layers": 2, "d_model": 16, "d_ffn": 24, "sa_n_heads": 2, "kernel_size": taps,
        "max_length_causal_mask": positions, "is_causal": true, "apply_norm_out": true,
        "use_learnable_pos_emb": true,
    })
}

impl Tiny {
    /// A model with `frames` in a step.
    pub(crate) fn new(frames: usize) -> Self {
        Self::with(frames, json!({ "max_decoder_steps": 12, "topk": 20 }))
    }

    /// A model with these settings of a run.
    fn with(frames: usize, run: Value) -> Self {
        let path =
            concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/goldens/magpie/logic/text_s2.json");
        let texts = std::fs::read_to_string(path).expect("the goldens are in the repository");
        let texts: Value = serde_json::from_str(&texts).expect("JSON");
        let mut config = texts["config"].clone();
        let mut decoder = stack(1, 64);
        let cross = json!({
            "has_xattn": true, "xa_d_head": 8, "xa_d_memory": 16, "xa_n_heads": 1,
            "apply_norm_to_cond": true,
        });
        for (key, value) in cross.as_object().expect("an object") {
            decoder[key] = value.clone();
        }
        for (key, value) in [
            ("model_type", json!("decoder_ce")),
            ("embedding_dim", json!(16)),
            ("frame_stacking_factor", json!(frames)),
            ("encoder", stack(3, 80)),
            ("decoder", decoder),
            ("local_transformer_type", json!("autoregressive")),
            ("local_transformer_hidden_dim", json!(8)),
            ("inference_parameters", run),
        ] {
            config[key] = value;
        }
        let config = Config::from_json(&config.to_string()).expect("settings");
        let codec_config = json!({
            "sample_rate": 22050, "samples_per_frame": 32,
            "audio_decoder": {
                "up_sample_rates": [4, 4, 2], "input_dim": 8, "base_channels": 16,
                "activation": "half_snake", "output_activation": "clamp", "pad_mode": "zeros",
                "n_groups_equal_to_out_channels": true,
            },
            "vector_quantizer": { "num_groups": 4, "num_levels_per_group": [4, 3] },
        });
        let codec_config =
            nanocodec::Config::from_json(&codec_config.to_string()).expect("settings");
        let sizes = Sizes {
            text_rows: 3039,
            codebooks: 4,
            codes: 12,
            context_rows: 5,
            context_lengths: vec![5, 4, 5],
        };
        let device = FlexDevice;
        // Other weights may write one code again and again, which ends a speech.
        let _own = DRAWING.lock().unwrap_or_else(PoisonError::into_inner);
        Flex::seed(&device, 0);
        Self {
            // A parameter is drawn at its first use. Clones before it would be other networks.
            encoder: Encoder::init(&config, &sizes, &device).to_device(&device),
            decoder: Decoder::init(&config, &sizes, &device).to_device(&device),
            local: LocalTransformer::init(&config, &sizes, &device).to_device(&device),
            codec: nanocodec::Decoder::init(&codec_config, &device).to_device(&device),
            config,
            sizes,
            codec_config,
            texts: Texts(texts),
        }
    }
}

/// Held while weights are drawn: tests share the generator.
static DRAWING: Mutex<()> = Mutex::new(());

impl Tiny {
    /// The model with another text in place of the dictionary whose name has this end.
    pub(crate) fn with_dictionary(mut self, name: &str, text: &str) -> Self {
        let artefacts = self.texts.0["artefacts"].as_object_mut().expect("files");
        let own = artefacts.iter_mut().find(|(own, _)| own.ends_with(name));
        *own.expect(name).1 = text.into();
        self
    }
}

/// Makes every parameter zero.
struct Zeros;

impl ModuleMapper<Flex> for Zeros {
    fn map_float<const D: usize>(
        &mut self,
        param: Param<Tensor<Flex, D>>,
    ) -> Param<Tensor<Flex, D>> {
        param.map(|values| values.zeros_like())
    }
}

impl Tiny {
    /// A model that never writes its end, with a codec that writes zeros.
    pub(crate) fn silent(frames: usize) -> Self {
        let model = Self::endless(frames);
        Self { codec: model.codec.clone().map(&mut Zeros), ..model }
    }

    /// A model that never writes its end, with a local transformer whose scores are all equal.
    pub(crate) fn monotonous(frames: usize) -> Self {
        let model = Self::endless(frames);
        Self { local: model.local.clone().map(&mut Zeros), ..model }
    }

    fn endless(frames: usize) -> Self {
        let run = json!({ "max_decoder_steps": 50, "topk": 20, "min_generated_frames": 1000 });
        let mut model = Self::with(frames, run);
        // As many frames in a second as the released codec has.
        model.codec_config.sample_rate = 689;
        model
    }
}

impl Files for Tiny {
    fn name(&self) -> &str {
        "tiny"
    }

    fn config(&self) -> &Config {
        &self.config
    }

    fn sizes(&self) -> &Sizes {
        &self.sizes
    }

    fn codec_config(&self) -> &nanocodec::Config {
        &self.codec_config
    }

    fn texts(&self) -> &dyn TextFiles {
        &self.texts
    }

    fn fingerprint(&self) -> Result<String, CheckpointError> {
        Ok("tiny".to_owned())
    }

    fn unchanged(&self) -> Result<(), CheckpointError> {
        Ok(())
    }
}

impl Checkpoint<Flex> for Tiny {
    fn encoder(&self, _: &Place<Flex>) -> Result<Encoder<Flex>, CheckpointError> {
        Ok(self.encoder.clone())
    }

    fn decoder(&self, _: &Place<Flex>) -> Result<Decoder<Flex>, CheckpointError> {
        Ok(self.decoder.clone())
    }

    fn local_transformer(
        &self,
        _: &Place<Flex>,
    ) -> Result<LocalTransformer<Flex>, CheckpointError> {
        Ok(self.local.clone())
    }

    fn codec_decoder(
        &self,
        _: &Place<Flex>,
        _: Precision,
    ) -> Result<nanocodec::Decoder<Flex>, CheckpointError> {
        Ok(self.codec.clone())
    }
}

/// The device and type of the networks.
pub(crate) fn place() -> Place<Flex> {
    Place::f32(FlexDevice)
}
