//! Operations that answer: output, requests, and what goes into an answer's head.

use super::run::Run;
use super::strip::{Fate, Selection};
use super::texts::print;
use crate::cohort::{BackendRequest, SessionChange};
use crate::device::limits::FOLD_BYTES_MAX;
use crate::program::{FragmentId, Header, Put, Register, Request, Type};

impl Run<'_> {
    pub(super) fn fragment(&mut self, fragment: FragmentId, selection: &Selection) {
        let text = &self.fragments[fragment as usize];
        if text.len() <= FOLD_BYTES_MAX {
            self.regions
                .put_constant(self.lanes, selection, text, self.level);
        } else {
            self.regions
                .put_segment(self.lanes, selection, fragment, text.len());
        }
    }

    pub(super) fn put(&mut self, op: &Put, selection: &Selection) {
        let cells = self.registers.column(op.from);
        let kind = self.kind(op.from);
        if kind == Type::Text {
            let (lanes, arena) = (&mut *self.lanes, &*self.arena);
            self.regions
                .put_texts(lanes, selection, cells, arena, op.escape, self.level);
        } else {
            self.regions
                .put_printed(self.lanes, selection, cells, |cell, text| {
                    print(kind, cell, text)
                });
        }
    }

    pub(super) fn request(&mut self, op: &Request, selection: &Selection) {
        for &lane in selection {
            let text = self.registers.view(op.text, lane);
            if self.lanes.charge(lane, text.length as usize) {
                self.requests.push(BackendRequest {
                    lane: self.lanes.index[usize::from(lane)],
                    text,
                    answer: None,
                });
            }
        }
    }

    pub(super) fn status(&mut self, status: u16, selection: &Selection) {
        for &lane in selection {
            self.lanes.answer[usize::from(lane)].status = status;
        }
    }

    pub(super) fn header(&mut self, op: &Header, selection: &Selection) {
        for &lane in selection {
            let value = self.registers.view(op.value, lane);
            self.headers
                .push((self.lanes.index[usize::from(lane)], op.name, value));
        }
    }

    pub(super) fn file(&mut self, path: Register, selection: &Selection) {
        for &lane in selection {
            let path = self.registers.view(path, lane);
            self.lanes.answer[usize::from(lane)].file = Some(path);
        }
    }

    pub(super) fn session_create(&mut self, user: Register, selection: &Selection) {
        for &lane in selection {
            let user = self.registers.int(user, lane);
            self.lanes.answer[usize::from(lane)].session = SessionChange::Create(user);
        }
    }

    pub(super) fn session_destroy(&mut self, selection: &Selection) {
        for &lane in selection {
            self.lanes.answer[usize::from(lane)].session = SessionChange::Destroy;
        }
    }

    pub(super) fn finish(&mut self, selection: &Selection) {
        for &lane in selection {
            self.lanes.end(lane, Fate::Finished);
        }
    }
}
