/* What both files of the program have. */
#ifndef PROGRAM_H
#define PROGRAM_H

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#define PAGE 4096UL

extern size_t bytes, pages;
extern volatile uint64_t *memory;

#define CHECK(what) check((what), #what, __LINE__)
static inline void check(int holds, const char *what, int line)
{
    if (!holds) {
        /* Without memory: that may be what is wrong. */
        char text[256];
        int length = snprintf(text, sizeof text, "line %d: not so: %s (%d)\n", line, what, errno);
        length = length < 256 ? length : 255;
        _exit(write(1, text, length) == length ? 1 : 2);
    }
}

void *map(size_t length);

static inline uint64_t value(size_t page, uint64_t round)
{
    return (page + 1) * 0x9e3779b97f4a7c15UL + round;
}

static inline volatile uint64_t *first_of(size_t page) { return memory + page * (PAGE / 8); }
static inline volatile uint64_t *last_of(size_t page) { return first_of(page) + PAGE / 8 - 1; }

static inline void put(size_t page, uint64_t round)
{
    *first_of(page) = value(page, round);
    *last_of(page) = ~value(page, round);
}

static inline int has(size_t page, uint64_t round)
{
    return *first_of(page) == value(page, round) && *last_of(page) == ~value(page, round);
}

/* program.c */
void spin(void);

/* processes.c */
void forks(void);
void daemons(void);
void habits(void);
void stopped(void);
void shares(void);
void silent(void);
void namespaces(void);

#endif
