//! Everything that can be wrong with a request head, and the status each answers with.

use crate::http::head::HeadFault;

/// What is wrong with a request head. The connection cannot be used after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
#[repr(u8)]
pub enum RequestError {
    /// Not `METHOD SP target SP version`.
    #[error("malformed request line")]
    RequestLine,
    /// A character that no method has.
    #[error("invalid character in the method")]
    MethodInvalid,
    /// CONNECT, or what is no method of anybody's: too long, or a known one in other letters.
    #[error("method not implemented")]
    MethodUnknown,
    /// A character that no target has: a space, a control, `#`, non-ASCII and the like; its first
    /// byte.
    #[error("the target has a byte 0x{0:02x}, which must be percent-encoded")]
    TargetInvalid(u8),
    /// A target of a form its method does not take (RFC 9112 section 3.2).
    #[error("invalid form of the target")]
    TargetForm,
    /// The target is longer than allowed.
    #[error("target too long")]
    TargetTooLong,
    /// Not `HTTP/` and two digits with a point.
    #[error("malformed HTTP version")]
    VersionInvalid,
    /// A major version other than 1.
    #[error("HTTP version not supported")]
    VersionUnsupported,
    /// A CR without LF.
    #[error("bare CR in the head")]
    BareCr,
    /// An LF without CR.
    #[error("bare LF in the head")]
    BareLf,
    /// A NUL or other control character.
    #[error("control character in the head")]
    Control,
    /// A line that continues the one before (RFC 9112 section 5.2).
    #[error("folded header line")]
    HeaderFold,
    /// A line that starts with a colon.
    #[error("empty header name")]
    HeaderNameEmpty,
    /// A character that no header name has.
    #[error("invalid character in a header name")]
    HeaderNameInvalid,
    /// White space between name and colon (RFC 9112 section 5.1).
    #[error("white space before the colon of a header")]
    HeaderSpaceBeforeColon,
    /// A header line without a colon.
    #[error("header line without a colon")]
    HeaderColonMissing,
    /// A header that may appear once appears again.
    #[error("duplicate header")]
    HeaderDuplicate,
    /// More header lines than allowed.
    #[error("too many headers")]
    TooManyHeaders,
    /// The head has more bytes than allowed.
    #[error("request head too large")]
    HeadTooLarge,
    /// HTTP/1.1 without Host.
    #[error("Host missing")]
    HostMissing,
    /// More than one Host.
    #[error("duplicate Host")]
    HostDuplicate,
    /// A Host (or an authority in the target) that is not a host and perhaps a port.
    #[error("invalid Host")]
    HostInvalid,
    /// Not a plain decimal number within 64 bits.
    #[error("invalid Content-Length")]
    ContentLengthInvalid,
    /// More than one Content-Length, equal or not.
    #[error("duplicate Content-Length")]
    ContentLengthDuplicate,
    /// Both lengths at once (RFC 9112 section 6.1).
    #[error("both Content-Length and Transfer-Encoding")]
    BothLengths,
    /// Malformed, `chunked` twice or not last.
    #[error("invalid Transfer-Encoding")]
    TransferEncodingInvalid,
    /// A transfer coding other than `chunked`.
    #[error("transfer coding not implemented")]
    TransferEncodingUnknown,
    /// Transfer-Encoding in an HTTP/1.0 request.
    #[error("Transfer-Encoding in an HTTP/1.0 request")]
    TransferEncodingHttp10,
    /// An expectation other than `100-continue`.
    #[error("unknown expectation")]
    ExpectationUnknown,
}

impl RequestError {
    /// The status to answer with.
    #[must_use]
    pub fn status(self) -> u16 {
        match self {
            RequestError::TargetTooLong => 414,
            RequestError::ExpectationUnknown => 417,
            RequestError::TooManyHeaders | RequestError::HeadTooLarge => 431,
            RequestError::MethodUnknown | RequestError::TransferEncodingUnknown => 501,
            RequestError::VersionUnsupported => 505,
            _ => 400,
        }
    }
}

impl From<HeadFault> for RequestError {
    fn from(fault: HeadFault) -> RequestError {
        match fault {
            HeadFault::BareCr => RequestError::BareCr,
            HeadFault::BareLf => RequestError::BareLf,
            HeadFault::Control => RequestError::Control,
            HeadFault::Fold => RequestError::HeaderFold,
            HeadFault::NameEmpty => RequestError::HeaderNameEmpty,
            HeadFault::NameInvalid => RequestError::HeaderNameInvalid,
            HeadFault::SpaceBeforeColon => RequestError::HeaderSpaceBeforeColon,
            HeadFault::ColonMissing => RequestError::HeaderColonMissing,
            HeadFault::TooManyHeaders => RequestError::TooManyHeaders,
        }
    }
}
