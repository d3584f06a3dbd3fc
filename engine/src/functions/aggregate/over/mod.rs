//! Aggregates with OVER: a result for every row, over a frame that rows enter and leave in the order they came.
//!
//! An operator writes down what happens as a [`OverScript`]: for each group in turn, rows that are added, rows that are
//! removed, and the moments at which a result is wanted. Each function then plays the whole script over its typed column in one
//! loop. Since rows leave in the order in which they came, no function needs more than a queue: MIN and MAX keep only
//! those values that may still be the best, FIRST_VALUE and LAG refer to values in a pool, DISTINCT counts references.
//!
//! A function over an unbounded frame never removes; its states can be saved and loaded. The states of bounded frames are made
//! again from the rows of the frame.

mod distinct;
mod extreme;
mod listagg;
mod number;
mod ranking;
mod script;
mod spread;
#[cfg(test)]
mod tests;
mod value;

use arrow::array::{Array, ArrayRef, AsArray, BooleanBufferBuilder};
use arrow::buffer::{BooleanBuffer, NullBuffer};

use self::distinct::DistinctFunction;
use self::extreme::extreme;
use self::listagg::ListaggFunction;
use self::number::{CountFunction, number};
use self::ranking::{Ranking, RankingFunction};
use self::script::Counted;
pub use self::script::OverScript;
use self::spread::SpreadFunction;
use self::value::{ValueFunction, ValueKind};
use crate::error::{Error, Result};
use crate::functions::AggregateCall;
use crate::state::Groups;

/// Whether rows ever leave the frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameKind {
    /// All rows before the current one.
    Unbounded,
    /// Rows leave, in the order in which they came.
    Bounded,
}

/// The states of one function for many groups.
trait OverFunction: Send {
    /// Makes room for the groups `0 .. groups`; new ones are empty.
    fn grow(&mut self, groups: usize);

    /// Plays the script; gives one result for each time that one is wanted.
    fn run(&mut self, script: &OverScript, rows: &FunctionRows) -> Result<ArrayRef>;

    /// Empties groups.
    fn reset(&mut self, groups: &[u32]);

    /// The states of groups as columns. Only for unbounded frames.
    fn save(&self, groups: &Groups) -> Result<Vec<ArrayRef>>;

    /// Takes states back into empty groups.
    fn load(&mut self, ids: &[u32], saved: &[ArrayRef]) -> Result<()>;

    /// How many columns [`OverFunction::save`] gives.
    fn saved_columns(&self) -> usize {
        1
    }

    /// Bytes held.
    fn size_bytes(&self) -> usize;
}

/// What a function reads: its arguments, a row for each row of the script, and which of them count.
struct FunctionRows<'a> {
    arguments: &'a [ArrayRef],
    counted: Counted<'a>,
}

/// All functions of an OVER: the calls over some columns, with their states.
pub struct OverFunctions {
    calls: Vec<AggregateCall>,
    functions: Vec<Box<dyn OverFunction>>,
}

impl OverFunctions {
    /// The functions of `calls`, whose arguments and filters are positions in what [`OverFunctions::run`] is given. Fails where a
    /// function does not exist or cannot lose rows.
    pub fn new(calls: Vec<AggregateCall>, frame: FrameKind) -> Result<Self> {
        let functions = calls.iter().map(|call| function(call, frame));
        Ok(OverFunctions {
            functions: functions.collect::<Result<_>>()?,
            calls,
        })
    }

    /// Makes room for the groups `0 .. groups`.
    pub fn grow(&mut self, groups: usize) {
        self.functions
            .iter_mut()
            .for_each(|function| function.grow(groups));
    }

    /// Plays a script over columns with a row for each of its rows: for each call one result whenever one is wanted.
    pub fn run(&mut self, script: &OverScript, columns: &[ArrayRef]) -> Result<Vec<ArrayRef>> {
        let calls = self.calls.iter().zip(&mut self.functions);
        calls
            .map(|(call, function)| {
                let arguments: Vec<ArrayRef> = call
                    .arguments
                    .iter()
                    .map(|column| columns[*column].clone())
                    .collect();
                let filter = call.filter.map(|column| &columns[column]);
                let counted = counted_rows(call, &arguments, filter);
                function.run(
                    script,
                    &FunctionRows {
                        arguments: &arguments,
                        counted: counted.as_ref().map_or(Counted::All, Counted::Rows),
                    },
                )
            })
            .collect()
    }

    /// Empties groups.
    pub fn reset(&mut self, groups: &[u32]) {
        self.functions
            .iter_mut()
            .for_each(|function| function.reset(groups));
    }

    /// The states of groups as columns; for unbounded frames.
    pub fn save(&self, groups: &Groups) -> Result<Vec<ArrayRef>> {
        let saved = self.functions.iter().map(|function| function.save(groups));
        Ok(saved.collect::<Result<Vec<_>>>()?.concat())
    }

    /// Takes states back into empty groups.
    pub fn load(&mut self, ids: &[u32], saved: &[ArrayRef]) -> Result<()> {
        let mut rest = saved;
        for function in &mut self.functions {
            let (mine, others) = rest.split_at(function.saved_columns());
            function.load(ids, mine)?;
            rest = others;
        }
        Ok(())
    }

    /// Bytes held.
    pub fn size_bytes(&self) -> usize {
        self.functions
            .iter()
            .map(|function| function.size_bytes())
            .sum()
    }
}

fn function(call: &AggregateCall, frame: FrameKind) -> Result<Box<dyn OverFunction>> {
    let name = call.function.as_str();
    // A value that comes twice is no smaller or greater, no earlier or later.
    let repeats_matter = !matches!(name, "MIN" | "MAX" | "FIRST_VALUE" | "LAST_VALUE");
    if !call.distinct || (!repeats_matter && frame == FrameKind::Unbounded) {
        return plain(call, frame);
    }
    match name {
        "MIN" | "MAX" => plain(call, frame),
        "FIRST_VALUE" | "LAST_VALUE" | "LISTAGG" if frame == FrameKind::Bounded => Err(
            Error::unsupported(format!("{name}(DISTINCT …) over a bounded frame")),
        ),
        _ => {
            let inner = plain(call, frame)?;
            Ok(Box::new(DistinctFunction::new(call, inner)?))
        }
    }
}

/// The function of a call. DISTINCT is not its matter.
fn plain(call: &AggregateCall, frame: FrameKind) -> Result<Box<dyn OverFunction>> {
    let argument = call.argument_types.first();
    let name = call.function.as_str();
    let ranking = match name {
        "ROW_NUMBER" => Some(Ranking::RowNumber),
        "RANK" => Some(Ranking::Rank),
        "DENSE_RANK" => Some(Ranking::DenseRank),
        _ => None,
    };
    if let Some(ranking) = ranking {
        return Ok(Box::new(RankingFunction::new(ranking)));
    }
    let argument = match (name, argument) {
        ("COUNT", _) => return Ok(Box::new(CountFunction::default())),
        (_, Some(argument)) => argument,
        _ => return Err(Error::internal(format!("{name} without an argument"))),
    };
    let value = |kind| ValueFunction::new(kind, &argument.to_arrow(), frame);
    Ok(match name {
        "SUM" | "AVG" | "$SUM0" => number(call, argument, frame)?,
        "MIN" | "MAX" => extreme(&argument.to_arrow(), name == "MAX", frame)?,
        "VAR_POP" | "VAR_SAMP" | "STDDEV_POP" | "STDDEV_SAMP" => {
            Box::new(SpreadFunction::new(name, call.logical_type.to_arrow()))
        }
        "FIRST_VALUE" => Box::new(value(ValueKind::First)),
        "LAST_VALUE" => Box::new(value(ValueKind::Last)),
        "LAG" => Box::new(value(ValueKind::Lag)),
        "LISTAGG" => Box::new(ListaggFunction::default()),
        _ => return Err(Error::unsupported(format!("{name} with OVER"))),
    })
}

/// The rows where the filter is TRUE and no argument is NULL; `None` where that is all of them.
fn counted_rows(
    call: &AggregateCall,
    arguments: &[ArrayRef],
    filter: Option<&ArrayRef>,
) -> Option<BooleanBuffer> {
    let not_null = match call.function.as_str() {
        "LAG" => &[],
        "LISTAGG" => &arguments[..1],
        _ => arguments,
    };
    let mut counted = filter.map(|filter| {
        let filter = filter.as_boolean();
        match filter.nulls() {
            Some(nulls) => filter.values() & nulls.inner(),
            None => filter.values().clone(),
        }
    });
    for nulls in not_null
        .iter()
        .filter_map(|argument| argument.logical_nulls())
        .filter(|nulls| nulls.null_count() > 0)
    {
        counted = Some(match counted {
            None => nulls.inner().clone(),
            Some(counted) => &counted & nulls.inner(),
        });
    }
    counted
}

/// Which results are valid, collected one by one.
struct Validity {
    bits: BooleanBufferBuilder,
    nulls: bool,
}

impl Validity {
    fn with_capacity(capacity: usize) -> Self {
        Validity {
            bits: BooleanBufferBuilder::new(capacity),
            nulls: false,
        }
    }

    #[inline(always)]
    fn push(&mut self, valid: bool) {
        self.nulls |= !valid;
        self.bits.append(valid);
    }

    fn finish(mut self) -> Option<NullBuffer> {
        self.nulls.then(|| NullBuffer::new(self.bits.finish()))
    }
}
