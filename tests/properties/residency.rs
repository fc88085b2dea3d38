//! Networks that stay loaded sing the same song, and are read once.

use std::cell::Cell;

use acestep_import::{Error, Folder};
use acestep_model::{Checkpoint, Configs, acestep, oobleck, qwen3};
use acestep_runtime::{Parts, Request, Residency, Unobserved, generate};
use acestep_tests::{Cpu, DEVICE, plan, request, turbo};
use burn::tensor::Tensor;
use burn_flex::FlexDevice;

/// A checkpoint that counts how often a network is read.
struct Counted {
    model: Folder,
    reads: Cell<usize>,
}

impl Counted {
    fn count<T>(&self, part: T) -> T {
        self.reads.set(self.reads.get() + 1);
        part
    }
}

impl Checkpoint<Cpu> for Counted {
    type Error = Error;

    fn configs(&self) -> &Configs {
        Checkpoint::<Cpu>::configs(&self.model)
    }

    fn token_ids(&self, text: &str, max_tokens: usize) -> Result<Vec<u32>, Error> {
        Checkpoint::<Cpu>::token_ids(&self.model, text, max_tokens)
    }

    fn pad_token_id(&self) -> Result<u32, Error> {
        Checkpoint::<Cpu>::pad_token_id(&self.model)
    }

    fn silence_latent(&self, device: &FlexDevice) -> Result<Tensor<Cpu, 3>, Error> {
        self.model.silence_latent(device)
    }

    fn text_encoder(&self, device: &FlexDevice) -> Result<qwen3::Model<Cpu>, Error> {
        self.count(self.model.text_encoder(device))
    }

    fn conditioner(&self, device: &FlexDevice) -> Result<acestep::Conditioner<Cpu>, Error> {
        self.count(self.model.conditioner(device))
    }

    fn audio_codec(&self, device: &FlexDevice) -> Result<acestep::AudioCodec<Cpu>, Error> {
        self.count(self.model.audio_codec(device))
    }

    fn dit(&self, device: &FlexDevice) -> Result<acestep::Dit<Cpu>, Error> {
        self.count(self.model.dit(device))
    }

    fn vae_decoder(&self, device: &FlexDevice) -> Result<oobleck::Decoder<Cpu>, Error> {
        self.count(self.model.vae_decoder(device))
    }

    fn vae_encoder(&self, device: &FlexDevice) -> Result<oobleck::Encoder<Cpu>, Error> {
        self.count(self.model.vae_encoder(device))
    }
}

/// A song from codes needs five networks: text encoder, conditioner, codec, transformer, decoder.
#[test]
fn kept_networks_are_read_once_and_sing_the_same_song() {
    let request = Request { audio_codes: Some(vec![17; 10]), duration: None, ..request() };
    let model = Counted { model: turbo(), reads: Cell::new(0) };
    let plan = plan(&request, &model.model);

    let fresh = Parts::<Cpu, _>::new(&model, DEVICE, Residency::WhileUsed);
    let song = generate(&plan, &fresh, &Unobserved).expect("a song");
    assert_eq!(generate(&plan, &fresh, &Unobserved).expect("a song"), song);
    assert_eq!(model.reads.replace(0), 10);

    let kept = Parts::<Cpu, _>::new(&model, DEVICE, Residency::Kept);
    assert_eq!(generate(&plan, &kept, &Unobserved).expect("a song"), song);
    assert_eq!(generate(&plan, &kept, &Unobserved).expect("a song"), song);
    assert_eq!(model.reads.get(), 5);
}
