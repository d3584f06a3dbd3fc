//! LISTAGG: the texts of the frame, joined by the separator (default `,`).

use std::collections::VecDeque;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, ListArray, StringArray, StringBuilder};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::Field;

use super::{FunctionRows, OverFunction, OverScript};
use crate::error::Result;
use crate::state::Groups;

/// The texts of each group, each with the separator before it.
#[derive(Default)]
pub(super) struct ListaggFunction {
    texts: Vec<VecDeque<Text>>,
}

#[derive(Clone)]
struct Text {
    separator: Box<str>,
    text: Box<str>,
}

fn join(texts: &VecDeque<Text>) -> Option<String> {
    let mut texts = texts.iter();
    let mut joined = texts.next()?.text.to_string();
    for next in texts {
        joined.push_str(&next.separator);
        joined.push_str(&next.text);
    }
    Some(joined)
}

impl OverFunction for ListaggFunction {
    fn grow(&mut self, groups: usize) {
        self.texts.resize(groups, VecDeque::new());
    }

    fn run(&mut self, script: &OverScript, rows: &FunctionRows) -> Result<ArrayRef> {
        let texts = rows.arguments[0].as_string::<i32>();
        let separators = rows
            .arguments
            .get(1)
            .map(|column| column.as_string::<i32>());
        let mut results = StringBuilder::new();
        script.play(
            &mut self.texts,
            rows.counted,
            |state, row| {
                state.push_back(Text {
                    separator: separators.map_or(",", |column| column.value(row)).into(),
                    text: texts.value(row).into(),
                })
            },
            |state, _| drop(state.pop_front()),
            |state| results.append_option(join(state)),
        );
        Ok(Arc::new(results.finish()))
    }

    fn reset(&mut self, groups: &[u32]) {
        for group in groups {
            self.texts[*group as usize] = VecDeque::new();
        }
    }

    fn save(&self, groups: &Groups) -> Result<Vec<ArrayRef>> {
        let lists = groups.map(|group| &self.texts[group]);
        let of = |part: fn(&Text) -> &str| -> Result<ArrayRef> {
            let texts = lists.iter().copied().flatten().map(part);
            let texts = StringArray::from_iter_values(texts);
            let field = Arc::new(Field::new("item", texts.data_type().clone(), true));
            let offsets = OffsetBuffer::from_lengths(lists.iter().map(|list| list.len()));
            Ok(Arc::new(ListArray::try_new(
                field,
                offsets,
                Arc::new(texts),
                None,
            )?))
        };
        Ok(vec![of(|text| &text.text)?, of(|text| &text.separator)?])
    }

    fn load(&mut self, ids: &[u32], saved: &[ArrayRef]) -> Result<()> {
        let (texts, separators) = (saved[0].as_list::<i32>(), saved[1].as_list::<i32>());
        for (row, id) in ids.iter().enumerate() {
            let (texts, separators) = (texts.value(row), separators.value(row));
            let texts = texts.as_string::<i32>().iter().flatten();
            let separators = separators.as_string::<i32>().iter().flatten();
            self.texts[*id as usize] = texts
                .zip(separators)
                .map(|(text, separator)| Text {
                    separator: separator.into(),
                    text: text.into(),
                })
                .collect();
        }
        Ok(())
    }

    fn saved_columns(&self) -> usize {
        2
    }

    fn size_bytes(&self) -> usize {
        let texts = self.texts.iter().flatten();
        texts
            .map(|text| size_of::<Text>() + text.separator.len() + text.text.len())
            .sum()
    }
}
