// The parser (paper, sections 3.2, 4.2 and 4.5): a cohort of requests as they came, of all pages
// mixed, becomes a cohort with columns for each page.
//
// As in the paper a thread handles a request, and requests may be transposed first, so that
// neighbors' loads fall together (section 4.3.2); in units of 16 bytes, not of one, so that a
// thread takes a unit with one load. Unlike the paper's the parser leaves requests where they are:
// it sorts their numbers by page, and what a page does with its requests begins with its columns.
// What is unusual is no mistake here: the host answers it (section 3.2, Dispatch).
#include "parse_params.cuh"

#define TILE 32u

struct TransposeRequests {
    const u8* from;
    u8* to;
    const u32* lengths;
    u32 count;
    // Bytes of a request's place, a multiple of 16.
    u32 capacity;
    // Requests of a row of the result, a multiple of 32.
    u32 padded_count;
    u32 unused;
};

// A block moves 32 units of 32 requests through shared memory, so that both its loads and its
// stores are of 512 bytes in a row. Units that a request does not have are not moved.
KERNEL(transpose_requests, TransposeRequests, 256) {
    // One more to a row: a column's units then lie in different banks.
    SHARED_ARRAY(Unit, tile, TILE * (TILE + 1));
    u32 units = args.capacity / 16;
    u32 tiles = (units + TILE - 1) / TILE;
    u32 first_request = blockIdx.x / tiles * TILE;
    u32 first_unit = blockIdx.x % tiles * TILE;
    u32 along = threadIdx.x % TILE;
    for (u32 row = threadIdx.x / TILE; row < TILE; row += blockDim.x / TILE) {
        u32 request = first_request + row;
        u32 unit = first_unit + along;
        if (request < args.count && unit < units && unit * 16 < args.lengths[request]) {
            const u8* from = args.from + static_cast<u64>(request) * args.capacity + unit * 16;
            tile[row * (TILE + 1) + along] = *reinterpret_cast<const Unit*>(from);
        }
    }
    __syncthreads();
    u32 request = first_request + along;
    u32 length = request < args.count ? args.lengths[request] : 0;
    for (u32 row = threadIdx.x / TILE; row < TILE; row += blockDim.x / TILE) {
        u32 unit = first_unit + row;
        if (unit < units && unit * 16 < length) {
            u8* to = args.to + (static_cast<u64>(unit) * args.padded_count + request) * 16;
            *reinterpret_cast<Unit*>(to) = tile[along * (TILE + 1) + row];
        }
    }
}

struct ClassifyRequests {
    ParserTables tables;
    Requests requests;
    // Of each request its page, or HOST_PAGE.
    u16* pages;
    RequestParts* parts;
};

KERNEL(classify_requests, ClassifyRequests, 128) {
    u32 index = global_thread();
    if (index >= args.requests.count) return;
    Request request = request_of(args.requests, index);
    u32 length = args.requests.lengths[index];
    RequestParts parts = {};
    u32 page = HOST_PAGE;
    if (length <= args.requests.capacity) page = classify(args.tables, request, length, parts);
    args.pages[index] = static_cast<u16>(page);
    args.parts[index] = parts;
}

struct SortRequests {
    const u16* pages;
    u32* order;
    // Where each page's requests begin in `order`, then where the host's do, then the number of
    // requests.
    u32* page_start;
    u32 count;
    u32 page_count;
};

// The part of the key space that a request of this page falls into: a page's number, or the last
// for the host.
DEVICE u32 sort_key(const SortRequests& args, u32 index) {
    u32 page = args.pages[index];
    return smaller(page, args.page_count);
}

// A stable counting sort by one block. Each warp has a run of the requests to itself: it counts
// them, the counts become places, and it goes through its requests again in the same order, 32 at a
// time, ranking those of one page by their lanes.
KERNEL(sort_requests, SortRequests, 1024) {
    // Of each warp a place for each key.
    SHARED_DYNAMIC(u32, places);
    u32 keys = args.page_count + 1;
    u32 warps = blockDim.x / WARP;
    u32 warp = threadIdx.x / WARP;
    u32 lane = warp_lane();
    u32* own = places + warp * keys;
    // Whole groups of 32, the same number for all warps.
    u32 groups = (args.count + WARP * warps - 1) / (WARP * warps);
    u32 first = warp * groups * WARP;

    for (u32 key = lane; key < keys; key += WARP) own[key] = 0;
    __syncwarp(FULL_MASK);
    for (u32 group = 0; group < groups; group++) {
        u32 index = first + group * WARP + lane;
        bool here = index < args.count;
        u32 present = __ballot_sync(FULL_MASK, here);
        if (here) {
            u32 key = sort_key(args, index);
            u32 same = __match_any_sync(present, key);
            if ((same & ((1u << lane) - 1)) == 0) own[key] += __popc(same);
        }
        __syncwarp(FULL_MASK);
    }
    __syncthreads();

    // Of each key the sum over the warps before, and the total in page_start.
    for (u32 key = threadIdx.x; key < keys; key += blockDim.x) {
        u32 sum = 0;
        for (u32 other = 0; other < warps; other++) {
            u32 count = places[other * keys + key];
            places[other * keys + key] = sum;
            sum += count;
        }
        args.page_start[key] = sum;
    }
    __syncthreads();

    // The totals become starts: 32 keys at a time, by the first warp.
    if (warp == 0) {
        u32 before = 0;
        for (u32 base = 0; base < keys; base += WARP) {
            u32 key = base + lane;
            u32 count = key < keys ? args.page_start[key] : 0;
            u32 sum = sum_to_here(count);
            if (key < keys) args.page_start[key] = before + sum - count;
            before += __shfl_sync(FULL_MASK, sum, WARP - 1);
        }
        if (lane == 0) args.page_start[keys] = before;
    }
    __syncthreads();

    for (u32 group = 0; group < groups; group++) {
        u32 index = first + group * WARP + lane;
        bool here = index < args.count;
        u32 present = __ballot_sync(FULL_MASK, here);
        u32 same = 0, key = 0, place = 0;
        if (here) {
            key = sort_key(args, index);
            same = __match_any_sync(present, key);
            place = own[key];
            args.order[args.page_start[key] + place + __popc(same & ((1u << lane) - 1))] = index;
        }
        __syncwarp(FULL_MASK);
        if (here && (same & ((1u << lane) - 1)) == 0) own[key] = place + __popc(same);
        __syncwarp(FULL_MASK);
    }
}

struct ParseParams {
    ParserTables tables;
    Requests requests;
    const RequestParts* parts;
    const u32* order;
    const u32* page_start;
    // The column addresses of the page's slots.
    const u64* columns;
    u8* arena;
    SessionKey* sessions;
    u8* states;
    // Of each lane its request.
    u32* tickets;
    // How many lanes there are.
    u32* lane_count;
    u32 page;
    // Lane 0 is this one of the page's requests.
    u32 first;
    // The most lanes.
    u32 lanes_max;
    // The first lane's part of the arena, and the size of each; multiples of 8.
    u32 text_base;
    u32 text_stride;
    u32 unused;
};

KERNEL(parse_params, ParseParams, 128) {
    // Of each thread a word for each parameter.
    SHARED_DYNAMIC(u32, counters);
    u32 lane = global_thread();
    if (lane >= args.lanes_max) return;
    u32 first = args.page_start[args.page] + args.first;
    u32 end = args.page_start[args.page + 1];
    u32 lanes = first < end ? smaller(end - first, args.lanes_max) : 0;
    if (lane == 0) *args.lane_count = lanes;
    if (lane >= lanes) {
        // Nobody is here: nothing is to be done.
        args.states[lane] = LANE_FINISHED;
        return;
    }
    u32 index = args.order[first + lane];
    args.tickets[lane] = index;

    PageEntry page = args.tables.pages[args.page];
    LaneInput input = {request_of(args.requests, index),
                       args.parts[index],
                       page,
                       args.tables.params + page.param_start,
                       lane,
                       counters + threadIdx.x,
                       blockDim.x};
    u32 text_at = args.text_base + lane * args.text_stride;
    LaneTarget target = {&args.tables, args.columns, args.arena, text_at,
                         text_at + args.text_stride};
    bool sound = take_params(input, target);
    args.states[lane] = sound ? LANE_ACTIVE : LANE_HOST;

    if ((page.flags & PAGE_SESSION) != 0) {
        SessionKey key = {};
        u32 from = input.parts.cookie_start, to = from + input.parts.cookie_length;
        TableText cookie = args.tables.cookie;
        if (find_cookie(input.request, from, to, table_text(args.tables, cookie), cookie.length,
                        from, to)) {
            key = read_session(input.request, from, to);
        }
        args.sessions[lane] = key;
    }
}
