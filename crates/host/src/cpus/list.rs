//! CPU lists and masks as the kernel writes them: `0-3,8` and `00000000,0000010f`.

/// The maximum CPU count of any kernel: `NR_CPUS` in `arch/x86/Kconfig` and `arch/powerpc/Kconfig` is at most 8192. A
/// list with a higher CPU does not come from the kernel and is rejected before memory is allocated for it.
pub const MAXIMUM_CPUS: u32 = 8192;

/// Parses a list such as `0-3,8`; an empty text is an empty list. The result is ascending, without duplicates.
///
/// `None` for anything else: reversed ranges, ids from [`MAXIMUM_CPUS`] on, other characters.
pub fn parse(text: &str) -> Option<Vec<u32>> {
    let text = text.trim();
    let mut cpus = Vec::new();
    if text.is_empty() {
        return Some(cpus);
    }
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (number(first)?, number(last)?);
        if first > last {
            return None;
        }
        cpus.extend(first..=last);
    }
    cpus.sort_unstable();
    cpus.dedup();
    Some(cpus)
}

/// Formats CPUs as a list such as `0-3,8`; the inverse of [`parse`].
pub fn format(cpus: &[u32]) -> String {
    let mut sorted = cpus.to_vec();
    sorted.sort_unstable();
    sorted.dedup();
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for cpu in sorted {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == cpu => *last = cpu,
            _ => ranges.push((cpu, cpu)),
        }
    }
    let parts = ranges.into_iter().map(|(first, last)| match last - first {
        0 => first.to_string(),
        _ => format!("{first}-{last}"),
    });
    parts.collect::<Vec<_>>().join(",")
}

/// Formats CPUs as a mask such as `10f,00000000`; the inverse of [`parse_mask`].
pub fn format_mask(cpus: &[u32]) -> String {
    let groups = cpus.iter().max().map_or(1, |highest| highest / 32 + 1);
    let text = (0..groups).rev().map(|index| {
        let own = cpus.iter().filter(|cpu| *cpu / 32 == index);
        let bits = own.fold(0_u32, |bits, cpu| bits | 1 << (cpu % 32));
        match index + 1 == groups {
            true => format!("{bits:x}"),
            false => format!("{bits:08x}"),
        }
    });
    text.collect::<Vec<_>>().join(",")
}

/// Parses a mask such as `00000000,0000010f`: groups of eight hexadecimal digits, the highest CPUs first
/// (`rps_cpus`, `smp_affinity`). The result is ascending. `None` for anything else.
pub fn parse_mask(text: &str) -> Option<Vec<u32>> {
    let mut cpus = Vec::new();
    for (group, digits) in text.trim().rsplit(',').enumerate() {
        if digits.is_empty() || digits.len() > 8 {
            return None;
        }
        let bits = u32::from_str_radix(digits, 16).ok()?;
        let base = u32::try_from(group).ok()?.checked_mul(32)?;
        if base >= MAXIMUM_CPUS {
            return None;
        }
        cpus.extend((0..32).filter(|bit| bits >> bit & 1 == 1).map(|bit| base + bit));
    }
    Some(cpus)
}

fn number(text: &str) -> Option<u32> {
    text.parse().ok().filter(|cpu| *cpu < MAXIMUM_CPUS)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lists_of_the_kernel_are_read() {
        assert_eq!(parse(""), Some(vec![]));
        assert_eq!(parse("0\n"), Some(vec![0]));
        assert_eq!(parse("0-3,8,10-11"), Some(vec![0, 1, 2, 3, 8, 10, 11]));
    }

    #[test]
    fn what_is_no_list_is_refused() {
        for text in ["-", "1-", "3-1", "0,,1", "a", "0-4294967295", "8192", "0x1", "-1"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }

    #[test]
    fn masks_of_the_kernel_are_read() {
        assert_eq!(parse_mask("0"), Some(vec![]));
        assert_eq!(parse_mask("3\n"), Some(vec![0, 1]));
        assert_eq!(parse_mask("00000001,80000000"), Some(vec![31, 32]));
        assert_eq!(parse_mask("123456789"), None);
        assert_eq!(parse_mask("0,,1"), None);
    }

    #[test]
    fn masks_are_written_as_the_kernel_reads_them() {
        assert_eq!(format_mask(&[0, 1]), "3");
        assert_eq!(format_mask(&[0, 33]), "2,00000001");
        assert_eq!(parse_mask(&format_mask(&[5, 40, 64])), Some(vec![5, 40, 64]));
    }

    proptest! {
        #[test]
        fn a_written_list_reads_back(cpus in prop::collection::btree_set(0..MAXIMUM_CPUS, 0..64)) {
            let cpus: Vec<u32> = cpus.into_iter().collect();
            prop_assert_eq!(parse(&format(&cpus)), Some(cpus));
        }

        #[test]
        fn no_text_makes_the_parsers_panic(text in ".{0,40}") {
            let _ = (parse(&text), parse_mask(&text));
        }
    }
}
