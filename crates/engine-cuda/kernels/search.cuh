// Finding and replacing a text in a text, as Rust's `str` does.
//
// By the two-way algorithm (Crochemore and Perrin, Two-way string-matching, JACM 38(3), 1991):
// linear time and no memory but a few registers, so that no text a client or a backend makes up can
// keep a warp busy.
#pragma once
#include "text.cuh"

// Where no occurrence is. No text is so long.
#define NOT_FOUND 0xffffffffu

// What is looked for, cut in two at a critical factorization. Not empty.
struct Needle {
    const u8* bytes;
    u32 length;
    // Where the second part begins.
    u32 cut;
    // How far to move after the second part matched and the first did not: the needle's period, or,
    // if that is long, a bound of it.
    u32 period;
    // Whether `period` is the needle's period: then what matched before such a move need not be
    // looked at again.
    bool periodic;
};

// The start and the period of the greatest suffix by the order of bytes, or by the reverse order.
DEVICE void greatest_suffix(const u8* bytes, u32 length, bool reverse, u32* start, u32* period) {
    u32 best = 0, candidate = 1, matched = 0;
    *period = 1;
    while (candidate + matched < length) {
        u8 a = bytes[candidate + matched], b = bytes[best + matched];
        if (a == b) {
            matched += 1;
            if (matched == *period) {
                candidate += *period;
                matched = 0;
            }
        } else if ((a < b) != reverse) {
            candidate += matched + 1;
            matched = 0;
            *period = candidate - best;
        } else {
            best = candidate;
            candidate += 1;
            matched = 0;
            *period = 1;
        }
    }
    *start = best;
}

DEVICE Needle prepare_needle(const u8* bytes, u32 length) {
    Needle needle = {bytes, length, 0, 0, false};
    u32 cut, period;
    greatest_suffix(bytes, length, false, &needle.cut, &needle.period);
    greatest_suffix(bytes, length, true, &cut, &period);
    if (cut > needle.cut) {
        needle.cut = cut;
        needle.period = period;
    }
    needle.periodic = needle.cut + needle.period <= length &&
                      same_bytes(bytes, bytes + needle.period, needle.cut);
    if (!needle.periodic) needle.period = larger(needle.cut, length - needle.cut) + 1;
    return needle;
}

// The first occurrence at `from` or after it.
DEVICE u32 find(const Needle& needle, const u8* text, u32 length, u32 from) {
    // So many bytes at the needle's start are known to match at `from`.
    u32 known = 0;
    while (from <= length && needle.length <= length - from) {
        const u8* window = text + from;
        u32 at = larger(needle.cut, known);
        while (at < needle.length && needle.bytes[at] == window[at]) at += 1;
        if (at < needle.length) {
            from += at - needle.cut + 1;
            known = 0;
            continue;
        }
        at = needle.cut;
        while (at > known && needle.bytes[at - 1] == window[at - 1]) at -= 1;
        if (at <= known) return from;
        from += needle.period;
        known = needle.periodic ? needle.length - needle.period : 0;
    }
    return NOT_FOUND;
}

DEVICE bool text_contains(const u8* text, u32 length, const u8* needle, u32 needle_length) {
    return needle_length == 0 ||
           find(prepare_needle(needle, needle_length), text, length, 0) != NOT_FOUND;
}

// The length of `text` with every occurrence of `old` replaced. An empty `old` is found at both
// ends and between characters.
DEVICE u64 replaced_length(const u8* text, u32 length, const u8* old, u32 old_length,
                           u32 new_length) {
    u64 times = 0;
    if (old_length == 0) {
        times = static_cast<u64>(text_characters(text, length)) + 1;
    } else {
        Needle needle = prepare_needle(old, old_length);
        u32 from = 0;
        u32 at;
        while ((at = find(needle, text, length, from)) != NOT_FOUND) {
            times += 1;
            from = at + old_length;
        }
    }
    // Nothing here reaches 2^64: lengths are below 2^32.
    return length - times * old_length + times * new_length;
}

// Appends `text` with every occurrence of `old` replaced by `instead`.
DEVICE void replace(Writer& to, const u8* text, u32 length, const u8* old, u32 old_length,
                    const u8* instead, u32 new_length) {
    if (old_length == 0) {
        u32 at = 0;
        to.text(instead, new_length);
        while (at < length) {
            u32 bytes = character_length(text[at]);
            to.text(text + at, bytes);
            to.text(instead, new_length);
            at += bytes;
        }
        return;
    }
    Needle needle = prepare_needle(old, old_length);
    u32 done = 0;
    u32 at;
    while ((at = find(needle, text, length, done)) != NOT_FOUND) {
        to.text(text + done, at - done);
        to.text(instead, new_length);
        done = at + old_length;
    }
    to.text(text + done, length - done);
}
