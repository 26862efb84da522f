// Values of parameters: checked as the host checks them, and put into a lane's columns and its part
// of the arena.
#pragma once
#include "abi.cuh"
#include "parse_tables.cuh"
#include "text.cuh"

// Where a lane's values go.
struct LaneTarget {
    const ParserTables* tables;
    const u64* columns;
    u8* arena;
    // The free rest of the lane's part of the arena, a multiple of 8 at both ends.
    u32 text_at;
    u32 text_end;
};

// A decimal integer within bounds, of at most 18 digits.
DEVICE bool read_int(const Request& request, u32 at, u32 end, i64& number) {
    bool negative = byte_of(load(request, at, end), 0) == '-';
    u64 digits;
    if (!read_number(request, at + negative, end, digits)) return false;
    number = negative ? -static_cast<i64>(digits) : static_cast<i64>(digits);
    return true;
}

// At most twelve digits, optionally a point and one or two digits.
DEVICE bool is_decimal(const Request& request, u32 at, u32 end) {
    u32 point = find(request, at, end, '.');
    u64 number;
    if (point - at > 12 || !read_number(request, at, point, number)) return false;
    return point == end || (end - point <= 3 && read_number(request, point + 1, end, number));
}

// `YYYY-MM-DD`, a day of the Gregorian calendar.
DEVICE bool is_date(const Request& request, u32 at, u32 end) {
    if (end - at != 10) return false;
    u64 bytes = load(request, at, end);
    u64 year, month, day;
    if (!read_digits(bytes, 4, year) || byte_of(bytes, 4) != '-' || byte_of(bytes, 7) != '-' ||
        !read_digits(bytes >> 40, 2, month) || !read_digits(load(request, at + 8, end), 2, day)) {
        return false;
    }
    u32 y = static_cast<u32>(year), m = static_cast<u32>(month), d = static_cast<u32>(day);
    bool leap = y % 4 == 0 && (y % 100 != 0 || y % 400 == 0);
    bool short_month = m == 4 || m == 6 || m == 9 || m == 11;
    u32 days = m == 2 ? 28 + leap : short_month ? 30 : 31;
    return m >= 1 && m <= 12 && d >= 1 && d <= days;
}

// The byte that two hexadecimal digits stand for; 0 where they are none, or stand for NUL.
DEVICE u8 read_escape(u64 digits) {
    u64 letters = bytes_within(digits | BYTES_ONE * 0x20, 'a', 'f');
    if (((letters | bytes_within(digits, '0', '9')) & 0x8080) != 0x8080) return 0;
    u64 values = (digits & BYTES_ONE * 0xf) + (letters >> 7) * 9;
    return static_cast<u8>((values & 0xff) << 4 | (values >> 8 & 0xff));
}

// Copies at .. end into the lane's part of the arena, percent-decoded and with `+` as a space where
// it is `encoded` so. False where it cannot be decoded, is not UTF-8 or too large.
DEVICE bool copy_text(LaneTarget& lane, const Request& request, u32 at, u32 end, bool encoded,
                      View& view, u32& characters) {
    u8* text = lane.arena + lane.text_at;
    Writer writer(text, lane.text_end - lane.text_at);
    u64 seen = 0;
    while (at < end) {
        u64 bytes = load(request, at, end);
        u64 special = zero_bytes(bytes);
        if (encoded) special |= equal_bytes(bytes, '%') | equal_bytes(bytes, '+');
        u32 plain = first_flag(special);
        if (plain > 0) {
            u64 some = bytes & low_bytes(plain);
            writer.bytes8(some, plain);
            seen |= some;
            at += plain;
        }
        if (at >= end || plain == 8) continue;
        u8 stop = byte_of(bytes, plain);
        if (stop == '+') {
            writer.byte(' ');
            at += 1;
        } else {
            // The digits must be there, and neither they nor this may be NUL.
            u8 byte = stop == '%' ? read_escape(load(request, at + 1, end)) : 0;
            if (byte == 0) return false;
            writer.byte(byte);
            seen |= byte;
            at += 3;
        }
    }
    writer.finish();
    if (writer.overflowed()) return false;
    view = View{lane.text_at, writer.length()};
    characters = view.length;
    if ((seen & BYTES_HIGH) != 0) {
        if (!is_utf8(text, view.length)) return false;
        characters = text_characters(text, view.length);
    }
    lane.text_at += (view.length + 7) & ~7u;
    return true;
}

// Whether a text is one of those allowed.
DEVICE bool is_option(const LaneTarget& lane, const ParamEntry& param, View view) {
    const ParserTables& tables = *lane.tables;
    for (u32 index = 0; index < param.option_count; index++) {
        TableText option = tables.options[param.option_start + index];
        if (option.length != view.length) continue;
        if (same_bytes(tables.texts + option.offset, lane.arena + view.offset, view.length))
            return true;
    }
    return param.option_count == 0;
}

// Checks the value at .. end and puts it into the parameter's column at `index`. Numbers and dates
// with escapes are the host's.
DEVICE bool store_value(LaneTarget& lane, const ParamEntry& param, u32 index,
                        const Request& request, u32 at, u32 end, bool encoded) {
    if (param.kind == PARAM_INT) {
        i64 number;
        if (!read_int(request, at, end, number) || number < param.least || number > param.greatest)
            return false;
        int_column(lane.columns, param.slot)[index] = number;
        return true;
    }
    if (param.kind == PARAM_DECIMAL && !is_decimal(request, at, end)) return false;
    if (param.kind == PARAM_DATE && !is_date(request, at, end)) return false;
    View view;
    u32 characters;
    if (!copy_text(lane, request, at, end, encoded, view, characters)) return false;
    if (param.kind == PARAM_TEXT) {
        if (characters < param.least || characters > param.greatest ||
            !is_option(lane, param, view))
            return false;
    }
    text_column(lane.columns, param.slot)[index] = view;
    return true;
}

// A pair's name, decoded: as much of it as fits.
struct Name {
    u64 first;
    u64 second;
    u64 third;
    u32 length;
};

// Appends `count` (1 to 8) bytes.
DEVICE void append(Name& name, u64 bytes, u32 count) {
    u32 fill = 8 * (name.length & 7);
    u64 low = bytes << fill;
    u64 high = bytes >> 1 >> (63 - fill);
    u32 word = name.length >> 3;
    if (word == 0) name.first |= low;
    if (word == 1) name.second |= low;
    if (word == 2) name.third |= low;
    if (word == 0) name.second |= high;
    if (word == 1) name.third |= high;
    name.length += count;
}

// Reads the name of the pair at .. end and goes on to its value; false where it cannot be decoded.
DEVICE bool read_name(const Request& request, u32& at, u32 end, Name& name) {
    name = Name{};
    while (at < end) {
        u64 bytes = load(request, at, end);
        u32 plain = first_flag(zero_bytes(bytes) | equal_bytes(bytes, '=') |
                               equal_bytes(bytes, '%') | equal_bytes(bytes, '+'));
        if (plain > 0) append(name, bytes & low_bytes(plain), plain);
        at += plain;
        if (at >= end || plain == 8) continue;
        u8 stop = byte_of(bytes, plain);
        if (stop == '=') {
            at += 1;
            break;
        }
        u8 byte = stop == '+' ? ' ' : stop == '%' ? read_escape(load(request, at + 1, end)) : 0;
        if (byte == 0) return false;
        append(name, byte, 1);
        at += stop == '+' ? 1 : 3;
    }
    return true;
}

// Eight bytes of a name from `at` on.
DEVICE u64 name_bytes(const Name& name, u32 at) {
    u32 word = at >> 3;
    u64 low = word == 0 ? name.first : word == 1 ? name.second : word == 2 ? name.third : 0;
    u64 high = word == 0 ? name.second : word == 1 ? name.third : 0;
    u32 skip = 8 * (at & 7);
    return low >> skip | high << 1 << (63 - skip);
}

DEVICE bool same_name(const Name& name, const ParamEntry& param) {
    return name.length == param.name_length && name.first == param.name[0] &&
           name.second == param.name[1] && name.third == param.name[2];
}

// The value of the first cookie of this name in the header at .. end, as the host finds it. False
// where there is none.
DEVICE bool find_cookie(const Request& request, u32 at, u32 end, const u64* name, u32 length,
                        u32& from, u32& to) {
    at = skip_spaces(request, at, end);
    while (at < end) {
        if (end - at > length && matches(request, at, name, length)) {
            u32 sign = skip_spaces(request, at + length, end);
            if (byte_of(load(request, sign, end), 0) == '=') {
                u32 value_end = find(request, sign + 1, end, ';');
                from = skip_spaces(request, sign + 1, value_end);
                to = trim_end(request, from, value_end);
                if (to - from >= 2 && byte_of(load(request, from, to), 0) == '"' &&
                    byte_of(load(request, to - 1, to), 0) == '"') {
                    from += 1;
                    to -= 1;
                }
                return true;
            }
        }
        at = skip_spaces(request, smaller(find(request, at, end, ';') + 1, end), end);
    }
    return false;
}

// A session's id: 8 lower-case hexadecimal digits for its slot, 32 for its secret.
DEVICE SessionKey read_session(const Request& request, u32 at, u32 end) {
    SessionKey key = {};
    if (end - at != 40) return key;
    u32 slot, words[4];
    bool sound = read_hex(load(request, at, end), slot);
    for (u32 word = 0; word < 4; word++) {
        sound = sound && read_hex(load(request, at + 8 * (word + 1), end), words[word]);
    }
    if (!sound) return key;
    key.slot = slot;
    key.present = 1;
    key.secret[1] = static_cast<u64>(words[0]) << 32 | words[1];
    key.secret[0] = static_cast<u64>(words[2]) << 32 | words[3];
    return key;
}
