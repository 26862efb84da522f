//! Programs made at random, to run executors on.
//!
//! The compiler makes well-behaved programs; this makes any that the rules of `page::program`
//! allow, so that each operation meets each operand type, nesting, failing lanes and small output
//! regions.

mod operations;

use super::Dice;
use crate::program::Service;
use crate::program::*;
use std::sync::Arc;

/// Registers of each type that operations read and write; loops and constants have more of their
/// own.
const REGISTERS: u16 = 5;

const TYPES: [Type; 4] = [Type::Text, Type::Int, Type::Float, Type::Bool];

/// Fields of the programs made here: a text, an integer, a list, and a call's rows and status.
const TEXT_FIELD: FieldId = 0;
const INT_FIELD: FieldId = 1;
const LIST_FIELD: FieldId = 2;
const ROWS_FIELD: FieldId = 3;
const STATUS_FIELD: FieldId = 4;

struct Maker {
    dice: Dice,
    texts: TextPool,
    stage: StageProgram,
    /// Whether what is made may write output; see the rules in `page::program`.
    may_put: bool,
    rows_known: bool,
    /// Whether it has what rows of pages have; see [`make_service_with_rows`].
    has_rows: bool,
}

impl Maker {
    fn register(&mut self, kind: Type) -> Register {
        let of_kind = TYPES.iter().position(|t| *t == kind).unwrap_or(0) as u16;
        of_kind * REGISTERS + self.dice.below(usize::from(REGISTERS)) as u16
    }

    /// A register that nothing else writes.
    fn own_register(&mut self, kind: Type) -> Register {
        self.stage.registers.push(kind);
        (self.stage.registers.len() - 1) as Register
    }

    fn constant(&mut self, kind: Type) -> Constant {
        match kind {
            Type::Text => {
                let text = self.dice.text();
                self.texts.intern(&text)
            }
            Type::Int => Constant::Int(self.dice.int()),
            Type::Float => Constant::Float(self.dice.int() as f64 / 8.0),
            Type::Bool => Constant::Bool(self.dice.once_in(2)),
        }
    }

    /// A stage's skeleton: every register is written before the body begins.
    fn begin(&mut self) {
        self.stage = StageProgram::default();
        for kind in TYPES {
            self.stage.registers.extend([kind; REGISTERS as usize]);
        }
        for (register, kind) in self.stage.registers.clone().into_iter().enumerate() {
            let constant = self.constant(kind);
            let own = self.own_register(kind);
            self.stage.constants.push((own, constant));
            self.stage.body.push(Op::Copy(Unary {
                to: register as Register,
                from: own,
            }));
        }
    }

    /// A stage that refuses some lanes and asks for the others, each once or, in a loop, as often
    /// as it has items.
    fn first_stage(&mut self, form: &Form) -> StageProgram {
        self.begin();
        let mut body = self.block(2);
        self.may_put = true;
        let mut refused = self.block(2);
        refused.extend([Op::Status(403), Op::Finish]);
        self.may_put = false;
        let condition = self.register(Type::Bool);
        body.push(Op::If(If {
            condition,
            then: refused,
            otherwise: vec![],
        }));
        // An argument of each type, all at one place among the registers of theirs.
        let place = self.register(TYPES[0]);
        let arguments = (0u16..)
            .zip(TYPES)
            .map(|(kind, _)| kind * REGISTERS + place);
        let arguments: Vec<Register> = arguments.collect();
        for piece in &form.pieces {
            self.texts.intern(&String::from_utf8_lossy(piece));
        }
        let mut ask = vec![Op::Query(Query { arguments })];
        if self.dice.once_in(2) {
            let [count, position, index, length] = [0; 4].map(|_| self.own_register(Type::Int));
            body.push(Op::Length(Load {
                to: count,
                field: LIST_FIELD,
            }));
            ask = vec![Op::For(For {
                count,
                filter: None,
                position,
                index,
                length,
                body: ask,
                otherwise: vec![],
            })];
        }
        body.extend(ask);
        let mut first = std::mem::take(&mut self.stage);
        first.body.extend(body);
        first.call = Some(0);
        first
    }

    /// A stage that writes what it has and was answered, and adds what ends a page.
    fn last_stage(&mut self, seed: u64) -> StageProgram {
        self.begin();
        self.may_put = true;
        self.rows_known = true;
        let mut body = self.block(3);
        let [value, path, user] =
            [Type::Text, Type::Text, Type::Int].map(|kind| self.register(kind));
        body.extend([
            Op::Field(Load {
                to: user,
                field: STATUS_FIELD,
            }),
            Op::Header(Header { name: 0, value }),
        ]);
        body.push(match seed % 3 {
            0 => Op::File(path),
            1 => Op::SessionCreate(user),
            _ => Op::SessionDestroy,
        });
        body.extend(self.block(3));
        let mut last = std::mem::take(&mut self.stage);
        last.body.extend(body);
        last
    }
}

/// A service with one page of two stages, made from a seed.
#[must_use]
pub fn make_service(seed: u64) -> Arc<Service> {
    make(seed, false)
}

/// As [`make_service`], with what rows of pages have besides: texts that are shown as soon as they
/// are loaded, once or twice, and ifs with elifs that show one short text or another.
#[must_use]
pub fn make_service_with_rows(seed: u64) -> Arc<Service> {
    make(seed, true)
}

fn make(seed: u64, has_rows: bool) -> Arc<Service> {
    let mut maker = Maker {
        dice: Dice::new(seed),
        texts: TextPool::default(),
        stage: StageProgram::default(),
        may_put: false,
        rows_known: false,
        has_rows,
    };
    let columns = vec![("a".to_owned(), Type::Text), ("b".to_owned(), Type::Int)];
    let field = |name: &str, kind| Field {
        name: name.to_owned(),
        kind,
    };
    let fields = vec![
        field("text", FieldType::Scalar(Type::Text)),
        field("int", FieldType::Scalar(Type::Int)),
        field("list", FieldType::List(columns.clone())),
        field("rows", FieldType::List(columns)),
        field("rows.status", FieldType::Scalar(Type::Int)),
    ];

    let form = Form::plain(&TYPES);
    let stages = vec![maker.first_stage(&form), maker.last_stage(seed)];
    let page = PageProgram {
        name: "made".to_owned(),
        routes: vec![],
        session: SessionUse::None,
        session_fields: None,
        content_type: "text/html".to_owned(),
        params: vec![],
        list_params: vec![],
        fields,
        calls: vec![Call {
            backend: 0,
            form,
            columns: 2,
            result: CallResult::Rows(ROWS_FIELD),
            status: STATUS_FIELD,
            idempotent: true,
        }],
        stages,
        tables: vec![(0..5).map(|i| Constant::Int(i * 10)).collect()],
        texts: maker.texts.into_bytes(),
        header_names: vec!["X-Made".to_owned()],
    };
    let fragments = [
        "short",
        "",
        &"f".repeat(128),
        &"a long fragment ".repeat(40),
    ];
    Arc::new(Service {
        pages: vec![page],
        fragments: fragments.map(|f| f.as_bytes().into()).to_vec(),
        ..Service::default()
    })
}
