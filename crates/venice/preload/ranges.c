/* Which parts of the region are free: a sorted array of ranges that do not touch each other.
 *
 * First fit. An array is enough: allocators map seldom and much. It has addresses for as many
 * ranges as there can be, and memory for those that were: no range is ever without a place.
 */
#include "venice.h"

#include <string.h>
#include <sys/mman.h>

static struct range {
    uintptr_t start, end;
} *free_ranges;
static size_t ranges_count;

int ranges_start(uintptr_t start, uintptr_t end)
{
    /* A page in use between each two. */
    size_t most = (end - start) / PAGE / 2 + 1;
    long table = raw6(SYS_mmap, 0, most * sizeof *free_ranges, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (table < 0 && table > -4096)
        return 0;
    free_ranges = (struct range *)table;
    free_ranges[0] = (struct range){start, end};
    ranges_count = 1;
    return 1;
}

static void remove_at(size_t at)
{
    ranges_count--;
    memmove(&free_ranges[at], &free_ranges[at + 1], (ranges_count - at) * sizeof *free_ranges);
}

static void insert_at(size_t at, uintptr_t start, uintptr_t end)
{
    memmove(&free_ranges[at + 1], &free_ranges[at], (ranges_count - at) * sizeof *free_ranges);
    free_ranges[at] = (struct range){start, end};
    ranges_count++;
}

/* Takes [start, end) out of the range `at`, which has it. */
static void cut(size_t at, uintptr_t start, uintptr_t end)
{
    struct range *range = &free_ranges[at];
    uintptr_t rest = range->end;
    if (start == range->start && end == rest) {
        remove_at(at);
    } else if (start == range->start) {
        range->start = end;
    } else {
        range->end = start;
        if (end != rest)
            insert_at(at + 1, end, rest);
    }
}

/* The first range that ends behind `address`. */
static size_t find(uintptr_t address)
{
    size_t low = 0, high = ranges_count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (free_ranges[middle].end <= address)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

uintptr_t ranges_take(size_t bytes, size_t alignment)
{
    for (size_t at = 0; at < ranges_count; at++) {
        uintptr_t start = (free_ranges[at].start + alignment - 1) & ~(alignment - 1);
        if (start < free_ranges[at].end && free_ranges[at].end - start >= bytes) {
            cut(at, start, start + bytes);
            return start;
        }
    }
    return 0;
}

int ranges_take_at(uintptr_t address, size_t bytes)
{
    size_t at = find(address);
    if (at == ranges_count || free_ranges[at].start > address
        || free_ranges[at].end - address < bytes)
        return 0;
    cut(at, address, address + bytes);
    return 1;
}

void ranges_exclude(uintptr_t address, size_t bytes)
{
    uintptr_t end = address + bytes;
    size_t at;
    while ((at = find(address)) < ranges_count && free_ranges[at].start < end) {
        uintptr_t from = free_ranges[at].start > address ? free_ranges[at].start : address;
        uintptr_t to = free_ranges[at].end < end ? free_ranges[at].end : end;
        cut(at, from, to);
    }
}

void ranges_give(uintptr_t address, size_t bytes)
{
    uintptr_t start = address, end = address + bytes;
    /* One before, so that one that ends where this begins is joined. */
    size_t at = find(start ? start - 1 : 0);
    while (at < ranges_count && free_ranges[at].start <= end) {
        if (free_ranges[at].start < start)
            start = free_ranges[at].start;
        if (free_ranges[at].end > end)
            end = free_ranges[at].end;
        remove_at(at);
    }
    insert_at(at, start, end);
}
