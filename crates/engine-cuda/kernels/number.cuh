// Numbers of the page language: arithmetic, comparison, printing, as the engine's reference defines
// them.
//
// Functions that can fail return 0 or a LaneError, or ARITHMETIC_HOST.
#pragma once
#include "decimal.cuh"

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

DEVICE bool ints_hold(u8 comparison, i64 a, i64 b) {
    return ordering_holds(comparison, (a > b) - (a < b));
}

DEVICE u64 magnitude(i64 value) {
    return value < 0 ? 0 - static_cast<u64>(value) : static_cast<u64>(value);
}

DEVICE u8 multiply_ints(i64 a, i64 b, i64* result) {
    *result = static_cast<i64>(static_cast<u64>(a) * static_cast<u64>(b));
    // It fits if the upper half holds nothing but copies of its sign.
    return __mul64hi(a, b) == *result >> 63 ? 0 : ERROR_OVERFLOW;
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
    *result =
        operation == ARITHMETIC_REMAINDER ? remainder + (down ? b : 0) : quotient - (down ? 1 : 0);
    return 0;
}

DEVICE void print_int(Writer& to, i64 value) {
    if (value < 0) to.byte('-');
    print_u64(to, magnitude(value));
}

DEVICE void print_bool(Writer& to, bool value) {
    // "True", "False".
    to.bytes8(value ? 0x65757254ull : 0x65736c6146ull, value ? 4 : 5);
}

// Float arithmetic as IEEE 754 has it, but dividing by zero is an error.
DEVICE u8 float_arithmetic(u8 operation, double a, double b, double* result) {
    switch (operation) {
        case ARITHMETIC_ADD: *result = a + b; break;
        case ARITHMETIC_SUBTRACT: *result = a - b; break;
        case ARITHMETIC_MULTIPLY: *result = a * b; break;
        case ARITHMETIC_POWER: return a == 0 && b < 0 ? ERROR_DIVISION_BY_ZERO : ARITHMETIC_HOST;
        default: {
            if (b == 0) return ERROR_DIVISION_BY_ZERO;
            if (operation == ARITHMETIC_DIVIDE) {
                *result = a / b;
                break;
            }
            // Quotient toward negative infinity, and the remainder with the divisor's sign; zeros
            // signed as in Python.
            double remainder = fmod(a, b);
            double quotient = (a - remainder) / b;
            if (remainder == 0) {
                remainder = copysign(0.0, b);
            } else if ((remainder < 0) != (b < 0)) {
                remainder += b;
                quotient -= 1;
            }
            if (quotient == 0) {
                quotient = copysign(0.0, a / b);
            } else {
                // The division can end just off the integer it stands for.
                double below = floor(quotient);
                quotient = below + (quotient - below > 0.5 ? 1.0 : 0.0);
            }
            *result = operation == ARITHMETIC_REMAINDER ? remainder : quotient;
        }
    }
    return *result != *result ? ARITHMETIC_HOST : 0;
}

// By the sign bit alone, which arithmetic would not touch in NaN.
DEVICE double float_negate(double value) { return float_of_bits(bits_of_float(value) ^ SIGN_BIT); }
DEVICE double float_absolute(double value) {
    return float_of_bits(bits_of_float(value) & ~SIGN_BIT);
}

// Orders floats as IEEE 754's totalOrder does.
DEVICE i64 total_order_key(double value) {
    i64 bits = static_cast<i64>(bits_of_float(value));
    return bits ^ static_cast<i64>(static_cast<u64>(bits >> 63) >> 1);
}

// Equality as IEEE 754 has it, and a total order for the rest.
DEVICE bool floats_hold(u8 comparison, double a, double b) {
    if (comparison == COMPARISON_EQUAL) return a == b;
    if (comparison == COMPARISON_NOT_EQUAL) return a != b;
    return a == b ? ordering_holds(comparison, 0)
                  : ints_hold(comparison, total_order_key(a), total_order_key(b));
}

// A float toward zero as an integer.
DEVICE u8 float_to_int(double value, i64* result) {
    // 2^63 is the first float above the greatest integer.
    if (!(value >= -9223372036854775808.0 && value < 9223372036854775808.0)) return ERROR_OVERFLOW;
    *result = static_cast<i64>(value);
    return 0;
}

// What the `int` filter reads: an integer, or a float's integral part.
DEVICE u8 text_to_int(const u8* text, u32 length, i64* result) {
    Scanner scan = {text, length, 0};
    bool negative = scan.sign();
    bool any = scan.is_digit();
    u64 number = 0;
    bool fits = true;
    for (; scan.is_digit(); scan.at += 1) {
        u64 digit = scan.peek() - '0';
        fits = fits && number <= (I64_MIN_MAGNITUDE - digit) / 10;
        number = 10 * number + digit;
    }
    if (any && scan.at_end()) {
        if (!fits || number > I64_MIN_MAGNITUDE - (negative ? 0 : 1)) return ERROR_OVERFLOW;
        *result = static_cast<i64>(negative ? 0 - number : number);
        return 0;
    }
    double value;
    u8 error = text_to_float(text, length, &value);
    return error != 0 ? error : float_to_int(value, result);
}
