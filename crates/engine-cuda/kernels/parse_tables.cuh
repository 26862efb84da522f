// What the parser knows of a service: its routes, pages and parameters, as src/parser/tables.rs
// writes them. All threads read the same entry at the same time.
#pragma once
#include "parse_bytes.cuh"

// The page of a request that the host answers.
#define HOST_PAGE 0xffffu

// A text in the tables: from a multiple of 8 on, zeros up to the next one after it.
struct TableText {
    u32 offset;
    u32 length;
};

// A method and a path.
struct RouteEntry {
    // Zero-padded.
    u64 method;
    // The last 8 bytes of a path without parameters, zero-padded where it is shorter.
    u64 tail;
    // That path.
    TableText path;
    // Of a path with parameters: its segments.
    u32 segment_start;
    u32 segment_count;
    // Or HOST_PAGE.
    u32 page;
    u32 unused;
};

#define NO_SEGMENT_NAME 0xffffffffu

struct SegmentEntry {
    // NO_SEGMENT_NAME: this text. Otherwise a parameter, the same number for the same name.
    u32 name;
    TableText text;
};

enum PageFlag : u32 {
    PAGE_FORM = 1,
    PAGE_SESSION = 2,
    // Some parameters come from the path, cookies or headers.
    PAGE_OTHERS = 4,
};

struct PageEntry {
    // Its parameters: scalars, then the columns of lists.
    u32 param_start;
    u32 scalar_count;
    u32 column_count;
    u32 flags;
};

enum ParamPlace : u32 {
    PLACE_QUERY = 1,
    PLACE_FORM = 2,
    PLACE_PATH = 4,
    PLACE_COOKIE = 8,
    PLACE_HEADER = 16,
};
enum ParamKind : u32 { PARAM_TEXT, PARAM_INT, PARAM_DECIMAL, PARAM_DATE };

// Most bytes of a parameter's name.
#define NAME_BYTES 24

// A parameter, or a column of a list of records.
struct ParamEntry {
    // Its name, zero-padded.
    u64 name[NAME_BYTES / 8];
    // Bounds: of an integer, or of a text's length in characters.
    i64 least;
    i64 greatest;
    u32 name_length;
    // ParamPlace.
    u32 places;
    u32 kind;
    // Where its values go.
    u32 slot;
    // The texts allowed, if any.
    u32 option_start;
    u32 option_count;
    // Of a scalar: what stands for it where it is absent; NO_TEXT: it is required.
    TableText fallback;
    // Of a path parameter: the name in SegmentEntry.
    u32 segment_name;
    // Of a list's column: the index of the list's first column among the page's parameters, and the
    // list's spans and bounds.
    u32 list;
    u32 span_slot;
    u32 min_items;
    u32 max_items;
    u32 unused;
};

struct ParserTables {
    // Without parameters, then those with them in the order in which they are tried.
    const RouteEntry* routes;
    const SegmentEntry* segments;
    const PageEntry* pages;
    const ParamEntry* params;
    const TableText* options;
    const u8* texts;
    u32 literal_count;
    u32 pattern_count;
    u32 page_count;
    u32 head_max;
    u32 target_max;
    u32 header_max;
    u32 body_max;
    // The session cookie's name.
    TableText cookie;
    // Where static files are.
    TableText mount;
    u32 unused;
};

DEVICE const u64* table_text(const ParserTables& tables, TableText text) {
    return reinterpret_cast<const u64*>(tables.texts + text.offset);
}

// The requests as they lie in memory; see `Request` for the strides.
struct Requests {
    const u8* base;
    // Bytes of each.
    const u32* lengths;
    u64 request_stride;
    u64 unit_stride;
    u32 count;
    // The most bytes a request can have.
    u32 capacity;
};

DEVICE Request request_of(const Requests& requests, u32 index) {
    return Request{requests.base + index * requests.request_stride, requests.unit_stride};
}

// Where the parts of a request are, in bytes from its start.
struct __align__(16) RequestParts {
    u16 route;
    u16 path_start;
    u16 path_length;
    // Path, question mark and query.
    u16 target_length;
    // The value of the Cookie header; 0 for none.
    u16 cookie_start;
    u16 cookie_length;
    u16 content_start;
    u16 content_length;
};

// What stands between target and headers.
#define VERSION_LINE_END 11
