/* A slot cache in C: three clients of one slot, a thread that waits for it, and an interrupt.
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

/* A thread that wants data 6, and frees it. */
static void *wait_for_slot(void *user)
{
    umbra_cache cache = *(umbra_cache *)user;
    uint32_t slot, found;
    must(umbra_cache_alloc(cache, 6, PATIENCE_MS, &slot, &found));
    CHECK(slot == 10 && found == UMBRA_FOUND_EMPTY);
    must(umbra_cache_abandon(cache, 6));
    must(umbra_cache_free(cache, 6));
    return NULL;
}

/* A thread that waits until it is interrupted. */
static void *wait_for_interrupt(void *user)
{
    umbra_cache cache = *(umbra_cache *)user;
    CHECK(umbra_cache_wait_filled(cache, 7, PATIENCE_MS) == -UMBRA_EINTERRUPTED);
    return NULL;
}

/* Caches under keys: made and ended while the program runs. */
static void many(void)
{
    struct umbra_cache_options options;
    umbra_cache first, second, found;
    umbra_caches caches;
    uint32_t slot, what;

    doing = "caches under keys";
    memset(&options, 0, sizeof options);
    options.size = sizeof options;
    options.slots = 2;
    options.contract = UMBRA_CACHE_REMEMBERING;
    must(umbra_caches_create(2, &caches));
    must(umbra_caches_add(caches, 7, &options, &first));
    CHECK(umbra_caches_add(caches, 7, &options, &second) == -UMBRA_EKEYTAKEN);
    must(umbra_caches_add(caches, 8, &options, &second));
    CHECK(umbra_caches_add(caches, 9, &options, &found) == -UMBRA_EFULL);
    must(umbra_caches_find(caches, 8, &found));
    CHECK(found == second && first != second);
    CHECK(umbra_caches_find(caches, 9, &found) == -UMBRA_ENOKEY);

    must(umbra_cache_alloc(first, 1, 0, &slot, &what));
    CHECK(umbra_caches_end(caches, 7) == -UMBRA_EINUSE);
    must(umbra_cache_remember(first, 1));
    must(umbra_cache_free(first, 1));
    must(umbra_caches_end(caches, 7));
    CHECK(umbra_caches_end(caches, 7) == -UMBRA_ENOKEY);
    CHECK(umbra_cache_free(first, 1) == -UMBRA_ESTALE);
    must(umbra_caches_add(caches, 7, &options, &found));
    CHECK(found != first);

    /* A slot that is being filled holds its cache until nobody writes to it any more. */
    must(umbra_cache_alloc(second, 1, 0, &slot, &what));
    CHECK(umbra_caches_interrupt_and_end(caches, 8) == -UMBRA_EINUSE);
    CHECK(umbra_cache_alloc(second, 2, 0, &slot, &what) == -UMBRA_EINTERRUPTED);
    must(umbra_cache_settle(second, slot));
    must(umbra_caches_interrupt_and_end(caches, 8));

    CHECK(umbra_caches_find(found, 7, &found) == -UMBRA_EKIND);
    must(umbra_caches_destroy(caches));
    CHECK(umbra_cache_free(found, 1) == -UMBRA_ESTALE);
    CHECK(umbra_caches_destroy(caches) == -UMBRA_ESTALE);
}

/* References to many data are taken and given back at once. */
static void batches(void)
{
    enum { COUNT = 200 };
    struct umbra_cache_options options;
    struct umbra_cache_grant grants[COUNT + 1], again;
    uint64_t data[COUNT + 1];
    umbra_cache cache;
    size_t done = 99;
    char detail[512];
    int i, round;

    doing = "batches";
    memset(&options, 0, sizeof options);
    options.size = sizeof options;
    options.slots = COUNT;
    options.contract = UMBRA_CACHE_REMEMBERING;
    must(umbra_cache_create(&options, &cache));
    for (i = 0; i <= COUNT; i++)
        data[i] = (uint64_t)i << 33 | 5;
    for (round = 0; round < 2; round++) {
        memset(grants, 0xff, sizeof grants);
        CHECK(umbra_cache_alloc_all(cache, data, COUNT + 1, grants, &done) == -UMBRA_EFULL && done == COUNT);
        must(umbra_error_detail(detail, sizeof detail, NULL));
        CHECK(strstr(detail, "after 200 of the batch") != NULL);
        for (i = 0; i < COUNT; i++) {
            CHECK(grants[i].slot < COUNT && grants[i].references == 1);
            CHECK(grants[i].found == (round == 0 ? UMBRA_FOUND_EMPTY : UMBRA_FOUND_REMEMBERED));
            if (round == 0)
                must(umbra_cache_remember(cache, data[i]));
        }
        CHECK(grants[COUNT].slot == 0xffffffff);
        /* Those of other data are worth as much, but for a search. */
        again = grants[0];
        grants[0] = grants[1];
        grants[1] = again;
        must(umbra_cache_free_all(cache, data, round == 0 ? grants : NULL, COUNT, &done));
        CHECK(done == COUNT);
        CHECK(umbra_cache_free_all(cache, data, grants, COUNT, &done) == -UMBRA_EUNUSED && done == 0);
    }

    doing = "batches that end early";
    must(umbra_cache_alloc_all(cache, data, 100, grants, &done));
    CHECK(done == 100);
    data[90] = data[3];
    CHECK(umbra_cache_free_all(cache, data, grants, 100, &done) == -UMBRA_EUNUSED && done == 90);
    data[90] = 77;
    CHECK(umbra_cache_free_all(cache, data + 90, grants + 90, 10, &done) == -UMBRA_ENOSLOT && done == 0);
    memset(grants, 0xff, sizeof grants);
    must(umbra_cache_free_all(cache, data + 91, grants, 9, &done));
    CHECK(done == 9);
    CHECK(umbra_cache_alloc_all(cache, NULL, 2, grants, &done) == -UMBRA_EINVAL && done == 0);
    CHECK(umbra_cache_alloc_all(cache, data, 2, NULL, &done) == -UMBRA_EINVAL);
    CHECK(umbra_cache_alloc_all(cache, data, 2, grants, NULL) == -UMBRA_EINVAL);
    CHECK(umbra_cache_free_all(cache, data, NULL, 1, NULL) == -UMBRA_EINVAL);
    CHECK(umbra_cache_free_all(cache, data, NULL, 1, &done) == -UMBRA_EUNUSED);
    must(umbra_cache_alloc_all(cache, NULL, 0, NULL, &done));
    CHECK(done == 0);
    must(umbra_cache_interrupt(cache));
    CHECK(umbra_cache_free_all(cache, data, grants, 2, &done) == -UMBRA_EINTERRUPTED && done == 0);
    must(umbra_cache_destroy(cache));
    done = 9;
    CHECK(umbra_cache_alloc_all(cache, data, 2, grants, &done) == -UMBRA_ESTALE && done == 0);
    done = 9;
    CHECK(umbra_cache_free_all(cache, data, grants, 2, &done) == -UMBRA_ESTALE && done == 0);
}

/* References as values, what slots are doing, and how many references there are. */
static void pins(void)
{
    struct umbra_cache_options options;
    struct umbra_pin first, second, made_up;
    uint32_t state, references, slot, found;
    umbra_cache cache;

    doing = "pins";
    memset(&options, 0, sizeof options);
    options.size = sizeof options;
    options.first_slot = 10;
    options.slots = 1;
    options.contract = UMBRA_CACHE_REMEMBERING;
    must(umbra_cache_create(&options, &cache));
    must(umbra_cache_state(cache, 5, &state));
    must(umbra_cache_references(cache, 5, &references));
    CHECK(state == UMBRA_SLOT_NONE && references == 0);
    must(umbra_cache_pin(cache, 5, 0, &first));
    CHECK(first.data == 5 && first.slot == 10 && first.found == UMBRA_FOUND_EMPTY && first.mark != 0);
    must(umbra_cache_state(cache, 5, &state));
    CHECK(state == UMBRA_SLOT_FILLING);
    must(umbra_cache_abandon(cache, 5));
    must(umbra_cache_state(cache, 5, &state));
    CHECK(state == UMBRA_SLOT_ABANDONED);
    must(umbra_cache_alloc(cache, 5, 0, &slot, &found));
    CHECK(found == UMBRA_FOUND_EMPTY);
    must(umbra_cache_remember(cache, 5));
    must(umbra_cache_pin(cache, 5, 0, &second));
    CHECK(second.found == UMBRA_FOUND_REMEMBERED);
    must(umbra_cache_state(cache, 5, &state));
    must(umbra_cache_references(cache, 5, &references));
    CHECK(state == UMBRA_SLOT_IN_USE && references == 3);

    doing = "pins that are given back";
    must(umbra_cache_free_pin(cache, &first));
    CHECK(first.mark == 0 && umbra_cache_free_pin(cache, &first) == -UMBRA_ENOSLOT);
    made_up = second;
    made_up.slot = 11;
    CHECK(umbra_cache_free_pin(cache, &made_up) == -UMBRA_ENOSLOT);
    made_up = second;
    made_up.data = 6;
    CHECK(umbra_cache_free_pin(cache, &made_up) == -UMBRA_ENOSLOT);
    made_up = second;
    made_up.mark += (uint64_t)1 << 40;
    CHECK(umbra_cache_free_pin(cache, &made_up) == -UMBRA_ENOSLOT);
    CHECK(umbra_cache_free_pin(cache, NULL) == -UMBRA_EINVAL);
    must(umbra_cache_references(cache, 5, &references));
    CHECK(references == 2);
    must(umbra_cache_free(cache, 5));
    CHECK(umbra_cache_pin(cache, 6, 0, &first) == -UMBRA_EFULL && first.mark == 0);
    CHECK(umbra_cache_pin(cache, 6, 10, &first) == -UMBRA_ETIMEOUT);
    CHECK(umbra_cache_pin(cache, 5, 0, NULL) == -UMBRA_EINVAL);
    must(umbra_cache_references(cache, 5, &references));
    CHECK(references == 1);
    must(umbra_cache_free_pin(cache, &second));
    must(umbra_cache_state(cache, 5, &state));
    CHECK(state == UMBRA_SLOT_IDLE);
    CHECK(umbra_cache_state(cache, 5, NULL) == -UMBRA_EINVAL && umbra_cache_references(cache, 5, NULL) == -UMBRA_EINVAL);

    doing = "pins of before a reset";
    must(umbra_cache_pin(cache, 5, 0, &first));
    must(umbra_cache_interrupt(cache));
    CHECK(umbra_cache_free_pin(cache, &first) == -UMBRA_EINTERRUPTED && first.mark != 0);
    CHECK(umbra_cache_pin(cache, 5, 0, &second) == -UMBRA_EINTERRUPTED);
    CHECK(umbra_cache_state(cache, 5, &state) == -UMBRA_EINTERRUPTED);
    CHECK(umbra_cache_references(cache, 5, &references) == -UMBRA_EINTERRUPTED);
    must(umbra_cache_reset(cache));
    must(umbra_cache_pin(cache, 5, 0, &second));
    CHECK(umbra_cache_free_pin(cache, &first) == -UMBRA_ENOSLOT);
    must(umbra_cache_free_pin(cache, &second));
    must(umbra_cache_destroy(cache));
}

int main(void)
{
    struct umbra_cache_options options;
    struct umbra_cache_statistics told;
    umbra_cache cache, stack;
    uint32_t slot, found, slots[2];
    char detail[512];
    pthread_t thread;
    size_t count;
    int forgotten;

    doing = "create";
    memset(&options, 0, sizeof options);
    options.size = sizeof options;
    options.first_slot = 10;
    CHECK(umbra_cache_create(&options, &cache) == -UMBRA_EINVAL);
    options.slots = 1;
    options.ids = 100;
    must(umbra_cache_create(&options, &stack));
    options.contract = UMBRA_CACHE_FORGETFUL;
    options.policy = UMBRA_POLICY_LRU;
    must(umbra_cache_create(&options, &cache));
    options.policy = 99;
    CHECK(umbra_cache_create(&options, &cache) == -UMBRA_EINVAL);

    doing = "three clients of one slot";
    must(umbra_cache_alloc(cache, 5, 0, &slot, &found));
    CHECK(slot == 10 && found == UMBRA_FOUND_EMPTY);
    must(umbra_cache_alloc(cache, 5, 0, &slot, &found));
    CHECK(slot == 10 && found == UMBRA_FOUND_ASSIGNED);
    CHECK(umbra_cache_forget(cache, 5, NULL) == -UMBRA_EFILLING);
    must(umbra_cache_remember(cache, 5));
    must(umbra_cache_wait_filled(cache, 5, PATIENCE_MS));
    must(umbra_cache_alloc(cache, 5, 0, &slot, &found));
    CHECK(slot == 10 && found == UMBRA_FOUND_REMEMBERED);
    must(umbra_cache_free(cache, 5));
    must(umbra_cache_free(cache, 5));
    CHECK(umbra_cache_forget(cache, 5, &forgotten) == -UMBRA_EINUSE);
    must(umbra_cache_free(cache, 5));
    CHECK(umbra_cache_forget(cache, 5, (int *)(void *)((char *)&forgotten + 1)) == -UMBRA_EINVAL);
    must(umbra_cache_forget(cache, 5, &forgotten));
    CHECK(forgotten == 1);
    must(umbra_cache_forget(cache, 5, &forgotten));
    CHECK(forgotten == 0);

    doing = "errors";
    CHECK(umbra_cache_free(cache, 5) == -UMBRA_ENOSLOT);
    CHECK(umbra_cache_remember(cache, 5) == -UMBRA_ENOSLOT);
    CHECK(umbra_cache_wait_filled(cache, 5, PATIENCE_MS) == -UMBRA_ENOSLOT);
    CHECK(umbra_cache_alloc(cache, 100, 0, &slot, &found) == -UMBRA_EINVAL);
    CHECK(umbra_cache_alloc(cache, 5, 0, NULL, &found) == -UMBRA_EINVAL);
    must(umbra_cache_alloc(stack, 1, 0, &slot, &found));
    CHECK(umbra_cache_remember(stack, 1) == -UMBRA_ECONTRACT);
    CHECK(umbra_cache_alloc(stack, 2, 0, &slot, &found) == -UMBRA_EFULL);
    CHECK(umbra_cache_alloc(stack, 2, 10, &slot, &found) == -UMBRA_ETIMEOUT);
    must(umbra_error_detail(detail, sizeof detail, NULL));
    CHECK(strstr(detail, "slot 10 for data 1 (1 reference") != NULL);
    CHECK(umbra_stencil_interrupt(stack) == -UMBRA_EKIND);

    doing = "wait for a slot";
    must(umbra_cache_alloc(cache, 5, 0, &slot, &found));
    CHECK(found == UMBRA_FOUND_EMPTY);
    CHECK(pthread_create(&thread, NULL, wait_for_slot, &cache) == 0);
    must(umbra_cache_remember(cache, 5));
    CHECK(umbra_cache_remember(cache, 5) == -UMBRA_ENOTFILLING);
    must(umbra_cache_free(cache, 5));
    CHECK(pthread_join(thread, NULL) == 0);

    doing = "interrupt";
    must(umbra_cache_alloc(cache, 7, 0, &slot, &found));
    CHECK(pthread_create(&thread, NULL, wait_for_interrupt, &cache) == 0);
    must(umbra_cache_interrupt(cache));
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(umbra_cache_free(cache, 7) == -UMBRA_EINTERRUPTED);
    CHECK(umbra_cache_reset(cache) == -UMBRA_EFILLING);
    must(umbra_cache_outstanding(cache, slots, 2, &count));
    CHECK(count == 1 && slots[0] == 10);
    must(umbra_cache_settle(cache, 10));
    must(umbra_cache_reset(cache));
    must(umbra_cache_alloc(cache, 7, 0, &slot, &found));
    CHECK(found == UMBRA_FOUND_EMPTY);

    doing = "end";
    told.size = sizeof told;
    must(umbra_cache_statistics(cache, &told));
    CHECK(told.hits == 1 && told.joins == 1);
    must(umbra_cache_destroy(cache));
    CHECK(umbra_cache_destroy(cache) == -UMBRA_ESTALE);
    must(umbra_cache_destroy(stack));
    many();
    batches();
    pins();
    printf("all is right\n");
    return 0;
}
