// Upper and lower case, equal to Rust's `str` and `char`.
//
// ASCII is converted eight bytes at a time. Other characters are looked up in the tables that
// src/case.rs builds from Rust's own.
#pragma once
#include "text.cuh"

// Characters of a block, which the first level of the tables finds.
#define CASE_BLOCK 64
// Characters the tables know: those below the first number, and so many from the second on.
#define CASE_LOW_END 0x20000
#define CASE_HIGH_START 0xe0000
#define CASE_HIGH_COUNT 0x200

// What begins the tables; offsets in bytes. After it: for each block the index of its first entry
// (u16), the entries (u16, a character's mapping), the mappings.
struct CaseHeader {
    u32 entries;
    u32 mappings;
    u32 unused[2];
};

// What becomes of a character. In each word: up to 7 bytes of UTF-8, and in the bits from
// CASE_COUNT on how many they are; 0 where the character stays. In `lower`, from CASE_CLASS on,
// what it is to a sigma near it.
struct CaseMapping {
    u64 upper;
    u64 lower;
};

#define CASE_COUNT 56
#define CASE_CLASS 60
// Values of the class: passed over by the rule for sigma (Unicode's Case_Ignorable), or else a
// cased letter.
#define CASE_IGNORABLE 1
#define CASE_CASED 2

DEVICE CaseMapping case_mapping(const u8* tables, u32 code) {
    u32 place = code;
    if (code >= CASE_LOW_END) {
        if (code < CASE_HIGH_START || code >= CASE_HIGH_START + CASE_HIGH_COUNT) return {0, 0};
        place = code - CASE_HIGH_START + CASE_LOW_END;
    }
    const CaseHeader* header = reinterpret_cast<const CaseHeader*>(tables);
    const u16* blocks = reinterpret_cast<const u16*>(tables + sizeof(CaseHeader));
    const u16* entries = reinterpret_cast<const u16*>(tables + header->entries);
    const CaseMapping* mappings = reinterpret_cast<const CaseMapping*>(tables + header->mappings);
    return mappings[entries[blocks[place / CASE_BLOCK] + place % CASE_BLOCK]];
}

DEVICE u32 case_class(const u8* tables, u32 code) {
    return case_mapping(tables, code).lower >> CASE_CLASS & 3;
}

// Appends what a word of a CaseMapping says of the character that `bytes` begin with.
DEVICE void put_mapped(Writer& to, u64 mapped, u64 bytes, u32 length) {
    u32 count = mapped >> CASE_COUNT & 7;
    to.bytes8(count == 0 ? bytes & low_bytes(length) : mapped & low_bytes(7),
              count == 0 ? length : count);
}

#define SIGMA 0x3a3
// UTF-8 of the small sigma, and of the one that ends words.
#define SMALL_SIGMA 0x83cfull
#define FINAL_SIGMA 0x82cfull

// Whether a sigma ends a word: a cased letter before it, none after it, ignorable characters aside
// (Unicode, Final_Sigma).
DEVICE bool is_final_sigma(const u8* tables, const u8* text, u32 length, u32 at) {
    u32 class_before = 0;
    for (u32 start = at; start > 0;) {
        Character before = last_character(text, start);
        start -= before.length;
        class_before = case_class(tables, before.code);
        if (class_before != CASE_IGNORABLE) break;
    }
    if (class_before != CASE_CASED) return false;
    for (u32 end = at + 2; end < length;) {
        Character after = first_character(text + end, length - end);
        end += after.length;
        u32 class_after = case_class(tables, after.code);
        if (class_after != CASE_IGNORABLE) return class_after != CASE_CASED;
    }
    return true;
}

// Flags (0x80) of the ASCII characters after which `title` begins a word: white space and - ( { [
// <.
DEVICE u64 title_separators(u64 bytes) {
    return bytes_within(bytes, 0x09, 0x0d) | equal_bytes(bytes & BYTES_ONE * 0xf7, ' ') |
           equal_bytes(bytes, '-') | equal_bytes(bytes, '<') |
           equal_bytes(bytes | BYTES_ONE * 0x20, '{');
}

enum CaseConversion : u8 { CASE_UPPER, CASE_LOWER, CASE_TITLE };

template <u8 conversion> DEVICE void convert_case(Writer& to, const u8* tables, const u8* text,
                                                  u32 length) {
    // Of title: whether the next character begins a word.
    bool begins = true;
    u32 at = 0;
    while (at < length) {
        u32 count = smaller(8u, length - at);
        u64 bytes = load8(text + at, count);
        u64 beyond_ascii = bytes & BYTES_HIGH;
        u32 ascii = beyond_ascii == 0 ? count : first_byte(beyond_ascii);
        if (ascii > 0) {
            bytes &= low_bytes(ascii);
            // Flags of those that become upper case if they are letters.
            u64 up = conversion == CASE_UPPER ? BYTES_HIGH : 0;
            if (conversion == CASE_TITLE) {
                u64 separators = title_separators(bytes);
                up = separators << 8 | (begins ? 0x80 : 0);
                begins = (separators >> (8 * (ascii - 1)) & 0x80) != 0;
            }
            u64 changed =
                (bytes_within(bytes, 'a', 'z') & up) | (bytes_within(bytes, 'A', 'Z') & ~up);
            to.bytes8(bytes ^ changed >> 2, ascii);
            at += ascii;
        }
        if (ascii == count) continue;
        bytes = load8(text + at, smaller(4u, length - at));
        Character character = decode_character(bytes);
        if (conversion == CASE_LOWER && character.code == SIGMA) {
            to.bytes8(is_final_sigma(tables, text, length, at) ? FINAL_SIGMA : SMALL_SIGMA, 2);
        } else {
            CaseMapping mapping = case_mapping(tables, character.code);
            bool up = conversion == CASE_UPPER || (conversion == CASE_TITLE && begins);
            // White space has no case.
            put_mapped(to, up ? mapping.upper : mapping.lower, bytes, character.length);
            begins = is_white_space(character.code);
        }
        at += character.length;
    }
}

DEVICE void upper(Writer& to, const u8* tables, const u8* text, u32 length) {
    convert_case<CASE_UPPER>(to, tables, text, length);
}

DEVICE void lower(Writer& to, const u8* tables, const u8* text, u32 length) {
    convert_case<CASE_LOWER>(to, tables, text, length);
}

// The first character of each word upper, the others lower case, each by itself.
DEVICE void title(Writer& to, const u8* tables, const u8* text, u32 length) {
    convert_case<CASE_TITLE>(to, tables, text, length);
}

// The first character upper, the rest lower case as if it stood alone.
DEVICE void capitalize(Writer& to, const u8* tables, const u8* text, u32 length) {
    if (length == 0) return;
    u64 bytes = load8(text, smaller(4u, length));
    Character first = decode_character(bytes);
    put_mapped(to, case_mapping(tables, first.code).upper, bytes, first.length);
    lower(to, tables, text + first.length, length - first.length);
}
