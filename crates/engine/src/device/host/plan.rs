//! Plans: a stage's program as this executor runs it, made when its page is first run.
//!
//! What can run as one becomes steps (`fuse`), what is left stays an operation, and columns become
//! places in a table that a launch fills. So a cohort of one lane pays for its steps, not for their
//! making.

use super::fuse::Fuse;
use super::row_plan::count_reads;
use super::step::{Needed, Steps};
use super::work::OPERATION_WORK;
use crate::device::cost::Operations;
use crate::program::{self, KeyUse, Op, PageProgram, Register};

/// A stage's plan.
pub(super) struct Plan {
    /// What is run.
    pub(super) parts: Vec<Part>,
    /// The columns that its steps read.
    pub(super) needed: Needed,
    /// The work of what each lane does outside of loops.
    pub(super) once: usize,
}

/// What is run for all selected lanes before the next part is.
pub(super) enum Part {
    /// Operations that run as one, lane by lane.
    Steps(Steps),
    /// One that makes texts or asks.
    Op(Op),
    /// A branch with such an operation in it.
    Branch(Branch),
    /// A loop with one in it, or with choices.
    Loop(Loop),
}

/// An [`If`](crate::program::If).
pub(super) struct Branch {
    pub(super) condition: Register,
    pub(super) then: Vec<Part>,
    pub(super) otherwise: Vec<Part>,
}

/// A [`For`](crate::program::For).
pub(super) struct Loop {
    pub(super) count: Register,
    pub(super) position: Register,
    pub(super) index: Register,
    pub(super) length: Register,
    pub(super) choices: Vec<Choice>,
    pub(super) body: Vec<Part>,
    pub(super) otherwise: Vec<Part>,
}

/// A [`Choice`](crate::program::Choice).
pub(super) enum Choice {
    By(KeyUse, Key),
    Reverse,
    Slice {
        start: Register,
        stop: Register,
        step: usize,
    },
}

/// A [`Key`](crate::program::Key).
pub(super) struct Key {
    pub(super) parts: Vec<Part>,
    pub(super) register: Register,
}

impl Plan {
    /// The plan of a page's stage.
    pub(super) fn new(program: &PageProgram, stage: usize, fragments: &[Box<[u8]>]) -> Plan {
        let stage = &program.stages[stage];
        let mut reads = vec![0; stage.registers.len()];
        count_reads(&stage.body, &mut reads);
        let mut fuse = Fuse::new(program, stage, fragments, &reads);
        let parts = parts(&stage.body, &mut fuse);
        Plan {
            parts,
            needed: fuse.needed,
            once: Operations::of(&stage.body).once * OPERATION_WORK,
        }
    }
}

/// The parts of a block.
fn parts(block: &[Op], fuse: &mut Fuse<'_>) -> Vec<Part> {
    let mut parts = Vec::new();
    let mut rest = block;
    while let [op, others @ ..] = rest {
        let (steps, count) = fuse.as_one(rest);
        if count > 0 {
            parts.push(Part::Steps(steps));
            rest = &rest[count..];
        } else {
            parts.push(part(op, fuse));
            rest = others;
        }
    }
    parts
}

/// The part of an operation that cannot run as one with others.
fn part(op: &Op, fuse: &mut Fuse<'_>) -> Part {
    match op {
        Op::If(op) => Part::Branch(Branch {
            condition: op.condition,
            then: parts(&op.then, fuse),
            otherwise: parts(&op.otherwise, fuse),
        }),
        Op::For(op) => Part::Loop(Loop {
            count: op.count,
            position: op.position,
            index: op.index,
            length: op.length,
            choices: op.choices.iter().map(|of| choice(of, fuse)).collect(),
            body: parts(&op.body, fuse),
            otherwise: parts(&op.otherwise, fuse),
        }),
        _ => Part::Op(op.clone()),
    }
}

fn choice(of: &program::Choice, fuse: &mut Fuse<'_>) -> Choice {
    match of {
        program::Choice::By(by, key) => Choice::By(
            *by,
            Key {
                parts: parts(&key.block, fuse),
                register: key.register,
            },
        ),
        program::Choice::Reverse => Choice::Reverse,
        program::Choice::Slice { start, stop, step } => Choice::Slice {
            start: *start,
            stop: *stop,
            step: *step as usize,
        },
    }
}
