// MD5 (RFC 1321), as pages ask for it of passwords; not for security.
#pragma once
#include "writer.cuh"

// The functions F, G, H, I of RFC 1321, section 3.4.
#define MIX_FIRST(x, y, z) (((x) & (y)) | (~(x) & (z)))
#define MIX_SECOND(x, y, z) (((x) & (z)) | ((y) & ~(z)))
#define MIX_THIRD(x, y, z) ((x) ^ (y) ^ (z))
#define MIX_FOURTH(x, y, z) ((y) ^ ((x) | ~(z)))

// One of the 64 steps; `sine` is floor(2^32 |sin(step + 1)|), `word` the place of the block's word
// that it takes.
#define STEP(mix, a, b, c, d, word, shift, sine)     \
    a += mix(b, c, d) + words[word] + sine;          \
    a = b + ((a << (shift)) | (a >> (32 - (shift))))

struct Md5State {
    u32 a, b, c, d;
};

// Takes one block of 64 bytes into the state. The steps are written out, so that all indices are
// constants and the words stay in registers.
DEVICE void md5_block(Md5State& state, const u32 (&words)[16]) {
    u32 a = state.a, b = state.b, c = state.c, d = state.d;
    STEP(MIX_FIRST, a, b, c, d, 0, 7, 0xd76aa478);
    STEP(MIX_FIRST, d, a, b, c, 1, 12, 0xe8c7b756);
    STEP(MIX_FIRST, c, d, a, b, 2, 17, 0x242070db);
    STEP(MIX_FIRST, b, c, d, a, 3, 22, 0xc1bdceee);
    STEP(MIX_FIRST, a, b, c, d, 4, 7, 0xf57c0faf);
    STEP(MIX_FIRST, d, a, b, c, 5, 12, 0x4787c62a);
    STEP(MIX_FIRST, c, d, a, b, 6, 17, 0xa8304613);
    STEP(MIX_FIRST, b, c, d, a, 7, 22, 0xfd469501);
    STEP(MIX_FIRST, a, b, c, d, 8, 7, 0x698098d8);
    STEP(MIX_FIRST, d, a, b, c, 9, 12, 0x8b44f7af);
    STEP(MIX_FIRST, c, d, a, b, 10, 17, 0xffff5bb1);
    STEP(MIX_FIRST, b, c, d, a, 11, 22, 0x895cd7be);
    STEP(MIX_FIRST, a, b, c, d, 12, 7, 0x6b901122);
    STEP(MIX_FIRST, d, a, b, c, 13, 12, 0xfd987193);
    STEP(MIX_FIRST, c, d, a, b, 14, 17, 0xa679438e);
    STEP(MIX_FIRST, b, c, d, a, 15, 22, 0x49b40821);
    STEP(MIX_SECOND, a, b, c, d, 1, 5, 0xf61e2562);
    STEP(MIX_SECOND, d, a, b, c, 6, 9, 0xc040b340);
    STEP(MIX_SECOND, c, d, a, b, 11, 14, 0x265e5a51);
    STEP(MIX_SECOND, b, c, d, a, 0, 20, 0xe9b6c7aa);
    STEP(MIX_SECOND, a, b, c, d, 5, 5, 0xd62f105d);
    STEP(MIX_SECOND, d, a, b, c, 10, 9, 0x02441453);
    STEP(MIX_SECOND, c, d, a, b, 15, 14, 0xd8a1e681);
    STEP(MIX_SECOND, b, c, d, a, 4, 20, 0xe7d3fbc8);
    STEP(MIX_SECOND, a, b, c, d, 9, 5, 0x21e1cde6);
    STEP(MIX_SECOND, d, a, b, c, 14, 9, 0xc33707d6);
    STEP(MIX_SECOND, c, d, a, b, 3, 14, 0xf4d50d87);
    STEP(MIX_SECOND, b, c, d, a, 8, 20, 0x455a14ed);
    STEP(MIX_SECOND, a, b, c, d, 13, 5, 0xa9e3e905);
    STEP(MIX_SECOND, d, a, b, c, 2, 9, 0xfcefa3f8);
    STEP(MIX_SECOND, c, d, a, b, 7, 14, 0x676f02d9);
    STEP(MIX_SECOND, b, c, d, a, 12, 20, 0x8d2a4c8a);
    STEP(MIX_THIRD, a, b, c, d, 5, 4, 0xfffa3942);
    STEP(MIX_THIRD, d, a, b, c, 8, 11, 0x8771f681);
    STEP(MIX_THIRD, c, d, a, b, 11, 16, 0x6d9d6122);
    STEP(MIX_THIRD, b, c, d, a, 14, 23, 0xfde5380c);
    STEP(MIX_THIRD, a, b, c, d, 1, 4, 0xa4beea44);
    STEP(MIX_THIRD, d, a, b, c, 4, 11, 0x4bdecfa9);
    STEP(MIX_THIRD, c, d, a, b, 7, 16, 0xf6bb4b60);
    STEP(MIX_THIRD, b, c, d, a, 10, 23, 0xbebfbc70);
    STEP(MIX_THIRD, a, b, c, d, 13, 4, 0x289b7ec6);
    STEP(MIX_THIRD, d, a, b, c, 0, 11, 0xeaa127fa);
    STEP(MIX_THIRD, c, d, a, b, 3, 16, 0xd4ef3085);
    STEP(MIX_THIRD, b, c, d, a, 6, 23, 0x04881d05);
    STEP(MIX_THIRD, a, b, c, d, 9, 4, 0xd9d4d039);
    STEP(MIX_THIRD, d, a, b, c, 12, 11, 0xe6db99e5);
    STEP(MIX_THIRD, c, d, a, b, 15, 16, 0x1fa27cf8);
    STEP(MIX_THIRD, b, c, d, a, 2, 23, 0xc4ac5665);
    STEP(MIX_FOURTH, a, b, c, d, 0, 6, 0xf4292244);
    STEP(MIX_FOURTH, d, a, b, c, 7, 10, 0x432aff97);
    STEP(MIX_FOURTH, c, d, a, b, 14, 15, 0xab9423a7);
    STEP(MIX_FOURTH, b, c, d, a, 5, 21, 0xfc93a039);
    STEP(MIX_FOURTH, a, b, c, d, 12, 6, 0x655b59c3);
    STEP(MIX_FOURTH, d, a, b, c, 3, 10, 0x8f0ccc92);
    STEP(MIX_FOURTH, c, d, a, b, 10, 15, 0xffeff47d);
    STEP(MIX_FOURTH, b, c, d, a, 1, 21, 0x85845dd1);
    STEP(MIX_FOURTH, a, b, c, d, 8, 6, 0x6fa87e4f);
    STEP(MIX_FOURTH, d, a, b, c, 15, 10, 0xfe2ce6e0);
    STEP(MIX_FOURTH, c, d, a, b, 6, 15, 0xa3014314);
    STEP(MIX_FOURTH, b, c, d, a, 13, 21, 0x4e0811a1);
    STEP(MIX_FOURTH, a, b, c, d, 4, 6, 0xf7537e82);
    STEP(MIX_FOURTH, d, a, b, c, 11, 10, 0xbd3af235);
    STEP(MIX_FOURTH, c, d, a, b, 2, 15, 0x2ad7d2bb);
    STEP(MIX_FOURTH, b, c, d, a, 9, 21, 0xeb86d391);
    state.a += a;
    state.b += b;
    state.c += c;
    state.d += d;
}

#undef STEP

// Eight lower-case hexadecimal digits of a word, its lowest byte first.
DEVICE u64 hex_digits(u32 word) {
    // Bytes apart, then the halves of each, the higher first.
    u64 nibbles = (word & 0xffffull) | (word & 0xffff0000ull) << 16;
    nibbles = (nibbles & 0x000000ff000000ffull) | (nibbles & 0x0000ff000000ff00ull) << 8;
    nibbles = (nibbles >> 4 & 0x000f000f000f000full) | (nibbles & 0x000f000f000f000full) << 8;
    u64 letters = whole_bytes(bytes_within(nibbles, 10, 15));
    return nibbles + BYTES_ONE * '0' + (letters & BYTES_ONE * ('a' - '0' - 10));
}

// Appends the digest of a text as 32 lower-case hexadecimal digits.
DEVICE void md5_hex(Writer& to, const u8* text, u32 length) {
    Md5State state = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476};
    // The text, a byte 0x80, zeros, and the text's length in bits in the last 8 bytes of the last
    // block.
    u64 blocks = (static_cast<u64>(length) + 8) / 64 + 1;
    for (u64 block = 0; block < blocks; block += 1) {
        u32 words[16];
#pragma unroll
        for (u32 pair = 0; pair < 8; pair += 1) {
            u64 at = 64 * block + 8 * pair;
            u64 bytes = 0;
            if (at <= length) {
                u32 count = static_cast<u32>(smaller<u64>(8, length - at));
                bytes = load8(text + at, count);
                if (count < 8) bytes |= 0x80ull << (8 * count);
            }
            if (pair == 7 && block == blocks - 1) bytes = 8ull * length;
            words[2 * pair] = static_cast<u32>(bytes);
            words[2 * pair + 1] = static_cast<u32>(bytes >> 32);
        }
        md5_block(state, words);
    }
    to.bytes8(hex_digits(state.a), 8);
    to.bytes8(hex_digits(state.b), 8);
    to.bytes8(hex_digits(state.c), 8);
    to.bytes8(hex_digits(state.d), 8);
}
