//! Congestion marks of a packet that is taken out of a tunnel (RFC 6040, section 4.2; RFC 9601).

/// Codepoints (RFC 3168, section 5): the lowest two bits of the traffic class.
const ECN: u8 = 0b11;
const NOT_ECT: u8 = 0b00;
const ECT_1: u8 = 0b01;
const CE: u8 = 0b11;

/// The traffic class of the inner packet; `None` if the packet must be dropped, as congestion is all that says that its
/// transport should slow down and it would not understand the mark.
pub(super) fn combined(inner: u8, outer: u8) -> Option<u8> {
    match (inner & ECN, outer & ECN) {
        (NOT_ECT, CE) => None,
        (NOT_ECT | CE, _) => Some(inner),
        (_, mark @ (ECT_1 | CE)) => Some(inner & !ECN | mark),
        _ => Some(inner),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_rfc_6040_figure_4() {
        const ECT_0: u8 = 0b10;
        let outer = [NOT_ECT, ECT_0, ECT_1, CE];
        let rows = [
            (NOT_ECT, [Some(NOT_ECT), Some(NOT_ECT), Some(NOT_ECT), None]),
            (ECT_0, [Some(ECT_0), Some(ECT_0), Some(ECT_1), Some(CE)]),
            (ECT_1, [Some(ECT_1), Some(ECT_1), Some(ECT_1), Some(CE)]),
            (CE, [Some(CE); 4]),
        ];
        for (inner, expected) in rows {
            assert_eq!(outer.map(|outer| combined(inner, outer)), expected, "{inner:02b}");
            // The code points of DSCP are the inner ones.
            let class = 0xb8;
            let with_class = expected.map(|mark| mark.map(|mark| class | mark));
            assert_eq!(
                outer.map(|outer| combined(class | inner, 0x40 | outer)),
                with_class
            );
        }
    }
}
