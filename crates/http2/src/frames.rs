//! The heads of frames in what a peer sends (RFC 9113, section 4.1): finds those of new settings,
//! whatever parts the bytes come in. h2 looks at all streams for each, and bounds them only by what
//! it has to acknowledge.

/// The first bytes of a connection that speaks HTTP/2 (RFC 9113, section 3.4).
pub(crate) const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const HEAD_BYTES: usize = 9;
const SETTINGS: u8 = 4;
const ACK: u8 = 1;

/// Where in its frames a connection stands.
#[derive(Debug)]
pub(crate) struct Frames {
    /// Bytes to come before the next head.
    skip: usize,
    head: [u8; HEAD_BYTES],
    /// Bytes of it that have come.
    come: usize,
}

impl Frames {
    /// At the begin of a connection: its preface is still to come.
    pub(crate) fn new() -> Frames {
        Frames {
            skip: PREFACE.len(),
            head: [0; HEAD_BYTES],
            come: 0,
        }
    }

    /// More has come. How many frames of it begin new settings.
    pub(crate) fn settings(&mut self, mut bytes: &[u8]) -> u32 {
        let mut settings = 0;
        loop {
            let skipped = self.skip.min(bytes.len());
            self.skip -= skipped;
            let rest = &bytes[skipped..];
            let (more, after) = rest.split_at(rest.len().min(HEAD_BYTES - self.come));
            self.head[self.come..][..more.len()].copy_from_slice(more);
            self.come += more.len();
            if self.come < HEAD_BYTES {
                return settings;
            }
            let [a, b, c, kind, flags, ..] = self.head;
            (self.skip, self.come) = (u32::from_be_bytes([0, a, b, c]) as usize, 0);
            settings += u32::from(kind == SETTINGS && flags & ACK == 0);
            bytes = after;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_found_in_any_parts() {
        let mut sent = PREFACE.to_vec();
        // A setting; data that look like one; settings without any; an acknowledgment.
        sent.extend([0, 0, 6, SETTINGS, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 1]);
        sent.extend([0, 0, 9, 0, 0, 0, 0, 0, 1, 0, 0, 0, SETTINGS, 0, 0, 0, 0, 0]);
        sent.extend([0, 0, 0, SETTINGS, 0, 0, 0, 0, 0]);
        sent.extend([0, 0, 0, SETTINGS, ACK, 0, 0, 0, 0]);
        for part in 1..=sent.len() {
            let mut frames = Frames::new();
            let found: u32 = sent.chunks(part).map(|part| frames.settings(part)).sum();
            assert_eq!(found, 2, "{part}");
        }
    }
}
