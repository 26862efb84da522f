// The functions and tests of the page language on texts, as the engine's reference defines them
// (and it by Rust's `str`). Texts are valid UTF-8; escapes take any bytes.
#pragma once
#include "writer.cuh"

// Compares as Rust compares texts: by bytes, then by length. -1, 0 or 1.
DEVICE i32 compare_texts(const u8* a, u32 a_length, const u8* b, u32 b_length) {
    u32 common = smaller(a_length, b_length);
    for (u32 at = 0; at < common; at += 8) {
        u32 count = smaller(8u, common - at);
        u64 left = load8(a + at, count);
        u64 right = load8(b + at, count);
        if (left != right) {
            u32 shift = 8 * first_byte(left ^ right);
            return (left >> shift & 0xff) < (right >> shift & 0xff) ? -1 : 1;
        }
    }
    return a_length == b_length ? 0 : a_length < b_length ? -1 : 1;
}

// Whether two ranges of the same length hold the same bytes.
DEVICE bool same_bytes(const u8* a, const u8* b, u32 length) {
    return compare_texts(a, length, b, length) == 0;
}

DEVICE bool text_starts_with(const u8* text, u32 length, const u8* start, u32 start_length) {
    return start_length <= length && same_bytes(text, start, start_length);
}

DEVICE bool text_ends_with(const u8* text, u32 length, const u8* end, u32 end_length) {
    return end_length <= length && same_bytes(text + (length - end_length), end, end_length);
}

// An escape says which bytes of eight it replaces, and by what: `special` flags at least the lowest
// of them (0x80), zero bytes may be flagged; `replacement` gives up to 8 bytes, their number in the
// top byte.

#define REPLACEMENT(bytes, count) ((bytes) | static_cast<u64>(count) << 56)

struct HtmlEscape {
    // < > & " ' / in pairs that differ in one bit. The subtraction carries: flags above the lowest
    // may be false.
    static DEVICE_METHOD u64 special(u64 bytes) {
        u64 quote_and = (bytes & BYTES_ONE * 0xfb) ^ (BYTES_ONE * '"');
        u64 apostrophe_slash = (bytes & BYTES_ONE * 0xf7) ^ (BYTES_ONE * '\'');
        u64 less_greater = (bytes & BYTES_ONE * 0xfd) ^ (BYTES_ONE * '<');
        return (((quote_and - BYTES_ONE) & ~quote_and) |
                ((apostrophe_slash - BYTES_ONE) & ~apostrophe_slash) |
                ((less_greater - BYTES_ONE) & ~less_greater)) &
               BYTES_HIGH;
    }

    // "&lt;" and so on, the first character lowest.
    static DEVICE_METHOD u64 replacement(u8 byte) {
        switch (byte) {
            case '<': return REPLACEMENT(0x3b746c26ull, 4);
            case '>': return REPLACEMENT(0x3b746726ull, 4);
            case '&': return REPLACEMENT(0x3b706d6126ull, 5);
            case '"': return REPLACEMENT(0x3b746f757126ull, 6);
            case '\'': return REPLACEMENT(0x3b3732782326ull, 6);
            default: return REPLACEMENT(0x3b6632782326ull, 6);
        }
    }
};

// A digit of an upper-case hexadecimal number.
DEVICE u64 upper_hex(u32 digit) { return digit + (digit < 10 ? '0' : 'A' - 10); }

// "%XX" for all but ASCII letters, digits, "-._" and one more character.
template <u8 kept> struct PercentEscape {
    static DEVICE_METHOD u64 special(u64 bytes) {
        u64 plain = bytes_within(bytes | BYTES_ONE * 0x20, 'a', 'z') |
                    bytes_within(bytes, '0', '9') | bytes_within(bytes, '-', '.') |
                    equal_bytes(bytes, '_') | equal_bytes(bytes, kept);
        return ~plain & BYTES_HIGH;
    }

    static DEVICE_METHOD u64 replacement(u8 byte) {
        return REPLACEMENT('%' | upper_hex(byte >> 4) << 8 | upper_hex(byte & 15) << 16, 3);
    }
};

// A digit of a lower-case hexadecimal number.
DEVICE u64 lower_hex(u32 digit) { return digit + (digit < 10 ? '0' : 'a' - 10); }

// Within a string of JSON that may stand in HTML: "\"", "\n" and so on, or "\u00xx".
struct JsonEscape {
    static DEVICE_METHOD u64 special(u64 bytes) {
        return (bytes_within(bytes, 0, 0x1f) | equal_bytes(bytes, '"') |
                equal_bytes(bytes, '\\') | bytes_within(bytes, '&', '\'') |
                equal_bytes(bytes, '<') | equal_bytes(bytes, '>')) &
               BYTES_HIGH;
    }

    static DEVICE_METHOD u64 replacement(u8 byte) {
        u64 instead = 0;
        switch (byte) {
            case '"': instead = '"'; break;
            case '\\': instead = '\\'; break;
            case '\n': instead = 'n'; break;
            case '\r': instead = 'r'; break;
            case '\t': instead = 't'; break;
            case '\b': instead = 'b'; break;
            case '\f': instead = 'f'; break;
            default:
                // "\u00", the first character lowest.
                return REPLACEMENT(0x3030755cull | lower_hex(byte >> 4) << 32 |
                                       lower_hex(byte & 15) << 40,
                                   6);
        }
        return REPLACEMENT('\\' | instead << 8, 2);
    }
};

template <class How> DEVICE void escape_text(Writer& to, const u8* text, u32 length) {
    u32 at = 0;
    while (at < length) {
        u32 count = smaller(8u, length - at);
        u64 bytes = load8(text + at, count);
        u64 special = How::special(bytes);
        // Most words have none; of the others a turn writes what is before the first, and that one
        // replaced.
        u32 plain = special == 0 ? count : smaller(count, first_byte(special));
        if (plain > 0) to.bytes8(bytes & low_bytes(plain), plain);
        at += plain;
        if (plain < count) {
            u64 instead = How::replacement(static_cast<u8>(bytes >> (8 * plain)));
            to.bytes8(instead & low_bytes(7), static_cast<u32>(instead >> 56));
            at += 1;
        }
    }
}

// The most common escape, and most texts have nothing to escape: words are tried as they go into
// the region's.
DEVICE void escape_html(Writer& to, const u8* text, u32 length) {
    while (length > 0) {
        u32 fill = to.written & 7;
        u32 at = to.written - fill;
        u32 left = fill + length;
        u64* out = KEPT(reinterpret_cast<u64*>(to.base + at));
        u64 begun = to.pending;
        WordReader words(text - fill, fill);
        u64 next[WORDS];
        words.next(next, left);
        next[0] &= ~0ull << (8 * fill);
        u64 word, special;
        for (bool goes_on = true; goes_on;) {
#pragma unroll
            for (u32 i = 0; i < WORDS; ++i) {
                word = next[i];
                special = HtmlEscape::special(word);
                goes_on = special == 0 && left >= 8;
                if (!goes_on) break;
                if (at < to.capacity) *GLOBAL(out) = word | begun;
                begun = 0;
                out += 1;
                at += 8;
                left -= 8;
            }
            if (goes_on) words.next(next, left);
        }
        // Up to the end, beyond which may be anything, or to the first byte that is replaced.
        u32 plain = special == 0 ? left : smaller(left, first_byte(special));
        to.pending = (word & ((1ull << (8 * plain)) - 1)) | begun;
        to.written = at + plain;
        if (plain == left) return;
        text += length - (left - plain) + 1;
        length = left - plain - 1;
        u64 instead = HtmlEscape::replacement(static_cast<u8>(word >> (8 * plain)));
        to.bytes8(instead & low_bytes(7), static_cast<u32>(instead >> 56));
    }
}

DEVICE void escape_percent(Writer& to, const u8* text, u32 length) {
    escape_text<PercentEscape<'~'>>(to, text, length);
}

DEVICE void escape_json(Writer& to, const u8* text, u32 length) {
    escape_text<JsonEscape>(to, text, length);
}

DEVICE void url_encode(Writer& to, const u8* text, u32 length) {
    escape_text<PercentEscape<'/'>>(to, text, length);
}

// Control characters become spaces.
DEVICE void escape_header(Writer& to, const u8* text, u32 length) {
    for (u32 at = 0; at < length; at += 8) {
        u32 count = smaller(8u, length - at);
        u64 bytes = load8(text + at, count);
        u64 control = whole_bytes(bytes_within(bytes, 0, 0x1f) | equal_bytes(bytes, 0x7f));
        to.bytes8(((bytes & ~control) | (BYTES_ONE * ' ' & control)) & low_bytes(count), count);
    }
}

// Flags (0x80) of the bytes that continue a character: 10xxxxxx.
DEVICE u64 continuations(u64 bytes) { return bytes & ~(bytes << 1) & BYTES_HIGH; }

// The number of characters.
DEVICE u32 text_characters(const u8* text, u32 length) {
    u32 count = length;
    for (u32 at = 0; at < length; at += 8) {
        u64 continuing = continuations(load8(text + at, smaller(8u, length - at)));
        count -= static_cast<u32>(__popcll(static_cast<i64>(continuing)));
    }
    return count;
}

// A character and the bytes it takes.
struct Character {
    u32 code;
    u32 length;
};

// The bytes of the character that begins with this one.
DEVICE u32 character_length(u8 first) {
    return first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
}

// The character whose UTF-8 is at the low end of a word.
DEVICE Character decode_character(u64 bytes) {
    u32 first = bytes & 0xff, second = bytes >> 8 & 0x3f, third = bytes >> 16 & 0x3f,
        fourth = bytes >> 24 & 0x3f;
    switch (character_length(static_cast<u8>(first))) {
        case 1: return {first, 1};
        case 2: return {(first & 0x1f) << 6 | second, 2};
        case 3: return {(first & 0x0f) << 12 | second << 6 | third, 3};
        default: return {(first & 0x07) << 18 | second << 12 | third << 6 | fourth, 4};
    }
}

// The character that begins a text which is not empty.
DEVICE Character first_character(const u8* text, u32 length) {
    return decode_character(load8(text, smaller(4u, length)));
}

// The character that ends a text which is not empty.
DEVICE Character last_character(const u8* text, u32 length) {
    u32 bytes = 1;
    while (bytes < smaller(4u, length) && (text[length - bytes] & 0xc0) == 0x80) bytes += 1;
    return decode_character(load8(text + (length - bytes), bytes));
}

// A part of a text: as many bytes from `start` on.
struct TextRange {
    u32 start;
    u32 length;
};

// The first character's range, empty in an empty text.
DEVICE TextRange first_range(const u8* text, u32 length) {
    return {0, length == 0 ? 0 : first_character(text, length).length};
}

// The last character's range, empty in an empty text.
DEVICE TextRange last_range(const u8* text, u32 length) {
    u32 bytes = length == 0 ? 0 : last_character(text, length).length;
    return {length - bytes, bytes};
}

// Unicode's property White_Space.
DEVICE bool is_white_space(u32 code) {
    return code == ' ' || (code >= 0x09 && code <= 0x0d) ||
           (code > 0x7f && (code == 0x85 || code == 0xa0 || code == 0x1680 ||
                            (code >= 0x2000 && code <= 0x200a) || code == 0x2028 ||
                            code == 0x2029 || code == 0x202f || code == 0x205f || code == 0x3000));
}

// What is left without white space at both ends. Of nothing but white space, an empty range at its
// end, as the reference has it.
DEVICE TextRange trim_range(const u8* text, u32 length) {
    u32 start = 0;
    while (start < length) {
        Character character = first_character(text + start, length - start);
        if (!is_white_space(character.code)) break;
        start += character.length;
    }
    u32 end = length;
    while (end > start) {
        Character character = last_character(text, end);
        if (!is_white_space(character.code)) break;
        end -= character.length;
    }
    return {start, end - start};
}

// Whether bytes are UTF-8 (The Unicode Standard, table 3-7): no overlong forms, no surrogates,
// nothing past U+10FFFF.
DEVICE bool is_utf8(const u8* bytes, u32 length) {
    u32 at = 0;
    while (at < length) {
        u32 count = smaller(8u, length - at);
        u64 word = load8(bytes + at, count);
        u64 beyond_ascii = word & BYTES_HIGH;
        u32 ascii = beyond_ascii == 0 ? count : first_byte(beyond_ascii);
        at += ascii;
        if (ascii == count) continue;
        // Past the end are zeros, which continue nothing.
        u64 sequence = load8(bytes + at, smaller(4u, length - at));
        u8 first = static_cast<u8>(sequence);
        if (first < 0xc2 || first > 0xf4) return false;
        Character character = decode_character(sequence);
        u64 tail = BYTES_HIGH & low_bytes(character.length) & ~0xffull;
        if ((continuations(sequence) & tail) != tail) return false;
        u32 code = character.code;
        if (character.length == 3 && (code < 0x800 || (code >= 0xd800 && code < 0xe000)))
            return false;
        if (character.length == 4 && (code < 0x10000 || code > 0x10ffff)) return false;
        at += character.length;
    }
    return true;
}
