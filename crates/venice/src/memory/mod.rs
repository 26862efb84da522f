//! Memory of donors in the address space of a program.

mod borrower;
pub mod donor;
mod figures;
mod mapping;
mod observed;
mod orders;
mod owners;
mod pager;
mod pages;
mod panels;
mod program;
pub mod run;
mod space;
mod store;
mod streams;
mod stripes;
pub mod supply;
mod uffd;
pub mod wire;
