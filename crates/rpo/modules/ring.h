/* The ring that servers' modules tell rhythm rpo of requests by: what writes it, for all modules.
 *
 * Licensed under the Apache License 2.0 or the MIT license, as you like.
 *
 * The records lie in a file that all processes of the server have mapped. Its layout is drawn in
 * crates/rpo/src/collector/ring.rs, which reads it; the numbers below are the same.
 *
 * A record costs an atomic addition, a clock and 128 bytes of memory; there is no lock, so a
 * process that is killed at any point hinders nobody. Nothing in the shared memory is read but the
 * head, nothing is a pointer. A module includes this once, and keeps a request's rpo_request.
 */
#ifndef RPO_RING_H
#define RPO_RING_H

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define RPO_RECORD 128
#define RPO_HEAD_AT 64
#define RPO_TEXT_AT 48
#define RPO_METHOD_MAX 16
#define RPO_RECORDS_DEFAULT 16384
#define RPO_RECORDS_MIN 64
#define RPO_RECORDS_MAX (1u << 23)
#define RPO_RECORDS_WRONG "records are a power of two, from 64 to 8388608"

enum { RPO_ARRIVAL = 1, RPO_COMPLETION = 2 };

/* A record; the file has it as it lies here. */
typedef struct {
    uint64_t number;
    uint64_t check;
    uint64_t at;
    uint64_t took;
    uint64_t token;
    uint16_t status;
    uint8_t kind;
    uint8_t method;
    uint16_t path;
    uint16_t reserved;
    char text[RPO_RECORD - RPO_TEXT_AT];
} rpo_record;

typedef char rpo_record_is_as_drawn[sizeof(rpo_record) == RPO_RECORD ? 1 : -1];

/* What is kept of a request between its arrival and its completion. Method and path, too: servers
 * make a GET of what is answered with a page for errors. They are not copied. */
typedef struct {
    uint64_t at;
    uint64_t token;
    const char *method;
    const char *path;
    size_t method_length;
    size_t path_length;
} rpo_request;

/* A ring that is mapped; `bytes` NULL: nothing is told. */
typedef struct {
    unsigned char *bytes;
    uint64_t mask;
} rpo_ring;

/* Requests of this process, so that no two have one token. */
static uint32_t rpo_requests;

static inline uint64_t rpo_now_ns(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (uint64_t)at.tv_sec * 1000000000u + (uint64_t)at.tv_nsec;
}

/* What the words of a record, but for the check itself, come to. */
static inline uint64_t rpo_check(const uint64_t *words)
{
    uint64_t sum = 0;
    unsigned i;

    for (i = 0; i < RPO_RECORD / 8; i++) {
        if (i != 1)
            sum = (((sum << 5) | (sum >> 59)) ^ words[i]) * 0x9e3779b97f4a7c15u;
    }
    return sum;
}

static inline void rpo_tell(const rpo_ring *ring, const rpo_request *kept, int kind, uint64_t now,
                            uint64_t took, unsigned status)
{
    rpo_record record;
    uint64_t *to;
    uint64_t words[RPO_RECORD / 8];
    uint64_t number;
    size_t length, most;
    unsigned i;

    memset(&record, 0, sizeof record);
    record.at = now;
    record.took = took;
    record.token = kept->token;
    record.status = (uint16_t)status;
    record.kind = (uint8_t)kind;
    length = kept->method_length > RPO_METHOD_MAX ? RPO_METHOD_MAX : kept->method_length;
    if (length)
        memcpy(record.text, kept->method, length);
    record.method = (uint8_t)length;
    most = sizeof record.text - length;
    if (most > kept->path_length)
        most = kept->path_length;
    /* What follows the path is of no interest, and may be a secret. */
    for (length = 0; length < most && kept->path[length] != '?' && kept->path[length] != '#';
         length++)
        record.text[record.method + length] = kept->path[length];
    record.path = (uint16_t)length;

    number = __atomic_fetch_add((uint64_t *)(ring->bytes + RPO_HEAD_AT), 1, __ATOMIC_RELAXED);
    record.number = number + 1;
    memcpy(words, &record, sizeof words);
    words[1] = rpo_check(words);
    to = (uint64_t *)(ring->bytes + RPO_RECORD * (1 + (number & ring->mask)));
    /* Who reads meanwhile sees that it is not finished, or that the check does not fit. */
    __atomic_store_n(to, 0, __ATOMIC_RELAXED);
    __atomic_thread_fence(__ATOMIC_RELEASE);
    for (i = 1; i < RPO_RECORD / 8; i++)
        __atomic_store_n(to + i, words[i], __ATOMIC_RELAXED);
    __atomic_store_n(to, words[0], __ATOMIC_RELEASE);
}

/* A request came. Texts need no end, but have to stay where they are until it was answered. */
static inline void rpo_arrived(const rpo_ring *ring, rpo_request *kept, const char *method,
                               size_t method_length, const char *path, size_t path_length)
{
    uint32_t number = __atomic_add_fetch(&rpo_requests, 1, __ATOMIC_RELAXED);

    kept->at = rpo_now_ns();
    kept->token = (uint64_t)getpid() << 32 | number;
    kept->method = method;
    kept->path = path;
    kept->method_length = method ? method_length : 0;
    kept->path_length = path ? path_length : 0;
    rpo_tell(ring, kept, RPO_ARRIVAL, kept->at, 0, 0);
}

/* It was answered. */
static inline void rpo_completed(const rpo_ring *ring, const rpo_request *kept, unsigned status)
{
    uint64_t now = rpo_now_ns();

    rpo_tell(ring, kept, RPO_COMPLETION, now, now - kept->at, status);
}

/* Whether a ring may have so many records. */
static inline int rpo_may_have(int64_t records)
{
    return records >= RPO_RECORDS_MIN && records <= RPO_RECORDS_MAX && !(records & (records - 1));
}

static inline size_t rpo_bytes(uint32_t records)
{
    return (size_t)RPO_RECORD * (1 + (size_t)records);
}

/* Whether the file begins as a ring does. What does not is somebody else's, whatever it is. */
static inline int rpo_is_a_ring(int file)
{
    char magic[8];
    struct stat meta;

    return fstat(file, &meta) == 0 && S_ISREG(meta.st_mode)
           && pread(file, magic, sizeof magic, 0) == sizeof magic
           && memcmp(magic, "RPORING1", sizeof magic) == 0;
}

/* Whether the file is of this user, of no second name, and just as long as so many records are, and
 * nobody else may write to it: who could shorten it would end all processes that have it mapped. */
static inline int rpo_looks_ours(int file, uint32_t records)
{
    struct stat meta;

    return fstat(file, &meta) == 0 && S_ISREG(meta.st_mode) && meta.st_uid == geteuid()
           && !(meta.st_mode & 022) && meta.st_nlink == 1
           && (size_t)meta.st_size == rpo_bytes(records);
}

/* Whether it is the ring that this user made, with this many records. */
static inline int rpo_is_ours(int file, uint32_t records)
{
    uint32_t numbers[2];

    return rpo_is_a_ring(file) && rpo_looks_ours(file, records)
           && pread(file, numbers, sizeof numbers, 8) == sizeof numbers && numbers[0] == RPO_RECORD
           && numbers[1] == records;
}

/* Opens the ring that lies there; -1 and errno where none does, EEXIST where something else. One
 * whose head a process wrote over that has it mapped (a worker that was taken over) is told by all
 * the rest, lest it could have nothing told of for good. */
static inline int rpo_open_old(const char *path, uint32_t records)
{
    /* Of a device or a pipe nothing is waited for. */
    int file = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);

    if (file >= 0 && !rpo_is_a_ring(file) && !rpo_looks_ours(file, records)) {
        close(file);
        errno = EEXIST;
        return -1;
    }
    return file;
}

/* Opens the ring that an earlier configuration left, or makes one; -1 and errno where neither. */
static inline int rpo_open(const char *path, uint32_t records)
{
    char *made;
    int file = rpo_open_old(path, records);
    uint32_t numbers[2] = {RPO_RECORD, records};

    if (file >= 0) {
        if (rpo_is_ours(file, records))
            return file;
        close(file);
        /* Of another size or user, or written over: whoever has it mapped keeps it. */
        if (unlink(path) != 0)
            return -1;
    } else if (errno != ENOENT) {
        return -1;
    }
    /* It appears under its name when it is whole, and has one that is nobody's until then. */
    made = malloc(strlen(path) + sizeof ".XXXXXX");
    if (!made)
        return -1;
    strcpy(made, path);
    strcat(made, ".XXXXXX");
    file = mkstemp(made);
    /* posix_fallocate: where there is no room, now is when to know, not in a request. */
    if (file >= 0
        && ((errno = posix_fallocate(file, 0, (off_t)rpo_bytes(records))) != 0
            || pwrite(file, numbers, sizeof numbers, 8) != sizeof numbers
            || pwrite(file, "RPORING1", 8, 0) != 8 || rename(made, path) != 0)) {
        int why = errno;
        close(file);
        unlink(made);
        errno = why;
        file = -1;
    }
    free(made);
    return file;
}

/* What to say of a ring that could not be opened, by errno. */
static inline const char *rpo_not_opened(void)
{
    return errno == EEXIST ? "is there, and no ring: name another file, or remove it"
                           : "cannot be opened";
}

/* What rpo_map would say of what lies there, and errno, or NULL; nothing is changed. */
static inline const char *rpo_look(const char *path, uint32_t records)
{
    int file = rpo_open_old(path, records);

    if (file < 0)
        return errno == ENOENT ? NULL : rpo_not_opened();
    close(file);
    return NULL;
}

/* Opens and maps a ring; what is wrong with it, and errno, or NULL where nothing is. */
static inline const char *rpo_map(rpo_ring *ring, const char *path, uint32_t records)
{
    void *mapped;
    int file = rpo_open(path, records);
    int why;

    if (file < 0)
        return rpo_not_opened();
    mapped = mmap(NULL, rpo_bytes(records), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    why = errno;
    close(file);
    errno = why;
    if (mapped == MAP_FAILED)
        return "cannot be mapped";
    ring->bytes = mapped;
    ring->mask = records - 1;
    return NULL;
}

static inline void rpo_unmap(rpo_ring *ring)
{
    if (ring->bytes)
        munmap(ring->bytes, rpo_bytes((uint32_t)ring->mask + 1));
    ring->bytes = NULL;
}

#endif
