// What the resident pipeline needs beside the stages: lanes made of parsed requests, and the heads
// of answers.
//
// What a head has of its own is written when the stage has counted its body, before a byte of that
// is laid out, so Content-Length is known; the texts that heads share go straight from theirs to
// where answers are (layout.cu). The length still stands in a field of fixed width, right-aligned,
// as the paper patches it (section 4.3.2, Whitespace Padding in HTML Headers): the white space is
// allowed there (RFC 9110, section 5.5), and lanes of one status have heads of one length, which
// keeps columns level.
#include "layout.cuh"
#include "text.cuh"

struct BeginArgs {
    const u8* states;
    const u32* lane_count;
    LaneResult* results;
    // The most rows that lanes need, of items and of tiles: none yet.
    u32* rows_needed;
    u32 lanes;
    u32 unused;
};

// A lane that the parser left to the host takes no part. Of one that does, the first stage writes
// the rest of its result.
KERNEL(begin_lanes, BeginArgs, 128) {
    u32 index = global_thread();
    if (index >= args.lanes) return;
    if (index == 0) args.rows_needed[0] = args.rows_needed[1] = 0;
    bool takes_part = index < *args.lane_count && args.states[index] == LANE_ACTIVE;
    if (takes_part) {
        args.results[index].outcome = LANE_ACTIVE;
        return;
    }
    LaneResult result = {};
    result.outcome = LANE_HOST;
    args.results[index] = result;
}

// Digits of the field for Content-Length.
#define LENGTH_DIGITS 10u

struct HeadArgs {
    LaneResult* results;
    const u32* lane_count;
    const u8* arena;
    const HeaderValue* headers;
    // Sessions created, by lane.
    const SessionKey* created;
    u8* heads;
    u32* head_lengths;
    // Texts begin at multiples of 8: the status lines by status, names of headers with what follows
    // them, and the rest of the head.
    const u8* texts;
    const HeadText* status_lines;
    const HeadText* header_names;
    HeadText cookie_before;
    HeadText cookie_after;
    HeadText cookie_removed;
    // Date, Content-Type and what all answers of the page have, up to "Content-Length: ".
    HeadText fields;
    u32 lanes;
    u32 head_stride;
    u32 header_stride;
    u32 unused;
};

DEVICE void put(Writer& to, const u8* texts, HeadText text) {
    to.text(texts + text.offset, text.length);
}

// 8 hexadecimal digits.
DEVICE u64 hex8(u32 number) {
    u64 digits = number;
    digits = (digits << 16 | digits) & 0x0000ffff0000ffffull;
    digits = (digits << 8 | digits) & 0x00ff00ff00ff00ffull;
    digits = (digits << 4 | digits) & 0x0f0f0f0f0f0f0f0full;
    // A digit of 10 and up is 0x27 further; adding 6 reaches the high half of the byte just then.
    u64 letters = (digits + 0x0606060606060606ull) >> 4 & 0x0101010101010101ull;
    u64 text = digits + 0x3030303030303030ull + letters * 0x27;
    // The first digit comes first.
    return u64(__byte_perm(u32(text), 0, 0x0123)) << 32 | __byte_perm(u32(text >> 32), 0, 0x0123);
}

// A session's id as the cookie has it: slot, then secret.
DEVICE void put_session(Writer& to, const SessionKey& key) {
    to.bytes8(hex8(key.slot), 8);
    to.bytes8(hex8(u32(key.secret[1] >> 32)), 8);
    to.bytes8(hex8(u32(key.secret[1])), 8);
    to.bytes8(hex8(u32(key.secret[0] >> 32)), 8);
    to.bytes8(hex8(u32(key.secret[0])), 8);
}

DEVICE void put_length(Writer& to, u32 length) {
    u64 field = 0;
    // The last eight digits, then the first two, from the right.
    for (u32 digit = 0; digit < 8; ++digit) {
        u64 character = digit == 0 || length != 0 ? '0' + length % 10 : ' ';
        field |= character << (56 - 8 * digit);
        length /= 10;
    }
    u64 first =
        u64(length > 0 ? '0' + length % 10 : ' ') << 8 | (length >= 10 ? '0' + length / 10 : ' ');
    to.bytes8(first, LENGTH_DIGITS - 8);
    to.bytes8(field, 8);
    to.bytes8(u64('\r') | u64('\n') << 8 | u64('\r') << 16 | u64('\n') << 24, 4);
}

// A thread a lane: its own lines, and before them the end. An answer that is a file, or has no
// content by its status, is the host's.
KERNEL(write_heads, HeadArgs, 128) {
    u32 index = global_thread();
    if (index >= smaller(*args.lane_count, args.lanes)) return;
    LaneResult& result = args.results[index];
    if (result.outcome != LANE_FINISHED) return;
    u32 status = result.status == 0 ? 200 : result.status;
    if (result.file.length != NO_TEXT || status < STATUS_MIN + 100 || status > STATUS_MAX ||
        status == 204 || status == 304) {
        result.outcome = LANE_HOST;
        return;
    }
    u8* own = args.heads + u64(args.head_stride) * index;
    Writer head(own + HEAD_LINES, args.head_stride - HEAD_LINES);
    for (u32 i = 0; i < result.header_count; ++i) {
        HeaderValue header = args.headers[u64(args.header_stride) * index + i];
        put(head, args.texts, args.header_names[header.name]);
        escape_header(head, args.arena + header.value.offset, header.value.length);
        head.bytes8(u64('\r') | u64('\n') << 8, 2);
    }
    if (result.session == SESSION_CREATE) {
        put(head, args.texts, args.cookie_before);
        put_session(head, args.created[index]);
        put(head, args.texts, args.cookie_after);
    } else if (result.session == SESSION_DESTROY) {
        put(head, args.texts, args.cookie_removed);
    }
    head.finish();
    Writer end(own, HEAD_LINES);
    put_length(end, result.body_length);
    end.finish();
    args.head_lengths[index] = args.status_lines[status - STATUS_MIN].length + head.length() +
                               args.fields.length + HEAD_END;
    // The region is made large enough for what the host knows; a header's value may still be too
    // long.
    if (head.overflowed()) result.outcome = LANE_HOST;
}
