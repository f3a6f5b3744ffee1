//! Our eBPF programs, as the instructions that the files of `bpf/` compile to.

/// `struct bpf_insn` of linux/bpf.h.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Instruction {
    operation: u8,
    /// Destination and source as bit fields: on little-endian machines the destination is in the lower half.
    registers: u8,
    /// Of a jump: instructions to skip.
    pub(crate) offset: i16,
    constant: i32,
}

/// `bpf/redirect.bpf.c`, which hands each frame to the socket of its queue, for a map that this descriptor names: `return redirect_map(map, frame->rx_queue_index, XDP_PASS)`. The
/// address of the map takes two instructions.
pub(crate) fn redirect(map: i32) -> [Instruction; 6] {
    const OF_MAP: u8 = 1;
    [
        // `BPF_LDX | BPF_MEM | BPF_W`: r2 = the word at r1 + 16, which is `rx_queue_index` of `struct xdp_md`.
        instruction(0x61, 2, 1, 16, 0),
        // `BPF_LD | BPF_IMM | BPF_DW` with `BPF_PSEUDO_MAP_FD` as source: r1 = the address of the map.
        instruction(0x18, 1, OF_MAP, 0, map),
        instruction(0, 0, 0, 0, 0),
        // `BPF_ALU64 | BPF_MOV | BPF_K`: r3 = `XDP_PASS`, for frames of a queue without a socket.
        instruction(0xb7, 3, 0, 0, 2),
        // `BPF_JMP | BPF_CALL`: `BPF_FUNC_redirect_map`.
        instruction(0x85, 0, 0, 0, 51),
        // `BPF_JMP | BPF_EXIT`.
        instruction(0x95, 0, 0, 0, 0),
    ]
}

/// The upper half of our sockets' marks; the lower half is the transmit queue, counted from 1.
pub(crate) const OUR_MARK: u32 = 0x636c_0000;

/// `bpf/queue.bpf.c`, which records the queue that a mark of ours names: `packet->queue_mapping = packet->mark ^ OUR_MARK`
/// where that is not above 0xffff.
pub(crate) fn queue() -> [Instruction; 9] {
    [
        // `BPF_LDX | BPF_MEM | BPF_W`: r2 = the word at r1 + 8, which is `mark` of `struct __sk_buff`.
        instruction(0x61, 2, 1, 8, 0),
        // `BPF_ALU64 | BPF_XOR | BPF_K`.
        instruction(0xa7, 2, 0, 0, OUR_MARK as i32),
        // `BPF_ALU64 | BPF_MOV | BPF_X`, then `BPF_LSH` and `BPF_RSH`: r3 = the lower 32 bits of r2.
        instruction(0xbf, 3, 2, 0, 0),
        instruction(0x67, 3, 0, 0, 32),
        instruction(0x77, 3, 0, 0, 32),
        // `BPF_JMP | BPF_JGT | BPF_K`: skip the next one.
        instruction(0x25, 3, 0, 1, 0xffff),
        // `BPF_STX | BPF_MEM | BPF_W`: the word at r1 + 12, which is `queue_mapping`.
        instruction(0x63, 1, 2, 12, 0),
        // `BPF_ALU64 | BPF_MOV | BPF_K`: r0 = `TCX_NEXT`.
        instruction(0xb7, 0, 0, 0, -1),
        instruction(0x95, 0, 0, 0, 0),
    ]
}

/// The sections of `bpf/rss.bpf.c`, compiled for little-endian machines. Where a map is named, the constant is its place among
/// the maps of the source.
const RSS: [&[u8]; 2] = [
    include_bytes!("software_rss/rss.bin"),
    include_bytes!("software_rss/arrived.bin"),
];

/// The program that sends each frame to the CPU of its hash, and the one that counts it there, for maps with these
/// descriptors.
pub(crate) fn rss(maps: [i32; 4]) -> [Vec<Instruction>; 2] {
    RSS.map(|compiled| linked(compiled, &maps))
}

/// The section of `bpf/key.bpf.c`, as those of [`RSS`].
const KEY: &[u8] = include_bytes!("key_steering/key.bin");

/// The program that selects the socket of a key's owner, for maps with these descriptors.
pub(crate) fn key(maps: [i32; 2]) -> Vec<Instruction> {
    linked(KEY, &maps)
}

/// Compiled instructions, for maps with these descriptors.
fn linked(compiled: &[u8], maps: &[i32]) -> Vec<Instruction> {
    let mut instructions: Vec<_> = compiled.chunks_exact(8).map(Instruction::read).collect();
    let named = instructions.iter_mut().filter(|one| one.names_map());
    named.for_each(|one| one.constant = maps[one.constant as usize]);
    instructions
}

impl Instruction {
    /// The instruction in these eight bytes, little-endian.
    fn read(bytes: &[u8]) -> Instruction {
        Instruction {
            operation: bytes[0],
            registers: bytes[1],
            offset: i16::from_le_bytes([bytes[2], bytes[3]]),
            constant: i32::from_le_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]),
        }
    }

    /// Whether it loads the address of a map: `BPF_LD | BPF_IMM | BPF_DW` with `BPF_PSEUDO_MAP_FD` as source.
    fn names_map(&self) -> bool {
        self.operation == 0x18 && self.registers >> 4 == 1
    }
}

pub(crate) const fn instruction(
    operation: u8,
    destination: u8,
    source: u8,
    offset: i16,
    constant: i32,
) -> Instruction {
    Instruction {
        operation,
        registers: match cfg!(target_endian = "little") {
            true => source << 4 | destination,
            false => destination << 4 | source,
        },
        offset,
        constant,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;
    use std::process::Command;

    /// The bytes of a section of a 64-bit little-endian ELF file.
    fn section<'file>(elf: &'file [u8], wanted: &str) -> &'file [u8] {
        let number = |at: usize, bytes: usize| {
            elf[at..at + bytes]
                .iter()
                .rev()
                .fold(0u64, |sum, byte| sum << 8 | u64::from(*byte)) as usize
        };
        let (headers, size, count, names) =
            (number(0x28, 8), number(0x3a, 2), number(0x3c, 2), number(0x3e, 2));
        let header = |index: usize| headers + index * size;
        let content = |index: usize| {
            let at = number(header(index) + 0x18, 8);
            &elf[at..at + number(header(index) + 0x20, 8)]
        };
        let name = |index: usize| {
            let rest = &content(names)[number(header(index), 4)..];
            std::str::from_utf8(&rest[..rest.iter().position(|byte| *byte == 0).unwrap()]).unwrap()
        };
        let found = (0..count).find(|index| name(*index) == wanted);
        content(found.unwrap_or_else(|| panic!("no section {wanted}")))
    }

    /// What clang makes of a section of `bpf/NAME.bpf.c`, with the place of each map that it names among `maps`; `None`
    /// without clang.
    fn compiled(name: &str, wanted: &str, maps: &[&str]) -> Option<Vec<Instruction>> {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../bpf/{name}.bpf.c"));
        let folder = tempfile::tempdir().unwrap();
        let object = folder.path().join("object.o");
        let clang = Command::new("clang")
            .args(["-O2", "-Wall", "-Werror", "-target", "bpfel", "-mcpu=v2", "-c"])
            .arg(&source)
            .arg("-o")
            .arg(&object)
            .output();
        let output = clang
            .inspect_err(|error| eprintln!("skipped: clang: {error}"))
            .ok()?;
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        let elf = std::fs::read(object).unwrap();
        let mut instructions: Vec<_> = section(&elf, wanted)
            .chunks_exact(8)
            .map(Instruction::read)
            .collect();
        if maps.is_empty() {
            return Some(instructions);
        }
        // `Elf64_Rel`: offset, then the number of the symbol in the upper half. `Elf64_Sym`: 24 bytes, its name first.
        let (symbols, names) = (section(&elf, ".symtab"), section(&elf, ".strtab"));
        let number = |bytes: &[u8]| u32::from_le_bytes(bytes[..4].try_into().unwrap()) as usize;
        for place in section(&elf, &format!(".rel{wanted}")).chunks_exact(16) {
            let symbol = &names[number(&symbols[number(&place[12..]) * 24..])..];
            let symbol = &symbol[..symbol.iter().position(|byte| *byte == 0).unwrap()];
            let map = maps.iter().position(|map| map.as_bytes() == symbol).unwrap();
            let instruction = &mut instructions[number(place) / 8];
            instruction.registers |= 1 << 4;
            instruction.constant = map as i32;
        }
        Some(instructions)
    }

    #[test]
    fn the_c_sources_compile_to_these_instructions() {
        let both = (
            compiled("redirect", "xdp", &[]),
            compiled("queue", "tcx/egress", &[]),
        );
        let (Some(compiled_redirect), Some(compiled_queue)) = both else {
            return;
        };
        // The loader fills in the map's descriptor and its mark.
        let mut ours = redirect(0);
        ours[1].registers &= 0x0f;
        if cfg!(target_endian = "little") {
            assert_eq!(compiled_redirect, ours);
            assert_eq!(compiled_queue, queue());
        }
    }

    /// clang 14 makes the same bytes; the code of other versions differs. `UPDATE_GOLDEN=1` writes what this one makes.
    #[test]
    fn rss_and_key_compile_to_what_is_committed() {
        let version = Command::new("clang").arg("--version").output();
        let version = version.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
        if !version.is_ok_and(|version| version.contains("version 14.")) {
            eprintln!("skipped: no clang 14");
            return;
        }
        let (rss, key) = (
            ["rules", "counts", "cpus", "arrived"].as_slice(),
            ["rule", "otherwise"].as_slice(),
        );
        for (name, maps, wanted, file, committed) in [
            ("rss", rss, "xdp", "software_rss/rss.bin", RSS[0]),
            ("rss", rss, "xdp/cpumap", "software_rss/arrived.bin", RSS[1]),
            ("key", key, "socket", "key_steering/key.bin", KEY),
        ] {
            let instructions = compiled(name, wanted, maps).unwrap();
            let bytes: Vec<u8> = instructions.iter().flat_map(Instruction::bytes).collect();
            if std::env::var_os("UPDATE_GOLDEN").is_some() {
                let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
                std::fs::write(folder.join(file), bytes).unwrap();
            } else {
                assert!(
                    bytes == committed,
                    "{file} is not what bpf/{name}.bpf.c compiles to"
                );
            }
        }
    }

    impl Instruction {
        fn bytes(&self) -> [u8; 8] {
            let [low, high] = self.offset.to_le_bytes();
            let [a, b, c, d] = self.constant.to_le_bytes();
            [self.operation, self.registers, low, high, a, b, c, d]
        }
    }
}
