//! Base64 (RFC 4648 section 4) as memcached reads and writes it in binary keys. Bytes outside of the alphabet are
//! skipped, and what follows the padding is ignored.

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

/// Not a letter of the alphabet.
const OTHER: u8 = 0x80;

/// The value of each byte; that of the padding is zero.
const VALUES: [u8; 256] = {
    let mut values = [OTHER; 256];
    let mut value = 0;
    while value < 64 {
        values[ALPHABET[value] as usize] = value as u8;
        value += 1;
    }
    values[b'=' as usize] = 0;
    values
};

/// Decodes a text, and returns the decoded part of the buffer, which must have three quarters of the text's length.
/// Nothing is returned if letters are missing, or if a block has more than two of padding.
pub fn decode<'a>(text: &[u8], buffer: &'a mut [u8]) -> Option<&'a [u8]> {
    let letters = || text.iter().filter(|byte| VALUES[usize::from(**byte)] != OTHER);
    let count = letters().count();
    if count == 0 || count % 4 != 0 {
        return None;
    }
    let mut length = 0;
    let mut letters = letters();
    while let (Some(a), Some(b), Some(c), Some(d)) =
        (letters.next(), letters.next(), letters.next(), letters.next())
    {
        let block = [*a, *b, *c, *d];
        let [first, second, third, fourth] = block.map(|byte| VALUES[usize::from(byte)]);
        buffer[length] = first << 2 | second >> 4;
        buffer[length + 1] = second << 4 | third >> 2;
        buffer[length + 2] = third << 6 | fourth;
        length += 3;
        match block.iter().filter(|byte| **byte == b'=').count() {
            0 => {}
            padding @ 1..=2 => return Some(&buffer[..length - padding]),
            _ => return None,
        }
    }
    Some(&buffer[..length])
}

/// Encodes up to three bytes as four letters.
pub fn encode_block(bytes: &[u8]) -> [u8; 4] {
    let byte = |at: usize| bytes.get(at).copied().unwrap_or_default();
    let letter = |value: u8| ALPHABET[usize::from(value & 63)];
    let mut letters = [
        letter(byte(0) >> 2),
        letter(byte(0) << 4 | byte(1) >> 4),
        letter(byte(1) << 2 | byte(2) >> 6),
        letter(byte(2)),
    ];
    for missing in bytes.len()..3 {
        letters[missing + 1] = b'=';
    }
    letters
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 4648 section 10.
    const VECTORS: [(&str, &str); 6] = [
        ("f", "Zg=="),
        ("fo", "Zm8="),
        ("foo", "Zm9v"),
        ("foob", "Zm9vYg=="),
        ("fooba", "Zm9vYmE="),
        ("foobar", "Zm9vYmFy"),
    ];

    fn decoded(text: &[u8]) -> Option<Vec<u8>> {
        decode(text, &mut [0; 300]).map(<[u8]>::to_vec)
    }

    #[test]
    fn the_vectors_of_the_rfc_are_read_and_written() {
        for (plain, text) in VECTORS {
            let blocks = plain.as_bytes().chunks(3).flat_map(encode_block);
            assert_eq!(blocks.collect::<Vec<u8>>(), text.as_bytes());
            assert_eq!(decoded(text.as_bytes()).as_deref(), Some(plain.as_bytes()));
        }
    }

    #[test]
    fn other_bytes_are_skipped_and_broken_texts_refused() {
        assert_eq!(decoded(b"Z-m9*v").as_deref(), Some(&b"foo"[..]));
        assert_eq!(decoded(b"Zg==Zm9v").as_deref(), Some(&b"f"[..]));
        assert_eq!(decoded(b"Zm9"), None);
        assert_eq!(decoded(b"***"), None);
        assert_eq!(decoded(b"Z==="), None);
        assert_eq!(decoded(&[0x80; 4]), None);
    }
}
