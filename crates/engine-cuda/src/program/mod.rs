//! A page's stage programs as the kernels read them.

mod page;
mod registers;
mod stage;

pub(crate) use page::Page;
pub(crate) use stage::{Form, Stage};
