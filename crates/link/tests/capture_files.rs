//! Makes a capture file of every kind that is read, part by part, with the frames that are read from it.

/// The header of a frame in its link layer, its packet, and the Ethernet frame that is read.
type Layered<'a> = (&'a [u8], &'a [u8], Option<Vec<u8>>);

/// A part of a file, and the frame that it holds.
pub type Part = (Vec<u8>, Option<Frame>);

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Frame {
    pub data: Vec<u8>,
    pub wire_length: u32,
    pub time: u64,
    pub hash: Option<u32>,
    pub queue: Option<u16>,
}

/// 2023-11-14 22:13:20, and 123,456 microseconds.
const SECONDS: u32 = 1_700_000_000;
pub const TIME: u64 = 1_700_000_000_123_456_000;

/// UDP from 10.1.2.3:4000 to 10.4.5.6:53, with `payload` bytes.
fn packet_v4(payload: u8) -> Vec<u8> {
    let mut packet = vec![0x45, 0, 0, 28 + payload, 0, 0, 0, 0, 64, 17, 0, 0];
    packet.extend([10, 1, 2, 3, 10, 4, 5, 6, 0x0f, 0xa0, 0, 53, 0, 8 + payload, 0, 0]);
    packet.extend((0..payload).map(|byte| b'a' + byte % 26));
    packet
}

/// UDP from 2001:db8::1 port 4001 to 2001:db8::2 port 53.
fn packet_v6() -> Vec<u8> {
    let address = |last| [0x20, 1, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last];
    let mut packet = vec![0x60, 0, 0, 0, 0, 8, 17, 64];
    packet.extend([address(1), address(2)].concat());
    packet.extend([0x0f, 0xa1, 0, 53, 0, 8, 0x12, 0x34]);
    packet
}

/// The frame as Ethernet, from this address.
fn ethernet_from(source: [u8; 6], ether_type: u16, packet: &[u8]) -> Vec<u8> {
    [
        &[2, 0, 0, 0, 0, 2][..],
        &source,
        &ether_type.to_be_bytes(),
        packet,
    ]
    .concat()
}

fn ethernet(ether_type: u16, packet: &[u8]) -> Vec<u8> {
    ethernet_from([2, 0, 0, 0, 0, 1], ether_type, packet)
}

pub fn frames() -> [Vec<u8>; 2] {
    [ethernet(0x0800, &packet_v4(7)), ethernet(0x86dd, &packet_v6())]
}

/// Writes numbers in a byte order.
#[derive(Clone, Copy)]
pub struct Order {
    big: bool,
}

pub const LITTLE: Order = Order { big: false };
pub const BIG: Order = Order { big: true };

impl Order {
    pub fn u32s(self, numbers: &[u32]) -> Vec<u8> {
        let bytes = |number: &u32| match self.big {
            true => number.to_be_bytes(),
            false => number.to_le_bytes(),
        };
        numbers.iter().flat_map(bytes).collect()
    }

    fn u16s(self, numbers: &[u16]) -> Vec<u8> {
        let bytes = |number: &u16| match self.big {
            true => number.to_be_bytes(),
            false => number.to_le_bytes(),
        };
        numbers.iter().flat_map(bytes).collect()
    }

    /// The header of a pcap file.
    fn pcap(self, magic: u32, layer: u32) -> Vec<Part> {
        let header = [
            self.u32s(&[magic]),
            self.u16s(&[2, 4]),
            self.u32s(&[0, 0, 65_535, layer]),
        ];
        vec![(header.concat(), None)]
    }

    /// A record of a pcap file, of which `data` is read.
    fn record(self, fraction: u32, captured: &[u8], wire_length: u32, frame: Option<Frame>) -> Part {
        let header = self.u32s(&[SECONDS, fraction, captured.len() as u32, wire_length]);
        ([&header, captured].concat(), frame)
    }

    /// A file with one frame of a link layer, whose `header` an Ethernet header replaces.
    fn of_layer(self, layer: u32, frames: &[Layered<'_>]) -> Vec<Part> {
        let mut parts = self.pcap(0xa1b2_c3d4, layer);
        for (header, packet, data) in frames {
            let captured = [*header, packet].concat();
            let frame = data.clone().map(|data| Frame {
                wire_length: data.len() as u32,
                data,
                time: TIME,
                ..Frame::default()
            });
            parts.push(self.record(123_456, &captured, captured.len() as u32, frame));
        }
        parts
    }

    pub fn block(self, kind: u32, body: &[u8]) -> Vec<u8> {
        let mut body = body.to_vec();
        body.resize(body.len().next_multiple_of(4), 0);
        let length = body.len() as u32 + 12;
        [self.u32s(&[kind, length]), body, self.u32s(&[length])].concat()
    }

    pub fn section(self) -> Part {
        let body = [
            self.u32s(&[0x1a2b_3c4d]),
            self.u16s(&[1, 0]),
            self.u32s(&[u32::MAX; 2]),
        ];
        (self.block(0x0a0d_0d0a, &body.concat()), None)
    }

    /// An interface with these options.
    pub fn interface(self, layer: u16, snap: u32, options: &[u8]) -> Part {
        // The two bytes behind the link layer have no meaning: readers ignore them.
        let body = [self.u16s(&[layer, 0xabcd]), self.u32s(&[snap]), options.to_vec()];
        (self.block(1, &body.concat()), None)
    }

    fn option(self, code: u16, value: &[u8]) -> Vec<u8> {
        let mut option = [self.u16s(&[code, value.len() as u16]), value.to_vec()].concat();
        option.resize(option.len().next_multiple_of(4), 0);
        option
    }

    /// An enhanced packet of an interface at a time in its units.
    pub fn enhanced(
        self,
        interface: u32,
        units: u64,
        data: &[u8],
        options: &[u8],
        frame: Option<Frame>,
    ) -> Part {
        let length = data.len() as u32;
        let mut body = self.u32s(&[interface, (units >> 32) as u32, units as u32, length, length]);
        body.extend(data);
        body.resize(body.len().next_multiple_of(4), 0);
        body.extend(options);
        (self.block(6, &body), frame)
    }
}

pub fn whole(data: &[u8], time: u64) -> Option<Frame> {
    Some(Frame {
        data: data.to_vec(),
        wire_length: data.len() as u32,
        time,
        ..Frame::default()
    })
}

/// A pcap file of Ethernet frames.
pub fn pcap(order: Order, magic: u32, fraction: u32, layer: u32) -> Vec<Part> {
    let mut parts = order.pcap(magic, layer);
    for data in frames() {
        parts.push(order.record(fraction, &data, data.len() as u32, whole(&data, TIME)));
    }
    parts
}

fn snapped() -> Vec<Part> {
    let mut parts = LITTLE.pcap(0xa1b2_c3d4, 1);
    for data in frames() {
        let captured = &data[..36];
        let frame = Frame {
            data: captured.to_vec(),
            wire_length: data.len() as u32,
            time: TIME,
            ..Frame::default()
        };
        parts.push(LITTLE.record(123_456, captured, data.len() as u32, Some(frame)));
    }
    parts
}

/// The header of a cooked capture: from 02:aa:bb:cc:dd:ee, or without an address.
fn sll(hardware: u16, protocol: u16) -> Vec<u8> {
    let mut header = [
        BIG.u16s(&[0, hardware, 6]),
        vec![2, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0, 0],
    ]
    .concat();
    header.extend(protocol.to_be_bytes());
    header
}

fn sll2(hardware: u16, protocol: u16) -> Vec<u8> {
    let header = [
        BIG.u16s(&[protocol, 0]),
        BIG.u32s(&[2]),
        BIG.u16s(&[hardware]),
        vec![4, 6],
    ];
    [header.concat(), vec![2, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0, 0]].concat()
}

/// IPv4, IPv6, a VLAN tag, and frames without an EtherType: 802.2 and netlink.
fn cooked(layer: u32, header: fn(u16, u16) -> Vec<u8>) -> Vec<Part> {
    let source = [2, 0xaa, 0xbb, 0xcc, 0xdd, 0xee];
    let (v4, v6) = (packet_v4(7), packet_v6());
    let tagged = [&[0, 5, 8, 0][..], &v4].concat();
    BIG.of_layer(
        layer,
        &[
            (&header(1, 0x0800), &v4, Some(ethernet_from(source, 0x0800, &v4))),
            (&header(1, 0x86dd), &v6, Some(ethernet_from(source, 0x86dd, &v6))),
            (
                &header(1, 0x8100),
                &tagged,
                Some(ethernet_from(source, 0x8100, &tagged)),
            ),
            (&header(1, 4), &[0xaa; 20], None),
            (&header(824, 0x0800), &[0; 20], None),
        ],
    )
}

fn without_header(layer: u32) -> Vec<Part> {
    let (v4, v6) = (packet_v4(7), packet_v6());
    let (v4, v6) = (
        (&[][..], &v4[..], Some(ethernet(0x0800, &v4))),
        (&[][..], &v6[..], Some(ethernet(0x86dd, &v6))),
    );
    match layer {
        228 => LITTLE.of_layer(layer, &[v4]),
        229 => LITTLE.of_layer(layer, &[v6]),
        _ => LITTLE.of_layer(layer, &[v4, v6]),
    }
}

/// Frames behind an address family: IPv4, IPv6 of FreeBSD, and AppleTalk.
fn family(layer: u32, of_file: Order, of_family: Order) -> Vec<Part> {
    let (v4, v6) = (packet_v4(7), packet_v6());
    let [two, twenty_eight, sixteen] = [2, 28, 16].map(|family| of_family.u32s(&[family]));
    of_file.of_layer(
        layer,
        &[
            (&two, &v4, Some(ethernet(0x0800, &v4))),
            (&twenty_eight, &v6, Some(ethernet(0x86dd, &v6))),
            (&sixteen, &[1; 30], None),
        ],
    )
}

/// Every block: comments that are no text, options without their end, hash and queue, an obsolete packet, blocks to pass over.
fn blocks(order: Order) -> Vec<Part> {
    let [v4, v6] = frames();
    let resolution = [order.option(9, &[9]), order.option(1, &[0xff, 0xfe, 0xfd])].concat();
    let hash = order.option(3, &[5, 0x21, 0xf7, 0xdb, 0x62]);
    let queue = order.option(6, &order.u32s(&[3]));
    let hashed = Frame {
        hash: Some(0x21f7_db62),
        queue: Some(3),
        ..whole(&v4, TIME + 789).unwrap()
    };
    let obsolete = [
        order.u16s(&[0, 7]),
        order.u32s(&[(TIME >> 32) as u32, TIME as u32, v6.len() as u32, v6.len() as u32]),
        v6.clone(),
    ];
    vec![
        order.section(),
        order.interface(1, 0, &resolution),
        order.enhanced(
            0,
            TIME + 789,
            &v4,
            &[hash.clone(), queue].concat(),
            Some(hashed.clone()),
        ),
        // Names, statistics, a block of private use.
        (order.block(4, &[0; 4]), None),
        (order.block(5, &order.u32s(&[0, 0, 0])), None),
        (order.block(0x8000_0001, &[0xff; 100]), None),
        (order.block(2, &obsolete.concat()), whole(&v6, TIME)),
        order.enhanced(0, TIME, &v6, &[], whole(&v6, TIME)),
    ]
}

/// Simple packets of every padding, the last longer than the snap length.
fn simple() -> Vec<Part> {
    let mut parts = vec![LITTLE.section(), LITTLE.interface(1, 64, &[])];
    for payload in 18..=23 {
        let data = ethernet(0x0800, &packet_v4(payload));
        let captured = &data[..data.len().min(64)];
        let frame = Frame {
            data: captured.to_vec(),
            wire_length: data.len() as u32,
            ..Frame::default()
        };
        let body = [&LITTLE.u32s(&[data.len() as u32]), captured].concat();
        parts.push((LITTLE.block(3, &body), Some(frame)));
    }
    parts
}

/// Ethernet, a cooked interface, USB, one with an offset and units of 1/1024 second; then a section of the other byte order.
fn interfaces() -> Vec<Part> {
    let [v4, v6] = frames();
    let micros = TIME / 1_000;
    let cooked = [sll(1, 0x0800), packet_v4(7)].concat();
    let from_cooked = ethernet_from([2, 0xaa, 0xbb, 0xcc, 0xdd, 0xee], 0x0800, &packet_v4(7));
    let shifted = [
        LITTLE.option(9, &[0x80 | 10]),
        LITTLE.option(14, &[LITTLE.u32s(&[SECONDS, 0])].concat()),
    ];
    vec![
        LITTLE.section(),
        LITTLE.interface(1, 0, &[]),
        LITTLE.interface(113, 0, &[]),
        LITTLE.interface(189, 0, &[]),
        LITTLE.interface(1, 0, &shifted.concat()),
        LITTLE.enhanced(0, micros, &v4, &[], whole(&v4, TIME)),
        LITTLE.enhanced(1, micros, &cooked, &[], whole(&from_cooked, TIME)),
        LITTLE.enhanced(2, micros, &[0; 64], &[], None),
        LITTLE.enhanced(3, 512, &v6, &[], whole(&v6, 1_700_000_000_500_000_000)),
        BIG.section(),
        BIG.interface(1, 0, &[]),
        BIG.enhanced(0, micros, &v6, &[], whole(&v6, TIME)),
    ]
}

/// The files, by name.
pub fn files() -> Vec<(&'static str, Vec<Part>)> {
    const MICROS: u32 = 0xa1b2_c3d4;
    const NANOS: u32 = 0xa1b2_3c4d;
    vec![
        ("us-little.pcap", pcap(LITTLE, MICROS, 123_456, 1)),
        ("us-big.pcap", pcap(BIG, MICROS, 123_456, 1)),
        ("ns-little.pcap", pcap(LITTLE, NANOS, 123_456_000, 1)),
        ("ns-big.pcap", pcap(BIG, NANOS, 123_456_000, 1)),
        ("snap.pcap", snapped()),
        ("sll.pcap", cooked(113, sll)),
        ("sll2.pcap", cooked(276, sll2)),
        ("raw.pcap", without_header(101)),
        ("ipv4.pcap", without_header(228)),
        ("ipv6.pcap", without_header(229)),
        ("null-little.pcap", family(0, LITTLE, LITTLE)),
        ("null-big.pcap", family(0, BIG, BIG)),
        ("loop.pcap", family(108, LITTLE, BIG)),
        ("blocks-little.pcapng", blocks(LITTLE)),
        ("blocks-big.pcapng", blocks(BIG)),
        ("simple.pcapng", simple()),
        ("interfaces.pcapng", interfaces()),
    ]
}

pub fn bytes(parts: &[Part]) -> Vec<u8> {
    parts.iter().flat_map(|(bytes, _)| bytes.clone()).collect()
}

pub fn expected(parts: &[Part]) -> Vec<Frame> {
    parts.iter().filter_map(|(_, frame)| frame.clone()).collect()
}
