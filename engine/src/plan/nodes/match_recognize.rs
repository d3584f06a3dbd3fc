//! MATCH_RECOGNIZE.

use serde::{Deserialize, Serialize};

use super::attributes::{Attributes, Scope, columns, order};
use crate::expr::Expression;
use crate::functions::{AfterMatch, MatchPattern, Navigation, PatternStep};
use crate::types::{LogicalType, Schema, SortKey};

/// Finds sequences of rows by a pattern. Output: the columns of PARTITION BY, then the measures.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct MatchNode {
    /// PARTITION BY.
    pub partition_by: Vec<usize>,
    /// ORDER BY: a time attribute, ascending, then any columns.
    pub order_by: Vec<SortKey>,
    /// Whether that is event time.
    pub is_event_time: bool,
    /// What is looked for.
    pub pattern: MatchPattern,
    /// The values of input columns that conditions and measures read as columns.
    pub navigations: Vec<(Navigation, LogicalType)>,
    /// The condition of each step of the pattern; `None`: any row.
    pub conditions: Vec<Option<Expression>>,
    /// The measures.
    pub measures: Vec<Expression>,
}

impl MatchNode {
    pub(crate) fn attributes(&self, scope: &Scope) -> Attributes {
        let input = scope.input();
        let mut attributes = Attributes::new();
        if !self.partition_by.is_empty() {
            attributes.push(("partitionBy", columns(input, &self.partition_by)));
        }
        attributes.push(("orderBy", order(input, &self.order_by)));
        let names = scope.output().names().skip(self.partition_by.len());
        let measures = self
            .measures
            .iter()
            .zip(names)
            .map(|(measure, name)| format!("{} AS {name}", self.shown(measure, input)));
        attributes.push(("measures", measures.collect::<Vec<_>>().join(", ")));
        attributes.push(("rowsPerMatch", "ONE ROW PER MATCH".to_string()));
        attributes.push(("after", self.after()));
        let steps: Vec<String> = self.pattern.steps.iter().map(shown_step).collect();
        attributes.push(("pattern", format!("({})", steps.join(" "))));
        if let Some(within) = self.pattern.within_ms {
            attributes.push(("within", format!("{within} ms")));
        }
        let steps = self.pattern.steps.iter().zip(&self.conditions);
        let conditions = steps.filter_map(|(step, condition)| {
            let condition = self.shown(condition.as_ref()?, input);
            Some(format!("{}={condition}", step.variable))
        });
        let conditions = conditions.collect::<Vec<_>>().join(", ");
        attributes.push(("define", format!("{{{conditions}}}")));
        attributes
    }

    fn after(&self) -> String {
        let variable = |step: usize| &self.pattern.steps[step].variable;
        match self.pattern.after_match {
            AfterMatch::PastLastRow => "SKIP PAST LAST ROW".to_string(),
            AfterMatch::ToNextRow => "SKIP TO NEXT ROW".to_string(),
            AfterMatch::ToFirst(step) => format!("SKIP TO FIRST {}", variable(step)),
            AfterMatch::ToLast(step) => format!("SKIP TO LAST {}", variable(step)),
        }
    }

    /// The expression with its columns named as what they stand for.
    fn shown(&self, expression: &Expression, input: &Schema) -> String {
        let named = expression.clone().transform(&mut |part| match part {
            Expression::Column {
                index,
                logical_type,
                ..
            } => Expression::Column {
                index,
                name: self.shown_navigation(&self.navigations[index].0, input),
                logical_type,
            },
            other => other,
        });
        named.to_string()
    }

    fn shown_navigation(&self, navigation: &Navigation, input: &Schema) -> String {
        let of = |variable: &Option<usize>, column: usize| {
            let name = &input.fields[column].name;
            match variable {
                Some(step) => format!("{}.{name}", self.pattern.steps[*step].variable),
                None => name.clone(),
            }
        };
        match navigation {
            Navigation::First {
                variable,
                column,
                offset,
            } => format!("FIRST({}, {offset})", of(variable, *column)),
            Navigation::Last {
                variable,
                column,
                offset,
            } => format!("LAST({}, {offset})", of(variable, *column)),
            Navigation::Aggregate { variable, call } => {
                let arguments = call.arguments.iter().map(|column| of(variable, *column));
                let arguments = arguments.collect::<Vec<_>>().join(", ");
                format!("{}({arguments})", call.function)
            }
        }
    }
}

fn shown_step(step: &PatternStep) -> String {
    let quantifier = match (step.least, step.most) {
        (1, Some(1)) => return step.variable.clone(),
        (0, None) => "*".to_string(),
        (1, None) => "+".to_string(),
        (0, Some(1)) => return format!("{}?", step.variable),
        (least, None) => format!("{{{least},}}"),
        (least, Some(most)) if least == most => return format!("{}{{{least}}}", step.variable),
        (least, Some(most)) => format!("{{{least},{most}}}"),
    };
    let reluctant = if step.greedy { "" } else { "?" };
    format!("{}{quantifier}{reluctant}", step.variable)
}
