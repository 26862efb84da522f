//! Building a stage's program: registers, constants and what is computed from them. (`output`: what
//! it writes, and its blocks.)
//!
//! What a block has computed once is not computed again in it or in blocks inside it.

use super::value::{Items, Literal, Operand};
use crate::diagnostic::Place;
use crate::program::{
    Arithmetic, Aside, Binary, Comparison, Constant, ConstantItem, Conversion, CookieUse, Csrf,
    Field, FieldId, FieldType, FragmentId, Item, Load, Op, Register, Spot, StageProgram, StoredUse,
    TextFunction, TextPool, Type, Unary,
};
use crate::settings::{StoredField, StoredKind};
use std::collections::HashMap;
use std::rc::Rc;

/// The static texts of a service, each once.
#[derive(Debug, Default)]
pub(crate) struct Fragments {
    pub(crate) list: Vec<Box<[u8]>>,
    /// Bytes of all.
    pub(super) bytes: usize,
    ids: HashMap<Box<[u8]>, FragmentId>,
}

impl Fragments {
    pub(super) fn intern(&mut self, text: &str) -> FragmentId {
        if let Some(id) = self.ids.get(text.as_bytes()) {
            return *id;
        }
        let id = self.list.len() as FragmentId;
        let bytes: Box<[u8]> = text.as_bytes().into();
        self.ids.insert(bytes.clone(), id);
        self.bytes += bytes.len();
        self.list.push(bytes);
        id
    }
}

/// Most fields, columns of a list, lists of constants or names of headers of a page.
pub(crate) const INDEXED_MAX: usize = u16::MAX as usize;

/// The index of a field, column, list of constants or name of a header. Of one beyond
/// [`INDEXED_MAX`] it does not matter which it is: the page is refused.
pub(crate) fn index_of(index: usize) -> u16 {
    u16::try_from(index).unwrap_or(u16::MAX)
}

/// What the stages of a page share.
#[derive(Debug, Default)]
pub(crate) struct PageParts {
    pub(crate) fields: Vec<Field>,
    pub(crate) texts: TextPool,
    pub(crate) tables: Vec<Vec<Constant>>,
    pub(crate) asides: Vec<Aside>,
    /// What sessions keep beside their user.
    pub(crate) fields_of_sessions: Rc<[StoredField]>,
    /// Whether some of it is unknown for mistakes that are reported.
    pub(crate) fields_lost: bool,
    /// Which of it the page has asked for.
    pub(crate) stored: Vec<StoredUse>,
    /// The cookies that it has asked for.
    pub(crate) cookies: Vec<CookieUse>,
    /// The message that a page before has left, once the page has asked for it.
    pub(crate) flash: Option<FieldId>,
    /// What was asked for, once the page has asked for it.
    pub(crate) here: Option<FieldId>,
    /// The time, once the page has asked for it.
    pub(crate) now: Option<FieldId>,
    /// Numbers drawn for the request.
    pub(crate) drawn: Vec<FieldId>,
    /// The visitor's CSRF token, once the page has asked for it.
    pub(crate) token: Option<FieldId>,
    /// Parameters that are paths within the service.
    pub(crate) paths: Vec<FieldId>,
    /// What files hold, as pages read it: what it is called, and its most bytes.
    pub(crate) files: HashMap<FieldId, (String, u64)>,
    /// Of fields that may be null, the one that says so.
    pub(crate) nulls: HashMap<FieldId, FieldId>,
}

impl PageParts {
    /// Which of a session's fields has a name.
    pub(super) fn stored_named(&self, name: &str) -> Option<(u16, StoredKind)> {
        let mut all = (0..).zip(&*self.fields_of_sessions);
        let (index, field) = all.find(|(_, field)| field.name == name)?;
        Some((index, field.kind))
    }

    /// The page's field for one of a session's.
    pub(super) fn stored(&mut self, stored: u16, kind: StoredKind) -> FieldId {
        if let Some(known) = self.stored.iter().find(|known| known.stored == stored) {
            return known.field;
        }
        let name = &self.fields_of_sessions[usize::from(stored)].name;
        let of_page = match kind {
            StoredKind::Text(_) => Type::Text,
            StoredKind::Int | StoredKind::Bool => Type::Int,
        };
        let field = self.field(format!("session.{name}"), FieldType::Scalar(of_page));
        self.stored.push(StoredUse {
            stored,
            kind,
            field,
        });
        field
    }

    /// The field of a cookie.
    pub(super) fn cookie(&mut self, name: &str) -> FieldId {
        if let Some(known) = self.cookies.iter().find(|known| known.name == name) {
            return known.field;
        }
        let field = self.field(format!("cookies.{name}"), FieldType::Scalar(Type::Text));
        self.cookies.push(CookieUse {
            name: name.to_owned(),
            field,
        });
        field
    }

    /// The field of the message that a page before has left.
    pub(super) fn flash(&mut self) -> FieldId {
        let known = self.flash;
        let flash = known.unwrap_or_else(|| self.field("flash", FieldType::Scalar(Type::Text)));
        *self.flash.insert(flash)
    }

    /// The field of what was asked for.
    pub(super) fn here(&mut self) -> FieldId {
        let known = self.here;
        let here = known.unwrap_or_else(|| self.field("here", FieldType::Scalar(Type::Text)));
        *self.here.insert(here)
    }

    /// The field of the time when the request was read.
    pub(super) fn now(&mut self) -> FieldId {
        let known = self.now;
        let now = known.unwrap_or_else(|| self.field("now()", FieldType::Scalar(Type::Int)));
        *self.now.insert(now)
    }

    /// Another field of a number drawn for the request.
    pub(super) fn drawn(&mut self) -> FieldId {
        let name = format!("randrange(){}", self.drawn.len());
        let drawn = self.field(&name, FieldType::Scalar(Type::Int));
        self.drawn.push(drawn);
        drawn
    }

    /// The index of what is given beside the body.
    pub(super) fn aside(&mut self, aside: Aside) -> u16 {
        let known = self.asides.iter().position(|known| *known == aside);
        index_of(known.unwrap_or_else(|| {
            self.asides.push(aside);
            self.asides.len() - 1
        }))
    }

    /// The field of the visitor's CSRF token.
    pub(super) fn token(&mut self) -> FieldId {
        let known = self.token;
        let token = known.unwrap_or_else(|| self.field(Csrf::NAME, FieldType::Scalar(Type::Text)));
        *self.token.insert(token)
    }

    pub(crate) fn field(&mut self, name: impl Into<String>, kind: FieldType) -> FieldId {
        self.fields.push(Field {
            name: name.into(),
            kind,
        });
        index_of(self.fields.len() - 1)
    }

    /// The type of what lies in a field, or in a column of a list's, where it is not `kind`: see
    /// [`Type::in_fields`].
    fn lies_as(&self, field: FieldId, column: usize, kind: Type) -> Type {
        // One past the bound is of a page that is refused.
        match self.fields.get(usize::from(field)).map(|field| &field.kind) {
            Some(FieldType::Scalar(lies)) => *lies,
            Some(FieldType::List(columns)) => columns.get(column).map_or(kind, |(_, lies)| *lies),
            None => kind,
        }
    }

    /// Whether it has more of something than an index reaches; the page is then refused.
    pub(crate) fn is_too_large(&self) -> bool {
        let columns = |field: &Field| match &field.kind {
            FieldType::List(columns) => columns.len(),
            FieldType::Scalar(_) => 1,
        };
        let counts = [self.fields.len(), self.tables.len(), self.asides.len()];
        let most = counts.into_iter().chain(self.fields.iter().map(columns));
        most.max() > Some(INDEXED_MAX)
    }

    pub(crate) fn constant(&mut self, literal: &Literal) -> Constant {
        match literal {
            Literal::Text { text, .. } => self.texts.intern(text),
            Literal::Int(value) => Constant::Int(*value),
            Literal::Float(value) => Constant::Float(*value),
            Literal::Bool(value) => Constant::Bool(*value),
        }
    }
}

/// An operation without effect, by what it computes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Known {
    Field(FieldId),
    Length(FieldId),
    Item(FieldId, u16, Register),
    Table(u16, Register),
    Arithmetic(u8, Register, Register),
    Compare(u8, Register, Register),
    Convert(u8, Type, Register),
    Text(String, Register),
    Characters(Register),
}

/// A block under construction.
#[derive(Debug, Default)]
pub(crate) struct OpenBlock {
    pub(crate) ops: Vec<Op>,
    /// Static text not yet made a fragment.
    pub(super) text: String,
    known: HashMap<Known, Register>,
    /// Whether it writes output.
    pub(crate) writes: bool,
}

/// Where output goes.
#[derive(Debug)]
pub(crate) enum Sink {
    /// To the page.
    Page,
    /// Nowhere: the text of a template that extends another.
    Discard,
    /// Into a text: `joined`, if there was control flow, and what came since.
    Capture {
        joined: Option<Register>,
        parts: Vec<Operand>,
    },
}

/// A stage under construction.
#[derive(Debug)]
pub(crate) struct StageBuilder {
    program: StageProgram,
    constants: HashMap<(u8, Vec<u8>), Register>,
    pub(super) open: Vec<OpenBlock>,
    pub(super) sinks: Vec<Sink>,
    /// Operations so far.
    ops: usize,
    /// Bytes of static text so far.
    pub(super) text_bytes: usize,
    /// Where what is being compiled stands.
    at: Whereabouts,
    /// The number of the step that is being compiled; 0: none is.
    pub(crate) step: usize,
    /// The files met so far, with where their lines begin.
    files: Vec<(String, Vec<usize>)>,
}

/// A file of a [`StageBuilder`]'s, and a byte offset into it.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Whereabouts(Option<(usize, usize)>);

/// More operations in a stage are a mistake, such as templates that include each other twice.
const OPS_MAX: usize = 50_000;
/// More static text in a page is a mistake of the same kind.
const TEXT_BYTES_MAX: usize = 8 << 20;

impl StageBuilder {
    pub(crate) fn new() -> StageBuilder {
        StageBuilder {
            program: StageProgram::default(),
            constants: HashMap::new(),
            open: vec![OpenBlock::default()],
            sinks: vec![Sink::Page],
            ops: 0,
            text_bytes: 0,
            at: Whereabouts::default(),
            step: 0,
            files: Vec::new(),
        }
    }

    /// What is compiled from now on stands at this place. Gives where what was before does.
    pub(super) fn stands_at(&mut self, place: Place<'_>) -> Whereabouts {
        let known = self.files.iter().rposition(|(file, _)| file == place.file);
        let file = known.unwrap_or_else(|| {
            let breaks = place.text.match_indices('\n').map(|(at, _)| at + 1);
            self.files.push((place.file.to_owned(), breaks.collect()));
            self.files.len() - 1
        });
        self.stands_there(Whereabouts(Some((file, place.offset))))
    }

    /// The same, of one that was given before.
    pub(super) fn stands_there(&mut self, at: Whereabouts) -> Whereabouts {
        std::mem::replace(&mut self.at, at)
    }

    /// Where what is being compiled stands, if that is known.
    fn spot(&self) -> Option<Spot<'_>> {
        let (file, offset) = self.at.0?;
        let (file, lines) = &self.files[file];
        Some(Spot {
            file,
            line: lines.partition_point(|start| *start <= offset) as u32 + 1,
            step: u16::try_from(self.step).ok().filter(|step| *step > 0),
        })
    }

    /// Whether it has become larger than any page should.
    pub(crate) fn is_too_large(&self) -> bool {
        self.ops > OPS_MAX
            || self.text_bytes > TEXT_BYTES_MAX
            || self.program.registers.len() > usize::from(Register::MAX) - 16
    }

    /// The finished program.
    pub(crate) fn finish(
        mut self,
        fragments: &mut Fragments,
        call: Option<usize>,
        step: usize,
    ) -> StageProgram {
        let root = self.close(fragments);
        self.program.body = root.ops;
        self.program.call = call;
        self.program.step = step;
        self.program
    }

    pub(super) fn block(&mut self) -> &mut OpenBlock {
        self.open
            .last_mut()
            .expect("a stage has an open block until it is finished")
    }

    pub(crate) fn push(&mut self, op: Op) {
        self.ops += 1;
        self.block().ops.push(op);
    }

    /// The type of a register.
    pub(crate) fn kind_of(&self, register: Register) -> Type {
        let kinds = &self.program.registers;
        // One past the bound is of a page that is refused.
        kinds
            .get(usize::from(register))
            .copied()
            .unwrap_or(Type::Text)
    }

    pub(crate) fn new_register(&mut self, kind: Type) -> Register {
        // Past the bound the page is refused, so which register this is does not matter.
        let register = self.program.registers.len().min(usize::from(Register::MAX)) as Register;
        if register < Register::MAX {
            self.program.registers.push(kind);
            let mut spots = std::mem::take(&mut self.program.spots);
            spots.push(self.spot());
            self.program.spots = spots;
        }
        register
    }

    pub(crate) fn constant(&mut self, literal: &Literal, parts: &mut PageParts) -> Register {
        let key = match literal {
            Literal::Text { text, .. } => (0, text.as_bytes().to_vec()),
            Literal::Int(value) => (1, value.to_le_bytes().to_vec()),
            Literal::Float(value) => (2, value.to_bits().to_le_bytes().to_vec()),
            Literal::Bool(value) => (3, vec![u8::from(*value)]),
        };
        if let Some(register) = self.constants.get(&key) {
            return *register;
        }
        let register = self.new_register(literal.kind());
        self.constants.insert(key, register);
        self.program
            .constants
            .push((register, parts.constant(literal)));
        register
    }

    /// Computes what is not known yet.
    fn compute(&mut self, known: Known, kind: Type, op: impl FnOnce(Register) -> Op) -> Register {
        if let Some(register) = self
            .open
            .iter()
            .rev()
            .find_map(|block| block.known.get(&known))
        {
            return *register;
        }
        let to = self.new_register(kind);
        self.push(op(to));
        self.block().known.insert(known, to);
        to
    }

    pub(crate) fn length(&mut self, field: FieldId) -> Register {
        self.compute(Known::Length(field), Type::Int, |to| {
            Op::Length(Load { to, field })
        })
    }

    pub(crate) fn arithmetic(
        &mut self,
        operator: Arithmetic,
        kind: Type,
        left: Register,
        right: Register,
    ) -> Register {
        let known = Known::Arithmetic(operator as u8, left, right);
        self.compute(known, kind, |to| {
            Op::Arithmetic(operator, Binary { to, left, right })
        })
    }

    pub(crate) fn compare(
        &mut self,
        comparison: Comparison,
        left: Register,
        right: Register,
    ) -> Register {
        let known = Known::Compare(comparison as u8, left, right);
        self.compute(known, Type::Bool, |to| {
            Op::Compare(comparison, Binary { to, left, right })
        })
    }

    pub(crate) fn convert(&mut self, conversion: Conversion, from: Register) -> Register {
        let kind = match conversion {
            Conversion::IntToFloat | Conversion::TextToFloat => Type::Float,
            Conversion::FloatToInt | Conversion::BoolToInt | Conversion::TextToInt => Type::Int,
            Conversion::ToText => Type::Text,
        };
        self.compute(Known::Convert(conversion as u8, kind, from), kind, |to| {
            Op::Convert(conversion, Unary { to, from })
        })
    }

    pub(crate) fn truth(&mut self, from: Register) -> Register {
        self.compute(
            Known::Convert(u8::MAX, Type::Bool, from),
            Type::Bool,
            |to| Op::Truth(Unary { to, from }),
        )
    }

    pub(crate) fn text_function(&mut self, function: TextFunction, from: Register) -> Register {
        self.compute(
            Known::Text(format!("{function:?}"), from),
            Type::Text,
            |to| Op::Text(function, Unary { to, from }),
        )
    }

    /// The number of characters of a text. They are counted where it becomes known, not where that
    /// is asked for: once for all turns of a loop.
    pub(crate) fn characters(&mut self, text: &Operand, parts: &mut PageParts) -> Option<Register> {
        let level = match text {
            Operand::Field { .. } => Some(0),
            // Others may change, as those of namespaces do.
            Operand::Register { register, .. } => {
                let knows = |block: &OpenBlock| block.known.values().any(|known| known == register);
                self.open.iter().position(knows)
            }
            _ => None,
        };
        let Some(level) = level else {
            let from = self.register(text, parts)?;
            let count = |to| Op::TextLength(Unary { to, from });
            return Some(self.other(Type::Int, count));
        };
        let inside = self.open.split_off(level + 1);
        let from = self.register(text, parts);
        let count = from.map(|from| {
            self.compute(Known::Characters(from), Type::Int, |to| {
                Op::TextLength(Unary { to, from })
            })
        });
        self.open.extend(inside);
        count
    }

    /// What was loaded, as the type that the page has it as: fields hold no truth values and no
    /// floats, but integers and texts of them. A text is no number where a parameter that is wrong
    /// was told to the page: that is 0.
    fn as_read(
        &mut self,
        loaded: Register,
        lies: Type,
        kind: Type,
        parts: &mut PageParts,
    ) -> Register {
        match (lies, kind) {
            (Type::Int, Type::Bool) => self.truth(loaded),
            (Type::Text, Type::Float) => {
                let right = self.constant(&Literal::Float(0.0), parts);
                let conversion = Conversion::TextToFloat;
                let known = Known::Convert(u8::MAX - 1, Type::Float, loaded);
                self.compute(known, Type::Float, |to| {
                    let left = loaded;
                    Op::ConvertOr(conversion, Binary { to, left, right })
                })
            }
            _ => loaded,
        }
    }

    /// An operation whose result is not looked for again.
    pub(crate) fn other(&mut self, kind: Type, op: impl FnOnce(Register) -> Op) -> Register {
        let to = self.new_register(kind);
        self.push(op(to));
        to
    }

    /// The register of a scalar operand, loaded if need be.
    pub(crate) fn register(
        &mut self,
        operand: &Operand,
        parts: &mut PageParts,
    ) -> Option<Register> {
        Some(match operand {
            Operand::Literal(literal) => self.constant(literal, parts),
            Operand::Register { register, .. } => *register,
            Operand::Field { field, kind } => {
                let field = *field;
                let lies = parts.lies_as(field, 0, *kind);
                let loaded = self.compute(Known::Field(field), lies, |to| {
                    Op::Field(Load { to, field })
                });
                self.as_read(loaded, lies, *kind, parts)
            }
            Operand::Column {
                list,
                column,
                position,
            } => {
                let (column, position) = (*column, *position);
                let kind = list.columns[usize::from(column)].1;
                match &list.items {
                    Items::Field { field, columns } => {
                        let (list, column) = (*field, columns[usize::from(column)]);
                        let lies = parts.lies_as(list, usize::from(column), kind);
                        let known = Known::Item(list, column, position);
                        let loaded = self.compute(known, lies, |to| {
                            Op::Item(Item {
                                to,
                                list,
                                column,
                                position,
                            })
                        });
                        self.as_read(loaded, lies, kind, parts)
                    }
                    Items::Tables { tables, .. } => {
                        let table = tables[usize::from(column)];
                        self.compute(Known::Table(table, position), kind, |to| {
                            Op::ConstantItem(ConstantItem {
                                to,
                                table,
                                position,
                            })
                        })
                    }
                    // Of others items are computed, not columns read.
                    _ => return None,
                }
            }
            _ => return None,
        })
    }

    /// The text of a scalar operand in a register.
    pub(crate) fn text_register(
        &mut self,
        operand: &Operand,
        parts: &mut PageParts,
    ) -> Option<Register> {
        if let Operand::Literal(literal) = operand {
            let text = literal.print();
            return Some(self.constant(&Literal::Text { text, safe: false }, parts));
        }
        let (kind, _) = operand.scalar()?;
        let register = self.register(operand, parts)?;
        Some(match kind {
            Type::Text => register,
            _ => self.convert(Conversion::ToText, register),
        })
    }
}
