//! The program that hands each frame to the socket of its queue, as the instructions that `bpf/redirect.bpf.c` compiles to.

/// Bytes of an instruction (`struct bpf_insn` of linux/bpf.h): operation, registers (source above destination), a 16-bit
/// offset, a 32-bit constant, in this machine's byte order.
pub(super) const INSTRUCTION: usize = 8;
/// How many instructions; the address of the map takes two.
pub(super) const INSTRUCTIONS: usize = 6;

/// `BPF_LDX | BPF_MEM | BPF_W`: destination = the 32-bit word at source + offset.
const LOAD_WORD: u8 = 0x61;
/// `BPF_LD | BPF_IMM | BPF_DW`: destination = a 64-bit constant over two instructions.
const LOAD_CONSTANT: u8 = 0x18;
/// `BPF_PSEUDO_MAP_FD` as source register: the constant is the descriptor of a map, whose address the kernel puts there.
const OF_MAP: u8 = 1;
/// `BPF_ALU64 | BPF_MOV | BPF_K`: destination = a 32-bit constant.
const MOVE_CONSTANT: u8 = 0xb7;
/// `BPF_JMP | BPF_CALL`.
const CALL: u8 = 0x85;
/// `BPF_JMP | BPF_EXIT`.
const EXIT: u8 = 0x95;

/// Where `struct xdp_md` has the queue's number.
const QUEUE_OFFSET: i16 = 16;
/// `XDP_PASS`: what happens to frames of a queue without a socket.
const PASS: i32 = 2;
/// `BPF_FUNC_redirect_map`.
const REDIRECT_MAP: i32 = 51;

/// The program for a map that this descriptor names: `return redirect_map(map, frame->rx_queue_index, XDP_PASS)`.
pub(super) fn redirect(map: i32) -> [u8; INSTRUCTIONS * INSTRUCTION] {
    let instructions = [
        instruction(LOAD_WORD, 2, 1, QUEUE_OFFSET, 0),
        instruction(LOAD_CONSTANT, 1, OF_MAP, 0, map),
        instruction(0, 0, 0, 0, 0),
        instruction(MOVE_CONSTANT, 3, 0, 0, PASS),
        instruction(CALL, 0, 0, 0, REDIRECT_MAP),
        instruction(EXIT, 0, 0, 0, 0),
    ];
    let mut program = [0; INSTRUCTIONS * INSTRUCTION];
    for (place, instruction) in program.chunks_exact_mut(INSTRUCTION).zip(instructions) {
        place.copy_from_slice(&instruction);
    }
    program
}

fn instruction(operation: u8, destination: u8, source: u8, offset: i16, constant: i32) -> [u8; INSTRUCTION] {
    let [o0, o1] = offset.to_ne_bytes();
    let [c0, c1, c2, c3] = constant.to_ne_bytes();
    // The two registers share a byte as bit fields, which big-endian machines fill from the other end.
    let registers = if cfg!(target_endian = "little") {
        source << 4 | destination
    } else {
        destination << 4 | source
    };
    [operation, registers, o0, o1, c0, c1, c2, c3]
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

    #[test]
    fn the_c_source_compiles_to_these_instructions() {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bpf/redirect.bpf.c");
        let folder = tempfile::tempdir().unwrap();
        let object = folder.path().join("redirect.o");
        let clang = Command::new("clang")
            .args(["-O2", "-Wall", "-Werror", "-target", "bpfel", "-mcpu=v2", "-c"])
            .arg(&source)
            .arg("-o")
            .arg(&object)
            .output();
        let output = match clang {
            Err(error) => {
                eprintln!("skipped: clang: {error}");
                return;
            }
            Ok(output) => output,
        };
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        let elf = std::fs::read(object).unwrap();
        // The linker leaves the map's descriptor and the mark of it to the loader.
        let mut ours = redirect(0);
        ours[INSTRUCTION + 1] &= 0x0f;
        if cfg!(target_endian = "little") {
            assert_eq!(section(&elf, "xdp"), ours);
        }
    }
}
