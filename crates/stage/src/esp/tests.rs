//! Known answers of "Test Cases for the use of GCM & GMAC in IPsec ESP" (draft-mcgrew-gcm-test-01, section 4), and what files
//! of keys are refused for.

use super::*;
use std::net::{IpAddr, Ipv4Addr};

const DESTINATION: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 2));

fn bytes(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    let byte = |pair: &[u8]| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap();
    digits.chunks(2).map(byte).collect()
}

fn file(spi: u32, key: &str, more: &str) -> String {
    format!("[[association]]\nspi = {spi}\ndestination = \"{DESTINATION}\"\nkey = \"{key}\"\n{more}\n")
}

#[test]
fn known_answers() {
    // Both are padded by 1, 2; the next header is neither IPv4 nor IPv6.
    let of_128 = (
        file(0x4321, "4c80cdefbb5d10da906ac73c3613a6342e443b68", "esn = true"),
        // The number before it was the last one received.
        0x8765_4320_ffff_ffff,
        "00004321 00000000 4956ed7e3b244cfe \
         fecf537e729d5b07dc30df528dd22b768d1b98736696a6fd348509fa13ceac34cfa2436f14a3f3cf65925bf1f4a13c5d15b21e18 \
         84f5ff6247aeabb786b93bce61bc17d768fd9732 459018148f6cbe722fd04796562dfdb4",
        "45000048699a000080114db7c0a80102c0a801010a9bf15638d301000001000000000000045f736970045f756470037369700963 \
         796265726369747902646b0000210001 01020201",
    );
    let of_256 = (
        file(
            0x4a2c_bfe3,
            "abbccddef00112233445566778899aababbccddef00112233445566778899aab11223344",
            "",
        ),
        1,
        "4a2cbfe3 00000002 0102030405060708 \
         ff425c9b724599df7a3bcd510194e00d6a78107f1b0b1cbf06efae9d65a5d763748a637985771d347f0545659f14e99def842d8e \
         b335f4eecfdbf831824b4c4915956c96",
        "4500003069a6400080062690c0a801029389155e0a9e008b2dc57ee0000000007002400020bf0000020405b4010104020102 0201",
    );
    for (file, received, sealed, plain) in [of_128, of_256] {
        let associations = Associations::parse(&file).unwrap();
        let (mut packet, plain) = (bytes(sealed), bytes(plain));
        let spi = u32::from_be_bytes(*packet.first_chunk().unwrap());
        let association = associations.get(spi, DESTINATION).unwrap();
        assert!(association.window().receive(received));
        let original = packet.clone();
        assert_eq!(association.open(&mut packet), Err(Closed::NotTunnelMode));
        assert_eq!(packet[16..16 + plain.len()], plain);
        // It was received.
        assert_eq!(association.open(&mut original.clone()), Err(Closed::Replayed));
        assert!(!association.window().is_new(received + 1));
    }
}

#[test]
fn the_trailer_says_what_is_inside() {
    for (plain, expected) in [
        (&[9, 9, 1, 2, 2, 4][..], Ok((2, false))),
        (&[9, 9, 0, 41], Ok((2, true))),
        (&[0, 4], Ok((0, false))),
        (&[1, 2, 2, 59], Err(Closed::Dummy)),
        (&[9, 9, 0, 17], Err(Closed::NotTunnelMode)),
        (&[9, 1, 1, 2, 4], Err(Closed::Padding)),
        (&[9, 2, 2, 2, 4], Err(Closed::Padding)),
        (&[9, 0, 0, 2, 4], Err(Closed::Padding)),
        (&[1, 2, 3, 4], Err(Closed::Padding)),
        (&[4], Err(Closed::Padding)),
        (&[], Err(Closed::Padding)),
    ] {
        assert_eq!(content(plain), expected, "{plain:?}");
    }
    let longest: Vec<u8> = (1..=255).chain([255, 41]).collect();
    assert_eq!(content(&longest), Ok((0, true)));
}

#[test]
fn what_is_too_short_for_esp_was_forged() {
    let associations = Associations::parse(&file(7, &"00".repeat(20), "")).unwrap();
    let association = associations.get(7, DESTINATION).unwrap();
    for length in 0..32 {
        let mut packet = [0, 0, 0, 7, 0, 0, 0, 1].repeat(4);
        packet.truncate(length);
        assert_eq!(association.open(&mut packet), Err(Closed::Forged), "{length}");
    }
}

#[test]
fn a_file_of_keys_is_refused_without_being_quoted() {
    let secret = "0123456789abcdef0123456789abcdef01234567";
    let good = file(0x100, secret, "");
    for text in [
        &good,
        &file(0x100, &format!("0x{secret}"), "esn = true\nwindow = 64"),
    ] {
        let associations = Associations::parse(text).unwrap();
        assert_eq!(format!("{associations:?}"), "{(256, 192.0.2.2)}");
    }
    let of_association = |why: &str| format!("association 0x100: {why}");
    let of_line = |line: usize| format!("line {line} cannot be read");
    for (text, expected) in [
        (
            file(0x100, &secret[1..], ""),
            of_association("its key is not hexadecimal"),
        ),
        (
            file(0x100, &format!("{}x", &secret[1..]), ""),
            of_association("its key is not hexadecimal"),
        ),
        (
            file(0x100, &secret[..38], ""),
            of_association("its key has neither 20 nor 36 bytes"),
        ),
        (
            file(0x100, "00", ""),
            of_association("its key has fewer than 20 bytes"),
        ),
        (
            file(0x100, &format!("{secret}{}", &secret[..16]), ""),
            of_association("AES-192 is not supported"),
        ),
        (
            file(0x100, secret, "window = 63"),
            of_association("a window has 64 to 4096"),
        ),
        (
            file(0x100, secret, "window = 4097"),
            of_association("a window has 64 to 4096"),
        ),
        (format!("{good}{good}"), of_association("it is described twice")),
        (file(0x100, secret, &format!("window = \"{secret}\"")), of_line(5)),
        (file(0x100, secret, &format!("{secret} = 1")), of_line(5)),
        (file(0x100, &format!("{secret}\n"), ""), of_line(5)),
        (good.replace("key", "spi"), of_line(4)),
        (good.replace("spi = 256", "spi = -1"), of_line(2)),
        (String::new(), of_line(1)),
    ] {
        let refused = Associations::parse(&text).unwrap_err();
        let shown = refused.to_string();
        assert!(shown.starts_with(&expected), "{shown}");
        for shown in [shown, format!("{refused:?}")] {
            assert!(!shown.contains(&secret[1..16]), "{shown}");
        }
    }
}
