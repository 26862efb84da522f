// A request's bytes as the parser reads them: eight at a time, in either layout.
#pragma once
#include "writer.cuh"

// 16 bytes moved as one.
struct __align__(16) Unit {
    u64 low;
    u64 high;
};

// One request. Its unit u (16 bytes) is at base + u * unit_stride: 16 apart where the bytes of a
// request are contiguous, or a row of all requests' units apart where they are transposed (paper,
// section 4.3.2).
struct Request {
    const u8* base;
    u64 unit_stride;
};

DEVICE u64 request_word(const Request& request, u32 word) {
    return *reinterpret_cast<const u64*>(request.base + (word >> 1) * request.unit_stride +
                                         (word & 1) * 8);
}

// Up to 8 bytes from `at` on, little endian; those at `end` and beyond are zero. `at` may be `end`.
DEVICE u64 load(const Request& request, u32 at, u32 end) {
    if (at >= end) return 0;
    u32 count = smaller(8u, end - at);
    u32 skip = at & 7;
    u64 bytes = request_word(request, at >> 3) >> (8 * skip);
    if (skip + count > 8) bytes |= request_word(request, (at >> 3) + 1) << (64 - 8 * skip);
    return bytes & low_bytes(count);
}

// The place of the lowest flagged byte; 8 for none.
DEVICE u32 first_flag(u64 flags) { return flags == 0 ? 8 : first_byte(flags); }

// All bits below the lowest that is set; all bits for 0.
DEVICE u64 below_first(u64 flags) { return (flags & (0 - flags)) - 1; }

DEVICE u8 byte_of(u64 bytes, u32 place) { return static_cast<u8>(bytes >> (8 * place)); }

// ASCII letters in lower case.
DEVICE u64 lower_case(u64 bytes) { return bytes | bytes_within(bytes, 'A', 'Z') >> 2; }

// Up to 8 characters as `load` gives them.
template <u32 size> DEVICE constexpr u64 word_of(const char (&text)[size]) {
    u64 word = 0;
    for (u32 at = 0; at + 1 < size; at++)
        word |= static_cast<u64>(static_cast<u8>(text[at])) << (8 * at);
    return word;
}

// Where `byte` first is in at .. end; else `end`.
DEVICE u32 find(const Request& request, u32 at, u32 end, u8 byte) {
    while (at < end) {
        u64 found = equal_bytes(load(request, at, end), byte);
        if (found != 0) return at + first_byte(found);
        at += 8;
    }
    return end;
}

// Past the spaces and tabs from `at` on.
DEVICE u32 skip_spaces(const Request& request, u32 at, u32 end) {
    for (;;) {
        u64 bytes = load(request, at, end);
        // What is past the end is neither.
        u64 others = ~(equal_bytes(bytes, ' ') | equal_bytes(bytes, '\t')) & BYTES_HIGH;
        if (others != 0) return at + first_byte(others);
        at += 8;
    }
}

// Back over the spaces and tabs before `end`.
DEVICE u32 trim_end(const Request& request, u32 at, u32 end) {
    while (end > at) {
        u8 last = byte_of(load(request, end - 1, end), 0);
        if (last != ' ' && last != '\t') break;
        end -= 1;
    }
    return end;
}

// Whether the bytes from `at` on are this text of a table, which begins at a multiple of 8 and is
// followed by zeros to the next.
DEVICE bool matches(const Request& request, u32 at, const u64* text, u32 length) {
    u32 end = at + length;
    for (; at < end; at += 8, text++) {
        if (load(request, at, end) != *text) return false;
    }
    return true;
}

// The number that the first `count` (1 to 8) characters of a word are; false where one is no digit.
DEVICE bool read_digits(u64 bytes, u32 count, u64& number) {
    // To the end of the word, zeros before.
    if (count < 8) bytes = bytes << (8 * (8 - count)) | (BYTES_ONE * '0' & low_bytes(8 - count));
    if (bytes_within(bytes, '0', '9') != BYTES_HIGH) return false;
    u64 digits = bytes & BYTES_ONE * 0xf;
    digits = (digits * 10 + (digits >> 8)) & 0x00ff00ff00ff00ffull;
    digits = (digits * 100 + (digits >> 16)) & 0x0000ffff0000ffffull;
    number = (digits * 10000 + (digits >> 32)) & 0xffffffffull;
    return true;
}

// The number that at .. end is; false where that is no number of 1 to 18 digits. More than those
// are left to the host.
DEVICE bool read_number(const Request& request, u32 at, u32 end, u64& number) {
    if (at >= end || end - at > 18) return false;
    number = 0;
    u32 count = (end - at) & 7;
    if (count == 0) count = 8;
    for (; at < end; at += count, count = 8) {
        u64 part;
        if (!read_digits(load(request, at, at + count), count, part)) return false;
        number = number * 100000000 + part;
    }
    return true;
}

// The value of 8 lower-case hexadecimal digits; false where one is none.
DEVICE bool read_hex(u64 bytes, u32& number) {
    u64 letters = bytes_within(bytes, 'a', 'f');
    if ((letters | bytes_within(bytes, '0', '9')) != BYTES_HIGH) return false;
    u64 digits = (bytes & BYTES_ONE * 0xf) + (letters >> 7) * 9;
    digits = (digits << 4 | digits >> 8) & 0x00ff00ff00ff00ffull;
    digits = (digits << 8 | digits >> 16) & 0x0000ffff0000ffffull;
    number = static_cast<u32>(digits << 16 | digits >> 32);
    return true;
}
