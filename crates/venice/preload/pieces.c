/* malloc() and its kin, in programs that have the C library's: its heap and its own mmap() cannot
 * be put into the region, so pieces come from here. A program that brings an allocator (jemalloc,
 * as redis does) keeps it: that one maps by way of mmap(). What the C library gave before this
 * library was there stays its own, and so does what there is no room for.
 *
 * A large piece, as of the threshold, is a mapping with a head before what the program is given;
 * small.c has the others.
 */
#define _GNU_SOURCE
#include "venice.h"

#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define EXPORT __attribute__((visibility("default")))

struct head {
    uintptr_t start; /* of the mapping */
    size_t mapped;
};

static struct next {
    void *(*malloc)(size_t);
    void (*free)(void *);
    void *(*calloc)(size_t, size_t);
    void *(*realloc)(void *, size_t);
    void *(*memalign)(size_t, size_t);
    void *(*aligned_alloc)(size_t, size_t);
    int (*posix_memalign)(void **, size_t, size_t);
    size_t (*malloc_usable_size)(void *);
    int c_library; /* the pieces are the C library's */
} next;

static void *symbol(const char *name)
{
    return dlsym(RTLD_NEXT, name);
}

static const struct next *others(void)
{
    if (__builtin_expect(!next.malloc, 0)) {
        next.free = (void (*)(void *))symbol("free");
        next.calloc = (void *(*)(size_t, size_t))symbol("calloc");
        next.realloc = (void *(*)(void *, size_t))symbol("realloc");
        next.memalign = (void *(*)(size_t, size_t))symbol("memalign");
        next.aligned_alloc = (void *(*)(size_t, size_t))symbol("aligned_alloc");
        next.posix_memalign = (int (*)(void **, size_t, size_t))symbol("posix_memalign");
        next.malloc_usable_size = (size_t (*)(void *))symbol("malloc_usable_size");
        void *plain = symbol("malloc");
        next.c_library = plain == symbol("__libc_malloc");
        __atomic_store_n(&next.malloc, (void *(*)(size_t))plain, __ATOMIC_RELEASE);
    }
    return &next;
}

/* Whether pieces come from here. */
static int is_active(const struct next *them)
{
    return region_start && them->c_library;
}

static int is_ours(const struct next *them, const void *piece)
{
    return in_region((uintptr_t)piece) && them->c_library;
}

static struct head *head_of(void *piece)
{
    return (struct head *)piece - 1;
}

static size_t room_of(void *piece)
{
    size_t small = small_size((uintptr_t)piece);
    if (small)
        return small;
    struct head *head = head_of(piece);
    return head->start + head->mapped - (uintptr_t)piece;
}

static void *large(size_t bytes, size_t alignment)
{
    if (alignment < 64)
        alignment = 64;
    size_t mapped = bytes + alignment + PAGE;
    if (mapped < bytes) {
        errno = ENOMEM;
        return 0;
    }
    mapped &= ~(PAGE - 1);
    /* Not by mmap(): of what is less than the threshold that asks the kernel. */
    uintptr_t start = region_take(mapped, PAGE, PROT_READ | PROT_WRITE);
    if (!start) {
        errno = ENOMEM;
        return 0;
    }
    uintptr_t piece = (start + sizeof(struct head) + alignment - 1) & ~(alignment - 1);
    *head_of((void *)piece) = (struct head){start, mapped};
    return (void *)piece;
}

EXPORT void *malloc(size_t bytes)
{
    const struct next *them = others();
    int is_new;
    if (!is_active(them))
        return them->malloc(bytes);
    if (bytes >= region_threshold)
        return large(bytes, 64);
    void *piece = bytes <= SMALL_MAX ? small_take(bytes, &is_new) : 0;
    return piece ? piece : them->malloc(bytes);
}

EXPORT void free(void *piece)
{
    const struct next *them = others();
    if (!is_ours(them, piece)) {
        them->free(piece);
    } else if (small_size((uintptr_t)piece)) {
        small_give(piece);
    } else {
        int error = errno;
        munmap((void *)head_of(piece)->start, head_of(piece)->mapped);
        errno = error;
    }
}

EXPORT void *calloc(size_t count, size_t bytes)
{
    const struct next *them = others();
    size_t all;
    int is_new;
    if (!is_active(them) || __builtin_mul_overflow(count, bytes, &all))
        return them->calloc(count, bytes);
    if (all >= region_threshold)
        return large(all, 64);
    void *piece = all <= SMALL_MAX ? small_take(all, &is_new) : 0;
    if (!piece)
        return them->calloc(count, bytes);
    return is_new ? piece : memset(piece, 0, all);
}

/* A large piece with another size, at its place; 0 where that cannot be. */
static void *stretch(void *piece, size_t bytes)
{
    size_t old = room_of(piece);
    if (bytes <= old && bytes >= old / 2)
        return piece;
    struct head head = *head_of(piece);
    size_t mapped = ((uintptr_t)piece - head.start + bytes + PAGE - 1) & ~(PAGE - 1);
    if (mapped < bytes
        || mremap((void *)head.start, head.mapped, mapped, 0) != (void *)head.start)
        return 0;
    head_of(piece)->mapped = mapped;
    return piece;
}

EXPORT void *realloc(void *piece, size_t bytes)
{
    const struct next *them = others();
    if (!piece)
        return malloc(bytes);
    /* What the C library gave before stays its own. */
    if (!is_ours(them, piece))
        return them->realloc(piece, bytes);
    if (bytes == 0) {
        free(piece);
        return 0;
    }
    size_t old = room_of(piece);
    if (small_size((uintptr_t)piece)) {
        if (bytes <= old && bytes >= old / 2)
            return piece;
    } else if (bytes >= region_threshold && stretch(piece, bytes)) {
        return piece;
    }
    void *moved = malloc(bytes);
    if (moved) {
        memcpy(moved, piece, old < bytes ? old : bytes);
        free(piece);
    }
    return moved;
}

EXPORT void *reallocarray(void *piece, size_t count, size_t bytes)
{
    size_t all;
    if (__builtin_mul_overflow(count, bytes, &all)) {
        errno = ENOMEM;
        return 0;
    }
    return realloc(piece, all);
}

static int is_alignment(size_t alignment)
{
    return alignment && !(alignment & (alignment - 1)) && alignment <= (1UL << 30);
}

/* Pieces of a class that is a power of two are aligned to it; 0 where there is no room. */
static void *aligned(size_t alignment, size_t bytes)
{
    int is_new;
    size_t most = bytes > alignment ? bytes : alignment;
    if (alignment <= 16)
        most = bytes;
    else if (most > 1 && most < region_threshold)
        most = 1UL << (64 - __builtin_clzl(most - 1));
    if (most > SMALL_MAX || most >= region_threshold)
        return large(bytes, alignment);
    void *piece = small_take(most, &is_new);
    if (!piece)
        errno = ENOMEM;
    return piece;
}

EXPORT void *memalign(size_t alignment, size_t bytes)
{
    const struct next *them = others();
    if (is_active(them) && is_alignment(alignment))
        return aligned(alignment, bytes);
    return them->memalign(alignment, bytes);
}

EXPORT void *aligned_alloc(size_t alignment, size_t bytes)
{
    const struct next *them = others();
    if (is_active(them) && is_alignment(alignment))
        return aligned(alignment, bytes);
    return them->aligned_alloc(alignment, bytes);
}

EXPORT int posix_memalign(void **piece, size_t alignment, size_t bytes)
{
    const struct next *them = others();
    if (is_active(them) && is_alignment(alignment) && alignment >= sizeof(void *)) {
        int error = errno;
        void *made = aligned(alignment, bytes);
        errno = error;
        if (!made)
            return ENOMEM;
        *piece = made;
        return 0;
    }
    return them->posix_memalign(piece, alignment, bytes);
}

EXPORT size_t malloc_usable_size(void *piece)
{
    const struct next *them = others();
    return is_ours(them, piece) ? room_of(piece) : them->malloc_usable_size(piece);
}
