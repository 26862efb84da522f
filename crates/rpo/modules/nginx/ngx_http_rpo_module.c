/* ngx_http_rpo_module: tells rhythm rpo of each request's arrival and completion.
 *
 * Licensed under the Apache License 2.0 or the MIT license, as you like.
 *
 * The records lie in a ring, which ring.h writes.
 *
 *   init_module      opens the file, or makes it, and maps it, before workers are forked
 *   post-read phase  an arrival: after the head was read, before anything is done for it
 *   log phase        a completion: after the last byte was given to the network
 *
 * The ring belongs to a configuration, so workers of the one before keep theirs until they end.
 * What is kept of a request is in its pool's cleanups: an internal redirect forgets what modules
 * keep otherwise.
 */
#include <ngx_config.h>

/* The others need what is in ngx_config.h. */
#include <ngx_core.h>
#include <ngx_http.h>

#include "ring.h"

typedef struct {
    ngx_str_t path; /* empty: nothing is told */
    uint32_t records;
    rpo_ring ring;
} rpo_conf;

static void *create_conf(ngx_conf_t *cf);
static char *set_ring(ngx_conf_t *cf, ngx_command_t *command, void *conf);
static ngx_int_t add_hooks(ngx_conf_t *cf);
static ngx_int_t map_ring(ngx_cycle_t *cycle);

static ngx_command_t commands[] = {
    {ngx_string("rpo_ring"), NGX_HTTP_MAIN_CONF | NGX_CONF_TAKE12, set_ring,
     NGX_HTTP_MAIN_CONF_OFFSET, 0, NULL},
    ngx_null_command};

static ngx_http_module_t context = {NULL, add_hooks, create_conf, NULL, NULL, NULL, NULL, NULL};

ngx_module_t ngx_http_rpo_module = {
    NGX_MODULE_V1, &context, commands, NGX_HTTP_MODULE, NULL, map_ring, NULL, NULL, NULL, NULL,
    NULL,          NGX_MODULE_V1_PADDING};

/* Does nothing; by it what is kept of a request is told from what others keep. */
static void forget(void *kept)
{
    (void)kept;
}

static ngx_int_t arrival(ngx_http_request_t *r)
{
    const rpo_conf *conf = ngx_http_get_module_main_conf(r, ngx_http_rpo_module);
    ngx_pool_cleanup_t *cleanup;

    if (!conf->ring.bytes || r != r->main || r->internal)
        return NGX_DECLINED;
    cleanup = ngx_pool_cleanup_add(r->pool, sizeof(rpo_request));
    if (!cleanup)
        return NGX_DECLINED;
    cleanup->handler = forget;
    rpo_arrived(&conf->ring, cleanup->data, (const char *)r->method_name.data, r->method_name.len,
                (const char *)r->unparsed_uri.data, r->unparsed_uri.len);
    return NGX_DECLINED;
}

static ngx_int_t completion(ngx_http_request_t *r)
{
    const rpo_conf *conf = ngx_http_get_module_main_conf(r, ngx_http_rpo_module);
    const ngx_pool_cleanup_t *cleanup;

    if (!conf->ring.bytes || r != r->main)
        return NGX_OK;
    for (cleanup = r->pool->cleanup; cleanup; cleanup = cleanup->next) {
        if (cleanup->handler == forget) {
            rpo_completed(&conf->ring, cleanup->data,
                          (unsigned)(r->err_status ? r->err_status : r->headers_out.status));
            break;
        }
    }
    return NGX_OK;
}

static void unmap(void *ring)
{
    rpo_unmap(ring);
}

/* Once a configuration, in the master, or in the only process there is. */
static ngx_int_t map_ring(ngx_cycle_t *cycle)
{
    rpo_conf *conf = ngx_http_cycle_get_module_main_conf(cycle, ngx_http_rpo_module);
    ngx_pool_cleanup_t *cleanup;
    const char *path, *wrong;

    if (!conf || !conf->path.len)
        return NGX_OK;
    cleanup = ngx_pool_cleanup_add(cycle->pool, 0);
    if (!cleanup)
        return NGX_ERROR;
    path = (const char *)conf->path.data;
    wrong = ngx_test_config ? rpo_look(path, conf->records)
                            : rpo_map(&conf->ring, path, conf->records);
    if (wrong)
        ngx_log_error(NGX_LOG_ERR, cycle->log, errno,
                      "rpo_ring: %V %s; requests are served and not told of", &conf->path, wrong);
    cleanup->handler = unmap;
    cleanup->data = &conf->ring;
    return NGX_OK;
}

static ngx_int_t add_hook(ngx_conf_t *cf, ngx_http_phases phase, ngx_http_handler_pt hook)
{
    ngx_http_core_main_conf_t *core = ngx_http_conf_get_module_main_conf(cf, ngx_http_core_module);
    ngx_http_handler_pt *place = ngx_array_push(&core->phases[phase].handlers);

    if (!place)
        return NGX_ERROR;
    *place = hook;
    return NGX_OK;
}

static ngx_int_t add_hooks(ngx_conf_t *cf)
{
    const rpo_conf *conf = ngx_http_conf_get_module_main_conf(cf, ngx_http_rpo_module);

    /* Who has no ring pays nothing. */
    if (!conf->path.len)
        return NGX_OK;
    if (add_hook(cf, NGX_HTTP_POST_READ_PHASE, arrival) != NGX_OK)
        return NGX_ERROR;
    return add_hook(cf, NGX_HTTP_LOG_PHASE, completion);
}

static void *create_conf(ngx_conf_t *cf)
{
    rpo_conf *conf = ngx_pcalloc(cf->pool, sizeof *conf);

    if (conf)
        conf->records = RPO_RECORDS_DEFAULT;
    return conf;
}

static char *set_ring(ngx_conf_t *cf, ngx_command_t *command, void *of)
{
    rpo_conf *conf = of;
    const ngx_str_t *words = cf->args->elts;
    ngx_int_t number;

    (void)command;
    if (conf->path.len)
        return "is duplicate";
    if (!words[1].len)
        return "has no path";
    conf->path = words[1];
    if (ngx_conf_full_name(cf->cycle, &conf->path, 0) != NGX_OK)
        return NGX_CONF_ERROR;
    if (cf->args->nelts > 2) {
        number = ngx_atoi(words[2].data, words[2].len);
        if (!rpo_may_have(number))
            return RPO_RECORDS_WRONG;
        conf->records = (uint32_t)number;
    }
    return NGX_CONF_OK;
}
