//! What a stage writes, and the blocks of its program.
//!
//! Static text is collected until something dynamic is written, so that neighboring texts become
//! one fragment wherever they come from. Where a text is captured instead, its parts are kept until
//! they are put together.

use super::build::{Fragments, OpenBlock, PageParts, Sink, StageBuilder};
use super::value::{Literal, Operand};
use crate::program::{
    Block, Concat, Escape, For, If, Op, Put, Register, TextFunction, Type, Unary,
};

impl StageBuilder {
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
        let parts = merge_literals(&captured);
        let parts = parts.iter();
        let parts = parts.filter_map(|part| self.text_register(part, page));
        let parts = parts.collect();
        self.push(Op::Append(Concat { to: joined, parts }));
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

    /// `for`: as [`StageBuilder::push_if`].
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
        Escape::Json => text
            .chars()
            .map(|c| match c {
                '"' | '\\' => format!("\\{c}"),
                '\n' => "\\n".to_owned(),
                '\r' => "\\r".to_owned(),
                '\t' => "\\t".to_owned(),
                '\u{8}' => "\\b".to_owned(),
                '\u{c}' => "\\f".to_owned(),
                '\0'..' ' | '<' | '>' | '&' | '\'' => format!("\\u{:04x}", u32::from(c)),
                c => c.to_string(),
            })
            .collect(),
        Escape::Header => text
            .chars()
            .map(|c| if c.is_ascii_control() { ' ' } else { c })
            .collect(),
    }
}
