//! Who asks a backend: what those who share it are told apart by.
//!
//! Whoever has a session is its user, however many connections he has. Who has none is his address,
//! of IPv6 the network of 64 bits that a client has to itself: connections cost nothing, so that by
//! them one would be many. Behind a proxy all have its address, and at a Unix socket none has one;
//! there it is the connection.
//!
//! But behind an address there may be an office. All its visitors as one would wait for each other,
//! in one turn of many, while each of those who are signed in has his own: where a backend is busy,
//! nobody of the office would be answered in time. So some of its connections take turns as if they
//! were clients, not so many that one can keep others waiting for long by opening connections.

use crate::backend::Asker;
use rhythm_engine::cohort::Cohort;
use rhythm_engine::program::PageProgram;
use rhythm_net::{Client, ConnectionId};
use std::net::IpAddr;

/// What tells clients without a session apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientsBy {
    /// Their addresses.
    Address,
    /// Their connections: all come from one address, or few.
    Connection,
}

impl ClientsBy {
    /// The number of a client.
    pub(crate) fn number(self, client: Client, connection: ConnectionId) -> u64 {
        let address = client.address().map(|address| address.to_canonical());
        match (self, address) {
            (ClientsBy::Connection, _) => connection.as_u64(),
            // Of a network that nobody has (6000::/3).
            (ClientsBy::Address, None) => connection.as_u64() | 0b011 << 61,
            (ClientsBy::Address, Some(IpAddr::V4(address))) => u64::from(address.to_bits()),
            // No client's network has a number as small as those of IPv4.
            (ClientsBy::Address, Some(IpAddr::V6(address))) => (address.to_bits() >> 64) as u64,
        }
    }
}

/// Who a lane is for: its session's user, or else its client, of this number and connection.
pub(crate) fn asker(
    cohort: &Cohort,
    program: &PageProgram,
    lane: usize,
    client: u64,
    connection: ConnectionId,
) -> Asker {
    let user = program.session_fields.and_then(|fields| {
        let of_lane = |field: u16| cohort.fields[usize::from(field)].ints()[lane];
        (of_lane(fields.present) != 0).then(|| of_lane(fields.user))
    });
    match user {
        Some(user) => Asker {
            number: user as u64,
            visitor: 0,
        },
        None => Asker {
            // Others than those of users, whose numbers are seldom below 0: those that are share
            // what is theirs with an address, no more.
            number: !client,
            visitor: (connection.slot() % u32::from(Asker::VISITORS_MAX)) as u8,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::SocketAddr;

    #[test]
    fn a_client_is_its_address_or_behind_a_proxy_its_connection() {
        let number = |by: ClientsBy, address: &str, connection: u32| {
            let address = address.parse().expect("an address");
            let client = Client::At(SocketAddr::new(address, 4711));
            by.number(client, ConnectionId::new(connection, 0))
        };
        let by_address = |address: &str| {
            let all = [1, 2].map(|connection| number(ClientsBy::Address, address, connection));
            assert_eq!(all[0], all[1], "{address}");
            all[0]
        };
        let four = by_address("192.0.2.1");
        assert_ne!(four, by_address("192.0.2.2"));
        assert_eq!(four, by_address("::ffff:192.0.2.1"));
        let six = by_address("2001:db8:0:1::1");
        assert_eq!(six, by_address("2001:db8:0:1:ffff::2"));
        assert_ne!(six, by_address("2001:db8:0:2::1"));
        assert_ne!(
            number(ClientsBy::Connection, "192.0.2.1", 1),
            number(ClientsBy::Connection, "192.0.2.1", 2)
        );
        let local = |slot, generation| {
            let connection = ConnectionId::new(slot, generation);
            ClientsBy::Address.number(Client::Unix, connection)
        };
        assert_ne!(local(1, 0), local(2, 0), "each is a client");
        assert_ne!(local(1, 0), local(1, 1));
        assert_ne!(local(1, 0), by_address("0.0.0.1"));
    }
}
