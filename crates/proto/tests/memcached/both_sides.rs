//! What the client's side writes, the server's side reads, and the other way round; between them values are as in a map.

use crate::memcached_server::{Connection, Server};
use corelane_proto::memcached::client::{self, Answer, Flag, Get, Parsed, Store, parse};
use proptest::prelude::*;
use std::collections::HashMap;

/// A request about one of a few keys.
#[derive(Debug, Clone)]
enum Ask {
    Get(Vec<u8>),
    Store(Store, u8, u32, Vec<u8>),
    Delete(u8),
    Touch(u8),
    MetaGet(u8),
    MetaSet(u8, Vec<u8>),
}

fn ask() -> impl Strategy<Value = Ask> {
    let value = || prop::collection::vec(any::<u8>(), 0..200);
    let store = prop::sample::select(vec![
        Store::Set,
        Store::Add,
        Store::Replace,
        Store::Append,
        Store::Prepend,
    ]);
    prop_oneof![
        prop::collection::vec(0..6u8, 1..5).prop_map(Ask::Get),
        (store, 0..6u8, any::<u32>(), value())
            .prop_map(|(how, key, flags, value)| Ask::Store(how, key, flags, value)),
        (0..6u8).prop_map(Ask::Delete),
        (0..6u8).prop_map(Ask::Touch),
        (0..6u8).prop_map(Ask::MetaGet),
        (0..6u8, value()).prop_map(|(key, value)| Ask::MetaSet(key, value)),
    ]
}

fn key(number: u8) -> Vec<u8> {
    vec![b'a' + number; 1 + usize::from(number) * 49]
}

impl Ask {
    fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Get(keys) => {
                let keys: Vec<Vec<u8>> = keys.iter().map(|number| key(*number)).collect();
                client::get(out, Get::Get, keys.iter().map(Vec::as_slice));
            }
            Self::Store(how, number, flags, value) => {
                client::store(out, *how, &key(*number)[..], *flags, 0, &value[..]);
            }
            Self::Delete(number) => client::delete(out, &key(*number)[..]),
            Self::Touch(number) => client::touch(out, &key(*number)[..], 100),
            Self::MetaGet(number) => {
                let flags = [Flag::Plain(b'v'), Flag::Plain(b'f')];
                client::meta(out, *b"mg", &key(*number)[..], &flags, None::<&[u8]>);
            }
            Self::MetaSet(number, value) => {
                client::meta(
                    out,
                    *b"ms",
                    &key(*number)[..],
                    &[Flag::Unsigned(b'F', 7)],
                    Some(&value[..]),
                );
            }
        }
    }

    /// The answers that a map gives, as text.
    fn expected(&self, map: &mut HashMap<u8, (u32, Vec<u8>)>) -> Vec<String> {
        let found = |there: bool, yes: &str, no: &str| vec![if there { yes } else { no }.to_owned()];
        match self {
            Self::Get(keys) => {
                let values = keys.iter().filter_map(|number| {
                    let (flags, data) = map.get(number)?;
                    Some(format!("{:?} {flags} {data:?}", key(*number)))
                });
                values.chain(["End".to_owned()]).collect()
            }
            Self::Store(how, number, flags, value) => {
                let there = map.contains_key(number);
                let stored = match how {
                    Store::Set => true,
                    Store::Add => !there,
                    _ => there,
                };
                let entry = map.entry(*number);
                match how {
                    _ if !stored => {}
                    Store::Append => entry.or_default().1.extend(value),
                    Store::Prepend => drop(entry.or_default().1.splice(0..0, value.iter().copied())),
                    _ => drop(entry.insert_entry((*flags, value.clone()))),
                }
                found(stored, "Stored", "NotStored")
            }
            Self::Delete(number) => found(map.remove(number).is_some(), "Deleted", "NotFound"),
            Self::Touch(number) => found(map.contains_key(number), "Touched", "NotFound"),
            Self::MetaGet(number) => match map.get(number) {
                Some((flags, data)) => vec![format!("VA {flags} {data:?}")],
                None => vec!["EN".to_owned()],
            },
            Self::MetaSet(number, value) => {
                map.insert(*number, (7, value.clone()));
                vec!["HD".to_owned()]
            }
        }
    }
}

/// An answer as [`Ask::expected`] writes it.
fn text(answer: &Answer<'_>) -> String {
    match answer {
        Answer::Value { key, flags, data, .. } => format!("{key:?} {flags} {data:?}"),
        Answer::Meta(meta) => {
            let code = String::from_utf8_lossy(&meta.code).into_owned();
            match (meta.data, meta.number(b'f')) {
                (Some(data), Some(flags)) => format!("{code} {flags} {data:?}"),
                _ => code,
            }
        }
        other => format!("{other:?}"),
    }
}

proptest! {
    #[test]
    fn clients_and_servers_understand_each_other(
        asks in prop::collection::vec(ask(), 1..40),
        piece in 1..500usize,
    ) {
        let (mut requests, mut expected, mut map) = (Vec::new(), Vec::new(), HashMap::new());
        for ask in &asks {
            ask.write(&mut requests);
            expected.extend(ask.expected(&mut map));
        }
        let (mut server, mut connection) = (Server::default(), Connection::default());
        let answers: Vec<u8> = requests.chunks(piece).flat_map(|bytes| server.serve(&mut connection, bytes)).collect();
        let (mut rest, mut got) = (&answers[..], Vec::new());
        while !rest.is_empty() {
            let Ok(Parsed::Answer(answer, used)) = parse(rest, 1 << 20) else {
                panic!("{}", rest.escape_ascii());
            };
            got.push(text(&answer));
            rest = &rest[used..];
        }
        prop_assert_eq!(got, expected);
    }
}
