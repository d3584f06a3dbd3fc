//! What encoding and decoding agree on about types.

use arrow::datatypes::DataType;

/// How the values of a type are laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Layout {
    /// None at all: a NULL of no type.
    Nothing,
    /// Bits.
    Bits,
    /// So many bytes each.
    Fixed(usize),
    /// Lengths and bytes.
    Bytes,
    /// Lengths and elements: a list or a map.
    List,
    /// So many elements each.
    FixedList(usize),
    /// Columns.
    Struct,
    /// Values by number; stored as the values.
    Dictionary,
}

/// The layout of a type; `None` where it cannot be encoded.
pub(super) fn layout(data_type: &DataType) -> Option<Layout> {
    Some(match data_type {
        DataType::Null => Layout::Nothing,
        DataType::Boolean => Layout::Bits,
        DataType::Utf8 | DataType::Binary => Layout::Bytes,
        DataType::FixedSizeBinary(width) => Layout::Fixed(usize::try_from(*width).ok()?),
        DataType::List(_) | DataType::Map(_, _) => Layout::List,
        DataType::FixedSizeList(_, size) => Layout::FixedList(usize::try_from(*size).ok()?),
        DataType::Struct(_) => Layout::Struct,
        DataType::Dictionary(_, _) => Layout::Dictionary,
        other => Layout::Fixed(other.primitive_width()?),
    })
}

/// Whether a type can be encoded, with all that is inside.
pub(super) fn is_supported(data_type: &DataType) -> bool {
    layout(data_type).is_some() && inner_types(data_type).into_iter().all(is_supported)
}

/// Whether every row of the type takes at least a bit, if it is not NULL.
pub(super) fn has_weight(data_type: &DataType) -> bool {
    match layout(data_type) {
        Some(Layout::Nothing | Layout::Fixed(0)) | None => false,
        Some(Layout::FixedList(size)) => {
            size > 0 && inner_types(data_type).into_iter().all(has_weight)
        }
        Some(Layout::Struct | Layout::Dictionary) => {
            inner_types(data_type).into_iter().any(has_weight)
        }
        Some(_) => true,
    }
}

fn inner_types(data_type: &DataType) -> Vec<&DataType> {
    match data_type {
        DataType::List(field) | DataType::Map(field, _) | DataType::FixedSizeList(field, _) => {
            vec![field.data_type()]
        }
        DataType::Struct(fields) => fields.iter().map(|field| field.data_type()).collect(),
        DataType::Dictionary(_, values) => vec![values],
        _ => Vec::new(),
    }
}
