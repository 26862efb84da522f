// Floats to decimal and back, exactly.
//
// Both ways need one thing: the integral part of n * 2^a * 10^b, and whether anything is left. It
// is computed with whole numbers of up to 28 words rather than from tables of powers. That is slow,
// so the common cases, numbers of up to 15 digits, go without it.
#pragma once
#include "abi.cuh"
#include "writer.cuh"

// Instead of an error: only the host computes this. Powers of floats, of which no two libraries
// agree to the last bit; NaN made by arithmetic, whose sign depends on the processor and decides
// comparisons; a text of more than 19 digits which lies so near the middle between two floats that
// the others decide.
#define ARITHMETIC_HOST 255

#define INFINITY_BITS 0x7ff0000000000000ull
#define NAN_BITS 0x7ff8000000000000ull
#define SIGN_BIT (1ull << 63)
// The bits of a float's fraction; the one before them is not stored.
#define FRACTION_BITS 52

DEVICE u64 bits_of_float(double value) { return static_cast<u64>(__double_as_longlong(value)); }
DEVICE double float_of_bits(u64 bits) { return __longlong_as_double(static_cast<i64>(bits)); }

DEVICE u32 bit_length(u64 number) {
    return 64 - static_cast<u32>(__clzll(static_cast<i64>(number)));
}

// The most there can be: the least float's 55 bits times 5^341.
#define BIG_WORDS 28

// A whole number, the lowest word first.
struct Big {
    u32 words[BIG_WORDS];
};

DEVICE void set_big(Big& big, u64 number) {
#pragma unroll 1
    for (u32 i = 0; i < BIG_WORDS; i += 1) big.words[i] = 0;
    big.words[0] = static_cast<u32>(number);
    big.words[1] = static_cast<u32>(number >> 32);
}

DEVICE void multiply_by_power_of_five(Big& big, u32 exponent) {
    while (exponent > 0) {
        // 5^13 is the greatest power in a word.
        u32 step = smaller(13u, exponent);
        u64 factor = 1;
        for (u32 i = 0; i < step; i += 1) factor *= 5;
        u64 carry = 0;
#pragma unroll 1
        for (u32 i = 0; i < BIG_WORDS; i += 1) {
            carry += big.words[i] * factor;
            big.words[i] = static_cast<u32>(carry);
            carry >>= 32;
        }
        exponent -= step;
    }
}

DEVICE u32 big_bit_length(const Big& big) {
    u32 used = BIG_WORDS;
    while (used > 0 && big.words[used - 1] == 0) used -= 1;
    return used == 0 ? 0 : 32 * (used - 1) + bit_length(big.words[used - 1]);
}

DEVICE void shift_left(Big& big, u32 bits) {
    u32 whole = bits / 32, rest = bits % 32;
#pragma unroll 1
    for (u32 i = BIG_WORDS; i > 0; i -= 1) {
        u32 at = i - 1;
        u64 upper = at >= whole ? big.words[at - whole] : 0;
        u64 lower = at >= whole + 1 ? big.words[at - whole - 1] : 0;
        big.words[at] = static_cast<u32>((upper << 32 | lower) << rest >> 32);
    }
}

// The 64 bits from a place on.
DEVICE u64 bits_from(const Big& big, u32 place) {
    u32 at = place / 32, rest = place % 32;
    u64 low = at < BIG_WORDS ? big.words[at] : 0;
    u64 middle = at + 1 < BIG_WORDS ? big.words[at + 1] : 0;
    u64 high = at + 2 < BIG_WORDS ? big.words[at + 2] : 0;
    return (middle << 32 | low) >> rest | high << 32 << (32 - rest);
}

DEVICE bool any_bit_below(const Big& big, u32 place) {
    u32 found = 0;
#pragma unroll 1
    for (u32 i = 0; i < BIG_WORDS && 32 * i < place; i += 1) {
        u32 bits = place - 32 * i;
        found |= bits >= 32 ? big.words[i] : big.words[i] & ((1u << bits) - 1);
    }
    return found != 0;
}

// Doubles and adds a bit, then takes `divisor` away if it fits: a step of long division.
DEVICE bool divide_step(Big& rest, const Big& divisor, u32 bit) {
    u64 borrow = 0;
#pragma unroll 1
    for (u32 i = 0; i < BIG_WORDS; i += 1) {
        u32 word = rest.words[i];
        rest.words[i] = word << 1 | bit;
        bit = word >> 31;
        borrow = (static_cast<u64>(rest.words[i]) - divisor.words[i] - borrow) >> 63;
    }
    if (borrow != 0) return false;
#pragma unroll 1
    for (u32 i = 0; i < BIG_WORDS; i += 1) {
        u64 difference = static_cast<u64>(rest.words[i]) - divisor.words[i] - borrow;
        rest.words[i] = static_cast<u32>(difference);
        borrow = difference >> 63;
    }
    return true;
}

// floor(n * 2^two * 10^ten), and whether nothing was cut off.
struct Scaled {
    u64 floor;
    bool exact;
};

// The result must be below 2^64, and if `ten` is negative, `two + ten` must not be.
DEVICE_CALL Scaled scaled(u64 number, i32 two, i32 ten) {
    // 10^ten = 5^ten * 2^ten.
    i32 shift = two + ten;
    Big big;
    if (ten >= 0) {
        set_big(big, number);
        multiply_by_power_of_five(big, static_cast<u32>(ten));
        if (shift >= 0) return {bits_from(big, 0) << shift, true};
        return {bits_from(big, static_cast<u32>(-shift)),
                !any_bit_below(big, static_cast<u32>(-shift))};
    }
    Big divisor;
    set_big(divisor, 1);
    multiply_by_power_of_five(divisor, static_cast<u32>(-ten));
    // Long division of number * 2^shift, begun with as many of its upper bits as are less than the
    // divisor.
    u32 divisor_bits = big_bit_length(divisor), number_bits = bit_length(number);
    u32 later = number_bits < divisor_bits ? 0 : number_bits - divisor_bits + 1;
    u32 zeros = static_cast<u32>(shift);
    set_big(big, number >> later);
    if (later == 0) {
        u32 at_once = smaller(zeros, divisor_bits - 1 - number_bits);
        shift_left(big, at_once);
        zeros -= at_once;
    }
    u64 quotient = 0;
    while (later > 0) {
        later -= 1;
        quotient = quotient << 1 | (divide_step(big, divisor, number >> later & 1) ? 1 : 0);
    }
    while (zeros > 0) {
        zeros -= 1;
        quotient = quotient << 1 | (divide_step(big, divisor, 0) ? 1 : 0);
    }
    return {quotient, big_bit_length(big) == 0};
}

// floor(number * log10(2)) and floor(number * log2(10)), for the exponents that floats have.
DEVICE i32 digits_of_bits(i32 number) {
    return static_cast<i32>(static_cast<i64>(number) * 1292913986 >> 32);
}
DEVICE i32 bits_of_digits(i32 number) {
    return static_cast<i32>(static_cast<i64>(number) * 14267572527ll >> 32);
}

// digits / 10^places; without places, digits * 10^-places.
struct Decimal {
    u64 digits;
    i32 places;
};

// The shortest decimal that reads back as a float, and of those the nearest to it. The float is
// positive and finite.
//
// The steps are those of Ryu (Adams, Ryu: fast float-to-string conversion, PLDI 2018, section 2),
// with exact numbers in place of its tables.
DEVICE_CALL Decimal shortest_decimal(double value) {
    // Nearly always a few places suffice: the decimal found reads back, and of two decimals of up
    // to 15 digits only one does.
    double power = 1;
    for (i32 places = 0; places <= 22 && value * power < 1e15; places += 1) {
        u64 digits = static_cast<u64>(value * power + 0.5);
        if (static_cast<double>(digits) / power == value && digits < 1000000000000000ull)
            return {digits, places};
        power *= 10;
    }
    u64 bits = bits_of_float(value);
    i32 exponent = static_cast<i32>(bits >> FRACTION_BITS);
    u64 fraction = bits & ((1ull << FRACTION_BITS) - 1);
    u64 mantissa = exponent == 0 ? fraction : fraction | 1ull << FRACTION_BITS;
    // The value is 4 * mantissa * 2^two. What lies between the middles to its neighbors reads back
    // as it, the middles too where rounding to even takes them. Below a power of two the neighbor
    // is half as far.
    i32 two = larger(exponent, 1) - 1075 - 2;
    u64 below = 4 * mantissa - (fraction == 0 && exponent > 1 ? 1 : 2);
    bool middles_too = (mantissa & 1) == 0;
    // So many places that 18 or 19 digits are before the point, one more at least than a float can
    // need.
    i32 places = 17 - digits_of_bits(static_cast<i32>(bit_length(4 * mantissa + 2)) - 1 + two);
    Scaled low = scaled(below, two, places);
    Scaled middle = scaled(4 * mantissa, two, places);
    Scaled high = scaled(4 * mantissa + 2, two, places);
    u64 lowest = low.floor, digits = middle.floor, highest = high.floor;
    bool lowest_too = low.exact && middles_too;
    if (high.exact && !middles_too) highest -= 1;
    // Takes digits off as long as a shorter number is in between.
    u32 removed = 0;
    while (highest / 10 > lowest / 10 || (lowest_too && lowest % 10 == 0)) {
        lowest_too = lowest_too && lowest % 10 == 0;
        removed = static_cast<u32>(digits % 10);
        lowest /= 10;
        highest /= 10;
        digits /= 10;
        places -= 1;
    }
    bool up = removed >= 5 || (digits == lowest && !lowest_too);
    return {digits + (up ? 1 : 0), places};
}

// A float read from text: its bits, and 0, ERROR_NOT_A_NUMBER or ARITHMETIC_HOST.
struct ReadFloat {
    u64 bits;
    u8 error;
};

// The bits of the float nearest to number * 10^ten, or to what is a little above it; of two, the
// even one. `number` is not 0 and has at most 20 digits, the product is within 10^-326 .. 10^311.
DEVICE u64 nearest_float(u64 number, i32 ten, bool above) {
    // Scaled to 63 or 64 bits.
    i32 two = 63 - static_cast<i32>(bit_length(number)) - bits_of_digits(ten);
    Scaled parts = scaled(number, two, ten);
    bool exact = parts.exact && !above;
    i32 top = static_cast<i32>(bit_length(parts.floor)) - 1;
    i32 exponent = top - two;
    if (exponent > 1023) return INFINITY_BITS;
    // How many of its bits the float has no room for; the smallest ones have less room.
    i32 dropped = top - FRACTION_BITS + larger(-1022 - exponent, 0);
    if (dropped > 64) return 0;
    u64 mantissa = dropped == 64 ? 0 : parts.floor >> dropped;
    u64 half = 1ull << (dropped - 1);
    u64 rest = parts.floor & (half - 1 + half);
    if (rest > half || (rest == half && (!exact || (mantissa & 1) != 0))) mantissa += 1;
    // The mantissa's upper bit raises the exponent by one, as does a carry.
    return mantissa + (static_cast<u64>(larger(exponent + 1022, 0)) << FRACTION_BITS);
}

// A text's bytes one after the other.
struct Scanner {
    const u8* text;
    u32 length;
    u32 at;

    // The next byte; at the end 0, which no number contains.
    DEVICE_METHOD u8 peek() const { return at < length ? text[at] : 0; }
    DEVICE_METHOD bool is_digit() const { return peek() >= '0' && peek() <= '9'; }
    DEVICE_METHOD bool at_end() const { return at == length; }

    // Passes a sign, if there is one; whether it is '-'.
    DEVICE_METHOD bool sign() {
        u8 byte = peek();
        if (byte == '+' || byte == '-') at += 1;
        return byte == '-';
    }
};

// The bits of "inf", "infinity" or "nan", in any case; 0 for all else.
DEVICE u64 read_float_word(const u8* text, u32 length) {
    if (length != 3 && length != 8) return 0;
    // Only letters differ in this bit from letters.
    u64 lower = load8(text, length) | (BYTES_ONE * 0x20 & low_bytes(length));
    if (lower == 0x666e69ull || lower == 0x7974696e69666e69ull) return INFINITY_BITS;
    return lower == 0x6e616eull ? NAN_BITS : 0;
}

DEVICE_CALL ReadFloat read_float(const u8* text, u32 length) {
    Scanner scan = {text, length, 0};
    u64 sign = scan.sign() ? SIGN_BIT : 0;
    u64 word = read_float_word(text + scan.at, length - scan.at);
    if (word != 0) return {word | sign, 0};
    // Up to 19 digits from the first that is not 0; whether any of the others is not 0; and what
    // power of ten they are to be taken by.
    u64 number = 0;
    u32 digits = 0;
    bool above = false, any = false, after_point = false;
    i64 ten = 0;
    for (;; scan.at += 1) {
        if (scan.is_digit()) {
            u32 digit = scan.peek() - '0';
            any = true;
            if (digits < 19) {
                number = 10 * number + digit;
                digits += number != 0 ? 1 : 0;
                ten -= after_point ? 1 : 0;
            } else {
                above = above || digit != 0;
                ten += after_point ? 0 : 1;
            }
        } else if (scan.peek() == '.' && !after_point) {
            after_point = true;
        } else {
            break;
        }
    }
    if (!any) return {0, ERROR_NOT_A_NUMBER};
    if ((scan.peek() | 0x20) == 'e') {
        scan.at += 1;
        bool negative = scan.sign();
        if (!scan.is_digit()) return {0, ERROR_NOT_A_NUMBER};
        i64 exponent = 0;
        for (; scan.is_digit(); scan.at += 1) {
            // Further digits are passed over, as Rust does.
            if (exponent < 0x10000) exponent = 10 * exponent + (scan.peek() - '0');
        }
        ten += negative ? -exponent : exponent;
    }
    if (!scan.at_end()) return {0, ERROR_NOT_A_NUMBER};
    // Less than half of the least float, or more than the greatest.
    if (number == 0 || ten + digits <= -324) return {sign, 0};
    if (ten + digits > 310) return {INFINITY_BITS | sign, 0};
    i32 power = static_cast<i32>(ten);
    if (!above && number <= 1ull << 53 && power >= -22 && power <= 22) {
        // Both are floats without rounding, so one operation rounds once (Clinger, How to read
        // floating point numbers accurately, PLDI 1990).
        double factor = 1;
        for (i32 i = larger(power, -power); i > 0; i -= 1) factor *= 10;
        double value = static_cast<double>(number);
        return {bits_of_float(power < 0 ? value / factor : value * factor) | sign, 0};
    }
    u64 bits = nearest_float(number, power, above);
    // Where the digits left out decide between two floats, the host reads them.
    if (above && bits != nearest_float(number + 1, power, false)) return {0, ARITHMETIC_HOST};
    return {bits | sign, 0};
}

// What the `float` filter reads: what Rust's `f64::from_str` does.
DEVICE u8 text_to_float(const u8* text, u32 length, double* result) {
    ReadFloat read = read_float(text, length);
    *result = float_of_bits(read.bits);
    return read.error;
}

// Eight decimal digits of a number below 10^8 as a word, the first lowest, each 0 to 9. The number
// is split in halves, each half again, all of one size at once; the multiplications divide by 100
// and by 10.
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
    // Numbers of rows and turns, most of them.
    if (number < 100) {
        u32 low = static_cast<u32>(number), tens = low * 103 >> 10;
        u32 digits = tens | (low - tens * 10) << 8 | '0' | '0' << 8;
        return to.bytes8(tens == 0 ? digits >> 8 : digits, tens == 0 ? 1 : 2);
    }
    // Groups of eight digits, the highest without its leading zeros. Most numbers are of one, and
    // need no division.
    u32 groups = 1, top = 0, middle = 0, low = static_cast<u32>(number);
    if (number >= 100000000) {
        u64 upper = number / 100000000;
        groups = upper < 100000000 ? 2 : 3;
        top = static_cast<u32>(upper / 100000000);
        middle = static_cast<u32>(upper - static_cast<u64>(top) * 100000000);
        low = static_cast<u32>(number - upper * 100000000);
    }
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

// Appends '0' so many times.
DEVICE void print_zeros(Writer& to, u32 count) {
    for (; count >= 8; count -= 8) to.bytes8(BYTES_ONE * '0', 8);
    if (count > 0) to.bytes8(BYTES_ONE * '0' & low_bytes(count), count);
}

// Appends a float in positional notation, always with a point, its digits the fewest that read back
// as it.
DEVICE void print_float(Writer& to, double value) {
    u64 bits = bits_of_float(value) & ~SIGN_BIT;
    if (bits > INFINITY_BITS) {
        // "NaN".
        to.bytes8(0x4e614eull, 3);
        return;
    }
    if (bits != bits_of_float(value)) to.byte('-');
    if (bits == INFINITY_BITS) {
        // "inf".
        to.bytes8(0x666e69ull, 3);
        return;
    }
    Decimal decimal = {0, 0};
    if (bits != 0) decimal = shortest_decimal(float_of_bits(bits));
    if (decimal.places <= 0) {
        print_u64(to, decimal.digits);
        print_zeros(to, static_cast<u32>(-decimal.places));
        // ".0".
        to.bytes8(0x302eull, 2);
        return;
    }
    // All digits are after the point, unless there are fewer places than a number of 64 bits has
    // digits.
    u64 unit = 1;
    u32 places = static_cast<u32>(decimal.places);
    u64 whole = 0;
    if (places < 19) {
        for (u32 i = 0; i < places; i += 1) unit *= 10;
        whole = decimal.digits / unit;
    }
    u64 fraction = decimal.digits - whole * unit;
    u32 digits = 0;
    for (u64 rest = fraction; rest > 0; rest /= 10) digits += 1;
    print_u64(to, whole);
    to.byte('.');
    print_zeros(to, places - digits);
    print_u64(to, fraction);
}
