//! Which casts exist: the implicit ones, which lose nothing, and the explicit ones, which the user must write.

use crate::error::{Error, Result};
use crate::types::{LogicalType, TypeRoot};

/// Whether a value of `from` may stand where `to` is wanted without a written CAST.
pub(crate) fn supports_implicit(from: &TypeRoot, to: &TypeRoot) -> bool {
    use TypeRoot::*;
    if from == to || *from == Null {
        return true;
    }
    match (from, to) {
        (Char(_), Char(_)) | (Binary(_), Binary(_)) => true,
        (from, Varchar(_)) => from.is_string(),
        (from, Varbinary(_)) => from.is_binary(),
        (from, Decimal { .. } | Double) => from.is_numeric(),
        (from, Float) => from.is_numeric() && *from != Double,
        (from, to) if from.is_integer() && to.is_integer() => from.as_decimal() <= to.as_decimal(),
        (Timestamp(_), Date | Time(_)) => true,
        (Time(_), Time(_)) => true,
        (Timestamp(_) | TimestampLtz(_), Timestamp(_) | TimestampLtz(_)) => true,
        _ => nested(from, to, supports_implicit),
    }
}

/// Applies a rule to the elements, keys and fields of two types of the same kind.
fn nested(from: &TypeRoot, to: &TypeRoot, rule: fn(&TypeRoot, &TypeRoot) -> bool) -> bool {
    match (from, to) {
        (TypeRoot::Array(from), TypeRoot::Array(to))
        | (TypeRoot::Multiset(from), TypeRoot::Multiset(to)) => rule(&from.root, &to.root),
        (TypeRoot::Map(from_key, from_value), TypeRoot::Map(to_key, to_value)) => {
            rule(&from_key.root, &to_key.root) && rule(&from_value.root, &to_value.root)
        }
        (TypeRoot::Row(from), TypeRoot::Row(to)) => {
            from.len() == to.len()
                && from
                    .iter()
                    .zip(to)
                    .all(|(from, to)| rule(&from.logical_type.root, &to.logical_type.root))
        }
        _ => false,
    }
}

/// Whether CAST may be written.
fn supports_explicit(from: &TypeRoot, to: &TypeRoot) -> bool {
    use TypeRoot::*;
    if supports_implicit(from, to) {
        return true;
    }
    match (from, to) {
        (_, Char(_) | Varchar(_)) => true,
        (from, Boolean) => from.is_string() || from.is_numeric(),
        (from, Binary(_) | Varbinary(_)) => from.is_string() || from.is_binary(),
        (from, to) if to.is_numeric() => from.is_string() || from.is_numeric() || *from == Boolean,
        (from, Date) => from.is_string() || from.is_timestamp(),
        (from, Time(_)) => from.is_string() || from.is_timestamp(),
        (from, Timestamp(_) | TimestampLtz(_)) => {
            from.is_string() || matches!(from, Date | Time(_))
        }
        _ => nested(from, to, supports_explicit),
    }
}

/// Fails where no cast exists from one type to the other.
pub(crate) fn check_explicit(from: &LogicalType, to: &LogicalType) -> Result<()> {
    if supports_explicit(&from.root, &to.root) {
        Ok(())
    } else {
        Err(no_cast(from, to))
    }
}

/// The error that refuses a cast.
pub(super) fn no_cast(from: &LogicalType, to: &LogicalType) -> Error {
    let error = Error::user(format!(
        "there is no cast from {} to {}",
        from.root, to.root
    ));
    if from.root.is_timestamp() && to.root.is_numeric() {
        error.hint("UNIX_TIMESTAMP(CAST(ts AS STRING)) gives the seconds since 1970")
    } else if from.root.is_numeric() && to.root.is_timestamp() {
        error.hint(
            "TO_TIMESTAMP_LTZ(n, 3) reads milliseconds since 1970, TO_TIMESTAMP_LTZ(n, 0) seconds",
        )
    } else {
        error
    }
}

/// Whether CAST from one type to the other may fail on a value.
pub(crate) fn can_fail(from: &TypeRoot, to: &TypeRoot) -> bool {
    use TypeRoot::*;
    match (from, to) {
        (from, to) if from == to => false,
        (Null, _) => false,
        (_, to) if to.is_string() || to.is_binary() => false,
        (from, _) if from.is_string() => true,
        (from, Decimal { .. }) => from.is_approximate(),
        (from, to) if from.is_numeric() && to.is_numeric() => false,
        (Boolean, _) | (_, Boolean) => false,
        (Date | Timestamp(_) | TimestampLtz(_) | Time(_), Timestamp(p) | TimestampLtz(p)) => *p > 3,
        (Date | Timestamp(_) | TimestampLtz(_), Date | Time(_)) => false,
        (Time(_), Time(_)) => false,
        (from, to) => nested(from, to, can_fail) || !nested(from, to, |_, _| true),
    }
}
