// BeSim on the device (paper, section 5.3.2: Titan B has the backend on the GPU): a thread answers
// one query, byte for byte as `Bank::answer` of the crate rhythm-besim does. That function keeps
// nothing, so this is all of it but the words, which the host uploads.
//
// The names are the host's (bank, answer; besim_values.cuh: mix, date, money); what they mean is
// said there. Queries of a cohort are of one page and so of one command: a warp rarely diverges
// but in how many rows its users have.
#include "abi.cuh"
#include "besim_values.cuh"
#include "md5.cuh"

// A word as the host lays it out; for a city also its state and the first digits of its ZIP codes.
// 16-byte aligned.
struct Word {
    u64 text[3];
    u8 length;
    u8 state[2];
    u8 padding;
    u32 number;
};

// A table's place among the words.
struct Words {
    u32 first;
    u32 count;
};

struct BesimArgs {
    const Word* words;
    Words streets;
    Words cities;
    Words first_names;
    Words payees;
    Words memos;
    // Of the bank: users 1 to this one.
    u32 users;
    u32 lanes;
    // Queries of a lane: slots lane * stride to lane * stride + query_count.
    const LaneResult* results;
    const View* queries;
    View* answers;
    u8* arena;
    u32 query_stride;
    // Where the answers' region begins in the arena, and the bytes a slot has there; multiples of
    // 8.
    u32 answer_base;
    u32 answer_stride;
    u32 padding;
};

// 2026-01-15 in days since 1970-01-01.
#define TODAY 20468u
#define PAYMENT_DAYS 4u
#define MAX_ACCOUNTS 6u
#define MAX_BILLS 10u
#define MAX_PAYMENTS 24u
#define CHECK_IMAGES 10u

enum Refusal : u32 {
    ANSWERED,
    UNKNOWN_WORKLOAD,
    UNKNOWN_COMMAND,
    WRONG_COUNT,
    NO_USER,
    NO_CHECK,
    NO_PAYEE,
    NO_ACCOUNT,
    BAD_DATE,
    BAD_AMOUNT,
    BAD_CHECKS,
    EMPTY_ARGUMENT,
    MALFORMED_ARGUMENT,
    TRANSFER_REFUSED,
};

// The number of a user's account, ten digits.
DEVICE u64 account_number(u32 user, u32 index) { return 1000000000ull + mix32(user << 3 | index); }

DEVICE void write_account_number(Writer& to, u64 number) {
    u32 high = static_cast<u32>(number / 100000000);
    to.bytes8(('0' + high / 10) | ('0' + high % 10) << 8, 2);
    to.bytes8(eight_digits(static_cast<u32>(number % 100000000)) | ASCII_ZEROS, 8);
}

// How many accounts a user has, and how many bills.
DEVICE uint2 counts_of(u32 user) {
    uint2 drawn = Stream(PURPOSE_COUNTS, user, 0).below(MAX_ACCOUNTS, MAX_BILLS - 1);
    return make_uint2(1 + drawn.x, 2 + drawn.y);
}

DEVICE void write_word(Writer& to, const Word& word) {
    u32 left = word.length;
    for (u32 i = 0; i < 3 && left > 0; ++i) {
        u32 count = smaller(8u, left);
        to.bytes8(word.text[i], count);
        left -= count;
    }
}

DEVICE void begin_rows(Writer& to) { write_literal(to, "<pre>\n0\n"); }

DEVICE_CALL Writer refuse(Writer to, u32 refusal) {
    write_literal(to, "<pre>\n1\n");
    switch (refusal) {
        case UNKNOWN_WORKLOAD: write_literal(to, "unknown workload\n"); break;
        case UNKNOWN_COMMAND: write_literal(to, "unknown command\n"); break;
        case WRONG_COUNT: write_literal(to, "wrong number of arguments\n"); break;
        case NO_USER: write_literal(to, "no such user\n"); break;
        case NO_CHECK: write_literal(to, "no such check\n"); break;
        case NO_PAYEE: write_literal(to, "no such payee\n"); break;
        case NO_ACCOUNT: write_literal(to, "no such account\n"); break;
        case BAD_DATE: write_literal(to, "bad date\n"); break;
        case BAD_AMOUNT: write_literal(to, "bad amount\n"); break;
        case BAD_CHECKS: write_literal(to, "bad number of checks\n"); break;
        case EMPTY_ARGUMENT: write_literal(to, "empty argument\n"); break;
        case MALFORMED_ARGUMENT: write_literal(to, "malformed argument\n"); break;
        default: write_literal(to, "transfer refused\n"); break;
    }
    return to;
}

// Command 1: the MD5 of "secret-U". That is at most 17 bytes, so one block, and it is made in
// registers.
DEVICE_CALL Writer with_password(Writer to, u32 user) {
    u32 high = user / 100000000;
    u64 low = eight_digits(user % 100000000) | ASCII_ZEROS;
    // The number's digits from the left: those of `high` (none, one or two), then those of `low`.
    u64 first = low;
    u64 rest = 0;
    u32 count = 8;
    if (high == 0) {
        u32 zeros = first_byte((low ^ ASCII_ZEROS) | 1ull << 56);
        first = low >> 8 * zeros;
        count = 8 - zeros;
    } else {
        u32 digits = high < 10 ? 1 : 2;
        u64 top = high < 10 ? '0' + high : ('0' + high / 10) | ('0' + high % 10) << 8;
        first = top | low << 8 * digits;
        rest = low >> (64 - 8 * digits);
        count = 8 + digits;
    }
    // "secret-", the digits, and the byte that ends MD5's text; low bytes first.
    u64 text[3] = {0x002d746572636573ull | first << 56, first >> 8 | rest << 56, rest >> 8};
    u32 length = 7 + count;
    u64 end = 0x80ull << 8 * (length & 7);
    text[1] |= length / 8 == 1 ? end : 0;
    text[2] |= length / 8 == 2 ? end : 0;
    u32 words[16] = {};
    for (u32 i = 0; i < 3; ++i) {
        words[2 * i] = static_cast<u32>(text[i]);
        words[2 * i + 1] = static_cast<u32>(text[i] >> 32);
    }
    words[14] = 8 * length;
    Md5State state = {0x67452301, 0xefcdab89, 0x98badcfe, 0x10325476};
    md5_block(state, words);
    begin_rows(to);
    to.bytes8(hex_digits(state.a), 8);
    to.bytes8(hex_digits(state.b), 8);
    to.bytes8(hex_digits(state.c), 8);
    to.bytes8(hex_digits(state.d), 8);
    to.byte('\n');
    return to;
}

// Commands 2 and 3: balances, or with deposits and withdrawals.
DEVICE void write_accounts(Writer& to, u32 user, bool is_summary) {
    begin_rows(to);
    Stream stream(PURPOSE_ACCOUNTS, user, 0);
    u32 count = counts_of(user).x;
    for (u32 index = 0; index < count; ++index) {
        uint2 balance = stream.below(9900000, 4);
        uint2 deposits = stream.below(250000, 20);
        uint2 withdrawals = stream.below(80000, 40);
        u32 kind = index < 2 ? index + 1 : balance.y + 1;
        write_account_number(to, account_number(user, index));
        // "&0", the kind's digit, "&".
        to.bytes8(0x26003026u | ('0' + kind) << 16, 4);
        write_amount(to, 100000 + balance.x, is_summary ? '&' : '\n');
        if (is_summary) {
            u32 average = 1000 + deposits.x;
            write_amount(to, average * (1 + deposits.y), '&');
            write_amount(to, average, '&');
            average = 500 + withdrawals.x;
            write_amount(to, average * (1 + withdrawals.y), '&');
            write_amount(to, average, '\n');
        }
    }
}

// Commands 5 and 8: bills that are due, or the payments from `start` to `end`, latest first.
DEVICE void write_bills(Writer& to, u32 user, bool is_history, u32 start, u32 end) {
    begin_rows(to);
    Stream stream(is_history ? PURPOSE_PAYMENTS : PURPOSE_BILLS, user, 0);
    u32 count = is_history ? 8 + stream.below(MAX_PAYMENTS - 7, 1).x : counts_of(user).y;
    for (u32 index = 0; index < count; ++index) {
        uint2 drawn = stream.below(9000000, 150000);
        u32 days = stream.below(is_history ? PAYMENT_DAYS : 28, 1).x;
        days = is_history ? TODAY - 1 - index * PAYMENT_DAYS - days : TODAY + 1 + days;
        if (days < start || days > end) continue;
        // Seven digits and "&".
        u64 payee = eight_digits(1000000 + drawn.x) | ASCII_ZEROS;
        to.bytes8(payee >> 8 | static_cast<u64>('&') << 56, 8);
        write_date(to, days);
        to.byte('&');
        write_amount(to, 500 + drawn.y, '\n');
    }
}

// Command 4: a check.
DEVICE Refusal write_check(const BesimArgs& args, Writer& to, u32 user, Text query) {
    u64 number;
    u32 checks = 200 + Stream(PURPOSE_COUNTS, user, 1).below(800, 1).x;
    if (!parse_number(take_part(query), number) || number == 0 || number > checks) return NO_CHECK;
    Stream stream(PURPOSE_CHECK, user, static_cast<u32>(number));
    uint2 amount = stream.below(300000, 700);
    uint2 words = stream.below(args.payees.count, args.memos.count);
    uint2 images = stream.below(CHECK_IMAGES, CHECK_IMAGES);
    begin_rows(to);
    write_amount(to, 100 + amount.x, ' ');
    write_literal(to, "to ");
    write_word(to, args.words[args.payees.first + words.x]);
    write_literal(to, " on ");
    write_date(to, TODAY - 1 - amount.y);
    write_literal(to, " for ");
    write_word(to, args.words[args.memos.first + words.y]);
    write_literal(to, "&checks/front_");
    to.byte('0' + images.x);
    write_literal(to, ".png&checks/back_");
    to.byte('0' + images.y);
    write_literal(to, ".png\n");
    return ANSWERED;
}

// Command 9: the address.
DEVICE void write_profile(const BesimArgs& args, Writer& to, u32 user) {
    Stream stream(PURPOSE_PROFILE, user, 0);
    uint2 house = stream.below(999, args.streets.count);
    uint2 place = stream.below(args.cities.count, 100);
    uint2 person = stream.below(args.first_names.count, 8000000);
    begin_rows(to);
    print_u64(to, 1 + house.x);
    to.byte(' ');
    write_word(to, args.words[args.streets.first + house.y]);
    to.byte('&');
    const Word& city = args.words[args.cities.first + place.x];
    write_word(to, city);
    to.bytes8('&' | city.state[0] << 8 | city.state[1] << 16 | '&' << 24, 4);
    to.bytes8((eight_digits(city.number * 100 + place.y) | ASCII_ZEROS) >> 24 |
                  static_cast<u64>('&') << 40,
              6);
    write_word(to, args.words[args.first_names.first + person.x]);
    to.byte('.');
    print_u64(to, user);
    write_literal(to, "@example.com&(555) ");
    // Seven digits, the first not zero.
    u64 phone = (eight_digits(2000000 + person.y) | ASCII_ZEROS) >> 8;
    to.bytes8((phone & 0xffffff) | static_cast<u64>('-') << 24 | phone >> 24 << 32, 8);
    to.byte('\n');
}

// What a hexadecimal digit stands for; 16 and more for any other byte.
DEVICE u32 hex_value(u32 byte) {
    u32 letter = (byte | 0x20) - 'a';
    return byte - '0' < 10 ? byte - '0' : letter < 6 ? letter + 10 : 16;
}

// Takes the bytes an argument stands for into a confirmation's hash (FNV-1a); false where a `%` is
// not followed by two hexadecimal digits.
DEVICE bool hash_argument(const Text& argument, u64& hash) {
    // Digits of a `%` that are still to come, and their value so far.
    u32 digits = 0;
    u32 value = 0;
    for (u32 at = 0; at < argument.length; at += 8) {
        u64 bytes = argument.load(at);
        u32 count = smaller(8u, argument.length - at);
        for (u32 i = 0; i < count; ++i, bytes >>= 8) {
            u32 byte = static_cast<u32>(bytes & 0xff);
            if (digits > 0) {
                u32 digit = hex_value(byte);
                if (digit > 15) return false;
                value = value << 4 | digit;
                digits -= 1;
                if (digits > 0) continue;
                byte = value & 0xff;
            } else if (byte == '%') {
                digits = 2;
                continue;
            } else if (byte == '+') {
                byte = ' ';
            }
            hash = (hash ^ byte) * 0x100000001b3ull;
        }
    }
    hash = mix64(hash);
    return digits == 0;
}

DEVICE_CALL Parsed balance_of(u32 user, u64 number) {
    u32 count = counts_of(user).x;
    Stream stream(PURPOSE_ACCOUNTS, user, 0);
    for (u32 index = 0; index < count; ++index) {
        uint2 drawn = stream.below(9900000, 4);
        // Those of deposits and withdrawals.
        stream.bits();
        stream.bits();
        if (account_number(user, index) == number) return {100000 + drawn.x, true};
    }
    return {0, false};
}

// Whether a user has an account of this number; `balance` is what is on it.
DEVICE bool find_balance(u32 user, u64 number, i64& balance) {
    Parsed found = balance_of(user, number);
    balance = static_cast<i64>(found.value);
    return found.sound;
}

// Commands 6, 7, 10 and 11: changes that are confirmed but not kept.
DEVICE Refusal write_confirmation(Writer& to, u32 command, u32 user, Text query, u32 count) {
    u64 hash = Stream(PURPOSE_CONFIRMATION, user, command).bits();
    // Of the first three their lengths, of which follows where they are.
    const u8* from = query.from;
    u32 first_length = 0, second_length = 0, third_length = 0;
    for (u32 i = 0; i < count; ++i) {
        Text argument = take_part(query);
        if (argument.length == 0) return EMPTY_ARGUMENT;
        if (!hash_argument(argument, hash)) return MALFORMED_ARGUMENT;
        if (i == 0) first_length = argument.length;
        if (i == 1) second_length = argument.length;
        if (i == 2) third_length = argument.length;
    }
    Text first = {from, first_length};
    Text second = {first.from + first_length + 1, second_length};
    Text third = {second.from + second_length + 1, third_length};
    u64 number;
    u64 checks;
    u32 days;
    i64 cents;
    if (command == 6 || command == 7) {
        if (!parse_number(first, number)) return NO_PAYEE;
    } else if (command == 11) {
        if (!parse_number(first, number) || !find_balance(user, number, cents)) return NO_ACCOUNT;
    }
    if (command == 7 || command == 11) {
        if (!parse_date(second, days)) return BAD_DATE;
    }
    if (command == 7 && !parse_amount(third, cents)) return BAD_AMOUNT;
    if (command == 11 && (!parse_number(third, checks) || checks - 1 >= 9999)) return BAD_CHECKS;
    u64 prefix = command == 6 ? 0x4150 : command == 7 ? 0x5051 : command == 10 ? 0x5250 : 0x4f43;
    // Twelve upper-case hexadecimal digits, the highest first, in bytes from the highest.
    u64 bits = mix64(hash) >> 16;
    u64 text[2] = {prefix | static_cast<u64>('-') << 16, 0};
    for (u32 i = 0; i < 12; ++i) {
        u32 digit = static_cast<u32>(bits >> (44 - 4 * i)) & 15;
        u64 byte = digit < 10 ? '0' + digit : 'A' - 10 + digit;
        text[(i + 3) / 8] |= byte << 8 * ((i + 3) % 8);
    }
    text[1] |= static_cast<u64>('\n') << 56;
    begin_rows(to);
    to.bytes8(text[0], 8);
    to.bytes8(text[1], 8);
    return ANSWERED;
}

// Command 12: two of the user's accounts with their balances after a transfer.
DEVICE Refusal write_transfer(Writer& to, u32 user, Text query) {
    u64 from, target;
    u32 days;
    i64 amount, from_balance, to_balance;
    bool has_numbers = parse_number(take_part(query), from);
    has_numbers = parse_number(take_part(query), target) && has_numbers;
    if (!parse_amount(take_part(query), amount)) return BAD_AMOUNT;
    if (!parse_date(take_part(query), days)) return BAD_DATE;
    if (!has_numbers) return NO_ACCOUNT;
    if (!find_balance(user, from, from_balance) || !find_balance(user, target, to_balance))
        return TRANSFER_REFUSED;
    if (from == target || amount > from_balance) return TRANSFER_REFUSED;
    begin_rows(to);
    write_account_number(to, from);
    to.byte('&');
    write_amount(to, static_cast<u32>(from_balance - amount), '\n');
    write_account_number(to, target);
    to.byte('&');
    write_amount(to, static_cast<u32>(to_balance + amount), '\n');
    return ANSWERED;
}

// How many arguments a command takes; none is that of one that does not exist.
DEVICE u32 expected_arguments(u32 command) {
    // A half byte each, command 0 lowest.
    return command <= 12 ? static_cast<u32>(0x5471348121110ull >> 4 * command) & 15 : 0;
}

DEVICE Refusal answer_query(const BesimArgs& args, Writer& to, Text query) {
    Text workload = take_part(query);
    if (workload.length != 1 || load8(workload.from, 1) != '1') return UNKNOWN_WORKLOAD;
    // With nothing left there may have been no `&` after the command: it makes the difference of
    // none and one empty argument.
    u32 parts = count_ampersands(query);
    u64 command64;
    if (!parse_number(take_part(query), command64) || command64 > 12) return UNKNOWN_COMMAND;
    u32 command = static_cast<u32>(command64);
    if (command == 0) {
        begin_rows(to);
        return ANSWERED;
    }
    if (parts != expected_arguments(command)) return WRONG_COUNT;
    u64 user64;
    if (!parse_number(take_part(query), user64) || user64 - 1 >= args.users) return NO_USER;
    u32 user = static_cast<u32>(user64);
    switch (command) {
        case 1: to.resume(with_password(to, user)); break;
        case 2:
        case 3: write_accounts(to, user, command == 3); break;
        case 4: return write_check(args, to, user, query);
        case 5: write_bills(to, user, false, 0, 0xffffffffu); break;
        case 8: {
            u32 start, end;
            if (!parse_date(take_part(query), start) || !parse_date(take_part(query), end))
                return BAD_DATE;
            write_bills(to, user, true, start, end);
            break;
        }
        case 9: write_profile(args, to, user); break;
        case 12: return write_transfer(to, user, query);
        default: return write_confirmation(to, command, user, query, parts - 1);
    }
    return ANSWERED;
}

KERNEL(answer_besim, BesimArgs, 128 WITH_BLOCKS(12)) {
    u32 slot = global_thread();
    u32 lane = slot / args.query_stride;
    if (lane >= args.lanes) return;
    const LaneResult& result = args.results[lane];
    if (result.outcome != LANE_ACTIVE ||
        slot - lane * args.query_stride >= result.query_count) {
        args.answers[slot] = View{0, NO_TEXT};
        return;
    }
    View query = args.queries[slot];
    u32 offset = args.answer_base + slot * args.answer_stride;
    Writer to(args.arena + offset, args.answer_stride);
    Refusal refusal = answer_query(args, to, Text{args.arena + query.offset, query.length});
    if (refusal != ANSWERED) to.resume(refuse(to, refusal));
    write_literal(to, "</pre>\n");
    to.finish();
    args.answers[slot] = View{offset, to.overflowed() ? NO_TEXT : to.length()};
}
