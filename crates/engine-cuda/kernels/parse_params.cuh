// A page's parameters: from query, form, path, cookies and headers into a lane's columns.
#pragma once
#include "parse_head.cuh"
#include "parse_values.cuh"

// A request on its way into its lane.
struct LaneInput {
    Request request;
    RequestParts parts;
    PageEntry page;
    // The page's parameters.
    const ParamEntry* params;
    u32 lane;
    // Of each parameter how many values came, in shared memory, `counter_stride` apart: what is met
    // twice is the host's.
    u32* counters;
    u32 counter_stride;
};

DEVICE u32& counter(const LaneInput& input, u32 param) {
    return input.counters[param * input.counter_stride];
}

DEVICE u32 param_count(const LaneInput& input) {
    return input.page.scalar_count + input.page.column_count;
}

// A parameter's place in its columns.
struct Destination {
    // The parameter's index; NOWHERE: the pair is none of the page's.
    u32 param;
    u32 index;
};

#define NOWHERE 0xffffffffu

// Finds where the value of a pair goes that is called `name[i]`, if that is one of the page's
// lists. Items must come in their order; false where they do not, or have no numbers.
DEVICE bool find_item(const LaneInput& input, const Name& name, u32 place, Destination& to) {
    // A longer name may be an item with an index that is bad.
    if (name.length > NAME_BYTES) return false;
    u32 open = 0;
    for (; open < name.length; open += 8) {
        u64 found = equal_bytes(name_bytes(name, open), '[');
        if (found != 0) {
            open += first_byte(found);
            break;
        }
    }
    // Without brackets it may be an item of a list that is sent one after the other.
    bool is_numbered =
        open < name.length && byte_of(name_bytes(name, name.length - 1), 0) == ']';
    if (!is_numbered) open = name.length;
    Name base = {};
    base.length = open;
    base.first = open == 0 ? 0 : name.first & low_bytes(smaller(8u, open));
    base.second = open <= 8 ? 0 : name.second & low_bytes(smaller(8u, open - 8));
    base.third = open <= 16 ? 0 : name.third & low_bytes(open - 16);
    for (u32 index = input.page.scalar_count; index < param_count(input); index++) {
        const ParamEntry& param = input.params[index];
        if ((param.places & place) == 0 || !same_name(base, param)) continue;
        if (!is_numbered) return false;
        u64 text = name_bytes(name, open + 1);
        u32 digits = name.length - open - 2;
        u64 item;
        if (digits == 0 || digits > 4 || !read_digits(text, digits, item)) return false;
        if (digits > 1 && byte_of(text, 0) == '0') return false;
        to.param = index;
        to.index = input.lane * param.max_items + static_cast<u32>(item);
        return item < param.max_items && item == counter(input, index);
    }
    return true;
}

// Finds where the value of a pair of this name goes; false where it cannot.
DEVICE bool find_destination(const LaneInput& input, const Name& name, u32 place, Destination& to) {
    to.param = NOWHERE;
    for (u32 index = 0; index < input.page.scalar_count; index++) {
        const ParamEntry& param = input.params[index];
        if ((param.places & place) == 0 || !same_name(name, param)) continue;
        to.param = index;
        to.index = input.lane;
        return counter(input, index) == 0;
    }
    return input.page.column_count == 0 || find_item(input, name, place, to);
}

// Whether the query had items of lists that may be in the form, too: of which the host knows which
// count.
DEVICE bool lists_are_met(const LaneInput& input) {
    for (u32 index = input.page.scalar_count; index < param_count(input); index++) {
        if ((input.params[index].places & PLACE_FORM) != 0 && counter(input, index) != 0)
            return true;
    }
    return false;
}

// Takes all pairs of the query, then those of the form.
DEVICE bool take_pairs(const LaneInput& input, LaneTarget& lane) {
    const RequestParts& parts = input.parts;
    u32 at = parts.path_start + parts.path_length + 1;
    u32 end = parts.path_start + parts.target_length;
    u32 place = PLACE_QUERY;
    for (;;) {
        if (at >= end) {
            if (place == PLACE_FORM || (input.page.flags & PAGE_FORM) == 0) return true;
            if (parts.content_length != 0 && lists_are_met(input)) return false;
            place = PLACE_FORM;
            at = parts.content_start;
            end = at + parts.content_length;
            continue;
        }
        u32 pair_end = find(input.request, at, end, '&');
        if (pair_end > at) {
            Name name;
            Destination to;
            if (!read_name(input.request, at, pair_end, name) ||
                !find_destination(input, name, place, to))
                return false;
            if (to.param != NOWHERE) {
                counter(input, to.param) += 1;
                if (!store_value(lane, input.params[to.param], to.index, input.request, at,
                                 pair_end, true))
                    return false;
            }
        }
        at = pair_end + 1;
    }
}

// The segment of the path that is the parameter of this name, which its route may not have.
DEVICE bool find_segment(const LaneInput& input, const ParserTables& tables, u32 name, u32& from,
                         u32& to) {
    const RouteEntry& route = tables.routes[input.parts.route];
    u32 end = input.parts.path_start + input.parts.path_length;
    to = input.parts.path_start;
    for (u32 index = 0; index < route.segment_count; index++) {
        from = to + 1;
        to = find(input.request, from, end, '/');
        if (tables.segments[route.segment_start + index].name == name) return true;
    }
    return false;
}

// The value of the first header of a parameter's name. The head is known to be sound.
DEVICE bool find_header(const LaneInput& input, const ParamEntry& param, u32& from, u32& to) {
    u32 at = input.parts.path_start + input.parts.target_length + VERSION_LINE_END;
    u32 end = input.parts.content_start - 2;
    while (at < end) {
        u32 colon = find(input.request, at, end, ':');
        u32 stop = line_end(input.request, colon + 1, end);
        bool same = colon - at == param.name_length;
        for (u32 word = 0; same && word < NAME_BYTES / 8; word++) {
            u64 is = load(input.request, smaller(at + 8 * word, colon), colon);
            same = lower_case(is) == lower_case(param.name[word]);
        }
        if (same) {
            from = skip_spaces(input.request, colon + 1, stop);
            to = trim_end(input.request, from, stop);
            return true;
        }
        at = stop + 2;
    }
    return false;
}

// Takes what the path, cookies and headers give.
DEVICE bool take_others(const LaneInput& input, LaneTarget& lane) {
    const ParserTables& tables = *lane.tables;
    u32 cookies = input.parts.cookie_start;
    u32 cookies_end = cookies + input.parts.cookie_length;
    for (u32 index = 0; index < input.page.scalar_count; index++) {
        const ParamEntry& param = input.params[index];
        for (u32 place = PLACE_PATH; place <= PLACE_HEADER; place *= 2) {
            if ((param.places & place) == 0) continue;
            u32 from = 0, to = 0;
            bool is_here =
                place == PLACE_PATH     ? find_segment(input, tables, param.segment_name, from, to)
                : place == PLACE_COOKIE ? find_cookie(input.request, cookies, cookies_end,
                                                      param.name, param.name_length, from, to)
                                        : find_header(input, param, from, to);
            if (!is_here) continue;
            if (counter(input, index)++ != 0) return false;
            if (!store_value(lane, param, input.lane, input.request, from, to, false)) return false;
        }
    }
    return true;
}

// Fills in what was not met, and the spans of lists; false where something is missing.
DEVICE bool complete(const LaneInput& input, LaneTarget& lane) {
    const ParserTables& tables = *lane.tables;
    // What stands for an absent value is checked like one that came.
    Request texts = Request{tables.texts, 16};
    for (u32 index = 0; index < input.page.scalar_count; index++) {
        const ParamEntry& param = input.params[index];
        if (counter(input, index) != 0) continue;
        if (param.fallback.length == NO_TEXT) return false;
        u32 at = param.fallback.offset;
        if (!store_value(lane, param, input.lane, texts, at, at + param.fallback.length, false))
            return false;
    }
    for (u32 index = 0; index < input.page.column_count; index++) {
        u32 column = input.page.scalar_count + index;
        const ParamEntry& param = input.params[column];
        u32 count = counter(input, column);
        if (count < param.min_items || count != counter(input, param.list)) return false;
        if (param.list == column) {
            span_column(lane.columns, param.span_slot)[input.lane] =
                Span{input.lane * param.max_items, count};
        }
    }
    return true;
}

// Fills in all parameters of a lane; false: the host is to do it.
DEVICE bool take_params(const LaneInput& input, LaneTarget& lane) {
    u32 count = param_count(input);
    if (count == 0) return true;
    for (u32 index = 0; index < count; index++) counter(input, index) = 0;
    if (!take_pairs(input, lane)) return false;
    if ((input.page.flags & PAGE_OTHERS) != 0 && !take_others(input, lane)) return false;
    return complete(input, lane);
}
