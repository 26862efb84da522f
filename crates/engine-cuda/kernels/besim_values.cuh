// The values of BeSim's queries and answers: numbers that look random, texts, dates, amounts (the
// host's mix, date, money).
#pragma once
#include "number.cuh"
#include "writer.cuh"

#define ASCII_ZEROS (BYTES_ONE * '0')

// What numbers are for.
enum Purpose : u32 {
    PURPOSE_COUNTS = 1,
    PURPOSE_ACCOUNTS,
    PURPOSE_BILLS,
    PURPOSE_PAYMENTS,
    PURPOSE_CHECK,
    PURPOSE_PROFILE,
    PURPOSE_CONFIRMATION,
};

DEVICE u64 mix64(u64 z) {
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ z >> 27) * 0x94d049bb133111ebull;
    return z ^ z >> 31;
}

DEVICE u32 mix32(u32 x) {
    x = (x ^ x >> 16) * 0x7feb352du;
    x = (x ^ x >> 15) * 0x846ca68bu;
    return x ^ x >> 16;
}

// A sequence of numbers (SplitMix64).
struct Stream {
    u64 state;

    DEVICE_METHOD Stream(Purpose purpose, u32 user, u32 item)
        : state(mix64(static_cast<u64>(user) << 32 | item) + purpose) {}

    DEVICE_METHOD u64 bits() {
        state += 0x9e3779b97f4a7c15ull;
        return mix64(state);
    }

    // The next two numbers: below `first` and below `second`.
    DEVICE_METHOD uint2 below(u32 first, u32 second) {
        u64 drawn = bits();
        u32 low = static_cast<u32>(static_cast<u64>(static_cast<u32>(drawn)) * first >> 32);
        u32 high = static_cast<u32>((drawn >> 32) * second >> 32);
        return make_uint2(low, high);
    }
};

// A part of a query.
struct Text {
    const u8* from;
    u32 length;

    // The eight bytes from `at` on, or as many as there are.
    DEVICE_METHOD u64 load(u32 at) const { return load8(from + at, smaller(8u, length - at)); }
};

// What is long and used in many places is called, so that there is one copy of it: texts and
// writers come and go by value, to stay in registers.

// How long the text before the next `&` is.
DEVICE_CALL u32 part_length(Text query) {
    Text part = {query.from, 0};
    while (part.length < query.length) {
        u64 found = equal_bytes(query.load(part.length), '&');
        if (found != 0) {
            part.length += first_byte(found);
            break;
        }
        part.length = smaller(part.length + 8, query.length);
    }
    return part.length;
}

// Takes the text before the next `&` off the query. After the last one an empty text is left.
DEVICE Text take_part(Text& query) {
    Text part = {query.from, part_length(query)};
    u32 used = smaller(part.length + 1, query.length);
    query.from += used;
    query.length -= used;
    return part;
}

DEVICE u32 count_ampersands(const Text& query) {
    u32 count = 0;
    for (u32 at = 0; at < query.length; at += 8)
        count += __popcll(equal_bytes(query.load(at), '&'));
    return count;
}

// 10 to the power of 0 to 8.
DEVICE u32 power_of_ten(u32 power) {
    u32 result = power & 1 ? 10 : 1;
    result *= power & 2 ? 100 : 1;
    result *= power & 4 ? 10000 : 1;
    return power == 8 ? 100000000 : result;
}

// The number that the first `count` (1 to 8) bytes are, which are digits.
DEVICE u32 number_of_digits(u64 bytes, u32 count) {
    // To the end of the word, zeros before; then pairs, fours and all eight of them become one
    // number.
    u64 digits = (bytes & BYTES_ONE * 15) << (8 * (8 - count));
    digits = (digits * 10 + (digits >> 8)) & 0x00ff00ff00ff00ffull;
    digits = (digits * 100 + (digits >> 16)) & 0x0000ffff0000ffffull;
    return static_cast<u32>(digits * 10000 + (digits >> 32));
}

// Appends the digits that `text` begins with to `number`, at most `most` of them; how many there
// were. A number of 18 digits fits.
DEVICE u32 read_digits(const Text& text, u32 most, u64& number) {
    u32 count = 0;
#pragma unroll 1
    while (count < text.length) {
        u64 bytes = text.load(count);
        // Not beyond what there is: the bytes there are 0, which is no digit.
        u64 others = ~bytes_within(bytes, '0', '9') & BYTES_HIGH;
        u32 here = smaller(others != 0 ? first_byte(others) : 8, most - count);
        if (here == 0) break;
        number = number * power_of_ten(here) + number_of_digits(bytes, here);
        count += here;
        if (here < 8) break;
    }
    return count;
}

// What a text stands for, if it is sound.
struct Parsed {
    u64 value;
    bool sound;
};

DEVICE_CALL Parsed number_of(Text text) {
    if (text.length - 1 >= 18) return {0, false};
    u64 number = 0;
#pragma unroll 1
    for (u32 at = 0; at < text.length; at += 8) {
        u32 count = smaller(8u, text.length - at);
        u64 bytes = text.load(at);
        if (((bytes_within(bytes, '0', '9') ^ BYTES_HIGH) & low_bytes(count)) != 0)
            return {0, false};
        number = number * power_of_ten(count) + number_of_digits(bytes, count);
    }
    return {number, true};
}

// The number that 1 to 18 digits stand for.
DEVICE bool parse_number(const Text& text, u64& number) {
    Parsed parsed = number_of(text);
    number = parsed.value;
    return parsed.sound;
}

DEVICE_CALL Parsed amount_of(Text text) {
    u64 value = 0;
    u32 whole = read_digits(text, 13, value);
    if (whole == 0 || whole > 12) return {0, false};
    u32 rest = text.length - whole;
    if (rest == 0) return {value * 100, true};
    if (rest > 3) return {0, false};
    u32 bytes = static_cast<u32>(load8(text.from + whole, rest));
    u32 tenths = (bytes >> 8 & 0xff) - '0';
    u32 hundredths = rest == 3 ? (bytes >> 16) - '0' : 0;
    // Of a point alone what follows it is 0, which is no digit.
    if ((bytes & 0xff) != '.' || tenths > 9 || hundredths > 9) return {0, false};
    return {value * 100 + tenths * 10 + hundredths, true};
}

// `digits`, `digits.d` or `digits.dd`, at most 12 digits before the point.
DEVICE bool parse_amount(const Text& text, i64& cents) {
    Parsed parsed = amount_of(text);
    cents = static_cast<i64>(parsed.value);
    return parsed.sound;
}

// Days are counted from 1970-01-01; formulas on years that begin in March, see the host's date.
#define MARCH_TO_EPOCH 719468u
#define DAYS_OF_ERA 146097u

// Year, month and day as one number of eight digits.
DEVICE u32 civil_of(u32 days) {
    u32 z = days + MARCH_TO_EPOCH;
    u32 era = z / DAYS_OF_ERA;
    u32 day_of_era = z - era * DAYS_OF_ERA;
    u32 year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
    u32 day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    u32 month_from_march = (5 * day_of_year + 2) / 153;
    u32 day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    u32 month = month_from_march < 10 ? month_from_march + 3 : month_from_march - 9;
    u32 year = year_of_era + era * 400 + (month <= 2 ? 1 : 0);
    return year * 10000 + month * 100 + day;
}

DEVICE_CALL Parsed day_of(Text text) {
    if (text.length != 10) return {0, false};
    u64 first = load8(text.from, 8);
    u64 last = load8(text.from + 8, 2);
    if ((first >> 32 & 0xff) != '-' || first >> 56 != '-') return {0, false};
    // Without the dashes: eight digits.
    u64 digits = (first & 0xffffffff) | (first >> 40 & 0xffff) << 32 | last << 48;
    if (bytes_within(digits, '0', '9') != BYTES_HIGH) return {0, false};
    u32 number = 0;
    for (u32 i = 0; i < 8; ++i) number = number * 10 + (static_cast<u32>(digits >> 8 * i) & 15);
    u32 year = number / 10000, month = number / 100 % 100, day = number % 100;
    if (year < 1970 || month - 1 >= 12 || day - 1 >= 31) return {0, false};
    u32 march_year = month <= 2 ? year - 1 : year;
    u32 era = march_year / 400;
    u32 year_of_era = march_year - era * 400;
    u32 month_from_march = month > 2 ? month - 3 : month + 9;
    u32 day_of_year = (153 * month_from_march + 2) / 5 + day - 1;
    u32 day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    u32 days = era * DAYS_OF_ERA + day_of_era - MARCH_TO_EPOCH;
    // A day that the month does not have comes back as one of the next month.
    return {days, civil_of(days) == number};
}

// The day that `YYYY-MM-DD` names, if it exists and is not before 1970.
DEVICE bool parse_date(const Text& text, u32& days) {
    Parsed parsed = day_of(text);
    days = static_cast<u32>(parsed.value);
    return parsed.sound;
}

DEVICE_CALL Writer with_date(Writer to, u32 days) {
    u64 digits = eight_digits(civil_of(days)) | ASCII_ZEROS;
    u64 dash = '-';
    to.bytes8((digits & 0xffffffff) | dash << 32 | (digits >> 32 & 0xffff) << 40 | dash << 56, 8);
    to.bytes8(digits >> 48, 2);
    return to;
}

// "YYYY-MM-DD".
DEVICE void write_date(Writer& to, u32 days) { to.resume(with_date(to, days)); }

DEVICE_CALL Writer with_amount(Writer to, u32 cents, u8 after) {
    u64 whole = eight_digits(cents / 100);
    // The last digit stays, be it zero.
    u32 zeros = first_byte(whole | 1ull << 56);
    to.bytes8((whole | ASCII_ZEROS) >> 8 * zeros, 8 - zeros);
    u32 part = cents % 100;
    to.bytes8(
        '.' | ('0' + part / 10) << 8 | ('0' + part % 10) << 16 | static_cast<u32>(after) << 24, 4);
    return to;
}

// An amount, then the byte that follows it.
DEVICE void write_amount(Writer& to, u32 cents, u8 after) {
    to.resume(with_amount(to, cents, after));
}

// Text of the source, whose bytes are constants after unrolling.
template <u32 SIZE> DEVICE void write_literal(Writer& to, const char (&text)[SIZE]) {
#pragma unroll
    for (u32 at = 0; at + 1 < SIZE; at += 8) {
        u64 bytes = 0;
        u32 count = smaller(8u, SIZE - 1 - at);
#pragma unroll
        for (u32 i = 0; i < 8; ++i) {
            if (i < count) bytes |= static_cast<u64>(static_cast<u8>(text[at + i])) << 8 * i;
        }
        to.bytes8(bytes, count);
    }
}
