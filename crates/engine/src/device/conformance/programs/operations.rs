//! Operations made at random, each with operands of its types.

use super::{INT_FIELD, LIST_FIELD, Maker, ROWS_FIELD, TEXT_FIELD, TYPES};
use crate::program::*;

impl Maker {
    pub(super) fn block(&mut self, depth: usize) -> Block {
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
        let f = self.register(Float);
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
            15 => Op::Concat(Concat {
                to: t,
                parts: vec![t2, t3, t4],
            }),
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
            21 if depth > 0 => return self.for_loop(depth, list, i, i3),
            23 if self.may_put && self.has_rows => return self.choice(t, t2),
            22 | 23 if self.may_put => Op::Fragment(self.dice.below(4) as u32),
            _ if self.may_put => {
                let escape =
                    *self
                        .dice
                        .pick(&[Escape::Html, Escape::Html, Escape::None, Escape::Percent]);
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
            escape: *self.dice.pick(&[Escape::Html, Escape::None]),
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

    fn for_loop(&mut self, depth: usize, list: FieldId, to: Register, sum: Register) -> Vec<Op> {
        let [count, position, index, length] = [0; 4].map(|_| self.own_register(Type::Int));
        let filter = self.dice.once_in(2).then(|| {
            let keep = self.own_register(Type::Bool);
            let flag = self.register(Type::Bool);
            LoopFilter {
                block: vec![
                    Op::Truth(Unary {
                        to: keep,
                        from: position,
                    }),
                    Op::Copy(Unary {
                        to: flag,
                        from: keep,
                    }),
                ],
                keep,
            }
        });
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
        vec![
            Op::Length(Load {
                to: count,
                field: list,
            }),
            Op::For(For {
                count,
                filter,
                position,
                index,
                length,
                body,
                otherwise: self.block(depth - 1),
            }),
        ]
    }
}

fn binary(to: Register, left: Register, right: Register) -> Binary {
    Binary { to, left, right }
}
