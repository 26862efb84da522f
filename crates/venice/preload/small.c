/* Pieces smaller than the threshold, in programs that have the C library's malloc(): a heap of many
 * small ones is to be with a donor too, and the C library's own heap cannot be put into the region,
 * since it asks the kernel for it by calls that no other library can stand in for.
 *
 * A size class has spans of the region, cut into pieces of its size; free ones form a list through
 * themselves. Up to 128 bytes classes are 16 apart, from there on four a doubling. A span stays
 * with its class. There is one lock a class, held over forks: simple, not made for many threads
 * that allocate all the time; these bring an allocator of their own.
 */
#include "venice.h"

#include <sys/mman.h>

#define SPAN (1UL << 20)
#define STEP 16
#define LINEAR_MAX 128
#define CLASSES 64

static struct class {
    struct lock lock;
    void **free;
    uintptr_t next, end; /* what is left of the last span */
} classes[CLASSES] __attribute__((aligned(64)));

static uint8_t *class_of_span;
static uintptr_t spans_start;

/* The class of pieces with so many bytes, and how many they have. */
static unsigned class_for(size_t bytes, size_t *size)
{
    if (bytes <= LINEAR_MAX) {
        size_t steps = bytes ? (bytes + STEP - 1) / STEP : 1;
        *size = steps * STEP;
        return steps - 1;
    }
    unsigned power = 63 - __builtin_clzl(bytes - 1); /* 2^power < bytes <= 2^(power + 1) */
    size_t quarter = 1UL << (power - 2);
    size_t quarters = (bytes - 1 - (1UL << power)) / quarter + 1;
    *size = (1UL << power) + quarters * quarter;
    return LINEAR_MAX / STEP + (power - 7) * 4 + quarters - 1;
}

static size_t size_of_class(unsigned class)
{
    if (class < LINEAR_MAX / STEP)
        return (class + 1) * STEP;
    unsigned beyond = class - LINEAR_MAX / STEP, power = 7 + beyond / 4;
    return (1UL << power) + (beyond % 4 + 1) * (1UL << (power - 2));
}

int small_start(uintptr_t start, uintptr_t end)
{
    size_t bytes = (end - start) / SPAN + 2;
    long table = raw6(SYS_mmap, 0, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (table < 0 && table > -4096)
        return 0;
    class_of_span = (uint8_t *)table;
    spans_start = start & ~(SPAN - 1);
    return 1;
}

void *small_take(size_t bytes, int *is_new)
{
    size_t size;
    unsigned number = class_for(bytes, &size);
    struct class *class = &classes[number];
    lock_take(&class->lock);
    void **piece = class->free;
    if (piece) {
        class->free = *piece;
        *is_new = 0;
    } else {
        *is_new = 1;
        if (class->end - class->next < size) {
            uintptr_t span = region_take(SPAN, SPAN, PROT_READ | PROT_WRITE);
            if (!span) {
                lock_leave(&class->lock);
                return 0;
            }
            class_of_span[(span - spans_start) / SPAN] = number + 1;
            class->next = span;
            class->end = span + SPAN;
        }
        piece = (void **)class->next;
        class->next += size;
    }
    lock_leave(&class->lock);
    return piece;
}

size_t small_size(uintptr_t piece)
{
    if (!class_of_span)
        return 0;
    unsigned class = class_of_span[(piece - spans_start) / SPAN];
    return class ? size_of_class(class - 1) : 0;
}

void small_give(void *piece)
{
    unsigned number = class_of_span[((uintptr_t)piece - spans_start) / SPAN] - 1;
    struct class *class = &classes[number];
    lock_take(&class->lock);
    *(void **)piece = class->free;
    class->free = piece;
    lock_leave(&class->lock);
}

void small_before_fork(void)
{
    for (unsigned i = 0; i < CLASSES; i++)
        lock_take(&classes[i].lock);
}

void small_in_parent(void)
{
    for (unsigned i = 0; i < CLASSES; i++)
        lock_leave(&classes[i].lock);
}

void small_in_child(void)
{
    for (unsigned i = 0; i < CLASSES; i++)
        classes[i].lock.word = 0;
}
