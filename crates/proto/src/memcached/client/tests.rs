use super::*;

/// What a request is as bytes.
fn written(write: impl FnOnce(&mut Vec<u8>)) -> String {
    let mut out = Vec::new();
    write(&mut out);
    String::from_utf8(out).unwrap()
}

const KEY: &[u8] = b"key";

#[test]
fn requests_are_those_of_the_text_protocol() {
    let two = || [b"one".as_slice(), b"two"];
    let store_as = |how| written(|out| store(out, how, KEY, 7, -1, b"va\r\nlue".as_slice()));
    let meta_set = [
        Flag::Letter(b'M', b'E'),
        Flag::Number(b'T', -1),
        Flag::Unsigned(b'C', u64::MAX),
    ];
    let requests = [
        (written(|out| get(out, Get::Get, two())), "get one two\r\n"),
        (written(|out| get(out, Get::Gets, two())), "gets one two\r\n"),
        (written(|out| get(out, Get::Gat(30), two())), "gat 30 one two\r\n"),
        (written(|out| get(out, Get::Gats(0), [KEY])), "gats 0 key\r\n"),
        (store_as(Store::Set), "set key 7 -1 7\r\nva\r\nlue\r\n"),
        (store_as(Store::Add), "add key 7 -1 7\r\nva\r\nlue\r\n"),
        (store_as(Store::Replace), "replace key 7 -1 7\r\nva\r\nlue\r\n"),
        (store_as(Store::Append), "append key 7 -1 7\r\nva\r\nlue\r\n"),
        (store_as(Store::Prepend), "prepend key 7 -1 7\r\nva\r\nlue\r\n"),
        (store_as(Store::Cas(12)), "cas key 7 -1 7 12\r\nva\r\nlue\r\n"),
        (written(|out| delete(out, KEY)), "delete key\r\n"),
        (
            written(|out| incr(out, KEY, u64::MAX)),
            "incr key 18446744073709551615\r\n",
        ),
        (written(|out| decr(out, KEY, 0)), "decr key 0\r\n"),
        (written(|out| touch(out, KEY, 100)), "touch key 100\r\n"),
        (
            written(|out| meta(out, *b"mg", KEY, &[Flag::Plain(b'v')], None::<&[u8]>)),
            "mg key v\r\n",
        ),
        (
            written(|out| meta(out, *b"ms", KEY, &meta_set, Some(b"12".as_slice()))),
            "ms key 2 ME T-1 C18446744073709551615\r\n12\r\n",
        ),
    ];
    for (written, expected) in requests {
        assert_eq!(written, expected);
    }
}

/// All answers of these bytes, if they come in pieces: those before `split`, and the others.
fn in_two(bytes: &[u8], split: usize) -> Vec<String> {
    let (mut answers, mut from, mut there) = (Vec::new(), 0, split);
    while from < bytes.len() {
        match parse(&bytes[from..there], 1_000).unwrap() {
            Parsed::Answer(answer, length) => {
                assert!(length <= there - from);
                answers.push(format!("{answer:?}"));
                from += length;
            }
            Parsed::Partial(needed) => {
                assert!(there < bytes.len(), "all is there from {from} on");
                assert!(needed == 0 || needed > there - from && needed <= bytes.len() - from);
                there = bytes.len();
            }
        }
    }
    answers
}

#[test]
fn answers_are_the_same_wherever_they_are_split() {
    let bytes = b"VALUE key 4294967295 4\r\n\r\nE\r\r\nVALUE other 0 0 18446744073709551615\r\n\r\nEND\r\n\
        STORED\r\nNOT_STORED\r\nEXISTS\r\nNOT_FOUND\r\nDELETED\r\nTOUCHED\r\nOK\r\n17  \r\nERROR\r\n\
        CLIENT_ERROR bad data chunk\r\nSERVER_ERROR out of memory\r\n\
        VA 2 kkey O5\r\nab\r\nHD\r\nHD c7\r\nEN\r\nNF O1\r\nNS\r\nEX\r\nMN\r\n";
    let whole = in_two(bytes, bytes.len());
    assert_eq!(whole.len(), 22);
    for split in 0..bytes.len() {
        assert_eq!(in_two(bytes, split), whole, "{split}");
    }
}

/// The first answer of these bytes.
fn first(bytes: &[u8]) -> Answer<'_> {
    match parse(bytes, 10).unwrap() {
        Parsed::Answer(answer, length) if length == bytes.len() => answer,
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_answer_has_its_fields() {
    let value = Answer::Value {
        key: b"k",
        flags: 3,
        cas: Some(9),
        data: b"\r\n",
    };
    assert_eq!(first(b"VALUE k 3 2 9\r\n\r\n\r\n"), value);
    assert_eq!(
        first(b"5 \r\n"),
        Answer::Number(5),
        "decr pads a number that gets shorter"
    );
    assert_eq!(
        first(b"SERVER_ERROR why not\r\n"),
        Answer::ServerError(b"why not")
    );
    let Answer::Meta(meta) = first(b"VA 1 kab O12 W\r\nx\r\n") else {
        panic!("not the answer of a meta command");
    };
    assert_eq!((&meta.code, meta.data), (b"VA", Some(b"x".as_slice())));
    assert_eq!(meta.flag(b'k'), Some(b"ab".as_slice()));
    assert_eq!((meta.flag(b'W'), meta.flag(b'Z')), (Some(b"".as_slice()), None));
    assert_eq!((meta.number(b'O'), meta.number(b'k')), (Some(12), None));
}

#[test]
fn each_way_to_be_wrong_has_its_name() {
    let long = vec![b'S'; LONGEST_LINE];
    let wrong: [(&[u8], Wrong); 12] = [
        (&long, Wrong::NoEnd),
        (b"END\n", Wrong::NoCarriageReturn),
        (b"\r\n", Wrong::Unknown),
        (b"STORE\r\n", Wrong::Unknown),
        (b"HDk\r\n", Wrong::Unknown),
        (b"VX 1\r\n", Wrong::Unknown),
        (b"VALUE key 0\r\n", Wrong::Field),
        (b"VALUE key 4294967296 1\r\n", Wrong::Field),
        (b"VALUE key 0 1x\r\n", Wrong::Field),
        (b"18446744073709551616\r\n", Wrong::Field),
        (b"VA 11\r\n", Wrong::TooLong),
        (b"VALUE key 0 3\r\nabcd\r\n", Wrong::Length),
    ];
    for (bytes, expected) in wrong {
        assert_eq!(parse(bytes, 10), Err(expected), "{}", bytes.escape_ascii());
    }
    // Too short: what follows is taken as data, so the line end is not where it should be.
    assert_eq!(parse(b"VALUE key 0 3\r\nab\r\nEND\r\n", 10), Err(Wrong::Length));
}
