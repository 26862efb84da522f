//! Types, constants and fields: what registers and a page's columns hold.

/// Index of a register of a stage.
pub type Register = u16;
/// Index of a field of a page ([`PageProgram::fields`](super::PageProgram::fields)).
pub type FieldId = u16;
/// Index of a fragment of the service ([`Service::fragments`](super::Service::fragments)).
pub type FragmentId = u32;

/// The type of a register's or a scalar field's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Type {
    /// UTF-8 text: a view into the cohort's arena.
    Text,
    /// A signed 64-bit integer. Overflow fails the lane.
    Int,
    /// A 64-bit float, printed as MiniJinja prints it (`1.0`, `0.1`, `NaN`, `inf`).
    Float,
    /// A truth value, printed as MiniJinja prints it.
    Bool,
}

impl Type {
    /// The type of what lies in a field or a column for values of this type: there are two kinds
    /// of those. Programs convert it to this where they read it.
    pub(crate) fn in_fields(self) -> Type {
        match self {
            Type::Int | Type::Bool => Type::Int,
            Type::Text | Type::Float => Type::Text,
        }
    }
}

/// A constant of a stage, loaded into its register for every lane before the stage runs.
#[derive(Clone, Debug, PartialEq)]
pub enum Constant {
    /// A text, stored in the program's texts: `texts[offset..offset + length]` (see
    /// [`PageProgram::texts`](super::PageProgram::texts)).
    Text {
        /// Where it starts in [`PageProgram::texts`](super::PageProgram::texts).
        offset: u32,
        /// Its length in bytes.
        length: u32,
    },
    /// An integer.
    Int(i64),
    /// A float.
    Float(f64),
    /// A truth value.
    Bool(bool),
}

impl Constant {
    /// The type of the register that holds it.
    pub fn kind(&self) -> Type {
        match self {
            Constant::Text { .. } => Type::Text,
            Constant::Int(_) => Type::Int,
            Constant::Float(_) => Type::Float,
            Constant::Bool(_) => Type::Bool,
        }
    }
}

/// What a field of the cohort holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FieldType {
    /// One value a lane. Only [`Type::Text`] and [`Type::Int`] occur.
    Scalar(Type),
    /// A list of records a lane, their columns named and typed (Text or Int). A list of plain
    /// values has one column, named `""`.
    List(Vec<(String, Type)>),
}

/// A column of the cohort that lives across stages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// The name by which `rhythm check` shows it, such as `accounts` or `accounts.status`.
    pub name: String,
    /// What it holds.
    pub kind: FieldType,
}
