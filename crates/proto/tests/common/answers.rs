//! The content of responses, read by the response parser and by `httparse`.

use corelane_proto::http::response::{Deviations, Item, Parser, ResponseError, Version};

/// The content of one response.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Answer {
    pub informational: Vec<u16>,
    pub status: u16,
    pub minor: u8,
    pub reason: Vec<u8>,
    pub fields: Vec<(Vec<u8>, Vec<u8>)>,
    pub keep_alive: bool,
    pub body: Vec<u8>,
    pub deviations: Deviations,
}

/// The responses in `input`, which is passed in pieces that end at `cuts`, followed by the end of the stream.
pub fn answers(input: &[u8], cuts: &[usize], to_head: bool) -> Result<Vec<Answer>, ResponseError> {
    let mut parser = Parser::default();
    parser.expect_no_body(to_head);
    answers_of(parser, input, cuts)
}

/// The responses as a parser that tolerates deviations reads them.
pub fn tolerated(input: &[u8], cuts: &[usize], to_head: bool) -> Result<Vec<Answer>, ResponseError> {
    let mut parser = Parser::default();
    parser.tolerate(true);
    parser.expect_no_body(to_head);
    answers_of(parser, input, cuts)
}

fn answers_of(mut parser: Parser, input: &[u8], cuts: &[usize]) -> Result<Vec<Answer>, ResponseError> {
    let (mut answers, mut answer) = (Vec::new(), Answer::default());
    let mut start = 0;
    for end in cuts.iter().copied().chain([input.len()]) {
        let mut rest = &input[start..end];
        loop {
            let (used, item) = parser.feed(rest)?;
            rest = &rest[used..];
            match item {
                None => break,
                Some(Item::End) => {
                    answer.deviations = parser.deviations();
                    answers.push(std::mem::take(&mut answer));
                }
                Some(item) => take(item, &mut answer),
            }
        }
        assert!(rest.is_empty(), "with no item, every byte was used");
        start = end;
    }
    if let Some(Item::End) = parser.finish()? {
        answer.deviations = parser.deviations();
        answers.push(answer);
    }
    Ok(answers)
}

fn take(item: Item<'_>, answer: &mut Answer) {
    match item {
        Item::Informational(status) => answer.informational.push(status),
        Item::Head(head) => {
            answer.status = head.status;
            answer.minor = u8::from(head.version == Version::Http11);
            answer.reason = head.reason.to_vec();
            answer.fields = head
                .fields
                .clone()
                .map(|(name, value)| (name.to_vec(), value.to_vec()))
                .collect();
            answer.keep_alive = head.keep_alive;
        }
        Item::Body(bytes) => {
            assert!(!bytes.is_empty());
            answer.body.extend_from_slice(bytes);
        }
        Item::End => unreachable!("the caller takes ends"),
    }
}

/// The head of the response at the start of `input`, as `httparse` reads it, and its length.
pub fn httparse_head(input: &[u8]) -> Result<Option<(Answer, usize)>, httparse::Error> {
    let mut space = [httparse::EMPTY_HEADER; 64];
    let mut response = httparse::Response::new(&mut space);
    let httparse::Status::Complete(length) = response.parse(input)? else {
        return Ok(None);
    };
    let answer = Answer {
        status: response.code.unwrap(),
        minor: response.version.unwrap(),
        reason: response.reason.unwrap().as_bytes().to_vec(),
        fields: (response.headers.iter())
            .map(|field| (field.name.as_bytes().to_vec(), field.value.to_vec()))
            .collect(),
        ..Answer::default()
    };
    Ok(Some((answer, length)))
}
