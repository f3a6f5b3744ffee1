//! Call chains as the kernel writes them: marks and addresses, the innermost function first.

/// Values at and above this are marks: `PERF_CONTEXT_MAX` of `linux/perf_event.h`.
const CONTEXT_MAX: u64 = (-4095_i64).cast_unsigned();
/// After this mark come addresses of the kernel: `PERF_CONTEXT_KERNEL`.
const CONTEXT_KERNEL: u64 = (-128_i64).cast_unsigned();

/// One function of a call chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Frame {
    /// An address in the function.
    pub address: u64,
    /// Whether it is a function of the kernel, or of the process.
    pub in_kernel: bool,
}

/// The functions of a chain. A caller's address is the one after the call, which may belong to the next function; the byte
/// before it is in the caller.
pub(crate) fn frames(chain: &[u64]) -> impl Iterator<Item = Frame> {
    let mut in_kernel = false;
    let mut innermost = true;
    chain.iter().filter_map(move |value| {
        if *value >= CONTEXT_MAX {
            in_kernel = *value == CONTEXT_KERNEL;
            return None;
        }
        let address = if innermost {
            *value
        } else {
            value.saturating_sub(1)
        };
        innermost = false;
        Some(Frame { address, in_kernel })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_tell_the_kernel_from_the_process() {
        let user = (-512_i64).cast_unsigned();
        let chain = [
            CONTEXT_KERNEL,
            0xffff_ffff_8100_0010,
            0xffff_ffff_8100_0020,
            user,
            0x4010,
        ];
        let expected = [
            (0xffff_ffff_8100_0010, true),
            (0xffff_ffff_8100_001f, true),
            (0x400f, false),
        ];
        let found: Vec<_> = frames(&chain)
            .map(|frame| (frame.address, frame.in_kernel))
            .collect();
        assert_eq!(found, expected);
    }
}
