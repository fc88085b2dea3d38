use super::*;

/// A tensor in a storage of six values.
fn six(offset: usize, sizes: &[usize], strides: &[usize]) -> Described {
    let (sizes, strides) = (sizes.to_vec(), strides.to_vec());
    let (storage, dtype, bytes) = STORAGES[0];
    Described { storage, dtype, bytes, key: String::new(), stored: 6, offset, sizes, strides }
}

/// `torch.save(torch.arange(20.).reshape(1, 2, 10)[:, :, 3:6], path)`, torch 2.15.
const SLICE: &[u8] = b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\nq\x00((X\x07\x00\x00\x00storage\
    q\x01ctorch\nFloatStorage\nq\x02X\x01\x00\x00\x000q\x03X\x03\x00\x00\x00cpuq\x04K\x14tq\x05Q\
    K\x03K\x01K\x02K\x03\x87q\x06K\x14K\nK\x01\x87q\x07\x89ccollections\nOrderedDict\nq\x08)Rq\t\
    tq\nRq\x0b.";
/// The same for `{"a": torch.zeros(1)}`, up to its first call.
const DICTIONARY: &[u8] = b"\x80\x02}q\x00X\x01\x00\x00\x00aq\x01ctorch._utils\n";

#[test]
fn the_pickle_of_a_slice_says_where_it_lies() {
    let expected = Described {
        storage: "FloatStorage",
        dtype: "F32",
        bytes: 4,
        key: "0".into(),
        stored: 20,
        offset: 3,
        sizes: vec![1, 2, 3],
        strides: vec![20, 10, 1],
    };
    assert_eq!(expected.places(), Some(vec![3, 4, 5, 13, 14, 15]));
    assert_eq!(tensor(SLICE), Ok(expected));
}

#[test]
fn a_pickle_of_something_else_or_that_is_cut_or_goes_on_is_refused() {
    assert_eq!(tensor(DICTIONARY), Err(2));
    for end in 0..SLICE.len() {
        assert!(tensor(&SLICE[..end]).is_err(), "{end}");
    }
    for end in 0..ONE.len() {
        assert!(dictionary(&ONE[..end]).is_err(), "{end}");
    }
    assert!(tensor(&[SLICE, b"."].concat()).is_err());
    assert!(dictionary(&[ONE, b"."].concat()).is_err());
}

#[test]
fn a_long_name_of_a_storage_is_refused() {
    let short = b"X\x01\x00\x00\x000q\x03";
    let at = SLICE.windows(short.len()).position(|part| part == short).expect("a name");
    let long = [&b"X\x21\x00\x00\x00"[..], &[b'0'; 33], b"q\x03"].concat();
    assert!(tensor(&[&SLICE[..at], &long[..], &SLICE[at + short.len()..]].concat()).is_err());
}

#[test]
fn a_tensor_that_reaches_out_of_its_storage_has_no_places() {
    let described =
        |offset, sizes: [usize; 3], strides: [usize; 3]| six(offset, &sizes, &strides).places();
    assert_eq!(described(0, [1, 3, 2], [6, 1, 3]), Some(vec![0, 3, 1, 4, 2, 5]));
    assert_eq!(described(1, [1, 2, 3], [6, 3, 1]), None);
    assert_eq!(described(0, [1, 2, 3], [6, usize::MAX, 1]), None);
    assert_eq!(described(0, [usize::MAX, 2, 3], [0, 3, 1]), None);
    assert_eq!(described(0, [1, 6, 6], [0, 0, 0]), None);
    assert_eq!(described(7, [1, 0, 3], [1, 1, 1]), Some(Vec::new()));
}

/// `torch.save({"a": torch.zeros(2, 3, dtype=torch.half)}, path)`, torch 2.15, with the name in an
/// `OrderedDict` and its metadata.
const ONE: &[u8] = b"\x80\x02ccollections\nOrderedDict\nq\x00)Rq\x01X\x01\x00\x00\x00aq\x02ctorch.\
    _utils\n_rebuild_tensor_v2\nq\x03((X\x07\x00\x00\x00storageq\x04ctorch\nHalfStorage\nq\x05X\x01\
    \x00\x00\x000q\x06X\x03\x00\x00\x00cpuq\x07K\x06tq\x08QK\x00K\x02K\x03\x86q\x09K\x03K\x01\x86q\
    \x0a\x89h\x00)Rq\x0btq\x0cRq\x0ds}q\x0eX\x09\x00\x00\x00_metadataq\x0fh\x00)Rq\x10sb.";

#[test]
fn a_dictionary_says_where_its_tensors_are() {
    let described = Described {
        storage: "HalfStorage",
        dtype: "F16",
        bytes: 2,
        key: "0".into(),
        stored: 6,
        offset: 0,
        sizes: vec![2, 3],
        strides: vec![3, 1],
    };
    assert_eq!(described.range(100..112), Ok(100..112));
    assert_eq!(dictionary(ONE), Ok(vec![("a".to_owned(), described)]));
}

/// Each begins with the name of something that would run, or with an instruction that no checkpoint
/// has.
#[test]
fn other_names_and_instructions_are_refused_by_name() {
    let deep = [&b"\x80\x02)"[..], &b"\x85".repeat(1_000_000), b"."].concat();
    let memo = b"\x80\x02}h\x07.";
    for (pickle, says) in [
        (&b"\x80\x02cos\nsystem\nX\x02\x00\x00\x00ls\x85R."[..], "`os.system`"),
        (b"\x80\x02c__builtin__\neval\n.", "`__builtin__.eval`"),
        (b"\x80\x02ctorch\nload\n.", "`torch.load`"),
        (b"\x80\x02cbuiltins\nFloatStorage\n.", "`builtins.FloatStorage`"),
        (b"\x80\x02ctorch.storage\n_load_from_bytes\n.", "`torch.storage._load_from_bytes`"),
        (b"\x80\x04\x95\x00", "protocol 2"),
        (b"\x80\x02\x93.", "instruction 0x93"),
        (b"\x80\x02]q\x00.", "instruction 0x5d"),
        (b"\x80\x02ccollections\nOrderedDict\nK\x01\x85R.", "other arguments"),
        (b"\x80\x02}X\x01\x00\x00\x00aK\x01s.", "`a` is no tensor"),
        (b"\x80\x02X\xff\xff\xff\xffa", "it is cut"),
        (memo, "nothing was remembered"),
        (&deep, "too deep"),
    ] {
        let error = dictionary(pickle).expect_err(says);
        assert!(error.contains(says), "{says}: {error}");
    }
}

#[test]
fn a_tensor_out_of_its_storage_or_with_gaps_has_no_place() {
    assert_eq!(six(2, &[2, 2], &[2, 1]).range(8..32), Ok(16..32));
    assert_eq!(six(0, &[1, 6], &[99, 1]).range(8..32), Ok(8..32));
    for (offset, sizes, strides, storage) in [
        (3, &[2, 2][..], &[2, 1][..], 8..32),
        (0, &[2, 3], &[1, 2], 8..32),
        (0, &[2, 3], &[3, 1], 8..31),
        (0, &[usize::MAX, 2], &[2, 1], 8..32),
        (0, &[6], &[1, 1], 8..32),
        (usize::MAX, &[1], &[1], 8..32),
    ] {
        let place = six(offset, sizes, strides).range(storage.clone());
        assert!(place.is_err(), "{sizes:?} {storage:?}");
    }
}
