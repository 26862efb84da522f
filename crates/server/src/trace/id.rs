//! Ids of requests, by which log lines of several servers are found that are about one request
//! (`X-Request-Id`, which no standard defines).

/// Most bytes of an id that is taken over: UUIDs have 36, those of balancers in clouds about 50.
const ID_BYTES_MAX: usize = 64;

/// See the module's text.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct RequestId {
    bytes: [u8; ID_BYTES_MAX],
    length: u8,
}

impl RequestId {
    /// Most bytes of one.
    pub(crate) const BYTES_MAX: usize = ID_BYTES_MAX;

    /// The id that another server gave a request. `None` where it is none that can stand in a line
    /// of a log, and in a head, as it is.
    pub(crate) fn taken(value: &[u8]) -> Option<RequestId> {
        let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.~+/=:@".contains(byte);
        let fits = (1..=ID_BYTES_MAX).contains(&value.len()) && value.iter().all(is_plain);
        fits.then(|| {
            let mut bytes = [0; ID_BYTES_MAX];
            bytes[..value.len()].copy_from_slice(value);
            RequestId {
                bytes,
                length: value.len() as u8,
            }
        })
    }

    /// An id of these bits, which nobody else has.
    pub(crate) fn made(random: u128) -> RequestId {
        let mut bytes = [0; ID_BYTES_MAX];
        super::context::write_hex(&random.to_be_bytes(), &mut bytes);
        RequestId { bytes, length: 32 }
    }

    /// Its text.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }

    /// Its text.
    pub(crate) fn as_str(&self) -> &str {
        // It is ASCII.
        std::str::from_utf8(self.as_bytes()).unwrap_or_default()
    }
}

impl std::fmt::Debug for RequestId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_could_forge_a_line_or_is_too_long_is_no_id() {
        for good in [
            "7b1c0f0a-4f3e-4a8e-9d0f-0123456789ab",
            "Root=1-67891233-abcdef012345678912345678",
            &"x".repeat(64),
        ] {
            let id = RequestId::taken(good.as_bytes()).expect("an id");
            assert_eq!(id.as_str(), good);
        }
        for bad in [
            "",
            "a b",
            "a\"b",
            "a\\b",
            "a\nb",
            "a\tb",
            "a;b",
            "a,b",
            "é",
            &"x".repeat(65),
        ] {
            assert_eq!(RequestId::taken(bad.as_bytes()), None, "{bad}");
        }
    }

    #[test]
    fn those_made_are_taken_over_elsewhere() {
        let id = RequestId::made(0xab << 120 | 1);
        assert_eq!(id.as_str(), "ab000000000000000000000000000001");
        assert_eq!(RequestId::taken(id.as_bytes()), Some(id));
    }
}
