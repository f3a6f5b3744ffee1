//! Properties of memcached's answers for arbitrary bytes: used by a test over the kept corpus and by the fuzz target.

use corelane_proto::memcached::client::{Parsed, parse};

/// The longest value that is taken.
const LONGEST: usize = 64;

/// What is at the front of bytes does not depend on what follows: as they arrive one by one, an answer is not complete until
/// it is what it is in the whole, and at least as many bytes are asked for as there are.
pub fn holds(input: &[u8]) {
    let mut rest = input;
    loop {
        let whole = parse(rest, LONGEST);
        for there in 0..rest.len() {
            match parse(&rest[..there], LONGEST) {
                Ok(Parsed::Partial(needed)) => assert!(needed == 0 || needed > there),
                early => assert_eq!(early, whole, "{}", rest[..there].escape_ascii()),
            }
        }
        match whole {
            Ok(Parsed::Answer(_, length)) => {
                assert!((2..=rest.len()).contains(&length));
                rest = &rest[length..];
            }
            Ok(Parsed::Partial(needed)) => return assert!(needed == 0 || needed > rest.len()),
            Err(_) => return,
        }
    }
}
