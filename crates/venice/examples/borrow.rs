//! The smallest donor and the smallest borrower, as a program each would have them:
//!
//!     borrow lend BYTES                              prints the address that it lends at
//!     borrow run ADDRESS LOCAL REMOTE PROGRAM ...    runs a program with the donor's memory
//!
//! With the folder of an identity (`rhythm venice join`) in the environment's `IDENTITY` both speak
//! TLS, and `run` wants NODE@ADDRESS: the node that is to be there.
//!
//! The key is the same constant for both, so this is for trying things out; `rhythm venice lend`
//! and `rhythm venice run` have one in a file.

use rhythm_venice::identity::{Identity, IdentityError, Sealing};
use rhythm_venice::loan::{LoanId, LoanKey};
use rhythm_venice::memory::donor::Donor;
use rhythm_venice::memory::run::{Options, run};
use std::env;
use std::error::Error;
use std::ffi::OsString;
use std::net::{Ipv4Addr, SocketAddr};
use std::process::ExitCode;
use std::sync::Arc;

const KEY: LoanKey = LoanKey([7; 32]);

/// Who this program is, if it is to be somebody.
fn identity() -> Result<Option<Arc<Identity>>, IdentityError> {
    let folder = env::var_os("IDENTITY");
    let identity = folder.map(|folder| Identity::open(folder.as_ref()).map(Arc::new));
    identity.transpose()
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
        ["run", donor, local, remote, program, ..] => {
            let (node, address) = match donor.split_once('@') {
                Some((node, address)) => (Some(node.parse()?), address),
                None => (None, *donor),
            };
            let sealing = identity()?.zip(node);
            let options = Options {
                donor: address.parse()?,
                sealing: sealing.map(|(identity, donor)| Sealing { identity, donor }),
                loan: LoanId(0),
                key: KEY,
                local: local.parse()?,
                remote: remote.parse()?,
                threshold: 128 << 10,
                told: None,
            };
            let ended = run(&options, program.as_ref(), &arguments[5..])?;
            if let Some(lost) = ended.lost {
                eprintln!("the donor {donor} is lost: {lost}");
            }
            eprintln!("{}", ended.figures);
            Ok(ExitCode::from(ended.code))
        }
        _ => Err("borrow lend BYTES, or borrow run ADDRESS LOCAL REMOTE PROGRAM ...".into()),
    }
}
