//! Programs made at random, to run executors on.
//!
//! The compiler makes well-behaved programs; this makes any that the rules of `page::program`
//! allow, so that each operation meets each operand type, nesting, failing lanes and small output
//! regions.

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
    /// Whether it has what devices leave to the host.
    has_formats: bool,
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

    fn block(&mut self, depth: usize) -> Block {
        (0..self.dice.below(7))
            .flat_map(|_| self.op(depth))
            .collect()
    }

    fn op(&mut self, depth: usize) -> Vec<Op> {
        use Type::*;
        let [t, t2, t3, t4] = [0; 4].map(|_| self.register(Text));
        let [i, i2, i3] = [0; 3].map(|_| self.register(Int));
        let [b, b2] = [0; 2].map(|_| self.register(Bool));
        let kind = *self.dice.pick(&TYPES);
        let [x, y, z] = [0; 3].map(|_| self.register(kind));
        let number = *self.dice.pick(&[Int, Float]);
        let [n, n2, n3] = [0; 3].map(|_| self.register(number));
        let [f, f2] = [0; 2].map(|_| self.register(Float));
        let list = if self.rows_known && self.dice.once_in(2) {
            ROWS_FIELD
        } else {
            LIST_FIELD
        };
        // What mostly fails its lane is left out mostly, or few lanes would see the end.
        let op = match self.dice.below(26) {
            4..=6 if !self.dice.once_in(12) => Op::Length(Load { to: i, field: list }),
            8 | 9 if number == Int && !self.dice.once_in(4) => Op::Copy(Unary { to: x, from: y }),
            0 => Op::Copy(Unary { to: x, from: y }),
            1 => Op::Field(Load {
                to: t,
                field: TEXT_FIELD,
            }),
            2 => Op::Field(Load {
                to: i,
                field: INT_FIELD,
            }),
            3 => Op::Length(Load { to: i, field: list }),
            4 => Op::Item(Item {
                to: t,
                list,
                column: 0,
                position: i2,
            }),
            5 => Op::Item(Item {
                to: i,
                list,
                column: 1,
                position: i2,
            }),
            6 => Op::ConstantItem(ConstantItem {
                to: i,
                table: 0,
                position: i2,
            }),
            7 => self.arithmetic(number, binary(n, n2, n3)),
            8 => Op::Negate(Unary { to: n, from: n2 }),
            9 => Op::Absolute(Unary { to: n, from: n2 }),
            10 | 11 => self.compare(binary(b, y, z)),
            12 => Op::Not(Unary { to: b, from: b2 }),
            13 => Op::Truth(Unary { to: b, from: x }),
            14 => {
                if self.dice.once_in(4) {
                    let (conversion, to, left, right) = *self.dice.pick(&[
                        (Conversion::TextToInt, i, t, i2),
                        (Conversion::TextToFloat, f, t, f2),
                        (Conversion::FloatToInt, i, f2, i2),
                    ]);
                    return vec![Op::ConvertOr(conversion, Binary { to, left, right })];
                }
                let (conversion, to, from) = match self.dice.below(20) {
                    0 | 5..=10 => (Conversion::IntToFloat, f, i),
                    11.. => (Conversion::ToText, t, x),
                    1 => (Conversion::FloatToInt, i, f),
                    2 => (Conversion::BoolToInt, i, b),
                    3 => (Conversion::TextToInt, i, t),
                    4 => (Conversion::TextToFloat, f, t),
                };
                Op::Convert(conversion, Unary { to, from })
            }
            15 if self.dice.once_in(2) => return self.appended([t, t2, t3, t4], i),
            15 => Op::Concat(Concat {
                to: t,
                parts: vec![t2, t3, t4],
            }),
            16 if self.has_formats => self.format([t, t2, t3], i, f, b),
            16 => self.text_function(Unary { to: t, from: t2 }),
            17 => Op::Replace(Replace {
                to: t,
                from: t2,
                old: t3,
                new: t4,
            }),
            18 => self.text_test(binary(b, t, t2)),
            19 => Op::TextLength(Unary { to: i, from: t }),
            20 if depth > 0 => Op::If(If {
                condition: b,
                then: self.block(depth - 1),
                otherwise: self.block(depth - 1),
            }),
            21 if depth > 0 && self.may_put && self.has_rows && self.dice.once_in(2) => {
                return self.row_loop(list);
            }
            21 if depth > 0 => return self.for_loop(depth, list, i, i3),
            23 if self.may_put && self.has_rows => return self.choice(t, t2),
            22 | 23 if self.may_put => Op::Fragment(self.dice.below(4) as u32),
            _ if self.may_put => {
                let escape =
                    *self
                        .dice
                        .pick(&[Escape::Html, Escape::Json, Escape::None, Escape::Percent]);
                Op::Put(Put { from: x, escape })
            }
            _ => Op::Copy(Unary { to: x, from: z }),
        };
        vec![op]
    }

    fn arithmetic(&mut self, kind: Type, of: Binary) -> Op {
        let operators = [
            Arithmetic::Add,
            Arithmetic::Subtract,
            Arithmetic::Multiply,
            Arithmetic::FloorDivide,
            Arithmetic::Remainder,
            Arithmetic::Power,
            // Of floats alone.
            Arithmetic::Divide,
        ];
        let count = operators.len() - usize::from(kind != Type::Float);
        Op::Arithmetic(operators[self.dice.below(count)], of)
    }

    fn compare(&mut self, of: Binary) -> Op {
        let comparison = *self.dice.pick(&[
            Comparison::Equal,
            Comparison::NotEqual,
            Comparison::Less,
            Comparison::LessOrEqual,
            Comparison::Greater,
            Comparison::GreaterOrEqual,
        ]);
        Op::Compare(comparison, of)
    }

    fn text_function(&mut self, of: Unary) -> Op {
        let function = *self.dice.pick(&[
            TextFunction::Upper,
            TextFunction::Lower,
            TextFunction::Title,
            TextFunction::Capitalize,
            TextFunction::Trim,
            TextFunction::First,
            TextFunction::Last,
            TextFunction::UrlEncode,
            TextFunction::Md5,
            TextFunction::Escape(Escape::Html),
        ]);
        Op::Text(function, of)
    }

    /// A text that a loop puts together, of others and of itself, and, now and then, one that it
    /// was on the way.
    fn appended(&mut self, [t, t2, t3, before]: [Register; 4], count: Register) -> Vec<Op> {
        let [to, empty] = [0; 2].map(|_| self.own_register(Type::Text));
        let [position, index, length] = [0; 3].map(|_| self.own_register(Type::Int));
        let nothing = self.texts.intern("");
        self.stage.constants.push((empty, nothing));
        let parts = match self.dice.below(3) {
            0 => vec![t2],
            1 => vec![t2, t3],
            _ => vec![to, t2],
        };
        let mut body = vec![Op::Append(Concat { to, parts })];
        if self.dice.once_in(3) {
            body.push(Op::Copy(Unary {
                to: before,
                from: to,
            }));
        }
        if self.dice.once_in(2) {
            // What is made between lies behind it.
            body.push(Op::Text(TextFunction::Upper, Unary { to: t2, from: t3 }));
        }
        let choices = Vec::new();
        let otherwise = vec![Op::Append(Concat {
            to,
            parts: vec![t3],
        })];
        vec![
            Op::Copy(Unary { to, from: empty }),
            Op::For(For {
                count,
                choices,
                position,
                index,
                length,
                body,
                otherwise,
            }),
            Op::Copy(Unary { to: t, from: to }),
        ]
    }

    /// A text of several values, of numbers that are not too large to be widths.
    fn format(
        &mut self,
        [to, text, end]: [Register; 3],
        i: Register,
        f: Register,
        b: Register,
    ) -> Op {
        let small = self.own_register(Type::Int);
        let number = Constant::Int(self.dice.below(40) as i64);
        self.stage.constants.push((small, number));
        let (how, from) = match self.dice.below(16) {
            14 => (Formatting::LowerAscii, vec![text]),
            0 => (Formatting::Fixed, vec![f, small]),
            1 => (Formatting::Ceil, vec![f, small]),
            2 => (Formatting::Padded, vec![i, small]),
            3 => (Formatting::FileSize, vec![f, b]),
            4 => (Formatting::Truncate, vec![text, i, small, b, end]),
            5 => (Formatting::StripTags, vec![text]),
            6 => (Formatting::Indent, vec![text, small, b, b]),
            7 => (Formatting::Slice, vec![text, i, small, small]),
            8 => (Formatting::Character, vec![text, i]),
            9 => (Formatting::Places(Cut::Separated), vec![text, end, small]),
            10 => {
                let cut = *self.dice.pick(&[Cut::Words, Cut::Lines, Cut::Characters]);
                (Formatting::Places(cut), vec![text])
            }
            12 => (Formatting::IsLower, vec![text]),
            13 => (Formatting::IsUpper, vec![text]),
            // Most are the places of no parts at all.
            11 => (Formatting::Part, vec![text, end, small]),
            _ => (Formatting::Reverse, vec![text]),
        };
        Op::Format(Format { to, how, from })
    }

    fn text_test(&mut self, of: Binary) -> Op {
        let test = *self
            .dice
            .pick(&[TextTest::Contains, TextTest::StartsWith, TextTest::EndsWith]);
        Op::TextTest(test, of)
    }

    /// An if, elifs and else that append a fragment each, or now and then nothing or a number, what
    /// they compare read by nobody else.
    fn choice(&mut self, left: Register, right: Register) -> Vec<Op> {
        let condition = self.own_register(Type::Bool);
        let shown = |maker: &mut Maker| match maker.dice.below(6) {
            0 => vec![],
            1 => vec![Op::Put(Put {
                from: maker.register(Type::Int),
                escape: Escape::Html,
            })],
            fragment => vec![Op::Fragment(fragment as u32 % 3)],
        };
        let then = shown(self);
        let otherwise = if self.dice.once_in(2) {
            let other = self.register(Type::Text);
            self.choice(left, other)
        } else {
            shown(self)
        };
        let comparison = *self
            .dice
            // Where all of them are equal to something, they become one step.
            .pick(&[
                Comparison::Equal,
                Comparison::Equal,
                Comparison::Equal,
                Comparison::NotEqual,
                Comparison::Less,
            ]);
        vec![
            Op::Compare(
                comparison,
                Binary {
                    to: condition,
                    left,
                    right,
                },
            ),
            Op::If(If {
                condition,
                then,
                otherwise,
            }),
        ]
    }

    /// Loads a text, read by what is made here alone, and shows it, perhaps twice.
    fn shown_item(&mut self, list: FieldId, position: Register) -> Vec<Op> {
        let to = self.own_register(Type::Text);
        let put = Op::Put(Put {
            from: to,
            escape: *self.dice.pick(&[Escape::Html, Escape::None, Escape::Json]),
        });
        let mut ops = vec![
            Op::Item(Item {
                to,
                list,
                column: 0,
                position,
            }),
            put.clone(),
        ];
        if self.dice.once_in(2) {
            let other = self.register(Type::Text);
            ops.extend(self.choice(to, other));
            ops.extend([Op::Fragment(self.dice.below(3) as u32), put]);
        }
        ops
    }

    /// Only shows texts of a list's items, and perhaps those of the other list where it is empty.
    fn row_loop(&mut self, list: FieldId) -> Vec<Op> {
        let [count, position, index, length] = [0; 4].map(|_| self.own_register(Type::Int));
        let mut body = self.shown_item(list, position);
        body.push(Op::Fragment(self.dice.below(3) as u32));
        let otherwise = match self.rows_known && self.dice.once_in(2) {
            true => self.row_loop(LIST_FIELD + ROWS_FIELD - list),
            false => vec![Op::Fragment(0)],
        };
        let op = For {
            count,
            choices: vec![],
            position,
            index,
            length,
            body,
            otherwise,
        };
        over_items(list, op)
    }

    fn for_loop(&mut self, depth: usize, list: FieldId, to: Register, sum: Register) -> Vec<Op> {
        let [count, position, index, length] = [0; 4].map(|_| self.own_register(Type::Int));
        let mut choices = Vec::new();
        if self.dice.once_in(2) {
            let register = self.own_register(Type::Bool);
            let flag = self.register(Type::Bool);
            let block = vec![
                Op::Truth(Unary {
                    to: register,
                    from: position,
                }),
                Op::Copy(Unary {
                    to: flag,
                    from: register,
                }),
            ];
            choices.push(Choice::By(KeyUse::Keep, Key { block, register }));
        }
        while self.has_formats && self.dice.once_in(2) {
            choices.push(self.choice_of(list, position));
        }
        let mut body = vec![
            Op::Item(Item {
                to,
                list,
                column: 1,
                position,
            }),
            Op::Arithmetic(
                Arithmetic::Add,
                Binary {
                    to: sum,
                    left: index,
                    right: length,
                },
            ),
        ];
        if self.may_put && self.has_rows {
            body.extend(self.shown_item(list, position));
            body.extend(self.shown_item(list, position));
        }
        body.extend(self.block(depth - 1));
        if self.may_put {
            body.extend(self.unless_last(index, length));
        }
        let op = For {
            count,
            choices,
            position,
            index,
            length,
            body,
            otherwise: self.block(depth - 1),
        };
        over_items(list, op)
    }

    /// Shows a fragment in all turns of a loop but its last: what is read of it at the end of one
    /// turn is there at the end of the next.
    fn unless_last(&mut self, index: Register, length: Register) -> Vec<Op> {
        let [one, next] = [0; 2].map(|_| self.own_register(Type::Int));
        let [is_last, goes_on] = [0; 2].map(|_| self.own_register(Type::Bool));
        self.stage.constants.push((one, Constant::Int(1)));
        vec![
            Op::Arithmetic(Arithmetic::Add, binary(next, index, one)),
            Op::Compare(Comparison::Equal, binary(is_last, next, length)),
            Op::Not(Unary {
                to: goes_on,
                from: is_last,
            }),
            Op::If(If {
                condition: goes_on,
                then: vec![Op::Fragment(0)],
                otherwise: vec![],
            }),
        ]
    }

    /// What rearranges a loop's positions.
    fn choice_of(&mut self, list: FieldId, position: Register) -> Choice {
        let use_of = match self.dice.below(4) {
            0 => return Choice::Reverse,
            1 => {
                let [start, stop] = [0; 2].map(|_| self.register(Type::Int));
                let step = self.dice.below(3) as u32 + 1;
                return Choice::Slice { start, stop, step };
            }
            2 => KeyUse::Unique,
            _ => KeyUse::Sort {
                descending: self.dice.once_in(2),
                ignores_case: self.dice.once_in(2),
            },
        };
        let column = self.dice.below(2) as u16;
        let register = self.own_register([Type::Text, Type::Int][usize::from(column)]);
        let item = Op::Item(Item {
            to: register,
            list,
            column,
            position,
        });
        let block = vec![item];
        Choice::By(use_of, Key { block, register })
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
        // Kept of those refused, while the next stage sets the others' anew.
        let value = self.own_register(Type::Text);
        let text = self.texts.intern("of the first stage");
        self.stage.constants.push((value, text));
        body.push(Op::Header(Header { name: 0, value }));
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
                choices: vec![],
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

/// A loop over a list's items, and the count of them before it.
fn over_items(list: FieldId, op: For) -> Vec<Op> {
    let length = Load {
        to: op.count,
        field: list,
    };
    vec![Op::Length(length), Op::For(op)]
}

fn binary(to: Register, left: Register, right: Register) -> Binary {
    Binary { to, left, right }
}

/// A service with one page of two stages, made from a seed. Those of seeds that leave 7 when they
/// are divided by 8 have what devices leave to the host, too.
#[must_use]
pub fn make_service(seed: u64) -> Arc<Service> {
    make(seed, false)
}

/// As [`make_service`], with what rows of pages have besides: texts that are shown as soon as they
/// are loaded, once or twice, ifs with elifs that show one short text or another, and loops that do
/// nothing else.
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
        has_formats: seed % 8 == 7,
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
        stored: vec![],
        cookies: Vec::new(),
        flash: None,
        here: None,
        now: None,
        drawn: vec![],
        csrf: Csrf::default(),
        is_sign_in: false,
        gzip: true,
        content_type: "text/html".to_owned(),
        params: vec![],
        list_params: vec![],
        fields,
        calls: vec![Call {
            backend: 0,
            asking: Asking::Request,
            has_name: true,
            statements: Box::default(),
            document: None,
            form,
            columns: 2,
            result: CallResult::Rows(ROWS_FIELD),
            status: STATUS_FIELD,
            idempotent: true,
            optional: false,
            shared: false,
            merged: false,
            particulars: Default::default(),
        }],
        stages,
        tables: vec![(0..5).map(|i| Constant::Int(i * 10)).collect()],
        texts: maker.texts.into_bytes(),
        asides: vec![Aside::Header("X-Made".to_owned())],
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
