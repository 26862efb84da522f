//! What loads servers and measures them: the load generators of web servers ([`load`]) and of
//! memcached servers ([`memcached`]), other servers beside ours ([`compare`]), attacks and what
//! others feel of them ([`attack`]), the paper's emulation ([`emulate`]), the limit that no server
//! beats ([`limit`]), and the charts of papers ([`reproduce`]), with the programs ([`programs`])
//! and datagrams ([`packets`]) that these have others' memory and NICs carry.

pub mod attack;
pub mod compare;
pub mod emulate;
pub mod limit;
pub mod load;
mod median;
pub mod memcached;
pub mod packets;
pub mod programs;
pub mod reproduce;
