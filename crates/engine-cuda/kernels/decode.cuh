// The answers of a call, from BeSim's text into columns (rules: protocol/besim.rs and the engine's
// reference executor).
//
// A thread reads the answers of its lane, 8 bytes at a time up to what ends a cell. The item arrays
// have a line for each row, with a place for each lane of the cohort, so that neighbors write (and
// the stage reads) side by side. A lane with more rows than there are lines says so, and the host
// starts the stage again with more.
#pragma once
#include "abi.cuh"
#include "number.cuh"
#include "text.cuh"
#include "writer.cuh"

// Most rows of one answer: the engine's ROWS_MAX.
#define ROWS_MAX 4096u

// A column to be filled: its slot in the table of columns, and whether it holds texts.
struct DecodedColumn {
    u32 slot;
    u32 is_text;
};

#define NO_SLOT 0xffffffffu

struct DecodeArgs {
    const DecodedColumn* decoded;
    const u64* columns;
    const u8* arena;
    // The answers of the launch's lane i: asked[i] says which of `answers`; where that is null, the
    // lane's queries of the stage before have theirs at the same places.
    const Span* asked;
    const View* answers;
    const u32* lane_list;
    const u32* lane_count;
    LaneResult* results;
    // The most rows a lane has, where that is more than its share.
    u32* rows_needed;
    u32 lanes;
    u32 query_stride;
    u32 decoded_count;
    u32 status_slot;
    // NO_SLOT: one row, its columns to scalar fields.
    u32 spans_slot;
    // Rows that a lane may have, and lanes that a line of items is for.
    u32 item_stride;
    u32 item_pitch;
    u32 unused;
};

// 0x80 in each byte of `word` that is a control character, '&', or not ASCII: what a plain cell has
// none of.
DEVICE u64 special_bytes(u64 word) {
    return (~bytes_within(word, ' ', '~') | equal_bytes(word, '&')) & BYTES_HIGH;
}

// "<pre>\n0\n", with which nearly all answers begin, and "</pre>", with which rows end.
#define ROWS_BEGIN 0x0a300a3e6572703cull
#define ROWS_END 0x3e6572702f3cull

// A reader of an answer's text.
struct AnswerReader {
    const u8* text;
    u32 length;
    u32 at;

    // Where the line at `at` ends: at its '\n' or at the end of the text.
    DEVICE_METHOD u32 line_end() const {
        u32 end = at;
        while (end < length && text[end] != '\n') ++end;
        return end;
    }

    DEVICE_METHOD bool line_is(u32 end, const char* word, u32 word_length) const {
        if (end - at != word_length) return false;
        for (u32 i = 0; i < word_length; ++i)
            if (text[at + i] != u8(word[i])) return false;
        return true;
    }

    // Goes to the first row, behind the line "<pre>" and that with the status; false where there
    // are none.
    DEVICE_METHOD bool begin(u32* status) {
        // Lines end before the text does, or with it: one more, empty, follows a last line feed,
        // which matters to nobody.
        for (;;) {
            if (at > length) return false;
            u32 end = line_end();
            bool begins = line_is(end, "<pre>", 5);
            at = end + 1;
            if (begins) break;
        }
        if (at > length) return false;
        u32 end = line_end();
        if (end - at != 1) return false;
        *status = u32(text[at]) - '0';
        at = end + 1;
        return *status <= 9;
    }

    // Whether the line at `at` is the last one of the rows.
    DEVICE_METHOD bool ends() const {
        u32 end = at + 6;
        if (end > length || load8(text + at, 6) != ROWS_END) return false;
        return end == length || text[end] == '\n';
    }

    // Where the cell at `at` ends: at the first '&' or control character, or at the end of the
    // text. `ascii` becomes false where it has other characters than ASCII, and `plain` where a
    // text has some that HTML wants otherwise.
    DEVICE_METHOD u32 cell_end(bool is_text, bool* ascii, bool* plain) const {
        u32 end = at;
        while (end < length) {
            u32 count = smaller(length - end, 8u);
            u64 word = load8(text + end, count);
            u64 special = special_bytes(word);
            u64 html = is_text ? HtmlEscape::special(word) : 0;
            // What is beyond the text was loaded as zeros, which are control characters.
            while (special) {
                u32 byte = u32(__ffsll(i64(special)) - 1) / 8;
                bool ends = byte >= count || (word >> 8 * byte & 0x80) == 0;
                if (ends) {
                    if (html & ((1ull << 8 * byte) - 1)) *plain = false;
                    return byte >= count ? length : end + byte;
                }
                *ascii = false;
                special &= special - 1;
            }
            if (html) *plain = false;
            end += count;
        }
        return length;
    }
};

// An integer as Rust parses it: an optional sign and at least one digit, within 64 bits.
DEVICE bool parse_int(const u8* text, u32 length, i64* value) {
    bool negative = length > 0 && text[0] == '-';
    u32 at = length > 0 && (text[0] == '-' || text[0] == '+') ? 1 : 0;
    if (at == length) return false;
    u64 limit = negative ? 1ull << 63 : (1ull << 63) - 1;
    u64 sum = 0, word = 0;
    for (u32 loaded = 0; at < length; ++at, --loaded, word >>= 8) {
        if (loaded == 0) {
            loaded = smaller(length - at, 8u);
            word = load8(text + at, loaded);
        }
        u32 digit = u32(word & 0xff) - '0';
        if (digit > 9 || sum > (limit - digit) / 10) return false;
        sum = sum * 10 + digit;
    }
    *value = i64(negative ? 0 - sum : sum);
    return true;
}

// The lane being decoded: its rows so far.
struct Decoder {
    const DecodeArgs& args;
    u32 lane;
    u32 rows;

    // Stores a cell; false where it is not of its column's type.
    DEVICE_METHOD bool store(DecodedColumn to, const AnswerReader& reader, u32 text_offset, u32 end,
                             bool ascii, bool plain) {
        const u8* cell = reader.text + reader.at;
        u32 length = end - reader.at;
        u64 value;
        if (to.is_text) {
            if (!ascii && !is_utf8(cell, length)) return false;
            value = u64(length | (plain ? TEXT_PLAIN : 0)) << 32 | (text_offset + reader.at);
        } else if (!parse_int(cell, length, reinterpret_cast<i64*>(&value))) {
            return false;
        }
        u64* values = value_column(args.columns, to.slot);
        if (args.spans_slot == NO_SLOT) {
            if (rows == 0) values[lane] = value;
        } else if (rows < args.item_stride) {
            values[u64(rows) * args.item_pitch + lane] = value;
        }
        return true;
    }

    // Reads one answer; false where it breaks a rule. `status` is kept if it is not 0 already.
    DEVICE_METHOD bool answer(View view, i64* status) {
        AnswerReader reader = {args.arena + view.offset, view.length, 0};
        if (view.length >= 8 && load8(reader.text, 8) == ROWS_BEGIN) {
            reader.at = 8;
        } else {
            u32 digit;
            if (!reader.begin(&digit)) return false;
            if (digit != 0) {
                if (*status == 0) *status = digit;
                return true;
            }
        }
        for (u32 count = 0;; ++count) {
            if (reader.at > reader.length) return false;
            if (reader.ends()) return true;
            if (count == ROWS_MAX) return false;
            for (u32 column = 0; column < args.decoded_count; ++column) {
                DecodedColumn to = args.decoded[column];
                bool ascii = true, plain = true;
                u32 cell = reader.cell_end(to.is_text, &ascii, &plain);
                // The last cell ends with its line, the others with '&'.
                u8 after = cell < reader.length ? reader.text[cell] : u8('\n');
                if (after != (column + 1 == args.decoded_count ? '\n' : '&')) return false;
                if (!store(to, reader, view.offset, cell, ascii, plain)) return false;
                reader.at = cell + 1;
            }
            // A record without columns is a line without text.
            if (args.decoded_count == 0) return false;
            ++rows;
        }
    }
};

DEVICE void decode_lane(const DecodeArgs& args, u32 index) {
    LaneResult& result = args.results[index];
    u32 lane = args.lane_list ? args.lane_list[index] : index;
    Span asked =
        args.asked ? args.asked[index] : Span{index * args.query_stride, result.query_count};
    Decoder decoder = {args, lane, 0};
    i64 status = 0;
    bool readable = true;
    for (u32 at = 0; at < asked.length && readable; ++at) {
        View answer = args.answers[asked.start + at];
        readable = answer.length != NO_TEXT && decoder.answer(answer, &status);
    }
    bool is_row = args.spans_slot == NO_SLOT;
    // Who has asked nothing has no row.
    bool has_row = asked.length != 0 && status == 0;
    if (!readable || (is_row && has_row && decoder.rows != 1)) {
        result.outcome = LANE_FAILED + ERROR_BAD_ANSWER;
        return;
    }
    int_column(args.columns, args.status_slot)[lane] = status;
    if (is_row) {
        // Where an answer refused, or nothing was asked, its fields are empty, whatever the others
        // brought; what is in the columns may be an earlier cohort's, too.
        for (u32 column = 0; !has_row && column < args.decoded_count; ++column)
            value_column(args.columns, args.decoded[column].slot)[lane] = 0;
        return;
    }
    span_column(args.columns, args.spans_slot)[lane] = {lane | INTERLEAVED, decoder.rows};
    if (decoder.rows > args.item_stride) {
        result.outcome = LANE_ROOM;
        atomicMax(args.rows_needed, decoder.rows);
    }
}
