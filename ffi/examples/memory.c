/* Memory in C: ranges that threads wait for, and groups of data of any length that are cached in one memory.
 *
 * It checks what it is told and exits with 0 only if all of it is right.
 */
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "umbra.h"

#define PATIENCE_MS 60000

/* A thread that wants all of a memory. */
static void *wait_for_range(void *user)
{
    umbra_memory memory = *(umbra_memory *)user;
    uint64_t offset;
    must(umbra_memory_alloc(memory, 1000, 0, PATIENCE_MS, &offset));
    CHECK(offset == 0);
    must(umbra_memory_free(memory, offset));
    return NULL;
}

/* A thread that wants a group, and finds one of its members filled. */
static void *wait_for_group(void *user)
{
    umbra_cached_memory memory = *(umbra_cached_memory *)user;
    struct umbra_placed group[2] = {{1, 400, 0, 99}, {3, 500, 0, 99}};
    must(umbra_cached_memory_alloc(memory, group, 2, PATIENCE_MS));
    CHECK(group[0].found == UMBRA_FOUND_REMEMBERED && group[1].found == UMBRA_FOUND_EMPTY);
    must(umbra_cached_memory_abandon(memory, 3));
    must(umbra_cached_memory_free(memory, 3));
    must(umbra_cached_memory_free(memory, 1));
    return NULL;
}

/* A thread that waits until it is interrupted. */
static void *wait_for_interrupt(void *user)
{
    umbra_cached_memory memory = *(umbra_cached_memory *)user;
    CHECK(umbra_cached_memory_wait_filled(memory, 7, PATIENCE_MS) == -UMBRA_EINTERRUPTED);
    return NULL;
}

static void ranges(struct umbra_memory_options *options)
{
    struct umbra_memory_figures told;
    umbra_memory memory;
    uint64_t first, second;
    char detail[512];
    pthread_t thread;

    doing = "ranges";
    must(umbra_memory_create(options, &memory));
    must(umbra_memory_alloc(memory, 300, 0, 0, &first));
    must(umbra_memory_alloc(memory, 200, 512, 0, &second));
    CHECK(first == 0 && second == 512);
    told.size = sizeof told;
    must(umbra_memory_figures(memory, &told));
    CHECK(told.capacity == 1000 && told.free == 500 && told.largest == 288);
    CHECK(told.used_ranges == 2 && told.free_ranges == 2);

    doing = "errors of ranges";
    CHECK(umbra_memory_alloc(memory, 1000, 0, 0, &first) == -UMBRA_EFULL);
    CHECK(umbra_memory_alloc(memory, 1000, 0, 10, &first) == -UMBRA_ETIMEOUT);
    must(umbra_error_detail(detail, sizeof detail, NULL));
    CHECK(strstr(detail, "500 of 1000 bytes are free") != NULL);
    CHECK(umbra_memory_alloc(memory, 1001, 0, PATIENCE_MS, &first) == -UMBRA_ENEVER);
    CHECK(umbra_memory_alloc(memory, 1, 3, PATIENCE_MS, &first) == -UMBRA_EINVAL);
    CHECK(umbra_memory_alloc(memory, 0, 0, PATIENCE_MS, &first) == -UMBRA_EINVAL);
    CHECK(umbra_memory_alloc(memory, 1, 0, PATIENCE_MS, NULL) == -UMBRA_EINVAL);
    CHECK(umbra_memory_free(memory, 1) == -UMBRA_EUNUSED);
    CHECK(umbra_cached_memory_free(memory, 1) == -UMBRA_EKIND);

    doing = "wait for a range";
    CHECK(pthread_create(&thread, NULL, wait_for_range, &memory) == 0);
    must(umbra_memory_free(memory, 0));
    must(umbra_memory_free(memory, 512));
    CHECK(pthread_join(thread, NULL) == 0);
    must(umbra_memory_interrupt(memory));
    CHECK(umbra_memory_alloc(memory, 1, 0, 0, &first) == -UMBRA_EINTERRUPTED);
    must(umbra_memory_destroy(memory));
    CHECK(umbra_memory_free(memory, 0) == -UMBRA_ESTALE);
}

/* How full a memory that caches is, and how scattered. */
static struct umbra_cached_memory_figures figures_of(umbra_cached_memory memory)
{
    struct umbra_cached_memory_figures told;
    told.size = sizeof told;
    must(umbra_cached_memory_figures(memory, &told));
    CHECK(told.capacity == 1000);
    return told;
}

int main(void)
{
    struct umbra_memory_options options;
    struct umbra_cached_memory_figures figures;
    struct umbra_cache_statistics told;
    struct umbra_fill fills[2];
    size_t count;
    struct umbra_placed group[2] = {{1, 400, 0, 99}, {2, 600, 0, 99}};
    struct umbra_placed large[2] = {{4, 600, 0, 99}, {5, 600, 0, 99}};
    struct umbra_placed other = {1, 401, 0, 99};
    umbra_cached_memory memory;
    char detail[200];
    pthread_t thread;
    int forgotten;

    doing = "create";
    memset(&options, 0, sizeof options);
    options.size = sizeof options;
    CHECK(umbra_cached_memory_create(&options, &memory) == -UMBRA_EINVAL);
    options.capacity = 1000;
    options.ranges = 8;
    options.granule = 3;
    CHECK(umbra_memory_create(&options, &memory) == -UMBRA_EINVAL);
    options.granule = 1;
    options.capacity = UINT32_MAX;
    CHECK(umbra_memory_create(&options, &memory) == -UMBRA_EINVAL);
    CHECK(umbra_cached_memory_create(&options, &memory) == -UMBRA_EINVAL);
    must(umbra_error_detail(detail, sizeof detail, NULL));
    CHECK(strstr(detail, "2^32 - 2 granules") != NULL);
    options.capacity = 1000;
    ranges(&options);

    doing = "a group";
    must(umbra_cached_memory_create(&options, &memory));
    must(umbra_cached_memory_alloc(memory, group, 2, 0));
    CHECK(group[0].found == UMBRA_FOUND_EMPTY && group[1].found == UMBRA_FOUND_EMPTY);
    CHECK(group[0].data == 1 && group[0].offset + group[1].offset == (group[0].offset == 0 ? 400 : 600));
    must(umbra_cached_memory_remember(memory, 1));
    CHECK(umbra_cached_memory_remember(memory, 1) == -UMBRA_ENOTFILLING);
    must(umbra_cached_memory_wait_filled(memory, 1, PATIENCE_MS));
    must(umbra_cached_memory_outstanding(memory, fills, 2, &count));
    CHECK(count == 1 && fills[0].data == 2 && fills[0].offset == group[1].offset);
    figures = figures_of(memory);
    CHECK(figures.free == 0 && figures.largest == 0 && figures.in_use == 1000 && figures.longest_run == 0);
    CHECK(figures.used_ranges == 2 && figures.free_ranges == 0 && figures.data_in_use == 2);

    doing = "errors of groups";
    CHECK(umbra_cached_memory_alloc(memory, large, 2, PATIENCE_MS) == -UMBRA_ENEVER);
    CHECK(umbra_cached_memory_alloc(memory, large, 1, 0) == -UMBRA_EFULL);
    CHECK(umbra_cached_memory_alloc(memory, large, 1, 10) == -UMBRA_ETIMEOUT);
    CHECK(umbra_cached_memory_alloc(memory, &other, 1, PATIENCE_MS) == -UMBRA_EINVAL);
    CHECK(umbra_cached_memory_alloc(memory, NULL, 1, PATIENCE_MS) == -UMBRA_EINVAL);
    CHECK(umbra_cached_memory_forget(memory, 1, NULL) == -UMBRA_EINUSE);
    CHECK(umbra_cached_memory_forget(memory, 2, NULL) == -UMBRA_EFILLING);
    CHECK(umbra_cached_memory_free(memory, 4) == -UMBRA_ENOSLOT);
    CHECK(umbra_cached_memory_wait_filled(memory, 4, PATIENCE_MS) == -UMBRA_ENOSLOT);
    CHECK(large[0].offset == 0 && large[0].found == 99);

    doing = "wait for a group";
    CHECK(pthread_create(&thread, NULL, wait_for_group, &memory) == 0);
    must(umbra_cached_memory_abandon(memory, 2));
    must(umbra_cached_memory_free(memory, 2));
    CHECK(pthread_join(thread, NULL) == 0);
    must(umbra_cached_memory_free(memory, 1));
    CHECK(umbra_cached_memory_free(memory, 1) == -UMBRA_EUNUSED);
    /* Data 1 is idle: it has its bytes, and may leave. */
    figures = figures_of(memory);
    CHECK(figures.free == 600 && figures.in_use == 0 && figures.data_in_use == 0 && figures.used_ranges == 1);
    CHECK(figures.longest_run >= 1000 - 1000 / 32 && figures.longest_run <= 1000);
    figures.size = 8;
    CHECK(umbra_cached_memory_figures(memory, &figures) == -UMBRA_ESTRUCT);
    CHECK(umbra_cached_memory_figures(memory, NULL) == -UMBRA_EINVAL);
    CHECK(umbra_cached_memory_forget(memory, 1, (int *)(void *)((char *)&forgotten + 1)) == -UMBRA_EINVAL);
    must(umbra_cached_memory_forget(memory, 1, &forgotten));
    CHECK(forgotten == 1);
    must(umbra_cached_memory_forget_later(memory, 1, &forgotten));
    CHECK(forgotten == 0);

    doing = "interrupt";
    large[0].data = 7;
    must(umbra_cached_memory_alloc(memory, large, 1, 0));
    /* Nobody can say so of a memory at work. */
    must(umbra_cached_memory_settle(memory, 7));
    must(umbra_cached_memory_outstanding(memory, fills, 2, &count));
    CHECK(count == 1 && fills[0].data == 7 && fills[0].offset == large[0].offset);
    CHECK(pthread_create(&thread, NULL, wait_for_interrupt, &memory) == 0);
    must(umbra_cached_memory_interrupt(memory));
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(umbra_cached_memory_free(memory, 7) == -UMBRA_EINTERRUPTED);
    must(umbra_cached_memory_outstanding(memory, fills, 2, &count));
    CHECK(count == 1 && fills[0].data == 7 && fills[0].offset == large[0].offset);
    CHECK(figures_of(memory).in_use == 600);
    must(umbra_cached_memory_settle(memory, 8));
    must(umbra_cached_memory_outstanding(memory, fills, 2, &count));
    CHECK(count == 1);
    must(umbra_cached_memory_settle(memory, 7));
    must(umbra_cached_memory_outstanding(memory, fills, 2, &count));
    CHECK(count == 0);
    told.size = sizeof told;
    must(umbra_cached_memory_statistics(memory, &told));
    CHECK(told.hits == 1 && told.loads == 4 && told.forgotten == 1);
    must(umbra_cached_memory_destroy(memory));
    CHECK(umbra_cached_memory_destroy(memory) == -UMBRA_ESTALE);
    CHECK(umbra_cached_memory_settle(memory, 7) == -UMBRA_ESTALE);
    printf("all is right\n");
    return 0;
}
