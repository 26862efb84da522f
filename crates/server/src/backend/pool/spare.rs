//! Memory of queries that are over, for later ones, so that a query costs no allocation.

/// Buffers without contents. See the module's text.
#[derive(Debug, Default)]
pub(super) struct Spare {
    buffers: Vec<Vec<u8>>,
    /// What they take, themselves included.
    bytes: usize,
}

/// What a buffer takes.
fn size(buffer: &Vec<u8>) -> usize {
    size_of_val(buffer) + buffer.capacity()
}

impl Spare {
    /// Bytes that are kept. What a burst, or a large query, needed beyond is given back.
    pub(super) const BYTES_MAX: usize = 2 << 20;

    /// An empty buffer.
    pub(super) fn take(&mut self) -> Vec<u8> {
        let buffer = self.buffers.pop().unwrap_or_default();
        self.bytes = self.bytes.saturating_sub(size(&buffer));
        buffer
    }

    /// Keeps a buffer, if there is room for it.
    pub(super) fn keep(&mut self, mut buffer: Vec<u8>) {
        buffer.clear();
        let size = size(&buffer);
        if size <= Spare::BYTES_MAX - self.bytes {
            self.bytes += size;
            self.buffers.push(buffer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_buffers_up_to_its_bound() {
        let mut spare = Spare::default();
        for _ in 0..1000 {
            spare.keep(vec![1; 16 << 10]);
        }
        let kept = |spare: &Spare| spare.buffers.iter().map(size).sum::<usize>();
        assert_eq!(kept(&spare), spare.bytes);
        assert!(spare.bytes <= Spare::BYTES_MAX);
        // And not much less.
        assert!(spare.bytes > Spare::BYTES_MAX - (32 << 10));
        while !spare.buffers.is_empty() {
            assert!(spare.take().is_empty());
        }
        assert_eq!((spare.bytes, spare.take().capacity()), (0, 0));
        assert_eq!(spare.bytes, 0);
    }
}
