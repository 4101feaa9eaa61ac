/* Caches and memories in C that are destroyed while threads wait in calls on them: each call ends with -UMBRA_EINTERRUPTED, and
 * nobody touches what is gone.
 *
 * It checks what it is told and exits with 0 only if all of it is right.
 */
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>
#include <time.h>

#include "check.h"

#define PATIENCE_MS 60000
#define THREADS 3

/* What is destroyed, and what is waited for. */
static uint64_t object, table, group;

/* ---- what threads wait for ---- */

static void make_cache(void)
{
    struct umbra_cache_options options;
    uint32_t slot, found;
    memset(&options, 0, sizeof options);
    options.size = sizeof options;
    options.slots = 1;
    options.contract = UMBRA_CACHE_REMEMBERING;
    must(table == 0 ? umbra_cache_create(&options, &object) : umbra_caches_add(table, 7, &options, &object));
    must(umbra_cache_alloc(object, 1, 0, &slot, &found));
}

static void make_table(void)
{
    must(umbra_caches_create(1, &table));
    make_cache();
}

static void make_memory(void)
{
    struct umbra_memory_options options;
    uint64_t offset;
    memset(&options, 0, sizeof options);
    options.size = sizeof options;
    options.capacity = 4096;
    options.ranges = 4;
    must(umbra_memory_create(&options, &object));
    must(umbra_memory_alloc(object, 4096, 0, 0, &offset));
}

static void make_cached_memory(void)
{
    struct umbra_memory_options options;
    struct umbra_placed all = {1, 4096, 0, 0};
    memset(&options, 0, sizeof options);
    options.size = sizeof options;
    options.capacity = 4096;
    options.ranges = 4;
    must(umbra_cached_memory_create(&options, &object));
    must(umbra_cached_memory_alloc(object, &all, 1, 0));
}

/* One with two groups, of which the second waits for the end of the first, and no room for a third. */
static void make_stencil(void)
{
    const uint64_t input = 1;
    struct umbra_stencil_options options;
    memset(&options, 0, sizeof options);
    options.size = sizeof options;
    options.slots = 1;
    options.inputs = 4;
    options.groups = 2;
    options.largest_group = 1;
    must(umbra_stencil_create(&options, &object));
    must(umbra_stencil_submit(object, 0, &input, 1, NULL));
    must(umbra_stencil_submit(object, 1, &input, 1, &group));
}

static int cache_alloc(void)
{
    uint32_t slot, found;
    return umbra_cache_alloc(object, 2, PATIENCE_MS, &slot, &found);
}

static int cache_pin(void)
{
    struct umbra_pin pin;
    return umbra_cache_pin(object, 2, PATIENCE_MS, &pin);
}

static int cache_content(void)
{
    return umbra_cache_wait_filled(object, 1, PATIENCE_MS);
}

static int memory_alloc(void)
{
    uint64_t offset;
    return umbra_memory_alloc(object, 1, 0, PATIENCE_MS, &offset);
}

static int place(void)
{
    struct umbra_placed one = {2, 8, 0, 0};
    return umbra_cached_memory_alloc(object, &one, 1, PATIENCE_MS);
}

static int place_content(void)
{
    return umbra_cached_memory_wait_filled(object, 1, PATIENCE_MS);
}

static int stencil_alloc(void)
{
    const uint64_t input = 2;
    return umbra_stencil_alloc(object, 2, &input, 1, PATIENCE_MS, NULL);
}

static int stencil_assigned(void)
{
    return umbra_stencil_wait_assigned(object, group, PATIENCE_MS);
}

/* ---- how many wait ---- */

static uint32_t of_statistics(int (*ask)(uint64_t, struct umbra_cache_statistics *))
{
    struct umbra_cache_statistics told;
    told.size = sizeof told;
    must(ask(object, &told));
    return told.waiting;
}

static uint32_t at_cache(void)
{
    return of_statistics(umbra_cache_statistics);
}

static uint32_t at_places(void)
{
    return of_statistics(umbra_cached_memory_statistics);
}

static uint32_t at_stencil(void)
{
    return of_statistics(umbra_stencil_statistics);
}

static uint32_t at_memory(void)
{
    struct umbra_memory_figures told;
    told.size = sizeof told;
    must(umbra_memory_figures(object, &told));
    return told.waiting;
}

static int destroy_table(uint64_t cache)
{
    (void)cache;
    return umbra_caches_destroy(table);
}

static const struct wait {
    const char *name;
    void (*make)(void);
    int (*call)(void);
    uint32_t (*waiting)(void);
    int (*destroy)(uint64_t);
} waits[] = {
    {"a slot", make_cache, cache_alloc, at_cache, umbra_cache_destroy},
    {"a pin", make_cache, cache_pin, at_cache, umbra_cache_destroy},
    {"content", make_cache, cache_content, at_cache, umbra_cache_destroy},
    {"a slot of a table", make_table, cache_alloc, at_cache, destroy_table},
    {"a range", make_memory, memory_alloc, at_memory, umbra_memory_destroy},
    {"a place", make_cached_memory, place, at_places, umbra_cached_memory_destroy},
    {"content of a place", make_cached_memory, place_content, at_places, umbra_cached_memory_destroy},
    {"a turn", make_stencil, stencil_alloc, at_stencil, umbra_stencil_destroy},
    {"the slots of a group", make_stencil, stencil_assigned, at_stencil, umbra_stencil_destroy},
};

static void *blocked(void *user)
{
    const struct wait *wait = user;
    CHECK(wait->call() == -UMBRA_EINTERRUPTED);
    return NULL;
}

static void destroy_beneath(const struct wait *wait)
{
    const struct timespec a_while = {0, 1000000};
    pthread_t threads[THREADS];
    int i;
    doing = wait->name;
    table = 0;
    wait->make();
    CHECK(wait->waiting() == 0);
    for (i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, blocked, (void *)wait) == 0);
    while (wait->waiting() < THREADS)
        nanosleep(&a_while, NULL);
    must(wait->destroy(object));
    CHECK(wait->call() == -UMBRA_ESTALE);
    for (i = 0; i < THREADS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    CHECK(wait->destroy(object) == -UMBRA_ESTALE);
}

/* ---- a function that is told news ---- */

struct told {
    int prepared, ready, interrupted;
};

static void prepare(void *user, uint32_t slot, uint64_t data)
{
    struct told *told = user;
    told->prepared++;
    CHECK(slot == 0 && data == 1);
    must(umbra_stencil_destroy(object));
    CHECK(umbra_stencil_prepared(object, data) == -UMBRA_ESTALE);
}

static void ready(void *user, uint64_t point, uint64_t ready_group, const uint32_t *slots, size_t count)
{
    struct told *told = user;
    (void)point, (void)ready_group, (void)slots, (void)count;
    told->ready++;
}

static void interrupted(void *user, uint64_t point)
{
    struct told *told = user;
    CHECK(point == (uint64_t)told->interrupted);
    told->interrupted++;
}

static void destroy_in_a_callback(void)
{
    struct umbra_stencil_calls calls;
    struct told told = {0, 0, 0};
    doing = "a callback";
    memset(&calls, 0, sizeof calls);
    calls.size = sizeof calls;
    calls.user = &told;
    calls.prepare = prepare;
    calls.ready = ready;
    calls.interrupted = interrupted;
    make_stencil();
    must(umbra_stencil_deliver(object, &calls));
    CHECK(told.prepared == 1 && told.ready == 0 && told.interrupted == 2);
    CHECK(umbra_stencil_deliver(object, &calls) == -UMBRA_ESTALE);
}

int main(void)
{
    size_t at;
    for (at = 0; at < sizeof waits / sizeof *waits; at++)
        destroy_beneath(&waits[at]);
    destroy_in_a_callback();
    printf("all is right\n");
    return 0;
}
