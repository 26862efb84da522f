//! Made-up data: numbers and texts from a seed.

/// Pseudo-random numbers from a seed (splitmix64): enough for data, and the same on every machine.
#[derive(Clone, Debug)]
pub struct Dice(u64);

impl Dice {
    /// The sequence of this seed.
    pub fn new(seed: u64) -> Dice {
        Dice(seed)
    }

    /// The next number.
    pub fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`.
    pub fn below(&mut self, bound: usize) -> usize {
        (self.roll() % bound as u64) as usize
    }

    /// True once in so many times.
    pub fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    /// One of these.
    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }

    /// A text as the world may send it: mostly short and plain, sometimes long, empty, not ASCII,
    /// or full of what must be escaped.
    pub fn text(&mut self) -> String {
        const PLAIN: &[&str] = &[
            "1234.56",
            "checking",
            "O'Brien",
            "2026-01-15",
            "Main St 7",
            "01",
            "0000012345",
        ];
        const ODD: &[&str] = &[
            "<b>", "\"q\"", "a/b", "ß", "日本", "é", "'", ">", " ", "x", "Ω", "%41", "{{ x }}",
        ];
        const RUDE: &[&str] = &["&", "\r\n", "\u{0}", "\t", "&amp;"];
        match self.below(8) {
            0 => String::new(),
            1..4 => (*self.pick(PLAIN)).to_owned(),
            kind => {
                let pieces = if kind == 7 {
                    self.below(120)
                } else {
                    self.below(6)
                };
                let mut text = String::new();
                for _ in 0..pieces {
                    text += match self.below(4) {
                        0 => *self.pick(PLAIN),
                        1 => *self.pick(RUDE),
                        _ => *self.pick(ODD),
                    };
                }
                text
            }
        }
    }

    /// An integer: mostly small, sometimes at the ends.
    pub fn int(&mut self) -> i64 {
        match self.below(12) {
            0 => i64::MAX,
            1 => i64::MIN,
            2 => self.roll() as i64,
            _ => self.below(40) as i64 - 10,
        }
    }
}
