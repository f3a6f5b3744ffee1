//! Choices that specifications name: one table of names for each, read both ways.

/// One of a few values with names.
pub(crate) trait Choice: Copy + PartialEq + 'static {
    /// Every value with its name.
    const NAMES: &'static [(Self, &'static str)];

    fn of_name(name: &str) -> Option<Self> {
        let named = Self::NAMES.iter().find(|(_, known)| *known == name);
        named.map(|(value, _)| *value)
    }

    fn name(self) -> &'static str {
        let named = Self::NAMES.iter().find(|(value, _)| *value == self);
        named.map_or("", |(_, name)| name)
    }

    /// All names, for who gave another one: `auto, copy or zerocopy`.
    fn names() -> String {
        let names: Vec<&str> = Self::NAMES.iter().map(|(_, name)| *name).collect();
        match names.split_last() {
            Some((last, others)) => format!("{} or {last}", others.join(", ")),
            None => String::new(),
        }
    }
}
