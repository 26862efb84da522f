//! The smallest donor and the smallest borrower, as a program each would have them:
//!
//!     borrow lend BYTES                              prints the address that it lends at
//!     borrow run ADDRESS LOCAL REMOTE PROGRAM ...    runs a program with the donor's memory
//!     borrow run A,B,... LOCAL REMOTE PROGRAM ...    has every page at two of these donors
//!     borrow run A+B LOCAL REMOTE PROGRAM ...        spreads pages over these donors
//!     borrow run agent:SOCKET LOCAL REMOTE ...       has a donor found by an agent
//!     borrow run mirror:SOCKET LOCAL REMOTE ...      has two
//!
//! With the folder of an identity (`rhythm venice join`) in the environment's `IDENTITY` both speak
//! TLS, and `run` wants NODE@ADDRESS: the node that is to be there. Agents have their own.
//!
//! The key is the same constant for both, so this is for trying things out; `rhythm venice lend`
//! and `rhythm venice run` have one in a file.

use rhythm_venice::agent::client::Client;
use rhythm_venice::agent::supply::ByAgent;
use rhythm_venice::identity::{Identity, IdentityError, Sealing};
use rhythm_venice::loan::LoanKey;
use rhythm_venice::memory::donor::Donor;
use rhythm_venice::memory::run::{Options, run};
use rhythm_venice::memory::supply::{Named, Supply};
use std::env;
use std::error::Error;
use std::ffi::OsString;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

const KEY: LoanKey = LoanKey([7; 32]);

/// Who this program is, if it is to be somebody.
fn identity() -> Result<Option<Arc<Identity>>, IdentityError> {
    let folder = env::var_os("IDENTITY");
    let identity = folder.map(|folder| Identity::open(folder.as_ref()).map(Arc::new));
    identity.transpose()
}

type How = (Box<dyn Supply>, bool, u8);

/// Who finds donors, whether two have each page, and over how many pages are spread.
fn supply(donors: &str) -> Result<How, Box<dyn Error>> {
    if let Some((how @ ("agent" | "mirror"), socket)) = donors.split_once(':') {
        let client = Client::connect(Path::new(socket))?;
        let supply = ByAgent::new(client, Duration::from_secs(10));
        return Ok((Box::new(supply), how == "mirror", 1));
    }
    let mirror = donors.contains(',');
    let stripes = donors.split('+').count() as u8;
    let identity = identity()?;
    let mut named = Vec::new();
    for donor in donors.split([',', '+']) {
        let (node, address) = match donor.split_once('@') {
            Some((node, address)) => (Some(node.parse()?), address),
            None => (None, donor),
        };
        let sealing = identity.clone().zip(node);
        let sealing = sealing.map(|(identity, donor)| Sealing { identity, donor });
        named.push((address.parse()?, sealing));
    }
    Ok((Box::new(Named::new(named, KEY)), mirror, stripes))
}

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let arguments: Vec<OsString> = env::args_os().skip(1).collect();
    let texts: Vec<&str> = arguments.iter().map_while(|it| it.to_str()).collect();
    match texts.as_slice() {
        ["lend", bytes] => {
            let any = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
            let donor = match identity()? {
                Some(identity) => Donor::start_sealed(any, bytes.parse()?, &identity)?,
                None => Donor::start(any, bytes.parse()?)?,
            };
            donor.offer(KEY);
            println!("{}", donor.addresses()[0]);
            // Until somebody ends it.
            loop {
                std::thread::park();
            }
        }
        ["run", donors, local, remote, program, ..] => {
            let (supply, mirror, stripes) = supply(donors)?;
            let options = Options {
                mirror,
                stripes,
                refill: 64 << 20,
                local: local.parse()?,
                remote: remote.parse()?,
                threshold: 128 << 10,
                told: None,
                admin: None,
                admin_hosts: Vec::new(),
            };
            let ended = run(&options, supply, program.as_ref(), &arguments[5..])?;
            if let Some(gone) = ended.lost {
                eprintln!("memory is lost, with {gone}");
            }
            eprintln!("{}", ended.figures);
            Ok(ExitCode::from(ended.code))
        }
        _ => Err("borrow lend BYTES, or borrow run ADDRESS[,...] LOCAL REMOTE PROGRAM ...".into()),
    }
}
