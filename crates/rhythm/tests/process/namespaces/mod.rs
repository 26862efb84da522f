//! Rings of nodes that are machines of their own, as far as their networks go: each in a network
//! namespace, with one interface for clients and another for the backbone, on which a relay makes
//! what the nodes say late, and loses some of it.
//!
//! ```text
//!   clients ----- 10.77.N.0/24 ----- client [ node N ] backbone ----- 10.78.N.0/24 ----- relay
//!   (the hub's namespace)                                               (the hub's, too)
//! ```
//!
//! Where namespaces cannot be made (who is not root may not), these tests say so and do nothing.
//! `RHYTHM_KILLS=200` kills so many nodes in each, `RHYTHM_LEAVES=50` tells so many to end.

mod net;
mod relay;

use crate::ring::{ACKED, ASYNC, Copies, NAMES, Outcome, Ring, end_each, kill_each};
use net::Namespace;
use std::io::Write;
use std::net::SocketAddr;
use std::thread;

/// How nodes reach each other.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Backbone {
    Tcp,
    Ether,
}

/// The machines, and the one between them.
struct Network {
    hub: Namespace,
    nodes: Vec<Namespace>,
}

impl Network {
    fn new() -> Result<Network, String> {
        let hub = Namespace::new()?;
        let nodes: Result<Vec<_>, _> = NAMES.iter().map(|_| Namespace::new()).collect();
        let nodes = nodes?;
        hub.ip("link set lo up");
        for (n, node) in nodes.iter().enumerate() {
            node.ip("link set lo up");
            for (name, net) in [("client", 77), ("backbone", 78)] {
                hub.join(&format!("{name}{n}"), node, name);
                hub.ip(&format!("addr add 10.{net}.{n}.1/24 dev {name}{n}"));
                node.ip(&format!("addr add 10.{net}.{n}.2/24 dev {name}"));
            }
            // The relay stands for the other nodes.
            node.ip(&format!("route add 10.78.0.0/16 via 10.78.{n}.1"));
        }
        Ok(Network { hub, nodes })
    }
}

fn address(net: usize, node: usize, host: usize, port: u16) -> SocketAddr {
    SocketAddr::from(([10, net as u8, node as u8, host as u8], port))
}

/// Does something to the nodes of a ring in turn, under load, and tells what came of it; none where
/// there can be no namespaces.
fn outcome(
    test: &str,
    backbone: Backbone,
    copies: Copies,
    act: impl FnOnce(Ring<'_>) -> Outcome + Send,
) -> Option<Outcome> {
    let network = match Network::new() {
        Ok(network) => network,
        Err(why) => {
            // Past the harness, which keeps what tests print that pass.
            let said = writeln!(std::io::stderr(), "{test} is SKIPPED, no namespaces: {why}");
            said.expect("there is a standard error");
            return None;
        }
    };
    // A thread that is in the hub, as those are that it starts.
    let run = || {
        network.hub.enter();
        let (names, all) = (["backbone0", "backbone1", "backbone2"], 0..NAMES.len());
        let (pairs, interfaces) = match backbone {
            Backbone::Tcp => {
                let pair = |n| (address(78, n, 1, 7000), address(78, n, 2, 7000));
                (all.clone().map(pair).collect(), Vec::new())
            }
            Backbone::Ether => (Vec::new(), names.map(str::to_owned).to_vec()),
        };
        let relay = relay::start(&pairs, &interfaces);
        let places = all.map(|n| (address(77, n, 2, 11211), address(78, n, 1, 7000)));
        let ring = Ring::start_at(test, &places.collect::<Vec<_>>(), copies, |n| {
            let mut command = network.nodes[n].command(env!("CARGO_BIN_EXE_rhythm"));
            let at = match backbone {
                Backbone::Tcp => address(78, n, 2, 7000).to_string(),
                Backbone::Ether => "ether:backbone".to_owned(),
            };
            command.args(["kv", "--backbone", &at]);
            command
        });
        let outcome = act(ring);
        relay.stop();
        relay.join().expect("the relay does not fail");
        outcome
    };
    let outcome = thread::scope(|scope| scope.spawn(run).join());
    match outcome {
        Ok(outcome) => {
            println!("{test}: {outcome}");
            Some(outcome)
        }
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

#[test]
fn over_tcp_what_was_confirmed_is_there_whichever_machine_dies() {
    if let Some(outcome) = outcome("kv-tcp-acked", Backbone::Tcp, ACKED, kill_each) {
        assert!(outcome.confirmed > 0 && outcome.lost == 0, "{outcome}");
    }
}

#[test]
fn over_ethernet_what_was_confirmed_is_there_whichever_machine_dies() {
    if let Some(outcome) = outcome("kv-ether-acked", Backbone::Ether, ACKED, kill_each) {
        assert!(outcome.confirmed > 0 && outcome.lost == 0, "{outcome}");
    }
}

#[test]
fn over_ethernet_a_machine_that_is_told_to_end_hands_over_all_that_was_written() {
    if let Some(outcome) = outcome("kv-ether-leave", Backbone::Ether, ASYNC, end_each) {
        assert!(outcome.confirmed > 0 && outcome.lost == 0, "{outcome}");
    }
}

/// Where clients do not wait for copies, some writes may be lost with a machine: it says how many.
/// What is there is something that was written, all the same.
#[test]
fn without_waiting_for_copies_service_goes_on_over_both() {
    for (test, backbone) in [
        ("kv-tcp-async", Backbone::Tcp),
        ("kv-ether-async", Backbone::Ether),
    ] {
        if let Some(outcome) = outcome(test, backbone, ASYNC, kill_each) {
            assert!(outcome.confirmed > 0, "{outcome}");
        }
    }
}
