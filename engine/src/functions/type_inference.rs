//! Which type several types have in common, and the result types of arithmetic, as Flink derives them.

use crate::expr::decimal::MAX_PRECISION;
use crate::types::{LogicalType, RowField, TypeRoot};

/// The least restrictive type: the one to which all of `types` can be cast implicitly, nullable where one of them is. `None`
/// where there is none, such as for INT and STRING.
pub fn common_type(types: &[LogicalType]) -> Option<LogicalType> {
    let nullable = types
        .iter()
        .any(|logical_type| logical_type.nullable || logical_type.root == TypeRoot::Null);
    let mut root: Option<TypeRoot> = None;
    for logical_type in types {
        root = Some(match root {
            None => logical_type.root.clone(),
            Some(root) => common_root(&root, &logical_type.root)?,
        });
    }
    Some(LogicalType {
        root: root?,
        nullable,
    })
}

/// The least restrictive type of two.
pub(crate) fn common_root(left: &TypeRoot, right: &TypeRoot) -> Option<TypeRoot> {
    use TypeRoot::*;
    if left == right {
        return Some(left.clone());
    }
    Some(match (left, right) {
        (Null, other) | (other, Null) => other.clone(),
        (left, right) if left.is_numeric() && right.is_numeric() => common_number(left, right),
        (left, right) if left.is_string() && right.is_string() => {
            Varchar(length(left).max(length(right)))
        }
        (left, right) if left.is_binary() && right.is_binary() => {
            Varbinary(length(left).max(length(right)))
        }
        (Time(left), Time(right)) => Time(*left.max(right)),
        (Timestamp(left), Timestamp(right)) => Timestamp(*left.max(right)),
        (TimestampLtz(left), TimestampLtz(right))
        | (Timestamp(left), TimestampLtz(right))
        | (TimestampLtz(left), Timestamp(right)) => TimestampLtz(*left.max(right)),
        (Array(left), Array(right)) => Array(Box::new(common(left, right)?)),
        (Multiset(left), Multiset(right)) => Multiset(Box::new(common(left, right)?)),
        (Map(left_key, left_value), Map(right_key, right_value)) => Map(
            Box::new(common(left_key, right_key)?),
            Box::new(common(left_value, right_value)?),
        ),
        (Row(left), Row(right)) if left.len() == right.len() => Row(left
            .iter()
            .zip(right)
            .map(|(left, right)| {
                Some(RowField {
                    name: left.name.clone(),
                    logical_type: common(&left.logical_type, &right.logical_type)?,
                })
            })
            .collect::<Option<_>>()?),
        _ => return None,
    })
}

fn common(left: &LogicalType, right: &LogicalType) -> Option<LogicalType> {
    common_type(&[left.clone(), right.clone()])
}

fn length(root: &TypeRoot) -> u32 {
    match root {
        TypeRoot::Char(n) | TypeRoot::Varchar(n) => *n,
        TypeRoot::Binary(n) | TypeRoot::Varbinary(n) => *n,
        _ => 0,
    }
}

/// Any DOUBLE, or FLOAT beside DECIMAL: DOUBLE. FLOAT beside integers: FLOAT. DECIMAL beside exact numbers: the DECIMAL that
/// holds both. Integers: the wider one.
fn common_number(left: &TypeRoot, right: &TypeRoot) -> TypeRoot {
    use TypeRoot::*;
    if left.is_approximate() || right.is_approximate() {
        let is_float = |root: &TypeRoot| *root == Float || root.is_integer();
        return if is_float(left) && is_float(right) {
            Float
        } else {
            Double
        };
    }
    let (p1, s1) = left.as_decimal().expect("exact numbers are decimals");
    let (p2, s2) = right.as_decimal().expect("exact numbers are decimals");
    if left.is_integer() && right.is_integer() {
        return if p1 >= p2 {
            left.clone()
        } else {
            right.clone()
        };
    }
    let scale = s1.max(s2);
    let whole = (p1 - s1).max(p2 - s2);
    Decimal {
        precision: (whole + scale).min(MAX_PRECISION),
        scale,
    }
}

/// The type of `left sign right` for the signs `+ - * / %`, where both are numbers.
pub(crate) fn arithmetic_type(sign: &str, left: &TypeRoot, right: &TypeRoot) -> TypeRoot {
    let is_decimal = |root: &TypeRoot| matches!(root, TypeRoot::Decimal { .. });
    let has_decimal = is_decimal(left) || is_decimal(right);
    match (left.as_decimal(), right.as_decimal()) {
        (Some(left), Some(right)) if has_decimal => decimal_type(sign, left, right),
        _ if sign == "%" => right.clone(),
        _ => common_number(left, right),
    }
}

fn decimal_type(sign: &str, (p1, s1): (u8, u8), (p2, s2): (u8, u8)) -> TypeRoot {
    let (p1, s1, p2, s2) = (p1 as i32, s1 as i32, p2 as i32, s2 as i32);
    let (precision, scale) = match sign {
        "*" => (p1 + p2 + 1, s1 + s2),
        "/" => {
            let scale = (s1 + p2 + 1).max(6);
            (p1 - s1 + s2 + scale, scale)
        }
        "%" => {
            let scale = s1.max(s2);
            ((p1 - s1).min(p2 - s2) + scale, scale)
        }
        _ => {
            let scale = s1.max(s2);
            ((p1 - s1).max(p2 - s2) + scale + 1, scale)
        }
    };
    adjust(precision, scale)
}

/// A DECIMAL of at most 38 digits: the digits before the point are kept, the scale shrinks, but not below 6 (or itself).
fn adjust(precision: i32, scale: i32) -> TypeRoot {
    let max = MAX_PRECISION as i32;
    let (precision, scale) = if precision <= max {
        (precision, scale)
    } else {
        let whole = precision - scale;
        (max, (max - whole).max(scale.min(6)))
    };
    TypeRoot::Decimal {
        precision: precision.max(1) as u8,
        scale: scale as u8,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decimal(precision: u8, scale: u8) -> TypeRoot {
        TypeRoot::Decimal { precision, scale }
    }

    #[test]
    fn decimal_results_follow_flink() {
        let d = decimal(3, 2);
        assert_eq!(arithmetic_type("/", &d, &d), decimal(9, 6));
        assert_eq!(
            arithmetic_type("+", &decimal(10, 2), &TypeRoot::Int),
            decimal(13, 2)
        );
        assert_eq!(
            arithmetic_type("*", &decimal(10, 2), &decimal(5, 1)),
            decimal(16, 3)
        );
        assert_eq!(
            arithmetic_type("*", &decimal(38, 10), &decimal(38, 10)),
            decimal(38, 6)
        );
        assert_eq!(
            arithmetic_type("%", &decimal(10, 2), &decimal(5, 1)),
            decimal(6, 2)
        );
        assert_eq!(
            arithmetic_type("-", &decimal(5, 1), &TypeRoot::Double),
            TypeRoot::Double
        );
    }

    #[test]
    fn integers_widen_and_floats_stay_floats() {
        use TypeRoot::*;
        assert_eq!(arithmetic_type("+", &TinyInt, &TinyInt), TinyInt);
        assert_eq!(arithmetic_type("*", &Int, &BigInt), BigInt);
        assert_eq!(arithmetic_type("%", &BigInt, &Int), Int);
        assert_eq!(common_root(&Float, &BigInt), Some(Float));
        assert_eq!(common_root(&Float, &decimal(5, 2)), Some(Double));
        assert_eq!(common_root(&Int, &TypeRoot::STRING), None);
        assert_eq!(common_root(&Char(3), &Char(5)), Some(Varchar(5)));
        assert_eq!(
            common_root(&Timestamp(3), &Timestamp(6)),
            Some(Timestamp(6))
        );
    }

    #[test]
    fn null_takes_the_other_type_and_makes_it_nullable() {
        let types = [
            LogicalType::not_null(TypeRoot::Int),
            LogicalType::nullable(TypeRoot::Null),
        ];
        assert_eq!(common_type(&types), Some(LogicalType::INT));
    }
}
