/* The parts of the library, and what it says to the pager and hears from it (orders.rs has the
 * other side).
 *
 *   calls.c   what stands in for mmap() and its kin
 *   ranges.c  which parts of the region are free
 *   pieces.c  malloc() and its kin, where the program has the C library's
 *   small.c   small pieces
 *   link.c    the pager: set-up, requests, forks
 *   helper.c  the thread that evicts pages, and ends the program when the pager is gone
 */
#ifndef RHYTHM_VENICE_H
#define RHYTHM_VENICE_H

#include "raw.h"

/* Pages that one order is about, at most. */
#define ORDER_PAGES 64

/* Requests of the program's threads. */
enum {
    ASK_HELLO = 1,   /* a: region, b: its bytes, c: process; with the userfaultfd */
    ASK_FORKED = 2,  /* with the pager's ends of its orders and requests; answered over these: which
                      * byte of the region's first page it is to touch */
    ASK_DISCARD = 3, /* a: address, b: bytes; answered when nothing brings pages in there */
    ASK_DISCARDED = 4, /* a: address, b: bytes; not answered */
};

struct request {
    uint32_t kind, none;
    uint64_t a, b, c;
};

/* Orders to the helper. */
enum {
    ORDER_ATTACH = 1, /* with a duplicate of the userfaultfd, which is kept open */
    ORDER_EVICT = 2,
    ORDER_END = 3, /* the program ends: `page` has the text that says why, `count` its length */
};

struct order {
    uint32_t kind, count;
    uint64_t place;             /* where in the buffer the first of the dirty pages goes */
    uint64_t page[ORDER_PAGES]; /* ascending addresses; the lowest bit says dirty */
};

struct answer {
    uint32_t kind, thread;
    uint64_t done; /* a bit a page: it is gone, and, where dirty, in the buffer */
};

/* The region, once there is one. Both are 0 before, and in a program that is not paged. */
extern uintptr_t region_start, region_end;
/* Held over whatever changes ranges, and over requests: region_enter() takes it, and yields what
 * region_leave() wants. Signals wait meanwhile, since a handler that maps memory would wait for the
 * thread that it interrupts. */
uint64_t region_enter(void);
void region_leave(uint64_t signals);
/* The least that a mapping must have to be put into the region. */
extern size_t region_threshold;

static inline int in_region(uintptr_t address)
{
    return address - region_start < region_end - region_start;
}

/* calls.c */
/* A new range of the region with its protection, or 0. */
uintptr_t region_take(size_t bytes, size_t alignment, int protection);

/* small.c */
/* Bytes of a small piece at most. */
#define SMALL_MAX (128UL << 10)
/* Pieces from now on; 0 where there is no memory for it. */
int small_start(uintptr_t start, uintptr_t end);
/* A piece, and whether nobody had it before, so that it is zeros; 0 where there is no room. */
void *small_take(size_t bytes, int *is_new);
/* The bytes of a small piece, 0 of what is none. */
size_t small_size(uintptr_t piece);
void small_give(void *piece);
void small_before_fork(void);
void small_in_parent(void);
void small_in_child(void);

/* link.c */
/* A range of the region loses its content: between these two nothing brings pages in there. */
void link_discard_begin(uintptr_t address, size_t bytes);
void link_discard_end(uintptr_t address, size_t bytes);
/* Both, and what has it lose it. */
void link_discard(uintptr_t address, size_t bytes);
int link_descriptor(void); /* -1 where there is none */
/* The program wants this descriptor's number for something else. 0 where that can be. */
int link_make_way(int fd);

/* helper.c */
/* Starts the helper with its socket, which is its own then, and waits until the program would not
 * outlive the pager. */
void helper_start(int orders);
void say_and_end(const char *text) __attribute__((noreturn));
size_t length_of(const char *text);
long send_with(int socket, const void *bytes, size_t length, const int *fds, size_t count);
long receive(int socket, void *bytes, size_t length, int fds[2]);

/* ranges.c; all with the lock held, in whole pages */
/* 0 where there are no addresses for its table. */
int ranges_start(uintptr_t start, uintptr_t end);
uintptr_t ranges_take(size_t bytes, size_t alignment);
int ranges_take_at(uintptr_t address, size_t bytes);
void ranges_give(uintptr_t address, size_t bytes);
/* Takes what is free in there out of what is given from now on. */
void ranges_exclude(uintptr_t address, size_t bytes);

#endif
