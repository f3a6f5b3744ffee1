//! A request as its words and its value, so that it can be malformed.

/// A request that is being generated.
#[derive(Clone, Debug, Default)]
pub struct Draft {
    pub words: Vec<Vec<u8>>,
    pub value: Option<Vec<u8>>,
    /// Whether its line ends without a carriage return.
    pub is_bare: bool,
}

impl Draft {
    /// A request that begins with this word.
    pub fn new(command: &str) -> Self {
        Self::default().word(command)
    }

    /// Appends a word.
    pub fn word(mut self, word: impl AsRef<[u8]>) -> Self {
        self.words.push(word.as_ref().to_vec());
        self
    }

    /// Sets the value; its length is a word of its own.
    pub fn with_value(mut self, value: Vec<u8>) -> Self {
        self.value = Some(value);
        self
    }

    /// Its line without the end.
    pub fn line(&self) -> Vec<u8> {
        self.words.join(&b' ')
    }

    /// What is sent.
    pub fn bytes(&self) -> Vec<u8> {
        let end: &[u8] = if self.is_bare { b"\n" } else { b"\r\n" };
        let mut bytes = [&self.line(), end].concat();
        if let Some(value) = &self.value {
            bytes.extend_from_slice(value);
            bytes.extend_from_slice(b"\r\n");
        }
        bytes
    }
}
