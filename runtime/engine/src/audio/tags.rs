//! Tags of sound files: a description of the song, and the request that reproduces it.
//!
//! | file | where |
//! |---|---|
//! | WAV | a `LIST INFO` (`INAM`, `ICMT`, `ISFT`) and an ID3 chunk |
//! | MP3 | ID3v2.4 (`TIT2`, `COMM`, `TSSE`, `TXXX`) |
//! | FLAC, Opus | Vorbis comments (`TITLE`, `DESCRIPTION`, `COMMENT`, `ENCODER`) |
//!
//! The request is `ACESTEP_REQUEST`: a `TXXX` of ID3, or a Vorbis comment. No tag depends on the
//! time or the machine, so the same song gives the same file.

use std::{
    fs::File,
    io::{BufReader, Cursor, Read, Seek},
    path::Path,
};

use lofty::{
    TextEncoding,
    config::{ParseOptions, WriteOptions},
    file::AudioFile,
    flac::FlacFile,
    id3::v2::{FrameId, Id3v2Tag, TextInformationFrame},
    iff::wav::{RiffInfoList, WavFile},
    mpeg::MpegFile,
    ogg::{OpusFile, tag::VorbisComments},
    prelude::{Accessor, TagExt},
};

use super::format::Format;
use crate::{Action, Error};

/// Name of the tag that holds the request.
const REQUEST: &str = "ACESTEP_REQUEST";

/// Tags of a sound file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tags {
    /// Title of the song.
    pub title: String,
    /// Description of the song for a reader.
    pub comment: String,
    /// Name and version of the program.
    pub software: String,
    /// The request that reproduces the song, as JSON.
    pub request: String,
}

impl Tags {
    /// Returns the file `bytes` with these tags.
    pub(super) fn put_in(&self, bytes: Vec<u8>, format: Format) -> Result<Vec<u8>, Error> {
        let failed = |why: String| Error::Encode { format: "a tagged file", why };
        let mut file = Cursor::new(bytes);
        let options = WriteOptions::default();
        let (title, comment) = (plain(&self.title), plain(&self.comment));
        match format {
            Format::Wav16 | Format::Wav24 | Format::Wav32 => {
                let mut info = RiffInfoList::default();
                info.insert("INAM".into(), title);
                info.insert("ICMT".into(), comment);
                info.insert("ISFT".into(), self.software.clone());
                info.save_to(&mut file, options).map_err(|e| failed(e.to_string()))?;
                file.set_position(0);
                self.id3().save_to(&mut file, options).map_err(|e| failed(e.to_string()))?;
            }
            Format::Mp3 => {
                self.id3().save_to(&mut file, options).map_err(|e| failed(e.to_string()))?;
            }
            Format::Flac | Format::Flac16 | Format::Opus => {
                let mut comments = VorbisComments::new();
                comments.set_vendor(self.software.clone());
                comments.push("TITLE".into(), title);
                comments.push("COMMENT".into(), comment.clone());
                // ffmpeg and other programs show this one.
                comments.push("DESCRIPTION".into(), comment);
                comments.push("ENCODER".into(), self.software.clone());
                comments.push(REQUEST.into(), self.request.clone());
                comments.save_to(&mut file, options).map_err(|e| failed(e.to_string()))?;
            }
        }
        Ok(file.into_inner())
    }

    fn id3(&self) -> Id3v2Tag {
        let mut tag = Id3v2Tag::new();
        tag.set_title(plain(&self.title));
        tag.set_comment(plain(&self.comment));
        let software = self.software.clone();
        let id = FrameId::Valid("TSSE".into());
        tag.insert(TextInformationFrame::new(id, TextEncoding::UTF8, software).into());
        tag.insert_user_text(REQUEST.into(), self.request.clone());
        tag
    }
}

/// Replaces line ends and other control characters, which tags cannot hold, with spaces.
fn plain(text: &str) -> String {
    let words = text.split(|c: char| c.is_control() || c == ' ').filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join(" ")
}

/// Result of [`request_in`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequestTag {
    /// The request, as JSON.
    Request(String),
    /// A sound file without a request.
    None,
    /// Not a sound file.
    NoSound,
}

/// Reads the request in the tags of a sound file, whose format is detected by content.
///
/// # Errors
/// [`Error::File`] if it cannot be read.
pub fn request_in(path: &Path) -> Result<RequestTag, Error> {
    let failed = |source| Error::File { action: Action::Read, path: path.to_owned(), source };
    let mut file = BufReader::new(File::open(path).map_err(failed)?);
    let mut magic = Vec::new();
    file.by_ref().take(12).read_to_end(&mut magic).map_err(failed)?;
    file.rewind().map_err(failed)?;
    Ok(find(&mut file, &magic))
}

/// Like [`request_in`], for the content of a file.
pub fn request_of(bytes: &[u8]) -> RequestTag {
    find(&mut Cursor::new(bytes), &bytes[..bytes.len().min(12)])
}

fn find(file: &mut (impl Read + Seek), magic: &[u8]) -> RequestTag {
    let options = ParseOptions::new().read_properties(false).read_cover_art(false);
    let id3 = |tag: Option<&Id3v2Tag>| tag?.get_user_text(REQUEST).map(str::to_owned);
    let vorbis = |tag: Option<&VorbisComments>| tag?.get(REQUEST).map(str::to_owned);
    // A damaged sound file still counts as one.
    let request = match magic {
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'A', b'V', b'E', ..] => {
            WavFile::read_from(file, options).ok().and_then(|file| id3(file.id3v2()))
        }
        [b'f', b'L', b'a', b'C', ..] => {
            FlacFile::read_from(file, options).ok().and_then(|file| vorbis(file.vorbis_comments()))
        }
        [b'O', b'g', b'g', b'S', ..] => OpusFile::read_from(file, options)
            .ok()
            .and_then(|file| vorbis(Some(file.vorbis_comments()))),
        // A UTF-16 text begins almost like an MPEG frame.
        [0xff, 0xfe, ..] => return RequestTag::NoSound,
        [b'I', b'D', b'3', ..] | [0xff, 0xe0..=0xff, ..] => {
            MpegFile::read_from(file, options).ok().and_then(|file| id3(file.id3v2()))
        }
        _ => return RequestTag::NoSound,
    };
    request.map_or(RequestTag::None, RequestTag::Request)
}
