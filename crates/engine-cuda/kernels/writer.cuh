// Reading and writing bytes eight at a time.
//
// A thread handles one lane, and its neighbors write other regions: a byte stored alone costs a whole sector of memory
// traffic. So bytes are loaded as aligned words, collected in a register, and stored as aligned words.
#pragma once
#include "device.cuh"

#define BYTES_ONE 0x0101010101010101ull
#define BYTES_LOW 0x7f7f7f7f7f7f7f7full
#define BYTES_HIGH 0x8080808080808080ull

// The lowest `count` bytes set; 1 to 8.
DEVICE u64 low_bytes(u32 count) { return ~0ull >> (64 - 8 * count); }

// How many bytes are below the lowest that has a bit set. Not for 0.
DEVICE u32 first_byte(u64 flags) { return static_cast<u32>(__ffsll(static_cast<i64>(flags)) - 1) / 8; }

// Flags (0x80) of the bytes that are zero, exactly.
DEVICE u64 zero_bytes(u64 bytes) { return ~(((bytes & BYTES_LOW) + BYTES_LOW) | bytes | BYTES_LOW); }

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

// The first `count` bytes (0 to 8) of a text, little endian, the rest zero; by aligned loads that each contain a wanted
// byte, which never leave the text's buffer.
DEVICE u64 load8(const u8* from, u32 count) {
    if (count == 0) return 0;
    u64 address = reinterpret_cast<u64>(from);
    const u64* words = reinterpret_cast<const u64*>(address & ~7ull);
    u32 skip = static_cast<u32>(address & 7);
    u64 bytes = words[0] >> (8 * skip);
    if (skip + count > 8) bytes |= words[1] << (64 - 8 * skip);
    return bytes & low_bytes(count);
}

// Appends bytes to a lane's region, or to the rest of one from a multiple of 8 on. Past the capacity it stores nothing
// and counts on, so that the caller learns how much room is needed.
struct Writer {
    // 8-byte aligned.
    u8* base;
    // Bytes written that are not stored yet, at the low end.
    u64 pending;
    // A multiple of 8.
    u32 capacity;
    u32 written;

    Writer() = default;

    DEVICE_METHOD Writer(u8* base, u32 capacity) : base(base), pending(0), capacity(capacity), written(0) {}

    // Bytes written, whether or not there was room.
    DEVICE_METHOD u32 length() const { return written; }

    DEVICE_METHOD bool overflowed() const { return written > capacity; }

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
        if (length == 0) return;
        u64 address = reinterpret_cast<u64>(from);
        const u64* words = reinterpret_cast<const u64*>(address & ~7ull);
        u32 skip = static_cast<u32>(address & 7);
        // Up to the source's first word boundary, then a word a turn.
        u32 head = smaller(8 - skip, length);
        bytes8((words[0] >> (8 * skip)) & low_bytes(head), head);
        u32 left = length - head;
        words += 1;
        // Four loads under way at once: the stores between them would keep the compiler from moving them.
        while (left >= 32) {
            u64 first = words[0], second = words[1], third = words[2], fourth = words[3];
            bytes8(first, 8);
            bytes8(second, 8);
            bytes8(third, 8);
            bytes8(fourth, 8);
            words += 4;
            left -= 32;
        }
        while (left > 0) {
            u32 count = smaller(8u, left);
            bytes8(words[0] & low_bytes(count), count);
            words += 1;
            left -= count;
        }
    }

    // Stores what is pending, padded with zeros to a multiple of 8. More may be written after it.
    DEVICE_METHOD void finish() {
        if ((written & 7) != 0) store();
    }

    // Stores the word that `written` points into.
    DEVICE_METHOD void store() {
        u32 at = written & ~7u;
        if (at < capacity) *reinterpret_cast<u64*>(base + at) = pending;
    }
};
