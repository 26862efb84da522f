//! Real servers with our modules in them, from Debian's packages: each request is told of.

mod apache;
mod nginx;
mod switched;
mod told;
