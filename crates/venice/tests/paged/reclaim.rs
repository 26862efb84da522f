//! Donors that an agent found, and that want their memory back while a program uses it.
//!
//! That is `RHYTHM_KILLS` times, 3 unless that says otherwise.

use super::mirrored::{Busy, kills};
use super::{MIB, NEVER, is_possible};
use rhythm_venice::agent::client::Client;
use rhythm_venice::agent::{self, Lender, Lenders, NoRoom};
use rhythm_venice::loan::{LoanId, LoanKey};
use rhythm_venice::memory::donor::Donor;
use rhythm_venice::monitor::{self, policy::ByDistanceAndLoad};
use rhythm_venice::resource::Share;
use rhythm_venice::secret::Secret;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// How long borrowers have.
const WITHIN: Duration = Duration::from_secs(5);

/// What each lends: one program has 64 MiB of it.
const LENT: u64 = 80 * MIB;

fn any_port() -> SocketAddr {
    (Ipv4Addr::LOCALHOST, 0).into()
}

fn secret() -> Secret {
    Secret::of(b"a secret of this test")
}

/// A donor that an agent has, and the test too.
struct Shared(Arc<Donor>);

impl Lender for Shared {
    fn grant(&mut self, loan: LoanId, share: Share, key: &LoanKey) -> Result<SocketAddr, NoRoom> {
        let granted = self.0.grant(loan, share.amount, key.clone());
        granted.map_err(|_| NoRoom).map(|()| self.0.addresses()[0])
    }

    fn revoke(&mut self, loan: LoanId) {
        self.0.revoke(loan);
    }

    fn lent(&self) -> Vec<(LoanId, Share)> {
        let lent = self.0.lent().into_iter();
        lent.map(|(loan, bytes, _)| (loan, Share::memory(bytes)))
            .collect()
    }
}

/// A monitor, an agent that borrows, and agents that lend, on threads of this process.
struct Cluster {
    monitor: Option<monitor::server::Server>,
    borrower: Option<agent::server::Server>,
    lenders: Vec<(agent::server::Server, Arc<Donor>)>,
    folder: TempDir,
}

impl Cluster {
    fn start(lenders: usize) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let options = monitor::server::Options {
            listen: any_port(),
            state: monitor::server::StatePlace::Folder(folder.path().join("state")),
            trust: monitor::server::Trust::Secret(secret()),
            settings: monitor::Settings {
                heartbeat: Duration::from_millis(100),
                ..monitor::Settings::default()
            },
            policy: Box::new(ByDistanceAndLoad),
            admin: None,
            admin_hosts: Vec::new(),
        };
        let monitor = monitor::server::Server::start(options).expect("a monitor");
        let mut cluster = Self {
            borrower: None,
            lenders: Vec::new(),
            folder,
            monitor: Some(monitor),
        };
        cluster.borrower = Some(cluster.agent("borrower", 0, Lenders::default()));
        for number in 0..lenders {
            let donor = Donor::start(any_port(), LENT).expect("a donor");
            let donor = Arc::new(donor);
            let lender = Shared(Arc::clone(&donor));
            let agent = cluster.agent(&format!("lender{number}"), LENT, lender);
            cluster.lenders.push((agent, donor));
        }
        cluster.until_all_lend();
        cluster
    }

    fn agent(&self, name: &str, size: u64, lender: impl Lender + 'static) -> agent::server::Server {
        let options = agent::server::Options {
            monitors: vec![self.monitor.as_ref().expect("it runs").address()],
            trust: agent::server::Trust::Secret(secret()),
            settings: agent::Settings {
                name: name.parse().expect("a name"),
                monitors: 1,
                place: String::new(),
                probe: any_port(),
                lends: vec![Share::memory(size)],
                keep_free: 0,
                reclaim_within: WITHIN,
                borrow_within: Duration::from_secs(10),
            },
            socket: self.socket(name),
            socket_mode: 0o600,
            admin: None,
            admin_hosts: Vec::new(),
        };
        agent::server::Server::start(options, lender).expect("an agent")
    }

    fn socket(&self, name: &str) -> PathBuf {
        self.folder.path().join(format!("{name}.sock"))
    }

    /// What a program is run with to borrow here.
    fn donors(&self, how: &str) -> String {
        format!("{how}:{}", self.socket("borrower").display())
    }

    fn until_all_lend(&self) {
        let client = Client::connect(&self.socket("borrower")).expect("an agent");
        let asker = client.asker();
        let start = Instant::now();
        let mut loans = Vec::new();
        while loans.len() < self.lenders.len() {
            let apart: Vec<LoanId> = loans
                .iter()
                .map(|it: &agent::client::Borrowed| it.loan)
                .collect();
            if let Ok(loan) = asker.borrow(Share::memory(4096), &apart, NEVER) {
                loans.push(loan);
            }
            assert!(start.elapsed() < NEVER, "they do not lend");
            thread::sleep(Duration::from_millis(50));
        }
        let one_each = |(_, donor): &(_, Arc<Donor>)| donor.lent().len() == 1;
        assert!(self.lenders.iter().all(one_each), "all are apart");
        drop(loans);
        while self
            .lenders
            .iter()
            .any(|(_, donor)| !donor.lent().is_empty())
        {
            assert!(start.elapsed() < NEVER, "they do not get it back");
            thread::sleep(Duration::from_millis(20));
        }
    }

    /// Has one that lends want its memory back, and waits until its agent has ended: how long
    /// that took.
    fn reclaim(&mut self) -> Duration {
        let lends = |(_, donor): &(_, Arc<Donor>)| !donor.lent().is_empty();
        let index = self.lenders.iter().position(lends).expect("one lends");
        let (agent, _donor) = self.lenders.remove(index);
        let start = Instant::now();
        agent.handle().leave();
        agent.join().expect("it ends well");
        start.elapsed()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for agent in self
            .lenders
            .drain(..)
            .map(|(agent, _)| agent)
            .chain(self.borrower.take())
        {
            agent.handle().stop();
            let _ = agent.join();
        }
        if let Some(monitor) = self.monitor.take() {
            monitor.handle().stop();
            let _ = monitor.join();
        }
    }
}

#[test]
fn a_donor_has_its_memory_back_in_time_and_nothing_is_lost() {
    if !is_possible() {
        return;
    }
    for how in ["agent", "mirror"] {
        for round in 0..kills() {
            let mut cluster = Cluster::start(if how == "agent" { 2 } else { 3 });
            let busy = Busy::start(&cluster.donors(how));
            let took = cluster.reclaim();
            let said = busy.end();
            assert!(took < WITHIN, "{how} {round}: {took:?}, {said}");
            assert!(
                said.contains("1 given their memory back"),
                "{how} {round}: {said}"
            );
        }
    }
}

#[test]
fn a_mirrored_program_has_lost_nothing_where_no_third_donor_is() {
    if !is_possible() {
        return;
    }
    let mut cluster = Cluster::start(2);
    let busy = Busy::start(&cluster.donors("mirror"));
    let took = cluster.reclaim();
    let said = busy.end();
    assert!(took >= WITHIN, "it is kept as long as may be: {took:?}");
    assert!(said.contains("1 donors lost without harm"), "{said}");
}

#[test]
fn a_loan_that_can_go_nowhere_is_broken_and_named() {
    if !is_possible() {
        return;
    }
    let mut cluster = Cluster::start(1);
    let mut busy = Busy::start(&cluster.donors("agent"));
    let donor = cluster.lenders[0].1.addresses()[0];
    let took = cluster.reclaim();
    let status = busy.0.wait();
    let said = busy.said();
    assert!(took >= WITHIN, "{took:?}");
    assert_eq!(status.code(), Some(128 + 7), "{said}");
    for part in [
        &format!("of donor {donor}")[..],
        "the donor wanted its memory back within 5.0 s",
        "no other donor was found: nothing is lent",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
}

#[test]
fn a_program_whose_agent_is_gone_says_so_when_its_loans_end() {
    if !is_possible() {
        return;
    }
    for how in ["agent", "mirror"] {
        for round in 0..kills() {
            let mut cluster = Cluster::start(if how == "agent" { 1 } else { 2 });
            let mut busy = Busy::start(&cluster.donors(how));
            let agent = cluster.borrower.take().expect("it runs");
            match round % 2 {
                // As when it is killed: the monitor finds out.
                0 => agent.handle().stop(),
                // It says that it ends.
                _ => agent.handle().leave(),
            }
            agent.join().expect("it ends well");
            let status = busy.0.wait();
            let said = busy.said();
            assert_eq!(status.code(), Some(128 + 7), "{how} {round}: {said}");
            let line = "(the agent of this machine is gone, and what it had borrowed with it)";
            assert!(said.contains(line), "{how} {round}: {said}");
        }
    }
}

#[test]
fn two_donors_are_needed_to_mirror() {
    if !is_possible() {
        return;
    }
    let cluster = Cluster::start(1);
    let mut command = super::paged(
        &cluster.donors("mirror"),
        MIB,
        MIB,
        std::path::Path::new("true"),
        &[],
    );
    let output = command.output().expect("it runs");
    assert_eq!(output.status.code(), Some(1));
    let said = super::text(&output.stderr);
    assert!(said.contains("NoMirror"), "{said}");
}
