/* A program that knows what its memory must have: for the tests beside it.
 *
 *   program MODE MEBIBYTES
 */
#define _GNU_SOURCE
#include "program.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#define THREADS 4

size_t bytes, pages;
volatile uint64_t *memory;

void *map(size_t length)
{
    void *start = mmap(0, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(start != MAP_FAILED);
    return start;
}

static uint64_t the_round;

static void *fill_part(void *argument)
{
    /* Strided, so that neighbors are other threads'. */
    for (size_t page = (size_t)argument; page < pages; page += THREADS)
        put(page, the_round);
    return 0;
}

static void *check_part(void *argument)
{
    size_t part = (size_t)argument, step = pages / THREADS;
    for (size_t page = part * step; page < (part + 1) * step; page++)
        CHECK(has(page, the_round));
    return 0;
}

static void in_threads(void *(*work)(void *))
{
    pthread_t threads[THREADS];
    for (size_t i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], 0, work, (void *)i) == 0);
    for (size_t i = 0; i < THREADS; i++)
        pthread_join(threads[i], 0);
}

static void fill(void)
{
    for (the_round = 1; the_round <= 3; the_round++) {
        in_threads(fill_part);
        in_threads(check_part);
        in_threads(check_part);
    }
    char line[256];
    FILE *status = fopen("/proc/self/status", "r");
    while (fgets(line, sizeof line, status))
        if (!strncmp(line, "RssAnon:", 8))
            fputs(line, stdout);
    fclose(status);
}

/* Several threads hammer pages, all of them, in an order of their own; each counts its own word of
 * every page, so that a write that is lost is seen. */
static void *churn_part(void *argument)
{
    size_t part = (size_t)argument;
    uint64_t random = part + 1;
    static uint64_t counts[THREADS][1 << 16];
    for (size_t i = 0; i < 60000; i++) {
        random = random * 6364136223846793005UL + 1442695040888963407UL;
        size_t page = (random >> 33) % pages;
        volatile uint64_t *word = first_of(page) + part * 8;
        CHECK(*word == counts[part][page]);
        if (random >> 62)
            *word = ++counts[part][page];
    }
    for (size_t page = 0; page < pages; page++)
        CHECK(first_of(page)[part * 8] == counts[part][page]);
    return 0;
}
static void mappings(void)
{
    char *start = (char *)memory;
    for (size_t page = 0; page < pages; page++)
        put(page, 5);
    /* Dropped content is zeros, and what is around it stays. */
    CHECK(madvise(start + 10 * PAGE, 20 * PAGE, MADV_DONTNEED) == 0);
    for (size_t page = 10; page < 30; page++)
        CHECK(*first_of(page) == 0 && *last_of(page) == 0);
    CHECK(has(9, 5) && has(30, 5));
    for (size_t page = 10; page < 30; page++)
        put(page, 5);
    /* Also where the library is not asked. */
    CHECK(syscall(SYS_madvise, start + (pages - 5) * PAGE, 5 * PAGE, MADV_DONTNEED) == 0);
    for (size_t page = pages - 5; page < pages; page++) {
        uint64_t found = *first_of(page);
        CHECK(found == 0 || found == value(page, 5));
        put(page, 5);
    }
    /* What may not be read keeps what it has, however much is evicted meanwhile. */
    CHECK(mprotect(start + 100 * PAGE, 50 * PAGE, PROT_NONE) == 0);
    char *other = map(bytes);
    memset(other, 1, bytes);
    CHECK(mprotect(start + 100 * PAGE, 50 * PAGE, PROT_READ | PROT_WRITE) == 0);
    for (size_t page = 0; page < pages; page++)
        CHECK(has(page, 5));
    /* Holes, and something else in one. */
    CHECK(munmap(other, bytes / 2) == 0);
    for (size_t at = bytes / 2; at < bytes; at += PAGE)
        CHECK(other[at] == 1);
    char *again = map(bytes / 2);
    for (size_t at = 0; at < bytes / 2; at += PAGE)
        CHECK(again[at] == 0);
    CHECK(munmap(again, bytes / 2) == 0);
    CHECK(mmap(start + 200 * PAGE, 10 * PAGE, PROT_READ | PROT_WRITE,
               MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == start + 200 * PAGE);
    for (size_t page = 200; page < 210; page++) {
        CHECK(*first_of(page) == 0);
        put(page, 5);
    }
    int zero = open("/proc/self/exe", O_RDONLY);
    CHECK(mmap(start + 300 * PAGE, PAGE, PROT_READ, MAP_PRIVATE | MAP_FIXED, zero, 0)
          == start + 300 * PAGE);
    CHECK(!memcmp(start + 300 * PAGE, "\177ELF", 4));
    CHECK(has(299, 5) && has(301, 5));
    CHECK(munmap(start + 300 * PAGE, PAGE) == 0);
    /* Often over the same, and side by side. */
    for (size_t page = 300; page < 300 + 8; page++) {
        for (int i = 0; i < 150; i++)
            CHECK(mmap(start + page * PAGE, PAGE, PROT_READ, MAP_PRIVATE | MAP_FIXED, zero, 0)
                  == start + page * PAGE);
        CHECK(!memcmp(start + page * PAGE, "\177ELF", 4));
    }
    CHECK(has(299, 5) && has(308, 5));
    /* It moves with its content. */
    char *moved = mremap(start + 400 * PAGE, 64 * PAGE, 4000 * PAGE, MREMAP_MAYMOVE);
    CHECK(moved != MAP_FAILED);
    for (size_t page = 0; page < 64; page++)
        CHECK(*(uint64_t *)(moved + page * PAGE) == value(400 + page, 5));
    CHECK(moved[4000 * PAGE - 1] == 0);
    CHECK(mremap(moved, 4000 * PAGE, 10 * PAGE, 0) == moved);
    CHECK(*(uint64_t *)(moved + 9 * PAGE) == value(409, 5));
    /* The kernel reads and writes pages that are away. */
    int file = memfd_create("file", 0);
    CHECK(write(file, start + 500 * PAGE, 100 * PAGE) == 100 * PAGE);
    memset(other + bytes / 2, 2, bytes / 2);
    CHECK(pread(file, start + 600 * PAGE, 100 * PAGE, 0) == 100 * PAGE);
    for (size_t page = 0; page < 100; page++)
        CHECK(*first_of(600 + page) == value(500 + page, 5));
    CHECK(mlock(start, PAGE) != 0 && errno == ENOMEM);
}

struct node {
    struct node *next;
    uint64_t number, size;
    char rest[];
};

static void heap(void)
{
    struct node *list = 0;
    size_t all = 0, count = 0;
    for (; all < bytes; count++) {
        size_t size = count % 100 == 99 ? 200000 + count : 16 + count * 7 % 1500;
        struct node *node = malloc(sizeof *node + size);
        CHECK(node && (uintptr_t)node % 16 == 0);
        *node = (struct node){list, count, size};
        memset(node->rest, count, size);
        list = node;
        all += size;
    }
    for (struct node **at = &list; *at;) {
        struct node *node = *at;
        CHECK(node->number == --count && node->rest[0] == (char)count
              && node->rest[node->size - 1] == (char)count);
        if (count % 3 == 0) {
            *at = node->next;
            free(node);
        } else if (count % 3 == 1) {
            node = realloc(node, sizeof *node + 2 * node->size);
            CHECK(node && node->rest[node->size - 1] == (char)count);
            *at = node;
            at = &node->next;
        } else {
            at = &node->next;
        }
    }
    for (size_t size = 1; size < 1 << 20; size = size * 5 / 3 + 1) {
        char *zeros = calloc(3, size);
        for (size_t i = 0; i < 3 * size; i++)
            CHECK(zeros[i] == 0);
        memset(zeros, 1, 3 * size);
        free(zeros);
        for (size_t alignment = 8; alignment <= 1 << 16; alignment *= 2) {
            void *aligned = 0;
            CHECK(posix_memalign(&aligned, alignment, size) == 0);
            CHECK((uintptr_t)aligned % alignment == 0);
            memset(aligned, 2, size);
            free(aligned);
        }
    }
}

static void map_over_unsaid(size_t page)
{
    long mapped = syscall(SYS_mmap, first_of(page), PAGE, PROT_READ | PROT_WRITE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    CHECK(mapped == (long)first_of(page));
    put(page, 6);
}

/* Something else is mapped over pages, clean ones and such that came with their neighbors, and says
 * nothing of it: it keeps what it has, and what is around it leaves. */
static void strangers(void)
{
    enum { STEP = 32, CLEAN = 7, AMONG = 23 };
    for (size_t page = CLEAN; page < pages; page += STEP)
        CHECK(*first_of(page) == 0);
    for (size_t page = CLEAN; page < pages; page += STEP)
        map_over_unsaid(page);
    for (size_t page = 0; page < pages; page++) {
        if (page % STEP != CLEAN)
            put(page, 6);
        if (page % STEP == AMONG)
            map_over_unsaid(page);
    }
    for (uint64_t round = 7; round < 9; round++) {
        for (size_t page = 0; page < pages; page++)
            if (page % STEP != CLEAN && page % STEP != AMONG)
                put(page, round);
        for (size_t page = 0; page < pages; page++)
            CHECK(has(page, page % STEP == CLEAN || page % STEP == AMONG ? 6 : round));
    }
}

enum { PIECE = 128 << 10, PIECES = 1 << 18 };

/* Maps pieces until there is no room for another; how many these are. */
static size_t map_pieces(char **pieces)
{
    for (size_t count = 0;; count++) {
        CHECK(count < PIECES);
        pieces[count] = mmap(0, PIECE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (pieces[count] == MAP_FAILED) {
            CHECK(errno == ENOMEM);
            return count;
        }
    }
}

/* Every other of very many pieces is given back, and there is room for as many then: also where the
 * kernel has not so many mappings. */
static void holes(void)
{
    static char *all[PIECES], *again[PIECES];
    size_t count = map_pieces(all);
    CHECK(count > 70000);
    for (size_t round = 0; round < 2; round++) {
        size_t given = 0;
        for (size_t at = round; at < count; at += 2, given++) {
            if (given % 64 == 0)
                all[at][PIECE / 2] = 1;
            CHECK(munmap(all[at], PIECE) == 0);
        }
        CHECK(map_pieces(again) == given);
        for (size_t at = 0; at < given; at++) {
            if (at % 4 == 0)
                CHECK(again[at][PIECE / 2] == 0);
            all[round + 2 * at] = again[at];
        }
    }
}

static volatile size_t target;
static volatile uint64_t touched;
static volatile int over;

static void *touch_on(void *unused)
{
    (void)unused;
    uint64_t random = 7;
    while (!over) {
        random = random * 6364136223846793005UL + 1442695040888963407UL;
        size_t page = (random >> 33) % pages;
        target = page + 1;
        uint64_t found = *first_of(page);
        CHECK(found == 0 || found == value(page, 9));
        touched++;
    }
    return 0;
}

/* A thread goes on, although another drops the page that it waits for. */
static void drops(void)
{
    pthread_t toucher;
    for (size_t page = 0; page < pages; page++)
        *first_of(page) = value(page, 9);
    CHECK(pthread_create(&toucher, 0, touch_on, 0) == 0);
    for (size_t i = 0; i < 3000; i++) {
        size_t page = (target = 0);
        for (size_t spins = 0; (page = target) == 0; spins++)
            if (spins % 1000 == 999)
                sched_yield();
        uint64_t before = touched;
        CHECK(madvise((void *)first_of(page - 1), PAGE, MADV_DONTNEED) == 0);
        for (int waited = 0; touched == before; waited++) {
            CHECK(waited < 20000);
            usleep(500);
        }
        *first_of(page - 1) = value(page - 1, 9);
    }
    over = 1;
    pthread_join(toucher, 0);
}
void spin(void)
{
    for (size_t page = 0; page < pages; page++)
        put(page, 1);
    puts("ready");
    fflush(stdout);
    for (;;)
        for (size_t page = 0; page < pages; page++)
            CHECK(has(page, 1));
}


/* Writes and reads all of it, in one order and then in another, until the input ends. */
static void busy(void)
{
    size_t step = pages / 2 + 1, at = 0, round = 1;
    for (size_t page = 0; page < pages; page++)
        put(page, round);
    puts("ready");
    fflush(stdout);
    struct pollfd input = {.fd = 0, .events = POLLIN};
    do {
        for (size_t count = 0; count < pages; count++, at = (at + step) % pages) {
            CHECK(has(at, round));
            put(at, round + 1);
        }
        round++;
        step = step == 1 ? pages / 2 + 1 : 1;
    } while (round < 4 || poll(&input, 1, 0) == 0);
    for (size_t page = 0; page < pages; page++)
        CHECK(has(page, round));
}

int main(int count, char **arguments)
{
    CHECK(count == 3);
    const char *mode = arguments[1];
    bytes = strtoul(arguments[2], 0, 10) << 20;
    pages = bytes / PAGE;
    if (!strcmp(mode, "heap")) {
        heap();
    } else {
        memory = map(bytes);
        if (!strcmp(mode, "fill"))
            fill();
        else if (!strcmp(mode, "churn"))
            in_threads(churn_part);
        else if (!strcmp(mode, "forks"))
            forks();
        else if (!strcmp(mode, "daemons"))
            daemons();
        else if (!strcmp(mode, "mappings"))
            mappings();
        else if (!strcmp(mode, "habits"))
            habits();
        else if (!strcmp(mode, "holes"))
            holes();
        else if (!strcmp(mode, "drops"))
            drops();
        else if (!strcmp(mode, "stopped"))
            stopped();
        else if (!strcmp(mode, "strangers"))
            strangers();
        else if (!strcmp(mode, "shares"))
            shares();
        else if (!strcmp(mode, "busy"))
            busy();
        else if (!strcmp(mode, "silent"))
            silent();
        else if (!strcmp(mode, "namespaces"))
            namespaces();
        else
            spin();
    }
    puts("all is as it was");
    return 0;
}
