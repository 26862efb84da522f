// The functions on single values, a thread each: what tests/values/ drives.
#include "case.cuh"
#include "md5.cuh"
#include "number.cuh"
#include "search.cuh"

// The order is that of `Function` in tests/values/batch.rs.
enum Function : u32 {
    TEXTS,
    COMPARE,
    CONTAINS,
    STARTS_WITH,
    ENDS_WITH,
    CHARACTERS,
    IS_UTF8,
    TRIM,
    FIRST,
    LAST,
    ESCAPE_HTML,
    ESCAPE_PERCENT,
    ESCAPE_HEADER,
    ESCAPE_JSON,
    URL_ENCODE,
    REPLACE,
    REPLACED_LENGTH,
    UPPER,
    LOWER,
    TITLE,
    CAPITALIZE,
    MD5,
    PRINT_INT,
    PRINT_FLOAT,
    PRINT_BOOL,
    TEXT_TO_INT,
    TEXT_TO_FLOAT,
    FLOAT_TO_INT,
    INT_ARITHMETIC,
    FLOAT_ARITHMETIC,
    INTS_HOLD,
    FLOATS_HOLD,
    FLOAT_NEGATE,
    FLOAT_ABSOLUTE,
};

// A function and its operands: three texts and two numbers (floats as their bits).
struct Item {
    u32 function;
    // An operator or comparison; of functions that write, how many bytes stand before the text.
    u32 operation;
    u32 offsets[3];
    u32 lengths[3];
    // Where its text is written, and how much room there is.
    u32 out;
    u32 capacity;
    u64 a;
    u64 b;
};

struct Answer {
    u64 value;
    u32 length;
    u32 code;
};

struct Values {
    const u8* texts;
    const Item* items;
    u8* out;
    Answer* answers;
    const u8* case_tables;
    u32 count;
    u32 unused;
};

DEVICE u64 range_value(TextRange range) {
    return range.start | static_cast<u64>(range.length) << 32;
}

KERNEL(values, Values, 128) {
    u32 thread = global_thread();
    if (thread >= args.count) return;
    const Item& item = args.items[thread];
    const u8* text = args.texts + item.offsets[0];
    u32 length = item.lengths[0];
    const u8* second = args.texts + item.offsets[1];
    u32 second_length = item.lengths[1];
    const u8* third = args.texts + item.offsets[2];
    u32 third_length = item.lengths[2];
    i64 a = static_cast<i64>(item.a), b = static_cast<i64>(item.b), whole = 0;
    double x = float_of_bits(item.a), y = float_of_bits(item.b), real = 0;
    u8 operation = static_cast<u8>(item.operation);
    Writer to(args.out + item.out, item.capacity);
    Answer answer = {0, 0, 0};
    if (item.capacity > 0) {
        for (u32 i = 0; i < item.operation; i += 1) to.byte('.');
    }
    switch (item.function) {
        case TEXTS:
            to.text(text, length);
            to.byte('|');
            to.text(second, second_length);
            to.text(third, third_length);
            break;
        case COMPARE:
            answer.value = static_cast<u64>(compare_texts(text, length, second, second_length) + 1);
            break;
        case CONTAINS: answer.value = text_contains(text, length, second, second_length); break;
        case STARTS_WITH:
            answer.value = text_starts_with(text, length, second, second_length);
            break;
        case ENDS_WITH: answer.value = text_ends_with(text, length, second, second_length); break;
        case CHARACTERS: answer.value = text_characters(text, length); break;
        case IS_UTF8: answer.value = is_utf8(text, length); break;
        case TRIM: answer.value = range_value(trim_range(text, length)); break;
        case FIRST: answer.value = range_value(first_range(text, length)); break;
        case LAST: answer.value = range_value(last_range(text, length)); break;
        case ESCAPE_HTML: escape_html(to, text, length); break;
        case ESCAPE_PERCENT: escape_percent(to, text, length); break;
        case ESCAPE_HEADER: escape_header(to, text, length); break;
        case ESCAPE_JSON: escape_json(to, text, length); break;
        case URL_ENCODE: url_encode(to, text, length); break;
        case REPLACE: replace(to, text, length, second, second_length, third, third_length); break;
        case REPLACED_LENGTH:
            answer.value = replaced_length(text, length, second, second_length, third_length);
            break;
        case UPPER: upper(to, args.case_tables, text, length); break;
        case LOWER: lower(to, args.case_tables, text, length); break;
        case TITLE: title(to, args.case_tables, text, length); break;
        case CAPITALIZE: capitalize(to, args.case_tables, text, length); break;
        case MD5: md5_hex(to, text, length); break;
        case PRINT_INT: print_int(to, a); break;
        case PRINT_FLOAT: print_float(to, x); break;
        case PRINT_BOOL: print_bool(to, a != 0); break;
        case TEXT_TO_INT: answer.code = text_to_int(text, length, &whole); break;
        case TEXT_TO_FLOAT: answer.code = text_to_float(text, length, &real); break;
        case FLOAT_TO_INT: answer.code = float_to_int(x, &whole); break;
        case INT_ARITHMETIC: answer.code = int_arithmetic(operation, a, b, &whole); break;
        case FLOAT_ARITHMETIC: answer.code = float_arithmetic(operation, x, y, &real); break;
        case INTS_HOLD: answer.value = ints_hold(operation, a, b); break;
        case FLOATS_HOLD: answer.value = floats_hold(operation, x, y); break;
        case FLOAT_NEGATE: real = float_negate(x); break;
        case FLOAT_ABSOLUTE: real = float_absolute(x); break;
        default: answer.code = ERROR_DEVICE_FAILED; break;
    }
    if (whole != 0) answer.value = static_cast<u64>(whole);
    if (bits_of_float(real) != 0) answer.value = bits_of_float(real);
    to.finish();
    answer.length = to.length();
    args.answers[thread] = answer;
}
