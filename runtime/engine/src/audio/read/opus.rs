//! Opus packets to samples, in plain Rust, as a decoder of symphonia.

use opus_pure::{MAX_PACKET_SAMPLES, OpusDecoder};
use symphonia::core::{
    audio::{
        AsGenericAudioBufferRef, AudioBuffer, AudioMut, AudioSpec, GenericAudioBufferRef, layouts,
    },
    codecs::{
        CodecInfo,
        audio::{
            AudioCodecParameters, AudioDecoder, AudioDecoderOptions, FinalizeResult,
            well_known::CODEC_ID_OPUS,
        },
        registry::{RegisterableAudioDecoder, SupportedAudioCodec},
    },
    errors::{Result, decode_error, unsupported_error},
    packet::PacketRef,
};

/// The only rate of decoded sound.
const RATE: u32 = 48_000;

/// The codec that is decoded.
const SUPPORTED: &[SupportedAudioCodec] = &[SupportedAudioCodec {
    id: CODEC_ID_OPUS,
    info: CodecInfo { short_name: "opus", long_name: "Opus", profiles: &[] },
}];

/// A decoder of one stream.
pub(super) struct Opus {
    parameters: AudioCodecParameters,
    decoder: OpusDecoder,
    channels: usize,
    /// Samples that are skipped before the first one that is heard.
    skip: usize,
    interleaved: Vec<f32>,
    buffer: AudioBuffer<f32>,
}

impl Opus {
    fn new(parameters: &AudioCodecParameters) -> Result<Self> {
        let channels = parameters.channels.as_ref().map_or(0, |channels| channels.count());
        // Bytes 10 and 11 of the identification header (RFC 7845, 5.1).
        let head = parameters.extra_data.as_deref().unwrap_or_default();
        let skip = head.get(10..12).map_or(0, |bytes| u16::from_le_bytes([bytes[0], bytes[1]]));
        // It takes one or two channels.
        let Ok(decoder) = OpusDecoder::new(RATE as i32, channels) else {
            return unsupported_error("opus: unsupported number of channels");
        };
        Ok(Self {
            parameters: parameters.clone(),
            decoder,
            channels,
            skip: usize::from(skip),
            interleaved: vec![0.0; MAX_PACKET_SAMPLES * channels],
            buffer: buffer(channels, 0),
        })
    }
}

fn buffer(channels: usize, samples: usize) -> AudioBuffer<f32> {
    let layout = match channels {
        1 => layouts::CHANNEL_LAYOUT_MONO,
        _ => layouts::CHANNEL_LAYOUT_STEREO,
    };
    AudioBuffer::new(AudioSpec::new(RATE, layout), samples)
}

impl AudioDecoder for Opus {
    fn codec_info(&self) -> &CodecInfo {
        &SUPPORTED[0].info
    }

    fn reset(&mut self) {
        // The arguments are those of the first time.
        if let Ok(decoder) = OpusDecoder::new(RATE as i32, self.channels) {
            self.decoder = decoder;
        }
    }

    fn codec_params(&self) -> &AudioCodecParameters {
        &self.parameters
    }

    fn decode_ref(&mut self, packet: &PacketRef<'_>) -> Result<GenericAudioBufferRef<'_>> {
        self.buffer.clear();
        if packet.data.is_empty() {
            return decode_error("opus: an empty packet");
        }
        let decoded = self.decoder.decode(packet.data, MAX_PACKET_SAMPLES, &mut self.interleaved);
        let Ok(samples) = decoded else { return decode_error("opus: a damaged packet") };
        if self.buffer.capacity() < samples {
            self.buffer = buffer(self.channels, samples);
        }
        self.buffer.render_uninit(Some(samples));
        self.buffer.copy_from_slice_interleaved(&&self.interleaved[..samples * self.channels]);
        let start = packet.trim_start.get() as usize + std::mem::take(&mut self.skip);
        self.buffer.trim(start, packet.trim_end.get() as usize);
        Ok(self.buffer.as_generic_audio_buffer_ref())
    }

    fn finalize(&mut self) -> FinalizeResult {
        FinalizeResult::default()
    }

    fn last_decoded(&self) -> GenericAudioBufferRef<'_> {
        self.buffer.as_generic_audio_buffer_ref()
    }
}

impl RegisterableAudioDecoder for Opus {
    fn try_registry_new(
        parameters: &AudioCodecParameters,
        _options: &AudioDecoderOptions,
    ) -> Result<Box<dyn AudioDecoder>> {
        Ok(Box::new(Self::new(parameters)?))
    }

    fn supported_codecs() -> &'static [SupportedAudioCodec] {
        SUPPORTED
    }
}
