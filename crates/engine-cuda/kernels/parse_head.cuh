// The head of a request (RFC 9112), as the host's parser reads it, and the page that its method and
// path name.
//
// Whatever is unusual goes to the host: this accepts less than the host does, never more.
#pragma once
#include "parse_tables.cuh"

// Flags of the bytes that are no characters of a token.
DEVICE u64 not_token(u64 bytes) {
    u64 token = bytes_within(bytes, '0', '9') | bytes_within(bytes | BYTES_ONE * 0x20, 'a', 'z') |
                bytes_within(bytes, '^', '`') | bytes_within(bytes, '#', '\'') |
                bytes_within(bytes, '*', '+') | bytes_within(bytes, '-', '.') |
                equal_bytes(bytes, '!') | equal_bytes(bytes, '|') | equal_bytes(bytes, '~');
    return ~token & BYTES_HIGH;
}

// Flags of the bytes that are no characters of a target.
DEVICE u64 not_target(u64 bytes) {
    u64 others = bytes_within(bytes, '"', '#') | equal_bytes(bytes, '<') | equal_bytes(bytes, '>') |
                 equal_bytes(bytes, '\\');
    return (~bytes_within(bytes, 0x21, 0x7e) & BYTES_HIGH) | others;
}

// Flags of the bytes that are no characters of a host's name.
DEVICE u64 not_host(u64 bytes) {
    u64 host = bytes_within(bytes, '0', '9') | bytes_within(bytes | BYTES_ONE * 0x20, 'a', 'z') |
               bytes_within(bytes, '-', '.') | equal_bytes(bytes, '_') | equal_bytes(bytes, '~');
    return ~host & BYTES_HIGH;
}

// The line's end: the first control character that is no tab; `end` where there is none.
DEVICE u32 line_end(const Request& request, u32 at, u32 end) {
    while (at < end) {
        u64 bytes = load(request, at, end);
        u64 stop =
            (bytes_within(bytes, 0, 0x1f) | equal_bytes(bytes, 0x7f)) & ~equal_bytes(bytes, '\t');
        // What is past the end is zero, and so stops it.
        if (stop != 0) return at + first_byte(stop);
        at += 8;
    }
    return end;
}

DEVICE bool is_line_end(const Request& request, u32 at, u32 end) {
    return (load(request, at, end) & 0xffff) == word_of("\r\n");
}

// A name of letters, digits and -._~ and perhaps a port. Addresses in brackets are the host's.
DEVICE bool is_host(const Request& request, u32 at, u32 end) {
    u32 from = at;
    u64 stop = 0;
    for (;; at += 8) {
        stop = not_host(load(request, at, end));
        if (stop != 0) break;
    }
    at += first_byte(stop);
    if (at == from) return false;
    if (at == end) return true;
    u64 rest = load(request, at, end);
    u32 digits = end - at - 1;
    u64 port = 0;
    return byte_of(rest, 0) == ':' && digits <= 5 &&
           (digits == 0 || (read_digits(rest >> 8, digits, port) && port <= 0xffff));
}

// What the headers say.
struct Headers {
    u32 host_count;
    u32 length_count;
    u32 type_count;
    u32 content_length;
    // The content is a form.
    bool is_form;
};

// Takes note of a header; false where the host is to see the request.
DEVICE bool take_header(const Request& request, u32 name, u32 colon, u32 end, Headers& headers,
                        RequestParts& parts) {
    u32 length = colon - name;
    u64 first = lower_case(load(request, name, colon));
    // Conditions and ranges.
    if ((first & 0xffffff) == word_of("if-")) return false;
    u64 last = length <= 8 ? first : lower_case(load(request, colon - 8, colon));
    bool is_cookie = length == 6 && first == word_of("cookie");
    bool is_name_host = length == 4 && first == word_of("host");
    bool is_length = length == 14 && first == word_of("content-") && last == word_of("t-length");
    bool is_type = length == 12 && first == word_of("content-") && last == word_of("ent-type");
    bool is_connection =
        length == 10 && first == word_of("connecti") && last == word_of("nnection");
    bool is_coding = length == 17 && first == word_of("transfer") && last == word_of("encoding");
    bool is_unusual =
        (length == 5 && first == word_of("range")) || (length == 6 && first == word_of("expect"));
    if (is_coding || is_unusual) return false;
    if (!(is_cookie || is_name_host || is_length || is_type || is_connection)) return true;
    u32 from = skip_spaces(request, colon + 1, end);
    u32 to = trim_end(request, from, end);
    if (is_cookie) {
        // The first one counts.
        if (parts.cookie_start == 0) {
            parts.cookie_start = static_cast<u16>(from);
            parts.cookie_length = static_cast<u16>(to - from);
        }
        return true;
    }
    if (is_name_host) return headers.host_count++ == 0 && is_host(request, from, to);
    if (is_length) {
        u64 number;
        u32 digits = to - from;
        if (headers.length_count++ != 0 || digits == 0 || digits > 8) return false;
        if (!read_digits(load(request, from, to), digits, number) || number > 0xffff) return false;
        headers.content_length = static_cast<u32>(number);
        return true;
    }
    u64 word = lower_case(load(request, from, to));
    u64 next = lower_case(load(request, from + 8, to));
    // Only what lets the connection live on: the answer would say the rest.
    if (is_connection)
        return to - from == 10 && word == word_of("keep-ali") && next == word_of("ve");
    bool is_form = word == word_of("applicat") && next == word_of("ion/x-ww") &&
                   lower_case(load(request, from + 16, to)) == word_of("w-form-u") &&
                   lower_case(load(request, from + 24, to)) == word_of("rlencode") &&
                   lower_case(load(request, from + 32, smaller(from + 33, to))) == word_of("d");
    if (is_form) {
        u32 after = skip_spaces(request, from + 33, to);
        is_form = after >= to || byte_of(load(request, after, to), 0) == ';';
    }
    headers.is_form = is_form;
    return headers.type_count++ == 0;
}

// The segments of the path at .. end, one after the other, as long as they fit the route's.
DEVICE bool fits_pattern(const ParserTables& tables, const RouteEntry& route,
                         const Request& request, u32 at, u32 end) {
    for (u32 index = 0; index < route.segment_count; index++) {
        // The slash before it.
        if (at >= end) return false;
        u32 from = at + 1;
        at = find(request, from, end, '/');
        const SegmentEntry& segment = tables.segments[route.segment_start + index];
        if (segment.name == NO_SEGMENT_NAME) {
            if (at - from != segment.text.length) return false;
            if (!matches(request, from, table_text(tables, segment.text), segment.text.length))
                return false;
        } else if (at == from) {
            return false;
        }
    }
    return at == end;
}

// The route of a method and a path without escapes; none: routes there are.
DEVICE u32 find_route(const ParserTables& tables, const Request& request, u64 method, u32 at,
                      u32 end) {
    u32 routes = tables.literal_count + tables.pattern_count;
    u32 length = end - at;
    u64 tail = length <= 8 ? load(request, at, end) : load(request, end - 8, end);
    for (u32 index = 0; index < tables.literal_count; index++) {
        const RouteEntry& route = tables.routes[index];
        if (route.path.length != length || route.tail != tail) continue;
        if (!matches(request, at, table_text(tables, route.path), length)) continue;
        if (route.method == method) return index;
        // The resource is known, with another method: routes with parameters are not tried.
        routes = tables.literal_count;
    }
    if (routes == tables.literal_count) return tables.literal_count + tables.pattern_count;
    // A static file goes before a route with parameters.
    if (length >= tables.mount.length &&
        matches(request, at, table_text(tables, tables.mount), tables.mount.length)) {
        return routes;
    }
    for (u32 index = tables.literal_count; index < routes; index++) {
        const RouteEntry& route = tables.routes[index];
        if (route.method == method && fits_pattern(tables, route, request, at, end)) return index;
    }
    return routes;
}

// The page that answers a request of `length` bytes and where its parts are; HOST_PAGE: the host is
// to see it.
DEVICE u32 classify(const ParserTables& tables, const Request& request, u32 length,
                    RequestParts& parts) {
    u32 end = smaller(length, tables.head_max);

    u64 start = load(request, 0, end);
    u32 method_length = first_flag(equal_bytes(start, ' '));
    if (method_length == 0 || method_length > 7) return HOST_PAGE;
    u64 method = start & low_bytes(method_length);
    // It answers without content.
    if (method == word_of("HEAD")) return HOST_PAGE;

    u32 path = method_length + 1;
    if (byte_of(load(request, path, end), 0) != '/') return HOST_PAGE;
    u32 at = path;
    u32 query = 0;
    for (;; at += 8) {
        u64 bytes = load(request, at, end);
        u64 stop = not_target(bytes);
        if (query == 0) {
            u64 before = below_first(stop);
            u64 mark = equal_bytes(bytes, '?') & before;
            // Escapes in the path.
            if ((equal_bytes(bytes, '%') & before & below_first(mark)) != 0) return HOST_PAGE;
            if (mark != 0) query = at + first_byte(mark);
        }
        if (stop != 0) {
            at += first_byte(stop);
            break;
        }
    }
    u32 target_end = at;
    u32 path_end = query == 0 ? target_end : query;
    if (target_end - path > tables.target_max || target_end + VERSION_LINE_END > end)
        return HOST_PAGE;
    if (load(request, at, end) != word_of(" HTTP/1.") ||
        (load(request, at + 8, end) & 0xffffff) != word_of("1\r\n")) {
        return HOST_PAGE;
    }
    at += VERSION_LINE_END;

    Headers headers = {};
    parts.cookie_start = 0;
    parts.cookie_length = 0;
    for (u32 count = 0;; count++) {
        u32 name = at;
        u64 bytes;
        u64 stop;
        for (;; at += 8) {
            bytes = load(request, at, end);
            stop = not_token(bytes);
            if (stop != 0) break;
        }
        u32 place = first_byte(stop);
        at += place;
        if (at == name) break;
        if (byte_of(bytes, place) != ':' || at >= end || count == tables.header_max)
            return HOST_PAGE;
        u32 stop_at = line_end(request, at + 1, end);
        if (!is_line_end(request, stop_at, end)) return HOST_PAGE;
        if (!take_header(request, name, at, stop_at, headers, parts)) return HOST_PAGE;
        at = stop_at + 2;
    }
    if (!is_line_end(request, at, end) || headers.host_count == 0) return HOST_PAGE;
    at += 2;
    // Nothing is missing, and no other request follows.
    if (headers.content_length > tables.body_max || at + headers.content_length != length)
        return HOST_PAGE;

    u32 route = find_route(tables, request, method, path, path_end);
    if (route >= tables.literal_count + tables.pattern_count) return HOST_PAGE;
    u32 page = tables.routes[route].page;
    if (page >= tables.page_count) return HOST_PAGE;
    bool reads_form = (tables.pages[page].flags & PAGE_FORM) != 0;
    if (reads_form && headers.content_length != 0 && !headers.is_form) return HOST_PAGE;

    parts.route = static_cast<u16>(route);
    parts.path_start = static_cast<u16>(path);
    parts.path_length = static_cast<u16>(path_end - path);
    parts.target_length = static_cast<u16>(target_end - path);
    parts.content_start = static_cast<u16>(at);
    parts.content_length = static_cast<u16>(headers.content_length);
    return page;
}
