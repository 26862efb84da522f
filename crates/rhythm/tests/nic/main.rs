//! `rhythm venice lend-nic` and `nic` between network namespaces: a borrower that reaches a server
//! which only the donor has a way to. As root; where there are no namespaces or no TAPs, the tests
//! say so and end.

mod hostile;
#[path = "../process/namespaces/net.rs"]
mod net;
mod site;
mod traffic;

use site::{Onward, Site, soon};
use std::time::Duration;

/// Bytes of a transfer.
const BYTES: usize = 50 << 20;

/// The ways in which a NIC can be lent, each with a transfer both ways.
#[test]
fn a_server_beyond_the_donor_is_reached_by_the_borrowed_nic() {
    for (mtu, offload, socket, onward) in [
        (1500, true, false, Onward::Routed),
        (9000, false, false, Onward::Masqueraded),
        (1500, false, true, Onward::Bridged),
        (9000, true, true, Onward::Bridged),
    ] {
        let Some(site) = Site::new(mtu) else {
            return;
        };
        let (mut donor, mut borrower) = site.lend(onward, offload, socket);
        let said = borrower.said();
        assert!(said.contains(&format!("MTU {mtu}")), "{said}");
        traffic::transfer(&site, BYTES);
        assert_eq!(site.rules(), usize::from(onward == Onward::Masqueraded));
        assert!(borrower.terminate().success());
        assert!(!site.borrower.has("venice0"));
        soon("the donor's interface goes", || !site.donor.has("vnic0"));
        assert!(donor.terminate().success());
        assert_eq!(site.rules(), 0);
    }
}

#[test]
fn what_was_made_goes_when_its_maker_is_killed() {
    let Some(site) = Site::new(1500) else {
        return;
    };
    let (mut donor, mut borrower) = site.lend(Onward::Masqueraded, true, false);
    traffic::transfer(&site, 100_000);
    borrower.kill();
    soon("the interface goes", || !site.borrower.has("venice0"));
    soon("the donor's goes", || !site.donor.has("vnic0"));
    let mut borrower = site.borrow(&donor, true);
    traffic::transfer(&site, 100_000);
    assert_eq!(site.rules(), 1);
    let address = donor.address.clone();
    donor.kill();
    soon("the donor's interface goes", || !site.donor.has("vnic0"));
    soon("its rule goes", || site.rules() == 0);
    soon("there is no carrier", || !site.borrower.has_carrier());
    // Another donor takes its place.
    let mut donor = site.donor_at(&address, Onward::Masqueraded, true, false);
    soon("there is a carrier", || site.borrower.has_carrier());
    traffic::transfer(&site, 100_000);
    // Without a donor it ends at once, too.
    assert!(donor.terminate().success());
    soon("there is no carrier", || !site.borrower.has_carrier());
    assert!(borrower.terminate().success());
}

/// As where the process that would take it back was killed, too.
#[test]
fn a_rule_that_was_left_goes_with_the_next_donor_there() {
    let Some(site) = Site::new(1500) else {
        return;
    };
    for place in ["10.50.0.1:7080", "10.50.0.1:708"] {
        let mark = format!("-m comment --comment rhythm-venice/{place}/0badf00d");
        let rule = format!("-t nat -A POSTROUTING -s 10.9.0.1/24 -o eth0 {mark} -j MASQUERADE");
        assert!(site.donor.ask("iptables", &rule).is_some());
    }
    let mut donor = site.donor_at("10.50.0.1:7080", Onward::Masqueraded, true, false);
    // Its own, and that of another.
    assert_eq!(site.rules(), 2);
    assert!(donor.terminate().success());
    assert_eq!(site.rules(), 1);
}

#[test]
fn a_donor_that_stands_still_costs_frames_and_no_memory() {
    let Some(site) = Site::new(1500) else {
        return;
    };
    let (mut donor, mut borrower) = site.lend(Onward::Routed, true, false);
    traffic::transfer(&site, 100_000);
    donor.stop();
    let sent = traffic::flood(&site, Duration::from_secs(4));
    let most = borrower.peak();
    assert!(most < 96 << 20, "{most} bytes for {sent} of a flood");
    let dropped = site.borrower.dropped("venice0");
    assert!(dropped > 0, "of {sent} bytes");
    // It is silent for too long, then there again.
    soon("there is no carrier", || !site.borrower.has_carrier());
    donor.go_on();
    soon("there is a carrier", || site.borrower.has_carrier());
    traffic::transfer(&site, 100_000);
    assert!(borrower.terminate().success());
    assert!(donor.terminate().success());
}

#[test]
fn what_cannot_be_is_said_with_its_cure() {
    let Some(site) = Site::new(1500) else {
        return;
    };
    let (mut donor, mut borrower) = site.lend(Onward::Routed, true, false);
    let refused = |args: &[&str]| site.borrow_fails(&donor, args);
    let said = refused(&["--tap", "venice0", "--address", "10.9.0.3/24"]);
    assert!(said.contains("ip link delete venice0"), "{said}");
    let said = refused(&["--tap", "other", "--address", "10.9.0.2/24"]);
    assert!(said.contains("another borrower has 10.9.0.2"), "{said}");
    let said = refused(&["--tap", "other", "--address", "10.8.0.2/24"]);
    assert!(said.contains("in the network of 10.9.0.1/24"), "{said}");
    let said = refused(&["--tap", "other", "--address", "10.9.0.1/24"]);
    assert!(said.contains("the donor's own"), "{said}");
    let said = refused(&["--tap", "other"]);
    assert!(said.contains("this donor routes"), "{said}");
    // Each by an address of its own: the place of one that has just ended is free a little later.
    let by = |address: &str, route: &str| {
        refused(&["--tap", "other", "--address", address, "--route", route])
    };
    let said = by("10.9.0.4/24", "10.50.0.1/32");
    assert!(said.contains("through other itself"), "{said}");
    let said = by("10.9.0.5/24", "192.168.77.0/24");
    assert!(said.contains("File exists"), "{said}");
    assert!(!site.borrower.has("other"));
    let said = site.lend_fails(&["--interface", "eth7", "--address", "10.8.0.1/24"]);
    assert!(said.contains("no interface eth7"), "{said}");
    let said = site.lend_fails(&["--bridge", "eth0"]);
    assert!(said.contains("no bridge eth0"), "{said}");
    site.donor
        .write("/proc/sys/net/ipv4/conf/eth0/forwarding", "0");
    let said = site.lend_fails(&["--interface", "eth0", "--address", "10.8.0.1/24"]);
    assert!(
        said.contains("sysctl -w net.ipv4.conf.eth0.forwarding=1"),
        "{said}"
    );
    let said = site.unprivileged_fails();
    assert!(said.contains("CAP_NET_ADMIN"), "{said}");
    assert!(borrower.terminate().success());
    assert!(donor.terminate().success());
}
