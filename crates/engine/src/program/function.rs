//! The functions that operations apply to values: operators, conversions, tests, escapes.

use std::cmp::Ordering;

/// Operators on two numbers of one type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arithmetic {
    /// `+`
    Add,
    /// `-`
    Subtract,
    /// `*`
    Multiply,
    /// `/`: floats only; integers are converted first. Dividing by zero fails the lane.
    Divide,
    /// `//`: rounds toward negative infinity. Dividing by zero fails the lane.
    FloorDivide,
    /// `%`: takes the sign of the divisor. Dividing by zero fails the lane.
    Remainder,
    /// `**`: integers with an exponent of 0 or more (a negative one fails the lane), or floats.
    Power,
}

/// Comparisons of two values of one type. Texts compare by bytes, `false < true`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

impl Comparison {
    /// Whether two values of this order compare so.
    #[inline]
    pub fn holds(self, ordering: Ordering) -> bool {
        match self {
            Comparison::Equal => ordering.is_eq(),
            Comparison::NotEqual => ordering.is_ne(),
            Comparison::Less => ordering.is_lt(),
            Comparison::LessOrEqual => ordering.is_le(),
            Comparison::Greater => ordering.is_gt(),
            Comparison::GreaterOrEqual => ordering.is_ge(),
        }
    }
}

/// Conversions from one type to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conversion {
    /// Int to Float, rounding as `as f64` does.
    IntToFloat,
    /// Float to Int, toward zero; not finite or out of range fails the lane.
    FloatToInt,
    /// Bool to Int: 0 or 1.
    BoolToInt,
    /// Any to Text, as output prints it.
    ToText,
    /// Text to Int as the `int` filter reads it; what is no integer fails the lane.
    TextToInt,
    /// Text to Float as the `float` filter reads it; what is no number fails the lane.
    TextToFloat,
}

/// Functions from one text to another, named after the filters they implement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextFunction {
    /// Upper case, by Unicode.
    Upper,
    /// Lower case, by Unicode.
    Lower,
    /// Each word capitalized, as MiniJinja's `title`.
    Title,
    /// First character upper, the rest lower.
    Capitalize,
    /// Without white space at both ends.
    Trim,
    /// The first character, empty for an empty text.
    First,
    /// The last character, empty for an empty text.
    Last,
    /// Percent-encoded as MiniJinja's `urlencode`.
    UrlEncode,
    /// The MD5 digest as 32 lower-case hexadecimal digits.
    Md5,
    /// Escaped, yielding safe text.
    Escape(Escape),
}

/// Texts made of several values, named after the filters that they are for. What follows a name is
/// what they are made of, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Formatting {
    /// A Float and how many decimals, Int: rounded half to even.
    Fixed,
    /// The same: the least number of so many decimals that is not less.
    Ceil,
    /// The same: the greatest that is not more.
    Floor,
    /// An Int and a width, Int: with zeros before it.
    Padded,
    /// A Float, in bytes, and whether in powers of 1024, Bool.
    FileSize,
    /// A Text; the most characters with which it stays as it is, Int; how many are kept of a longer
    /// one, Int; whether in the middle of a word, Bool; what follows them, Text.
    Truncate,
    /// A Text of HTML: without tags.
    StripTags,
    /// A Text; how many blanks, Int; whether before its first line, too, Bool; and before empty
    /// ones, Bool.
    Indent,
    /// A Text; of which character on, Int; before which one, Int; and in which steps, Int. Negative
    /// bounds count from the end.
    Slice,
    /// A Text and which of its characters, Int, a negative one from the end; empty without one.
    Character,
    /// A Text, with small letters for the capital ones of ASCII.
    LowerAscii,
    /// A Text: something where it has small letters, and no others, and else nothing.
    IsLower,
    /// The same of capital letters.
    IsUpper,
    /// Where the parts of a text lie in it, for [`Formatting::Part`], eight characters for each.
    Places(Cut),
    /// A Text, the places of its parts, Text, and which of them, Int. Out of range fails the lane.
    Part,
    /// A Text: from its last character to its first.
    Reverse,
    /// An Int, seconds since 1970, or a Text, a date, perhaps with a time; the pattern, Text; and
    /// the table of a time zone, Text, empty for UTC. What is no date fails the lane.
    Date,
}

/// How a text is cut into parts. What follows is what [`Formatting::Places`] has of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// A Text; what stands between the parts, Text; how often it is cut at most, Int, a negative
    /// number for wherever it can be.
    Separated,
    /// A Text, at white space.
    Words,
    /// A Text: its lines, without their ends.
    Lines,
    /// A Text: all characters.
    Characters,
}

/// Tests on two texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TextTest {
    /// Is `right` contained in `left`?
    Contains,
    /// Does `left` start with `right`?
    StartsWith,
    /// Does `left` end with `right`?
    EndsWith,
}

/// How a value is made harmless where it is put.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Escape {
    /// Not at all: safe already.
    None,
    /// For HTML: `< > & " ' /` become `&lt; &gt; &amp; &quot; &#x27; &#x2f;`.
    Html,
    /// For a URL or a BeSim query: everything but RFC 3986 unreserved characters becomes `%XX`.
    Percent,
    /// For a response header's value: control characters become spaces.
    Header,
    /// For a string of JSON (RFC 8259, section 7), which may stand in HTML: `"`, `\\` and control
    /// characters are escaped, and `< > & '` become `\u003c` and so on. The quotation marks around
    /// it are not part of it.
    Json,
}
