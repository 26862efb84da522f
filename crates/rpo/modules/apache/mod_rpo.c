/* mod_rpo: tells rhythm rpo of each request's arrival and completion.
 *
 * Licensed under the Apache License 2.0 or the MIT license, as you like.
 *
 * The records lie in a ring in a file that all processes of the server have mapped. Its layout is
 * drawn in crates/rpo/src/collector/ring.rs, which reads it; the numbers below are the same.
 *
 *   post_config        opens the file, or makes it, and maps it, before children are forked
 *   post_read_request  an arrival: after the head was read, before anything is done for it
 *   log_transaction    a completion: after the last byte was given to the network
 *
 * A record costs an atomic addition, a clock and 128 bytes of memory; there is no lock, so a child
 * that is killed at any point hinders nobody. What is kept between the two hooks is in the
 * request's own pool. Nothing in the shared memory is read but the head, nothing is a pointer.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* The others need what is in httpd.h. */
#include "httpd.h"

#include "apr_strings.h"
#include "http_config.h"
#include "http_core.h"
#include "http_log.h"
#include "http_protocol.h"

#define RPO_RECORD 128
#define RPO_HEAD_AT 64
#define RPO_TEXT_AT 48
#define RPO_RECORDS_DEFAULT 16384
#define RPO_RECORDS_MAX (1u << 23)

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

/* What is kept of a request between the hooks. */
typedef struct {
    uint64_t at;
    uint64_t token;
} rpo_request;

typedef char rpo_record_is_as_drawn[sizeof(rpo_record) == RPO_RECORD ? 1 : -1];

extern module AP_MODULE_DECLARE_DATA rpo_module;

/* Of the whole server: set once a configuration, before children are forked. */
static const char *ring_path;
static uint32_t ring_records = RPO_RECORDS_DEFAULT;
static unsigned char *ring; /* NULL: nothing is told */
static uint64_t ring_mask;

/* Requests of this process, so that no two have one token. */
static uint32_t requests;

static uint64_t now_ns(void)
{
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    return (uint64_t)at.tv_sec * 1000000000u + (uint64_t)at.tv_nsec;
}

/* What the words of a record, but for the check itself, come to. */
static uint64_t check_of(const rpo_record *record)
{
    uint64_t words[RPO_RECORD / 8];
    uint64_t sum = 0;
    unsigned i;

    memcpy(words, record, sizeof words);
    for (i = 0; i < RPO_RECORD / 8; i++) {
        if (i != 1)
            sum = (((sum << 5) | (sum >> 59)) ^ words[i]) * 0x9e3779b97f4a7c15u;
    }
    return sum;
}

static void tell(const request_rec *r, const rpo_request *kept, int kind, uint64_t now,
                 uint64_t took, int status)
{
    rpo_record record;
    uint64_t *to;
    uint64_t words[RPO_RECORD / 8];
    uint64_t number;
    size_t length;
    unsigned i;
    const char *path = r->unparsed_uri ? r->unparsed_uri : "";

    memset(&record, 0, sizeof record);
    record.at = now;
    record.took = took;
    record.token = kept->token;
    record.status = (uint16_t)status;
    record.kind = (uint8_t)kind;
    length = r->method ? strlen(r->method) : 0;
    if (length > 16)
        length = 16;
    memcpy(record.text, r->method ? r->method : "", length);
    record.method = (uint8_t)length;
    /* What follows the path is of no interest, and may be a secret. */
    length = strcspn(path, "?#");
    if (length > sizeof record.text - record.method)
        length = sizeof record.text - record.method;
    memcpy(record.text + record.method, path, length);
    record.path = (uint16_t)length;

    number = __atomic_fetch_add((uint64_t *)(ring + RPO_HEAD_AT), 1, __ATOMIC_RELAXED);
    record.number = number + 1;
    record.check = check_of(&record);
    memcpy(words, &record, sizeof words);
    to = (uint64_t *)(ring + RPO_RECORD * (1 + (number & ring_mask)));
    /* Who reads meanwhile sees that it is not finished, or that the check does not fit. */
    __atomic_store_n(to, 0, __ATOMIC_RELAXED);
    __atomic_thread_fence(__ATOMIC_RELEASE);
    for (i = 1; i < RPO_RECORD / 8; i++)
        __atomic_store_n(to + i, words[i], __ATOMIC_RELAXED);
    __atomic_store_n(to, words[0], __ATOMIC_RELEASE);
}

static int arrival(request_rec *r)
{
    rpo_request *kept;
    uint32_t number;

    if (!ring || r->main || r->prev)
        return DECLINED;
    kept = apr_palloc(r->pool, sizeof *kept);
    number = __atomic_add_fetch(&requests, 1, __ATOMIC_RELAXED);
    kept->at = now_ns();
    kept->token = (uint64_t)getpid() << 32 | number;
    ap_set_module_config(r->request_config, &rpo_module, kept);
    tell(r, kept, RPO_ARRIVAL, kept->at, 0, 0);
    return DECLINED;
}

static int completion(request_rec *r)
{
    const rpo_request *kept;
    const request_rec *last = r;
    uint64_t now;

    while (r->prev)
        r = r->prev;
    kept = ap_get_module_config(r->request_config, &rpo_module);
    if (!ring || !kept)
        return DECLINED;
    while (last->next)
        last = last->next;
    now = now_ns();
    tell(r, kept, RPO_COMPLETION, now, now - kept->at, last->status);
    return DECLINED;
}

static apr_status_t unmap(void *bytes)
{
    if (ring) {
        munmap(ring, (size_t)bytes);
        ring = NULL;
    }
    return APR_SUCCESS;
}

/* Whether the file of these bytes is a ring of this many records. */
static int is_ring(int file, size_t bytes)
{
    unsigned char head[16];
    uint32_t numbers[2];
    struct stat meta;

    if (fstat(file, &meta) != 0 || !S_ISREG(meta.st_mode) || (size_t)meta.st_size != bytes
        || pread(file, head, sizeof head, 0) != sizeof head || memcmp(head, "RPORING1", 8) != 0)
        return 0;
    memcpy(numbers, head + 8, sizeof numbers);
    return numbers[0] == RPO_RECORD && numbers[1] == ring_records;
}

/* Opens the ring that an earlier configuration left, or makes one; -1 and errno where neither. */
static int open_ring(size_t bytes)
{
    char *made;
    int file = open(ring_path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
    uint32_t numbers[2] = {RPO_RECORD, 0};

    if (file >= 0) {
        if (is_ring(file, bytes))
            return file;
        close(file);
        /* Of another size, or not finished: whoever has it mapped keeps it. */
        if (unlink(ring_path) != 0)
            return -1;
    } else if (errno != ENOENT) {
        return -1;
    }
    /* It appears under its name when it is whole. */
    made = malloc(strlen(ring_path) + 5);
    if (!made)
        return -1;
    strcpy(made, ring_path);
    strcat(made, ".new");
    unlink(made);
    file = open(made, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    numbers[1] = ring_records;
    /* posix_fallocate: where there is no room, now is when to know, not in a request. */
    if (file >= 0
        && ((errno = posix_fallocate(file, 0, (off_t)bytes)) != 0
            || pwrite(file, numbers, sizeof numbers, 8) != sizeof numbers
            || pwrite(file, "RPORING1", 8, 0) != 8 || rename(made, ring_path) != 0)) {
        int why = errno;
        close(file);
        unlink(made);
        errno = why;
        file = -1;
    }
    free(made);
    return file;
}

static int post_config(apr_pool_t *pool, apr_pool_t *log, apr_pool_t *temporary, server_rec *server)
{
    size_t bytes = (size_t)RPO_RECORD * (1 + (size_t)ring_records);
    void *mapped;
    int file;

    (void)log;
    (void)temporary;
    /* The first pass only looks whether the configuration is sound. */
    if (!ring_path || ap_state_query(AP_SQ_MAIN_STATE) == AP_SQ_MS_CREATE_PRE_CONFIG)
        return OK;
    file = open_ring(bytes);
    if (file < 0) {
        ap_log_error(APLOG_MARK, APLOG_WARNING, errno, server,
                     "RpoRing: cannot open %s; requests are served and not told of", ring_path);
        return OK;
    }
    mapped = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (mapped == MAP_FAILED) {
        ap_log_error(APLOG_MARK, APLOG_WARNING, errno, server,
                     "RpoRing: cannot map %s; requests are served and not told of", ring_path);
        close(file);
        return OK;
    }
    close(file);
    ring = mapped;
    ring_mask = ring_records - 1;
    /* The configuration goes, and maybe this module's code with it. */
    apr_pool_cleanup_register(pool, (void *)bytes, unmap, apr_pool_cleanup_null);
    return OK;
}

static int pre_config(apr_pool_t *pool, apr_pool_t *log, apr_pool_t *temporary)
{
    (void)pool;
    (void)log;
    (void)temporary;
    ring_path = NULL;
    ring_records = RPO_RECORDS_DEFAULT;
    return OK;
}

static const char *set_ring(cmd_parms *command, void *dir, const char *path, const char *records)
{
    const char *wrong = ap_check_cmd_context(command, GLOBAL_ONLY);
    char *end;
    apr_int64_t number;

    (void)dir;
    if (wrong)
        return wrong;
    ring_path = ap_server_root_relative(command->pool, path);
    if (!ring_path)
        return "RpoRing: this is no path";
    if (records) {
        number = apr_strtoi64(records, &end, 10);
        if (*end || number < 64 || number > RPO_RECORDS_MAX || (number & (number - 1)))
            return "RpoRing: records are a power of two, from 64 to 8388608";
        ring_records = (uint32_t)number;
    }
    return NULL;
}

static const command_rec commands[] = {
    AP_INIT_TAKE12("RpoRing", set_ring, NULL, RSRC_CONF,
                   "the file of the ring, and how many records it has"),
    {NULL}};

static void register_hooks(apr_pool_t *pool)
{
    (void)pool;
    ap_hook_pre_config(pre_config, NULL, NULL, APR_HOOK_MIDDLE);
    ap_hook_post_config(post_config, NULL, NULL, APR_HOOK_MIDDLE);
    ap_hook_post_read_request(arrival, NULL, NULL, APR_HOOK_REALLY_FIRST);
    ap_hook_log_transaction(completion, NULL, NULL, APR_HOOK_MIDDLE);
}

AP_DECLARE_MODULE(rpo) = {STANDARD20_MODULE_STUFF, NULL, NULL, NULL, NULL, commands, register_hooks,
                          0};
