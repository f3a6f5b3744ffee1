//! An interpreter of classic BPF: it runs a program on a packet and returns the result.
//!
//! It is written from the kernel's documentation (`Documentation/networking/filter.rst`, `linux/bpf_common.h`,
//! `linux/filter.h`) and shares no code with the generator, so that each can be checked against the other.

use corelane_rss::steer::Instruction;
use thiserror::Error;

/// Runs `program` as the kernel runs the program of a socket group. The packet starts at its IP header, its transport
/// payload at `payload_offset`. The result is a bucket, or 0 if the program is invalid or reads outside the packet, as
/// in the kernel.
#[must_use]
pub fn run(program: impl AsRef<[Instruction]>, packet: &[u8], payload_offset: usize) -> u32 {
    try_run(program, packet, payload_offset).unwrap_or(0)
}

/// Like [`run`], but returns the error.
pub fn try_run(
    program: impl AsRef<[Instruction]>,
    packet: &[u8],
    payload_offset: usize,
) -> Result<u32, Fault> {
    let mut machine = Machine {
        a: 0,
        x: 0,
        memory: [0; 16],
        packet,
        payload_offset,
    };
    let mut rest = program.as_ref().iter();
    loop {
        let instruction = rest.next().ok_or(Fault::NoAnswer)?;
        match machine.step(*instruction)? {
            Next::Skip(0) => {}
            Next::Skip(count) => {
                rest.nth(count - 1).ok_or(Fault::NoAnswer)?;
            }
            Next::Answer(value) => return Ok(value),
        }
    }
}

/// Why a program has no result.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Fault {
    /// It read outside the packet; the kernel ends it with the result 0.
    #[error("a load of {size} bytes at offset {offset} is outside the packet")]
    Load {
        /// The offset from the transport payload, or a negative offset as `linux/filter.h` defines it.
        offset: i32,
        /// The number of bytes.
        size: usize,
    },
    /// An instruction that the kernel rejects.
    #[error("{0:?} is no instruction of a socket filter")]
    Instruction(Instruction),
    /// It continued past its last instruction.
    #[error("the program ends without an answer")]
    NoAnswer,
}

/// `SKF_AD_OFF` (`linux/filter.h`): from here on, metadata of the packet.
const ANCILLARY: i32 = -0x1000;
/// `SKF_NET_OFF`: from here on, offsets from the IP header.
const NETWORK: i32 = -0x10_0000;

/// `SKF_AD_PROTOCOL`: the EtherType.
const PROTOCOL: i32 = 0;
/// `SKF_AD_MAX`: no metadata from here on.
const ANCILLARY_END: i32 = 64;

struct Machine<'a> {
    a: u32,
    x: u32,
    memory: [u32; 16],
    packet: &'a [u8],
    payload_offset: usize,
}

enum Next {
    Skip(usize),
    Answer(u32),
}

impl Machine<'_> {
    /// The lowest three bits of a code are its class.
    fn step(&mut self, instruction: Instruction) -> Result<Next, Fault> {
        match instruction.code & 0x07 {
            0x00 => self.a = self.load(instruction)?,
            0x01 => self.x = self.load_x(instruction)?,
            0x02 if instruction.code == 0x02 => *self.slot(instruction)? = self.a,
            0x03 if instruction.code == 0x03 => *self.slot(instruction)? = self.x,
            0x04 => self.a = self.calculate(instruction)?,
            0x05 => return self.jump(instruction),
            0x06 => return self.answer(instruction),
            0x07 if instruction.code == 0x07 => self.x = self.a,
            0x07 if instruction.code == 0x87 => self.a = self.x,
            _ => return Err(Fault::Instruction(instruction)),
        }
        Ok(Next::Skip(0))
    }

    /// Class LD: bits 3 and 4 are the size, the upper three the mode.
    fn load(&mut self, instruction: Instruction) -> Result<u32, Fault> {
        let size = match instruction.code & 0x18 {
            0x00 => 4,
            0x08 => 2,
            0x10 => 1,
            _ => return Err(Fault::Instruction(instruction)),
        };
        match (instruction.code & 0xe0, size) {
            (0x00, 4) => Ok(instruction.k),
            (0x20, _) if instruction.k as i32 >= ANCILLARY && (instruction.k as i32) < 0 => {
                self.ancillary(instruction, size)
            }
            (0x20, _) => self.bytes(instruction.k as i32, size),
            (0x40, _) => self.bytes(self.x.wrapping_add(instruction.k) as i32, size),
            (0x60, 4) => self.slot(instruction).copied(),
            (0x80, 4) => Ok(self.length()),
            _ => Err(Fault::Instruction(instruction)),
        }
    }

    fn load_x(&mut self, instruction: Instruction) -> Result<u32, Fault> {
        match instruction.code {
            0x01 => Ok(instruction.k),
            0x61 => self.slot(instruction).copied(),
            0x81 => Ok(self.length()),
            0xb1 => Ok(4 * (self.bytes(instruction.k as i32, 1)? & 0x0f)),
            _ => Err(Fault::Instruction(instruction)),
        }
    }

    /// Class ALU: bit 3 selects X or the constant as the operand, the upper four bits select the operation.
    fn calculate(&mut self, instruction: Instruction) -> Result<u32, Fault> {
        let operand = if instruction.code & 0x08 == 0 {
            instruction.k
        } else {
            self.x
        };
        let a = self.a;
        match instruction.code & 0xf0 {
            0x00 => Ok(a.wrapping_add(operand)),
            0x10 => Ok(a.wrapping_sub(operand)),
            0x20 => Ok(a.wrapping_mul(operand)),
            // The kernel rejects a constant of zero, and a program that divides by an X of zero returns 0.
            0x30 => a.checked_div(operand).ok_or(Fault::Instruction(instruction)),
            0x40 => Ok(a | operand),
            0x50 => Ok(a & operand),
            // Shifts by X use its low five bits; constants past 31 are rejected.
            0x60 if instruction.code & 0x08 != 0 || operand < 32 => Ok(a << (operand & 31)),
            0x70 if instruction.code & 0x08 != 0 || operand < 32 => Ok(a >> (operand & 31)),
            0x80 if instruction.code == 0x84 => Ok(a.wrapping_neg()),
            0x90 => a.checked_rem(operand).ok_or(Fault::Instruction(instruction)),
            0xa0 => Ok(a ^ operand),
            _ => Err(Fault::Instruction(instruction)),
        }
    }

    fn jump(&mut self, instruction: Instruction) -> Result<Next, Fault> {
        let operand = if instruction.code & 0x08 == 0 {
            instruction.k
        } else {
            self.x
        };
        let holds = match instruction.code & 0xf0 {
            0x00 if instruction.code == 0x05 => return Ok(Next::Skip(instruction.k as usize)),
            0x10 => self.a == operand,
            0x20 => self.a > operand,
            0x30 => self.a >= operand,
            0x40 => self.a & operand != 0,
            _ => return Err(Fault::Instruction(instruction)),
        };
        let skipped = if holds { instruction.jt } else { instruction.jf };
        Ok(Next::Skip(skipped.into()))
    }

    fn answer(&self, instruction: Instruction) -> Result<Next, Fault> {
        match instruction.code {
            0x06 => Ok(Next::Answer(instruction.k)),
            0x16 => Ok(Next::Answer(self.a)),
            _ => Err(Fault::Instruction(instruction)),
        }
    }

    fn slot(&mut self, instruction: Instruction) -> Result<&mut u32, Fault> {
        let slot = self.memory.get_mut(instruction.k as usize);
        slot.ok_or(Fault::Instruction(instruction))
    }

    /// The number of bytes from the transport payload to the end of the packet.
    fn length(&self) -> u32 {
        self.packet.len().saturating_sub(self.payload_offset) as u32
    }

    /// The `size` bytes at `offset`, first byte most significant.
    fn bytes(&self, offset: i32, size: usize) -> Result<u32, Fault> {
        let fault = Fault::Load { offset, size };
        let start = match offset {
            0.. => self.payload_offset.checked_add(offset as usize),
            NETWORK..0 => Some((offset - NETWORK) as usize),
            _ => None,
        };
        let range = start.and_then(|start| Some(start..start.checked_add(size)?));
        let bytes = range.and_then(|range| self.packet.get(range)).ok_or(fault)?;
        Ok(bytes.iter().fold(0, |value, byte| value << 8 | u32::from(*byte)))
    }

    /// Metadata of the packet: its EtherType, derived from its IP version. All others are 0, as for a packet to this
    /// host without a mark, VLAN tag or hash.
    fn ancillary(&self, instruction: Instruction, size: usize) -> Result<u32, Fault> {
        match (instruction.k as i32 - ANCILLARY, size) {
            (PROTOCOL, 4) => Ok(if self.bytes(NETWORK, 1)? >> 4 == 6 {
                0x86dd
            } else {
                0x0800
            }),
            (1..ANCILLARY_END, 4) => Ok(0),
            _ => Err(Fault::Instruction(instruction)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACKET: [u8; 8] = [0x46, 1, 2, 3, 4, 5, 6, 7];

    fn instruction(code: u16, jt: u8, jf: u8, k: u32) -> Instruction {
        Instruction { code, jt, jf, k }
    }

    fn answer_of(code: &[(u16, u8, u8, u32)]) -> Result<u32, Fault> {
        let program: Vec<Instruction> = code
            .iter()
            .map(|&(code, jt, jf, k)| instruction(code, jt, jf, k))
            .collect();
        try_run(&program, &PACKET, 4)
    }

    #[test]
    fn loads_count_from_the_payload_or_the_ip_header() {
        let (network, ancillary) = (NETWORK as u32, ANCILLARY as u32);
        let answer = (0x16, 0, 0, 0);
        assert_eq!(answer_of(&[(0x20, 0, 0, 0), answer]), Ok(0x0405_0607));
        assert_eq!(answer_of(&[(0x28, 0, 0, network + 1), answer]), Ok(0x0102));
        assert_eq!(
            answer_of(&[(0x01, 0, 0, 2), (0x50, 0, 0, network), answer]),
            Ok(2)
        );
        assert_eq!(
            answer_of(&[(0xb1, 0, 0, network), (0x87, 0, 0, 0), answer]),
            Ok(24)
        );
        assert_eq!(answer_of(&[(0x80, 0, 0, 0), answer]), Ok(4));
        assert_eq!(answer_of(&[(0x20, 0, 0, ancillary), answer]), Ok(0x0800));
    }

    #[test]
    fn a_load_outside_the_packet_is_a_fault_and_answers_zero() {
        let fault = Fault::Load { offset: 1, size: 4 };
        assert_eq!(answer_of(&[(0x20, 0, 0, 1), (0x06, 0, 0, 9)]), Err(fault));
        assert_eq!(
            run(
                [instruction(0x20, 0, 0, 1), instruction(0x06, 0, 0, 9)],
                &PACKET,
                4
            ),
            0
        );
    }

    #[test]
    fn conditional_jumps_take_either_side() {
        for (code, value, taken) in [
            (0x15, 7, true),
            (0x25, 7, false),
            (0x35, 7, true),
            (0x45, 8, false),
        ] {
            let program = [
                (0x00, 0, 0, 7),
                (code, 1, 0, value),
                (0x06, 0, 0, 100),
                (0x06, 0, 0, 200),
            ];
            assert_eq!(
                answer_of(&program),
                Ok(if taken { 200 } else { 100 }),
                "code {code:#x}"
            );
        }
    }

    #[test]
    fn what_the_kernel_would_refuse_is_a_fault() {
        for bad in [
            (0xff, 0, 0, 0),
            (0x02, 0, 0, 16),
            (0x64, 0, 0, 32),
            (0x34, 0, 0, 0),
        ] {
            let refused = Fault::Instruction(instruction(bad.0, bad.1, bad.2, bad.3));
            assert_eq!(answer_of(&[bad, (0x06, 0, 0, 0)]), Err(refused));
        }
        assert_eq!(answer_of(&[(0x05, 0, 0, 5)]), Err(Fault::NoAnswer));
        assert_eq!(answer_of(&[]), Err(Fault::NoAnswer));
    }
}
