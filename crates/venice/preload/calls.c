/* What stands in for functions of the C library that map and unmap memory, and that tell the kernel
 * about it. What is not for the region goes to the kernel as ever.
 */
#define _GNU_SOURCE
#include "venice.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/uio.h>

#define EXPORT __attribute__((visibility("default")))
#define HUGE_PAGE (2UL << 20)

static size_t whole_pages(size_t bytes)
{
    return (bytes + PAGE - 1) & ~(PAGE - 1);
}

static void *result_of(long result)
{
    if (result < 0 && result > -4096) {
        errno = -result;
        return MAP_FAILED;
    }
    return (void *)result;
}

static int result_of_number(long result)
{
    if (result < 0) {
        errno = -result;
        return -1;
    }
    return result;
}

static int status_of(long result)
{
    return result_of_number(result) < 0 ? -1 : 0;
}

/* Ranges of the region that are the kernel's: something else was mapped over them. They are never
 * given again, since page faults there are not told from then on. No two of them touch. */
#define OTHERS 1024
static struct other {
    uintptr_t start, end;
} others[OTHERS];
static size_t others_count;

static int other_in(uintptr_t start, uintptr_t end)
{
    for (size_t i = 0; i < others_count; i++)
        if (others[i].start < end && start < others[i].end)
            return 1;
    return 0;
}

/* Takes note of one; 0 where there is no room. */
static int other_add(uintptr_t start, uintptr_t end)
{
    struct other joined = {start, end};
    size_t apart = 0;
    for (size_t i = 0; i < others_count; i++) {
        if (others[i].start > end || start > others[i].end) {
            apart++;
        } else {
            joined.start = joined.start < others[i].start ? joined.start : others[i].start;
            joined.end = joined.end > others[i].end ? joined.end : others[i].end;
        }
    }
    if (apart == OTHERS)
        return 0;
    size_t kept = 0;
    for (size_t i = 0; i < others_count; i++)
        if (others[i].start > end || start > others[i].end)
            others[kept++] = others[i];
    others[kept++] = joined;
    others_count = kept;
    return 1;
}

/* Some of what is free can be touched still: the kernel allowed no more mappings
 * (vm.max_map_count) when that was to be forbidden. */
static int is_open;

/* A range that is not the program's any more, with the lock held. */
static void disown(uintptr_t start, size_t bytes)
{
    link_discard(start, bytes);
    if (raw3(SYS_mprotect, start, bytes, PROT_NONE) != 0)
        is_open = 1;
    ranges_give(start, bytes);
}

/* Makes a range that was taken the program's, with the lock held; 0 where that cannot be, and it is
 * given back. */
static int own(uintptr_t start, size_t bytes, int protection)
{
    /* Who had it before may have written there since. */
    if (is_open)
        link_discard(start, bytes);
    if (raw3(SYS_mprotect, start, bytes, protection) == 0)
        return 1;
    /* Some of it may be the program's by now. */
    disown(start, bytes);
    return 0;
}

uintptr_t region_take(size_t bytes, size_t alignment, int protection)
{
    uint64_t signals = region_enter();
    uintptr_t start = ranges_take(bytes, alignment);
    if (start && !own(start, bytes, protection))
        start = 0;
    region_leave(signals);
    return start;
}

static uintptr_t take(size_t bytes, int protection)
{
    return region_take(bytes, bytes >= HUGE_PAGE ? HUGE_PAGE : PAGE, protection);
}

/* Gives back a range of the region, with the lock held. */
static void give(uintptr_t start, size_t bytes)
{
    uintptr_t end = start + bytes;
    if (other_in(start, end)) {
        /* Seldom: page by page, what is the kernel's stays so, without content. */
        for (uintptr_t page = start; page < end; page += PAGE) {
            if (other_in(page, page + PAGE)) {
                raw6(SYS_mmap, page, PAGE, PROT_NONE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
            } else {
                disown(page, PAGE);
            }
        }
        return;
    }
    disown(start, bytes);
}

/* A mapping at an address within the region, in place of what is there. */
static void *map_over(uintptr_t start, size_t bytes, int protection, int flags, int fd, off_t at)
{
    int kind = MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | MAP_NORESERVE | MAP_POPULATE | MAP_STACK;
    uintptr_t end = start + bytes;
    long result;
    uint64_t signals = region_enter();
    if (start >= region_start + PAGE && end <= region_end && (flags & MAP_PRIVATE)
        && (flags & MAP_ANONYMOUS) && !(flags & ~kind) && !(protection & PROT_EXEC)
        && !other_in(start, end)) {
        ranges_exclude(start, bytes);
        link_discard(start, bytes);
        result = raw3(SYS_mprotect, start, bytes, protection);
        if (!result)
            result = start;
    } else {
        uintptr_t from = start < region_start ? region_start : start;
        uintptr_t to = end > region_end ? region_end : end;
        if (from == region_start || !other_add(from, to)) {
            result = -ENOMEM;
        } else {
            ranges_exclude(from, to - from);
            /* What is brought in before that is in place would be dropped with what is there. */
            link_discard_begin(from, to - from);
            result = raw6(SYS_mmap, start, bytes, protection, flags, fd, at);
            if (result < 0 && result > -4096)
                raw3(SYS_madvise, from, to - from, MADV_DONTNEED);
            link_discard_end(from, to - from);
        }
    }
    region_leave(signals);
    return result_of(result);
}

EXPORT void *mmap(void *address, size_t length, int protection, int flags, int fd, off_t at)
{
    size_t bytes = whole_pages(length);
    uintptr_t start = (uintptr_t)address;
    if (region_start && length && bytes >= length) {
        if ((flags & MAP_FIXED) && start % PAGE == 0 && start < region_end
            && start + bytes > region_start)
            return map_over(start, bytes, protection, flags, fd, at);
        int plain = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_POPULATE;
        if (bytes >= region_threshold && (flags & MAP_ANONYMOUS) && (flags & MAP_PRIVATE)
            && !(flags & ~plain) && !(protection & PROT_EXEC)) {
            uintptr_t taken = take(bytes, protection);
            if (taken)
                return (void *)taken;
            /* Addresses that are only reserved are the kernel's where there is no room. */
            if (protection != PROT_NONE && !(flags & MAP_NORESERVE)) {
                errno = ENOMEM;
                return MAP_FAILED;
            }
        }
    }
    return result_of(raw6(SYS_mmap, address, length, protection, flags, fd, at));
}

EXPORT void *mmap64(void *address, size_t length, int protection, int flags, int fd, off_t at)
{
    return mmap(address, length, protection, flags, fd, at);
}

EXPORT int munmap(void *address, size_t length)
{
    uintptr_t start = (uintptr_t)address, end = start + whole_pages(length);
    if (!region_start || start % PAGE || length == 0 || end <= region_start
        || start >= region_end)
        return status_of(raw2(SYS_munmap, address, length));
    /* What lies before and behind the region is the kernel's. */
    if (start < region_start)
        raw2(SYS_munmap, start, region_start - start);
    if (end > region_end)
        raw2(SYS_munmap, region_end, end - region_end);
    uintptr_t from = start < region_start + PAGE ? region_start + PAGE : start;
    uintptr_t to = end > region_end ? region_end : end;
    uint64_t signals = region_enter();
    if (from < to)
        give(from, to - from);
    region_leave(signals);
    return 0;
}

/* Copies without a signal where something cannot be read. */
static int copy(uintptr_t to, uintptr_t from, size_t bytes)
{
    while (bytes) {
        size_t part = bytes < (1 << 20) ? bytes : 1 << 20;
        struct iovec here = {(void *)to, part}, there = {(void *)from, part};
        long got = raw6(SYS_process_vm_readv, raw1(SYS_getpid, 0), &here, 1, &there, 1, 0);
        if (got <= 0)
            return 0;
        to += got;
        from += got;
        bytes -= got;
    }
    return 1;
}

EXPORT void *mremap(void *address, size_t old_length, size_t new_length, int flags, ...)
{
    va_list rest;
    va_start(rest, flags);
    void *target = flags & MREMAP_FIXED ? va_arg(rest, void *) : 0;
    va_end(rest);
    uintptr_t start = (uintptr_t)address;
    if (!region_start || !in_region(start)) {
        if (region_start && (flags & MREMAP_FIXED) && in_region((uintptr_t)target)) {
            errno = EINVAL;
            return MAP_FAILED;
        }
        return result_of(
            raw6(SYS_mremap, address, old_length, new_length, flags, target, 0));
    }
    size_t old_bytes = whole_pages(old_length), new_bytes = whole_pages(new_length);
    if (start % PAGE || !new_length || !old_length || (flags & ~MREMAP_MAYMOVE)) {
        errno = EINVAL;
        return MAP_FAILED;
    }
    if (new_bytes < new_length || old_bytes < old_length) {
        errno = ENOMEM;
        return MAP_FAILED;
    }
    if (new_bytes <= old_bytes) {
        if (new_bytes < old_bytes)
            munmap((void *)(start + new_bytes), old_bytes - new_bytes);
        return address;
    }
    uint64_t signals = region_enter();
    uintptr_t behind = start + old_bytes;
    int grown = ranges_take_at(behind, new_bytes - old_bytes)
                && own(behind, new_bytes - old_bytes, PROT_READ | PROT_WRITE);
    region_leave(signals);
    if (grown)
        return address;
    uintptr_t moved = flags & MREMAP_MAYMOVE ? take(new_bytes, PROT_READ | PROT_WRITE) : 0;
    if (!moved) {
        errno = ENOMEM;
        return MAP_FAILED;
    }
    if (!copy(moved, start, old_bytes)) {
        munmap((void *)moved, new_bytes);
        errno = EFAULT;
        return MAP_FAILED;
    }
    munmap(address, old_bytes);
    return (void *)moved;
}

EXPORT int madvise(void *address, size_t length, int advice)
{
    uintptr_t start = (uintptr_t)address, end = start + whole_pages(length);
    if (!region_start || start % PAGE || end <= region_start || start >= region_end
        || start >= end)
        return status_of(raw3(SYS_madvise, address, length, advice));
    switch (advice) {
    case MADV_DONTNEED:
    case MADV_FREE: {
        uintptr_t from = start < region_start + PAGE ? region_start + PAGE : start;
        uintptr_t to = end > region_end ? region_end : end;
        if (start < region_start || end > region_end)
            raw3(SYS_madvise, address, length, advice);
        uint64_t signals = region_enter();
        if (from < to)
            link_discard(from, to - from);
        region_leave(signals);
        return 0;
    }
    case MADV_HUGEPAGE:
    case MADV_NOHUGEPAGE:
        return 0; /* The region has small pages, always. */
    case MADV_WIPEONFORK:
    case MADV_REMOVE:
        errno = EINVAL;
        return -1;
    default:
        return status_of(raw3(SYS_madvise, address, length, advice));
    }
}

/* Memory that is locked cannot be with a donor. */
EXPORT int mlock(const void *address, size_t length)
{
    uintptr_t start = (uintptr_t)address;
    if (region_start && start < region_end && start + length > region_start)
        return status_of(-ENOMEM);
    return status_of(raw2(SYS_mlock, address, length));
}

EXPORT int mlock2(const void *address, size_t length, unsigned flags)
{
    uintptr_t start = (uintptr_t)address;
    if (region_start && start < region_end && start + length > region_start)
        return status_of(-ENOMEM);
    return status_of(raw3(SYS_mlock2, address, length, flags));
}

EXPORT int mlockall(int flags)
{
    if (region_start)
        return status_of(-ENOMEM);
    return status_of(raw1(SYS_mlockall, flags));
}

/* The descriptor to the pager stays, whatever a program closes that closes all there are. */
EXPORT int close(int fd)
{
    if (fd >= 0 && fd == link_descriptor())
        return status_of(-EBADF);
    return status_of(raw1(SYS_close, fd));
}

static int close_between(unsigned first, unsigned last, int flags)
{
    return first > last ? 0 : raw3(SYS_close_range, first, last, flags);
}

EXPORT int close_range(unsigned first, unsigned last, int flags)
{
    int own = link_descriptor();
    if (own < 0 || (unsigned)own < first || (unsigned)own > last)
        return status_of(raw3(SYS_close_range, first, last, flags));
    long result = own ? close_between(first, own - 1, flags) : 0;
    if (!result)
        result = close_between((unsigned)own + 1, last, flags);
    return status_of(result);
}

EXPORT void closefrom(int first)
{
    close_range(first < 0 ? 0 : first, ~0U, 0);
}

EXPORT int dup3(int old, int new, int flags)
{
    long error = link_make_way(new);
    return error ? status_of(error) : result_of_number(raw3(SYS_dup3, old, new, flags));
}

EXPORT int dup2(int old, int new)
{
    /* Not every machine has dup2(2), and dup3(2) takes two equal ones for a mistake. */
    if (old == new)
        return result_of_number(raw2(SYS_fcntl, old, F_GETFD)) < 0 ? -1 : new;
    return dup3(old, new, 0);
}
