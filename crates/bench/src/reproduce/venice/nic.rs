//! Figure 16b: packets by NICs of other machines, beside NICs of this one.

use super::lab::Lab;
use super::namespaces::Machine;
use super::paper;
use super::unmade::Unmade;
use crate::median::median;
use crate::packets::Received;
use crate::reproduce::children::Process;
use crate::reproduce::section::{Section, column, of_turns, ours};
use rhythm_rpo::report::{Cell, Kind};
use std::path::Path;

/// NICs that are lent.
const NICS: usize = 3;
/// What a NIC carries, as frames, in Mbit/s.
const NIC_MBIT_S: u32 = 50;
/// Bytes of packets.
const PACKETS: [usize; 2] = [4, 256];
/// How long packets are sent before they are counted, and after, in milliseconds.
const AROUND_MS: u64 = 1000;
const PORT: u16 = 5201;
/// What a NIC of another is shown by.
const TUN: &str = "/dev/net/tun";

/// Steps of it.
pub(super) fn steps(lab: &Lab<'_>) -> usize {
    1 + PACKETS.len() * 2 * NICS * lab.options.effort.rounds
}

/// A borrower, donors, each with a NIC, and a server that all NICs are wired to. The borrower has
/// as many NICs of its own, to compare with.
struct Network {
    borrower: Machine,
    server: Machine,
    /// Who lends and who borrows, before the machines that they are on.
    _processes: Vec<Process>,
    _donors: Vec<Machine>,
}

/// Where the server is, by a NIC of the borrower's or by a donor's.
fn place(nic: usize, is_remote: bool) -> String {
    format!("192.168.{}.1", 70 + nic + if is_remote { NICS } else { 0 })
}

impl Network {
    fn new(lab: &Lab<'_>) -> Result<Network, Unmade> {
        let (borrower, server) = (Machine::new()?, Machine::new()?);
        let (mut donors, mut processes) = (Vec::new(), Vec::new());
        let limit = |machine: &Machine, nic: &str| {
            machine.does(&format!(
                "tc qdisc add dev {nic} root tbf rate {NIC_MBIT_S}mbit burst 16kb latency 10ms"
            ))
        };
        let key = lab.key().display().to_string();
        for nic in 0..NICS {
            let (own, its) = (format!("own{nic}"), format!("local{nic}"));
            let net = 70 + nic;
            let ends = [2, 1].map(|host| format!("192.168.{net}.{host}/24"));
            borrower.wire((&own, &ends[0]), &server, (&its, &ends[1]))?;
            limit(&borrower, &own)?;

            let donor = Machine::new()?;
            let (way, its) = (format!("way{nic}"), format!("remote{nic}"));
            let ends = [2, 1].map(|host| format!("10.1.{nic}.{host}/24"));
            borrower.wire((&way, &ends[0]), &donor, ("way", &ends[1]))?;
            let net = 70 + nic + NICS;
            let ends = [2, 1].map(|host| format!("192.168.{net}.{host}/24"));
            donor.wire(("eth0", &ends[0]), &server, (&its, &ends[1]))?;
            limit(&donor, "eth0")?;
            donor.routes()?;
            server.does(&format!("ip route add 10.9.{nic}.0/24 via 192.168.{net}.2"))?;

            let (listen, address) = (format!("10.1.{nic}.1:7080"), format!("10.9.{nic}.1/24"));
            let lend = [
                "venice",
                "lend-nic",
                "--interface",
                "eth0",
                "--address",
                &address,
            ];
            let mut lend = donor.rhythm(lab, &lend);
            lend.args(["--listen", &listen, "--plain-network", "--key-file", &key]);
            processes.push(lab.lender(lend)?.0);
            let (address, route) = (format!("10.9.{nic}.2/24"), format!("192.168.{net}.0/24"));
            let borrow = ["venice", "nic", "--donor", &listen, "--key-file", &key];
            let mut borrow = borrower.rhythm(lab, &borrow);
            borrow.args(["--tap", &format!("venice{nic}"), "--address", &address]);
            borrow.args(["--route", &route, "--plain-network"]);
            processes.push(lab.says(borrow)?.0);
            donors.push(donor);
        }
        Ok(Network {
            borrower,
            server,
            _processes: processes,
            _donors: donors,
        })
    }

    /// Megabits a second that arrive by so many NICs.
    fn rate(
        &self,
        lab: &Lab<'_>,
        bytes: usize,
        nics: usize,
        is_remote: bool,
    ) -> Result<f64, Unmade> {
        let places = (0..nics).map(|nic| format!("{}:{PORT}", place(nic, is_remote)));
        let places: Vec<String> = places.collect();
        let places: Vec<&str> = places.iter().map(String::as_str).collect();
        let time = lab.options.effort.nic_ms;
        let (shown, sent) = (time.to_string(), (time + AROUND_MS).to_string());
        let receive = ["bench", "packets", "receive", "--for", &shown];
        let receive = self.server.rhythm(lab, &[&receive, &places[..]].concat());
        let (receiver, _) = lab.says(receive)?;
        let bytes = bytes.to_string();
        let send = [
            "bench", "packets", "send", "--for", &sent, "--bytes", &bytes,
        ];
        lab.run(
            "packets",
            self.borrower.rhythm(lab, &[&send, &places[..]].concat()),
        )?;
        let said = lab.rest(receiver)?;
        let received = serde_json::from_str::<Received>(&said);
        let received = received.map_err(|error| {
            Unmade::Failed(format!(
                "packets that arrive were not counted: {error}: {said}"
            ))
        })?;
        Ok(received.bytes as f64 * 8.0 / received.seconds / 1e6)
    }
}

/// The cells of so many NICs, of what was measured by packets and rounds: local, and remote.
fn cells(nics: usize, rates: &[Vec<[f64; 2]>; PACKETS.len()]) -> Vec<Cell> {
    // Of each round that local ones carried something in.
    let percent = |at: usize| -> Vec<Option<f64>> {
        let used = |[local, remote]: &[f64; 2]| (*local > 0.0).then(|| 100.0 * remote / local);
        rates[at].iter().map(used).collect()
    };
    let used = |at: usize| {
        let turns: Vec<f64> = percent(at).into_iter().flatten().collect();
        of_turns((nics == NICS).then_some(paper::NIC_USED[at].1), &turns)
    };
    let both = percent(1).into_iter().zip(percent(0));
    let larger: Vec<f64> = both
        .filter_map(|(large, small)| Some(large? / small?))
        .filter(|times| times.is_finite())
        .collect();
    let rate = |(at, of): (usize, usize)| ours(median(rates[at].iter().map(|round| round[of])));
    let rates = [(0, 1), (1, 1), (0, 0), (1, 0)].map(rate);
    let larger = of_turns(None, &larger);
    let used = [used(0), used(1)].into_iter();
    used.chain(rates).chain([larger]).collect()
}

/// Packets by one to three NICs of donors, in percent of what as many local ones carry.
pub(super) fn figure_16b(
    lab: &Lab<'_>,
    tell: &mut dyn FnMut(&str),
    made: &mut Vec<Section>,
) -> Result<(), Unmade> {
    if !Path::new(TUN).exists() {
        return Err(Unmade::Lacking(format!("there is no {TUN}: modprobe tun")));
    }
    tell("a network of namespaces");
    let network = Network::new(lab)?;
    let columns = [
        column("4 B, %", Kind::Measured),
        column("256 B, %", Kind::Measured),
        column("4 B, Mbit/s", Kind::Measured),
        column("256 B, Mbit/s", Kind::Measured),
        column("4 B by local ones, Mbit/s", Kind::Measured),
        column("256 B by local ones, Mbit/s", Kind::Measured),
        column("256 B, times the % of 4 B", Kind::Measured),
    ];
    let title = "packets by remote NICs, in percent of as many local ones";
    let mut section = Section::new("Figure 16b", title, &columns);
    for nics in 1..=NICS {
        // By packets, then by rounds: local, and remote.
        let mut rates = [const { Vec::new() }; PACKETS.len()];
        for round in 0..lab.options.effort.rounds {
            for (bytes, of_size) in PACKETS.into_iter().zip(&mut rates) {
                let mut both = [0.0; 2];
                // Who begins changes.
                for turn in 0..2 {
                    let at = (round + turn) % 2;
                    let whose = ["local", "remote"][at];
                    tell(&format!("{nics} {whose} NICs, packets of {bytes} B"));
                    both[at] = network.rate(lab, bytes, nics, at == 1)?;
                }
                of_size.push(both);
            }
        }
        section.row(format!("{nics} remote"), cells(nics, &rates));
    }
    section.charts = vec!["figure-16b.svg"];
    section.note(format!(
        "Namespaces of this machine, joined by veth: the borrower, three donors whose NICs carry \
         {NIC_MBIT_S} Mbit/s of frames (tbf), and the server. Datagrams go by a thread for each \
         NIC as fast as they are taken, and those that arrive are counted; lost ones are many, as \
         with iperf's. Remote and local in turn, rounds: {}; medians, and of the percentages those \
         of each turn's. All of it shares this machine's processors: with small packets these are \
         the limit, not the NICs",
        lab.options.effort.rounds,
    ));
    section.note(
        "Paper: iPerf; around 40 % of the bandwidth of three remote NICs is used by packets of 4 \
         bytes, about 85 % by packets of 256; the bars of one and two are drawn and not told",
    );
    made.push(section);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reproduce::section::value;

    #[test]
    fn rates_are_medians_and_so_are_the_ratios_of_rounds() {
        let rates = [
            vec![[10.0, 4.0], [20.0, 10.0], [40.0, 12.0]],
            vec![[0.0, 1.0]],
        ];
        let cells: Vec<Option<f64>> = cells(1, &rates).iter().map(value).collect();
        let expected = [
            Some(40.0),
            None,
            Some(10.0),
            Some(1.0),
            Some(20.0),
            Some(0.0),
            None,
        ];
        assert_eq!(cells, expected);
    }
}
