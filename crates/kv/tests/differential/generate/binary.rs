//! Requests of the binary protocol.

use super::Generator;

/// A request that is answered by nothing but its own answer, and that answer.
pub(crate) fn noop() -> (Vec<u8>, Vec<u8>) {
    let mut request = packet(0x0a, &[], &[], &[], 0);
    request[12..16].copy_from_slice(b"mark");
    let mut answer = request.clone();
    answer[0] = 0x81;
    (request, answer)
}

pub(crate) fn packet(opcode: u8, extras: &[u8], key: &[u8], value: &[u8], cas: u64) -> Vec<u8> {
    let body = (extras.len() + key.len() + value.len()) as u32;
    let mut packet = vec![0x80, opcode];
    packet.extend((key.len() as u16).to_be_bytes());
    packet.extend([extras.len() as u8, 0, 0, 0]);
    packet.extend(body.to_be_bytes());
    packet.extend(*b"opaq");
    packet.extend(cas.to_be_bytes());
    for part in [extras, key, value] {
        packet.extend_from_slice(part);
    }
    packet
}

impl Generator {
    /// One whole binary request, right or nearly so.
    pub(crate) fn binary(&mut self) -> Vec<u8> {
        let key = self.key().into_bytes();
        let value = self.value();
        let exptime = [0_u32, 0, 160_000, 3_000_000_000, u32::MAX][self.random.below(5)];
        let flags = self.random.below(3) as u32 * 0x0102_0304;
        let cas = match self.random.one_in(4) {
            true => self.random.below(300) as u64,
            false => 0,
        };
        let number = self.number_key().into_bytes();
        let store = [flags.to_be_bytes(), exptime.to_be_bytes()].concat();
        match self.random.below(14) {
            0..=2 => {
                let opcode = [1, 1, 2, 3, 0x11, 0x12, 0x13][self.random.below(7)];
                packet(opcode, &store, &key, &value, cas)
            }
            3..=5 => {
                let opcode = [0, 9, 0x0c, 0x0d][self.random.below(4)];
                packet(opcode, &[], &key, &[], cas)
            }
            6 => {
                let opcode = [0x1c, 0x1d, 0x1e, 0x23, 0x24][self.random.below(5)];
                packet(opcode, &exptime.to_be_bytes(), &key, &[], cas)
            }
            7 => packet([4, 0x14][self.random.below(2)], &[], &key, &[], cas),
            8 | 9 => {
                let opcode = [5, 5, 6, 0x15, 0x16][self.random.below(5)];
                let delta = self.random.next() >> self.random.below(64);
                let initial = self.random.next() >> self.random.below(64);
                let extras = [
                    &delta.to_be_bytes()[..],
                    &initial.to_be_bytes(),
                    &exptime.to_be_bytes(),
                ]
                .concat();
                packet(opcode, &extras, &number, &[], cas)
            }
            10 => {
                let opcode = [0x0e, 0x0f, 0x19, 0x1a][self.random.below(4)];
                packet(opcode, &[], &key, &value, cas)
            }
            11 => match self.random.below(6) {
                0 | 1 => packet(0x08, &[], &[], &[], 0),
                2 => packet(0x18, &[0; 4], &[], &[], 0),
                3 => packet(0x20, &[], &[], &[], 0),
                4 => packet(0x10, &[], b"nonsense", &[], 0),
                _ => packet(0x0a, &[], &[], &[], 0),
            },
            12 => {
                let text = self.random.below(2000).to_string();
                packet(1, &store, &number, text.as_bytes(), 0)
            }
            _ => packet(0x21, &[], b"PLAIN", b"\0user\0password", 0),
        }
    }
}
