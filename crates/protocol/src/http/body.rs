//! Content in chunks (RFC 9112 section 7.1), decoded as it arrives.
//!
//! A state machine over bytes that hands out data in spans: chunk data is never looked at, only the
//! few bytes between are. Strict: sizes are plain hex digits with nothing around them, lines end in
//! CR LF, extensions and trailers are bounded, checked and dropped: what a trailer says of framing
//! or routing never counts.

use super::head::TOKEN;

/// Limits of a chunked body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkLimits {
    /// Most bytes of content; beyond is 413.
    pub body_max: u64,
    /// Most bytes of all chunk extensions together; beyond is 400.
    pub extensions_max: u32,
    /// Most bytes of the trailer section; beyond is 431.
    pub trailers_max: u32,
}

impl Default for ChunkLimits {
    fn default() -> ChunkLimits {
        ChunkLimits {
            body_max: 1024 * 1024,
            extensions_max: 1024,
            trailers_max: 8 * 1024,
        }
    }
}

/// What is wrong with a chunked body. The connection cannot be used after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[repr(u8)]
pub enum BodyError {
    /// A chunk size that is not one to sixteen hex digits.
    #[error("invalid chunk size")]
    ChunkSize,
    /// A malformed chunk extension, or too many.
    #[error("invalid chunk extension")]
    ChunkExtension,
    /// A chunk or line that does not end in CR LF.
    #[error("chunk or line not ended by CR LF")]
    LineEnd,
    /// A malformed trailer line.
    #[error("invalid trailer")]
    Trailer,
    /// More trailers than allowed.
    #[error("trailers too large")]
    TrailersTooLarge,
    /// More content than allowed.
    #[error("content too large")]
    TooLarge,
}

impl BodyError {
    /// The status to answer with.
    #[must_use]
    pub fn status(self) -> u16 {
        match self {
            BodyError::TooLarge => 413,
            BodyError::TrailersTooLarge => 431,
            _ => 400,
        }
    }
}

/// What one call decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decoded {
    /// Bytes of the input that are done with. All of it, unless the body ended.
    pub consumed: usize,
    /// Bytes of content among them.
    pub written: usize,
    /// Whether the body is complete; what follows is the next message.
    pub done: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// In a chunk's size, with this many digits read.
    Size(u8),
    Extension(Extension),
    SizeLf,
    Data,
    DataCr,
    DataLf,
    /// At the start of a trailer line or of the empty line that ends the body.
    TrailerStart,
    TrailerName,
    TrailerValue,
    TrailerLf,
    EndLf,
    Done,
}

/// Where in a chunk extension the decoder is: `; name = value`, the value a token or a quoted
/// string.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Extension {
    /// After the semicolon.
    Start,
    Name,
    /// White space after the name.
    AfterName,
    /// After the equals sign.
    ValueStart,
    Token,
    Quoted,
    /// After a backslash in a quoted string.
    QuotedPair,
    /// After the closing quote.
    QuoteEnd,
    /// White space after the value.
    AfterValue,
}

/// Decodes one chunked body.
#[derive(Clone, Copy, Debug)]
pub struct ChunkedDecoder {
    state: State,
    /// Bytes left of the current chunk.
    chunk_left: u64,
    /// Bytes still allowed of content, extensions and trailers.
    body_left: u64,
    extensions_left: u32,
    trailers_left: u32,
}

/// What [`ChunkedDecoder::advance`] came to.
enum Piece {
    /// Content at `start`, `len` bytes of it.
    Data { start: usize, len: usize },
    /// The end of the input or of the body, this far into the input.
    End(usize),
}

impl ChunkedDecoder {
    /// A decoder at the start of a body.
    #[must_use]
    pub fn new(limits: &ChunkLimits) -> ChunkedDecoder {
        ChunkedDecoder {
            state: State::Size(0),
            chunk_left: 0,
            body_left: limits.body_max,
            extensions_left: limits.extensions_max,
            trailers_left: limits.trailers_max,
        }
    }

    /// Whether the body is complete.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.state == State::Done
    }

    /// Decodes `input` and appends its content to `out`.
    ///
    /// # Errors
    /// When the body is malformed or exceeds a limit; the same error however the bytes were split.
    pub fn decode(&mut self, input: &[u8], out: &mut Vec<u8>) -> Result<Decoded, BodyError> {
        let before = out.len();
        let mut at = 0;
        loop {
            match self.advance(input, at)? {
                Piece::Data { start, len } => {
                    out.extend_from_slice(&input[start..start + len]);
                    at = start + len;
                }
                Piece::End(consumed) => {
                    return Ok(Decoded {
                        consumed,
                        written: out.len() - before,
                        done: self.is_done(),
                    });
                }
            }
        }
    }

    /// Decodes `buffer` where it is: its first `written` bytes are the content afterwards, and from
    /// `consumed` on it is as it was.
    ///
    /// # Errors
    /// As [`ChunkedDecoder::decode`]; the buffer's content is then unspecified.
    pub fn decode_in_place(&mut self, buffer: &mut [u8]) -> Result<Decoded, BodyError> {
        let mut written = 0;
        let mut at = 0;
        loop {
            match self.advance(buffer, at)? {
                Piece::Data { start, len } => {
                    buffer.copy_within(start..start + len, written);
                    written += len;
                    at = start + len;
                }
                Piece::End(consumed) => {
                    return Ok(Decoded {
                        consumed,
                        written,
                        done: self.is_done(),
                    });
                }
            }
        }
    }

    /// Goes on from `at` to the next content, the end of the input or of the body.
    fn advance(&mut self, input: &[u8], mut at: usize) -> Result<Piece, BodyError> {
        while self.state != State::Done {
            if self.state == State::Data {
                let len = usize::try_from(self.chunk_left)
                    .unwrap_or(usize::MAX)
                    .min(input.len() - at);
                if len == 0 && self.chunk_left > 0 {
                    return Ok(Piece::End(at));
                }
                self.chunk_left -= len as u64;
                if self.chunk_left == 0 {
                    self.state = State::DataCr;
                }
                return Ok(Piece::Data { start: at, len });
            }
            let Some(byte) = input.get(at) else {
                return Ok(Piece::End(at));
            };
            self.state = self.next(*byte)?;
            at += 1;
        }
        Ok(Piece::End(at))
    }

    /// The state after a byte that is not content.
    fn next(&mut self, byte: u8) -> Result<State, BodyError> {
        match self.state {
            State::Size(digits) => match byte {
                b'\r' if digits > 0 => Ok(State::SizeLf),
                b';' if digits > 0 => Ok(State::Extension(Extension::Start)),
                _ => {
                    let digit = char::from(byte).to_digit(16);
                    let Some(digit) = digit.filter(|_| digits < 16) else {
                        return Err(BodyError::ChunkSize);
                    };
                    self.chunk_left = self.chunk_left << 4 | u64::from(digit);
                    // At once, not at the end of the line: the size only grows.
                    if self.chunk_left > self.body_left {
                        return Err(BodyError::TooLarge);
                    }
                    Ok(State::Size(digits + 1))
                }
            },
            State::Extension(place) => self.extension(place, byte),
            State::SizeLf if byte == b'\n' => {
                if self.chunk_left == 0 {
                    return Ok(State::TrailerStart);
                }
                self.body_left -= self.chunk_left;
                Ok(State::Data)
            }
            State::DataCr if byte == b'\r' => Ok(State::DataLf),
            State::DataLf if byte == b'\n' => Ok(State::Size(0)),
            State::TrailerLf if byte == b'\n' => Ok(State::TrailerStart),
            State::EndLf if byte == b'\n' => Ok(State::Done),
            State::SizeLf
            | State::DataCr
            | State::DataLf
            | State::TrailerLf
            | State::EndLf
            | State::Data
            | State::Done => Err(BodyError::LineEnd),
            State::TrailerStart if byte == b'\r' => Ok(State::EndLf),
            State::TrailerStart | State::TrailerName | State::TrailerValue => self.trailer(byte),
        }
    }

    /// The state after a byte of a chunk extension (RFC 9112 section 7.1.1).
    fn extension(&mut self, place: Extension, byte: u8) -> Result<State, BodyError> {
        use Extension::*;
        self.extensions_left = self
            .extensions_left
            .checked_sub(1)
            .ok_or(BodyError::ChunkExtension)?;
        let next = match (place, byte) {
            (Name | Token | QuoteEnd, b'\r') => return Ok(State::SizeLf),
            (Name | AfterName | Token | QuoteEnd | AfterValue, b';') => Start,
            (Name | AfterName, b'=') => ValueStart,
            (Name, b' ' | b'\t') => AfterName,
            (Token | QuoteEnd, b' ' | b'\t') => AfterValue,
            (Start | AfterName | ValueStart | AfterValue, b' ' | b'\t') => place,
            (ValueStart, b'"') | (QuotedPair, b'\t' | 0x20..=0x7e | 0x80..) => Quoted,
            (Quoted, b'"') => QuoteEnd,
            (Quoted, b'\\') => QuotedPair,
            (Quoted, b'\t' | 0x20..=0x7e | 0x80..) => Quoted,
            (Start | Name, _) if TOKEN.contains(byte) => Name,
            (ValueStart | Token, _) if TOKEN.contains(byte) => Token,
            _ => return Err(BodyError::ChunkExtension),
        };
        Ok(State::Extension(next))
    }

    /// The state after a byte of a trailer line (RFC 9112 section 7.1.2).
    fn trailer(&mut self, byte: u8) -> Result<State, BodyError> {
        self.trailers_left = self
            .trailers_left
            .checked_sub(1)
            .ok_or(BodyError::TrailersTooLarge)?;
        match (self.state, byte) {
            (State::TrailerValue, b'\r') => Ok(State::TrailerLf),
            (State::TrailerValue, b'\t' | 0x20..=0x7e | 0x80..) => Ok(State::TrailerValue),
            (State::TrailerName, b':') => Ok(State::TrailerValue),
            (State::TrailerStart | State::TrailerName, _) if TOKEN.contains(byte) => {
                Ok(State::TrailerName)
            }
            _ => Err(BodyError::Trailer),
        }
    }
}

#[cfg(test)]
mod tests;
