//! Parameters: what a request brings, where it is looked for, and what it must be.

use super::value::{FieldId, Type};

/// Where a parameter is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Carrier {
    Query,
    Form,
    Path,
    Cookie,
    Header,
}

/// What a parameter's value must be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ParamType {
    /// Any UTF-8 text of a length within bounds, counted in characters; one of the given ones if
    /// any are given.
    Text {
        /// Fewest characters.
        min_length: u32,
        /// Most characters.
        max_length: u32,
        /// The values allowed; empty: all.
        one_of: Vec<String>,
    },
    /// A decimal integer within bounds, both inclusive.
    Int {
        /// Least value.
        min: i64,
        /// Greatest value.
        max: i64,
    },
    /// At most twelve digits, optionally a point and one or two digits. A text to the page.
    Decimal,
    /// `YYYY-MM-DD`, a day that exists. A text to the page.
    Date,
}

impl ParamType {
    /// The type its field has.
    pub(crate) fn field_type(&self) -> Type {
        match self {
            ParamType::Int { .. } => Type::Int,
            _ => Type::Text,
        }
    }
}

/// A scalar parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Param {
    /// Its name on the wire.
    pub wire_name: String,
    /// Where it may stand, tried in this order.
    pub carriers: Vec<Carrier>,
    /// What it must be.
    pub kind: ParamType,
    /// Its value where it is absent, as it would stand on the wire; `None`: it is required.
    pub default: Option<String>,
    /// The scalar field that takes it.
    pub field: FieldId,
}

/// A list parameter: `payee[0]=..&payee[1]=..`, or records `payee[0]=..&amount[0]=..`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListParam {
    /// Where its items may stand: query or form.
    pub carriers: Vec<Carrier>,
    /// Wire name (without `[i]`) and type of each column, in the order of the field's columns.
    pub columns: Vec<(String, ParamType)>,
    /// Fewest items.
    pub min_items: u32,
    /// Most items.
    pub max_items: u32,
    /// The list field that takes it.
    pub field: FieldId,
}
