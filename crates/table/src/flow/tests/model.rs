//! Checks the protocol in every interleaving of one reader and the writer, over two lines and two records. The code is
//! the production code; the words are those of the model checker.

use super::super::FlowKey;
use super::super::protocol::Flows;
use crate::cuckoo::{ModelTable, ModelWord, Place, model_key};
use crate::memory::Baseline;
use loom::sync::Arc;
use loom::thread;

type ModelFlows<'a> = Flows<'a, ModelWord, 2>;

struct Memory {
    index: ModelTable,
    records: Vec<ModelWord>,
}

impl Memory {
    fn flows(&self) -> ModelFlows<'_> {
        Flows {
            index: self.index.cuckoo(),
            records: &self.records,
        }
    }
}

fn place(number: usize) -> Place {
    model_key(0, 1, number)
}

fn remove(flows: &ModelFlows<'_>, overflowed: &mut [u8], number: usize, key: FlowKey<2>) {
    let (location, _) = flows.locate(&place(number), &key).unwrap();
    flows.index.remove(overflowed, &location);
}

/// One flow is there; `write` changes the table while another thread looks up `asked`, as a batch does, at the place of
/// flow `number`.
fn check(
    (number, asked): (usize, FlowKey<2>),
    right: fn(Option<u32>) -> bool,
    write: fn(ModelFlows<'_>, &mut [u8]),
) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(move || {
        let words = (0..2 * ModelFlows::STRIDE).map(|_| ModelWord::new(0)).collect();
        let memory = Arc::new(Memory {
            index: ModelTable::new(),
            records: words,
        });
        let mut overflowed = [0; 2];
        memory
            .flows()
            .insert(&mut overflowed, &place(0), 1, (OLD, 1))
            .unwrap();
        let reader = {
            let memory = Arc::clone(&memory);
            thread::spawn(move || {
                let flows = memory.flows();
                let before = flows.index.moves();
                let first = flows.look_first::<Baseline>(&place(number), before);
                let answer = flows.look_again(&place(number), &asked, first, before);
                assert!(right(answer), "{answer:?}");
            })
        };
        write(memory.flows(), &mut overflowed);
        reader.join().unwrap();
    });
}

const OLD: FlowKey<2> = FlowKey([1, 1]);
const NEW: FlowKey<2> = FlowKey([2, 2]);

/// The record of the old flow becomes the new flow's, whose place is another.
fn change_hands(flows: ModelFlows<'_>, overflowed: &mut [u8]) {
    remove(&flows, overflowed, 0, OLD);
    flows.insert(overflowed, &place(1), 1, (NEW, 2)).unwrap();
}

#[test]
fn a_record_that_changes_hands_shows_neither_flow_the_value_of_the_other() {
    check((0, OLD), |answer| matches!(answer, Some(1) | None), change_hands);
    check((1, NEW), |answer| matches!(answer, Some(2) | None), change_hands);
}

#[test]
fn a_flow_made_of_words_of_two_others_is_never_present() {
    for number in [0, 1] {
        for words in [[1, 2], [2, 1]] {
            check((number, FlowKey(words)), |answer| answer.is_none(), change_hands);
        }
    }
}

#[test]
fn an_update_shows_the_old_or_the_new_value() {
    check(
        (0, OLD),
        |answer| matches!(answer, Some(1 | 2)),
        |flows, _| {
            let (location, _) = flows.locate(&place(0), &OLD).unwrap();
            flows.set_value(&location, 2);
        },
    );
}
