//! Programs, to be read: `rhythm check --print programs`, and what tests compare.
//!
//! ```text
//! page account_summary
//!   route GET /bank/account_summary.php
//!   field 2 accounts: list(number: text, balance: text)
//!   stage 0, then call 0
//!     r1: int = field session.userid
//!     query "1&3&" r1
//! ```

use super::function::{Arithmetic, Comparison, Escape};
use super::op::{Binary, Choice, ConstantItem, For, Key, KeyUse, Load, Op, Put, Unary};
use super::page::{Aside, PageProgram, SessionUse};
use super::param::{Carrier, ParamType};
use super::service::Service;
use super::stage::{CallResult, StageProgram};
use super::value::{Constant, FieldId, FieldType, Register, Type};
use std::fmt::{self, Write};

/// A page's program as text.
#[derive(Debug)]
pub struct Listing<'s> {
    service: &'s Service,
    page: &'s PageProgram,
}

impl Service {
    /// The program of a page, to be displayed.
    pub fn listing<'s>(&'s self, page: &'s PageProgram) -> Listing<'s> {
        Listing {
            service: self,
            page,
        }
    }
}

impl fmt::Display for Listing<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let page = self.page;
        writeln!(f, "page {}", page.name)?;
        for route in &page.routes {
            writeln!(f, "  route {route}")?;
        }
        match page.session {
            SessionUse::None => {}
            SessionUse::Optional => writeln!(f, "  session optional")?,
            SessionUse::Required => writeln!(f, "  session required")?,
        }
        if page.csrf.is_checked {
            writeln!(f, "  CSRF token needed")?;
        }
        if !page.gzip {
            writeln!(f, "  never compressed")?;
        }
        writeln!(f, "  content type {}", page.content_type)?;
        for (id, field) in page.fields.iter().enumerate() {
            write!(f, "  field {id} {}: ", field.name)?;
            match &field.kind {
                FieldType::Scalar(kind) => writeln!(f, "{}", name(*kind))?,
                FieldType::List(columns) => {
                    let columns = columns.iter().map(|(column, kind)| match &column[..] {
                        "" => name(*kind).to_owned(),
                        column => format!("{column}: {}", name(*kind)),
                    });
                    writeln!(f, "list({})", columns.collect::<Vec<_>>().join(", "))?;
                }
            }
        }
        for param in &page.params {
            write!(
                f,
                "  parameter `{}` in {}",
                param.wire_name,
                carriers(&param.carriers)
            )?;
            write!(
                f,
                ", {} -> {}",
                bounds(&param.kind),
                self.field(param.field)
            )?;
            match &param.default {
                Some(default) => writeln!(f, ", default {default:?}")?,
                None => writeln!(f, ", required")?,
            }
        }
        for list in &page.list_params {
            write!(
                f,
                "  list of {} to {} in {}",
                list.min_items,
                list.max_items,
                carriers(&list.carriers)
            )?;
            for (wire_name, kind) in &list.columns {
                write!(f, ", `{wire_name}[i]` {}", bounds(kind))?;
            }
            writeln!(f, " -> {}", self.field(list.field))?;
        }
        for (id, call) in page.calls.iter().enumerate() {
            let backend = self.service.backends.get(call.backend);
            let backend = backend.map_or("?", |backend| &backend.name);
            let into = match &call.result {
                CallResult::Rows(field) => format!("rows -> {}", self.field(*field)),
                CallResult::Row(fields) => {
                    let fields: Vec<&str> = fields.iter().map(|field| self.field(*field)).collect();
                    format!("row -> {}", fields.join(", "))
                }
            };
            let retried = if call.idempotent { ", retried" } else { "" };
            let optional = if call.optional { ", optional" } else { "" };
            let shared = if call.shared { ", shared" } else { "" };
            let merged = if call.merged { ", merged" } else { "" };
            writeln!(
                f,
                "  call {id} {backend}: {into}; {}{retried}{optional}{shared}{merged}",
                self.field(call.status)
            )?;
        }
        for (id, table) in page.tables.iter().enumerate() {
            let items: Vec<String> = table.iter().map(|item| self.constant(item)).collect();
            writeln!(f, "  table {id} [{}]", items.join(", "))?;
        }
        for (id, stage) in page.stages.iter().enumerate() {
            match stage.call {
                Some(call) => writeln!(f, "  stage {id}, then call {call}")?,
                None => writeln!(f, "  stage {id}, then the answer")?,
            }
            let printer = StagePrinter {
                listing: self,
                stage,
            };
            printer.block(f, &stage.body, 2)?;
        }
        Ok(())
    }
}

impl Listing<'_> {
    /// The name of a session's field.
    fn stored(&self, stored: u16) -> &str {
        let mut names = self.service.config.session.fields.keys();
        names.nth(usize::from(stored)).map_or("?", |name| name)
    }

    fn field(&self, field: FieldId) -> &str {
        self.page
            .fields
            .get(usize::from(field))
            .map_or("?", |field| &field.name)
    }

    fn constant(&self, constant: &Constant) -> String {
        match constant {
            Constant::Text { offset, length } => {
                let (offset, length) = (*offset as usize, *length as usize);
                let bytes = self
                    .page
                    .texts
                    .get(offset..offset + length)
                    .unwrap_or_default();
                excerpt(bytes)
            }
            Constant::Int(value) => value.to_string(),
            Constant::Float(value) => format!("{value:?}"),
            Constant::Bool(value) => value.to_string(),
        }
    }
}

struct StagePrinter<'s> {
    listing: &'s Listing<'s>,
    stage: &'s StageProgram,
}

impl StagePrinter<'_> {
    /// A register; one that holds a constant is shown as its value.
    fn register(&self, register: Register) -> String {
        let constants = &self.stage.constants;
        match constants.iter().find(|(of, _)| *of == register) {
            Some((_, constant)) => self.listing.constant(constant),
            None => format!("r{register}"),
        }
    }

    /// A register that is written, with its type.
    fn to(&self, register: Register) -> String {
        let kind = self.stage.registers.get(usize::from(register));
        format!("r{register}: {}", kind.map_or("?", |kind| name(*kind)))
    }

    fn block(&self, f: &mut fmt::Formatter<'_>, block: &[Op], indent: usize) -> fmt::Result {
        for op in block {
            write!(f, "{:1$}", "", indent * 2)?;
            self.op(f, op, indent)?;
            f.write_char('\n')?;
        }
        Ok(())
    }

    fn inner(&self, f: &mut fmt::Formatter<'_>, block: &[Op], indent: usize) -> fmt::Result {
        f.write_str(" {\n")?;
        self.block(f, block, indent + 1)?;
        write!(f, "{:1$}}}", "", indent * 2)
    }

    fn op(&self, f: &mut fmt::Formatter<'_>, op: &Op, indent: usize) -> fmt::Result {
        let of = |register: Register| self.register(register);
        match op {
            Op::Copy(op) => self.unary(f, op, ""),
            Op::Field(Load { to, field }) => {
                write!(f, "{} = field {}", self.to(*to), self.listing.field(*field))
            }
            Op::Length(Load { to, field }) => {
                write!(
                    f,
                    "{} = length {}",
                    self.to(*to),
                    self.listing.field(*field)
                )
            }
            Op::Item(op) => {
                let column = match &self.listing.page.fields[usize::from(op.list)].kind {
                    FieldType::List(columns) => &columns[usize::from(op.column)].0,
                    FieldType::Scalar(_) => "?",
                };
                let (to, list) = (self.to(op.to), self.listing.field(op.list));
                write!(f, "{to} = {list}[{}].{column}", of(op.position))
            }
            Op::ConstantItem(ConstantItem {
                to,
                table,
                position,
            }) => {
                write!(f, "{} = table {table}[{}]", self.to(*to), of(*position))
            }
            Op::Arithmetic(operator, op) => self.binary(f, op, sign_of_arithmetic(*operator)),
            Op::Negate(op) => self.unary(f, op, "-"),
            Op::Absolute(op) => self.unary(f, op, "abs "),
            Op::Compare(comparison, op) => self.binary(f, op, sign_of_comparison(*comparison)),
            Op::Not(op) => self.unary(f, op, "not "),
            Op::Truth(op) => self.unary(f, op, "true? "),
            Op::Convert(conversion, op) => self.unary(f, op, &format!("{conversion:?} ")),
            Op::ConvertOr(conversion, op) => {
                let [from, other] = [op.left, op.right].map(of);
                write!(f, "{} = {conversion:?} {from} or {other}", self.to(op.to))
            }
            Op::Concat(op) => {
                let parts: Vec<String> = op.parts.iter().map(|part| of(*part)).collect();
                write!(f, "{} = {}", self.to(op.to), parts.join(" ~ "))
            }
            Op::Append(op) => {
                let parts: Vec<String> = op.parts.iter().map(|part| of(*part)).collect();
                write!(f, "append to {}: {}", of(op.to), parts.join(" ~ "))
            }
            Op::Text(function, op) => self.unary(f, op, &format!("{function:?} ")),
            Op::Replace(op) => {
                let [from, old, new] = [op.from, op.old, op.new].map(of);
                write!(f, "{} = {from} with {new} for {old}", self.to(op.to))
            }
            Op::Format(op) => {
                let from: Vec<String> = op.from.iter().map(|part| of(*part)).collect();
                write!(f, "{} = {:?} {}", self.to(op.to), op.how, from.join(", "))
            }
            Op::TextTest(test, op) => self.binary(f, op, &format!("{test:?}")),
            Op::TextLength(op) => self.unary(f, op, "characters "),
            Op::If(op) => {
                write!(f, "if {}", of(op.condition))?;
                self.inner(f, &op.then, indent)?;
                self.otherwise(f, &op.otherwise, indent)
            }
            Op::For(op) => self.repeat(f, op, indent),
            Op::Fragment(fragment) => {
                let fragments = &self.listing.service.fragments;
                let bytes = fragments
                    .get(*fragment as usize)
                    .map_or(&[][..], |bytes| bytes);
                write!(f, "text {} bytes {}", bytes.len(), excerpt(bytes))
            }
            Op::Put(Put { from, escape }) => match escape {
                Escape::None => write!(f, "put {}", of(*from)),
                escape => write!(f, "put {} as {escape:?}", of(*from)),
            },
            Op::Query(op) => {
                let call = self
                    .stage
                    .call
                    .and_then(|call| self.listing.page.calls.get(call));
                let pieces = call.map_or(&[][..], |call| &call.form.pieces);
                f.write_str("query")?;
                for index in 0..=op.arguments.len() {
                    let piece = pieces.get(index).map_or(&b""[..], |piece| piece);
                    if !piece.is_empty() {
                        write!(f, " {}", excerpt(piece))?;
                    }
                    if let Some(argument) = op.arguments.get(index) {
                        write!(f, " {}", of(*argument))?;
                    }
                }
                Ok(())
            }
            Op::Status(status) => write!(f, "status {status}"),
            Op::Header(op) => {
                let value = of(op.value);
                match self.listing.page.asides.get(usize::from(op.name)) {
                    Some(Aside::Header(name)) => write!(f, "header {name}: {value}"),
                    Some(Aside::Stored(stored)) => {
                        let name = self.listing.stored(*stored);
                        write!(f, "set session.{name} {value}")
                    }
                    Some(Aside::Flash) => write!(f, "flash {value}"),
                    Some(Aside::Proxy) => f.write_str("go on to the proxy"),
                    None => write!(f, "header ?: {value}"),
                }
            }
            Op::File(path) => write!(f, "file {}", of(*path)),
            Op::SessionCreate(user) => write!(f, "create session {}", of(*user)),
            Op::SessionDestroy => f.write_str("destroy session"),
            Op::Finish => f.write_str("finish"),
        }
    }

    /// One operand, after the function's name or sign.
    fn unary(&self, f: &mut fmt::Formatter<'_>, op: &Unary, function: &str) -> fmt::Result {
        write!(
            f,
            "{} = {function}{}",
            self.to(op.to),
            self.register(op.from)
        )
    }

    /// Two operands around the function's name or sign.
    fn binary(&self, f: &mut fmt::Formatter<'_>, op: &Binary, function: &str) -> fmt::Result {
        let [left, right] = [op.left, op.right].map(|operand| self.register(operand));
        write!(f, "{} = {left} {function} {right}", self.to(op.to))
    }

    fn repeat(&self, f: &mut fmt::Formatter<'_>, op: &For, indent: usize) -> fmt::Result {
        write!(
            f,
            "for r{} in 0..{}, index r{}, length r{}",
            op.position,
            self.register(op.count),
            op.index,
            op.length
        )?;
        for choice in &op.choices {
            match choice {
                Choice::By(by, Key { block, register }) => {
                    f.write_str(match by {
                        KeyUse::Keep => ", keep",
                        KeyUse::Sort { .. } => ", sorted",
                        KeyUse::Unique => ", the first",
                    })?;
                    self.inner(f, block, indent)?;
                    let key = self.register(*register);
                    match by {
                        KeyUse::Keep => write!(f, " if {key}")?,
                        KeyUse::Unique => write!(f, " of each {key}")?,
                        KeyUse::Sort {
                            descending,
                            ignores_case,
                        } => {
                            let down = if *descending { ", descending" } else { "" };
                            let case = if *ignores_case { ", in any case" } else { "" };
                            write!(f, " by {key}{down}{case}")?;
                        }
                    }
                }
                Choice::Reverse => f.write_str(", reversed")?,
                Choice::Slice { start, stop, step } => {
                    let [start, stop] = [*start, *stop].map(|bound| self.register(bound));
                    write!(f, ", of them {start}..{stop}")?;
                    if *step > 1 {
                        write!(f, " in steps of {step}")?;
                    }
                }
            }
        }
        self.inner(f, &op.body, indent)?;
        self.otherwise(f, &op.otherwise, indent)
    }

    fn otherwise(&self, f: &mut fmt::Formatter<'_>, block: &[Op], indent: usize) -> fmt::Result {
        if block.is_empty() {
            return Ok(());
        }
        f.write_str(" else")?;
        self.inner(f, block, indent)
    }
}

fn sign_of_arithmetic(operator: Arithmetic) -> &'static str {
    match operator {
        Arithmetic::Add => "+",
        Arithmetic::Subtract => "-",
        Arithmetic::Multiply => "*",
        Arithmetic::Divide => "/",
        Arithmetic::FloorDivide => "//",
        Arithmetic::Remainder => "%",
        Arithmetic::Power => "**",
    }
}

fn sign_of_comparison(comparison: Comparison) -> &'static str {
    match comparison {
        Comparison::Equal => "==",
        Comparison::NotEqual => "!=",
        Comparison::Less => "<",
        Comparison::LessOrEqual => "<=",
        Comparison::Greater => ">",
        Comparison::GreaterOrEqual => ">=",
    }
}

fn name(kind: Type) -> &'static str {
    match kind {
        Type::Text => "text",
        Type::Int => "int",
        Type::Float => "float",
        Type::Bool => "bool",
    }
}

fn carriers(carriers: &[Carrier]) -> String {
    let names = carriers
        .iter()
        .map(|place| format!("{place:?}").to_lowercase());
    names.collect::<Vec<_>>().join(" or ")
}

fn bounds(kind: &ParamType) -> String {
    match kind {
        ParamType::Text {
            min_length,
            max_length,
            one_of,
            pattern,
        } if one_of.is_empty() => {
            let form = pattern
                .as_ref()
                .map(|pattern| format!(", {}", pattern.source()));
            let form = form.unwrap_or_default();
            format!("text of {min_length} to {max_length} characters{form}")
        }
        ParamType::Text { one_of, .. } => format!("one of {}", one_of.join(", ")),
        ParamType::Int {
            min: i64::MIN,
            max: i64::MAX,
        } => "int".to_owned(),
        ParamType::Int { min, max } => format!("int from {min} to {max}"),
        ParamType::Decimal => "decimal".to_owned(),
        ParamType::Date => "date".to_owned(),
        ParamType::Float { min, max } => match (*min == f64::MIN, *max == f64::MAX) {
            (true, true) => "float".to_owned(),
            (true, false) => format!("float to {max}"),
            (false, true) => format!("float from {min}"),
            (false, false) => format!("float from {min} to {max}"),
        },
        ParamType::Bool => "bool".to_owned(),
        ParamType::File { max_bytes } => format!("file of at most {max_bytes} bytes"),
        ParamType::Email { max_length } => format!("email of at most {max_length} characters"),
        ParamType::Path { max_length } => format!("path of at most {max_length} characters"),
    }
}

/// The beginning of a text, quoted.
fn excerpt(bytes: &[u8]) -> String {
    const SHOWN: usize = 48;
    let text = String::from_utf8_lossy(bytes);
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{:?}...", &text[..end]),
        None => format!("{text:?}"),
    }
}
