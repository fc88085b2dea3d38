//! Files that are cut and overwritten while they are mapped.

use std::fs;

use super::*;

const PAGE: usize = 1 << 16;

fn whole() -> Vec<u8> {
    (0..4 * PAGE).map(|i| (i % 251) as u8 + 1).collect()
}

fn written() -> (tempfile::TempDir, std::path::PathBuf, Mapped) {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("weights");
    fs::write(&path, whole()).expect("written");
    let mapped = Mapped::open(&path).expect("mapped");
    (folder, path, mapped)
}

fn message(mapped: &Mapped) -> String {
    mapped.check(Path::new("weights")).expect_err("it has changed").to_string()
}

#[test]
fn forgotten_pages_read_the_same_again() {
    let (_folder, path, mapped) = written();
    for range in [0..50_000, 1..2, 4095..8193, 49_000..50_000, 7..7, 0..4 * PAGE] {
        mapped.forget(range);
        assert_eq!(&*mapped, whole());
    }
    mapped.check(&path).expect("nothing has changed");
}

#[cfg(unix)]
#[test]
fn a_file_that_is_cut_while_it_is_mapped_reads_as_zeros_and_is_an_error() {
    let (_folder, path, mapped) = written();
    assert_eq!(mapped[0], 1);
    let file = File::options().write(true).open(&path).expect("open");
    file.set_len(PAGE as u64).expect("cut");
    assert_eq!(&mapped[..PAGE], &whole()[..PAGE]);
    assert!(mapped[PAGE..].iter().all(|&byte| byte == 0));
    let says = format!("`weights` was cut from {} bytes to {PAGE} while it was in use", 4 * PAGE);
    assert_eq!(message(&mapped), says);
    // Several threads read at once, and the file is empty.
    file.set_len(0).expect("cut");
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| assert!(mapped.iter().all(|&byte| byte == 0)));
        }
    });
    // The length is right again, but values that were read meanwhile are not.
    fs::write(&path, whole()).expect("written");
    assert!(message(&mapped).ends_with("was written to while it was in use"));
}

/// Maps are created and dropped, and their nodes are reused.
#[cfg(unix)]
#[test]
fn only_the_map_that_was_cut_is_touched() {
    let (_one, first, cut) = written();
    for _ in 0..100 {
        drop(written());
    }
    let (_two, _, other) = written();
    File::options().write(true).open(&first).expect("open").set_len(1).expect("cut");
    assert_eq!(cut[3 * PAGE], 0);
    assert_eq!(&*other, whole());
    other.check(Path::new("weights")).expect("nothing has changed");
    drop(cut);
    let (_three, _, again) = written();
    assert_eq!(&*again, whole());
    again.check(Path::new("weights")).expect("nothing has changed");
}

#[test]
fn a_file_that_is_overwritten_while_it_is_mapped_is_an_error() {
    let (_folder, path, mapped) = written();
    let mut other = whole();
    other[5] = 0;
    // The clock of the file system may be coarse.
    std::thread::sleep(std::time::Duration::from_millis(20));
    if fs::write(&path, other).is_ok() {
        assert!(message(&mapped).ends_with("`weights` was written to while it was in use"));
    }
}

/// Downloaders replace files like this.
#[test]
fn a_file_that_is_renamed_over_it_changes_nothing() {
    let (folder, path, mapped) = written();
    let beside = folder.path().join("new");
    fs::write(&beside, b"another").expect("written");
    assert!(mapped.is_at(&path));
    if fs::rename(&beside, &path).is_ok() {
        assert_eq!(&*mapped, whole());
        mapped.check(&path).expect("this one is as it was");
        assert!(!mapped.is_at(&path));
    }
}

#[test]
fn bytes_are_read_without_the_map_and_a_file_that_was_cut_is_an_error() {
    let (_folder, path, mapped) = written();
    let bytes = Bytes::Mapped(mapped);
    let read = |start: usize, count: usize| {
        let mut into = vec![0; count];
        bytes.read_at(start, &mut into, Path::new("weights")).map(|()| into)
    };
    for (start, end) in [(0, 7), (4_000, 4_200), (PAGE - 1, 3 * PAGE), (4 * PAGE, 4 * PAGE)] {
        assert_eq!(read(start, end - start).expect("bytes"), &whole()[start..end]);
    }
    // Windows does not cut a file that is mapped.
    if File::options().write(true).open(&path).is_ok_and(|file| file.set_len(9).is_ok()) {
        let error = read(5, 5).expect_err("it is shorter").to_string();
        let says = format!("`weights` was cut from {} bytes to 9 while it was in use", 4 * PAGE);
        assert_eq!(error, says);
    }
}
