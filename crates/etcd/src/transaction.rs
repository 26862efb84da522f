//! Changes that are made together, if what they were made for is still so.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

/// What has to be so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Compare {
    /// There is no such key.
    Absent(String),
    /// The key is there, under this lease.
    Under(String, i64),
    /// The key is there, with this value.
    Is(String, String),
}

/// What is changed then.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A key gets a value, under a lease; 0: under none.
    Put {
        /// Which.
        key: String,
        /// Its value.
        value: String,
        /// The lease.
        lease: i64,
    },
    /// A key is removed, if it is there.
    Delete(String),
}

impl Change {
    /// A key gets a value, under a lease; 0: under none.
    pub fn put(key: &str, value: &str, lease: i64) -> Change {
        Change::Put {
            key: key.to_owned(),
            value: value.to_owned(),
            lease,
        }
    }
}

/// All of it. etcd takes 128 changes, of a key one, unless it is told otherwise
/// (`--max-txn-ops`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Transaction {
    /// All of this has to be so.
    pub compares: Vec<Compare>,
    /// Then all of this is changed.
    pub changes: Vec<Change>,
}

impl Transaction {
    /// As the gateway takes it; `key` makes a key of etcd of one under the prefix.
    pub(crate) fn body(&self, key: impl Fn(&str) -> String) -> Value {
        let compare = |compare: &Compare| match compare {
            Compare::Absent(of) => {
                json!({ "target": "CREATE", "key": key(of), "create_revision": "0" })
            }
            Compare::Under(of, lease) => {
                json!({ "target": "LEASE", "key": key(of), "lease": lease.to_string() })
            }
            Compare::Is(of, value) => {
                json!({ "target": "VALUE", "key": key(of), "value": STANDARD.encode(value) })
            }
        };
        let change = |change: &Change| match change {
            Change::Put {
                key: of,
                value,
                lease,
            } => {
                let value = STANDARD.encode(value);
                json!({ "request_put": { "key": key(of), "value": value, "lease": lease } })
            }
            Change::Delete(of) => json!({ "request_delete_range": { "key": key(of) } }),
        };
        json!({
            "compare": self.compares.iter().map(compare).collect::<Vec<_>>(),
            "success": self.changes.iter().map(change).collect::<Vec<_>>(),
        })
    }
}
