// Reading and writing bytes eight at a time.
//
// A thread handles one lane, and its neighbors write other regions: a byte stored alone costs a
// whole sector of memory traffic. So bytes are loaded as aligned words, collected in a register,
// and stored as aligned words.
#pragma once
#include "device.cuh"

#define BYTES_ONE 0x0101010101010101ull
#define BYTES_LOW 0x7f7f7f7f7f7f7f7full
#define BYTES_HIGH 0x8080808080808080ull

// The lowest `count` bytes set; 1 to 8.
DEVICE u64 low_bytes(u32 count) { return ~0ull >> (64 - 8 * count); }

// How many bytes are below the lowest that has a bit set. Not for 0.
DEVICE u32 first_byte(u64 flags) {
    return static_cast<u32>(__ffsll(static_cast<i64>(flags)) - 1) / 8;
}

// Flags (0x80) of the bytes that are zero, exactly.
DEVICE u64 zero_bytes(u64 bytes) {
    return ~(((bytes & BYTES_LOW) + BYTES_LOW) | bytes | BYTES_LOW);
}

// Flags (0x80) of the bytes equal to `byte`, exactly.
DEVICE u64 equal_bytes(u64 bytes, u8 byte) { return zero_bytes(bytes ^ (BYTES_ONE * byte)); }

// Flags (0x80) of the bytes from `low` to `high`, both below 0x80, exactly.
DEVICE u64 bytes_within(u64 bytes, u8 low, u8 high) {
    u64 ascii = bytes & BYTES_LOW;
    u64 from_low = ascii + BYTES_ONE * static_cast<u64>(0x80 - low);
    u64 above_high = ascii + BYTES_ONE * static_cast<u64>(0x7f - high);
    return from_low & ~above_high & ~bytes & BYTES_HIGH;
}

// All bits of each flagged (0x80) byte.
DEVICE u64 whole_bytes(u64 flags) { return (flags >> 7) * 0xff; }

// How far a pointer is past a word's first byte. A pointer less that stays one into its memory,
// which a number would not.
DEVICE u32 past_word(const u8* pointer) {
    return static_cast<u32>(reinterpret_cast<u64>(pointer)) & 7;
}

// The first `count` bytes (0 to 8) of a text, little endian, the rest zero; by aligned loads that
// each contain a wanted byte, which never leave the text's buffer.
DEVICE u64 load8(const u8* from, u32 count) {
    if (count == 0) return 0;
    u32 skip = past_word(from);
    const u64* words = GLOBAL(reinterpret_cast<const u64*>(from - skip));
    u64 bytes = words[0] >> (8 * skip);
    if (skip + count > 8) bytes |= words[1] << (64 - 8 * skip);
    return bytes & low_bytes(count);
}

// Words that a reader of texts loads at once: most texts have no more.
#define WORDS 4u

// The words of a text from any byte on, by aligned loads, each once and none that has no wanted
// byte.
struct WordReader {
    // The next to be loaded.
    const u64* words;
    // Where a word begins: so many bytes (1 to 8) into the one loaded before it. In halves: far is
    // in the upper one, by so many bits.
    u32 skip;
    bool far;
    u32 bits;
    // Of the one loaded before, from the half on in which a word begins: that half, and the upper
    // half.
    u32 low;
    u32 high;

    // The first word's lowest `absent` bytes (0 to 7) are not the text's and may be anything.
    DEVICE_METHOD WordReader(const u8* from, u32 absent) {
        skip = past_word(from - 1) + 1;
        words = GLOBAL(reinterpret_cast<const u64*>(from - skip));
        far = skip > 4;
        bits = 8 * (far ? skip - 4 : skip);
        u64 before = skip + absent < 8 ? words[0] : 0;
        high = static_cast<u32>(before >> 32);
        low = far ? high : static_cast<u32>(before);
        words += 1;
    }

    // The text's next word, the end of which is in `loaded`.
    DEVICE_METHOD u64 join(u64 loaded) {
        u32 first = static_cast<u32>(loaded), second = static_cast<u32>(loaded >> 32);
        u32 middle = far ? first : high, top = far ? second : first;
        u64 lower = static_cast<u64>(middle) << 32 | low,
            upper = static_cast<u64>(top) << 32 | middle;
        low = top;
        high = second;
        return static_cast<u32>(lower >> bits) | upper >> bits << 32;
    }

    // The next words where `left` bytes (0 and up) are wanted; those beyond are anything. All are
    // under way together: what is done with one would keep the compiler from loading the next.
    DEVICE_METHOD void next(u64 (&next)[WORDS], u32 left) {
        u64 loaded[WORDS];
#pragma unroll
        for (u32 at = 0; at < WORDS; ++at) loaded[at] = left + skip > 8 + 8 * at ? words[at] : 0;
        words += WORDS;
#pragma unroll
        for (u32 at = 0; at < WORDS; ++at) next[at] = join(loaded[at]);
    }
};

// Appends bytes to a lane's region, or to the rest of one from a multiple of 8 on. Past the
// capacity it stores nothing and counts on, so that the caller learns how much room is needed.
struct Writer {
    // 8-byte aligned.
    u8* base;
    // Bytes written that are not stored yet, at the low end.
    u64 pending;
    // A multiple of 8.
    u32 capacity;
    u32 written;

    Writer() = default;

    DEVICE_METHOD Writer(u8* base, u32 capacity)
        : base(base), pending(0), capacity(capacity), written(0) {}

    // Bytes written, whether or not there was room.
    DEVICE_METHOD u32 length() const { return written; }

    DEVICE_METHOD bool overflowed() const { return written > capacity; }

    // Goes on where a copy, which a function was given and gave back, has come. What it has in
    // common with this one need not be kept.
    DEVICE_METHOD void resume(const Writer& copy) {
        pending = copy.pending;
        written = copy.written;
    }

    DEVICE_METHOD void byte(u8 byte) { bytes8(byte, 1); }

    // The lowest `count` bytes (0 to 8) of a word; the others must be zero.
    DEVICE_METHOD void bytes8(u64 bytes, u32 count) {
        u32 fill = written & 7;
        pending |= bytes << (8 * fill);
        if (fill + count >= 8) {
            store();
            // By 64 - 8 * fill, which is too far for one shift where `fill` is 0.
            pending = bytes >> 1 >> (63 - 8 * fill);
        }
        written += count;
    }

    DEVICE_METHOD void text(const u8* from, u32 length) {
        u32 fill = written & 7;
        u64* to = KEPT(reinterpret_cast<u64*>(base + (written - fill)));
        u32 stored = smaller(length, capacity - smaller(capacity, written));
        written += length;
        if (stored == 0) return;
        u32 left = fill + stored;
        // Words of the source as they go into the region's. The first begins with what is pending.
        WordReader words(from - fill, fill);
        u64 next[WORDS];
        words.next(next, left);
        next[0] = (next[0] & ~0ull << (8 * fill)) | pending;
#pragma unroll 1
        while (left >= 8 * WORDS) {
#pragma unroll
            for (u32 at = 0; at < WORDS; ++at) GLOBAL(to)[at] = next[at];
            to += WORDS;
            left -= 8 * WORDS;
            words.next(next, left);
        }
        u64 last = next[0];
#pragma unroll
        for (u32 at = 0; at + 1 < WORDS; ++at) {
            if (left >= 8 * at + 8) {
                GLOBAL(to)[at] = next[at];
                last = next[at + 1];
            }
        }
        pending = last & ((1ull << (8 * (left & 7))) - 1);
    }

    // Stores what is pending, padded with zeros to a multiple of 8. More may be written after it.
    DEVICE_METHOD void finish() {
        if ((written & 7) != 0) store();
    }

    // Stores the word that `written` points into.
    DEVICE_METHOD void store() { store(written & ~7u, pending); }

    // Stores a word at a multiple of 8, if there is room.
    DEVICE_METHOD void store(u32 at, u64 word) {
        if (at < capacity) *GLOBAL(reinterpret_cast<u64*>(base + at)) = word;
    }
};
