// Numbers of the page language: arithmetic, comparison, printing, as the engine's reference defines them.
//
// Functions that can fail return 0 or a LaneError, or ARITHMETIC_HOST.
#pragma once
#include "abi.cuh"
#include "writer.cuh"

// The engine's Arithmetic and Comparison, in their order.
enum Arithmetic : u8 {
    ARITHMETIC_ADD,
    ARITHMETIC_SUBTRACT,
    ARITHMETIC_MULTIPLY,
    ARITHMETIC_DIVIDE,
    ARITHMETIC_FLOOR_DIVIDE,
    ARITHMETIC_REMAINDER,
    ARITHMETIC_POWER,
};

enum Comparison : u8 {
    COMPARISON_EQUAL,
    COMPARISON_NOT_EQUAL,
    COMPARISON_LESS,
    COMPARISON_LESS_OR_EQUAL,
    COMPARISON_GREATER,
    COMPARISON_GREATER_OR_EQUAL,
};

// Only the host computes it: powers of floats, of which no two libraries agree to the last bit, and NaN, whose sign depends on the
// processor and decides comparisons.
#define ARITHMETIC_HOST 255

#define I64_MIN_MAGNITUDE (1ull << 63)

// Whether an ordering (-1, 0, 1) satisfies a comparison.
DEVICE bool ordering_holds(u8 comparison, i32 ordering) {
    // Bit 0: holds where less, 1: where equal, 2: where greater.
    u32 satisfied;
    switch (comparison) {
        case COMPARISON_EQUAL: satisfied = 2; break;
        case COMPARISON_NOT_EQUAL: satisfied = 5; break;
        case COMPARISON_LESS: satisfied = 1; break;
        case COMPARISON_LESS_OR_EQUAL: satisfied = 3; break;
        case COMPARISON_GREATER: satisfied = 4; break;
        default: satisfied = 6; break;
    }
    return (satisfied >> (ordering + 1) & 1) != 0;
}

DEVICE bool ints_hold(u8 comparison, i64 a, i64 b) { return ordering_holds(comparison, (a > b) - (a < b)); }

DEVICE u64 magnitude(i64 value) { return value < 0 ? 0 - static_cast<u64>(value) : static_cast<u64>(value); }

// The product, unless it is beyond 64 bits. By halves: at most one of the upper ones may be there.
DEVICE bool multiply_magnitudes(u64 a, u64 b, u64* product) {
    u64 a_high = a >> 32, b_high = b >> 32;
    if (a_high != 0 && b_high != 0) return false;
    u64 a_low = static_cast<u32>(a), b_low = static_cast<u32>(b);
    // One of the two is 0, so there is no carry.
    u64 cross = a_high * b_low + a_low * b_high;
    u64 low = a_low * b_low;
    *product = low + (cross << 32);
    return cross >> 32 == 0 && *product >= low;
}

DEVICE u8 multiply_ints(i64 a, i64 b, i64* result) {
    u64 product;
    if (!multiply_magnitudes(magnitude(a), magnitude(b), &product)) return ERROR_OVERFLOW;
    bool negative = (a < 0) != (b < 0);
    if (product > I64_MIN_MAGNITUDE - (negative ? 0 : 1)) return ERROR_OVERFLOW;
    *result = static_cast<i64>(negative ? 0 - product : product);
    return 0;
}

DEVICE u8 power_of_int(i64 base, i64 exponent, i64* result) {
    if (exponent < 0 || exponent > 0xffffffffll) return ERROR_OVERFLOW;
    *result = 1;
    u8 error = 0;
    while (exponent != 0 && error == 0) {
        if ((exponent & 1) != 0) error = multiply_ints(*result, base, result);
        exponent >>= 1;
        // A square is only made where it is used: with it overflows what it is a factor of.
        if (exponent != 0 && error == 0) error = multiply_ints(base, base, &base);
    }
    return error;
}

// Integer arithmetic; a result beyond 64 bits is an error.
DEVICE u8 int_arithmetic(u8 operation, i64 a, i64 b, i64* result) {
    switch (operation) {
        case ARITHMETIC_ADD: {
            i64 sum = static_cast<i64>(static_cast<u64>(a) + static_cast<u64>(b));
            *result = sum;
            return ((a ^ sum) & (b ^ sum)) < 0 ? ERROR_OVERFLOW : 0;
        }
        case ARITHMETIC_SUBTRACT: {
            i64 difference = static_cast<i64>(static_cast<u64>(a) - static_cast<u64>(b));
            *result = difference;
            return ((a ^ b) & (a ^ difference)) < 0 ? ERROR_OVERFLOW : 0;
        }
        case ARITHMETIC_MULTIPLY: return multiply_ints(a, b, result);
        case ARITHMETIC_POWER: return power_of_int(a, b, result);
        default: break;
    }
    if (b == 0) return ERROR_DIVISION_BY_ZERO;
    if (b == -1) {
        // The processor cannot divide the least integer by it.
        if (operation == ARITHMETIC_REMAINDER) {
            *result = 0;
            return 0;
        }
        *result = static_cast<i64>(0 - static_cast<u64>(a));
        return magnitude(a) == I64_MIN_MAGNITUDE && a < 0 ? ERROR_OVERFLOW : 0;
    }
    i64 quotient = a / b;
    i64 remainder = a - quotient * b;
    // Toward negative infinity: the remainder takes the divisor's sign.
    bool down = remainder != 0 && (remainder < 0) != (b < 0);
    *result = operation == ARITHMETIC_REMAINDER ? remainder + (down ? b : 0) : quotient - (down ? 1 : 0);
    return 0;
}

// Eight decimal digits of a number below 10^8 as a word, the first lowest, each 0 to 9. The number is split in halves, each half again,
// all of one size at once; the multiplications divide by 100 and by 10.
DEVICE u64 eight_digits(u32 number) {
    u32 upper = number / 10000;
    u64 fours = upper | static_cast<u64>(number - upper * 10000) << 32;
    u64 hundreds = (fours * 10486 >> 20) & 0x0000007f0000007full;
    u64 pairs = hundreds | (fours - hundreds * 100) << 16;
    u64 tens = (pairs * 103 >> 10) & 0x000f000f000f000full;
    return tens | (pairs - tens * 10) << 8;
}

// Appends a number in decimal.
DEVICE void print_u64(Writer& to, u64 number) {
    // Groups of eight digits, the highest without its leading zeros.
    u64 upper = number / 100000000;
    u32 groups = upper == 0 ? 1 : upper < 100000000 ? 2 : 3;
    u32 top = static_cast<u32>(upper / 100000000);
    u32 middle = static_cast<u32>(upper - static_cast<u64>(top) * 100000000);
    u32 low = static_cast<u32>(number - upper * 100000000);
    bool leading = true;
    while (groups > 0) {
        u64 digits = eight_digits(groups == 3 ? top : groups == 2 ? middle : low);
        // The last digit stays, be it zero.
        u32 zeros = leading ? first_byte(digits | 1ull << 56) : 0;
        to.bytes8((digits + BYTES_ONE * '0') >> (8 * zeros), 8 - zeros);
        leading = false;
        groups -= 1;
    }
}

DEVICE void print_int(Writer& to, i64 value) {
    if (value < 0) to.byte('-');
    print_u64(to, magnitude(value));
}

DEVICE void print_bool(Writer& to, bool value) {
    // "True", "False".
    to.bytes8(value ? 0x65757254ull : 0x65736c6146ull, value ? 4 : 5);
}
