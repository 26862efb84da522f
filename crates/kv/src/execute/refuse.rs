//! What a node of a ring says to commands that write while it may not: its lease is over, and
//! another node may serve its keys.

use super::packet::Head;
use crate::wire::{Commands, Kind, Verb, What};

/// To ASCII and meta commands.
const NO_LEASE: &[u8] = b"SERVER_ERROR this node has no lease: it takes no writes now\r\n";
/// To binary ones, with memcached's status for what may work later.
const NO_LEASE_VALUE: &[u8] = b"no lease";
const TEMPORARY: u16 = 0x86;

/// Answers a command that writes, or may. Whether it is one. Who asked for no answer gets none:
/// that is what noreply means.
#[cold]
pub(super) fn refuse(kind: Kind, commands: &Commands, out: &mut Vec<u8>) -> bool {
    let is_quiet = match kind {
        // There may be other keys, some of them elsewhere: this one is not found.
        Kind::Get {
            touch: Some(_),
            is_last,
            ..
        } => {
            if is_last {
                out.extend_from_slice(b"END\r\n");
            }
            return true;
        }
        Kind::Store { quiet, .. } | Kind::Delete { quiet } => quiet,
        Kind::Arithmetic { quiet, .. } | Kind::Touch { quiet, .. } => quiet,
        Kind::Flush { quiet, .. } => quiet,
        Kind::Fetch { touch: Some(_) } | Kind::Drop => true,
        Kind::Meta { verb, index } => {
            let flags = &commands.meta[index as usize];
            let touches = flags.vivify.or(flags.recache).or(flags.exptime).is_some();
            if verb == Verb::Debug || verb == Verb::Get && !touches {
                return false;
            }
            false
        }
        Kind::Binary { index } => {
            let request = &commands.binary[index as usize];
            let writes = match request.what {
                What::Get { touch, .. } => touch.is_some(),
                What::Store(_) | What::Delete | What::Arithmetic { .. } => true,
                What::Flush { .. } => true,
                What::Noop | What::Version | What::Stat | What::Quit | What::Refused(_) => false,
            };
            if writes {
                let head = Head {
                    opcode: request.opcode,
                    status: TEMPORARY,
                    opaque: request.opaque,
                    value: NO_LEASE_VALUE.len(),
                    ..Head::default()
                };
                head.write(out);
                out.extend_from_slice(NO_LEASE_VALUE);
            }
            return writes;
        }
        _ => return false,
    };
    if !is_quiet {
        out.extend_from_slice(NO_LEASE);
    }
    true
}
