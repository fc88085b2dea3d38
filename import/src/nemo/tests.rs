use std::io::Write;

use flate2::{Compression, write::GzEncoder};

use super::*;
use crate::testing::tar as tar_of;

fn opened(bytes: &[u8]) -> Result<NemoArchive, Error> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.nemo");
    std::fs::write(&path, bytes).expect("a file");
    NemoArchive::open(&path)
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(bytes).expect("bytes");
    encoder.finish().expect("an archive")
}

const YAML: &[u8] = b"speaker_map: nemo:0f_speakers.json\n";
const NAMES: &[u8] = br#"{"John": 1, "Aria": 0}"#;

#[test]
fn voices_have_the_names_of_the_archive_in_the_order_of_their_indices() {
    let files: [(&str, &[u8]); 2] = [("./model_config.yaml", YAML), ("0f_speakers.json", NAMES)];
    for bytes in [tar_of(&files), gzip(&tar_of(&files))] {
        let archive = opened(&bytes).expect("an archive");
        let speakers = archive.texts().expect("texts").speakers().expect("names");
        assert_eq!(speakers, [("Aria".to_owned(), 0), ("John".to_owned(), 1)]);
        assert_eq!(archive.artefact("nemo:0f_speakers.json").expect("a file"), NAMES);
        let error = archive.artefact("nemo:other").expect_err("no such file").to_string();
        assert!(error.contains("it has no `other`"), "{error}");
    }
}

#[test]
fn a_hostile_archive_gives_one_error_with_its_reason() {
    let whole = tar_of(&[("model_config.yaml", YAML), ("0f_speakers.json", NAMES)]);
    let mut huge = whole.clone();
    // The size of the first member, in octal digits.
    huge[124..135].copy_from_slice(b"77777777777");
    let sum: u32 = huge[..512]
        .iter()
        .enumerate()
        .map(|(at, &byte)| if (148..156).contains(&at) { 32 } else { u32::from(byte) })
        .sum();
    huge[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    let mut link = tar::Builder::new(Vec::new());
    let mut header = tar::Header::new_ustar();
    header.set_entry_type(tar::EntryType::Symlink);
    header.set_size(0);
    link.append_link(&mut header, "model_config.yaml", "/etc/passwd").expect("a link");
    let link = link.into_inner().expect("an archive");
    let bomb = gzip(&vec![0; 80 << 20]);
    for (bytes, says) in [
        (tar_of(&[("../model_config.yaml", YAML)]), "is in another directory"),
        (tar_of(&[("/etc/model_config.yaml", YAML)]), "is in another directory"),
        (tar_of(&[("a\\..\\b", YAML)]), "is in another directory"),
        (tar_of(&[("0f_speakers.json", NAMES)]), "it has no `model_config.yaml`"),
        (tar_of(&[("model_config.yaml", b"a: [")]), "is not YAML"),
        (tar_of(&[("model_config.yaml", b"\xff")]), "is not UTF-8"),
        (link, "is no file, but Symlink"),
        (huge, "it is cut: member `model_config.yaml` has 8589934591 bytes, and the file 3072"),
        (
            whole[..520].to_vec(),
            "it is cut: member `model_config.yaml` has 35 bytes, and the file 520",
        ),
        (whole[..300].to_vec(), "its list of members is damaged: "),
        (b"PK\x03\x04".to_vec(), "it is no archive"),
        (gzip(&whole)[..40].to_vec(), "cannot be unpacked"),
        (bomb, "unpack to more than"),
    ] {
        let error = opened(&bytes).map(drop).expect_err(says).to_string();
        assert!(error.contains("a.nemo") && error.contains(says), "{says}: {error}");
    }
}

#[test]
fn the_last_of_two_members_of_one_name_counts() {
    let files: [(&str, &[u8]); 4] = [
        ("model_config.yaml", b"speaker_map: old"),
        ("./0f_speakers.json", NAMES),
        ("0f_speakers.json", br#"{"Leo": 0}"#),
        ("./model_config.yaml", YAML),
    ];
    let archive = opened(&tar_of(&files)).expect("an archive");
    let speakers = archive.texts().expect("texts").speakers().expect("names");
    assert_eq!(speakers, [("Leo".to_owned(), 0)]);
    assert_eq!(archive.artefact("0f_speakers.json").expect("a file"), br#"{"Leo": 0}"#);
}

/// The file has a hole, which takes no space on the disk.
#[test]
fn a_text_that_is_too_long_is_not_copied_beside_the_weights() {
    let mut bytes = tar_of(&[("model_config.yaml", YAML), ("model_weights.ckpt", b"weights")]);
    // Two empty blocks end an archive.
    bytes.truncate(bytes.len() - 1024);
    let mut header = tar::Header::new_ustar();
    header.set_path("0f_names.txt").expect("a name");
    header.set_size(LONGEST_TEXT as u64 + 1);
    header.set_mode(0o644);
    header.set_cksum();
    bytes.extend(header.as_bytes());
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.nemo");
    std::fs::write(&path, &bytes).expect("a file");
    let file = std::fs::File::options().write(true).open(&path).expect("a file");
    file.set_len((bytes.len() + LONGEST_TEXT + 512 + 1024) as u64).expect("a hole");
    let archive = NemoArchive::open(&path).expect("an archive");
    let error = archive.tensors().map(drop).expect_err("too long").to_string();
    assert!(error.ends_with("`0f_names.txt` has 268435457 bytes, too many"), "{error}");
}

#[test]
fn names_of_voices_that_share_an_index_are_refused() {
    for (names, says) in [
        (&br#"{"a": 0, "b": 0}"#[..], "`a` and `b` are the same"),
        (br#"["a"]"#, "no list of voices"),
        (br#"{"a": -1}"#, "no list of voices"),
    ] {
        let bytes = tar_of(&[("model_config.yaml", YAML), ("0f_speakers.json", names)]);
        let texts = opened(&bytes).and_then(|archive| archive.texts()).expect(says);
        let error = texts.speakers().expect_err(says);
        assert!(error.to_string().contains(says), "{error}");
    }
}
