//! Systems of linear equations over GF(2), solved incrementally, with detection of contradictions.

/// Bits of a key that hash a tuple: the windows of an IPv6 4-tuple end at bit 318.
pub(super) const KEY_BITS: usize = 320;

/// Initial values that are unknown, one for each kind of packet.
pub(super) const INITIALS: usize = 6;

/// Bits of a hash.
pub(super) const HASH_BITS: usize = 32;

const UNKNOWNS: usize = KEY_BITS + INITIALS * HASH_BITS;
const WORDS: usize = UNKNOWNS / 64 + 1;

/// One unknown bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unknown {
    /// Of the key, from its first byte's most significant bit on.
    Key(usize),
    /// Of an initial value: which kind of packet, and which bit, the least significant first.
    Initial(usize, usize),
}

impl Unknown {
    fn position(self) -> usize {
        match self {
            Unknown::Key(bit) => bit,
            Unknown::Initial(kind, bit) => KEY_BITS + kind * HASH_BITS + bit,
        }
    }
}

/// A sum of unknowns and its value; the value is stored after the last unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Equation([u64; WORDS]);

impl Equation {
    /// The sum of key bits for this bit of the hash of an input: bit 31, the first, uses the first bits of the windows.
    pub fn of_input(hashed: &[u8], bit: usize) -> Equation {
        let mut equation = Equation::default();
        for (at, byte) in hashed.iter().enumerate().filter(|(_, byte)| **byte != 0) {
            for within in (0..8).filter(|within| byte << within & 0x80 != 0) {
                equation.add(Unknown::Key(8 * at + within + 31 - bit));
            }
        }
        equation
    }

    /// Adds an unknown to the sum; a second time takes it out again.
    pub fn add(&mut self, unknown: Unknown) {
        let position = unknown.position();
        self.0[position / 64] ^= 1 << (position % 64);
    }

    /// Adds to the value of the sum.
    pub fn add_value(&mut self, value: bool) {
        self.0[UNKNOWNS / 64] ^= u64::from(value) << (UNKNOWNS % 64);
    }

    fn value(&self) -> bool {
        self.0[UNKNOWNS / 64] >> (UNKNOWNS % 64) & 1 == 1
    }

    /// The first unknown of the sum, by position.
    fn first(&self) -> Option<usize> {
        let words = self.0[..UNKNOWNS / 64].iter().enumerate();
        let mut set = words.filter(|(_, word)| **word != 0);
        set.next()
            .map(|(at, word)| at * 64 + word.trailing_zeros() as usize)
    }

    fn has(&self, position: usize) -> bool {
        self.0[position / 64] >> (position % 64) & 1 == 1
    }

    fn subtract(&mut self, other: &Equation) {
        for (word, other) in self.0.iter_mut().zip(other.0) {
            *word ^= other;
        }
    }
}

/// Equations in echelon form by their first unknown.
#[derive(Clone, Debug, Default)]
pub(super) struct System {
    /// For each unknown, the equation that begins with it, if any.
    pivots: Vec<Option<Equation>>,
    has_pivot: [u64; WORDS],
    /// Number of independent equations.
    pub rank: usize,
    /// Number of redundant equations: under a wrong model, each would contradict with a probability of one half.
    pub redundant: u64,
    contradicted: bool,
}

impl System {
    pub fn new() -> System {
        System {
            pivots: vec![None; UNKNOWNS],
            ..System::default()
        }
    }

    /// Adds an equation; false if it contradicts the earlier ones.
    pub fn take(&mut self, equation: Equation) -> bool {
        let left = self.reduced(equation);
        match left.first() {
            Some(first) => {
                self.pivots[first] = Some(left);
                self.has_pivot[first / 64] |= 1 << (first % 64);
                self.rank += 1;
            }
            None if left.value() => self.contradicted = true,
            None => self.redundant += 1,
        }
        !self.contradicted
    }

    /// Adds all equations of another system; false if they contradict each other.
    pub fn merge(&mut self, other: &System) -> bool {
        other.pivots.iter().flatten().all(|equation| self.take(*equation))
    }

    /// The value of a sum of unknowns, if it is determined.
    pub fn value_of(&self, sum: Equation) -> Option<bool> {
        let left = self.reduced(sum);
        left.first().is_none().then(|| left.value())
    }

    /// The value of one unknown, if it is determined.
    pub fn settled(&self, unknown: Unknown) -> Option<bool> {
        let mut sum = Equation::default();
        sum.add(unknown);
        self.value_of(sum)
    }

    /// One solution: free unknowns are zero.
    pub fn solution(&self) -> impl Fn(Unknown) -> bool + use<> {
        let mut values = vec![false; UNKNOWNS];
        for (position, pivot) in self.pivots.iter().enumerate().rev() {
            let Some(equation) = pivot else { continue };
            let rest = (position + 1..UNKNOWNS).filter(|other| equation.has(*other) && values[*other]);
            values[position] = equation.value() ^ (rest.count() % 2 == 1);
        }
        move |unknown: Unknown| values[unknown.position()]
    }

    fn reduced(&self, mut equation: Equation) -> Equation {
        for word in 0..WORDS - 1 {
            loop {
                let hit = equation.0[word] & self.has_pivot[word];
                if hit == 0 {
                    break;
                }
                let position = word * 64 + hit.trailing_zeros() as usize;
                let pivot = self.pivots[position].as_ref();
                equation.subtract(pivot.expect("has_pivot says that there is one"));
            }
        }
        equation
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn equation(unknowns: &[usize], value: bool) -> Equation {
        let mut equation = Equation::default();
        for bit in unknowns {
            equation.add(Unknown::Key(*bit));
        }
        equation.add_value(value);
        equation
    }

    #[test]
    fn what_follows_is_settled_and_what_does_not_is_not() {
        let mut system = System::new();
        assert!(system.take(equation(&[3, 7], true)));
        assert!(system.take(equation(&[7, 319], false)));
        assert_eq!(system.settled(Unknown::Key(3)), None);
        assert_eq!(system.value_of(equation(&[3, 319], false)), Some(true));
        assert!(system.take(equation(&[319], true)));
        assert_eq!(system.settled(Unknown::Key(3)), Some(false));
        assert_eq!((system.rank, system.redundant), (3, 0));
        assert!(system.take(equation(&[3], false)));
        assert_eq!(system.redundant, 1);
        assert!(!system.take(equation(&[7], false)));
    }

    #[test]
    fn a_solution_solves_every_equation() {
        let mut system = System::new();
        let equations = [
            equation(&[0, 1, 2], true),
            equation(&[1, 5], true),
            equation(&[2, 5, 9], false),
        ];
        for equation in equations {
            system.take(equation);
        }
        let solution = system.solution();
        for (unknowns, value) in [
            ([0, 1, 2].to_vec(), true),
            (vec![1, 5], true),
            (vec![2, 5, 9], false),
        ] {
            let sum = unknowns
                .iter()
                .filter(|bit| solution(Unknown::Key(**bit)))
                .count();
            assert_eq!(sum % 2 == 1, value);
        }
    }
}
