use super::*;

/// `torch.save({"a": torch.zeros(2, 3, dtype=torch.half)}, path)`, torch 2.15, with the name in an
/// `OrderedDict` and its metadata.
const ONE: &[u8] = b"\x80\x02ccollections\nOrderedDict\nq\x00)Rq\x01X\x01\x00\x00\x00aq\x02ctorch.\
    _utils\n_rebuild_tensor_v2\nq\x03((X\x07\x00\x00\x00storageq\x04ctorch\nHalfStorage\nq\x05X\x01\
    \x00\x00\x000q\x06X\x03\x00\x00\x00cpuq\x07K\x06tq\x08QK\x00K\x02K\x03\x86q\x09K\x03K\x01\x86q\
    \x0a\x89h\x00)Rq\x0btq\x0cRq\x0ds}q\x0eX\x09\x00\x00\x00_metadataq\x0fh\x00)Rq\x10sb.";

#[test]
fn a_dictionary_says_where_its_tensors_are() {
    let described = Described {
        dtype: "F16",
        bytes: 2,
        key: "0".into(),
        stored: 6,
        offset: 0,
        sizes: vec![2, 3],
        strides: vec![3, 1],
    };
    assert_eq!(described.range(100..112), Ok(100..112));
    assert_eq!(parse(ONE), Ok(vec![("a".to_owned(), described)]));
}

#[test]
fn a_pickle_that_is_cut_or_goes_on_is_refused() {
    for end in 0..ONE.len() {
        assert!(parse(&ONE[..end]).is_err(), "{end}");
    }
    assert!(parse(&[ONE, b"."].concat()).is_err());
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
        let error = parse(pickle).expect_err(says);
        assert!(error.contains(says), "{says}: {error}");
    }
}

#[test]
fn a_tensor_out_of_its_storage_or_with_gaps_has_no_place() {
    let place = |offset, sizes: &[usize], strides: &[usize], storage| {
        let (sizes, strides) = (sizes.to_vec(), strides.to_vec());
        let key = String::new();
        Described { dtype: "F32", bytes: 4, key, stored: 6, offset, sizes, strides }.range(storage)
    };
    assert_eq!(place(2, &[2, 2], &[2, 1], 8..32), Ok(16..32));
    assert_eq!(place(0, &[1, 6], &[99, 1], 8..32), Ok(8..32));
    for (offset, sizes, strides, storage) in [
        (3, &[2, 2][..], &[2, 1][..], 8..32),
        (0, &[2, 3], &[1, 2], 8..32),
        (0, &[2, 3], &[3, 1], 8..31),
        (0, &[usize::MAX, 2], &[2, 1], 8..32),
        (0, &[6], &[1, 1], 8..32),
        (usize::MAX, &[1], &[1], 8..32),
    ] {
        assert!(place(offset, sizes, strides, storage.clone()).is_err(), "{sizes:?} {storage:?}");
    }
}
