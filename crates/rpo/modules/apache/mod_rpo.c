/* mod_rpo: tells rhythm rpo of each request's arrival and completion.
 *
 * Licensed under the Apache License 2.0 or the MIT license, as you like.
 *
 * The records lie in a ring, which ring.h writes.
 *
 *   post_config        opens the file, or makes it, and maps it, before children are forked
 *   post_read_request  an arrival: after the head was read, before anything is done for it
 *   log_transaction    a completion: after the last byte was given to the network
 *
 * What is kept between the two hooks is in the request's own pool.
 */
#include "ring.h"

/* The others need what is in httpd.h. */
#include "httpd.h"

#include "apr_strings.h"
#include "http_config.h"
#include "http_core.h"
#include "http_log.h"
#include "http_protocol.h"

extern module AP_MODULE_DECLARE_DATA rpo_module;

/* Of the whole server: set once a configuration, before children are forked. */
static const char *ring_path;
static uint32_t ring_records = RPO_RECORDS_DEFAULT;
static rpo_ring ring;

static int arrival(request_rec *r)
{
    rpo_request *kept;

    if (!ring.bytes || r->main || r->prev)
        return DECLINED;
    kept = apr_palloc(r->pool, sizeof *kept);
    ap_set_module_config(r->request_config, &rpo_module, kept);
    rpo_arrived(&ring, kept, r->method, r->method ? strlen(r->method) : 0, r->unparsed_uri,
                r->unparsed_uri ? strlen(r->unparsed_uri) : 0);
    return DECLINED;
}

static int completion(request_rec *r)
{
    const rpo_request *kept;
    const request_rec *last = r;

    while (r->prev)
        r = r->prev;
    kept = ap_get_module_config(r->request_config, &rpo_module);
    if (!ring.bytes || !kept)
        return DECLINED;
    while (last->next)
        last = last->next;
    rpo_completed(&ring, kept, (unsigned)last->status);
    return DECLINED;
}

static apr_status_t unmap(void *none)
{
    (void)none;
    rpo_unmap(&ring);
    return APR_SUCCESS;
}

static int post_config(apr_pool_t *pool, apr_pool_t *log, apr_pool_t *temporary, server_rec *server)
{
    const char *wrong;

    (void)log;
    (void)temporary;
    /* The first pass only looks whether the configuration is sound. */
    if (!ring_path || ap_state_query(AP_SQ_MAIN_STATE) == AP_SQ_MS_CREATE_PRE_CONFIG)
        return OK;
    wrong = rpo_map(&ring, ring_path, ring_records);
    if (wrong) {
        ap_log_error(APLOG_MARK, APLOG_WARNING, errno, server,
                     "RpoRing: %s %s; requests are served and not told of", ring_path, wrong);
        return OK;
    }
    /* The configuration goes, and maybe this module's code with it. */
    apr_pool_cleanup_register(pool, NULL, unmap, apr_pool_cleanup_null);
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
        if (*end || !rpo_may_have(number))
            return "RpoRing: " RPO_RECORDS_WRONG;
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
