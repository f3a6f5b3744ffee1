//! The rows of the vector files.

use corelane_rss::{Bucket, Tuple};
use std::net::{IpAddr, SocketAddr};

/// A row of the RSS verification suite.
pub struct SuiteRow {
    pub tuple: Tuple,
    pub hash_2tuple: u32,
    pub hash_4tuple: u32,
}

/// The RSS verification suite.
pub fn suite() -> Vec<SuiteRow> {
    let row = |columns: Vec<&str>| {
        let [source, source_port, destination, destination_port, two, four] = columns[..] else {
            panic!("{columns:?}");
        };
        let socket =
            |address: &str, port: &str| SocketAddr::new(address.parse().unwrap(), port.parse().unwrap());
        SuiteRow {
            tuple: Tuple::new(socket(source, source_port), socket(destination, destination_port)).unwrap(),
            hash_2tuple: hexadecimal(two),
            hash_4tuple: hexadecimal(four),
        }
    };
    rows(include_str!("../vectors/rss.tsv")).map(row).collect()
}

/// A client address and the bucket that a post gives for it.
pub struct PostRow {
    pub buckets: usize,
    pub server: IpAddr,
    pub client: IpAddr,
    pub bucket: Bucket,
    pub hash_2tuple: u32,
}

/// The addresses of the UDP posts.
pub fn post_buckets() -> Vec<PostRow> {
    let row = |columns: Vec<&str>| {
        let [buckets, server, client, bucket, hash] = columns[..] else {
            panic!("{columns:?}");
        };
        PostRow {
            buckets: buckets.parse().unwrap(),
            server: server.parse().unwrap(),
            client: client.parse().unwrap(),
            bucket: Bucket::new(bucket.parse().unwrap()),
            hash_2tuple: hexadecimal(hash),
        }
    };
    rows(include_str!("../vectors/post-buckets.tsv"))
        .map(row)
        .collect()
}

/// Rows of the hash, the ring that received the frame, and the ring of four that the hash selects.
pub fn post_wrong_ring() -> Vec<(u32, usize, usize)> {
    let row = |columns: Vec<&str>| {
        let number = |at: usize| columns[at].parse().unwrap();
        (
            hexadecimal(columns[0].strip_prefix("0x").unwrap()),
            number(1),
            number(2),
        )
    };
    rows(include_str!("../vectors/post-wrong-ring.tsv"))
        .map(row)
        .collect()
}

fn rows(text: &str) -> impl Iterator<Item = Vec<&str>> {
    let data = text.lines().filter(|line| !line.starts_with('#'));
    data.map(|line| line.split('\t').collect())
}

fn hexadecimal(digits: &str) -> u32 {
    u32::from_str_radix(digits, 16).unwrap()
}
