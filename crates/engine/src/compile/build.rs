//! Building a stage's program: registers, constants, blocks, fragments.
//!
//! Static text is collected until something dynamic is written, so that neighboring texts become
//! one fragment wherever they come from. What a block has computed once is not computed again in it
//! or in blocks inside it.

use super::value::{Items, Literal, Operand};
use crate::program::{
    Arithmetic, Binary, Block, Comparison, Concat, Constant, ConstantItem, Conversion, Escape,
    Field, FieldId, FieldType, For, FragmentId, If, Item, Load, Op, Put, Register, StageProgram,
    TextFunction, TextPool, Type, Unary,
};
use std::collections::HashMap;

/// The static texts of a service, each once.
#[derive(Debug, Default)]
pub(crate) struct Fragments {
    pub(crate) list: Vec<Box<[u8]>>,
    ids: HashMap<Box<[u8]>, FragmentId>,
}

impl Fragments {
    fn intern(&mut self, text: &str) -> FragmentId {
        if let Some(id) = self.ids.get(text.as_bytes()) {
            return *id;
        }
        let id = self.list.len() as FragmentId;
        let bytes: Box<[u8]> = text.as_bytes().into();
        self.ids.insert(bytes.clone(), id);
        self.list.push(bytes);
        id
    }
}

/// What the stages of a page share.
#[derive(Debug, Default)]
pub(crate) struct PageParts {
    pub(crate) fields: Vec<Field>,
    pub(crate) texts: TextPool,
    pub(crate) tables: Vec<Vec<Constant>>,
    pub(crate) header_names: Vec<String>,
}

impl PageParts {
    pub(crate) fn field(&mut self, name: impl Into<String>, kind: FieldType) -> FieldId {
        self.fields.push(Field {
            name: name.into(),
            kind,
        });
        // Declared names and columns are bounded by the size of a header.
        (self.fields.len() - 1) as FieldId
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
}

/// A block under construction.
#[derive(Debug, Default)]
pub(crate) struct OpenBlock {
    pub(crate) ops: Vec<Op>,
    /// Static text not yet made a fragment.
    text: String,
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
pub(crate) struct Stage {
    program: StageProgram,
    constants: HashMap<(u8, Vec<u8>), Register>,
    open: Vec<OpenBlock>,
    sinks: Vec<Sink>,
    /// Operations so far.
    ops: usize,
    /// Bytes of static text so far.
    text_bytes: usize,
}

/// More operations in a stage are a mistake, such as templates that include each other twice.
const OPS_MAX: usize = 50_000;
/// More static text in a page is a mistake of the same kind.
const TEXT_BYTES_MAX: usize = 8 << 20;

impl Stage {
    pub(crate) fn new() -> Stage {
        Stage {
            program: StageProgram::default(),
            constants: HashMap::new(),
            open: vec![OpenBlock::default()],
            sinks: vec![Sink::Page],
            ops: 0,
            text_bytes: 0,
        }
    }

    /// Whether it has become larger than any page should.
    pub(crate) fn is_too_large(&self) -> bool {
        self.ops > OPS_MAX
            || self.text_bytes > TEXT_BYTES_MAX
            || self.program.registers.len() > usize::from(Register::MAX) - 16
    }

    /// The finished program.
    pub(crate) fn finish(mut self, fragments: &mut Fragments, call: Option<usize>) -> StageProgram {
        let root = self.close(fragments);
        self.program.body = root.ops;
        self.program.call = call;
        self.program
    }

    fn block(&mut self) -> &mut OpenBlock {
        self.open
            .last_mut()
            .expect("a stage has an open block until it is finished")
    }

    pub(crate) fn push(&mut self, op: Op) {
        self.ops += 1;
        self.block().ops.push(op);
    }

    pub(crate) fn new_register(&mut self, kind: Type) -> Register {
        // Past the bound the page is refused, so which register this is does not matter.
        let register = self.program.registers.len().min(usize::from(Register::MAX)) as Register;
        if register < Register::MAX {
            self.program.registers.push(kind);
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
                self.compute(Known::Field(field), *kind, |to| {
                    Op::Field(Load { to, field })
                })
            }
            Operand::Column {
                list,
                column,
                position,
            } => {
                let (column, position) = (*column, *position);
                let kind = list.columns[usize::from(column)].1;
                match &list.items {
                    Items::Field(field) => {
                        let list = *field;
                        self.compute(Known::Item(list, column, position), kind, |to| {
                            Op::Item(Item {
                                to,
                                list,
                                column,
                                position,
                            })
                        })
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

    // Blocks and output.

    pub(crate) fn open(&mut self) {
        self.open.push(OpenBlock::default());
    }

    /// Continues a block that was closed.
    pub(crate) fn reopen(&mut self, block: OpenBlock) {
        self.open.push(block);
    }

    /// Closes the innermost block, its text written.
    pub(crate) fn close(&mut self, fragments: &mut Fragments) -> OpenBlock {
        self.flush_text(fragments);
        self.open
            .pop()
            .expect("blocks are closed as often as opened")
    }

    pub(crate) fn begin_sink(&mut self, sink: Sink) {
        self.sinks.push(sink);
    }

    pub(crate) fn end_sink(&mut self) -> Sink {
        self.sinks.pop().expect("sinks are ended as often as begun")
    }

    pub(crate) fn is_discarding(&self) -> bool {
        matches!(self.sinks.last(), Some(Sink::Discard))
    }

    /// Writes static text, escaped already.
    pub(crate) fn write_text(&mut self, text: &str) {
        self.text_bytes += text.len();
        if self.is_too_large() {
            return;
        }
        match self.sinks.last_mut() {
            Some(Sink::Discard) => {}
            Some(Sink::Capture { parts, .. }) => parts.push(Operand::text(text)),
            _ => self.block().text.push_str(text),
        }
    }

    /// Writes a scalar operand.
    pub(crate) fn write(
        &mut self,
        operand: &Operand,
        escape: Escape,
        parts: &mut PageParts,
        fragments: &mut Fragments,
    ) -> Option<()> {
        if let Operand::Literal(literal) = operand {
            let text = literal.print();
            let plain = literal.kind() != Type::Text || operand.is_safe();
            let escape = if plain { Escape::None } else { escape };
            self.write_text(&escape_literal(&text, escape));
            return Some(());
        }
        let (kind, safe) = operand.scalar()?;
        let escape = if safe || kind != Type::Text {
            Escape::None
        } else {
            escape
        };
        match self.sinks.last() {
            Some(Sink::Discard) => {}
            Some(Sink::Capture { .. }) => {
                let mut register = self.text_register(operand, parts)?;
                if escape != Escape::None {
                    register = self.text_function(TextFunction::Escape(escape), register);
                }
                if let Some(Sink::Capture { parts, .. }) = self.sinks.last_mut() {
                    parts.push(Operand::register(register, Type::Text));
                }
            }
            _ => {
                let from = self.register(operand, parts)?;
                self.flush_text(fragments);
                self.push(Op::Put(Put { from, escape }));
                self.block().writes = true;
            }
        }
        Some(())
    }

    /// Makes a fragment of the text written so far.
    fn flush_text(&mut self, fragments: &mut Fragments) {
        let text = std::mem::take(&mut self.block().text);
        if !text.is_empty() {
            let fragment = fragments.intern(&text);
            self.push(Op::Fragment(fragment));
            self.block().writes = true;
        }
    }

    /// To be called before statements that run on some paths or several times: what was captured so
    /// far is put into one register, to which they append.
    pub(crate) fn fork(&mut self, parts: &mut PageParts) {
        if let Some(Sink::Capture { joined: None, .. }) = self.sinks.last() {
            let empty = self.constant(&Literal::text(""), parts);
            let to = self.new_register(Type::Text);
            self.push(Op::Copy(Unary { to, from: empty }));
            if let Some(Sink::Capture { joined, .. }) = self.sinks.last_mut() {
                *joined = Some(to);
            }
        }
        self.join(parts);
    }

    /// Appends what was captured since to the one register.
    pub(crate) fn join(&mut self, page: &mut PageParts) {
        let Some(Sink::Capture {
            joined: Some(joined),
            parts,
        }) = self.sinks.last_mut()
        else {
            return;
        };
        let joined = *joined;
        let captured = std::mem::take(parts);
        if captured.is_empty() {
            return;
        }
        let mut parts = vec![joined];
        let captured = merge_literals(&captured);
        parts.extend(
            captured
                .iter()
                .filter_map(|part| self.text_register(part, page)),
        );
        // Not in place: an operation reads its operands while it writes its result.
        let from = self.other(Type::Text, |to| Op::Concat(Concat { to, parts }));
        self.push(Op::Copy(Unary { to: joined, from }));
    }

    /// The text captured by a sink that ends.
    pub(crate) fn captured(&mut self, safe: bool, page: &mut PageParts) -> Operand {
        self.join(page);
        let Sink::Capture { joined, parts } = self.end_sink() else {
            return Operand::Poison;
        };
        if let Some(register) = joined {
            return Operand::Register {
                register,
                kind: Type::Text,
                safe,
            };
        }
        self.concat(&parts, safe, page)
    }

    /// Texts one after the other.
    pub(crate) fn concat(
        &mut self,
        parts: &[Operand],
        safe: bool,
        page: &mut PageParts,
    ) -> Operand {
        match &merge_literals(parts)[..] {
            [] => Operand::Literal(Literal::Text {
                text: "".into(),
                safe,
            }),
            [Operand::Literal(literal)] => {
                let text = literal.print();
                // Constants can grow as the text of a page can.
                self.text_bytes += text.len();
                Operand::Literal(Literal::Text { text, safe })
            }
            parts => {
                let parts: Vec<Register> = (parts.iter())
                    .filter_map(|part| self.text_register(part, page))
                    .collect();
                let register = match parts[..] {
                    [one] => one,
                    _ => self.other(Type::Text, |to| Op::Concat(Concat { to, parts })),
                };
                Operand::Register {
                    register,
                    kind: Type::Text,
                    safe,
                }
            }
        }
    }

    /// `if`: writes the text that precedes it where its branches write.
    pub(crate) fn push_if(
        &mut self,
        condition: Register,
        then: OpenBlock,
        otherwise: OpenBlock,
        fragments: &mut Fragments,
    ) {
        if then.ops.is_empty() && otherwise.ops.is_empty() {
            return;
        }
        if then.writes || otherwise.writes {
            self.flush_text(fragments);
            self.block().writes = true;
        }
        self.push(Op::If(If {
            condition,
            then: then.ops,
            otherwise: otherwise.ops,
        }));
    }

    /// `for`: as [`Stage::push_if`].
    pub(crate) fn push_for(
        &mut self,
        body: OpenBlock,
        otherwise: OpenBlock,
        fragments: &mut Fragments,
        op: impl FnOnce(Block, Block) -> For,
    ) {
        if body.writes || otherwise.writes {
            self.flush_text(fragments);
            self.block().writes = true;
        }
        self.push(Op::For(op(body.ops, otherwise.ops)));
    }

    /// Ends the lanes that are here, after what was written for them.
    pub(crate) fn finish_lanes(&mut self, fragments: &mut Fragments) {
        self.flush_text(fragments);
        self.push(Op::Finish);
    }
}

/// Makes neighboring literals one text.
fn merge_literals(parts: &[Operand]) -> Vec<Operand> {
    let mut merged = Vec::with_capacity(parts.len());
    let mut text: Option<String> = None;
    for part in parts {
        if let Operand::Literal(literal) = part {
            text.get_or_insert_default().push_str(&literal.print());
        } else {
            merged.extend(text.take().map(|text| Operand::text(&text)));
            merged.push(part.clone());
        }
    }
    merged.extend(text.map(|text| Operand::text(&text)));
    merged
}

/// Escapes a text known at load, as the executors escape others.
pub(crate) fn escape_literal(text: &str, escape: Escape) -> String {
    match escape {
        Escape::None => text.to_owned(),
        Escape::Html => minijinja::HtmlEscape(text).to_string(),
        Escape::Percent => (text.bytes())
            .map(|byte| match byte {
                b'-' | b'.' | b'_' | b'~' | b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' => {
                    char::from(byte).to_string()
                }
                _ => format!("%{byte:02X}"),
            })
            .collect(),
        Escape::Header => text
            .chars()
            .map(|c| if c.is_ascii_control() { ' ' } else { c })
            .collect(),
    }
}
